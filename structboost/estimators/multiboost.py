"""scikit-learn faces of MultiBoost and MultiBoost^cw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structboost.boosting import Callback, StructBoost
from structboost.estimators.fitted import BoostedClassifier
from structboost.masters.exponential import Exponential
from structboost.task import Task
from structboost.validation import checked_choice

LOSSES = ("exponential", "hinge")


class MultiBoostCWClassifier(BoostedClassifier):
    """MultiBoost^cw: every class has weak learners of its own, one a round; exponential loss.

    Lin, Shen, van den Hengel and Suter, ACCV 2012.

    Parameters
    ----------
    C : float
        Weight of the training loss; infinite for no regularisation.  ``C=float("inf"), tau_max=1`` is CW-1, the
        stage-wise method of the paper's tables.
    tol : float
        Relative gap at which training stops.
    max_rounds : int
    tau_max : int
        Sweeps of coordinate descent in a round; 1 is stage-wise.
    solver : {"fcd", "lbfgs"}
        Fast coordinate descent, or L-BFGS-B on the same problem.
    epsilon : float
        KKT violation that coordinate descent leaves alone.
    weak_learner : {"stump"}
    exact : bool
        Whether pricing goes over all distinct thresholds, or over at most 255 of a feature.
    taxonomy : nested lists, parent array or networkx.DiGraph, optional
        Tree whose leaves are the labels: classes share the weak learners of their ancestors, and a wrong class costs
        the height of the first common ancestor (:class:`structboost.TaxonomyTask`).
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping : bool
        Whether to hold out a part of the training set, stop when its error has not improved for
        ``n_iter_no_change`` rounds, and keep the best round.
    validation_fraction : float
        Share that is held out.
    n_iter_no_change : int
    random_state : int, RandomState or None
        Order of the later sweeps, and the held-out part.
    n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in the order of the columns of :meth:`decision_function`.
    model_ : Ensemble
    history_ : list of dict
        One record a round, with the certificate.
    objective_ : float
        ``sum(w) + C/p sum of exp(-margin)``, or the mean of the latter alone where C is infinite.
    n_iter_ : int
        Rounds in the model.
    feature_importances_ : ndarray, shape (n_features,)
    """

    def __init__(
        self,
        *,
        C: float = 1e4,
        tol: float = 0.01,
        max_rounds: int = 500,
        tau_max: int = 2,
        solver: str = "fcd",
        epsilon: float = 1e-3,
        weak_learner: str = "stump",
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
        self.C = C
        self.tol = tol
        self.max_rounds = max_rounds
        self.tau_max = tau_max
        self.solver = solver
        self.epsilon = epsilon
        self.weak_learner = weak_learner
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
            tol=self.tol,
            max_rounds=self.max_rounds,
            weak_learner=self.weak_learner,
            formulation=Exponential(self.solver, self.tau_max, self.epsilon),
            exact=self.exact,
            pricing="own",
            columns_per_channel=1,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            callbacks=callbacks,
        )


class MultiBoostClassifier(BoostedClassifier):
    """MultiBoost: all classes share the weak learners, one a round ((6) of MultiBoost^cw; Shen and Hao, 2011).

    Parameters
    ----------
    C : float
        Weight of the training loss; infinite for no regularisation (exponential loss only).
    loss : {"exponential", "hinge"}
    tol : float
        Relative gap at which training stops.
    max_rounds : int
    solver : {"lbfgs", "fcd"}
        Of the exponential loss.
    tau_max, epsilon
        Of ``solver="fcd"``, as in :class:`MultiBoostCWClassifier`.
    weak_learner, exact, taxonomy, class_weight, early_stopping, validation_fraction, n_iter_no_change
        As in :class:`MultiBoostCWClassifier`.
    random_state, n_jobs, verbose, callbacks
        As in :class:`MultiBoostCWClassifier`.

    Attributes
    ----------
    classes_, model_, history_, objective_, n_iter_, feature_importances_
        As in :class:`MultiBoostCWClassifier`.
    """

    def __init__(
        self,
        *,
        C: float = 1e4,
        loss: str = "exponential",
        tol: float = 0.01,
        max_rounds: int = 500,
        solver: str = "lbfgs",
        tau_max: int = 2,
        epsilon: float = 1e-3,
        weak_learner: str = "stump",
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
        self.C = C
        self.loss = loss
        self.tol = tol
        self.max_rounds = max_rounds
        self.solver = solver
        self.tau_max = tau_max
        self.epsilon = epsilon
        self.weak_learner = weak_learner
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
        checked_choice(self.loss, "loss", LOSSES)
        exponential = Exponential(self.solver, self.tau_max, self.epsilon)
        return StructBoost(
            task,
            C=self.C,
            tol=self.tol,
            max_rounds=self.max_rounds,
            weak_learner=self.weak_learner,
            formulation=exponential if self.loss == "exponential" else "one_slack",
            exact=self.exact,
            pricing="best",
            columns_per_channel=1,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            callbacks=callbacks,
        )
