"""scikit-learn's AdaBoost (SAMME) over small trees."""

from itertools import product
from typing import Any

from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.peers.method import BestRounds, Params
from benchmarks.runner.datasets import Table

MAX_ROUNDS = 500
MAX_FEATURES = 32


class AdaBoost(BestRounds):
    """Grid over depth and learning rate.

    Where there are more than 32 features, a node looks at 32 random ones: sorting all of them in
    each round would take hours on the wide tables, and lowers no error that we saw.
    """

    name = "adaboost"
    packages = ("sklearn",)
    candidates = [
        {"max_depth": depth, "learning_rate": rate}
        for depth, rate in product((1, 4, 8), (1.0, 0.3))
    ]

    def fit(self, train: Table, params: Params) -> AdaBoostClassifier:
        """As many rounds as the parameters say, or fewer where a tree makes no error."""
        n_features = min(MAX_FEATURES, train.X.shape[1])
        tree = DecisionTreeClassifier(max_depth=params["max_depth"], max_features=n_features)
        model = AdaBoostClassifier(
            tree,
            n_estimators=params.get("rounds", MAX_ROUNDS),
            learning_rate=params["learning_rate"],
            random_state=0,
        )
        return model.fit(train.X, train.y)

    def values(self, train: Table, validation: Table, params: Params, objective: Any) -> Any:
        stages = self.fit(train, params).staged_predict(validation.X)
        return [objective.measure(validation.y, stage) for stage in stages]

    def facts(self, model: AdaBoostClassifier) -> dict[str, Any]:
        return {"rounds": len(model.estimators_)}
