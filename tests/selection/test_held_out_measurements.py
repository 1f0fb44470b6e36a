"""Measurements of a model on held-out examples."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin

from structboost import MulticlassTask, RankingTask
from structboost.contract import StackedParts
from structboost.contract.calls import mean_loss, predictions
from structboost.selection import Fold
from structboost.selection.held_out import (
    checked_score,
    measured_scores,
    scaled_hinge,
    scaled_log_loss,
    scaled_surrogate,
    score_by,
)

TASK, INPUTS = MulticlassTask(4), np.zeros((30, 1))


def rows(scores):
    return StackedParts({"x": scores}, {"x": np.arange(len(scores) + 1)})


def classes(seed, strength=1.0):
    random = default_rng(seed)
    y = random.integers(0, 4, 30)
    scores = random.normal(size=(30, 4))
    scores[np.arange(30), y] += strength
    return y, scores


def hinge_of_classes(y, scores):
    """Hinge of each example by listing the classes."""
    margins = 1.0 + scores - scores[np.arange(len(y)), y][:, None]
    margins[np.arange(len(y)), y] = 0.0
    return margins.max(axis=1)


def log_loss_of_classes(y, scores):
    return logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("surrogate", "listed"),
    [(scaled_hinge, hinge_of_classes), (scaled_log_loss, log_loss_of_classes)],
)
def test_the_best_scale_is_that_of_an_independent_search(surrogate, listed, seed):
    random = default_rng(seed)
    y, scores = classes(seed, strength=[0.0, 1.0, 2.0][seed % 3])
    scores *= 10.0 ** random.uniform(-3, 3)
    weights = random.exponential(1.0, len(y)) ** 3 if seed % 2 else None
    values = surrogate(TASK, INPUTS, y, rows(scores), weights)

    def mean(scale):
        return float(np.average(listed(y, scale * scores), weights=weights))

    scales = np.exp(np.linspace(-12, 12, 400)) / np.abs(scores).max()
    best = min(scales, key=mean)
    bounds = (best / 1.2, best * 1.2)
    search = minimize_scalar(mean, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    least = min(search.fun, mean(0.0))
    assert least * (1 - 1e-6) <= np.average(values, weights=weights) <= least * 1.011


def test_constant_scores_have_the_surrogate_of_no_scores():
    y, scores = classes(0)
    right = np.eye(4)[y]
    for made, hinge in ((0 * scores, 1.0), (-right, 1.0), (right, 0.0)):
        # Scores against the truth are worse at any scale.
        found = scaled_hinge(TASK, INPUTS, y, rows(made))
        assert found == pytest.approx(hinge, abs=1e-6)
    assert scaled_log_loss(TASK, INPUTS, y, rows(0 * scores)) == pytest.approx(np.log(4))


def test_slacks_that_several_outputs_bound_count_once():
    task, random = RankingTask(), default_rng(0)
    X = [random.normal(size=(4, 1)) for _ in range(6)]
    Y = [np.array([0, 1, 1, 0]), np.array([2, 0, 1, 1])] * 3
    scores = random.normal(size=(6, 4))
    stack = StackedParts({"x": scores.reshape(24, 1)}, {"x": np.arange(0, 25, 4)})
    found = scaled_hinge(task, X, Y, stack).mean()

    def hinge(y, own):
        better, worse = np.nonzero(y[:, None] > y)
        return np.maximum(1.0 - own[better] + own[worse], 0.0).mean()

    values = [
        np.mean([hinge(y, scale * own) for y, own in zip(Y, scores, strict=True)])
        for scale in np.exp(np.linspace(-5, 5, 300))
    ]
    assert min(values) * 0.99 <= found <= min(values) * 1.02


def test_measurements_are_the_loss_and_the_surrogate_of_a_fold():
    y, scores = classes(3)
    weights = np.arange(30) % 3 + 1.0
    fold = Fold(INPUTS, y, None, INPUTS, y, weights)
    found = measured_scores(TASK, fold, rows(scores), scaled_log_loss)
    outputs = predictions(TASK, INPUTS, rows(scores))
    assert found.loss == mean_loss(TASK, y, outputs, weights)
    values = scaled_log_loss(TASK, INPUTS, y, rows(scores), weights)
    assert found.surrogate == np.average(values, weights=weights)
    assert_array_equal(found.examples.surrogates, values)
    assert_array_equal(found.examples.losses, y != outputs)
    assert_array_equal(found.examples.weights, weights)
    assert not found.is_constant
    assert found.score is None


def test_the_surrogate_is_the_likelihood_where_it_can_be_had():
    y, scores = classes(1)
    of_list = StackedParts({"x": np.array([[1.0], [0.0], [3.0]])}, {"x": np.array([0, 3])})
    # Rankings have no marginals.
    ranking = RankingTask(), [np.zeros((3, 1))], [np.array([0, 1, 2])], of_list
    for data, surrogate in (
        ((TASK, INPUTS, y, rows(scores)), scaled_log_loss), (ranking, scaled_hinge)
    ):  # fmt: skip
        assert_array_equal(scaled_surrogate(*data), surrogate(*data))


def fails(model, fold):
    raise RuntimeError("no such column")


@pytest.mark.parametrize(
    ("score", "message"),
    [
        *((lambda model, fold, v=v: v, "scoring returned") for v in (np.nan, np.inf, "high", None)),
        (fails, r"scoring failed .*no such column"),
    ],
)
def test_a_score_that_fails_or_is_not_finite_is_named(score, message):
    y, scores = classes(0)
    with pytest.raises(ValueError, match=message):
        checked_score(score, None, Fold(scores, y, None, scores, y, held_rows=np.arange(30)))


class Constant(ClassifierMixin, BaseEstimator):
    """An estimator that predicts one label."""

    def __init__(self, label):
        self.label = label

    classes_ = np.array(["a", "b"])

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), self.label)


def held_out(label, fold):
    return Constant(label), fold.held_X, fold.held_Y


def test_a_scorer_of_scikit_learn_sees_the_held_out_examples_and_their_weights():
    X, y = np.arange(20.0).reshape(10, 2), np.array(["a", "b"] * 5)
    fold = Fold(X[:6], y[:6], None, X[6:9], y[6:9])
    assert score_by("accuracy", held_out)("a", fold) == pytest.approx(2 / 3)
    weighted = replace(fold, held_weight=np.array([6.0, 7.0, 8.0]))
    assert score_by("accuracy", held_out)("a", weighted) == pytest.approx(14 / 21)

    def seen(estimator, X, y):
        assert_array_equal(X[:, 0], [12, 14, 16])
        return list(y).count(estimator.label)

    assert score_by(seen, held_out)("b", weighted) == 1.0
