"""scikit-learn faces of the methods with coding matrices: MultiBoost.MO and .ECC, AdaBoosts."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from structboost.contract.task import Task
from structboost.estimators.classifiers import BoostedClassifier
from structboost.estimators.parameters import estimator
from structboost.masters.base import Formulation
from structboost.masters.norm_bounded import NormBounded
from structboost.masters.norm_bounded_hinge import NormBoundedHinge
from structboost.masters.stage_wise import StageWise
from structboost.runtime.interrupts import uninterrupted
from structboost.selection.folds import Fold, shuffled_parts
from structboost.selection.held_out import measured_model
from structboost.selection.path import Path, Trial
from structboost.tasks.coded import CodedTask
from structboost.tasks.codings import coding_matrix, random_column
from structboost.tasks.multiclass import MulticlassTask
from structboost.training.boosting import StructBoost
from structboost.validation import (
    checked_callbacks,
    checked_choice,
    checked_positive,
    checked_relative_gap,
)
from structboost.weak.pricing import BestCode, CodeWord, PricingRule, SharedOverChannels

# The grid of the paper's five-fold cross-validation (section V).
THETAS = (2, 5, 8, 10, 12, 15, 20, 30, 40, 45, 60, 80, 100, 120, 150, 200)
THETA_RULES = ("stage_wise", "cv")
CODE_RULES = ("random", "best")
LOSSES = ("exponential", "hinge")
_FOLDS = 5


@estimator
class _CodedClassifier(BoostedClassifier):
    """What all share.  The codes of a fit come from one seed, so all runs in it see the same ones.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed for the codes that are drawn, and for the held-out part.

    Attributes
    ----------
    objective_ : float
        Exponential loss, summed over the pairs.
    """

    max_rounds: int = 500
    _pairs: ClassVar[str] = "outputs"

    def _task(self) -> Task:
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return self._coded_task(len(self.classes_))

    def _coded_task(self, n_classes: int) -> Task:
        return MulticlassTask(n_classes)

    def _rule(self) -> PricingRule:
        """The pricing rule, at the beginning of its codes."""
        random_state = np.random.RandomState(self._seed)
        return CodeWord(lambda: random_column(len(self.classes_), random_state))

    def _settings(self, task: Task) -> dict[str, Any]:
        return {"pricing": self._rule(), "columns_per_channel": 1, "random_state": self._seed}


@estimator
class _StageWiseClassifier(_CodedClassifier):
    """The AdaBoosts.

    Attributes
    ----------
    C_ : float
        Infinity: nothing is regularised.
    """

    def _formulation(self) -> str | Formulation:
        return StageWise(self._pairs)

    def _settings(self, task: Task) -> dict[str, Any]:
        settings = {"formulation": self._formulation(), "C": np.inf, "tol": 0.0}
        return super()._settings(task) | settings


@estimator
class _CorrectiveClassifier(_CodedClassifier):
    """The MultiBoosts: theta is given, or from the stage-wise run, or by cross-validation.

    Parameters
    ----------
    theta : float or {"stage_wise", "cv"}
        The l1 norm of the weights: a number, the sum of the weights of the stage-wise run on the
        same codes, or the best of the paper's grid by five-fold cross-validation, which ends where
        larger ones are no better.
    loss : {"exponential", "hinge"}
        Exponential loss on pairs, or the hinge loss on the best wrong class (section III-D).
    tol : float
        Relative gap at which training stops.

    Attributes
    ----------
    objective_ : float
        Exponential loss, summed over the pairs; hinge loss, summed over the examples.
    theta_ : float
        The bound on the l1 norm that was used.
    C_ : float
        The same as ``theta_``.
    theta_path_ : list of dict
        A record for each theta tried by cross-validation, as those of ``C_path_`` of
        :class:`structboost.StructBoost`.
    theta_path_end_ : str
        Why no larger theta was tried.
    """

    theta: Any = "stage_wise"
    loss: str = "exponential"
    tol: float = 1e-4

    def _formulation(self) -> Formulation:
        hinge = checked_choice(self.loss, "loss", LOSSES) == "hinge"
        return NormBoundedHinge() if hinge else NormBounded(self._pairs)

    def _train(
        self,
        task: Task,
        train: tuple[Any, Any],
        validation: tuple[Any, Any] | None,
        sample_weight: Any,
        whole: tuple[Any, Any, Any] | None = None,
    ) -> None:
        checked_relative_gap(self.tol, "tol")
        checked_callbacks(self.callbacks)
        self.theta_ = self._chosen_theta(task, *train, sample_weight)
        super()._train(task, train, validation, sample_weight, whole)

    def _trainer(self, task: Task, **settings: Any) -> StructBoost:
        if not settings.keys() >= {"formulation", "C"}:
            settings |= {"formulation": self._formulation(), "C": self.theta_}
        return super()._trainer(task, **settings)

    def _chosen_theta(self, task: Task, X: Any, y: Any, sample_weight: Any) -> float:
        self.theta_path_: list[dict[str, Any]] = []
        self.theta_path_end_ = ""
        formulation = self._formulation()
        if not isinstance(self.theta, str):
            return checked_positive(self.theta, "theta")
        n_folds = min(_FOLDS, int(np.bincount(y).min()))
        if checked_choice(self.theta, "theta", THETA_RULES) == "stage_wise" or n_folds < 2:
            run = self._side_trainer(task, StageWise(self._pairs), float("inf"), 0.0)
            fit = partial(run.fit, X, y, sample_weight=sample_weight)
            return float(uninterrupted(fit).model_.weights.sum()) or 1.0
        folds = [
            Fold(X[kept], y[kept], sample_weight[kept], X[held], y[held], sample_weight[held],
                 kept, held)
            for kept, held in shuffled_parts(len(y), n_folds, self._seed, strata=y)
        ]  # fmt: skip

        def fit_at(theta: float) -> Trial:
            measured = []
            for fold in folds:
                run = self._side_trainer(task, formulation, float(theta), self.tol)
                fit = partial(run.fit, fold.X, fold.Y, sample_weight=fold.sample_weight)
                model = uninterrupted(fit).model_
                measured.append(measured_model(task, fold, model))
            return Trial(measured)

        path = Path("theta", records=self.theta_path_)
        path.follow(THETAS, fit_at)
        self.theta_path_end_ = path.end
        return path.value

    def _side_trainer(
        self, task: Task, formulation: Formulation, C: float, tol: float
    ) -> StructBoost:
        """A trainer whose model is not kept: without callbacks and progress."""
        return self._trainer(task, formulation=formulation, C=C, tol=tol, verbose=0, callbacks=None)


@estimator
class _WordClassifier(_CodedClassifier):
    """Classes as words of a coding matrix, all bits of a round under one weight.

    Parameters
    ----------
    coding : {"ecoc", "one_vs_all", "random"} or array-like, shape (n_classes, n_bits)
        Coding matrix (:func:`structboost.tasks.codings.coding_matrix`).
    """

    coding: Any = "ecoc"
    _pairs: ClassVar[str] = "bits"

    def _coded_task(self, n_classes: int) -> Task:
        return CodedTask(coding_matrix(self.coding, n_classes, np.random.RandomState(self._seed)))

    def _rule(self) -> PricingRule:
        return SharedOverChannels()


@estimator
class AdaBoostMOClassifier(_WordClassifier, _StageWiseClassifier):
    """AdaBoost.MO: one problem per bit of a code, stage-wise.

    Schapire and Singer, 1999; Algorithm 1 of the paper on totally corrective boosting.
    """


@estimator
class AdaBoostMHClassifier(_StageWiseClassifier):
    """AdaBoost.MH: AdaBoost.MO with the one-vs-all code (Schapire and Singer, 1999)."""

    _pairs: ClassVar[str] = "bits"

    def _coded_task(self, n_classes: int) -> Task:
        random_state = np.random.RandomState(self._seed)
        return CodedTask(coding_matrix("one_vs_all", n_classes, random_state))

    def _rule(self) -> PricingRule:
        return SharedOverChannels()


@estimator
class AdaBoostECCClassifier(_StageWiseClassifier):
    """AdaBoost.ECC: a new code in each round, stage-wise.

    Guruswami and Sahai, 1999; Algorithm 2 of the paper on totally corrective boosting.
    """


@estimator
class MultiBoostMOClassifier(_WordClassifier, _CorrectiveClassifier):
    """MultiBoost.MO: AdaBoost.MO, totally corrective (Algorithm 3).

    A pair of the exponential loss is an example and a bit.
    """


@estimator
class MultiBoostECCClassifier(_CorrectiveClassifier):
    """MultiBoost.ECC: AdaBoost.ECC, totally corrective (Algorithm 3).

    A pair of the exponential loss is an example and a wrong class.

    Parameters
    ----------
    codes : {"random", "best"}
        Whether the code of a round is drawn, or is the best for its weak learner; then the bound
        holds over all codes.
    """

    codes: str = "random"

    def _rule(self) -> PricingRule:
        best = checked_choice(self.codes, "codes", CODE_RULES) == "best"
        return BestCode() if best else super()._rule()
