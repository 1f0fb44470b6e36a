"""Tracking (Tables 4 and 5, figs. 5 and 6 of StructBoost): mean overlap, centre error, speed; one set of defaults."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from collections.abc import Sequence as Listed
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import table
from benchmarks.imports import imported_sources
from benchmarks.records import mean, median, record, std
from benchmarks.sequences import Sequence, load_sequence
from benchmarks.units import Result, Unit, source_hash

DATASETS = ("coke", "tiger1", "girl", "sylv", "couple", "deer", "motorrolling")
QUICK_DATASETS = ("deer",)
SEEDS = (0, 1, 2)
# Our trackers by name: module, class.
TRACKERS = {
    "structboost": ("structboost.tracking.structboost_tracker", "StructBoostTracker"),
    "adaboost": ("structboost.tracking.adaboost_tracker", "AdaBoostTracker"),
    "struck_50": ("structboost.tracking.struck_tracker", "StruckTracker"),
}
OPENCV_MIL = "opencv_mil"
METHODS = (*TRACKERS, OPENCV_MIL)
# OpenCV 4's CSRT on the same files from the first box (issue 4): this OpenCV has none.
CSRT = {"coke": 0.53, "tiger1": 0.67, "girl": 0.55, "sylv": 0.81, "couple": 0.67, "deer": 0.80, "motorrolling": 0.09}
# Table 4, mean overlap: StructBoost, AdaBoost, Struck with a budget of 50, MIL.
TABLE_4 = {
    "coke": (0.79, 0.47, 0.55, 0.36),
    "tiger1": (0.75, 0.64, 0.68, 0.64),
    "girl": (0.74, 0.41, 0.80, 0.56),
    "sylv": (0.66, 0.52, 0.69, 0.66),
}
SHEET_FRAMES = 6
# Filled by `units`, for the plots.
_sequences: dict[str, Sequence] = {}


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of a sequence."""
    sequence = _sequences[name] = load_sequence(name, data_dir)
    return [
        _unit(sequence, method, seed)
        for method in METHODS
        for seed in (SEEDS[:1] if quick or method == OPENCV_MIL else SEEDS)
    ]


def _unit(sequence: Sequence, method: str, seed: int) -> Unit:
    """One tracker with one seed."""
    module = TRACKERS[method][0] if method in TRACKERS else "structboost.tracking.measures"
    code = source_hash([*imported_sources(module, "structboost.tracking.measures")])
    packages = " ".join(f"{name} {importlib.import_module(name).__version__}" for name in ("cv2", "numba", "sklearn"))
    return Unit(
        *("tracking", sequence.name, method),
        {"seed": seed},
        f"{sequence.content} {code} {packages}",
        lambda: _track(sequence, method, seed),
    )


def _track(sequence: Sequence, method: str, seed: int) -> Result:
    """Boxes of all frames from the true first one, and what they took; on one thread."""
    frames = sequence.frames()
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        with threadpool_limits(1):
            run = _run_opencv if method == OPENCV_MIL else _run_ours
            boxes, facts = run(method, frames, sequence.truth[0], seed)
    finally:
        cv2.setNumThreads(threads)
    return {"boxes": np.round(boxes, 3), **facts, **_measured(sequence, boxes)}


def _run_ours(method: str, frames: list[Any], box: np.ndarray, seed: int) -> tuple[np.ndarray, Result]:
    from structboost.tracking.tracked_frames import track_frames, warm_up

    module, name = TRACKERS[method]
    tracker = getattr(importlib.import_module(module), name)(random_state=seed)
    warm_up(tracker)
    tracked = track_frames(tracker, enumerate(frames), box)
    updates = tracked.latencies[1:]
    facts = {
        "fps": tracked.fps,
        "seconds": sum(tracked.latencies),
        "init_seconds": tracked.latencies[0],
        "largest_latency": max(updates),
        "lost_frames": sum(tracked.lost),
        **{f"{part}_ms": 1000 * spent / len(updates) for part, spent in tracker.seconds.items()},
    }
    return np.array(tracked.boxes), facts


def _run_opencv(method: str, frames: list[Any], box: np.ndarray, seed: int) -> tuple[np.ndarray, Result]:
    """OpenCV's MIL, which takes whole pixels and draws from OpenCV's own generator."""
    cv2.setRNGSeed(seed)
    tracker = cv2.TrackerMIL_create()
    colour = [frame if frame.ndim == 3 else cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR) for frame in frames]
    boxes, latencies = [np.asarray(box, float)], []
    began = time.perf_counter()
    tracker.init(colour[0], tuple(int(v) for v in np.rint(box)))
    init_seconds = time.perf_counter() - began
    for frame in colour[1:]:
        began = time.perf_counter()
        found, place = tracker.update(frame)
        latencies.append(time.perf_counter() - began)
        boxes.append(np.array(place, float) if found else boxes[-1])
    seconds = init_seconds + sum(latencies)
    facts = {"fps": len(frames) / seconds, "seconds": seconds, "init_seconds": init_seconds}
    return np.array(boxes), {**facts, "largest_latency": max(latencies)}


def _measured(sequence: Sequence, boxes: np.ndarray) -> Result:
    """Over the frames after the first whose truth is known."""
    from structboost.tracking.measures import evaluate

    measures = evaluate(boxes[1:], sequence.truth[1:])
    mil = None if sequence.truth_mil is None else evaluate(boxes[1:], sequence.truth_mil[1:])
    return {
        "value": measures.mean_overlap,
        "centre_error": measures.mean_centre_error,
        "success_auc": measures.success_auc,
        "precision_at_20": measures.precision_at_20,
        "overlap_mil": None if mil is None else mil.mean_overlap,
        "centre_error_mil": None if mil is None else mil.mean_centre_error,
    }


def records(name: str, finished: Listed[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """Overlap and centre error of each tracker: the median over the seeds."""
    made = []
    for number, method in enumerate(METHODS):
        results = [result for unit, result in finished if unit.method == method]
        if not results:
            continue
        keys = [key for key in results[0] if key not in ("boxes", "value", "unit_seconds", "seconds")]
        more = {key: median(result.get(key) for result in results) for key in keys}
        more["largest_latency"] = max(result["largest_latency"] for result in results)
        middle = sorted(results, key=lambda result: result["value"])[(len(results) - 1) // 2]
        paper = TABLE_4[name][number] if name in TABLE_4 else None
        common = {"repeats": len(results), "seconds": median(result["seconds"] for result in results)}
        values = [result["value"] for result in results]
        made.append(
            record(name, method, "overlap", median(values), std=std(values), paper=paper, **common, **more)
            | {"each": values, "boxes": middle["boxes"]}
        )
        errors = [result["centre_error"] for result in results]
        made.append(record(name, method, "centre_error", median(errors), std=std(errors), **common))
    return made


def show(made: Listed[dict[str, Any]]) -> str:
    """Overlaps and centre errors beside CSRT's and the paper's; then speed."""
    by_key = {(r["dataset"], r["method"], r["metric"]): r for r in made}
    names = list(dict.fromkeys(r["dataset"] for r in made))
    return "\n\n".join((_overlaps(by_key, names), _mil_truth(by_key, names), _speed(by_key, names)))


def _overlaps(by_key: Mapping[tuple[str, str, str], dict[str, Any]], names: list[str]) -> str:
    rows = []
    for name in names:
        cells = [_with_std(by_key.get((name, method, "overlap"))) for method in METHODS]
        errors = [table.number(by_key.get((name, m, "centre_error"), {}).get("value"), "{:.1f}") for m in METHODS]
        ours = by_key.get((name, "structboost", "overlap"), {})
        rows.append([name, *cells, f"{CSRT[name]:.2f}", table.number(ours.get("paper"), "{:.2f}"), *errors])
    means = [mean(by_key.get((n, m, "overlap"), {}).get("value") for n in names) for m in METHODS]
    auc = [mean(by_key.get((n, m, "overlap"), {}).get("success_auc") for n in names) for m in METHODS]
    precision = [mean(by_key.get((n, m, "overlap"), {}).get("precision_at_20") for n in names) for m in METHODS]
    dashes = ["-"] * len(METHODS)
    csrt = f"{np.mean([CSRT[name] for name in names]):.3f}"
    rows.append(["mean", *(table.number(v, "{:.3f}") for v in means), csrt, "-", *dashes])
    rows.append(["success AUC", *(table.number(v, "{:.3f}") for v in auc), "-", "-", *dashes])
    rows.append(["precision at 20 px", *(table.number(v, "{:.3f}") for v in precision), "-", "-", *dashes])
    head = ["mean overlap", *METHODS, "CSRT", "Table 4", *(f"{m} px" for m in METHODS)]
    note = (
        "Median of three seeds ± their standard deviation (opencv_mil: one seed); right: mean centre error, pixels. "
        "CSRT: OpenCV 4's, once."
    )
    return f"{table.aligned(head, rows)}\n{note}"


def _mil_truth(by_key: Mapping[tuple[str, str, str], dict[str, Any]], names: list[str]) -> str:
    rows = []
    for name in names:
        of_name = [by_key.get((name, method, "overlap"), {}) for method in METHODS]
        if any(r.get("overlap_mil") is not None for r in of_name):
            rows.append([name, *(table.number(r.get("overlap_mil"), "{:.2f}") for r in of_name)])
    if not rows:
        return "No sequence has the MIL set's boxes."
    return table.aligned(["overlap with the MIL set's own boxes", *METHODS], rows)


def _speed(by_key: Mapping[tuple[str, str, str], dict[str, Any]], names: list[str]) -> str:
    rows = []
    for name in names:
        r = by_key.get((name, "structboost", "overlap"))
        if r is None:
            continue
        cells = [table.number(r[f"{part}_ms"], "{:.1f}") for part in ("features", "search", "training")]
        peers = [table.number(by_key.get((name, m, "overlap"), {}).get("fps"), "{:.0f}") for m in METHODS[1:]]
        latency, first = f"{1000 * r['largest_latency']:.0f}", f"{1000 * r['init_seconds']:.0f}"
        rows.append([name, f"{r['fps']:.0f}", *cells, latency, first, f"{r['lost_frames']:.0f}", *peers])
    head = ["speed", "frames/s", "features ms", "search ms", "training ms", "slowest ms", "first ms", "lost"]
    note = "Milliseconds a frame; slowest: of all seeds; first: init; right: frames a second of the others."
    return f"{table.aligned([*head, *METHODS[1:]], rows)}\n{note}"


def _with_std(r: dict[str, Any] | None) -> str:
    if r is None or r["value"] is None:
        return "-"
    return f"{r['value']:.3f}" + ("" if r["std"] is None else f" ±{r['std']:.3f}")


def plot(made: Listed[dict[str, Any]], path: Path) -> None:
    """OTB curves in ``path``; beside it overlap and error by frame (fig. 5) and a sheet of frames (fig. 6)."""
    import matplotlib

    matplotlib.use("Agg")
    boxes: dict[str, dict[str, np.ndarray]] = {}
    for r in made:
        if r["metric"] == "overlap":
            boxes.setdefault(r["dataset"], {})[r["method"]] = np.array(r["boxes"])
    _plot_curves(boxes, path)
    _plot_frames(boxes, path.with_name(f"{path.stem}-frames.png"))
    _draw_sheet(boxes, path.with_name(f"{path.stem}-sheet.jpg"))


def _plot_curves(boxes: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """Success and precision over all sequences, each frame counting alike within its sequence's share."""
    import matplotlib.pyplot as plt

    from structboost.tracking.curves_display import SuccessDisplay

    tracked = {
        m: np.concatenate([boxes[n][m][1:] for n in boxes]) for m in METHODS if all(m in b for b in boxes.values())
    }
    truth = np.concatenate([_sequences[name].truth[1:] for name in boxes])
    display = SuccessDisplay.from_boxes(tracked, truth, name="all frames of all sequences, median seed")
    display.figure_.savefig(path, dpi=110)
    plt.close(display.figure_)


def _plot_frames(boxes: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """A column of two axes for each sequence."""
    import matplotlib.pyplot as plt

    from structboost.tracking.curves_display import FrameCurvesDisplay

    columns = min(2, len(boxes))
    rows = -(-len(boxes) // columns)
    figure = plt.figure(figsize=(6.4 * columns, 4.6 * rows), layout="constrained")
    parts = np.atleast_1d(figure.subfigures(rows, columns)).ravel()
    for part, (name, of_name) in zip(parts, boxes.items(), strict=False):
        axes = part.subplots(2, 1, sharex=True)
        FrameCurvesDisplay.from_boxes(of_name, _sequences[name].truth, ax=tuple(axes))
        part.suptitle(name)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _draw_sheet(boxes: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """Six frames of each sequence in a row."""
    from structboost.tracking.drawing import contact_sheet

    sheets = []
    for name, of_name in boxes.items():
        sequence, frames = _sequences[name], _sequences[name].frames()
        chosen = np.linspace(0, len(frames) - 1, SHEET_FRAMES).round().astype(int)
        drawn = [
            (int(at), frames[at], {"truth": sequence.truth[at], **{m: b[at] for m, b in of_name.items()}})
            for at in chosen
        ]
        sheets.append(contact_sheet(drawn, columns=len(drawn), tile_width=240))
    cv2.imwrite(str(path), np.vstack(sheets), [cv2.IMWRITE_JPEG_QUALITY, 80])
