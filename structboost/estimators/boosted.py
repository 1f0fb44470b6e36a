"""Classifier that trains StructBoost, and the base class of all such estimators."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.task import Task
from structboost.engines.base import Engine
from structboost.estimators.base import BoostedEstimator
from structboost.estimators.classifiers import TaxonomyClassifier
from structboost.estimators.fraction_of_features import ALL_FEATURES, chosen_fraction
from structboost.estimators.objectives import (
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
from structboost.estimators.parameters import estimator, is_same
from structboost.estimators.tables import TableEstimator
from structboost.exceptions import ConstantPredictionWarning, warn_user
from structboost.files.checkpoint import Checkpoint
from structboost.linear.linear_likelihood import LinearLikelihoodTrainer
from structboost.linear.linear_trainer import LinearTrainer
from structboost.masters.abilities import LearnsFromHeldOut
from structboost.masters.base import Formulation
from structboost.masters.likelihood import log_losses_at
from structboost.masters.newton_steps import NewtonSteps
from structboost.masters.registry import formulation_of
from structboost.masters.stage_wise_likelihood import StageWiseLikelihood
from structboost.model.ensemble import Ensemble
from structboost.model.prediction import model_scores
from structboost.runtime.interrupts import uninterrupted
from structboost.selection.folds import Fold
from structboost.selection.temperature import temperature_on_folds
from structboost.tasks.tables import has_contradictions
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.training.boosting import AUTO
from structboost.training.history import fit_in_words
from structboost.validation import (
    checked_choice,
    checked_positive,
    checked_whole_number,
    is_text,
    lacking,
    shown,
)
from structboost.weak.binning import BinsOfOneTable
from structboost.weak.families import WeakLearners
from structboost.weak.label_augmented import LabelAugmented
from structboost.weak.pricing import RULES, PricingRule
from structboost.weak.tree import TreeFamily

# Trees of stage-wise boosting are grown on half of the rows.
_ROW_FRACTION = 0.5
# Largest depth of TreeFamily.
_DEEPEST = 12
# Maximum numbers of rounds, the second where left-out rows end training.
_MOST_ROUNDS, _MOST_ROUNDS_THAT_END = 200, 1000
# With more examples than this, whose held-out loss falls for long, rounds are few and steps longer.
_LARGE, _RATE_OF_LARGE = 20_000, 0.15
# Largest fraction of a step: longer ones overshoot.
_MOST_RATE = 10.0
# Where each distinct row occurs so often, on average, rows that a round leaves out are no new rows.
# Then the temperature is fitted on folds, of which so many examples are enough.
_REPEATED, _EXAMPLES_OF_FOLDS = 2.0, 300
# More rounds are worth a warning where the held-out loss still fell: rounds to look back, and the
# least fractions by which it fell since then (docs/decisions/choices.md).
_STILL_FALLING = {100: 0.05, 20: 0.005}


@estimator
class StructBoostEstimator(BoostedEstimator):
    """Base of the four estimators of StructBoost.

    ``objective`` alone selects the function that is minimised.  A parameter that the objective
    does not read raises an error.

    Parameters
    ----------
    objective : {"log_loss", "hinge", "svm", "exponential", "l1_log_loss"} or Formulation
        Function that is minimised.  ``"log_loss"``: minus the mean logarithm of the probability of
        the true output, by stage-wise boosting, without a certificate.  ``"hinge"``: C times the
        mean hinge of the loss plus the l1 norm of the weights, to a certified gap.  ``"svm"``: C
        times this hinge plus half the squared norm of one linear function.  ``"exponential"`` and
        ``"l1_log_loss"``: C times these losses plus the l1 norm of the weights.  A
        :class:`structboost.masters.Formulation` is minimised unchanged.
    learning_rate : float or "auto"
        Fraction of each step that is taken.  ``"auto"`` depends on the objective, and
        ``learning_rate_`` is the result.  Read by stage-wise objectives.
    max_iter : int or "auto"
        Maximum number of rounds of boosting, or of passes for one linear function.  ``"auto"`` is
        1000 for ``"log_loss"`` over trees on at most 20,000 examples, which usually ends much
        earlier, else 200.
    max_depth : int
        Depth of the trees.  Read by stage-wise objectives.
    min_samples_leaf : int
        Minimum number of rows in a leaf of a tree.  A round is grown on half of the distinct rows,
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
        (:class:`structboost.masters.HingeBySize`).  ``formulation_`` is the result.
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
        (docs/decisions/auto-C.md).
    random_state : int, RandomState or None
        Seed for all random choices.  With None, stage-wise boosting still draws the same rows in
        every fit.
    max_rounds : int, optional
        Former name of ``max_iter``.

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
    max_features_ : float
        Fraction of the features that each node could split.  Missing without stage-wise boosted
        trees.
    minimised_ : str
        Name of the objective of the fit.  Its value is ``objective_``.
    """

    objective: str | Formulation = LOG_LOSS
    learning_rate: float | str = AUTO
    max_iter: int | str = AUTO
    max_depth: int = 5
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
    max_rounds: int | None = None  # type: ignore[assignment]

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
        return shown(self.objective).strip("'")

    def _summary(self) -> str:
        """Describe objective, weak learners, choices and ending of the fit in words."""
        choices = []
        if hasattr(self, "learning_rate_"):
            choices.append(f"learning rate {self.learning_rate_:.3g}")
        if hasattr(self, "max_features_"):
            choices.append(f"max_features {self.max_features_:.3g}")
        if self.temperature_ is not None:
            choices.append(f"temperature {self.temperature_:.3g}")
        formulation = self.formulation_ if self.minimised_ == HINGE else ""
        return fit_in_words(self, self.minimised_, self.n_iter_, formulation, choices)

    def _check_objective(self, weak_learner: Any) -> str:
        """Return the name of the objective, if it reads all parameters with these weak learners.

        ValueError or TypeError if there is no such objective, or it does not read a parameter that
        was set.
        """
        objective = checked_objective(self.objective, self._objectives)
        self._check_scoring(objective, weak_learner)
        if not is_same(self.max_iter, AUTO):
            checked_whole_number(self.max_iter, "max_iter")
        values = {**self.get_params(deep=False), "weak_learner": weak_learner}
        defaults = {name: getattr(type(self), name) for name in values}
        check_parameters(objective, values, defaults, self._objectives)
        if self.max_rounds is not None:
            if not is_same(self.max_iter, type(self).max_iter):
                raise ValueError("max_iter and max_rounds are both set; give max_iter alone.")
            warn_user("max_rounds is called max_iter now; 0.4 will not take it.", FutureWarning)
        return objective

    def _check_scoring(self, objective: str, weak_learner: Any) -> None:
        """Raise ValueError if ``scoring`` would not be used."""
        is_chosen = is_same(self.C, AUTO) and "C" in reads(objective, weak_learner)
        if self.scoring is not None and not is_chosen and not self.early_stopping:
            raise ValueError(
                f"scoring is {shown(self.scoring)}, and nothing is chosen by it; set "
                "early_stopping=True, or C='auto' with an objective that reads C, such as 'hinge'."
            )

    def _is(self, *names: str) -> bool:
        """Whether the objective is one of these."""
        return isinstance(self.objective, str) and self.objective in names

    @property
    def _is_stage_wise(self) -> bool:
        """Whether boosting is stage-wise."""
        return self._is(*STAGE_WISE) and not self._is_one_linear_function

    @property
    def _is_one_linear_function(self) -> bool:
        """Whether one linear function is fitted, without boosting."""
        is_named = isinstance(self.objective, str)
        return is_named and is_one_linear_function(str(self.objective), self._weak_learners())

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
            if is_same(self.learning_rate, AUTO):
                return stage_wise
            rate = checked_positive(self.learning_rate, "learning_rate")
            if rate > _MOST_RATE:
                raise ValueError(
                    f"learning_rate is {shown(rate)}; give a fraction of each step, such as 0.1."
                )
            return replace(stage_wise, shrinkage=rate)
        if self.objective == EXPONENTIAL:
            return "exponential"
        if self.objective == L1_LOG_LOSS:
            return "log"
        return self.formulation

    def _settings(self, task: Task) -> dict[str, Any]:
        formulation = self._formulation()
        settings: dict[str, Any] = {
            "formulation": formulation,
            "weak_learner": self._weak_learners(),
            "pricing": self._pricing(task),
            "spread": 0.0 if self.early_stopping else self.spread,
            "max_rounds": self._most_rounds(),
        }
        if isinstance(formulation, Formulation) and not formulation.can_choose_C:
            if is_same(self.C, AUTO) and _takes_infinite(formulation):
                settings["C"] = np.inf
        if self._is_stage_wise:
            settings["columns_per_channel"] = 1
            settings["weak_learner"] = self._grown(settings["weak_learner"])
        return settings

    def _most_rounds(self) -> Any:
        """Return the maximum number of rounds or passes."""
        if self.max_rounds is not None:
            return self.max_rounds
        if not is_same(self.max_iter, AUTO):
            return self.max_iter
        is_large = getattr(self, "_is_large", False)
        ends = self._is(LOG_LOSS) and is_same(self._weak_learners(), "tree") and not is_large
        return _MOST_ROUNDS_THAT_END if ends else _MOST_ROUNDS

    def _grown(self, weak_learner: Any) -> Any:
        """Return the weak learners of stage-wise boosting, with trees set up by the parameters."""
        if isinstance(weak_learner, list | tuple):
            return [self._grown(member) for member in weak_learner]
        if not is_same(weak_learner, "tree"):
            return weak_learner
        trees = partial(
            TreeFamily,
            depth=checked_whole_number(self.max_depth, "max_depth", _DEEPEST),
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            max_features=self._fraction_of_features(),
            confident=True,
            row_fraction=_ROW_FRACTION,
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
        is_named = isinstance(trainer.engine, str)
        if not formulation.works_on_shards and is_named and trainer.engine in ("processes", "dask"):
            raise ValueError(
                f"engine is {trainer.engine!r}, and objective={shown(self.objective)} supports "
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
        if self._is(SVM):
            return LinearTrainer(task, **settings, active=active)
        return LinearLikelihoodTrainer(task, **settings, active=active, **self._of_likelihood(task))

    def _of_likelihood(self, task: Task) -> dict[str, Any]:
        """Return further parameters of the trainer of one linear function by its likelihood."""
        return {}

    def _train(
        self,
        task: Task,
        train: tuple[Any, Any],
        validation: tuple[Any, Any, Any] | None,
        sample_weight: Any,
        whole: tuple[Any, Any, Any] | None = None,
        groups: IntArray | None = None,
        counts: IntArray | None = None,
    ) -> None:
        self._is_large = len(train[1]) > _LARGE
        # The trial of the features and the fit bin one table.
        self._binning = BinsOfOneTable()
        try:
            if self._is_stage_wise and any(
                is_text(name, "tree") for name in members_of(self._weak_learners())
            ):
                self.max_features_ = self._chosen_features(task, train, sample_weight)
            super()._train(task, train, validation, sample_weight, whole, groups, counts)
            rows_of_each = self._binning.rows_of_each(counts)
        finally:
            self._binning.forget()
            del self._binning
        if self._is_stage_wise and self.ending_ != "interrupted":
            self._refit_temperature(task, train, sample_weight, groups, counts, rows_of_each)
        self.minimised_ = self._objective_name()
        if isinstance(formulation := self._formulation(), NewtonSteps) and self._is_stage_wise:
            self.learning_rate_ = float(formulation.shrinkage)
        self._warn_of_few_rounds()

    def _refit_temperature(
        self,
        task: Task,
        train: tuple[Any, Any],
        sample_weight: Any,
        groups: IntArray | None,
        counts: IntArray | None,
        rows_of_each: float,
    ) -> None:
        """Fit the temperature on folds, if trees left no rows out, or none that are new.

        ``rows_of_each`` is the mean number of rows of each distinct one, 0 without trees.
        """
        is_drawn, is_repeated = self.temperature_ is not None, rows_of_each >= _REPEATED
        has_trees = rows_of_each > 0 and formulation_of(self._formulation()).link is not None
        if not has_trees or (is_drawn and not is_repeated):
            return
        if not is_drawn and counts is not None and not has_contradictions(train[0]):
            counts = None  # equal examples have one place, as if they were one of more weight
        n_examples = len(train[1]) if counts is None else counts.sum()
        few = math.ceil(_EXAMPLES_OF_FOLDS / n_examples)
        try:
            folds = self._folds(*train, sample_weight, groups, counts)[:few]
        except ValueError:  # too few examples to hold some out
            return
        factor = self._temperature_on(folds, task)
        self.temperature_, model = factor, self.model_
        metadata = {**model.metadata, "temperature": factor}
        self.model_ = Ensemble(model.kinds, model.members, model.weights, model.stages, metadata)

    def _temperature_on(self, folds: Sequence[Fold], task: Task) -> float:
        """Return the temperature of held-out scores, after as many rounds as the model has."""
        link = formulation_of(self._formulation()).link
        sharpness = 1.0 if link is None else link.sharpness

        def losses_of(fold: Fold) -> Callable[[float], FloatArray]:
            trainer = self._trainer(
                task, callbacks=None, max_rounds=self.n_iter_, checkpoint=None, verbose=0
            )
            with warnings.catch_warnings():
                for category in (ConvergenceWarning, ConstantPredictionWarning):
                    warnings.simplefilter("ignore", category)
                fit = partial(trainer.fit, fold.X, fold.Y, sample_weight=fold.sample_weight)
                model = uninterrupted(fit).model_
            scores = model_scores(task, model, fold.held_X)
            losses = log_losses_at(task, fold.held_X, fold.held_Y, scores)
            return lambda factor: losses(factor * sharpness)

        return temperature_on_folds(folds, [losses_of(fold) for fold in folds]).factor

    def _warn_of_few_rounds(self) -> None:
        """Warn if the default number of rounds ended training while the held-out loss fell."""
        is_default = self.max_rounds is None and is_same(self.max_iter, AUTO)
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

    def _fraction_of_features(self) -> float:
        """Return the fraction of the features that a node may split."""
        if is_same(self.max_features, AUTO):
            return float(getattr(self, "max_features_", 1.0))
        return self.max_features  # type: ignore[return-value]

    def _chosen_features(self, task: Task, train: tuple[Any, Any], sample_weight: Any) -> float:
        """Return the fraction of features to train with, all if left-out rows are not used."""
        if not is_same(self.max_features, AUTO):
            return self._fraction_of_features()
        formulation = formulation_of(self._formulation())
        looks = not lacking(formulation.makes, LearnsFromHeldOut)
        if not (looks and isinstance(formulation, NewtonSteps)):
            return ALL_FEATURES

        def trainer_of(fraction: float, **settings: Any) -> Any:
            self.max_features_ = fraction
            return self._trainer(task, **settings, checkpoint=None, verbose=0, callbacks=None)

        n_features = self.n_features_in_ or 0
        return chosen_fraction(trainer_of, formulation, n_features, train, sample_weight)

    @override
    def _restore(self, facts: Mapping[str, Any]) -> None:
        super()._restore(facts)
        self.minimised_ = facts.get("objective_name", str(self.objective))
        if (learning_rate := facts.get("learning_rate")) is not None:
            self.learning_rate_ = float(learning_rate)

    @override
    def _facts(self) -> dict[str, Any]:
        learning_rate = getattr(self, "learning_rate_", None)
        names = {"objective_name": self.minimised_, "learning_rate": learning_rate}
        return super()._facts() | names

    def _pricing(self, task: Task) -> str | PricingRule:
        """Return the pricing rule for ``task``, or its name."""
        return self.pricing


@estimator
class StructBoostClassifier(TaxonomyClassifier, StructBoostEstimator, TableEstimator):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    By default it boosts trees stage-wise for the likelihood of the labels
    (:class:`structboost.masters.StageWiseLikelihood`), each round on half of the rows, which needs
    no C and has no certificate (docs/decisions/default-classifier.md).  ``objective="hinge"``
    minimises the hinge loss over stumps, to a certified gap.  Engines of several processes need it.

    Parameters
    ----------
    pricing : {"own", "best", "label_augmented"} or PricingRule
        Whether each channel has separate weak learners, or all share them.
        ``"label_augmented"`` needs a taxonomy: stumps on the input augmented with the label code
        (:class:`structboost.weak.label_augmented.LabelAugmented`; StructBoost, end of section 3.4).

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

    # Repeated, because the other base class has different defaults.
    max_rounds: int | None = None  # type: ignore[assignment]
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
        if getattr(self, "_is_large", False):
            return StageWiseLikelihood(shrinkage=_RATE_OF_LARGE)
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
