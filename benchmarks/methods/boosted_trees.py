"""Gradient-boosted trees: LightGBM and scikit-learn's HistGradientBoosting."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.methods.base import Method, Table, Trial, best_round

MAX_ROUNDS = 2000
PATIENCE = 100
LOSS_PATIENCE = 20


class _LightGBM(Method):
    """Grid over leaves and rows per leaf; the number of rounds is the best one on the validation part."""

    name = "lightgbm"
    packages = ("lightgbm",)
    candidates = [{"num_leaves": leaves, "min_data_in_leaf": rows} for leaves in (2, 6, 31) for rows in (20, 3)]

    def objective(self, y: np.ndarray) -> dict[str, Any]:
        """LightGBM's own names of what is optimised and watched."""
        raise NotImplementedError

    def settings(self, y: np.ndarray, params: dict[str, Any]) -> dict[str, Any]:
        """All parameters of one training."""
        own = {name: value for name, value in params.items() if name != "rounds"}
        fixed = {
            "learning_rate": 0.1,
            "verbose": -1,
            "seed": 0,
            "deterministic": True,
            "force_row_wise": True,
        }
        return {**fixed, **own, **self.objective(y), "num_threads": 1}

    def trial(self, train: Table, validation: Table, params: dict[str, Any], objective: Any) -> Trial:
        """One candidate, stopped when the watched metric has not improved for long."""
        import lightgbm

        watched: dict[str, Any] = {}
        table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
        lightgbm.train(
            self.settings(train.y, params),
            table,
            MAX_ROUNDS,
            valid_sets=[lightgbm.Dataset(validation.X, validation.y, reference=table)],
            valid_names=["validation"],
            callbacks=[
                lightgbm.early_stopping(PATIENCE, first_metric_only=True, verbose=False),
                lightgbm.record_evaluation(watched),
            ],
        )
        ((_, values),) = watched["validation"].items()
        rounds, value = best_round(objective.sign * np.array(values))
        return Trial({**params, "rounds": rounds}, objective.sign * value)

    def fit(self, train: Table, params: dict[str, Any]) -> Any:
        """Exactly ``params["rounds"]`` rounds."""
        import lightgbm

        settings = self.settings(train.y, params)
        table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
        return lightgbm.train(settings, table, params["rounds"])

    def facts(self, model: Any) -> dict[str, Any]:
        """Rounds."""
        return {"rounds": model.current_iteration()}


class LightGBMRanker(_LightGBM):
    """Binary log-loss, watched by the AUC."""

    def objective(self, y: np.ndarray) -> dict[str, Any]:
        """Binary."""
        return {"objective": "binary", "metric": "auc"}

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Scores."""
        return model.predict(X, raw_score=True, num_threads=1)


class LightGBMStumpRanker(LightGBMRanker):
    """The same with stumps only: additive functions, as ours and RankBoost's are."""

    name = "lightgbm_stumps"
    candidates = [
        {"num_leaves": 2, "learning_rate": rate, "min_data_in_leaf": rows}
        for rate in (0.3, 0.1, 0.03)
        for rows in (20, 3)
    ]


class LightGBMClassifier(_LightGBM):
    """Softmax, watched by the error."""

    def objective(self, y: np.ndarray) -> dict[str, Any]:
        """Multi-class."""
        return {"objective": "multiclass", "num_class": int(y.max()) + 1, "metric": "multi_error"}

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return model.predict(X, raw_score=True, num_threads=1).argmax(axis=1)


class HistGradientBoosting(Method):
    """The same grid for scikit-learn's trees, stopped by the log-loss, cut back to the least error."""

    name = "histgb"
    packages = ("sklearn",)
    candidates = [{"max_leaf_nodes": leaves, "min_samples_leaf": rows} for leaves in (2, 6, 31) for rows in (20, 3)]

    def trial(self, train: Table, validation: Table, params: dict[str, Any], objective: Any) -> Trial:
        """One candidate at its best number of rounds."""
        model = HistGradientBoostingClassifier(
            max_iter=MAX_ROUNDS, early_stopping=True, n_iter_no_change=LOSS_PATIENCE, random_state=0, **params
        )
        model.fit(train.X, train.y, X_val=validation.X, y_val=validation.y)
        stages = model.staged_predict(validation.X)
        values = [objective.measure(validation.y, stage) for stage in stages]
        rounds, value = best_round(objective.sign * np.array(values))
        return Trial({**params, "rounds": rounds}, objective.sign * value)

    def fit(self, train: Table, params: dict[str, Any]) -> Any:
        """Exactly ``params["rounds"]`` rounds."""
        own = {name: value for name, value in params.items() if name != "rounds"}
        model = HistGradientBoostingClassifier(max_iter=params["rounds"], early_stopping=False, random_state=0, **own)
        return model.fit(train.X, train.y)

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return model.predict(X)

    def facts(self, model: Any) -> dict[str, Any]:
        """Rounds."""
        return {"rounds": model.n_iter_}
