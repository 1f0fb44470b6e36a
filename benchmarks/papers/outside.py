"""All defaults on 26 tables, beside five other boosters: error, log-loss, CPU of the fit."""

from itertools import product

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.papers import multiclass
from benchmarks.peers import boosters
from benchmarks.runner.datasets import BUNDLED, load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.records import grouped, pick, record

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
        "cpu": cpu,
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
    file = source.arrays()
    return file["X"], file["y"].astype(np.int64), file.get("cat", np.zeros(0)).astype(int).tolist()


FILES = {
    **tabular(*multiclass.NAMES, *BUNDLED),
    **{name: (f"tabular_outside/{name}.npz",) for name in OUTSIDE},
}
METRICS = {"error": "error", "log_loss": "log_loss"}
EXPERIMENTS = [Experiment(FILES, learners, by_default, cases, METRICS)]


def derived(made):
    """Records with mean ranks, ties counting half, over the sets that some learners have."""
    ranks = []
    for methods, metric in product((METHODS, EVERYWHERE), METRICS):
        groups = grouped((r["dataset"], r) for r in pick(made, metric=metric))
        values = [{r["method"]: r["value"] for r in own} for own in groups.values()]
        rows = [rankdata([own[m] for m in methods]) for own in values if set(methods) <= set(own)]
        means = np.mean(rows, axis=0) if rows else np.full(len(methods), np.nan)
        name, about = f"{metric}, {len(rows)} tables", {}
        if methods == METHODS:
            about = {"of": metric, "behind": means[0] - min(means[1:])}
        for method, value in zip(methods, means, strict=True):
            ranks.append(record(name, method, "mean rank", value, **about))
    return [*made, *ranks]
