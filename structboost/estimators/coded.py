"""scikit-learn faces of the methods with coding matrices: MultiBoost.MO, MultiBoost.ECC, and their AdaBoosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from structboost.boosting import Callback, StructBoost
from structboost.codings import coding_matrix, random_column
from structboost.estimators.fitted import BoostedClassifier
from structboost.masters.base import Formulation
from structboost.masters.norm_bounded import NormBounded
from structboost.masters.norm_bounded_hinge import NormBoundedHinge
from structboost.masters.stage_wise import StageWise
from structboost.task import Task
from structboost.tasks.coded import CodedTask
from structboost.tasks.multiclass import MulticlassTask
from structboost.validation import checked_choice, checked_positive
from structboost.weak.base import WeakLearnerFamily
from structboost.weak.pricing import BestCode, Code, PricingRule, Tied

# The grid of the paper's five-fold cross-validation (section V).
THETAS = (2, 5, 8, 10, 12, 15, 20, 30, 40, 45, 60, 80, 100, 120, 150, 200)
THETA_RULES = ("stage_wise", "cv")
CODE_RULES = ("random", "best")
LOSSES = ("exponential", "hinge")
_FOLDS = 5


class _CodedClassifier(BoostedClassifier):
    """The parameters that all share. The codes of a fit come from one seed: all runs within it see the same ones."""

    taxonomy = None
    pairs = "outputs"

    def __init__(
        self,
        *,
        max_rounds: int = 500,
        weak_learner: str | Callable[..., WeakLearnerFamily] = "stump",
        exact: bool = False,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.max_rounds = max_rounds
        self.weak_learner = weak_learner
        self.exact = exact
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _task(self) -> Task:
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return self._coded_task(len(self.classes_))

    def _coded_task(self, n_classes: int) -> Task:
        return MulticlassTask(n_classes)

    def _rule(self) -> PricingRule:
        """The pricing rule, at the beginning of its codes."""
        random_state = np.random.RandomState(self._seed)
        return Code(lambda: random_column(len(self.classes_), random_state))

    def _made(
        self, task: Task, formulation: Formulation, C: float, tol: float, callbacks: Sequence[Callback] = ()
    ) -> StructBoost:
        """A trainer; callbacks and progress are for the one that is kept."""
        return StructBoost(
            task,
            C=C,
            tol=tol,
            max_rounds=self.max_rounds,
            weak_learner=self.weak_learner,
            formulation=formulation,
            exact=self.exact,
            pricing=self._rule(),
            columns_per_channel=1,
            random_state=self._seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose if callbacks else 0,
            callbacks=callbacks,
        )


class _StageWiseClassifier(_CodedClassifier):
    """The AdaBoosts."""

    def _trainer(self, task: Task, callbacks: Sequence[Callback], *, early_stopping: bool) -> StructBoost:
        return self._made(task, StageWise(self.pairs), float("inf"), 0.0, callbacks)


class _CorrectiveClassifier(_CodedClassifier):
    """The MultiBoosts: theta is given, or from the stage-wise run, or by cross-validation."""

    theta: Any
    loss: str
    tol: float

    def _formulation(self) -> Formulation:
        hinge = checked_choice(self.loss, "loss", LOSSES) == "hinge"
        return NormBoundedHinge() if hinge else NormBounded(self.pairs)

    def _train(
        self, task: Task, train: tuple[Any, Any], validation: tuple[Any, Any] | None, sample_weight: Any
    ) -> None:
        self.theta_ = self._chosen_theta(task, *train, sample_weight)
        super()._train(task, train, validation, sample_weight)

    def _trainer(self, task: Task, callbacks: Sequence[Callback], *, early_stopping: bool) -> StructBoost:
        return self._made(task, self._formulation(), self.theta_, self.tol, callbacks)

    def _chosen_theta(self, task: Task, X: Any, y: Any, sample_weight: Any) -> float:
        formulation = self._formulation()
        if not isinstance(self.theta, str):
            return checked_positive(self.theta, "theta")
        n_folds = min(_FOLDS, int(np.bincount(y).min()))
        if checked_choice(self.theta, "theta", THETA_RULES) == "stage_wise" or n_folds < 2:
            run = self._made(task, StageWise(self.pairs), float("inf"), 0.0).fit(X, y, sample_weight=sample_weight)
            return float(run.model_.weights.sum()) or 1.0
        errors = np.zeros(len(THETAS))
        for kept, held in StratifiedKFold(n_folds, shuffle=True, random_state=self._seed).split(X, y):
            for k, theta in enumerate(THETAS):
                run = self._made(task, formulation, float(theta), self.tol)
                run.fit(X[kept], y[kept], sample_weight=sample_weight[kept])
                errors[k] += sample_weight[held] @ (np.array(run.predict(X[held])) != y[held])
        return float(THETAS[int(np.argmin(errors))])


class _Words:
    """Classes as words of a coding matrix, all bits of a round under one weight."""

    pairs = "bits"
    coding: Any
    _seed: int

    def _coded_task(self, n_classes: int) -> Task:
        return CodedTask(coding_matrix(self.coding, n_classes, np.random.RandomState(self._seed)))

    def _rule(self) -> PricingRule:
        return Tied()


class AdaBoostMOClassifier(_Words, _StageWiseClassifier):
    """AdaBoost.MO: a problem for each bit of a code, stage-wise (Schapire and Singer, 1999; Algorithm 1).

    Parameters
    ----------
    coding : {"ecoc", "one_vs_all", "random"} or array-like, shape (n_classes, n_bits)
        Coding matrix (:func:`structboost.codings.coding_matrix`).
    max_rounds : int
    weak_learner : {"stump"} or callable
    exact : bool
        Whether pricing goes over all distinct thresholds, or over at most 255 of a feature.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping, validation_fraction, n_iter_no_change
        As in :class:`structboost.MultiBoostCWClassifier`.
    random_state : int, RandomState or None
        Codes that are drawn, and the held-out part.
    n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    classes_, model_, history_, n_iter_, feature_importances_
        As in :class:`structboost.MultiBoostCWClassifier`.
    objective_ : float
        Exponential loss, summed over the pairs.
    """

    def __init__(
        self,
        *,
        coding: Any = "ecoc",
        max_rounds: int = 500,
        weak_learner: str | Callable[..., WeakLearnerFamily] = "stump",
        exact: bool = False,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        super().__init__(
            max_rounds=max_rounds,
            weak_learner=weak_learner,
            exact=exact,
            class_weight=class_weight,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callbacks=callbacks,
        )
        self.coding = coding


class AdaBoostMHClassifier(_Words, _StageWiseClassifier):
    """AdaBoost.MH: AdaBoost.MO with the one-vs-all code (Schapire and Singer, 1999).

    Parameters
    ----------
    max_rounds : int
    weak_learner : {"stump"} or callable
    exact : bool
        Whether pricing goes over all distinct thresholds, or over at most 255 of a feature.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping, validation_fraction, n_iter_no_change
        As in :class:`structboost.MultiBoostCWClassifier`.
    random_state : int, RandomState or None
        Codes that are drawn, and the held-out part.
    n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    classes_, model_, history_, n_iter_, feature_importances_
        As in :class:`structboost.MultiBoostCWClassifier`.
    objective_ : float
        Exponential loss, summed over the pairs.
    """

    coding = "one_vs_all"


class AdaBoostECCClassifier(_StageWiseClassifier):
    """AdaBoost.ECC: a new code in each round, stage-wise (Guruswami and Sahai, 1999; Algorithm 2).

    Parameters
    ----------
    max_rounds : int
    weak_learner : {"stump"} or callable
    exact : bool
        Whether pricing goes over all distinct thresholds, or over at most 255 of a feature.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping, validation_fraction, n_iter_no_change
        As in :class:`structboost.MultiBoostCWClassifier`.
    random_state : int, RandomState or None
        Codes that are drawn, and the held-out part.
    n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    classes_, model_, history_, n_iter_, feature_importances_
        As in :class:`structboost.MultiBoostCWClassifier`.
    objective_ : float
        Exponential loss, summed over the pairs.
    """


class MultiBoostMOClassifier(_Words, _CorrectiveClassifier):
    """MultiBoost.MO: AdaBoost.MO, totally corrective (Algorithm 3).

    Parameters
    ----------
    theta : float or {"stage_wise", "cv"}
        The l1 norm of the weights: a number, the sum of the weights of the stage-wise run on the same codes, or by
        five-fold cross-validation over the paper's grid.
    loss : {"exponential", "hinge"}
        Exponential, a pair being an example and a bit, or the hinge loss on the best wrong class (section III-D).
    coding : {"ecoc", "one_vs_all", "random"} or array-like, shape (n_classes, n_bits)
        Coding matrix (:func:`structboost.codings.coding_matrix`).
    tol : float
        Relative gap at which training stops.
    max_rounds : int
    weak_learner : {"stump"} or callable
    exact : bool
        Whether pricing goes over all distinct thresholds, or over at most 255 of a feature.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping, validation_fraction, n_iter_no_change
        As in :class:`structboost.MultiBoostCWClassifier`.
    random_state : int, RandomState or None
        Codes that are drawn, and the held-out part.
    n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    classes_, model_, history_, n_iter_, feature_importances_
        As in :class:`structboost.MultiBoostCWClassifier`.
    objective_ : float
        Exponential loss, summed over the pairs; hinge loss, summed over the examples.
    theta_ : float
        The bound of the l1 norm that was used.
    """

    def __init__(
        self,
        *,
        theta: Any = "stage_wise",
        loss: str = "exponential",
        coding: Any = "ecoc",
        tol: float = 1e-4,
        max_rounds: int = 500,
        weak_learner: str | Callable[..., WeakLearnerFamily] = "stump",
        exact: bool = False,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        super().__init__(
            max_rounds=max_rounds,
            weak_learner=weak_learner,
            exact=exact,
            class_weight=class_weight,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callbacks=callbacks,
        )
        self.theta = theta
        self.loss = loss
        self.coding = coding
        self.tol = tol


class MultiBoostECCClassifier(_CorrectiveClassifier):
    """MultiBoost.ECC: AdaBoost.ECC, totally corrective (Algorithm 3).

    Parameters
    ----------
    theta : float or {"stage_wise", "cv"}
        The l1 norm of the weights: a number, the sum of the weights of the stage-wise run on the same codes, or by
        five-fold cross-validation over the paper's grid.
    loss : {"exponential", "hinge"}
        Exponential, a pair being an example and a wrong class, or the hinge loss on the best wrong class (section
        III-D).
    codes : {"random", "best"}
        Whether a round's code is drawn, or the best for its weak learner: then the bound holds over all codes.
    tol : float
        Relative gap at which training stops.
    max_rounds : int
    weak_learner : {"stump"} or callable
    exact : bool
        Whether pricing goes over all distinct thresholds, or over at most 255 of a feature.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping, validation_fraction, n_iter_no_change
        As in :class:`structboost.MultiBoostCWClassifier`.
    random_state : int, RandomState or None
        Codes that are drawn, and the held-out part.
    n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    classes_, model_, history_, n_iter_, feature_importances_
        As in :class:`structboost.MultiBoostCWClassifier`.
    objective_ : float
        Exponential loss, summed over the pairs; hinge loss, summed over the examples.
    theta_ : float
        The bound of the l1 norm that was used.
    """

    def __init__(
        self,
        *,
        theta: Any = "stage_wise",
        loss: str = "exponential",
        codes: str = "random",
        tol: float = 1e-4,
        max_rounds: int = 500,
        weak_learner: str | Callable[..., WeakLearnerFamily] = "stump",
        exact: bool = False,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        super().__init__(
            max_rounds=max_rounds,
            weak_learner=weak_learner,
            exact=exact,
            class_weight=class_weight,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callbacks=callbacks,
        )
        self.theta = theta
        self.loss = loss
        self.codes = codes
        self.tol = tol

    def _rule(self) -> PricingRule:
        return BestCode() if checked_choice(self.codes, "codes", CODE_RULES) == "best" else super()._rule()
