"""Boosting run once for all numbers of rounds: MultiBoost^cw over trees and perceptrons, Ada.ECC and Ada.MH."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.imports import imported_sources
from benchmarks.methods.base import Method, Table, Trial

SVM_ROUNDS = 200


class StageWise(Method):
    """The six candidates are numbers of rounds of one run."""

    candidates: ClassVar[list[dict[str, Any]]] = [{"rounds": r} for r in (25, 50, 100, 200, 300, 500)]
    packages = ("numba", "scipy", "sklearn")
    modules: ClassVar[tuple[str, ...]]

    def classifier(self, rounds: int) -> Any:
        """Not yet fitted."""
        raise NotImplementedError

    def fit(self, train: Table, params: dict[str, Any]) -> Any:
        """As many rounds as the parameters say, fewer where pricing is exhausted."""
        return self.classifier(params["rounds"]).fit(train.X, train.y)

    def trials(self, train: Table, validation: Table, candidates: list[dict[str, Any]], objective: Any) -> list[Trial]:
        """The stages of the longest run."""
        fitted = self.fit(train, max(candidates, key=lambda params: params["rounds"]))
        trials = []
        for params in candidates:
            stage = min(params["rounds"], fitted.model_.n_stages) - 1
            labels = _labels(fitted, fitted.model_.at_stage(stage), validation.X)
            trials.append(Trial(params, objective.measure(validation.y, labels)))
        return trials

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return _labels(model, model.model_, X)

    def facts(self, model: Any) -> dict[str, Any]:
        """Rounds."""
        return {"rounds": model.n_iter_}

    def warm_up(self) -> None:
        """Compile all kernels on a made table."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 3)).astype(np.float32)
        fitted = self.classifier(2).fit(X, np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5]))
        self.output(fitted, X)

    def sources(self) -> list[Path]:
        """This file and what it uses of the package; families are imported by name."""
        return [*super().sources(), *imported_sources(*self.modules)]


class CWTrees(StageWise):
    """MultiBoost^cw, stage-wise, over trees of depth 3."""

    name = "multiboost_cw_trees"
    modules = ("structboost.estimators.multiboost", "structboost.weak.tree")

    def classifier(self, rounds: int) -> Any:
        """Exponential loss, weights set once."""
        from structboost.weak.tree import TreeFamily

        return _stage_wise_cw(rounds, partial(TreeFamily, depth=3))


class CWPerceptrons(StageWise):
    """MultiBoost^cw, stage-wise, over perceptrons (31)."""

    name = "multiboost_cw_perceptrons"
    modules = ("structboost.estimators.multiboost", "structboost.weak.linear")

    def __init__(self, max_rounds: int = 200) -> None:
        self.candidates = [{"rounds": max_rounds * k // 6} for k in range(1, 7)]  # type: ignore[misc]

    def classifier(self, rounds: int) -> Any:
        """Exponential loss, weights set once."""
        return _stage_wise_cw(rounds, "perceptron")


class AdaECC(StageWise):
    """AdaBoost.ECC over stumps."""

    name = "adaboost_ecc"
    modules = ("structboost.estimators.coded", "structboost.weak.stump")

    def classifier(self, rounds: int) -> Any:
        """Codes drawn from one seed."""
        from structboost import AdaBoostECCClassifier

        return AdaBoostECCClassifier(max_rounds=rounds, random_state=0)


class AdaMH(StageWise):
    """AdaBoost.MH over stumps."""

    name = "adaboost_mh"
    modules = ("structboost.estimators.coded", "structboost.weak.stump")

    def classifier(self, rounds: int) -> Any:
        """One bit a class."""
        from structboost import AdaBoostMHClassifier

        return AdaBoostMHClassifier(max_rounds=rounds, random_state=0)


class AdaECCSVM(StageWise):
    """AdaBoost.ECC over linear SVMs, with the 200 rounds of the paper."""

    name = "adaboost_ecc_svm"
    modules = ("structboost.estimators.coded", "structboost.weak.linear")
    candidates: ClassVar[list[dict[str, Any]]] = [{"rounds": r} for r in (10, 25, 50, 100, 150, SVM_ROUNDS)]

    def classifier(self, rounds: int) -> Any:
        """Codes drawn from one seed."""
        from structboost import AdaBoostECCClassifier

        return AdaBoostECCClassifier(max_rounds=rounds, weak_learner="svm", random_state=0)


def _stage_wise_cw(rounds: int, weak_learner: str | Callable[..., Any]) -> Any:
    from structboost import MultiBoostCWClassifier

    return MultiBoostCWClassifier(
        C=float("inf"), tau_max=1, max_rounds=rounds, weak_learner=weak_learner, tol=0.0, random_state=0
    )


def _labels(estimator: Any, model: Any, X: np.ndarray) -> np.ndarray:
    """Labels by a stage of the model."""
    scores = model.scores(X)
    task = estimator.task_
    by_class = task.class_scores(scores) if hasattr(task, "class_scores") else scores
    return estimator.classes_[by_class.argmax(axis=1)]
