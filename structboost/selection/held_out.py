"""Measurements of a model on held-out examples, by its loss and a surrogate of the loss.

The loss counts whole outputs, so it is equal for all models that are nearly constant.  The
surrogate is minus the log-likelihood, or the hinge, at the scale of the scores that suits the
held-out examples best.  It distinguishes models before their outputs change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from structboost.contract.calls import mean_loss, predictions, separation
from structboost.contract.one_output import is_constant
from structboost.contract.parts import StackedParts
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.exceptions import TaskError, examples_numbered
from structboost.masters.base import Problem
from structboost.masters.likelihood import Likelihood, log_losses
from structboost.model.ensemble import Ensemble
from structboost.model.prediction import model_scores
from structboost.selection.folds import Fold
from structboost.selection.scoring import Score, checked_score

# ``surrogate(task, X, Y, scores, weights)`` measures scores on examples: smaller is better.
Surrogate = Callable[..., float]

# Relative gap at which the search for the scale stops, and its largest number of evaluations.
_SCALE_GAP = 0.01
_MAX_EVALUATIONS = 20
# Outputs of an input, such as permutations, that are listed for a likelihood.
_MOST_LISTED = 1000
# The scale grows by this factor until the surrogate no longer falls.
_GROWTH = 8.0


class HeldOut(NamedTuple):
    """Measurements of a model on the held-out part of a fold.

    Attributes
    ----------
    loss : float
        Mean loss of the predictions.
    surrogate : float
        The hinge or minus the log-likelihood, at the best scale of the scores.
    is_constant : bool
        Whether the predictions do not depend on the input.
    score : float or None
        Score by the user's function; larger is better.
    """

    loss: float
    surrogate: float
    is_constant: bool
    score: float | None = None


def scaled_hinge(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, weights: Any = None
) -> float:
    """Compute the mean hinge of held-out examples at the best scale of the scores.

    ``min_s mean_i max_y [Delta(y_i, y) + s <M(x_i, y) - M(x_i, y_i), scores>]`` over ``s >= 0``.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Inputs and true outputs.
    scores : StackedParts
        Scores of the model.
    weights : array-like, shape (n_examples,), optional
        Weights of the examples in the mean.
    """
    truth = KeptTruth()
    weights_ = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)

    def at(scale: float) -> tuple[float, float]:
        scaled = _times(scores, scale)
        separated = separation(task, X, Y, scaled, truth=truth)
        n_outputs = len(separated.losses)
        slacks = np.arange(n_outputs) if separated.slacks is None else separated.slacks
        examples = slacks if separated.examples is None else separated.examples
        of_slack = (
            np.full(n_outputs, 1 / len(Y)) if separated.weights is None else separated.weights
        )
        violations = separated.violations(scaled)
        slopes = separated.violations(scores) - separated.losses
        # The most violated output of each slack.
        order = np.lexsort((violations, slacks))
        last = order[np.append(np.diff(slacks[order]) != 0, True)[:n_outputs]]
        last = last[violations[last] > 0]
        parts = (of_slack * weights_[examples])[last] * (len(Y) / weights_.sum())
        return float(parts @ violations[last]), float(parts @ slopes[last])

    return _lowest(at, _unit(scores))


def scaled_log_loss(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, weights: Any = None
) -> float:
    """Compute the mean negative log-likelihood of the true outputs at the best scale.

    Parameters
    ----------
    task, X, Y, scores, weights
        As for :func:`scaled_hinge`; the task has marginals.
    """
    weights_ = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)
    weights_ = weights_ / weights_.sum()
    problem = Problem(task, X, Y, scores.offsets, weights_, np.random.RandomState(0))
    likelihood = Likelihood(problem, probes=False)

    def at(scale: float) -> tuple[float, float]:
        likelihoods = likelihood.at(_times(scores, scale).rows)
        rising = sum(
            float(np.sum(likelihoods.slopes[kind].T * rows)) for kind, rows in scores.rows.items()
        )
        return float(weights_ @ likelihoods.losses), -rising

    return _lowest(at, _unit(scores))


def _lists_many(task: Task, X: Sequence[Any]) -> bool:
    """Whether marginals take a list of so many outputs of an input that it is no way to choose."""
    if task.defines("marginals_batch"):
        return False
    return any(next(islice(task.outputs(x) or (), _MOST_LISTED, None), None) is not None for x in X)


def scaled_surrogate(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, weights: Any = None
) -> float:
    """Compute the negative log-likelihood where the task has marginals, else the hinge.

    Where the loss is 1 for every wrong output, as for whole sets of labels, the hinge of most
    models is least at the scale 0, so it cannot compare models, while the likelihood can.

    Parameters
    ----------
    task, X, Y, scores, weights
        As for :func:`scaled_hinge`.
    """
    try:
        if _lists_many(task, X):
            return scaled_hinge(task, X, Y, scores, weights)
        return scaled_log_loss(task, X, Y, scores, weights)
    except TaskError:  # the task has no marginals, or too many outputs
        return scaled_hinge(task, X, Y, scores, weights)


def log_loss_by(sharpness: float) -> Surrogate:
    """Return a function for the negative log-likelihood at a fixed sharpness.

    Probabilities are ``~ exp(sharpness * score)``.  Objectives whose scores have probabilities are
    measured at that scale, so an overconfident model is worse.  Without marginals it is
    :func:`scaled_surrogate`.

    Parameters
    ----------
    sharpness : float
        Factor of the scores.
    """

    def surrogate(
        task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, weights: Any = None
    ) -> float:
        weights_ = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)
        try:
            losses = log_losses(task, X, Y, scores, sharpness)
        except TaskError:  # the task has no marginals, or too many outputs
            return scaled_surrogate(task, X, Y, scores, weights)
        return float(np.average(losses, weights=weights_))

    return surrogate


def measured_scores(
    task: Task, fold: Fold, scores: StackedParts, surrogate: Surrogate = scaled_surrogate
) -> HeldOut:
    """Measure scores of the held-out part of a fold.

    Parameters
    ----------
    task : Task
    fold : Fold
    scores : StackedParts
        Scores of the held-out examples by a model of the others.
    surrogate : callable, optional
        By default :func:`scaled_surrogate`.

    Raises
    ------
    TaskError
        If the task breaks its contract; the message has the index of the example among all.
    """
    X, Y, weights = fold.held_X, fold.held_Y, fold.held_weight
    with examples_numbered(fold.held_rows):
        outputs = predictions(task, X, scores)
        return HeldOut(
            mean_loss(task, Y, outputs, weights),
            surrogate(task, X, Y, scores, weights),
            is_constant(task, X, Y, outputs, scores),
        )


def measured_model(
    task: Task,
    fold: Fold,
    model: Ensemble,
    surrogate: Surrogate = scaled_surrogate,
    score: Score | None = None,
) -> HeldOut:
    """Measure a model on the held-out part of a fold.

    Parameters
    ----------
    task, fold, surrogate
        As for :func:`measured_scores`.
    model : Ensemble
    score : callable, optional
        ``score(model, fold)`` is the user's measurement; larger is better.

    Raises
    ------
    ValueError
        If ``score`` fails, or does not return a finite number; the message names ``scoring``.
    """
    with examples_numbered(fold.held_rows):
        scores = model_scores(task, model, fold.held_X)
    measured = measured_scores(task, fold, scores, surrogate)
    return measured if score is None else measured._replace(score=checked_score(score, model, fold))


def _unit(scores: StackedParts) -> float:
    """Return the scale at which the scores of the most variable kind vary by about 1."""
    std = max(float(rows.std()) for rows in scores.rows.values())
    return 1.0 / std if std > 0 else 1.0


def _lowest(at: Callable[[float], tuple[float, float]], unit: float) -> float:
    """Return the least value of a convex function of a scale from 0 on, by its slopes."""
    left, value, slope = 0.0, *at(0.0)
    if slope >= 0:
        return value
    best, of_left = value, (value, slope)
    right = unit
    for _ in range(_MAX_EVALUATIONS):
        value, slope = at(right)
        best = min(best, value)
        if slope >= 0:
            break
        gains = _GROWTH * right * -slope
        left, of_left = right, (value, slope)
        if gains <= _SCALE_GAP * best:
            return best
        right *= _GROWTH
    else:
        return best
    of_right = (value, slope)
    for _ in range(_MAX_EVALUATIONS):
        (f, df), (g, dg) = of_left, of_right
        # The intersection of the two tangents is a lower bound on the function.
        middle = (g - f + df * left - dg * right) / (df - dg)
        bound = f + df * (middle - left)
        if best - bound <= _SCALE_GAP * best or not left < middle < right:
            break
        value, slope = at(middle)
        best = min(best, value)
        if slope < 0:
            left, of_left = middle, (value, slope)
        else:
            right, of_right = middle, (value, slope)
    return best


def _times(scores: StackedParts, scale: float) -> StackedParts:
    return StackedParts({kind: rows * scale for kind, rows in scores.rows.items()}, scores.offsets)
