"""ShareBoost: features needed against the number of classes (figure 2), and MNIST round by round (figure 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import table
from benchmarks.datasets import Dataset, load
from benchmarks.imports import imported_sources
from benchmarks.methods import patches, sparse
from benchmarks.methods.base import Table
from benchmarks.protocol import parts
from benchmarks.records import known, mean, record, std
from benchmarks.units import Result, Unit, source_hash

DATASETS = ("isolet1", "mnist")
QUICK_DATASETS = ("isolet1",)

N_CLASSES = (2, 4, 8, 13, 20, 26)
ORDERS = 5
# One-vs-rest's error with this many features, on all classes, is the error to reach.
REFERENCE_FEATURES = 100
MOST_FEATURES = 150
METHODS: dict[str, Callable[[Table, Table, int], sparse.Curve]] = {
    "shareboost": sparse.shared,
    "shareboost_column_search": partial(sparse.shared, choice="column_search", short_list=30),
    "one_vs_rest": sparse.one_vs_rest,
    "mixed_norm": sparse.mixed_norm,
}
ROUNDS = 266
PAPER_ERROR = 0.0071


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of a data set."""
    data = load(name, data_dir)
    if name == "mnist":
        return [_mnist(data, data_dir, 30 if quick else ROUNDS)]
    sizes, orders = (N_CLASSES[::5], 1) if quick else (N_CLASSES, ORDERS)
    return [_unit(data, method, order, size) for method in METHODS for order in range(orders) for size in sizes]


def _unit(data: Dataset, method: str, order: int, n_classes: int) -> Unit:
    """A path over the first classes of one order, on the split of the same number."""
    code = [Path(sparse.__file__), *_package_sources("feature")]
    return Unit(
        *("shareboost", data.name, method),
        {"order": order, "n_classes": n_classes},
        f"{data.content} {source_hash(code)}",
        lambda: _path(data, method, order, n_classes),
    )


def _path(data: Dataset, method: str, order: int, n_classes: int) -> Result:
    """Trained on the training and validation parts of a split; nothing is chosen."""
    train, validation, test = parts(data.X, data.y, data.y, order)
    chosen = np.random.default_rng(order).permutation(int(data.y.max()) + 1)[:n_classes]
    X, y = np.vstack((train.X, validation.X)), np.concatenate((train.y, validation.y))
    own, held_out = np.isin(y, chosen), np.isin(test.y, chosen)
    with threadpool_limits(1):
        curve = METHODS[method](Table(X[own], y[own]), Table(test.X[held_out], test.y[held_out]), MOST_FEATURES)
    return {"features": curve.features, "errors": curve.errors}


def _mnist(data: Dataset, data_dir: Path, rounds: int) -> Unit:
    """The given partition of MNIST."""
    code = [Path(patches.__file__), *_package_sources("patch")]

    def run() -> Result:
        # All of it: `load` keeps 1,000 images a class.
        with np.load(data_dir / "tabular" / "mnist.npz") as whole:
            X, y, given = whole["X"], whole["y"], whole["train"]
        return patches.path(Table(X[given], y[given]), Table(X[~given], y[~given]), rounds)

    return Unit("shareboost", "mnist", "patches", {"rounds": rounds}, f"{data.content} {source_hash(code)}", run)


def _package_sources(family: str) -> list[Path]:
    return imported_sources("structboost.estimators.shareboost", f"structboost.weak.{family}")


def records(name: str, finished: Sequence[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """One record a method and number of classes; for MNIST the curve."""
    if name == "mnist":
        return [_mnist_record(unit, result) for unit, result in finished]
    curves = {
        (u.method, u.params["order"], u.params["n_classes"]): sparse.Curve(r["features"], r["errors"])
        for u, r in finished
    }
    most = max((key[2] for key in curves), default=0)
    targets = {
        order: curve.error_at(REFERENCE_FEATURES)
        for (method, order, size), curve in curves.items()
        if method == "one_vs_rest" and size == most
    }
    made = []
    for method in METHODS:
        for size in sorted({key[2] for key in curves}):
            own = [
                curve.needed(targets[order])
                for (m, order, s), curve in sorted(curves.items())
                if (m, s) == (method, size) and order in targets
            ]
            if own:
                made.append(
                    record(
                        *(name, method, "features_needed", mean(own)),
                        std=std(own),
                        repeats=len(own),
                        n_classes=size,
                        unreached=len(own) - len(known(own)),
                        target_error=mean(targets.values()),
                    )
                )
    return made


def _mnist_record(unit: Unit, result: Result) -> dict[str, Any]:
    """The curves, and what a prediction costs."""
    curves = {"test": result["test"], "train": result["train"], "loss": result["loss"], "cpu": result["seconds"]}
    costs = {name: result[name] for name in ("templates", "scalars", "multiply_adds")}
    return record(
        *("mnist", "shareboost_patches", "error", result["value"]),
        paper=PAPER_ERROR,
        rounds=unit.params["rounds"],
        seconds=max(result["seconds"].values()),
        **curves,
        **costs,
    )


def growth(made: Sequence[dict[str, Any]], method: str) -> float | None:
    """Exponent of the features needed as a power of the number of classes."""
    own = [(r["n_classes"], r["value"]) for r in made if r["method"] == method and r["value"]]
    if len(own) < 2:
        return None
    return float(np.polyfit(*np.log(np.array(own, float)).T, 1)[0])


def show(made: Sequence[dict[str, Any]]) -> str:
    """Features needed by number of classes; MNIST's errors by round."""
    blocks = []
    of_features = [r for r in made if r["metric"] == "features_needed"]
    if of_features:
        sizes = sorted({r["n_classes"] for r in of_features})
        cells = {(r["method"], r["n_classes"]): r for r in of_features}
        rows = []
        for method in METHODS:
            own = [cells.get((method, size), {}) for size in sizes]
            shown = [
                table.number(r.get("value"), "{:.1f}") + (f" ±{r['std']:.1f}" if r.get("std") is not None else "")
                for r in own
            ]
            rows.append([method, *shown, table.number(growth(of_features, method), "{:.2f}")])
        target = of_features[0]["target_error"]
        blocks.append(
            f"isolet1: features needed for a test error of {100 * target:.1f} % (one-vs-rest's with "
            f"{REFERENCE_FEATURES} features on all classes), mean over {ORDERS} orders of the classes\n"
            + table.aligned(["classes", *map(str, sizes), "exponent"], rows)
        )
    for r in made:
        if r["dataset"] == "mnist":
            rounds = sorted(r["test"], key=int)
            rows = [[part, *(f"{100 * r[part][k]:.2f}" for k in rounds)] for part in ("test", "train")]
            blocks.append(
                "mnist, 60,000 training images, patch templates: error in % by round (paper: 0.71 at 266)\n"
                + table.aligned(["round", *map(str, rounds)], rows)
                + f"\n{r['templates']} templates, {r['scalars']} pooled scalars, "
                f"{r['multiply_adds'] / 1e6:.1f} million multiply-adds an image"
            )
    return "\n\n".join(blocks)


def plot(made: Sequence[dict[str, Any]], path: Path) -> None:
    """Figures 2 and 3."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for method in METHODS:
        own = [r for r in made if r["metric"] == "features_needed" and r["method"] == method]
        if own:
            values, spreads = [r["value"] for r in own], [r["std"] or 0.0 for r in own]
            left.errorbar([r["n_classes"] for r in own], values, spreads, marker="o", ms=3, capsize=2, label=method)
    left.set_xlabel("classes (isolet1)")
    left.set_ylabel("features needed")
    left.legend(frameon=False, fontsize=8)
    for r in made:
        if r["dataset"] == "mnist":
            for part in ("test", "train"):
                rounds = sorted(r[part], key=int)
                right.plot([int(k) for k in rounds], [100 * r[part][k] for k in rounds], marker="o", ms=3, label=part)
            right.axhline(100 * PAPER_ERROR, color="0.6", lw=1, ls="--", label="paper, round 266")
            right.set_ylim(0, 4)
            right.legend(frameon=False, fontsize=8)
    right.set_xlabel("round (mnist)")
    right.set_ylabel("error, %")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
