"""Recipes of fits, with all that surrounds training, resolved before it begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.contract.calls import mean_loss, predictions, stacked_inputs
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task
from structboost.errors import InterruptedFitWarning, TaskError, warn_user
from structboost.learners.pricing import PricingRule
from structboost.learners.registry import WeakLearners, with_categories, with_directions
from structboost.linear.linear_trainer import LinearTrainer
from structboost.model.ensemble import Ensemble, scores_of_parts
from structboost.objectives.base import Formulation, formulation_of
from structboost.objectives.likelihood import Likelihood
from structboost.objectives.newton_steps import NewtonSteps
from structboost.runtime.called_class import Described
from structboost.selection.folds import Fold
from structboost.selection.held_out import Score, checked_score, scaled_surrogate
from structboost.training.boosting import Callback, StructBoost
from structboost.training.engines import engine_of, warn_of_idle_jobs
from structboost.training.examples import is_in_memory
from structboost.validation import (
    AUTO,
    by_position,
    check_examples,
    checked_callbacks,
    checked_example_weights,
    checked_whole_number,
    is_text,
    shown,
)


class EarlyStopping(Described):
    """Callback that stops training when the mean loss of held-out examples stops falling.

    Where probabilities follow from the scores (the likelihoods and the exponential loss over wrong
    outputs), it is minus the logarithm of that of the true output.  Elsewhere it is the loss of the
    task, which moves by whole examples, as scores of the user such as the accuracy do.  Of rounds
    with equal losses the one with the least surrogate is the best: minus the log-likelihood or the
    hinge, at the best scale of the scores where there are no probabilities.  So training does not
    end while predictions are still those of the beginning.

    Parameters
    ----------
    X, Y : sequence
        Held-out examples.
    n_iter_no_change : int
        Number of rounds without improvement before training stops.
    score : callable, optional
        ``score(model, fold)`` of the user, whose negative replaces the loss.
    sample_weight : array-like, shape (n_examples,), optional
        Weights of the held-out examples in the mean.

    Attributes
    ----------
    losses : list of float
        Mean held-out loss after each round.
    best_stage : int
        Round of the smallest loss, and of the smallest surrogate among these, from 0; the first of
        equals.
    """

    # Why training ends where it does.
    ending = "held_out"

    def __init__(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        n_iter_no_change: int = 10,
        score: Score | None = None,
        *,
        sample_weight: Any = None,
    ) -> None:
        check_examples(X, Y)
        weights = checked_example_weights(sample_weight, len(Y))
        self.sample_weight = None if (weights == weights[0]).all() else weights
        if score is not None and not callable(score):
            raise TypeError(f"score is {shown(score)}; give a callable(model, fold), or None.")
        self.X, self.Y = X, by_position(Y)
        self._score = score
        self.n_iter_no_change = checked_whole_number(n_iter_no_change, "n_iter_no_change")
        self.losses: list[float] = []
        self._surrogates: list[float] = []
        self.best_stage = 0

    def __call__(self, record: Mapping[str, Any], trainer: Any) -> bool:
        """Evaluate the current model, and return whether to stop."""
        loop = trainer._loop
        held = loop.of_callbacks.get(id(self))
        if held is None:
            held = loop.of_callbacks[id(self)] = _HeldOut.of(trainer, self.X, self.Y)
            self.losses, self._surrogates = [], []
        if record["round"] > len(self.losses) + 1:
            self.evaluate_all(trainer)
        else:
            held.last = loop.scores_after(held.stack, held.last)
            self._add(trainer, held, held.last[1])
        return len(self.losses) - 1 - self.best_stage >= self.n_iter_no_change

    def evaluate_all(self, trainer: StructBoost) -> None:
        """Evaluate the model after every round, those that a checkpoint has behind it as well."""
        held = _HeldOut.of(trainer, self.X, self.Y)
        self.losses, self._surrogates = [], []
        for model in trainer.staged_models():
            self._add(trainer, held, scores_of_parts(model, held.stack), model)

    def _add(
        self, trainer: Any, held: _HeldOut, scores: StackedParts, model: Ensemble | None = None
    ) -> None:
        """Keep the losses of a model with these scores, by default that of now."""
        task, weights = trainer.task, self.sample_weight
        losses = held.log_losses(scores)
        is_likelihood = losses is not None
        if losses is None:
            losses = scaled_surrogate(task, held.X, held.Y, scores, weights)
        loss = surrogate = float(np.average(losses, weights=weights))
        if self._score is not None:
            fold = Fold([], [], None, held.X, held.Y, weights)
            loss = -checked_score(self._score, model or trainer.model_, fold)
        elif not is_likelihood:
            loss = mean_loss(task, held.Y, predictions(task, held.X, scores), weights)
        self.losses.append(loss)
        self._surrogates.append(surrogate)
        self.best_stage = int(np.lexsort((self._surrogates, self.losses))[0])


@dataclass
class _HeldOut:
    """Held-out examples of a run, their likelihood if it has one, and their last scores."""

    X: Any
    Y: Any
    stack: StackedParts
    likelihood: Likelihood | None
    sharpness: float
    last: Any = None

    @classmethod
    def of(cls, trainer: Any, X: Any, Y: Any) -> _HeldOut:
        """Stack the parts of examples for a trainer."""
        X = trainer._inputs(X)
        stack, link = stacked_inputs(trainer.task, X), formulation_of(trainer.formulation).link
        if link is None or link.margin:
            return cls(X, Y, stack, None, 1.0)
        return cls(X, Y, stack, Likelihood.of(trainer.task, X, Y, stack.offsets), link.sharpness)

    def log_losses(self, scores: StackedParts) -> FloatArray | None:
        """Minus the log-likelihood of each example, or None if it has none."""
        if self.likelihood is not None:
            try:
                return self.likelihood.losses(scores.times(self.sharpness).rows)
            except TaskError:  # a task of codes alone, without marginals
                self.likelihood = None
        return None


# More rounds are worth a warning where the held-out loss still fell: rounds to look back, and the
# least fractions by which it fell since then (docs/decisions.md).
_STILL_FALLING = {100: 0.05, 20: 0.005}


@dataclass(frozen=True)
class Examples:
    """Inputs and true outputs of a task.

    Parameters
    ----------
    X, Y : sequence
    weights : ndarray, optional
    groups : ndarray of int, optional
        Groups that folds do not cut.
    counts : ndarray of int, optional
        Numbers of equal examples that were merged, which folds cut.
    """

    X: Any
    Y: Any
    weights: Any = None
    groups: IntArray | None = None
    counts: IntArray | None = None


@dataclass(frozen=True)
class Problem:
    """A task with its examples, and how some are held out.

    Parameters
    ----------
    task : Task
    examples : Examples
        To train on.
    folds : callable
        ``folds(examples)`` returns folds, on which choices are made.
    held, whole : Examples, optional
        Those held out for early stopping, and all before a part was held out, which are
        ``examples`` where the user holds out others.
    score : callable, optional
        The user's score of held-out examples.
    n_features : int
        Number of columns, 0 if the examples are no table.
    """

    task: Task
    examples: Examples
    folds: Callable[[Examples], list[Fold]]
    held: Examples | None = None
    whole: Examples | None = None
    score: Score | None = None
    n_features: int = 0


@dataclass
class Fitted:
    """Result of a recipe, the fitted attributes of a face.

    Parameters
    ----------
    model : Ensemble
    history : list of dict
    objective, C : float
    ending : str
    temperature : float or None
    n_iter : int
        Rounds in the model.
    chosen : dict of str to object
        Further attributes, by their names.
    of_part : Ensemble, optional
        The model before so many rounds were trained on all examples, which saw no held-out ones.
    """

    model: Ensemble
    history: list[dict[str, Any]]
    objective: float
    C: float
    ending: str
    temperature: float | None = None
    n_iter: int = 1
    chosen: dict[str, Any] = field(default_factory=dict)
    of_part: Ensemble | None = None

    @classmethod
    def of(cls, trainer: Any) -> Fitted:
        """Return the result of a trainer."""
        n_stages = max(1, trainer.model_.n_stages)
        facts = trainer.objective_, trainer.C_, trainer.ending_, trainer.temperature_
        return cls(trainer.model_, trainer.history_, *facts, n_stages)

    def keep_round(self, stage: int) -> None:
        """Go back to the model and the records of a round, from 0."""
        self.history = self.history[: stage + 1]
        model = self.model.at_stage(stage)
        self.model = replace(model, metadata={**model.metadata, "history": self.history})
        self.objective = self.history[-1]["primal"]

    @property
    def attributes(self) -> dict[str, Any]:
        """Fitted attributes by their names."""
        return {
            "model_": self.model,
            "history_": self.history,
            "objective_": self.objective,
            "C_": self.C,
            "ending_": self.ending,
            "temperature_": self.temperature,
            "n_iter_": self.n_iter,
            **self.chosen,
        }


class Choices(ABC):
    """Choices that a fit makes before it trains, and what follows from them."""

    # Whether they are made on tables on disk and Dask collections, too.
    in_place = True
    # Attributes where y has one class.
    of_constant: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def train(self, recipe: Recipe, problem: Problem) -> Fitted:
        """Choose what the recipe leaves open, and fit it."""


@dataclass(frozen=True)
class Recipe:
    """A fit with all that surrounds its training, resolved from parameters.

    Parameters
    ----------
    face : str
        Name of the estimator.
    weak_learner : str, callable, list or dict
        As the user names it.
    formulation : str or Formulation
    settings : dict of str to object
        Further parameters of :class:`structboost.StructBoost`.
    objective : str
        Name of what is minimised, if the estimator has several objectives.
    patience : int
        Rounds without improvement after which early stopping ends.
    pricing : callable, optional
        ``pricing(task)`` makes the rule of a run.
    families : str, callable, list or dict, optional
        Weak learners of the trainer, if they are not ``weak_learner``.
    directions : tuple of int, optional
        Directions of the columns.
    categorical : tuple of int
        Columns that are split by sets of categories.
    times_the_best : int, optional
        Rounds that are kept, in terms of the round of the least held-out loss, where that loss
        ended training.
    is_default_end : bool
        Whether the user left the number of rounds open.
    shares_learners : bool
        Whether all classes share weak learners, which are then neither sparse nor split categories.
    linear : dict of str to object, optional
        Parameters of a :class:`structboost.linear.linear_trainer.LinearTrainer`, which then fits
        one linear function without boosting.
    choices : Choices, optional
        What is chosen before training, beside C.
    task : callable, optional
        ``task(classes)`` makes the task of a code, instead of that of the classes themselves.
    """

    face: str
    weak_learner: WeakLearners
    formulation: str | Formulation
    settings: Mapping[str, Any]
    objective: str = ""
    patience: int = 10
    pricing: Callable[[Task], str | PricingRule] | None = None
    families: Any = None
    directions: tuple[int, ...] | None = None
    categorical: tuple[int, ...] = ()
    times_the_best: int | None = None
    is_default_end: bool = False
    shares_learners: bool = False
    linear: Mapping[str, Any] | None = None
    choices: Choices | None = None
    task: Callable[[AnyArray], Task] | None = None

    @property
    def chooses_C(self) -> bool:
        """Whether C is chosen on held-out examples."""
        return is_text(self.settings.get("C"), AUTO)

    def of_table(self, directions: tuple[int, ...] | None, categorical: tuple[int, ...]) -> Recipe:
        """Return the fit of a table whose columns have directions, or are split by sets."""
        if self.linear is not None and directions is not None:
            raise ValueError(
                "monotonic_cst needs stumps or trees, and one linear function is fitted; leave it "
                "out, or write weak_learner='tree' with a stage-wise objective."
            )
        return replace(self, directions=directions, categorical=categorical)

    def trainer(self, task: Task, **changed: Any) -> Any:
        """Return a trainer, with some settings changed."""
        trainer: Any
        if self.linear is None:
            settings = {"formulation": self.formulation, **self.settings, **changed}
            if self.pricing is not None:
                settings["pricing"] = self.pricing(task)
            families = self.weak_learner if self.families is None else self.families
            if self.directions is not None:
                _check_one_score(task)
                families = with_directions(families, self.directions)
            if self.categorical:
                families = with_categories(families, self.categorical)
            # The face warns of jobs that are idle, not each of the trainers of one fit.
            settings["engine"] = engine_of(settings["engine"], settings.pop("n_jobs"))
            trainer = StructBoost(task, weak_learner=families, **settings)
        else:
            trainer = LinearTrainer(task, **self.linear)
        trainer._objective = self.objective
        return trainer

    def train(self, problem: Problem) -> Fitted:
        """Train on the examples, with the choices that are left open, and early stopping."""
        if self.choices is not None:
            return self.choices.train(self, problem)
        examples, held = problem.examples, problem.held
        callbacks = checked_callbacks(self.settings["callbacks"])
        stopping, spread = None, self.settings.get("spread", 0.0)
        if held is not None and self.linear is None:
            stopping = EarlyStopping(
                held.X, held.Y, self.patience, problem.score, sample_weight=held.weights
            )
            callbacks.append(stopping)
            spread = 0.0
        trainer = self.trainer(problem.task, callbacks=callbacks, spread=spread)
        about = f"objective={self.objective!r}" if self.objective else self.face
        about += f" with weak_learner={shown(self.weak_learner)}"
        n_jobs, engine = self.settings["n_jobs"], self.settings["engine"]
        warn_of_idle_jobs(n_jobs, engine, about, shares_work=trainer._shares_work)
        folds = None
        chooses = self.chooses_C or getattr(trainer, "on_held_out", None) is not None
        if chooses and is_in_memory(examples.X):
            # The same held-out part chooses C and the round.
            folds = (
                problem.folds(examples)
                if held is None
                else [Fold(examples.X, examples.Y, examples.weights, held.X, held.Y, held.weights)]
            )
        trainer.fit(
            examples.X, examples.Y, sample_weight=examples.weights, folds=folds, score=problem.score
        )
        fitted = self._kept(trainer, Fitted.of(trainer))
        if folds is not None and self.chooses_C:
            fitted.chosen |= {"C_path_": trainer.C_path_, "C_path_end_": trainer.C_path_end_}
        # After Ctrl-C during the choice of C, there are no rounds to evaluate.
        is_watched = not (trainer.interrupted_ and self.chooses_C)
        if stopping is not None and is_watched:
            callbacks.remove(stopping)
            fitted = self._best_round(problem, trainer, fitted, stopping, callbacks)
        # A linear function has a single stage, after the last pass.
        n_stages = fitted.model.n_stages
        is_staged = n_stages > 1 or stopping is not None
        fitted.n_iter = max(1, n_stages if is_staged else len(fitted.history))
        if self.objective:
            fitted.chosen["minimised_"] = self.objective
        if self.is_default_end:
            warn_of_few_rounds(fitted)
        return fitted

    def _kept(self, trainer: StructBoost, fitted: Fitted) -> Fitted:
        """Keep so many rounds as is useful, where the held-out loss ended training."""
        if self.times_the_best is None or trainer.ending_ not in ("held_out", "loss"):
            return fitted
        measured = _held_out_losses(fitted)
        if not measured:
            return fitted
        last = self.times_the_best * min(measured, key=measured.__getitem__)
        if last < fitted.model.n_stages:
            # The temperature of all rounds is not that of these, and is fitted on folds.
            fitted.keep_round(last - 1)
            fitted.temperature = None
        return fitted

    def _best_round(
        self,
        problem: Problem,
        trainer: StructBoost,
        fitted: Fitted,
        stopping: EarlyStopping,
        callbacks: list[Callback],
    ) -> Fitted:
        """Return the model of the best round, or one of so many rounds on all examples.

        Where only the number of rounds keeps a fit from following its examples too far, as in
        stage-wise boosting, so many rounds are trained on the whole set.
        """
        if not stopping.losses:  # all rounds were before the checkpoint
            stopping.evaluate_all(trainer)
        whole = None if problem.whole is problem.examples else problem.whole
        ending = fitted.ending
        by_rounds = isinstance(formulation_of(trainer.formulation), NewtonSteps)
        best = Fitted.of(trainer)
        best.temperature = fitted.temperature
        best.keep_round(stopping.best_stage)
        if len(best.history) < len(trainer.history_) and not trainer.interrupted_:
            ending = "held_out"
        if whole is not None and by_rounds and not trainer.interrupted_:
            n_rounds = stopping.best_stage + 1
            refit = self.trainer(
                problem.task, callbacks=callbacks, max_rounds=n_rounds, checkpoint=None, spread=0.0
            )
            refit._objective = f"{self.objective} on all examples"
            ending = "interrupted"
            if _is_completed(refit, whole):
                of_part = best.model
                best, ending = self._kept(refit, Fitted.of(refit)), "held_out"
                best.of_part = of_part
        best.ending = ending
        best.chosen = {**fitted.chosen, "validation_losses_": stopping.losses}
        for entry, loss in zip(best.history, stopping.losses, strict=False):
            entry["held_out_loss"] = loss
        return best


def _is_completed(trainer: StructBoost, whole: Examples) -> bool:
    """Train on all examples, and return whether no Ctrl-C ended it."""
    trainer._keeps_only_whole = True
    try:
        trainer.fit(whole.X, whole.Y, sample_weight=whole.weights)
    except KeyboardInterrupt:
        warn_user(
            "Training on all rows was interrupted; the model is that of the rows that were not "
            "held out.",
            InterruptedFitWarning,
        )
        return False
    return True


def _check_one_score(task: Task) -> None:
    """Raise ValueError unless the task has one score, which can rise or fall."""
    if [kind.n_channels for kind in task.kinds.values()] == [1]:
        return
    raise ValueError(
        f"monotonic_cst needs one score for two classes or for a ranker, and {type(task).__name__} "
        "has several, which have no common direction; leave it out, or, for two classes, write "
        "StructBoostClassifier or MultiBoostCWClassifier."
    )


def _held_out_losses(fitted: Fitted) -> dict[int, float]:
    """Return the held-out loss of each round that has one."""
    losses = {entry["round"]: entry.get("held_out_loss") for entry in fitted.history}
    return {n: loss for n, loss in losses.items() if loss is not None}


def warn_of_few_rounds(fitted: Fitted) -> None:
    """Warn if the default number of rounds ended training while the held-out loss fell."""
    measured, n_rounds = _held_out_losses(fitted), len(fitted.history)
    if fitted.ending != "max_rounds" or n_rounds not in measured:
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
