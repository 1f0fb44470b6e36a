"""Contestants of the prediction race: the same number of stumps each, one thread, raw scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from benchmarks.methods import structboost
from benchmarks.methods.base import Table


class Contestant(NamedTuple):
    """A function from a float32 table to raw scores, binning included, and the stumps it stands for."""

    scores: Callable[[np.ndarray], np.ndarray]
    n_stumps: int


def contestants(train: Table, rounds: int) -> dict[str, Contestant]:
    """All four, of ``rounds`` rounds of one stump for each class.

    Ours holds the very stumps that LightGBM learned, so that both compute the same function: how many
    features and thresholds are used is not ours to choose.
    """
    booster = lightgbm_stumps(train, rounds)
    model = structboost.ensemble_of_stumps(as_arrays(booster), train.X.shape[1])
    n_stumps = booster.num_trees()
    return {
        "structboost_compiled": Contestant(model.compile().scores, n_stumps),
        "structboost_uncompiled": Contestant(model.scores, n_stumps),
        "lightgbm": Contestant(lambda X: booster.predict(X, raw_score=True, num_threads=1), n_stumps),
        "histgb": histgb_contestant(train, rounds),
    }


def lightgbm_stumps(train: Table, rounds: int) -> Any:
    """LightGBM with two leaves a tree."""
    import lightgbm

    n_classes = int(train.y.max()) + 1
    settings = {"objective": "multiclass", "num_class": n_classes, "num_leaves": 2, "num_threads": 1}
    table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
    return lightgbm.train({**settings, "verbose": -1, "seed": 0}, table, rounds)


def as_arrays(booster: Any) -> dict[str, np.ndarray]:
    """The stumps of a LightGBM model: left where the feature is at most the threshold."""
    trees = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    n_classes = booster.num_model_per_iteration()
    # A tree without a split is a constant: the right side of a threshold below everything.
    splits = [tree if "split_feature" in tree else _constant(tree["leaf_value"]) for tree in trees]
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
    model: Any = HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=2, early_stopping=False, random_state=0)
    model.fit(train.X, train.y)

    def scores(X: np.ndarray) -> np.ndarray:
        with threadpool_limits(1):
            return model.decision_function(X)

    return Contestant(scores, rounds * (int(train.y.max()) + 1))
