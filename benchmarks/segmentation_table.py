"""Records and tables of the segmentation benchmark, with paired differences to the structured SVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import table
from benchmarks.records import mean, record, std, summary
from benchmarks.units import Result, Unit

TWO_LABELS = ("mean_iou", "iou_foreground", "iou_background", "accuracy", "precision_recall")
MANY_LABELS = ("mean_iou", "global_accuracy", "class_accuracy")
BASELINE = "ssvm"


def records(name: str, finished: Sequence[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """A record for each method and metric, over the seeds.

    Table 6 of the paper has the mean over bike, car and people; there is no figure for these sets.
    """
    by_seed = [result["methods"] for _, result in finished]
    made = []
    for method in dict.fromkeys(method for methods in by_seed for method in methods):
        having = [methods for methods in by_seed if method in methods]
        results = [methods[method] for methods in having]
        for metric in TWO_LABELS if "iou_foreground" in results[0] else MANY_LABELS:
            fields = summary([{**result, "value": result[metric]} for result in results])
            tuning_seconds = fields.pop("tuning_seconds")
            differences = [] if method == BASELINE else [m[method][metric] - m[BASELINE][metric] for m in having]
            more = {
                "difference": mean(differences),
                "difference_std": std(differences),
                "images_won": mean(_images_won(method, methods) for methods in having),
                "argmax_ms": mean(result.get("argmax_ms") for result in results),
                "tuning_seconds": tuning_seconds,
            }
            made.append(record(name, method, metric, **fields, paper=None, **more))
    return made


def _images_won(method: str, methods: Result) -> float | None:
    """Test images on which mean IoU is above the structured SVM's, less those below."""
    if method == BASELINE or "by_image" not in methods[method]:
        return None
    ours, theirs = (np.array(methods[m]["by_image"]) for m in (method, BASELINE))
    return float((ours > theirs + 1e-9).sum() - (ours < theirs - 1e-9).sum())


def show(made: Sequence[dict[str, Any]]) -> str:
    """Tables of two classes and of many, and the differences."""
    texts = []
    for metrics in (TWO_LABELS, MANY_LABELS):
        names = [n for n in dict.fromkeys(r["dataset"] for r in made) if _metrics_of(made, n) == set(metrics)]
        if names:
            texts += [_table(made, names, metrics), _differences(made, names, metrics)]
    note = (
        "In %, mean ±std over the seeds. AdaBoost and SVM label single superpixels by visual words (on grabcut_bsds by "
        "their relation to the scribbles); unaries: all classifiers of the potentials together, and no CRF; all CRFs "
        "have the same potentials and candidates for C. Differences are paired by seed; won: test images on which mean "
        "IoU is above the SSVM's, less those below. fit s: one fit at the chosen C, potentials ready; argmax ms: an "
        "image."
    )
    return "\n\n".join([*texts, note])


def _metrics_of(made: Sequence[dict[str, Any]], name: str) -> set[str]:
    return {r["metric"] for r in made if r["dataset"] == name}


def _cells(made: Sequence[dict[str, Any]], name: str, metrics: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Records of a set by method, in the order of the metrics."""
    own = [r for r in made if r["dataset"] == name]
    by_key = {(r["method"], r["metric"]): r for r in own}
    return {
        method: [by_key[method, metric] for metric in metrics] for method in dict.fromkeys(r["method"] for r in own)
    }


def _table(made: Sequence[dict[str, Any]], names: Sequence[str], metrics: Sequence[str]) -> str:
    rows = [
        [
            f"{name} {method}",
            *(table.percent(cell, 1) for cell in cells),
            table.number(cells[0]["C"], "{:g}"),
            table.number(cells[0]["rounds"], "{:.0f}"),
            table.share(cells[0]["gap"]),
            table.number(cells[0]["seconds"], "{:.1f}"),
            table.number(cells[0]["argmax_ms"], "{:.2f}"),
        ]
        for name in names
        for method, cells in _cells(made, name, metrics).items()
    ]
    head = ["", *(metric.replace("_", " ") for metric in metrics), "C", "rounds", "gap", "fit s", "argmax ms"]
    return table.aligned(head, rows)


def _differences(made: Sequence[dict[str, Any]], names: Sequence[str], metrics: Sequence[str]) -> str:
    """What each method has over the structured SVM, seed by seed."""
    rows = [
        [
            f"{name} {method} - {BASELINE}",
            *(_difference(cell) for cell in cells),
            table.number(cells[0]["images_won"], "{:+.1f}"),
        ]
        for name in names
        for method, cells in _cells(made, name, metrics).items()
        if method != BASELINE
    ]
    return table.aligned(["", *(metric.replace("_", " ") for metric in metrics), "won"], rows)


def _difference(cell: dict[str, Any]) -> str:
    text = table.number(None if cell["difference"] is None else 100 * cell["difference"], "{:+.2f}")
    return text if cell["difference_std"] is None else f"{text} ±{100 * cell['difference_std']:.2f}"
