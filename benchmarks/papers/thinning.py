"""Fewer trees for LightGBM's default models on 22 tables: change of the error, trees, gap."""

import warnings

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.papers import multiclass, outside
from benchmarks.peers.boosters import peer
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import cpu_timed
from structboost import thin

NAMES = (*multiclass.NAMES, *outside.OUTSIDE)
FIFTH, MARGIN = "a fifth of the trees", "loss within .01"
# Trees of two classes, and rounds of more.
TREES, ROUNDS = 400, 100
FEW_HELD_OUT, FEW_ROWS = 300, 1000
REPEATS, MANY_REPEATS = 3, 8


def cases(source, learner):
    if source.name in outside.WIDE:
        return [{"repeat": 0}]
    few = len(outside.read(source)[1]) < FEW_ROWS
    return [{"repeat": repeat} for repeat in range(MANY_REPEATS if few else REPEATS)]


def thinned(source, part, *, repeat):
    """Test error of a model before and after, in points, with the trees left and the gap."""
    X, y, _, train, test = outside.sampled(source, repeat, least=4)
    train, held = train_test_split(train, test_size=0.3, stratify=y[train], random_state=repeat)
    n_rounds = TREES if y.max() == 1 else ROUNDS
    model = peer("lightgbm", "LGBMClassifier", n_jobs=1, verbose=-1, n_estimators=n_rounds)
    model.fit(X[train], y[train])
    before = float(np.mean(model.predict(X[test]) != y[test]))
    n_trees = model.booster_.num_trees()
    more = {"unlabelled": X[train]} if len(held) < FEW_HELD_OUT else {}
    more |= {"n_trees": n_trees // part} if part else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of models that stay as they are
        result, cpu = cpu_timed(thin, model, X[held], y[held], **more)
    after = float(np.mean(result.predict(X[test]) != y[test]))
    return {
        "change": 100 * (after - before), "before": 100 * before,
        "kept": result.n_trees / n_trees, "relative_gap": result.gap if result.thinned else 0.0,
        "leaf_gap": result.leaf_gap if result.thinned else 0.0,
        "thinned": float(result.thinned), "cpu": cpu,
    }  # fmt: skip


METRICS = ("before", "change", "kept", "thinned", "relative_gap", "leaf_gap", "cpu")
FILES = {name: outside.FILES[name] for name in NAMES}
EXPERIMENTS = [
    Experiment(FILES, {FIFTH: 5, MARGIN: None}, thinned, cases, {name: name for name in METRICS})
]
