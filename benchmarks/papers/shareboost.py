"""ShareBoost: features needed by the number of classes, as in figure 2, on other data (isolet1)."""

import numpy as np

from benchmarks.ours import sparse
from benchmarks.runner.datasets import Table, halves, load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.records import exponent, grouped, lookup, mean, pick, ratio, record, std
from benchmarks.runner.targets import reach

N_CLASSES, ORDERS = (2, 4, 8, 13, 20, 26), 3
# One-vs-rest's error with this many features, on all classes, is the error to reach.
SHARED, REFERENCE, REFERENCE_FEATURES = "shareboost", "one_vs_rest", 100
MOST_FEATURES = 150
METHODS = {SHARED: sparse.shared, REFERENCE: sparse.one_vs_rest, "mixed_norm": sparse.mixed_norm}
FEATURES = "features_needed"


def cases(source, learner):
    return [{"order": order, "n_classes": n} for order in range(ORDERS) for n in N_CLASSES]


def path(source, method, *, order, n_classes):
    """A path over the first classes of one order, on the split of the same index.

    Training and validation parts are trained on: nothing is chosen.
    """
    data = load(source.name, source.folder)
    chosen = np.random.default_rng(order).permutation(data.n_classes)[:n_classes]
    parts = [Table(*(one[np.isin(part.y, chosen)] for one in part)) for part in halves(data, order)]
    curve = method(*parts, MOST_FEATURES)
    return {**curve._asdict(), "value": curve.errors[-1]}


EXPERIMENTS = [
    Experiment(
        *(tabular("isolet1"), METHODS, path, cases),
        metrics={"curve": "value"},
        by=("order", "n_classes"),
        more=lambda rows: {"curve": [rows[0]["features"], rows[0]["errors"]]},
    )
]


def derived(made):
    """Features that are needed to reach one error, in the place of the curves."""
    of_curves = pick(made, metric="curve")
    curves = lookup(of_curves, "method", "order", "n_classes")
    of_sizes = grouped(((r["method"], r["n_classes"]), r["order"]) for r in of_curves)
    most = max((n for _, n in of_sizes), default=0)
    records = []
    for (method, n), orders in of_sizes.items():
        pairs = [
            [curves(m, k, size, name="curve") for m, size in ((REFERENCE, most), (method, n))]
            for k in orders
        ]
        both = [[sparse.Curve(*curve) for curve in pair] for pair in pairs if None not in pair]
        errors = [reference.error_at(REFERENCE_FEATURES) for reference, _ in both]
        own = [curve.needed(error) for (_, curve), error in zip(both, errors, strict=True)]
        fields = {"std": std(own), "repeats": len(own), "n_classes": n, "each": own}
        about = {**fields, "target_error": mean(errors)}
        records.append(record("isolet1", method, FEATURES, mean(own), **about))
    return records


def growth(made, method):
    """Exponent of the features needed as a power of the number of classes."""
    own = pick(made, method=method, metric=FEATURES)
    return exponent([(r["n_classes"], r["value"]) for r in own])


def show(made):
    of_features = pick(made, metric=FEATURES)
    exponents = [{"method": m, "growth": growth(made, m), "of": "classes"} for m in METHODS]
    head = (
        f"isolet1: features needed for the error that {REFERENCE} has with {REFERENCE_FEATURES} of "
        f"them on all classes, mean {mean(r['target_error'] for r in of_features) or 0:.1%}"
    )
    return blocks(
        across(head, of_features, form="{:.1f}", rows=("n_classes",)),
        across("Exponent of their growth", exponents, "growth", "{:.2f}", rows=("of",)),
    )


def targets(made):
    most = max(N_CLASSES)
    needed = lookup(pick(made, metric=FEATURES), "method", "n_classes")
    part = ratio(needed(SHARED, most), needed(REFERENCE, most))
    slower = (
        f"features needed grow slower than classes (exponent below 1, {N_CLASSES[0]} to {most})"
    )
    return [
        reach(slower, growth(made, SHARED), "<", 1.0),
        reach(f"features for {most} classes below half of one-vs-rest's", part, "<", 0.5),
    ]
