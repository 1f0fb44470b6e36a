"""Gradient-boosted trees: LightGBM and scikit-learn's HistGradientBoosting."""

from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.peers.method import BestRounds, Params
from benchmarks.runner.datasets import Table

MAX_ROUNDS = 2000
PATIENCE = 100
LOSS_PATIENCE = 20


class LightGBM(BestRounds):
    """Grid over leaves and rows per leaf; boosting stops when the metric no longer improves."""

    name = "lightgbm"
    packages = ("lightgbm",)
    candidates = [
        {"num_leaves": leaves, "min_data_in_leaf": rows}
        for leaves, rows in product((2, 6, 31), (20, 3))
    ]

    def problem(self, y: np.ndarray) -> dict[str, Any]:
        raise NotImplementedError

    def settings(self, y: np.ndarray, params: Params) -> dict[str, Any]:
        """All parameters of one training."""
        own = {name: value for name, value in params.items() if name != "rounds"}
        fixed = {"verbose": -1, "seed": 0, "deterministic": True, "force_row_wise": True}
        return {**fixed, "learning_rate": 0.1, **own, **self.problem(y), "num_threads": 1}

    def values(self, train: Table, validation: Table, params: Params, objective: Any) -> Any:
        import lightgbm

        table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
        held_out = lightgbm.Dataset(validation.X, validation.y, reference=table)
        watched: dict[str, Any] = {}
        stopping = lightgbm.early_stopping(PATIENCE, first_metric_only=True, verbose=False)
        callbacks = [stopping, lightgbm.record_evaluation(watched)]
        settings = {"valid_sets": [held_out], "valid_names": ["validation"]}
        own = self.settings(train.y, params)
        lightgbm.train(own, table, MAX_ROUNDS, **settings, callbacks=callbacks)
        ((_, values),) = watched["validation"].items()
        return values

    def fit(self, train: Table, params: Params) -> Any:
        import lightgbm

        table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
        return lightgbm.train(self.settings(train.y, params), table, params["rounds"])

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        return model.predict(X, raw_score=True, num_threads=1)

    def facts(self, model: Any) -> dict[str, Any]:
        return {"rounds": model.current_iteration()}


class LightGBMRanker(LightGBM):
    """Binary log-loss, stopped by the AUC."""

    def problem(self, y: np.ndarray) -> dict[str, Any]:
        return {"objective": "binary", "metric": "auc"}


class LightGBMStumpRanker(LightGBMRanker):
    """The same with stumps only: additive functions, as ours and RankBoost's are."""

    name = "lightgbm_stumps"
    candidates = [
        {"num_leaves": 2, "learning_rate": rate, "min_data_in_leaf": rows}
        for rate, rows in product((0.3, 0.1, 0.03), (20, 3))
    ]


class LightGBMClassifier(LightGBM):
    """Softmax, stopped by the error."""

    def problem(self, y: np.ndarray) -> dict[str, Any]:
        return {"objective": "multiclass", "num_class": int(y.max()) + 1, "metric": "multi_error"}

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        return super().output(model, X).argmax(axis=1)


class HistGradientBoosting(BestRounds):
    """The same grid for scikit-learn's trees, stopped by the log-loss."""

    name = "histgb"
    packages = ("sklearn",)
    candidates = [
        {"max_leaf_nodes": leaves, "min_samples_leaf": rows}
        for leaves, rows in product((2, 6, 31), (20, 3))
    ]

    def values(self, train: Table, validation: Table, params: Params, objective: Any) -> Any:
        stopping = {"early_stopping": True, "n_iter_no_change": LOSS_PATIENCE}
        model: Any = HistGradientBoostingClassifier(
            max_iter=MAX_ROUNDS, random_state=0, **stopping, **params
        )
        model.fit(train.X, train.y, X_val=validation.X, y_val=validation.y)
        stages = model.staged_predict(validation.X)
        return [objective.measure(validation.y, stage) for stage in stages]

    def fit(self, train: Table, params: Params) -> Any:
        own = {name: value for name, value in params.items() if name != "rounds"}
        rounds = params["rounds"]
        model: Any = HistGradientBoostingClassifier(
            max_iter=rounds, early_stopping=False, random_state=0, **own
        )
        return model.fit(train.X, train.y)

    def facts(self, model: Any) -> dict[str, Any]:
        return {"rounds": model.n_iter_}
