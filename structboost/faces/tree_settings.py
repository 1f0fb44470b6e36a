"""Settings of stage-wise boosted trees, which short fits choose on rows that they do not see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structboost.training.boosting import StructBoost, run_without_model
from structboost.training.held_out_runs import HeldOutRun, difference
from structboost.training.loop import Loop

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
FEWEST_OF_LONG, MOST_FEATURES_OF_LONG = 2000, 64


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
    of_all, of_few = (
        _loss_of_left_out(trainer_of, tried, examples, sample_weight) for tried in (settings, few)
    )
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
    return *(_taken(values, rows) for values in (X, Y)), weights


def _loss_of_left_out(
    trainer_of: TrainerOf,
    settings: TreeSettings,
    examples: tuple[Any, Any],
    sample_weight: Any,
) -> float | None:
    """Return the loss of the rows that the rounds of a short fit left out."""
    losses: list[float | None] = []

    def run(loop: Loop) -> None:
        loop.run()
        temperature = loop.temperature()
        losses.append(None if temperature is None else temperature.loss)

    short = replace(settings, learning_rate=_RATE_OF_TRIAL, max_rounds=_ROUNDS_OF_TRIAL)
    trainer = trainer_of(short)
    run_without_model(trainer, *some_examples(*examples, sample_weight, _MOST_TRIED), run)
    return losses[0]


def constant_loss(Y: Any, weights: Any) -> float:
    """Return the mean log-loss of the class frequencies, or infinity if outputs are not classes."""
    labels = np.asarray(Y) if isinstance(Y, np.ndarray) else np.empty((0, 0))
    if labels.ndim != 1:
        return np.inf
    _, indices = np.unique(labels, return_inverse=True)
    p = np.bincount(indices, weights)
    p = p / p.sum()
    return float(-(p @ np.log(p)))


def _taken(values: Any, rows: Any) -> Any:
    """Return the values at ``rows`` of an array, a sparse matrix or a list."""
    return values[rows] if hasattr(values, "shape") else [values[i] for i in rows]
