"""The prediction race: as many stumps for each contestant, one thread, raw scores."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import Table
from benchmarks.runner.protocol import timed
from structboost import PartKind
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.weak.stump import StumpTable
from structboost.weak.table import WeightedLearners

ROWS = 10_000
RUNS = 9


class Contestant(NamedTuple):
    """A function from a float32 table to raw scores, binning included, and its stumps."""

    scores: Callable[[np.ndarray], np.ndarray]
    n_stumps: int


def race(train: Table, X: np.ndarray, rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds per sample of every contestant, who take turns over 10,000 rows."""
    with threadpool_limits(1):
        contestants = contestants_of(train, rounds)
        X = np.ascontiguousarray(np.resize(X, (ROWS, X.shape[1])))
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(RUNS):
            for name, contestant in contestants.items():
                seconds[name].append(timed(contestant.scores, X)[1])
        reference = contestants["lightgbm"].scores(X)
        for name in ("structboost", "structboost_uncompiled"):
            np.testing.assert_allclose(contestants[name].scores(X), reference, rtol=0, atol=1e-6)
    micros = {name: 1e6 * float(np.median(spent[1:])) / ROWS for name, spent in seconds.items()}
    return {
        name: {"predict_us": micros[name], "stumps": contestant.n_stumps}
        for name, contestant in contestants.items()
    }


def contestants_of(train: Table, rounds: int) -> dict[str, Contestant]:
    """All four, of ``rounds`` rounds of one stump for each class.

    Ours holds the very stumps that LightGBM learned, so that both compute the same function: the
    number of features and thresholds used is not ours to choose.
    """
    import lightgbm

    n_classes = int(train.y.max()) + 1
    problem = {"objective": "multiclass", "num_class": n_classes, "num_leaves": 2}
    settings = {**problem, "num_threads": 1, "verbose": -1, "seed": 0}
    table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
    booster = lightgbm.train(settings, table, rounds)
    histgb: Any = HistGradientBoostingClassifier(
        max_iter=rounds, max_leaf_nodes=2, early_stopping=False, random_state=0
    )
    histgb.fit(train.X, train.y)
    model = as_ensemble(booster, train.X.shape[1])
    n_stumps = booster.num_trees()
    learners = WeightedLearners(model.members["x"].learners, model.matrix())
    theirs = partial(booster.predict, raw_score=True, num_threads=1)
    return {
        "structboost": Contestant(model.scores, n_stumps),
        "structboost_uncompiled": Contestant(learners.raw_scores, n_stumps),
        "lightgbm": Contestant(theirs, n_stumps),
        "histgb": Contestant(histgb.decision_function, rounds * n_classes),
    }


def as_ensemble(booster: Any, n_features: int) -> Ensemble:
    """A LightGBM model of stumps: left where the feature is at most the threshold."""
    trees = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    # A tree without a split is a constant: the right side of a threshold below everything.
    splits = [tree if "split_feature" in tree else _constant(tree["leaf_value"]) for tree in trees]
    numbers, ones = np.arange(len(splits)), np.ones(len(splits))
    n_classes = booster.num_model_per_iteration()
    learners = StumpTable(
        np.array([one["split_feature"] for one in splits], np.int64),
        np.array([one["threshold"] for one in splits], np.float64),
        np.array([one["left_child"]["leaf_value"] for one in splits], np.float64),
        np.array([one["right_child"]["leaf_value"] for one in splits], np.float64),
    )
    terms = (numbers, numbers, numbers % n_classes, ones, n_features)
    kinds = {"x": PartKind(n_channels=n_classes)}
    return Ensemble(kinds, {"x": KindEnsemble("stump", learners, *terms)}, ones, ones[None])


def _constant(value: float) -> dict[str, Any]:
    """A stump that does not split."""
    leaf = {"leaf_value": value}
    return {"split_feature": 0, "threshold": -np.inf, "left_child": leaf, "right_child": leaf}
