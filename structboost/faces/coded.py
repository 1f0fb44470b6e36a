"""Classifiers that train methods with coding matrices (MultiBoost.MO and .ECC, AdaBoost)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from structboost._typing import IntArray, override
from structboost.contract.task import Task
from structboost.faces.classifiers import BoostedClassifier
from structboost.faces.parameters import estimator, is_same
from structboost.learners.pricing import BestCode, CodeWord, PricingRule, SharedOverChannels
from structboost.objectives.base import Formulation
from structboost.objectives.norm_bounded import NormBounded
from structboost.objectives.norm_bounded_hinge import NormBoundedHinge
from structboost.objectives.stage_wise import StageWise
from structboost.runtime.interrupts import uninterrupted
from structboost.selection.folds import fold_of, merged_copies, shuffled_parts
from structboost.selection.held_out import measured_model
from structboost.selection.path import Path, Trial
from structboost.tasks.codings import CodedTask, coding_matrix, random_column
from structboost.tasks.multiclass import MulticlassTask
from structboost.training.boosting import StructBoost
from structboost.validation import (
    checked_callbacks,
    checked_choice,
    checked_positive,
    checked_relative_gap,
    shown,
)

# The grid of the paper's five-fold cross-validation (section V).
THETAS = (2, 5, 8, 10, 12, 15, 20, 30, 40, 45, 60, 80, 100, 120, 150, 200)
THETA_RULES = ("stage_wise", "cv")
CODE_RULES = ("random", "best")
LOSSES = ("exponential", "hinge")
_FOLDS = 5
# Far above the norm that any training set asks for.
_MOST_THETA = 1e8


@estimator
class _CodedClassifier(BoostedClassifier):
    """Base of the classifiers of this module.

    The codes of a fit come from one seed, so all its runs have the same codes.

    Parameters
    ----------
    max_rounds : int
        Maximum number of rounds of column generation.
    random_state : int, RandomState or None
        Seed for random codes and for the held-out part.

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
        """Make the pricing rule, which draws the codes from the seed."""
        random_state = np.random.RandomState(self._seed)
        return CodeWord(lambda: random_column(len(self.classes_), random_state))

    def _settings(self, task: Task) -> dict[str, Any]:
        return {"pricing": self._rule(), "columns_per_channel": 1, "random_state": self._seed}


@estimator
class _StageWiseClassifier(_CodedClassifier):
    """Base of the AdaBoost classifiers.

    Attributes
    ----------
    C_ : float
        Infinity, because nothing is regularised.
    """

    def _formulation(self) -> str | Formulation:
        return StageWise(self._pairs)

    def _settings(self, task: Task) -> dict[str, Any]:
        settings = {"formulation": self._formulation(), "C": np.inf, "tol": 0.0}
        return super()._settings(task) | settings


@estimator
class _CorrectiveClassifier(_CodedClassifier):
    """Base of the MultiBoost classifiers, totally corrective under a bound on the l1 norm.

    Parameters
    ----------
    theta : float or {"stage_wise", "cv"}
        The l1 norm of the weights.  It is a number, the sum of the weights of the stage-wise run
        on the same codes, or the best value of the paper's grid by five-fold cross-validation,
        which stops when larger values are no better.
    loss : {"exponential", "hinge"}
        Exponential loss on pairs, or the hinge loss on the best wrong class (section III-D).
    tol : float
        Relative gap at which training stops.

    Attributes
    ----------
    objective_ : float
        Exponential loss, summed over the pairs, or hinge loss, summed over the examples.
    theta_ : float
        The bound on the l1 norm that was used.
    C_ : float
        Copy of ``theta_``.
    theta_path_ : list of dict
        A record for each theta of the cross-validation, in the form of ``C_path_`` of
        :class:`structboost.StructBoost`.
    theta_path_end_ : str
        Reason why no larger theta was tried.
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
        validation: tuple[Any, Any, Any] | None,
        sample_weight: Any,
        whole: tuple[Any, Any, Any, Any] | None = None,
        groups: IntArray | None = None,
        counts: IntArray | None = None,
    ) -> None:
        checked_relative_gap(self.tol, "tol")
        checked_callbacks(self.callbacks)
        self.theta_ = self._chosen_theta(task, *train, sample_weight, counts)
        super()._train(task, train, validation, sample_weight, whole, groups, counts)

    @override
    def _keep_constant(self, task: Task, n_features: Mapping[str, int]) -> None:
        self.theta_, self.theta_path_end_ = 0.0, ""
        self.theta_path_: list[dict[str, Any]] = []
        super()._keep_constant(task, n_features)

    def _trainer(self, task: Task, **settings: Any) -> StructBoost:
        if not settings.keys() >= {"formulation", "C"}:
            settings |= {"formulation": self._formulation(), "C": self.theta_}
        return super()._trainer(task, **settings)

    def _chosen_theta(
        self, task: Task, X: Any, y: Any, sample_weight: Any, counts: IntArray | None
    ) -> float:
        self.theta_path_, self.theta_path_end_ = [], ""
        formulation = self._formulation()
        if not isinstance(self.theta, str):
            theta = checked_positive(self.theta, "theta")
            if theta > _MOST_THETA:
                raise ValueError(
                    f"theta is {shown(theta)}, with which no fit ends soon; give at most "
                    f"{_MOST_THETA:g}, such as 20."
                )
            return theta
        copies = np.repeat(np.arange(len(y)), 1 if counts is None else counts)
        n_folds = min(_FOLDS, int(np.bincount(y[copies]).min()))
        if checked_choice(self.theta, "theta", THETA_RULES) == "stage_wise" or n_folds < 2:
            run = self._side_trainer(task, StageWise(self._pairs), float("inf"), 0.0)
            fit = partial(run.fit, X, y, sample_weight=sample_weight)
            return float(uninterrupted(fit).model_.weights.sum()) or 1.0
        of_examples = np.bincount(copies)
        folds = [
            fold_of(
                X, y, *(merged_copies(copies[part], sample_weight, of_examples) for part in split)
            )
            for split in shuffled_parts(len(copies), n_folds, self._seed, strata=y[copies])
        ]

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
        """Return a trainer for an auxiliary run, without callbacks and progress bar."""
        return self._trainer(task, formulation=formulation, C=C, tol=tol, verbose=0, callbacks=None)


@estimator
class _WordClassifier(_CodedClassifier):
    """Base of classifiers with a coding matrix, where all bits of a round have one weight.

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
    """Stage-wise classifier with one problem per bit of a code (AdaBoost.MO).

    Schapire and Singer, 1999; Algorithm 1 of the paper on totally corrective boosting.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import AdaBoostMOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostMOClassifier(max_rounds=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """


@estimator
class AdaBoostMHClassifier(_StageWiseClassifier):
    """Stage-wise classifier with the one-vs-all code (AdaBoost.MH).

    Schapire and Singer, 1999.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import AdaBoostMHClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostMHClassifier(max_rounds=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _pairs: ClassVar[str] = "bits"

    def _coded_task(self, n_classes: int) -> Task:
        random_state = np.random.RandomState(self._seed)
        return CodedTask(coding_matrix("one_vs_all", n_classes, random_state))

    def _rule(self) -> PricingRule:
        return SharedOverChannels()


@estimator
class AdaBoostECCClassifier(_StageWiseClassifier):
    """Stage-wise classifier with a new code in each round (AdaBoost.ECC).

    Guruswami and Sahai, 1999; Algorithm 2 of the paper on totally corrective boosting.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import AdaBoostECCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostECCClassifier(max_rounds=50, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """


@estimator
class MultiBoostMOClassifier(_WordClassifier, _CorrectiveClassifier):
    """Totally corrective form of AdaBoost.MO (MultiBoost.MO, Algorithm 3).

    A pair of the exponential loss is an example and a bit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostMOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostMOClassifier().fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """


@estimator
class MultiBoostECCClassifier(_CorrectiveClassifier):
    """Totally corrective form of AdaBoost.ECC (MultiBoost.ECC, Algorithm 3).

    A pair of the exponential loss is an example and a wrong class.

    Parameters
    ----------
    codes : {"random", "best"}
        Whether the code of a round is random, or the best for its weak learner.  With the best
        codes, the bound holds over all codes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostECCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostECCClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    codes: str = "random"

    @override
    def _splits_categories(self) -> bool:
        # No search for the best set of all classes is exact.
        return not is_same(self.codes, "best") and super()._splits_categories()

    @override
    def _reads_sparse(self) -> bool:
        # Stumps of sparse features are not searched over all classes.
        return not is_same(self.codes, "best") and super()._reads_sparse()

    def _rule(self) -> PricingRule:
        best = checked_choice(self.codes, "codes", CODE_RULES) == "best"
        return BestCode() if best else super()._rule()
