"""Stage-wise boosting of trees, whose settings, end and temperature held-out rows decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from structboost.model.ensemble import model_scores
from structboost.objectives.base import Problem as OfExamples
from structboost.objectives.base import SoftmaxLink, formulation_of
from structboost.objectives.likelihood import Likelihood
from structboost.objectives.master import fitted_temperature
from structboost.progress import Progress
from structboost.tasks.base import has_contradictions
from structboost.training.boosting import loop_without_model
from structboost.training.held_out_runs import (
    DEVIATION,
    EARLY,
    HeldOutRun,
    difference,
    ends_early,
    fitted_factor,
)
from structboost.validation import AUTO, Auto, checked_whole_number, is_same, is_text, rows_of

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
# Rows of average weight that are added to a leaf of long steps (docs/decisions.md).
_RIDGE_OF_LONG = 20.0

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
# Above the large number, one example in 30 is set aside for the temperature, and 5,000 at most.
_ONE_OF, _MOST_ASIDE = 30, 5000
# A fit of other examples tells the temperature better than fewer held-out examples than this, or
# than drawn ones of which a smaller fraction is in classes that are not rare.
_FEWEST_ASIDE, _LEAST_COMMON = 500, 0.9


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
    l2_regularization : float, optional
        As there.  None is 0 for short steps.
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
    l2_regularization: float | None = None
    learning_rate: float | None = None
    max_rounds: int = 200
    patience: int | None = None

    def with_long_steps(self) -> TreeSettings:
        """Few rounds of deep trees, grown on most rows, whose small leaves are shrunken."""
        ridge = _RIDGE_OF_LONG if self.l2_regularization is None else self.l2_regularization
        return replace(
            self, max_depth=7, row_fraction=0.8, max_features=ALL_FEATURES, learning_rate=0.2,
            max_rounds=100, l2_regularization=ridge,
        )  # fmt: skip


def some_examples(examples: Examples, most: int) -> Examples:
    """Return at most so many of the examples, evenly spread, and their weights."""
    n_examples, weights = len(examples.Y), examples.weights
    if n_examples <= most:
        return examples
    rows = np.linspace(0, n_examples - 1, most).astype(np.int64)
    weights = None if weights is None else np.asarray(weights)[rows]
    return Examples(rows_of(examples.X, rows), rows_of(examples.Y, rows), weights)


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
    learning_rate, max_iter, max_depth, max_features, l2_regularization : number or "auto"
        As in :class:`structboost.StructBoostClassifier`.
    is_likelihood : bool
        Whether the likelihood of the true outputs is maximised.
    tries_long_steps : bool
        Whether few long steps of deep trees are tried on large tables, and rows of larger ones are
        set aside.
    """

    trees: Mapping[str, Any]
    learning_rate: float | Auto
    max_iter: int | Auto
    max_depth: int | Auto
    max_features: float | Auto
    l2_regularization: float | Auto
    is_likelihood: bool
    tries_long_steps: bool = False

    in_place = False

    @override
    def train(self, recipe: Recipe, problem: Problem) -> Fitted:
        # The trials, the folds and the fit bin one table.
        binning, weak_learner, aside = BinsOfOneTable(), recipe.weak_learner, None
        members = [] if isinstance(weak_learner, Mapping) else members_of(weak_learner)
        is_grown = any(is_text(member, "tree") for member in members)
        if is_grown:
            problem, aside = self.set_aside(problem)
        trials = _Trials(self, recipe, problem, binning, aside)
        with ExitStack() as ends_of_fit:
            ends_of_fit.callback(binning.forget)
            runs: list[HeldOutRun] = []
            settings = self.first(len(problem.examples.Y), weak_learner)
            chosen: dict[str, Any] = {}
            if is_grown:
                progress = Progress(visible=bool(recipe.settings.get("verbose")))
                progress.show("choosing settings on held-out rows", None)
                try:
                    settings, runs = trials.chosen(settings)
                finally:
                    progress.close()
                names = ("max_depth", "max_features", "l2_regularization")
                chosen = {f"{name}_": getattr(settings, name) or 0.0 for name in names}
                if recipe.categorical:
                    chosen["category_penalty_"] = settings.category_penalty
            final = trials.at(settings)
            fitted = final.train(problem)
            rate: Any = final.formulation
            fitted.chosen |= {**chosen, "learning_rate_": float(rate.shrinkage)}
            if fitted.ending == "interrupted":
                return fitted
            if aside is not None:
                _set_temperature(fitted, _fitted_on(problem.task, fitted, rate.link, aside))
                return fitted
            whole = problem.examples
            if (
                problem.held is not None
                and problem.whole is not None
                and trials.are_few
                and is_grown
            ):
                whole = problem.whole
                runs = trials.after_early_stopping(settings, fitted.n_iter)
            if runs:
                is_open = binning.rows_of_each(whole.counts) >= _REPEATED
                _set_temperature(fitted, _corrected(fitted, runs, is_open=is_open))
            return fitted

    def set_aside(self, problem: Problem) -> tuple[Problem, Examples | None]:
        """Return the problem and, of many examples, those that tell the temperature.

        Those held out for early stopping do, and of very many a few, which have no weight in the
        fit.  There are none if they would be few, or would lack a part of the classes.
        """
        examples, held = problem.examples, problem.held
        n_examples = len(examples.Y)
        if not self.tries_long_steps or n_examples <= _MOST_FOLDED:
            return problem, None
        if held is not None or n_examples <= _LARGE:
            is_enough = held is not None and len(held.Y) >= _FEWEST_ASIDE
            return problem, held if is_enough else None
        _, labels, sizes = np.unique(examples.Y, return_inverse=True, return_counts=True)
        drawn = np.random.RandomState(0).permutation(n_examples)[::_ONE_OF][:_MOST_ASIDE]
        rows = np.sort(drawn[sizes[labels[drawn]] > _ONE_OF])
        if len(rows) < _LEAST_COMMON * len(drawn):
            return problem, None
        assert examples.counts is not None
        # One of the equal examples that were merged.
        weights = np.array(examples.weights)
        of_rows = weights[rows] / examples.counts[rows]
        weights[rows] -= of_rows
        aside = Examples(rows_of(examples.X, rows), examples.Y[rows], of_rows)
        return replace(problem, examples=replace(examples, weights=weights)), aside

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
        for name in ("max_features", "l2_regularization"):
            if not is_same(getattr(self, name), AUTO):
                first = replace(first, **{name: getattr(self, name)})
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
    aside : Examples, optional
        Those that tell the temperature of the fit itself.
    """

    stage_wise: StageWise
    recipe: Recipe
    problem: Problem
    binning: BinsOfOneTable
    aside: Examples | None

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
            l2_regularization=settings.l2_regularization or 0.0,
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

    @property
    def are_few(self) -> bool:
        """Whether all examples take part in trials."""
        return _n_parts(self.problem.examples.Y) <= _MOST_FOLDED

    def chosen(self, first: TreeSettings) -> tuple[TreeSettings, list[HeldOutRun]]:
        """Choose the settings that are left open, and return the fits that leave examples out.

        Of many examples some are tried.
        """
        if not self.gives_losses:
            return first, []
        examples, stage_wise, are_few = self.problem.examples, self.stage_wise, self.are_few
        is_narrow = self.problem.n_features <= _MOST_FEATURES_OF_LONG
        takes_long = is_narrow and stage_wise.tries_long_steps
        # They would change all of these.
        names = ("max_depth", "max_features", "learning_rate", "max_iter")
        is_open = all(is_same(getattr(stage_wise, name), AUTO) for name in names)
        chosen = self.with_features(first)
        if are_few or not takes_long:
            chosen = self.with_penalty(chosen)
        if not (are_few or takes_long):
            return chosen, []
        n_examples, tried, n_folds = len(examples.Y), chosen, _FOLDS
        if not are_few:
            most = min(chosen.max_rounds, _MOST_ROUNDS_OF_MANY)
            tried = replace(chosen, max_rounds=most, patience=EARLY)
            examples, n_folds = some_examples(examples, _MOST_SOME), 1
        folds, is_watched = self.weights_of_folds(examples)[:n_folds], self.problem.held is not None
        runs: list[HeldOutRun] = []
        tries = takes_long and is_open and n_examples >= _FEWEST_OF_LONG
        if tries or (self.aside is None and not (are_few and is_watched)):
            runs = self.runs(tried, examples, folds)
        if tries and runs:
            of_long = self.runs(tried.with_long_steps(), examples, folds)
            looks = [run.looks[0] for run in of_long], [run.looks[0] for run in runs]
            mean, error = difference(of_long, looks[0], runs, looks[1])
            # Few of the examples are unfair to long steps.
            if mean < (error if n_examples > _LARGE else -error):
                chosen, runs = chosen.with_long_steps(), of_long
        if not are_few:
            return self.with_penalty(chosen), runs
        # Where the user gave the rounds, a run can be resumed with more of them.
        ends = is_same(stage_wise.max_iter, AUTO) and not is_watched
        if ends and ends_early(runs, constant_loss(examples.Y, examples.weights)):
            chosen = replace(chosen, patience=EARLY)
        return chosen, runs

    def with_features(self, settings: TreeSettings) -> TreeSettings:
        """Choose the fraction of the features that a node may split, if it is left open.

        The choice does not depend on the number of rounds, so that a run can be resumed with more
        of them.  If rounds leave no rows out, it is all features.
        """
        few = replace(settings, max_features=_FEW)
        if not is_same(self.stage_wise.max_features, AUTO):
            return settings
        if self.problem.n_features > _MOST_TRIED_FEATURES:
            return few
        examples = self.problem.examples
        of_all, of_few = self.loss_of_left_out(settings), self.loss_of_left_out(few)
        # If neither has learned anything, features may matter only together.
        learned = _LEARNED * constant_loss(examples.Y, examples.weights)
        has_learned = min(of_all, of_few) < learned
        return few if has_learned and of_all >= _CLEARLY_LESS * of_few else settings

    def with_penalty(self, settings: TreeSettings) -> TreeSettings:
        """Drop the price of categories if left-out rows have a clearly lower loss without it."""
        if not self.recipe.categorical:
            return settings
        free = replace(settings, category_penalty=0.0)
        least = _CLEARLY_LESS * self.loss_of_left_out(settings)
        return free if self.loss_of_left_out(free) < least else settings

    def loss_of_left_out(self, settings: TreeSettings) -> float:
        """Return the loss of the rows that the rounds of a short fit left out, or infinity."""
        short = replace(settings, learning_rate=_RATE_OF_TRIAL, max_rounds=_ROUNDS_OF_TRIAL)
        some = some_examples(self.problem.examples, _MOST_TRIED)
        with loop_without_model(self.trainer(short), some.X, some.Y, some.weights) as loop:
            loop.run()
            temperature = loop.temperature()
        return np.inf if temperature is None else temperature.loss

    def after_early_stopping(self, settings: TreeSettings, n_rounds: int) -> list[HeldOutRun]:
        """Train for as many rounds as were best, without the held-out examples of each fold."""
        whole = self.problem.whole
        assert whole is not None
        if not self.gives_losses:
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


def _corrected(fitted: Fitted, runs: Sequence[HeldOutRun], *, is_open: bool) -> float:
    """Return the temperature that fits of other examples ask for.

    ``is_open`` is whether the rows that rounds left out tell nothing of it.
    """
    looks = [run.after(fitted.n_iter) for run in runs]
    factor = fitted_factor(runs, looks, is_open=is_open).factor
    return factor if is_open or fitted.temperature is None else factor * fitted.temperature


def _fitted_on(task: Any, fitted: Fitted, link: SoftmaxLink, held: Examples) -> float:
    """Return the temperature at which held-out examples are most likely."""
    scores = model_scores(task, fitted.of_part or fitted.model, held.X)
    of_held = OfExamples(task, held.X, held.Y, scores.offsets, np.ones(len(held.Y)))
    likelihood = Likelihood(of_held, probes=False)

    start = fitted.temperature or 1.0

    def loss(factor: float) -> float:
        losses = likelihood.losses(scores.times(link.sharpness * start * factor).rows)
        return float(np.average(losses, weights=held.weights))

    return start * fitted_temperature(loss, len(held.Y), deviation=DEVIATION).factor


def _set_temperature(fitted: Fitted, factor: float) -> None:
    facts = {**fitted.model.metadata, "temperature": factor}
    fitted.temperature, fitted.model = factor, replace(fitted.model, metadata=facts)


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
