"""ShareBoost: features needed by the number of classes, as in figure 2, on other data (isolet1)."""

import numpy as np

from benchmarks.ours import sparse
from benchmarks.runner.datasets import load, split, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.records import exponent, grouped, mean, pick, record, std

N_CLASSES, ORDERS = (2, 4, 8, 13, 20, 26), 3
# One-vs-rest's error with this many features, on all classes, is the error to reach.
SHARED, REFERENCE, REFERENCE_FEATURES = "shareboost", "one_vs_rest", 100
MOST_FEATURES = 150
METHODS = {SHARED: sparse.shared, REFERENCE: sparse.one_vs_rest, "mixed_norm": sparse.mixed_norm}


def cases(source, learner):
    return [{"order": order, "n_classes": n} for order in range(ORDERS) for n in N_CLASSES]


def path(source, method, *, order, n_classes):
    """A path over the first classes of one order, on the split of the same index.

    Training and validation parts are trained on: nothing is chosen.
    """
    data = load(source.name, source.folder)
    chosen = np.random.default_rng(order).permutation(data.n_classes)[:n_classes]
    train, validation, test = split(data.y, order)
    rows = np.concatenate((train, validation)), test
    curve = method(*(data.part(own[np.isin(data.y[own], chosen)]) for own in rows), MOST_FEATURES)
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
    """Features that are needed to reach one error, in the place of the curves, and exponents."""
    curves = {
        (r["method"], r["order"], r["n_classes"]): sparse.Curve(*r["curve"])
        for r in pick(made, metric="curve")
    }
    sizes = grouped(((method, n), order) for method, order, n in curves)
    most = max((n for _, n in sizes), default=0)
    records = []
    for (method, n), orders in sizes.items():
        own = [
            curves[method, k, n].needed(curves[REFERENCE, k, most].error_at(REFERENCE_FEATURES))
            for k in orders
            if (REFERENCE, k, most) in curves
        ]
        about = {"std": std(own), "repeats": len(own), "n_classes": n, "each": own}
        records.append(record("isolet1", method, "features_needed", mean(own), **about))
    for method, own in grouped((r["method"], r) for r in records).items():
        growth = exponent((r["n_classes"], r["value"]) for r in own)
        records.append(record("isolet1", method, "growth", growth))
    return records
