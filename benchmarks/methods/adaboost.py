"""scikit-learn's AdaBoost (SAMME) over small trees."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.methods.base import Method, Table, Trial, best_round

MAX_ROUNDS = 500
MAX_FEATURES = 32


class AdaBoost(Method):
    """Grid over depth and learning rate; the number of rounds is the best one on the validation part.

    Where there are more than 32 features, a node looks at 32 random ones: sorting all of
    them in each round would take hours on the wide tables, and lowers no error that we saw.
    """

    name = "adaboost"
    packages = ("sklearn",)
    candidates = [{"max_depth": depth, "learning_rate": rate} for depth, rate in product((1, 4, 8), (1.0, 0.3))]

    def model(self, train: Table, params: dict[str, Any], rounds: int) -> AdaBoostClassifier:
        """Not yet fitted."""
        tree = DecisionTreeClassifier(max_depth=params["max_depth"], max_features=min(MAX_FEATURES, train.X.shape[1]))
        return AdaBoostClassifier(tree, n_estimators=rounds, learning_rate=params["learning_rate"], random_state=0)

    def trial(self, train: Table, validation: Table, params: dict[str, Any], objective: Any) -> Trial:
        """One candidate at its best number of rounds."""
        model = self.model(train, params, MAX_ROUNDS).fit(train.X, train.y)
        stages = model.staged_predict(validation.X)
        values = [objective.measure(validation.y, stage) for stage in stages]
        rounds, value = best_round(objective.sign * np.array(values))
        return Trial({**params, "rounds": rounds}, objective.sign * value)

    def fit(self, train: Table, params: dict[str, Any]) -> AdaBoostClassifier:
        """Exactly ``params["rounds"]`` rounds, or fewer where a tree makes no error."""
        return self.model(train, params, params["rounds"]).fit(train.X, train.y)

    def output(self, model: AdaBoostClassifier, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return model.predict(X)

    def facts(self, model: AdaBoostClassifier) -> dict[str, Any]:
        """Rounds."""
        return {"rounds": len(model.estimators_)}
