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
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.calls import losses_of, predictions, separation
from structboost.contract.one_output import is_constant
from structboost.contract.parts import StackedParts
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.errors import TaskError, examples_numbered
from structboost.model.ensemble import Ensemble, model_scores
from structboost.objectives.base import Problem
from structboost.objectives.held_out import Temperature, fitted_temperature
from structboost.objectives.likelihood import Likelihood, log_losses
from structboost.selection.folds import Fold
from structboost.selection.scoring import Score, checked_score

# ``surrogate(task, X, Y, scores, weights)`` measures scores on each example: smaller is better.
Surrogate = Callable[..., FloatArray]
# A mean over examples at a scale, its slope, and the values of the examples.
_AtScale = tuple[float, float, FloatArray]

# Relative gap at which the search for the scale stops, and its largest number of evaluations.
SCALE_GAP = 0.005
_MAX_EVALUATIONS = 20
# Outputs of an input, such as permutations, that are listed for a likelihood.
_MOST_LISTED = 1000
# The scale grows by this factor until the surrogate no longer falls.
_GROWTH = 8.0


class HeldExamples(NamedTuple):
    """Measurements of each held-out example, all of shape (n_held,).

    Attributes
    ----------
    losses : ndarray
        Losses of the predictions.
    surrogates : ndarray
        Values of which the mean is the surrogate.
    weights : ndarray
        Weights of the examples.
    counts : ndarray
        Number of equal examples that each one stands for.
    """

    losses: FloatArray
    surrogates: FloatArray
    weights: FloatArray
    counts: NDArray[Any]


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
    examples : HeldExamples or None
        Measurements of each example, if known.
    """

    loss: float
    surrogate: float
    is_constant: bool
    score: float | None = None
    examples: HeldExamples | None = None


def scaled_hinge(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, weights: Any = None
) -> FloatArray:
    """Compute the hinge of each held-out example at the best scale of the scores.

    The scale is that of the least mean over i, with ``s >= 0``, of
    ``max_y [Delta(y_i, y) + s <M(x_i, y) - M(x_i, y_i), scores>]``.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Inputs and true outputs.
    scores : StackedParts
        Scores of the model.
    weights : array-like, shape (n_examples,), optional
        Weights of the examples in the mean.

    Returns
    -------
    values : ndarray, shape (n_examples,)
    """
    truth = KeptTruth()
    weights_ = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)
    weights_ = weights_ / weights_.sum()

    def at(scale: float) -> _AtScale:
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
        examples, parts = examples[last], of_slack[last] * len(Y)
        values = np.zeros(len(Y))
        np.add.at(values, examples, parts * violations[last])
        slope = float((parts * weights_[examples]) @ slopes[last])
        return float(weights_ @ values), slope, values

    return _lowest(at, _unit(scores))


def scaled_log_loss(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, weights: Any = None
) -> FloatArray:
    """Compute the negative log-likelihood of each true output at the best scale.

    Parameters
    ----------
    task, X, Y, scores, weights
        As for :func:`scaled_hinge`; the task has marginals.
    """
    weights_ = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)
    weights_ = weights_ / weights_.sum()
    problem = Problem(task, X, Y, scores.offsets, weights_, np.random.RandomState(0))
    likelihood = Likelihood(problem, probes=False)

    def at(scale: float) -> _AtScale:
        likelihoods = likelihood.at(_times(scores, scale).rows)
        rising = sum(
            float(np.sum(likelihoods.slopes[kind].T * rows)) for kind, rows in scores.rows.items()
        )
        losses = likelihoods.losses
        return float(weights_ @ losses), -rising, losses

    return _lowest(at, _unit(scores))


def _lists_many(task: Task, X: Sequence[Any]) -> bool:
    """Whether marginals take a list of so many outputs of an input that it is no way to choose."""
    if task.defines("marginals_batch"):
        return False
    return any(next(islice(task.outputs(x) or (), _MOST_LISTED, None), None) is not None for x in X)


def scaled_surrogate(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, weights: Any = None
) -> FloatArray:
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
    ) -> FloatArray:
        try:
            return log_losses(task, X, Y, scores, sharpness)
        except TaskError:  # the task has no marginals, or too many outputs
            return scaled_surrogate(task, X, Y, scores, weights)

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
        losses, surrogates = losses_of(task, Y, outputs), surrogate(task, X, Y, scores, weights)
        ones, counts = np.ones(len(Y)), fold.held_counts
        examples = HeldExamples(
            losses,
            surrogates,
            ones if weights is None else np.asarray(weights, np.float64),
            ones if counts is None else np.asarray(counts),
        )
        return HeldOut(
            float(np.average(losses, weights=weights)),
            float(np.average(surrogates, weights=weights)),
            is_constant(task, X, Y, outputs, scores),
            examples=examples,
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


def temperature_on_folds(
    folds: Sequence[Fold], losses: Sequence[Callable[[float], FloatArray]]
) -> Temperature:
    """Fit the factor of the held-out scores of all folds that gives the least mean loss.

    Parameters
    ----------
    folds : sequence of Fold
        Folds, of which the weights of the held-out examples are read.
    losses : sequence of callable
        For each fold, ``losses(factor)`` returns minus the logarithms of the probabilities of the
        held-out outputs, shape (n_held,), where scores are multiplied by the factor.
    """
    sizes = [len(fold.held_Y) for fold in folds]

    def loss(factor: float) -> float:
        means = [
            np.average(of_fold(factor), weights=fold.held_weight)
            for fold, of_fold in zip(folds, losses, strict=True)
        ]
        return float(np.average(means, weights=sizes))

    return fitted_temperature(loss, sum(sizes))


def _unit(scores: StackedParts) -> float:
    """Return the scale at which the scores of the most variable kind vary by about 1."""
    std = max(float(rows.std()) for rows in scores.rows.values())
    return 1.0 / std if std > 0 else 1.0


def _lowest(at: Callable[[float], _AtScale], unit: float) -> FloatArray:
    """Return the values at the scale of the least mean, convex from 0 on, by its slopes."""
    left, (value, slope, values) = 0.0, at(0.0)
    if slope >= 0:
        return values
    best, of_best, of_left = value, values, (value, slope)
    right = unit
    for _ in range(_MAX_EVALUATIONS):
        value, slope, values = at(right)
        if value < best:
            best, of_best = value, values
        if slope >= 0:
            break
        gains = _GROWTH * right * -slope
        left, of_left = right, (value, slope)
        if gains <= SCALE_GAP * best:
            return of_best
        right *= _GROWTH
    else:
        return of_best
    of_right = (value, slope)
    for _ in range(_MAX_EVALUATIONS):
        (f, df), (g, dg) = of_left, of_right
        # The intersection of the two tangents is a lower bound on the function.
        middle = (g - f + df * left - dg * right) / (df - dg)
        bound = f + df * (middle - left)
        if best - bound <= SCALE_GAP * best or not left < middle < right:
            break
        value, slope, values = at(middle)
        if value < best:
            best, of_best = value, values
        if slope < 0:
            left, of_left = middle, (value, slope)
        else:
            right, of_right = middle, (value, slope)
    return of_best


def _times(scores: StackedParts, scale: float) -> StackedParts:
    return StackedParts({kind: rows * scale for kind, rows in scores.rows.items()}, scores.offsets)
