"""Measurements of a model on held-out examples, by its loss and a surrogate of the loss.

The loss counts whole outputs, so it is equal for all models that are nearly constant.  The
surrogate is minus the log-likelihood, or the hinge, at the scale of the scores that suits the
held-out examples best.  It distinguishes models before their outputs change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

from structboost._typing import AnyArray, Examples, FloatArray
from structboost.contract.calls import is_constant, losses_of, predictions, separation
from structboost.contract.parts import StackedParts
from structboost.contract.probes import has_sums
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Lists, Task
from structboost.errors import TaskError, examples_numbered
from structboost.model.ensemble import Ensemble, model_scores
from structboost.objectives.base import Problem
from structboost.objectives.likelihood import Likelihood
from structboost.objectives.master import LossesAt, Temperature, fitted_temperature
from structboost.selection.folds import Fold
from structboost.validation import shown

# ``score(model, fold)`` of a model of the other examples; larger is better.
Score = Callable[[Any, Fold], float]


def checked_score(score: Score, model: Any, fold: Fold) -> float:
    """Return the score of a model on the held-out part of a fold.

    Raises
    ------
    ValueError
        If the score fails, or is not a finite number.
    """
    try:
        value = score(model, fold)
    except Exception as error:
        raise ValueError(
            f"scoring failed on the examples held out to choose a parameter "
            f"({type(error).__name__}: {error}); give a scorer that takes predictions like these."
        ) from error
    try:
        score_value = float(value)
    except (TypeError, ValueError):
        score_value = np.nan
    if not np.isfinite(score_value):
        raise ValueError(
            f"scoring returned {shown(value)} on the examples held out to choose a parameter; give "
            "a scorer whose values are finite numbers."
        )
    return score_value


@runtime_checkable
class HasOutputsForMetrics(Protocol):
    """Estimator whose outputs are lists, which metrics of scikit-learn do not take."""

    classes_: AnyArray

    def outputs_for_metrics(
        self, true: Any, predicted: Any, sample_weight: Any
    ) -> tuple[AnyArray, AnyArray, Any]:
        """Return true and predicted outputs, and weights, in a form that metrics take."""
        ...


@dataclass(frozen=True, repr=False)
class StructuredScorer:
    """Scorer ``scorer(estimator, X, y)`` that :func:`structured_scorer` makes."""

    score: str | Callable[..., float]

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of predictions, of which a larger one is better."""
        face = _last_step(estimator)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not isinstance(face, HasOutputsForMetrics):
            if isinstance(self.score, str):
                return float(get_scorer(self.score)(estimator, X, y, **weights))
            return float(self.score(y, estimator.predict(X), **weights))
        true, predicted, of_outputs = face.outputs_for_metrics(
            y, estimator.predict(X), sample_weight
        )
        if of_outputs is not None:
            weights = {"sample_weight": of_outputs}
        if not isinstance(self.score, str):
            return float(self.score(true, predicted, **weights))
        with_predictions = _WithPredictions(estimator, face.classes_, predicted)
        return float(get_scorer(self.score)(with_predictions, X, true, **weights))

    def __repr__(self) -> str:
        name = self.score if isinstance(self.score, str) else shown(self.score)
        return f"structured_scorer({name!r})"


class _WithPredictions(ClassifierMixin, BaseEstimator):
    """Estimator that returns predictions computed before."""

    def __init__(self, estimator: Any, classes: AnyArray, predicted: AnyArray) -> None:
        self.estimator, self.classes_, self.predicted = estimator, classes, predicted

    def predict(self, X: Any) -> AnyArray:
        return self.predicted

    def __getattr__(self, name: str) -> Any:
        if name in ("decision_function", "predict_proba"):
            return getattr(self.estimator, name)
        raise AttributeError(name)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _last_step(estimator: Any) -> Any:
    """Return the estimator that predicts, behind pipelines and searches."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def structured_scorer(score: Any = "f1_micro") -> StructuredScorer:
    """Make a scorer that takes lists of labels, and tags of sequences.

    Scorers of scikit-learn take arrays: one label, or a row of 0 and 1, for each sample.  This one
    compares label sets as rows of 0 and 1, and sequences as tags of all their tokens, without those
    whose true tag is None.  Other estimators are scored as scikit-learn does.  Searches and
    ``cross_val_score`` need ``cv=KFold(5)`` for lists, because ``cv=5`` looks for strata in them.

    Parameters
    ----------
    score : str or callable
        Name of a scorer of scikit-learn, such as ``"f1_micro"``, ``"accuracy"`` or
        ``"jaccard_samples"``, or a metric ``score(y_true, y_pred)``, of which more is better.

    Returns
    -------
    scorer : StructuredScorer
        Function ``scorer(estimator, X, y, sample_weight=None)``.  In pipelines and searches, the
        last step decides on the form.

    Raises
    ------
    TypeError, ValueError
        If there is no such scorer.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from structboost import StructBoostMultiLabelClassifier
    >>> from structboost.selection import structured_scorer
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = [["high"] * int(a > 0) + ["wide"] * int(b > 0) for a, b in X]
    >>> classifier = StructBoostMultiLabelClassifier(max_iter=10)
    >>> scores = cross_val_score(
    ...     classifier, X, y, scoring=structured_scorer("f1_micro"), cv=KFold(3)
    ... )
    >>> bool(scores.min() > 0.8)
    True
    """
    if isinstance(score, str):
        _named_scorer(score)
    elif not callable(score):
        raise TypeError(
            f"score is {shown(score)}; give the name of a scorer of scikit-learn, or a metric "
            "score(y_true, y_pred)."
        )
    return StructuredScorer(score)


def _named_scorer(name: str) -> Any:
    try:
        return get_scorer(name)
    except ValueError:
        raise ValueError(
            f"scoring is {shown(name)}, which is not a scorer of scikit-learn; "
            "sklearn.metrics.get_scorer_names() lists them."
        ) from None


def score_by(scoring: Any, held_out: Callable[[Any, Fold], tuple[Any, Any, Any]]) -> Score:
    """Return the score of a scikit-learn scorer, for the models of folds.

    Parameters
    ----------
    scoring : str or callable
        Name of a scorer of scikit-learn, which receives the weights of the examples, and label
        sets and tags as :func:`structured_scorer` gives them, or ``scorer(estimator, X, y)``.
    held_out : callable
        ``held_out(model, fold)`` returns an estimator that predicts by the model, and the held-out
        inputs and true outputs as that estimator and the scorer take them.

    Raises
    ------
    ValueError, TypeError
        If there is no such scorer.
    """
    scorer = scoring
    takes_weights = isinstance(scoring, str)
    if isinstance(scoring, str):
        scorer = structured_scorer(scoring)
    elif not callable(scoring):
        raise TypeError(
            f"scoring is {shown(scoring)}; give the name of a scorer of scikit-learn, or a "
            "function scorer(estimator, X, y)."
        )

    def score(model: Any, fold: Fold) -> float:
        weights = fold.held_weight
        if weights is None or not takes_weights:
            return float(scorer(*held_out(model, fold)))
        return float(scorer(*held_out(model, fold), sample_weight=np.asarray(weights)))

    return score


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
    counts: AnyArray


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
    task: Task, X: Examples, Y: Examples, scores: StackedParts, weights: Any = None
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
        scaled = scores.times(scale)
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
    task: Task, X: Examples, Y: Examples, scores: StackedParts, weights: Any = None
) -> FloatArray:
    """Compute the negative log-likelihood of each true output at the best scale.

    Parameters
    ----------
    task, X, Y, scores, weights
        As for :func:`scaled_hinge`; the task has marginals.
    """
    weights_ = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)
    weights_ = weights_ / weights_.sum()
    problem = Problem(task, X, Y, scores.offsets, weights_)
    likelihood = Likelihood(problem, probes=False)

    def at(scale: float) -> _AtScale:
        likelihoods = likelihood.at(scores.times(scale).rows)
        rising = sum(
            float(np.sum(likelihoods.slopes[kind].T * rows)) for kind, rows in scores.rows.items()
        )
        losses = likelihoods.losses
        return float(weights_ @ losses), -rising, losses

    return _lowest(at, _unit(scores))


def _lists_many(task: Task, X: Examples) -> bool:
    """Whether marginals take a list of so many outputs of an input that it is no way to choose."""
    if has_sums(task) or not isinstance(task, Lists):
        return False
    return any(next(islice(task.outputs(x), _MOST_LISTED, None), None) is not None for x in X)


def scaled_surrogate(
    task: Task, X: Examples, Y: Examples, scores: StackedParts, weights: Any = None
) -> FloatArray:
    """Compute the negative log-likelihood where the task has marginals, else the hinge.

    Where the loss is 1 for every wrong output, as for whole sets of labels, the hinge of most
    models is least at the scale 0, so it cannot compare models, while the likelihood can.

    Parameters
    ----------
    task, X, Y, scores, weights
        As for :func:`scaled_hinge`.
    """
    with suppress(TaskError):  # the task has no marginals, or too many outputs
        if not _lists_many(task, X):
            return scaled_log_loss(task, X, Y, scores, weights)
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
        task: Task, X: Examples, Y: Examples, scores: StackedParts, weights: Any = None
    ) -> FloatArray:
        try:
            likelihood = Likelihood.of(task, X, Y, scores.offsets)
            return likelihood.losses(scores.times(sharpness).rows)
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


def temperature_on_folds(folds: Sequence[Fold], losses: Sequence[LossesAt]) -> Temperature:
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
