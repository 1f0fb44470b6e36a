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
    """All four, trained for ``rounds`` rounds of one stump for each class."""
    return {
        **structboost_contestants(train, rounds),
        "lightgbm": lightgbm_contestant(train, rounds),
        "histgb": histgb_contestant(train, rounds),
    }


def structboost_contestants(train: Table, rounds: int) -> dict[str, Contestant]:
    """Ours, compiled to tables and not."""
    model = structboost.long_training(train, rounds).model_
    compiled = model.compile()
    n_stumps = int(np.count_nonzero(model.weights))
    return {
        "structboost_compiled": Contestant(compiled.scores, n_stumps),
        "structboost_uncompiled": Contestant(model.scores, n_stumps),
    }


def lightgbm_contestant(train: Table, rounds: int) -> Contestant:
    """LightGBM with two leaves a tree."""
    import lightgbm

    n_classes = int(train.y.max()) + 1
    settings = {"objective": "multiclass", "num_class": n_classes, "num_leaves": 2, "num_threads": 1}
    booster = lightgbm.train(
        {**settings, "verbose": -1, "seed": 0}, lightgbm.Dataset(train.X, train.y), rounds
    )
    return Contestant(lambda X: booster.predict(X, raw_score=True, num_threads=1), booster.num_trees())


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
