"""Fraction of the features that the nodes of trees try, chosen by a short trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from structboost.masters.newton_steps import NewtonSteps
from structboost.training.boosting import held_out_loss

# The fractions, a third and all of the features.
_FEW, ALL_FEATURES = 1 / 3, 1.0
# Above this number of features, a third of them is taken without a trial; a trial has at most this
# number of examples.
_MOST_TRIED_FEATURES, _MOST_TRIED_EXAMPLES = 32, 4000
# All features learn faster at first, so their loss must be below this fraction of that of a third.
_CLEARLY_LESS = 0.98
_ROUNDS_OF_TRIAL, _RATE_OF_TRIAL = 40, 0.15
# Fraction of the loss of a constant prediction below which a trial has learned.
_LEARNED = 0.9


def chosen_fraction(
    trainer_of: Callable[..., Any],
    formulation: NewtonSteps,
    n_features: int,
    train: tuple[Any, Any],
    sample_weight: Any,
) -> float:
    """Return the fraction with the least loss on left-out rows after a few rounds.

    ``trainer_of(fraction, **settings)`` makes a trainer.  The choice does not depend on its number
    of rounds, so that a run can be resumed with more of them.  If rounds leave no rows out, it is
    all features.
    """
    if n_features > _MOST_TRIED_FEATURES:
        return _FEW
    X, Y, weights = _some_examples(*train, sample_weight)
    losses = {}
    for fraction in (ALL_FEATURES, _FEW):
        trainer = trainer_of(
            fraction,
            formulation=replace(formulation, shrinkage=_RATE_OF_TRIAL),
            max_rounds=_ROUNDS_OF_TRIAL,
        )
        loss = held_out_loss(trainer, X, Y, weights)
        if loss is None:
            return ALL_FEATURES
        losses[fraction] = loss
    # If neither has learned anything, features may matter only together.
    has_learned = min(losses.values()) < _LEARNED * _constant_loss(Y, weights)
    is_better = losses[ALL_FEATURES] < _CLEARLY_LESS * losses[_FEW]
    return _FEW if has_learned and not is_better else ALL_FEATURES


def _constant_loss(Y: Any, weights: Any) -> float:
    """Return the mean log-loss of the class frequencies, or infinity if outputs are not classes."""
    labels = np.asarray(Y) if isinstance(Y, np.ndarray) else np.empty((0, 0))
    if labels.ndim != 1:
        return np.inf
    _, indices = np.unique(labels, return_inverse=True)
    p = np.bincount(indices, weights)
    p = p / p.sum()
    return float(-(p @ np.log(p)))


def _some_examples(X: Any, Y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return at most 4,000 of the examples, evenly spread, and their weights."""
    if len(Y) <= _MOST_TRIED_EXAMPLES:
        return X, Y, sample_weight
    rows = np.linspace(0, len(Y) - 1, _MOST_TRIED_EXAMPLES).astype(np.int64)
    weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
    return *(_taken(values, rows) for values in (X, Y)), weights


def _taken(values: Any, rows: Any) -> Any:
    """Return the values at ``rows`` of an array, a sparse matrix or a list."""
    return values[rows] if hasattr(values, "shape") else [values[i] for i in rows]
