"""Stage-wise boosting of trees, whose settings, end and temperature held-out rows decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from structboost._typing import FloatArray, override
from structboost.faces.recipe import Choices, Examples, Fitted, Problem, Recipe
from structboost.learners.binning import BinsOfOneTable
from structboost.learners.registry import members_of
from structboost.learners.tree import TreeFamily
from structboost.objectives.base import formulation_of
from structboost.progress import Progress
from structboost.tasks.base import has_contradictions
from structboost.training.boosting import AUTO, StructBoost, loop_without_model
from structboost.training.held_out_runs import (
    EARLY,
    HeldOutRun,
    difference,
    ends_early,
    fitted_factor,
)
from structboost.validation import checked_whole_number, is_same, is_text, rows_of

# The fractions of the features that a node may split.
_FEW, ALL_FEATURES = 1 / 3, 1.0
# Above this number of features, a third of them is taken: all are seldom better and cost more.
_MOST_TRIED_FEATURES = 32
# Most examples of a trial of features or of sets of categories, and its settings.
_MOST_TRIED = 4000
_RATE_OF_TRIAL, _ROUNDS_OF_TRIAL = 0.15, 40
# All features learn faster at first, so their loss must be below this fraction of that of a third.
# The same holds for sets of categories at no price.
_CLEARLY_LESS = 0.98
# Fraction of the loss of a constant prediction below which a trial has learned.
_LEARNED = 0.9
# Long steps are tried from so many examples on, and up to so many features: a deep tree that may
# split all of them takes long to grow.
_FEWEST_OF_LONG, _MOST_FEATURES_OF_LONG = 2000, 64

# Largest depth of TreeFamily.
_DEEPEST = 12
# Maximum numbers of rounds, the second where left-out rows end training.
_MOST_ROUNDS, _MOST_ROUNDS_THAT_END = 200, 1000
# With many examples, whose held-out loss falls for long, steps are longer, and rounds fewer, which
# the cost of very many examples limits once more.
_LARGE, _RATE_OF_LARGE = 20_000, 0.15
_VERY_LARGE, _MOST_ROUNDS_OF_MANY = 200_000, 500
# Where each distinct row occurs so often, on average, rows that a round leaves out are no new rows.
_REPEATED = 2.0
# Folds that decide end, steps and temperature, and the most parts of which there are folds.  Of
# more examples, so many are tried.
_FOLDS, _MOST_FOLDED = 2, 6000
_MOST_SOME = 5000


@dataclass(frozen=True)
class TreeSettings:
    """Trees of a round and the steps along them.

    Parameters
    ----------
    max_depth : int
    row_fraction : float
        Fraction of the rows that the trees of a round are grown on.
    max_features : float
        Fraction of the features that a node may split.
    category_penalty : float
        As in :class:`structboost.learners.TreeFamily`.
    learning_rate : float, optional
        None is that of the formulation.
    max_rounds : int
    patience : int, optional
        None is that of the formulation.
    """

    max_depth: int = 5
    row_fraction: float = 0.5
    max_features: float = ALL_FEATURES
    category_penalty: float = 1.0
    learning_rate: float | None = None
    max_rounds: int = 200
    patience: int | None = None

    def with_long_steps(self) -> TreeSettings:
        """Few rounds of deep trees, grown on most rows."""
        return replace(
            self, max_depth=7, row_fraction=0.8, max_features=ALL_FEATURES, learning_rate=0.2,
            max_rounds=100,
        )  # fmt: skip


# A trainer with settings of trees.
TrainerOf = Callable[[TreeSettings], StructBoost]


def chosen_features(
    settings: TreeSettings,
    trainer_of: TrainerOf,
    n_features: int,
    examples: tuple[Any, Any],
    sample_weight: Any,
) -> TreeSettings:
    """Return settings with the fraction of the features of least loss on left-out rows.

    The choice does not depend on the number of rounds, so that a run can be resumed with more of
    them.  If rounds leave no rows out, it is all features.
    """
    few = replace(settings, max_features=_FEW)
    if n_features > _MOST_TRIED_FEATURES:
        return few
    of_all = _loss_of_left_out(trainer_of, settings, examples, sample_weight)
    of_few = _loss_of_left_out(trainer_of, few, examples, sample_weight)
    if of_all is None or of_few is None:
        return settings
    # If neither has learned anything, features may matter only together.
    has_learned = min(of_all, of_few) < _LEARNED * constant_loss(examples[1], sample_weight)
    return few if has_learned and of_all >= _CLEARLY_LESS * of_few else settings


def chosen_penalty(
    settings: TreeSettings, trainer_of: TrainerOf, examples: tuple[Any, Any], sample_weight: Any
) -> TreeSettings:
    """Return settings without a price of categories, if left-out rows have a clearly lower loss."""
    free = replace(settings, category_penalty=0.0)
    at_price, of_free = (
        _loss_of_left_out(trainer_of, tried, examples, sample_weight) for tried in (settings, free)
    )
    if at_price is None or of_free is None:
        return settings
    return free if of_free < _CLEARLY_LESS * at_price else settings


def chosen_steps(
    settings: TreeSettings,
    runs_of: Callable[[TreeSettings], list[HeldOutRun]],
    *,
    are_few: bool = False,
) -> tuple[TreeSettings, list[HeldOutRun]]:
    """Return settings of few long steps, if they predict held-out examples better, and their fits.

    ``runs_of(settings)`` returns fits that leave examples out.  If they are on few of the examples,
    which is unfair to long steps, these are taken unless they are clearly worse.
    """
    long, short = settings.with_long_steps(), settings
    runs = runs_of(short)
    if not runs:
        return short, runs
    of_long = runs_of(long)
    looks = [run.looks[0] for run in of_long], [run.looks[0] for run in runs]
    mean, error = difference(of_long, looks[0], runs, looks[1])
    return (long, of_long) if mean < (error if are_few else -error) else (short, runs)


def some_examples(X: Any, Y: Any, sample_weight: Any, most: int) -> tuple[Any, Any, Any]:
    """Return at most so many of the examples, evenly spread, and their weights."""
    if len(Y) <= most:
        return X, Y, sample_weight
    rows = np.linspace(0, len(Y) - 1, most).astype(np.int64)
    weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
    return *(rows_of(values, rows) for values in (X, Y)), weights


def _loss_of_left_out(
    trainer_of: TrainerOf, settings: TreeSettings, examples: tuple[Any, Any], sample_weight: Any
) -> float | None:
    """Return the loss of the rows that the rounds of a short fit left out."""
    short = replace(settings, learning_rate=_RATE_OF_TRIAL, max_rounds=_ROUNDS_OF_TRIAL)
    trainer = trainer_of(short)
    with loop_without_model(trainer, *some_examples(*examples, sample_weight, _MOST_TRIED)) as loop:
        loop.run()
        temperature = loop.temperature()
    return None if temperature is None else temperature.loss


def constant_loss(Y: Any, weights: Any) -> float:
    """Return the mean log-loss of the class frequencies, or infinity if outputs are not classes."""
    labels = np.asarray(Y) if isinstance(Y, np.ndarray) else np.empty((0, 0))
    if labels.ndim != 1:
        return np.inf
    _, indices = np.unique(labels, return_inverse=True)
    p = np.bincount(indices, weights)
    p = p / p.sum()
    return float(-(p @ np.log(p)))


@dataclass(frozen=True)
class StageWise(Choices):
    """Choices of a fit by stage-wise boosting, which held-out rows decide.

    Parameters
    ----------
    trees : dict of str to object
        Parameters of :class:`structboost.learners.TreeFamily` that are not chosen.
    learning_rate, max_iter, max_depth, max_features : number or "auto"
        As in :class:`structboost.StructBoostClassifier`.
    is_likelihood : bool
        Whether the likelihood of the true outputs is maximised.
    tries_long_steps : bool
        Whether few long steps of deep trees are tried on large tables.
    """

    trees: Mapping[str, Any]
    learning_rate: float | str
    max_iter: int | str
    max_depth: int | str
    max_features: float | str
    is_likelihood: bool
    tries_long_steps: bool = False

    in_place = False

    @override
    def train(self, recipe: Recipe, problem: Problem) -> Fitted:
        # The trials, the folds and the fit bin one table.
        binning = BinsOfOneTable()
        trials = _Trials(self, recipe, problem, binning)
        with ExitStack() as ends_of_fit:
            ends_of_fit.callback(binning.forget)
            runs: list[HeldOutRun] = []
            weak_learner, examples = recipe.weak_learner, problem.examples
            settings = self.first(len(examples.Y), weak_learner)
            members = [] if isinstance(weak_learner, Mapping) else members_of(weak_learner)
            is_grown = any(is_text(member, "tree") for member in members)
            chosen: dict[str, Any] = {}
            if is_grown:
                progress = Progress(visible=bool(recipe.settings.get("verbose")))
                progress.show("choosing settings on held-out rows", None)
                try:
                    settings, runs = trials.chosen(settings)
                finally:
                    progress.close()
                # Where the user gave the rounds, a run can be resumed with more of them.
                ends = is_same(self.max_iter, AUTO) and problem.held is None
                if ends and ends_early(runs, constant_loss(examples.Y, examples.weights)):
                    settings = replace(settings, patience=EARLY)
                chosen = {"max_depth_": settings.max_depth, "max_features_": settings.max_features}
                if recipe.categorical:
                    chosen["category_penalty_"] = settings.category_penalty
            final = trials.at(settings)
            fitted = final.train(problem)
            rate: Any = final.formulation
            fitted.chosen |= {**chosen, "learning_rate_": float(rate.shrinkage)}
            if fitted.ending == "interrupted":
                return fitted
            counts = examples.counts
            if is_grown and problem.held is not None and problem.whole is not None:
                counts = problem.whole.counts
                runs = trials.after_early_stopping(settings, fitted.n_iter)
            if runs:
                is_open = trials.binning.rows_of_each(counts) >= _REPEATED
                _correct_temperature(fitted, runs, is_open=is_open)
            return fitted

    def first(self, n_examples: int, weak_learner: Any) -> TreeSettings:
        """Return the settings of trees from which the choice begins."""
        ends = self.is_likelihood and is_same(weak_learner, "tree")
        is_many = n_examples > _LARGE
        most: Any = _MOST_ROUNDS
        if ends and n_examples <= _VERY_LARGE:
            most = _MOST_ROUNDS_OF_MANY if is_many else _MOST_ROUNDS_THAT_END
        if not is_same(self.max_iter, AUTO):
            most = self.max_iter
        rate = _RATE_OF_LARGE if is_many and self.tries_long_steps else None
        first = TreeSettings(max_rounds=most, learning_rate=rate)
        if not is_same(self.max_depth, AUTO):
            depth = checked_whole_number(self.max_depth, "max_depth", _DEEPEST)
            first = replace(first, max_depth=depth)
        if not is_same(self.max_features, AUTO):
            first = replace(first, max_features=self.max_features)  # type: ignore[arg-type]
        return first


@dataclass(frozen=True)
class _Trials:
    """Fits that leave examples out, which choose settings.

    Parameters
    ----------
    stage_wise : StageWise
    recipe : Recipe
        The fit, without settings of trees and steps.
    problem : Problem
    binning : BinsOfOneTable
    """

    stage_wise: StageWise
    recipe: Recipe
    problem: Problem
    binning: BinsOfOneTable

    @property
    def gives_losses(self) -> bool:
        """Whether losses of held-out examples can be measured during boosting."""
        return formulation_of(self.recipe.formulation).learns_from_held_out

    def at(self, settings: TreeSettings, *, is_trial: bool = False) -> Recipe:
        """Return the fit with these settings, of which a trial shows and writes nothing."""
        recipe, stage_wise = self.recipe, self.stage_wise
        formulation: Any = recipe.formulation
        if settings.patience is not None:
            formulation = replace(formulation, patience=settings.patience)
        rate = settings.learning_rate
        if rate is not None and (is_trial or is_same(stage_wise.learning_rate, AUTO)):
            formulation = replace(formulation, shrinkage=rate)
        trees = partial(
            TreeFamily,
            **stage_wise.trees,
            depth=settings.max_depth,
            max_features=settings.max_features,
            category_penalty=settings.category_penalty,
            row_fraction=settings.row_fraction,
            confident=True,
            binning=self.binning,
        )
        of_trainer: dict[str, Any] = {"max_rounds": settings.max_rounds, "columns_per_channel": 1}
        if is_trial:
            of_trainer |= {"checkpoint": None, "verbose": 0, "callbacks": None}
        families = recipe.weak_learner if recipe.families is None else recipe.families
        return replace(
            recipe,
            formulation=formulation,
            settings={**recipe.settings, **of_trainer},
            families=_with_trees(families, trees),
            choices=None,
        )

    def chosen(self, first: TreeSettings) -> tuple[TreeSettings, list[HeldOutRun]]:
        """Choose the settings that are left open, and return the fits that leave examples out.

        Of many examples some are tried, and no fits are returned.
        """
        if not self.gives_losses:
            return first, []
        examples, stage_wise = self.problem.examples, self.stage_wise
        is_wide = self.problem.n_features > _MOST_FEATURES_OF_LONG
        # They would change all of these.
        names = ("max_depth", "max_features", "learning_rate", "max_iter")
        is_open = all(is_same(getattr(stage_wise, name), AUTO) for name in names)
        tries = stage_wise.tries_long_steps and is_open and not is_wide
        n_examples = len(examples.Y)
        if _n_parts(examples.Y) > _MOST_FOLDED:
            if tries:
                some = Examples(
                    *some_examples(examples.X, examples.Y, examples.weights, _MOST_SOME)
                )
                folds = self.weights_of_folds(some)[:1]

                def runs_of_some(settings: TreeSettings) -> list[HeldOutRun]:
                    rounds = min(settings.max_rounds, _MOST_ROUNDS_OF_MANY)
                    return self.runs(replace(settings, max_rounds=rounds), some, folds)

                first, _ = chosen_steps(first, runs_of_some, are_few=n_examples > _LARGE)
            return self.after_short_trials(first), []
        folds = self.weights_of_folds(examples)
        chosen = self.after_short_trials(first)
        if tries and n_examples >= _FEWEST_OF_LONG:
            return chosen_steps(chosen, lambda settings: self.runs(settings, examples, folds))
        # Early stopping ends otherwise.
        is_watched = self.problem.held is not None
        return chosen, [] if is_watched else self.runs(chosen, examples, folds)

    def after_short_trials(self, settings: TreeSettings) -> TreeSettings:
        """Choose features of nodes, and the price of categories."""
        of_examples = (self.problem.examples.X, self.problem.examples.Y)
        weights = self.problem.examples.weights
        is_long = settings.row_fraction != TreeSettings.row_fraction
        if is_same(self.stage_wise.max_features, AUTO) and not is_long:
            n_features = self.problem.n_features
            settings = chosen_features(settings, self.trainer, n_features, of_examples, weights)
        if self.recipe.categorical:
            settings = chosen_penalty(settings, self.trainer, of_examples, weights)
        return settings

    def after_early_stopping(self, settings: TreeSettings, n_rounds: int) -> list[HeldOutRun]:
        """Train for as many rounds as were best, without the held-out examples of each fold."""
        whole = self.problem.whole
        assert whole is not None
        if _n_parts(whole.Y) > _MOST_FOLDED or not self.gives_losses:
            return []
        settings = replace(settings, max_rounds=n_rounds)
        return self.runs(settings, whole, self.weights_of_folds(replace(whole, groups=None)))

    def trainer(self, settings: TreeSettings) -> Any:
        """Return the trainer of a trial."""
        return self.at(settings, is_trial=True).trainer(self.problem.task)

    def runs(
        self,
        settings: TreeSettings,
        examples: Examples,
        folds: Sequence[tuple[FloatArray, FloatArray]],
    ) -> list[HeldOutRun]:
        """Train without the held-out examples of each fold."""
        trainer, of_examples = self.trainer(settings), (examples.X, examples.Y)
        return [HeldOutRun.of(trainer, of_examples, *of_fold) for of_fold in folds]

    def weights_of_folds(self, examples: Examples) -> list[tuple[FloatArray, FloatArray]]:
        """Return the weights of training and held-out examples of the first folds.

        There are none if no example can be held out.
        """
        if examples.counts is not None and not has_contradictions(examples.X):
            # Equal examples stay together, as if they were one of more weight.
            examples = replace(examples, counts=None)
        try:
            folds = self.problem.folds(examples)[:_FOLDS]
        except ValueError:
            return []
        return [fold.weights_of(len(examples.Y)) for fold in folds]


def _correct_temperature(fitted: Fitted, runs: Sequence[HeldOutRun], *, is_open: bool) -> None:
    """Set the temperature by held-out examples.

    ``is_open`` is whether the rows that rounds left out tell nothing of it.
    """
    looks = [run.after(fitted.n_iter) for run in runs]
    factor = fitted_factor(runs, looks, is_open=is_open).factor
    if not is_open and fitted.temperature is not None:
        factor *= fitted.temperature
    fitted.temperature, facts = factor, {**fitted.model.metadata, "temperature": factor}
    fitted.model = replace(fitted.model, metadata=facts)


def _with_trees(families: Any, trees: Any) -> Any:
    """Return weak learners with these trees in the place of their name."""
    if isinstance(families, Mapping):
        return {kind: _with_trees(of_kind, trees) for kind, of_kind in families.items()}
    if isinstance(families, list | tuple):
        return [_with_trees(member, trees) for member in families]
    return trees if is_same(families, "tree") else families


def _n_parts(Y: Any) -> int:
    """Return the number of rows of a table, or of the tokens of sequences."""
    return len(Y) if isinstance(Y, np.ndarray) else sum(map(np.size, Y))
