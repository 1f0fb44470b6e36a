"""Boosting that sets each weight once: one run serves all numbers of rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.ours.hinge import task_labels
from benchmarks.peers.method import Method, Params, Trial, made_classes
from benchmarks.runner.datasets import Table
from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    MultiBoostCWClassifier,
    TreeFamily,
)

ROUNDS = (25, 50, 100, 200, 300, 500)
# 200 rounds in the paper.
SVM_ROUNDS = (10, 25, 50, 100, 150, 200)


@dataclass
class StageWise(Method):
    """The candidates are numbers of rounds of one run."""

    name: str
    classifier: Callable[..., Any]  # takes max_rounds
    rounds: tuple[int, ...] = ROUNDS
    packages = ("numba", "scipy", "sklearn")

    @property
    def candidates(self) -> list[dict[str, int]]:
        return [{"rounds": rounds} for rounds in self.rounds]

    def fit(self, train: Table, params: Params) -> Any:
        """As many rounds as the parameters say, fewer where pricing is exhausted."""
        return self.classifier(max_rounds=params["rounds"], random_state=0).fit(train.X, train.y)

    def trials(
        self, train: Table, validation: Table, candidates: list[Params], objective: Any
    ) -> list[Trial]:
        fitted = self.fit(train, max(candidates, key=lambda params: params["rounds"]))
        trials = []
        for params in candidates:
            stage = min(params["rounds"], fitted.model_.n_stages) - 1
            labels = _labels(fitted, fitted.model_.at_stage(stage), validation.X)
            trials.append(Trial(params, objective.measure(validation.y, labels)))
        return trials

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        return _labels(model, model.model_, X)

    def facts(self, model: Any) -> dict[str, Any]:
        return {"rounds": model.n_iter_}

    def warm_up(self) -> None:
        train = made_classes()
        self.output(self.fit(train, {"rounds": 2}), train.X)


def _labels(estimator: Any, model: Any, X: np.ndarray) -> np.ndarray:
    return estimator.classes_[task_labels(estimator, model, X)]


# MultiBoost^cw with the exponential loss, whose weights are set once.
_CW = partial(MultiBoostCWClassifier, C=float("inf"), tau_max=1, tol=0.0)
CW_TREES = StageWise("multiboost_cw_trees", partial(_CW, weak_learner=partial(TreeFamily, depth=3)))
ADA_ECC = StageWise("adaboost_ecc", AdaBoostECCClassifier)
ADA_MH = StageWise("adaboost_mh", AdaBoostMHClassifier)
ADA_ECC_SVM = StageWise(
    "adaboost_ecc_svm", partial(AdaBoostECCClassifier, weak_learner="svm"), SVM_ROUNDS
)


def cw_perceptrons(max_rounds: int = 200) -> StageWise:
    """MultiBoost^cw over perceptrons (31)."""
    rounds = tuple(max_rounds * k // 6 for k in range(1, 7))
    own = partial(_CW, weak_learner="perceptron")
    return StageWise("multiboost_cw_perceptrons", own, rounds)
