"""Hierarchical classification: Table 3 of StructBoost, on data sets with natural trees of their classes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import table
from benchmarks.datasets import Dataset, load
from benchmarks.methods.base import Method
from benchmarks.methods.hierarchy import Flat, Tree
from benchmarks.methods.stage_wise import AdaECC, AdaECCSVM, AdaMH
from benchmarks.protocol import ERROR, Objective, Protocol, parts, spread, version
from benchmarks.records import record, summary
from benchmarks.taxonomies import TAXONOMIES
from benchmarks.units import Result, Unit

DATASETS = tuple(TAXONOMIES)
QUICK_DATASETS = ("segment",)
GAP = 0.02
# Where a fit to 2 % takes minutes.
COARSE_GAP = {"isolet1": 0.1}
METHOD_NAMES = ("structboost_tree", "structboost_flat", "adaboost_ecc", "adaboost_mh", "adaboost_ecc_svm")


def tree_losses(name: str) -> np.ndarray:
    """Tree loss of each pair of classes."""
    from structboost import TaxonomyTask

    return TaxonomyTask(TAXONOMIES[name]).tree.losses()


def methods(name: str) -> tuple[Method, ...]:
    """With the tree, and without; the stage-wise methods of the paper's table."""
    gap = COARSE_GAP.get(name, GAP)
    return Tree(gap, TAXONOMIES[name]), Flat(gap), AdaECC(), AdaMH(), AdaECCSVM()


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of a data set."""
    data = load(name, data_dir)
    protocol = Protocol(1, 2) if quick else Protocol()
    return [_unit(data, method, protocol, repeat) for method in methods(name) for repeat in range(protocol.repeats)]


def _unit(data: Dataset, method: Method, protocol: Protocol, repeat: int) -> Unit:
    """One method on one split."""
    return Unit(
        *("hierarchy", data.name, method.name),
        {"repeat": repeat, "candidates": protocol.candidates, "tree": TAXONOMIES[data.name]},
        version(method, data),
        lambda: _measure(method, data, protocol.candidates, repeat),
    )


def _measure(method: Method, data: Dataset, n_candidates: int, repeat: int) -> Result:
    """Choose C by the tree loss on the validation part, fit once more, measure tree loss and error on the test part."""
    losses = tree_losses(data.name)
    objective = Objective("tree_loss", lambda y, labels: float(losses[y, labels].mean()), -1)
    train, validation, test = parts(data.X, data.y, data.y, repeat)
    with threadpool_limits(1):
        method.warm_up()
        trials = method.trials(train, validation, spread(method.candidates, n_candidates), objective)
        best = min(trials, key=lambda trial: trial.value)
        started = time.perf_counter()
        model = method.fit(train, best.params)
        seconds = time.perf_counter() - started
        labels = method.output(model, test.X)
    return {
        "value": objective.measure(test.y, labels),
        "error": ERROR.measure(test.y, labels),
        "seconds": seconds,
        "validation": [trial.value for trial in trials],
        "C": best.params.get("C"),
        **method.facts(model),
    }


def records(name: str, finished: Sequence[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """Two records a method, tree loss and error; and one of the paired differences."""
    made = []
    by_method = {m.name: [r for u, r in finished if u.method == m.name] for m in methods(name)}
    for method, results in by_method.items():
        if results:
            made.append(record(name, method, "tree_loss", **summary(results)))
            errors = [{**r, "value": r["error"]} for r in results]
            made.append(record(name, method, "error", **summary(errors)))
    tree, flat = (by_method[key] for key in ("structboost_tree", "structboost_flat"))
    if tree and len(tree) == len(flat):
        pairs = [{"value": a["value"] - b["value"]} for a, b in zip(tree, flat, strict=True)]
        made.append(record(name, "tree_minus_flat", "tree_loss", **summary(pairs), each=[p["value"] for p in pairs]))
    return made


def show(made: Sequence[dict[str, Any]]) -> str:
    """Tree loss and error of all, and the paired difference of the first two."""
    by_key = {(r["dataset"], r["method"], r["metric"]): r for r in made}
    rows = []
    for name in dict.fromkeys(r["dataset"] for r in made):
        cells = []
        for method in METHOD_NAMES:
            cells.append(_plain(by_key.get((name, method, "tree_loss"))))
            cells.append(table.percent(by_key.get((name, method, "error"), {}), 2))
        difference = by_key.get((name, "tree_minus_flat", "tree_loss"))
        each = "" if difference is None else " ".join(f"{v:+.4f}" for v in difference["each"])
        rows.append([name, *cells, _plain(difference), each])
    head = ["", *(word for name in METHOD_NAMES for word in (name, "error")), "tree - flat", "of each split"]
    return f"{table.aligned(head, rows)}\nTest tree loss (mean height of the first common ancestor) and error in %."


def _plain(r: dict[str, Any] | None) -> str:
    """Value and standard deviation."""
    if r is None or r["value"] is None:
        return "-"
    return f"{r['value']:.4f}" + ("" if r["std"] is None else f" ±{r['std']:.4f}")


def plot(made: Sequence[dict[str, Any]], path: Path) -> None:
    """Paired tree losses of the splits' means."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["dataset"] for r in made))
    figure, axis = plt.subplots(figsize=(2.5 + 2.2 * len(names), 3.4), layout="constrained")
    for offset, method in zip((-0.34, -0.17, 0.0, 0.17, 0.34), METHOD_NAMES, strict=True):
        own = {r["dataset"]: r for r in made if r["method"] == method and r["metric"] == "tree_loss"}
        at = np.arange(len(names)) + offset
        values = [own[name]["value"] for name in names]
        axis.bar(at, values, 0.16, yerr=[own[name]["std"] or 0.0 for name in names], label=method, capsize=3)
    axis.set_xticks(range(len(names)), names)
    axis.set_ylabel("test tree loss")
    figure.legend(frameon=False, fontsize=8, loc="outside right center")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
