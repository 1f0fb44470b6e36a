"""All defaults on 26 tables, beside five other boosters: error, log-loss, CPU of the fit."""

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.papers import multiclass
from benchmarks.peers import boosters
from benchmarks.runner.datasets import BUNDLED, load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.records import grouped, lookup, median, pick, ratio, record
from benchmarks.runner.targets import all_of, reach

OUTSIDE = (
    "heart", "bupa", "sonar", "led7digit", "phoneme", "australian", "banana", "yeast4", "spambase",
    "faults", "krkopt", "cnae9",
)  # fmt: skip
METHODS = OURS, LIGHTGBM, *_ = tuple(boosters.MAKERS)
# Wider tables are split once, and CatBoost, which takes many minutes for a fit there, is left out;
# elsewhere it is run on one split.
WIDE, CATBOOST = ("usps", "mnist", "cnae9"), "catboost"
EVERYWHERE = tuple(method for method in METHODS if method != CATBOOST)
REPEATS, MOST_ROWS = 3, 4000
# Smaller probabilities of the truth count as this.
LEAST = 1e-15


def learners(source):
    names = EVERYWHERE if source.name in WIDE else METHODS
    return {name: boosters.MAKERS[name] for name in names}


def cases(source, learner):
    once = source.name in WIDE or learner == CATBOOST
    return [{"repeat": repeat} for repeat in range(1 if once else REPEATS)]


def by_default(source, learner, *, repeat):
    """Error, log-loss and CPU seconds of the fit, with all defaults, on one thread."""
    X, y, categorical, train, test = sampled(source, repeat, least=2)
    frame = boosters.frame_of(X, categorical)
    model, cpu = boosters.timed_fit(learner, frame.iloc[train], y[train], categorical)
    p = np.clip(model.predict_proba(frame.iloc[test]), LEAST, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    return {
        "error": float(np.mean(p.argmax(axis=1) != y[test])),
        "log_loss": float(log_loss(y[test], p, labels=np.arange(p.shape[1]))),
        **{"cpu": cpu, "rows": len(train)},
    }


def sampled(source, repeat, *, least):
    """Features, labels and category columns of some rows, and those of the train and test part.

    Classes of fewer than ``least`` rows are left out.
    """
    X, y, categorical = read(source)
    rows = np.random.default_rng(repeat).permutation(len(y))[:MOST_ROWS]
    labels = np.unique(y[rows], return_inverse=True)[1]
    rows = rows[np.bincount(labels)[labels] >= least]
    y = np.unique(y[rows], return_inverse=True)[1]
    parts = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=repeat)
    return X[rows], y, categorical, *parts


def read(source):
    """Features, labels and category columns."""
    if source.name not in OUTSIDE:
        data = load(source.name, source.folder)
        return data.X, data.y, []
    with np.load(source.folder / FILES[source.name][0]) as file:
        categorical = [int(j) for j in file["cat"]] if "cat" in file else []
        return file["X"], file["y"].astype(np.int64), categorical


FILES = {
    **tabular(*multiclass.NAMES, *BUNDLED),
    **{name: (f"tabular_outside/{name}.npz",) for name in OUTSIDE},
}
METRICS = {"error": "error", "log_loss": "log_loss"}
EXPERIMENTS = [Experiment(FILES, learners, by_default, cases, METRICS)]


def ranks(made, metric, methods=METHODS):
    """Mean rank of some learners over the sets that all of them have, ties counting half."""
    of_sets = grouped((r["dataset"], r) for r in pick(made, metric=metric))
    values = [{r["method"]: r["value"] for r in own} for own in of_sets.values()]
    rows = [rankdata([own[m] for m in methods]) for own in values if set(methods) <= set(own)]
    means = np.mean(rows, axis=0) if rows else ()
    name = f"{metric}, {len(rows)} tables"
    return [record(name, m, "mean rank", v) for m, v in zip(methods, means, strict=bool(rows))]


def show(made):
    both = ("error", "log_loss")
    of_ranks = [
        ranks(made, metric, methods) for methods in (METHODS, EVERYWHERE) for metric in both
    ]
    errors, losses = (pick(made, metric=metric) for metric in both)
    return blocks(
        across("Mean rank", [r for own in of_ranks for r in own], form="{:.2f}"),
        across("Test error", errors, form="{:.1%}"),
        across("Test log-loss", losses, form="{:.3f}"),
        across("CPU seconds of the fit", errors, "cpu", "{:.2f}"),
    )


def targets(made):
    behind = []
    for metric in ("error", "log_loss"):
        own = {r["method"]: r["value"] for r in ranks(made, metric)}
        value = own.pop(OURS) - min(own.values()) if own else None
        wanted = f"mean rank in {metric} less the best of the others'"
        behind.append(reach(wanted, value, "<=", 0.0, "{:+.2f}"))
    at = lookup(made, "dataset", "metric", "method")
    near, of_cpu = [], []
    for name in dict.fromkeys(r["dataset"] for r in made):
        own, *others = (at(name, "log_loss", method) for method in METHODS)
        others = [value for value in others if value is not None]
        if own is not None and others:
            near.append((name, own <= 1.15 * min(others)))
        both = (at(name, "error", method, name="cpu") for method in (OURS, LIGHTGBM))
        of_cpu.append(ratio(*both))
    worst = max((r for r in of_cpu if r is not None), default=None)
    return [
        *behind,
        all_of("log-loss at most 1.15 times the best", near),
        reach("CPU of the fit over LightGBM's, median", median(of_cpu), "<=", 1.5),
        reach("CPU of the fit over LightGBM's, worst", worst, "<=", 3.0),
    ]
