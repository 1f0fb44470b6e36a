"""scikit-learn face of ShareBoost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structboost.boosting import Callback, StructBoost
from structboost.estimators.fitted import BoostedClassifier
from structboost.masters.logistic import Logistic
from structboost.task import Task
from structboost.weak.base import WeakLearnerFamily
from structboost.weak.free_sign import FreeSign


class ShareBoostClassifier(BoostedClassifier):
    """ShareBoost: few features, shared by all classes, chosen greedily and fully re-fitted.

    Shalev-Shwartz, Wexler and Shashua, NIPS 2011.  One fit is the whole path from one feature to ``max_rounds``:
    ``staged_predict`` walks along it.

    Parameters
    ----------
    max_rounds : int
        Most features (or stumps); fewer where no further one has a gradient.
    weak_learner : {"feature", "stump", "piecewise"} or callable
        What is chosen: the features themselves, scaled into -1..1; stumps over all thresholds; or the linear pieces
        of a piecewise linear function.  ``functools.partial(FeatureFamily, groups=...)`` chooses groups of features,
        ``functools.partial(PatchFamily, image_shape=...)`` templates of image patches.
    choice : {"gradient", "line_search", "column_search", "refit"}
        What makes a feature the next one (:class:`structboost.weak.free_sign.FreeSign`).
    short_list : int
        How many features of largest gradient the choices other than ``gradient`` compare.
    C : float
        Weight of the loss against the regulariser; infinite for none.
    regulariser : {"frobenius", "l1", "l1_linf"}
        As in :class:`structboost.Logistic`.
    gradient_tolerance : float
        Largest entry of the gradient at which a re-fit ends.
    learners_per_round : int
        Features chosen together in a round.
    exact : bool
        Whether stumps are priced over all distinct thresholds, or over at most 255 of a feature.
    taxonomy, class_weight, early_stopping, validation_fraction, n_iter_no_change
        As in :class:`structboost.MultiBoostCWClassifier`.
    random_state : int, RandomState or None
        The held-out part.
    n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    classes_, model_, history_, n_iter_, feature_importances_
        As in :class:`structboost.MultiBoostCWClassifier`; the gap is None.
    objective_ : float
        Mean loss (3), and the regulariser.
    """

    def __init__(
        self,
        *,
        max_rounds: int = 100,
        weak_learner: str | Callable[..., WeakLearnerFamily] = "feature",
        choice: str = "gradient",
        short_list: int = 10,
        C: float = 1e4,
        regulariser: str = "frobenius",
        gradient_tolerance: float = 1e-4,
        learners_per_round: int = 1,
        exact: bool = False,
        taxonomy: Any = None,
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
        self.choice = choice
        self.short_list = short_list
        self.C = C
        self.regulariser = regulariser
        self.gradient_tolerance = gradient_tolerance
        self.learners_per_round = learners_per_round
        self.exact = exact
        self.taxonomy = taxonomy
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _trainer(self, task: Task, callbacks: Sequence[Callback], *, early_stopping: bool) -> StructBoost:
        return StructBoost(
            task,
            C=self.C,
            tol=0.0,
            max_rounds=self.max_rounds,
            weak_learner=self.weak_learner,
            formulation=Logistic(self.regulariser, gradient_tolerance=self.gradient_tolerance),
            exact=self.exact,
            pricing=FreeSign(self.choice, self.short_list),
            columns_per_channel=self.learners_per_round,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            callbacks=callbacks,
        )
