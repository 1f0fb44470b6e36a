"""ShareBoost: features needed by the number of classes (figure 2), MNIST by round (figure 3)."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.ours import sparse
from benchmarks.runner import plots
from benchmarks.runner.datasets import Dataset, Table, given_partition, load, parts
from benchmarks.runner.records import Record, pick, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import exponent, known, mean, std
from benchmarks.runner.tables import aligned, blocks, number, pivot, with_std
from benchmarks.runner.targets import Target, reach
from benchmarks.runner.units import Finished, Result, Unit

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
FEATURES, PATCHES = "features_needed", "shareboost_patches"
ROUNDS, QUICK_ROUNDS = 266, 30
PAPER_ERROR = 0.0071


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    data = load(name, data_dir)
    version = f"{data.content} {code_version([sparse.__name__])}"
    if name == "mnist":
        rounds = QUICK_ROUNDS if quick else ROUNDS
        run = lambda: sparse.patch_templates(*given_partition(name, data_dir), rounds)  # noqa: E731
        return [Unit("shareboost", name, "patches", {"rounds": rounds}, version, run)]

    def unit(method: str, order: int, size: int) -> Unit:
        params, run = {"order": order, "n_classes": size}, partial(_path, data, method, order, size)
        return Unit("shareboost", name, method, params, version, run)

    sizes, orders = (N_CLASSES[::5], 1) if quick else (N_CLASSES, ORDERS)
    return [unit(m, order, size) for m in METHODS for order in range(orders) for size in sizes]


def _path(data: Dataset, method: str, order: int, n_classes: int) -> Result:
    """A path over the first classes of one order, on the split of the same number.

    Training and validation parts are trained on: nothing is chosen.
    """
    train, validation, test = parts(data.X, data.y, data.y, order)
    chosen = np.random.default_rng(order).permutation(data.n_classes)[:n_classes]
    X, y = np.vstack((train.X, validation.X)), np.concatenate((train.y, validation.y))
    own, held_out = np.isin(y, chosen), np.isin(test.y, chosen)
    tables_ = Table(X[own], y[own]), Table(test.X[held_out], test.y[held_out])
    with threadpool_limits(1):
        return METHODS[method](*tables_, MOST_FEATURES)._asdict()


def records(name: str, finished: Finished) -> list[Record]:
    if name == "mnist":
        return [_mnist_record(unit, result) for unit, result in finished]
    curves = {
        (u.method, u.params["order"], u.params["n_classes"]): sparse.Curve(
            r["features"], r["errors"]
        )
        for u, r in finished
    }
    sizes = sorted({size for *_, size in curves})
    errors = {
        order: curve.error_at(REFERENCE_FEATURES)
        for (method, order, size), curve in curves.items()
        if (method, size) == ("one_vs_rest", sizes[-1])
    }
    made = []
    for method, size in ((method, size) for method in METHODS for size in sizes):
        orders = [order for order in sorted(errors) if (method, order, size) in curves]
        own = [curves[method, order, size].needed(errors[order]) for order in orders]
        if own:
            fields = {"std": std(own), "repeats": len(own), "n_classes": size}
            unreached = len(own) - len(known(own))
            fields |= {"unreached": unreached, "target_error": mean(errors.values())}
            made.append(record(name, method, FEATURES, mean(own), **fields))
    return made


def _mnist_record(unit: Unit, result: Result) -> Record:
    """The curves, and what a prediction costs."""
    kept = ("test", "train", "loss", "templates", "scalars", "multiply_adds")
    fields = {"rounds": unit.params["rounds"], "seconds": max(result["seconds"].values())}
    fields |= {"paper": PAPER_ERROR, **{key: result[key] for key in kept}}
    fields["cpu"] = result["seconds"]
    return record("mnist", PATCHES, "error", result["value"], **fields)


def growth(made: Sequence[Record], method: str) -> float | None:
    """Exponent of the features needed as a power of the number of classes."""
    return exponent([(r["n_classes"], r["value"]) for r in pick(made, method=method)])


def targets(made: Sequence[Record]) -> list[Target]:
    of_features = pick(made, metric=FEATURES)
    needed = {(r["method"], r["n_classes"]): r["value"] for r in of_features}
    most = max(N_CLASSES)
    ours, theirs = (needed.get((method, most)) for method in ("shareboost", "one_vs_rest"))
    share = None if not ours or not theirs else ours / theirs
    mnist = next((r["value"] for r in pick(made, dataset="mnist")), None)
    slower = f"exponent below 1, {N_CLASSES[0]} to {most}"
    ours_growth = growth(of_features, "shareboost")
    limit = PAPER_ERROR + 5e-5
    return [
        reach(f"features needed grow slower than classes ({slower})", ours_growth, "<", 1.0),
        reach(f"features for {most} classes below half of one-vs-rest's", share, "<", 0.5),
        reach("MNIST: error of 0.71 % by round 266", mnist, "<=", limit, "{:.2%}"),
    ]


def show(made: Sequence[Record]) -> str:
    mnist = [_show_mnist(r) for r in pick(made, dataset="mnist")]
    of_features = pick(made, metric=FEATURES)
    if not of_features:
        return blocks(*mnist)
    exponents = [
        {"method": method, "n_classes": "exponent", "exponent": growth(of_features, method)}
        for method in METHODS
    ]
    columns = [*sorted({r["n_classes"] for r in of_features}), "exponent"]

    def cell(r: Record) -> str:
        return number(r["exponent"], "{:.2f}") if "exponent" in r else with_std(r, 1)

    rows = [*of_features, *exponents]
    shown = pivot(rows, "method", "n_classes", cell, columns, head="classes")
    title = (
        f"isolet1: features needed for a test error of {100 * of_features[0]['target_error']:.1f} "
        f"% (one-vs-rest's with\n{REFERENCE_FEATURES} features on all classes), mean over "
        f"{ORDERS} orders of the classes"
    )
    return blocks(f"{title}\n{shown}", *mnist)


def _show_mnist(r: Record) -> str:
    rounds = sorted(r["test"], key=int)
    rows = [[part, *(f"{100 * r[part][k]:.2f}" for k in rounds)] for part in ("test", "train")]
    return (
        "mnist, 60,000 training images, patch templates: error in % by round "
        "(paper: 0.71 at 266)\n"
        f"{aligned(['round', *map(str, rounds)], rows)}\n"
        f"{r['templates']} templates, {r['scalars']} pooled scalars, "
        f"{r['multiply_adds'] / 1e6:.1f} million multiply-adds per image"
    )


def plot(made: Sequence[Record], path: Path) -> None:
    """Figures 2 and 3."""
    common = {"marker": "o", "ms": 3}
    with plots.panels(path, (1, 2), (9.5, 3.6), grid=False) as (_, ((left, right),)):
        for method in METHODS:
            own = pick(made, metric=FEATURES, method=method)
            points = [r["n_classes"] for r in own], [r["value"] for r in own]
            spreads = [r["std"] or 0.0 for r in own]
            if own:
                left.errorbar(*points, yerr=spreads, label=method, **common)
        for r in pick(made, dataset="mnist"):
            for part in ("test", "train"):
                points = sorted((int(k), 100 * value) for k, value in r[part].items())
                right.plot(*zip(*points, strict=True), label=part, **common)
            style = {"color": "0.6", "lw": 1, "ls": "--", "label": "paper, round 266"}
            right.axhline(100 * PAPER_ERROR, **style)
        left.set(xlabel="classes (isolet1)", ylabel="features needed")
        right.set(xlabel="round (mnist)", ylabel="error, %", ylim=(0, 4))
        for axis in (left, right):
            if axis.get_legend_handles_labels()[0]:
                axis.legend()
