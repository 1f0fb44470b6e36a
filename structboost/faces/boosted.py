"""Classifier that trains StructBoost, and the base class of all such estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.task import Task
from structboost.errors import warn_user
from structboost.faces.base import BoostedEstimator
from structboost.faces.classifiers import TaxonomyClassifier
from structboost.faces.objectives import (
    EXPONENTIAL,
    HINGE,
    L1_LOG_LOSS,
    LOG_LOSS,
    STAGE_WISE,
    SVM,
    check_parameters,
    checked_objective,
    is_one_linear_function,
    members_of,
    reads,
)
from structboost.faces.parameters import estimator, is_same
from structboost.faces.saved import plain_parameters
from structboost.faces.tables import TableEstimator
from structboost.faces.tree_settings import (
    FEWEST_OF_LONG,
    MOST_FEATURES_OF_LONG,
    TreeSettings,
    chosen_features,
    chosen_penalty,
    chosen_steps,
    constant_loss,
    some_examples,
)
from structboost.files.checkpoint import Checkpoint
from structboost.learners.binning import BinsOfOneTable
from structboost.learners.families import WeakLearners
from structboost.learners.label_augmented import LabelAugmented
from structboost.learners.pricing import RULES, PricingRule
from structboost.learners.tree import TreeFamily
from structboost.linear.linear_trainer import LinearTrainer
from structboost.model.ensemble import Ensemble
from structboost.objectives.base import Formulation
from structboost.objectives.newton_steps import NewtonSteps
from structboost.objectives.registry import formulation_of
from structboost.objectives.stage_wise_likelihood import StageWiseLikelihood
from structboost.objectives.values import OBJECTIVES, Objective
from structboost.progress import Progress
from structboost.tasks.tables import has_contradictions
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.training.boosting import AUTO
from structboost.training.engines import Engine
from structboost.training.held_out_runs import EARLY, HeldOutRun, ends_early, fitted_factor
from structboost.training.history import fit_in_words
from structboost.validation import (
    checked_choice,
    checked_positive,
    checked_whole_number,
    is_text,
    shown,
)

# Largest depth of TreeFamily.
_DEEPEST = 12
# Maximum numbers of rounds, the second where left-out rows end training.
_MOST_ROUNDS, _MOST_ROUNDS_THAT_END = 200, 1000
# With many examples, whose held-out loss falls for long, rounds are few and steps longer.
_LARGE, _RATE_OF_LARGE = 20_000, 0.15
# Largest fraction of a step: longer ones overshoot.
_MOST_RATE = 10.0
# Where each distinct row occurs so often, on average, rows that a round leaves out are no new rows.
_REPEATED = 2.0
# Folds that decide end, steps and temperature, and the most parts of which there are folds.  Of
# more examples, so many are tried, in at most so many rounds.
_FOLDS, _MOST_FOLDED = 2, 6000
_MOST_TRIED, _MOST_ROUNDS_TRIED = 5000, 120
# More rounds are worth a warning where the held-out loss still fell: rounds to look back, and the
# least fractions by which it fell since then (docs/decisions.md).
_STILL_FALLING = {100: 0.05, 20: 0.005}


@estimator
class StructBoostEstimator(BoostedEstimator):
    """Base of the four estimators of StructBoost.

    ``objective`` alone selects the function that is minimised.  A parameter that the objective
    does not read raises an error.

    Parameters
    ----------
    objective : {"log_loss", "hinge", "svm", "exponential", "l1_log_loss"}, Objective or Formulation
        Function that is minimised.  ``"log_loss"``: minus the mean logarithm of the probability of
        the true output, by stage-wise boosting, without a certificate.  ``"hinge"``: C times the
        mean hinge of the loss plus the l1 norm of the weights, to a certified gap.  ``"svm"``: C
        times this hinge plus half the squared norm of one linear function.  ``"exponential"`` and
        ``"l1_log_loss"``: C times these losses plus the l1 norm of the weights.  A
        :class:`structboost.objectives.Formulation` is minimised unchanged.  An
        :class:`structboost.objectives.Objective`, such as ``Hinge(C=10)``, has parameters of its
        own in place of those below.
    learning_rate : float or "auto"
        Fraction of each step that is taken.  ``"auto"`` depends on the objective, and
        ``learning_rate_`` is the result.  Read by stage-wise objectives.
    max_iter : int or "auto"
        Maximum number of rounds of boosting, or of passes for one linear function.  ``"auto"`` is
        1000 for ``"log_loss"`` over trees on at most 20,000 examples, 100 for few long steps, else
        200.  Training usually ends much earlier: 160 rounds after the least loss of left-out rows,
        or, only with ``"auto"``, 40 if held-out rows of at most 6,000 examples lose nothing so.
    max_depth : int or "auto"
        Depth of the trees.  ``"auto"`` is 5.  If learning rate, rounds and features are left open,
        too, classifiers of 2,000 rows or more and at most 64 features also try few long steps: 100
        rounds of depth 7 on 80 % of the rows, with a learning rate of .2.  Held-out rows decide;
        ``max_depth_`` is the result.  Read by stage-wise objectives.
    min_samples_leaf : int
        Minimum number of rows in a leaf of a tree.  A round is grown on some of the distinct rows,
        so repeated rows count once.  Read by stage-wise objectives.
    l2_regularization : float
        Weight of the squared leaves of a tree.  Read by stage-wise objectives.
    max_features : float or "auto"
        Fraction of the features that each node of a tree may split, drawn anew for each node.
        ``"auto"`` is a third of more than 32 features.  For fewer, it is a third or all, by the
        loss on the rows that 40 rounds leave out, and all if no rows are left out.
        ``max_features_`` is the result.  Read by stage-wise objectives.
    C : float or "auto"
        Weight of the training loss against the norm of the weights.  ``"auto"`` chooses the
        C that is best on held-out samples, and then trains on all samples.  With
        ``early_stopping``, both use the same held-out part.  Not read by stage-wise objectives.
    tol : float
        Relative gap ``(primal - bound) / primal``, below 1, at which training stops.  Not read by
        stage-wise objectives.
    formulation : {"auto", "one_slack", "m_slack"}
        Program that is solved for the hinge, with the same optimum.  ``"auto"`` takes the one that
        needs less time, by the numbers of examples and channels and by C
        (:class:`structboost.objectives.HingeBySize`).  ``formulation_`` is the result.
    stabilize : bool
        Whether the 1-slack program is stabilised; False is Algorithm 2 as printed.
    weak_learner : str, callable or list of these
        Family of weak learners, as in :class:`structboost.StructBoost`.  ``"auto"`` is trees for
        stage-wise objectives, one linear function for ``"svm"``, else stumps.
    pricing : {"own", "best"} or PricingRule
        Whether each channel has separate weak learners, or all share them.
    columns_per_channel : int
        Maximum number of columns added per channel and round, each on another feature.
    spread : float
        If positive, training ends with weights of small norm whose relative gap is at most this,
        which usually lowers the test error.  It must be above ``tol``.  Early stopping ignores it.
    engine : {"serial", "threads", "processes", "dask"} or Engine
        Engine of computations on the training set, which does not change the result of a
        formulation.  Only ``"one_slack"`` supports processes and Dask.
    checkpoint : str, path or Checkpoint, optional
        File to write the run to.  If it exists, :meth:`fit` resumes from it.
    scoring : str or callable, optional
        Scorer of held-out data for the choice of C and for early stopping.  It is a name of
        scikit-learn, or a function ``scorer(estimator, X, y)``, where larger is better.  Rankers
        call it for each query.  By default the criterion is the likelihood or the hinge
        (docs/decisions.md).
    random_state : int, RandomState or None
        Seed for all random choices.  With None, stage-wise boosting still draws the same rows in
        every fit.

    Attributes
    ----------
    C_path_ : list of dict
        Only with ``C="auto"``.  A record for each C, in the form of
        :class:`structboost.StructBoost`.
    C_path_end_ : str
        Only with ``C="auto"``.  Reason why no larger C was tried.
    formulation_ : str
        Formulation that trained, empty for one linear function without boosting.
    learner_ : str
        Names of the families of weak learners in the model.
    learning_rate_ : float
        Fraction of each step that was taken.  Missing if no steps are shrunk.
    max_depth_, max_features_ : int, float
        Depth of the trees, and fraction of the features that each node could split.  Missing
        without stage-wise boosted trees.
    category_penalty_ : float
        Number of mean row weights that a split by a set had to gain for each further category
        (:class:`structboost.learners.TreeFamily`).  1, unless left-out rows have a clearly lower
        loss with 0.  Missing without columns of categories or without stage-wise boosted trees.
    minimised_ : str
        Name of the objective of the fit.  Its value is ``objective_``.
    """

    objective: str | Objective | Formulation = LOG_LOSS
    learning_rate: float | str = AUTO
    max_iter: int | str = AUTO
    max_depth: int | str = AUTO
    min_samples_leaf: int = 1
    l2_regularization: float = 0.0
    max_features: float | str = AUTO
    C: float | str = AUTO
    tol: float = 0.01
    formulation: str = AUTO
    stabilize: bool = True
    weak_learner: WeakLearners = AUTO
    pricing: str | PricingRule = "own"
    columns_per_channel: int = 5
    spread: float = 0.0
    engine: str | Engine = "threads"
    checkpoint: str | PathLike[str] | Checkpoint | None = None
    scoring: Any = None

    # Settings of trees, which a fit chooses.
    _trees = TreeSettings()
    # Whether few long steps of deep trees are tried on large tables.
    _tries_long_steps = False

    # Names of objectives.
    _objectives: ClassVar[tuple[str, ...]] = (LOG_LOSS, HINGE, SVM, EXPONENTIAL, L1_LOG_LOSS)

    def _check_parameters(self, weak_learner: Any = None) -> None:
        self._check_objective(self.weak_learner if weak_learner is None else weak_learner)
        super()._check_parameters()

    @property
    def learner_(self) -> str:
        """Names of the families of weak learners in the model."""
        return self.model_.families

    @property
    def formulation_(self) -> str:
        """Formulation of the fit, empty if one linear function was fitted without boosting."""
        return str(self.model_.metadata.get("formulation", ""))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = str(super().__repr__(N_CHAR_MAX))
        if "objective=" not in text:
            name, arguments = text.split("(", 1)
            comma = "" if arguments.startswith(")") else ", "
            text = f"{name}(objective={self.objective!r}{comma}{arguments}"
        return f"{text}  # {self._summary()}" if hasattr(self, "minimised_") else text

    def _objective_name(self) -> str:
        objective = self.objective
        return objective.name if isinstance(objective, Objective) else shown(objective).strip("'")

    def _summary(self) -> str:
        """Describe objective, weak learners, choices and ending of the fit in words."""
        choices = []
        if hasattr(self, "learning_rate_"):
            choices.append(f"learning rate {self.learning_rate_:.3g}")
        if hasattr(self, "max_features_"):
            choices.append(f"max_features {self.max_features_:.3g}")
        if hasattr(self, "max_depth_"):
            choices.append(f"depth {self.max_depth_}")
        if hasattr(self, "category_penalty_"):
            choices.append(f"category_penalty {self.category_penalty_:.3g}")
        if self.temperature_ is not None:
            choices.append(f"temperature {self.temperature_:.3g}")
        formulation = self.formulation_ if self.minimised_ == HINGE else ""
        return fit_in_words(self, self.minimised_, self.n_iter_, formulation, choices)

    def _check_objective(self, weak_learner: Any) -> str:
        """Return the name of the objective, if it reads all parameters with these weak learners.

        ValueError or TypeError if there is no such objective, or it does not read a parameter that
        was set.
        """
        objective = self._take_objective()
        self._check_scoring(objective, weak_learner)
        if not is_same(self.max_iter, AUTO):
            checked_whole_number(self.max_iter, "max_iter")
        values = {**self.get_params(deep=False), "weak_learner": weak_learner}
        defaults = {name: getattr(type(self), name) for name in values}
        check_parameters(objective, values, defaults, self._objectives)
        return objective

    def _check_scoring(self, objective: str, weak_learner: Any) -> None:
        """Raise ValueError if ``scoring`` would not be used."""
        is_chosen = is_same(self.C, AUTO) and "C" in reads(objective, weak_learner)
        if self.scoring is not None and not is_chosen and not self.early_stopping:
            raise ValueError(
                f"scoring is {shown(self.scoring)}, and nothing is chosen by it; set "
                "early_stopping=True, or C='auto' with an objective that reads C, such as 'hinge'."
            )

    def _take_objective(self) -> str:
        """Return the name of the objective, whose own parameters a draft gets as its flat ones."""
        name = checked_objective(self.objective, self._objectives)
        if isinstance(self.objective, Objective):
            self.objective.give_to(self)
            self.objective = name
        return name

    def set_params(self, **params: Any) -> Self:
        """Set parameters, where ``objective__C`` makes an objective of a name.

        Parameters
        ----------
        **params
            Parameters of the estimator, and of its objective after ``objective__``.

        Returns
        -------
        self : object
            The estimator.
        """
        objective = params.get("objective", self.objective)
        if any(name.startswith("objective__") for name in params) and isinstance(objective, str):
            checked_objective(objective, self._objectives)
            params["objective"] = OBJECTIVES[objective]()
        updated: Self = super().set_params(**params)
        return updated

    def _is(self, *names: str) -> bool:
        """Whether the objective is one of these."""
        return self._objective_name() in names

    @property
    def _is_stage_wise(self) -> bool:
        """Whether boosting is stage-wise."""
        return self._is(*STAGE_WISE) and not self._is_one_linear_function

    @property
    def _is_one_linear_function(self) -> bool:
        """Whether one linear function is fitted, without boosting."""
        return is_one_linear_function(self._objective_name(), self._weak_learners())

    def _stage_wise(self) -> NewtonSteps:
        """Return the formulation of the stage-wise objective, with its default learning rate."""
        raise NotImplementedError

    def _formulation(self) -> str | Formulation:
        if isinstance(self.objective, Formulation):
            return self.objective
        if self._is(LOG_LOSS) and self._is_one_linear_function:
            return "log"
        if self._is(*STAGE_WISE):
            stage_wise = self._stage_wise()
            trees = self._trees
            if trees.patience is not None:
                stage_wise = replace(stage_wise, patience=trees.patience)
            if is_same(self.learning_rate, AUTO):
                rate = trees.learning_rate
                return stage_wise if rate is None else replace(stage_wise, shrinkage=rate)
            rate = checked_positive(self.learning_rate, "learning_rate")
            if rate > _MOST_RATE:
                raise ValueError(
                    f"learning_rate is {shown(rate)}; give a fraction of each step, such as 0.1."
                )
            return replace(stage_wise, shrinkage=rate)
        if self._is(EXPONENTIAL):
            return "exponential"
        if self._is(L1_LOG_LOSS):
            return "log"
        return self.formulation

    def _settings(self, task: Task) -> dict[str, Any]:
        formulation = self._formulation()
        settings: dict[str, Any] = {
            "formulation": formulation,
            "weak_learner": self._weak_learners(),
            "pricing": self._pricing(task),
            "spread": 0.0 if self.early_stopping else self.spread,
            "max_rounds": self._trees.max_rounds if is_same(self.max_iter, AUTO) else self.max_iter,
        }
        if isinstance(formulation, Formulation) and not formulation.can_choose_C:
            if is_same(self.C, AUTO) and _takes_infinite(formulation):
                settings["C"] = np.inf
        if self._is_stage_wise:
            settings["columns_per_channel"] = 1
            settings["weak_learner"] = self._grown(settings["weak_learner"])
        return settings

    def _first_trees(self, n_examples: int) -> TreeSettings:
        """Return the settings of trees from which the choice begins."""
        ends = self._is(LOG_LOSS) and is_same(self._weak_learners(), "tree")
        is_many = n_examples > _LARGE
        most: Any = _MOST_ROUNDS_THAT_END if ends and not is_many else _MOST_ROUNDS
        if not is_same(self.max_iter, AUTO):
            most = self.max_iter
        rate = _RATE_OF_LARGE if is_many and self._tries_long_steps else None
        first = TreeSettings(max_rounds=most, learning_rate=rate)
        if not is_same(self.max_depth, AUTO):
            depth = checked_whole_number(self.max_depth, "max_depth", _DEEPEST)
            first = replace(first, max_depth=depth)
        if not is_same(self.max_features, AUTO):
            first = replace(first, max_features=self.max_features)  # type: ignore[arg-type]
        return first

    def _grown(self, weak_learner: Any) -> Any:
        """Return the weak learners of stage-wise boosting, with trees set up by the parameters."""
        if isinstance(weak_learner, list | tuple):
            return [self._grown(member) for member in weak_learner]
        if not is_same(weak_learner, "tree"):
            return weak_learner
        settings = self._trees
        trees = partial(
            TreeFamily,
            depth=settings.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            max_features=settings.max_features,
            category_penalty=settings.category_penalty,
            confident=True,
            row_fraction=settings.row_fraction,
            random_state=0 if self.random_state is None else self.random_state,
        )
        binning = getattr(self, "_binning", None)
        return trees if binning is None else partial(trees, binning=binning)

    def _weak_learners(self) -> WeakLearners:
        if not is_same(self.weak_learner, AUTO):
            return self.weak_learner
        if self._is(*STAGE_WISE):
            return "tree"
        return "linear" if self._is(SVM) else "stump"

    def _trainer(self, task: Task, **settings: Any) -> Any:
        if self._is_one_linear_function:
            return self._linear_trainer(task)
        trainer = super()._trainer(task, **settings)
        formulation = formulation_of(trainer.formulation, stabilize=trainer.stabilize)
        if not formulation.works_on_shards and self.engine in ("processes", "dask"):
            raise ValueError(
                f"engine is {self.engine!r}, and objective={shown(self.objective)} supports "
                "threads only; take engine='threads', or write objective='hinge'."
            )
        return trainer

    def _linear_trainer(self, task: Task, active: Sequence[str] = ()) -> Any:
        """Return the trainer of one linear function."""
        if getattr(self, "_directions", None) is not None:
            raise ValueError(
                "monotonic_cst needs stumps or trees, and one linear function is fitted; leave it "
                "out, or write weak_learner='tree' with a stage-wise objective."
            )
        settings = {
            "max_rounds": self._settings(task)["max_rounds"],
            "random_state": self.random_state,
            "verbose": self.verbose,
            "C": self.C,
            "tol": self.tol,
        }
        if not self._is(SVM):
            settings |= {"loss": "log_loss", **self._of_likelihood(task)}
        return LinearTrainer(task, **settings, active=active)

    def _of_likelihood(self, task: Task) -> dict[str, Any]:
        """Return further parameters of the trainer of one linear function by its likelihood."""
        return {}

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
        runs: list[HeldOutRun] = []
        has_trees = any(is_text(name, "tree") for name in members_of(self._weak_learners()))
        is_grown, is_open = self._is_stage_wise and has_trees, False
        # The trials, the folds and the fit bin one table.
        self._trees, self._binning = self._first_trees(len(train[1])), BinsOfOneTable()
        try:
            if is_grown:
                progress = Progress(visible=bool(self.verbose))
                progress.show("choosing settings on held-out rows", None)
                try:
                    of_fit = task, train, sample_weight, groups, counts
                    self._trees, runs = self._chosen_trees(*of_fit)
                finally:
                    progress.close()
                of_constant = constant_loss(train[1], sample_weight)
                # Where the user gave the rounds, a run can be resumed with more of them.
                ends = is_same(self.max_iter, AUTO) and not self.early_stopping
                if ends and ends_early(runs, of_constant):
                    self._trees = replace(self._trees, patience=EARLY)
                self._keep_trees()
            super()._train(task, train, validation, sample_weight, whole, groups, counts)
            if is_grown and self.early_stopping and whole and self.ending_ != "interrupted":
                runs, counts = self._runs_after_early_stopping(task, *whole), whole[3]
            is_open = self._binning.rows_of_each(counts) >= _REPEATED
        finally:
            self._binning.forget()
            del self._binning
        if runs and self.ending_ != "interrupted":
            self._correct_temperature(runs, is_open)
        self.minimised_ = self._objective_name()
        if isinstance(formulation := self._formulation(), NewtonSteps) and self._is_stage_wise:
            self.learning_rate_ = float(formulation.shrinkage)
        self._warn_of_few_rounds()

    @property
    def _gives_losses(self) -> bool:
        """Whether losses of held-out examples can be measured during boosting."""
        return formulation_of(self._formulation()).learns_from_held_out

    def _chosen_trees(
        self,
        task: Task,
        train: tuple[Any, Any],
        sample_weight: Any,
        groups: IntArray | None,
        counts: IntArray | None,
    ) -> tuple[TreeSettings, list[HeldOutRun]]:
        """Choose the settings that are left open, and return the fits that leave examples out.

        Of many examples some are tried, and no fits are returned.
        """
        if not self._gives_losses:
            return self._trees, []
        X, Y = train
        first, n_examples = self._trees, len(Y)

        trainer_of = partial(self._trainer_of, task)

        def after_short_trials(trees: TreeSettings) -> TreeSettings:
            if is_same(self.max_features, AUTO) and trees.row_fraction == TreeSettings.row_fraction:
                n_features = self.n_features_in_ or 0
                trees = chosen_features(trees, trainer_of, n_features, train, sample_weight)
            if getattr(self, "categories_", None):
                trees = chosen_penalty(trees, trainer_of, train, sample_weight)
            return trees

        is_wide = (self.n_features_in_ or 0) > MOST_FEATURES_OF_LONG
        # They would change all of these.
        names = ("max_depth", "max_features", "learning_rate", "max_iter")
        is_open = all(is_same(getattr(self, name), AUTO) for name in names)
        tries = self._tries_long_steps and is_open and not is_wide
        if _n_parts(Y) > _MOST_FOLDED:
            if tries:
                some_X, some_Y, weights = some_examples(X, Y, sample_weight, _MOST_TRIED)
                folds = self._weights_of_folds(some_X, some_Y, weights)[:1]

                def runs_of_some(trees: TreeSettings) -> list[HeldOutRun]:
                    few = replace(trees, max_rounds=min(trees.max_rounds, _MOST_ROUNDS_TRIED))
                    return self._runs(task, few, (some_X, some_Y), folds)

                first, _ = chosen_steps(first, runs_of_some, are_few=n_examples > _LARGE)
            return after_short_trials(first), []
        folds = self._weights_of_folds(X, Y, sample_weight, groups, counts)
        chosen = after_short_trials(first)
        if tries and n_examples >= FEWEST_OF_LONG:
            return chosen_steps(chosen, lambda trees: self._runs(task, trees, train, folds))
        # Early stopping ends otherwise.
        return chosen, [] if self.early_stopping else self._runs(task, chosen, train, folds)

    def _trainer_of(self, task: Task, trees: TreeSettings) -> Any:
        """Return a trainer with these settings, which shows no progress and writes no file."""
        self._trees = trees
        settings: dict[str, Any] = {"max_rounds": trees.max_rounds}
        if trees.learning_rate is not None:
            formulation: Any = self._formulation()
            settings["formulation"] = replace(formulation, shrinkage=trees.learning_rate)
        return self._trainer(task, **settings, checkpoint=None, verbose=0, callbacks=None)

    def _runs(
        self,
        task: Task,
        trees: TreeSettings,
        examples: tuple[Any, Any],
        folds: Sequence[tuple[FloatArray, FloatArray]],
    ) -> list[HeldOutRun]:
        """Train without the held-out examples of each fold."""
        trainer = self._trainer_of(task, trees)
        return [HeldOutRun.of(trainer, examples, *of_fold) for of_fold in folds]

    def _runs_after_early_stopping(
        self, task: Task, X: Any, Y: Any, sample_weight: Any, counts: IntArray | None
    ) -> list[HeldOutRun]:
        """Train for as many rounds as were best, without the held-out examples of each fold."""
        if _n_parts(Y) > _MOST_FOLDED or not self._gives_losses:
            return []
        folds = self._weights_of_folds(X, Y, sample_weight, counts=counts)
        trees = replace(self._trees, max_rounds=self.n_iter_)
        return self._runs(task, trees, (X, Y), folds)

    def _keep_trees(self) -> None:
        """Set the attributes of the trees that were chosen."""
        trees = self._trees
        self.max_depth_, self.max_features_ = trees.max_depth, trees.max_features
        if getattr(self, "categories_", None):
            self.category_penalty_ = trees.category_penalty

    def _weights_of_folds(
        self, X: Any, Y: Any, sample_weight: Any, groups: Any = None, counts: Any = None
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Return the weights of training and held-out examples of the first folds.

        There are none if no example can be held out.
        """
        if counts is not None and not has_contradictions(X):
            counts = None  # equal examples stay together, as if they were one of more weight
        try:
            folds = self._folds(X, Y, sample_weight, groups, counts)[:_FOLDS]
        except ValueError:
            return []
        return [fold.weights_of(len(Y)) for fold in folds]

    def _correct_temperature(self, runs: Sequence[HeldOutRun], is_open: bool) -> None:
        """Set the temperature by held-out examples.

        ``is_open`` is whether the rows that rounds left out tell nothing of it.
        """
        looks = [run.after(self.n_iter_) for run in runs]
        factor = fitted_factor(runs, looks, is_open=is_open).factor
        if not is_open and self.temperature_ is not None:
            factor *= self.temperature_
        self.temperature_, model = factor, self.model_
        metadata = {**model.metadata, "temperature": factor}
        self.model_ = Ensemble(model.kinds, model.members, model.weights, model.stages, metadata)

    def _warn_of_few_rounds(self) -> None:
        """Warn if the default number of rounds ended training while the held-out loss fell."""
        is_default = is_same(self.max_iter, AUTO)
        losses = {entry["round"]: entry.get("held_out_loss") for entry in self.history_}
        measured = {n: loss for n, loss in losses.items() if loss is not None}
        n_rounds = len(losses)
        if self.ending_ != "max_rounds" or not is_default or n_rounds not in measured:
            return
        last = measured[n_rounds]
        if last > min(measured.values()) or any(
            last > (1.0 - fall) * measured.get(n_rounds - back, -np.inf)
            for back, fall in _STILL_FALLING.items()
        ):
            return
        fall = 1.0 - last / measured[n_rounds - 100]
        warn_user(
            f"Training ended after {n_rounds} rounds, the default, and the held-out loss fell by "
            f"{100 * fall:.0f} % in the last 100 of them: more rounds are likely to help. Give "
            f"max_iter, such as max_iter={2 * n_rounds}.",
            ConvergenceWarning,
        )

    @override
    def _restore(self, facts: Mapping[str, Any]) -> None:
        super()._restore(facts)
        self.minimised_ = str(facts["objective_name"])
        if (learning_rate := facts.get("learning_rate")) is not None:
            self.learning_rate_ = float(learning_rate)

    @override
    def _facts(self) -> dict[str, Any]:
        learning_rate = getattr(self, "learning_rate_", None)
        names = {"objective_name": self.minimised_, "learning_rate": learning_rate}
        flat = copy(self)
        flat._take_objective()
        return super()._facts() | names | {"parameters": plain_parameters(flat)}

    def _pricing(self, task: Task) -> str | PricingRule:
        """Return the pricing rule for ``task``, or its name."""
        return self.pricing


@estimator
class StructBoostClassifier(TaxonomyClassifier, StructBoostEstimator, TableEstimator):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    By default it boosts trees stage-wise for the likelihood of the labels
    (:class:`structboost.objectives.StageWiseLikelihood`), each round on half of the rows, which
    needs no C and has no certificate (docs/decisions.md).  ``objective="hinge"``
    minimises the hinge loss over stumps, to a certified gap.  Engines of several processes need it.

    Parameters
    ----------
    pricing : {"own", "best", "label_augmented"} or PricingRule
        Whether each channel has separate weak learners, or all share them.
        ``"label_augmented"`` needs a taxonomy: stumps on the input augmented with the label code
        (:class:`structboost.learners.label_augmented.LabelAugmented`; StructBoost, end of section
        3.4).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import StructBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructBoostClassifier(max_iter=20).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.predict_proba(X[:1]).shape
    (1, 3)
    """

    _tries_long_steps = True

    # Repeated, because the other base class has a different default.
    weak_learner: WeakLearners = AUTO

    def _fit_in_place(self, X: Any, y: Any, sample_weight: Any) -> Self:
        if self._is(*STAGE_WISE):
            raise ValueError(
                f"X is a {type(X).__name__}, on which objective={self.objective!r} cannot be "
                "trained; write objective='hinge', and give the C of a fit of some of the rows."
            )
        return super()._fit_in_place(X, y, sample_weight)

    @property
    def _is_likelihood(self) -> bool:
        return self._is(LOG_LOSS, L1_LOG_LOSS)

    def _stage_wise(self) -> NewtonSteps:
        return StageWiseLikelihood()

    @override
    def _pricing(self, task: Task) -> str | PricingRule:
        if isinstance(self.pricing, PricingRule):
            return self.pricing
        name = checked_choice(self.pricing, "pricing", (*RULES, "label_augmented"))
        if name != "label_augmented":
            return name
        if not isinstance(task, TaxonomyTask):
            raise ValueError(
                "pricing is 'label_augmented', which needs a taxonomy; give taxonomy=."
            )
        return LabelAugmented()


def _takes_infinite(formulation: Formulation) -> bool:
    """Whether a formulation accepts an infinite C."""
    try:
        formulation.check_C(np.inf)
    except ValueError:
        return False
    return True


def _n_parts(Y: Any) -> int:
    """Return the number of rows of a table, or of the tokens of sequences."""
    return len(Y) if isinstance(Y, np.ndarray) else sum(map(np.size, Y))
