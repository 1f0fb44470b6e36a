"""The prediction race: as many stumps for each contestant, one thread, raw scores."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from benchmarks.ours.hinge import ensemble_of_stumps
from benchmarks.runner.datasets import Table
from benchmarks.runner.protocol import timed
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
    booster = lightgbm_stumps(train, rounds)
    model = ensemble_of_stumps(as_arrays(booster), train.X.shape[1])
    n_stumps = booster.num_trees()
    learners = WeightedLearners(model.members["x"].learners, model.matrix())
    return {
        "structboost": Contestant(model.scores, n_stumps),
        "structboost_uncompiled": Contestant(learners.raw_scores, n_stumps),
        "lightgbm": Contestant(
            lambda X: booster.predict(X, raw_score=True, num_threads=1), n_stumps
        ),
        "histgb": histgb_contestant(train, rounds),
    }


def lightgbm_stumps(train: Table, rounds: int) -> Any:
    """LightGBM with two leaves per tree."""
    import lightgbm

    problem = {"objective": "multiclass", "num_class": int(train.y.max()) + 1}
    settings = {**problem, "num_leaves": 2, "num_threads": 1, "verbose": -1, "seed": 0}
    table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
    return lightgbm.train(settings, table, rounds)


def as_arrays(booster: Any) -> dict[str, np.ndarray]:
    """The stumps of a LightGBM model: left where the feature is at most the threshold."""
    trees = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    # A tree without a split is a constant: the right side of a threshold below everything.
    splits = [tree if "split_feature" in tree else _constant(tree["leaf_value"]) for tree in trees]
    n_classes = booster.num_model_per_iteration()
    return {
        "feature": np.array([one["split_feature"] for one in splits], np.int64),
        "threshold": np.array([one["threshold"] for one in splits], np.float64),
        "left": np.array([one["left_child"]["leaf_value"] for one in splits], np.float64),
        "right": np.array([one["right_child"]["leaf_value"] for one in splits], np.float64),
        "channel": np.arange(len(splits), dtype=np.int64) % n_classes,
    }


def _constant(value: float) -> dict[str, Any]:
    """A stump that does not split."""
    leaf = {"leaf_value": value}
    return {"split_feature": 0, "threshold": -np.inf, "left_child": leaf, "right_child": leaf}


def histgb_contestant(train: Table, rounds: int) -> Contestant:
    """scikit-learn's trees with two leaves."""
    model: Any = HistGradientBoostingClassifier(
        max_iter=rounds, max_leaf_nodes=2, early_stopping=False, random_state=0
    )
    model.fit(train.X, train.y)

    def scores(X: np.ndarray) -> np.ndarray:
        with threadpool_limits(1):
            return model.decision_function(X)

    return Contestant(scores, rounds * (int(train.y.max()) + 1))
