"""Measurements of a model on held-out examples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin

from structboost import ChainTask, MulticlassTask, RankingTask
from structboost.contract import StackedParts
from structboost.contract.calls import mean_loss, predictions
from structboost.selection import Fold
from structboost.selection.held_out import (
    is_constant,
    measured_scores,
    scaled_hinge,
    scaled_log_loss,
    scaled_surrogate,
)
from structboost.selection.scoring import checked_score, score_by


def rows(scores):
    return StackedParts({"x": scores}, {"x": np.arange(len(scores) + 1)})


def classes(seed, n=30, k=4, strength=1.0):
    random = np.random.default_rng(seed)
    y = random.integers(0, k, n)
    scores = random.normal(size=(n, k))
    scores[np.arange(n), y] += strength
    return y, scores


def hinge_of_classes(y, scores, weights, scale):
    """Mean hinge by listing the classes."""
    margins = 1.0 + scale * (scores - scores[np.arange(len(y)), y][:, None])
    margins[np.arange(len(y)), y] = 0.0
    return float(np.average(margins.max(axis=1), weights=weights))


def log_loss_of_classes(y, scores, weights, scale):
    own = scale * scores
    return float(np.average(logsumexp(own, axis=1) - own[np.arange(len(y)), y], weights=weights))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("surrogate", "listed"),
    [(scaled_hinge, hinge_of_classes), (scaled_log_loss, log_loss_of_classes)],
)
def test_the_best_scale_is_that_of_an_independent_search(surrogate, listed, seed):
    random = np.random.default_rng(seed)
    y, scores = classes(seed, strength=[0.0, 1.0, 2.0][seed % 3])
    scores *= 10.0 ** random.uniform(-3, 3)
    weights = random.uniform(0.1, 3.0, len(y)) if seed % 2 else None
    values = surrogate(MulticlassTask(4), np.zeros((len(y), 1)), y, rows(scores), weights)
    own = np.average(values, weights=weights)
    scales = np.exp(np.linspace(-12, 12, 400)) / np.abs(scores).max()
    values = [listed(y, scores, weights, scale) for scale in scales]
    best = scales[int(np.argmin(values))]
    search = minimize_scalar(
        lambda scale: listed(y, scores, weights, scale),
        bounds=(best / 1.2, best * 1.2), method="bounded", options={"xatol": 1e-9},
    )  # fmt: skip
    least = min(search.fun, listed(y, scores, weights, 0.0))
    assert least * (1 - 1e-6) <= own <= least * 1.011


def test_constant_scores_have_the_surrogate_of_no_scores():
    y, scores = classes(0)
    task, X = MulticlassTask(4), np.zeros((30, 1))
    assert scaled_hinge(task, X, y, rows(0 * scores)) == pytest.approx(1.0)
    assert scaled_log_loss(task, X, y, rows(0 * scores)) == pytest.approx(np.log(4))
    # Scores against the truth are worse at any scale.
    against = -np.eye(4)[y]
    assert scaled_hinge(task, X, y, rows(against)) == pytest.approx(1.0)
    right = np.eye(4)[y]
    assert scaled_hinge(task, X, y, rows(right)) == pytest.approx(0.0, abs=1e-6)


def test_slacks_that_several_outputs_bound_count_once():
    task = RankingTask()
    random = np.random.default_rng(0)
    X = [random.normal(size=(4, 1)) for _ in range(6)]
    Y = [np.array([0, 1, 1, 0]), np.array([2, 0, 1, 1])] * 3
    scores = StackedParts({"x": random.normal(size=(24, 1))}, {"x": np.arange(0, 25, 4)})
    found = scaled_hinge(task, X, Y, scores).mean()
    values = []
    for scale in np.exp(np.linspace(-5, 5, 300)):
        scaled = StackedParts({"x": scale * scores.rows["x"]}, scores.offsets)
        separated = task.separate(X, Y, scaled)
        violations = separated.violations(scaled)
        slacks = np.arange(len(violations)) if separated.slacks is None else separated.slacks
        weights = (
            np.full(len(violations), 1 / 6) if separated.weights is None else separated.weights
        )
        total = 0.0
        for slack in np.unique(slacks):
            mine = slacks == slack
            total += weights[mine][0] * max(0.0, violations[mine].max())
        values.append(total)
    assert min(values) * 0.99 <= found <= min(values) * 1.02


def test_constant_predictions_differ_from_constant_truth():
    task, X = MulticlassTask(3), np.zeros((4, 1))
    varied = rows(np.arange(12.0).reshape(4, 3) ** 2)
    y = [0, 1, 2, 0]
    assert is_constant(task, X, y, [2, 2, 2, 2], varied)
    assert not is_constant(task, X, y, [2, 2, 1, 2], varied)
    assert not is_constant(task, X, [2, 2, 2, 2], [2, 2, 2, 2], varied)
    assert is_constant(task, X, [2, 2, 2, 2], [2, 2, 2, 2], rows(np.ones((4, 3))))


def test_sequences_of_one_tag_are_constant_whatever_their_length():
    task = ChainTask(3)
    X = [np.zeros((n, 1)) for n in (2, 3, 4)]
    Y = [np.array([0, 1]), np.array([0, 0, 0]), np.array([0, 0, 2, 0])]
    random = np.random.default_rng(0)
    scores = StackedParts(
        {"token": random.normal(size=(9, 3)), "step": random.normal(size=(3, 9))},
        {"token": np.array([0, 2, 5, 9]), "step": np.arange(4)},
    )
    of_one = [np.zeros(n, np.int64) for n in (2, 3, 4)]
    assert is_constant(task, X, Y, of_one, scores)
    assert not is_constant(task, X, Y, [*of_one[:2], np.array([0, 0, 0, 1])], scores)
    assert not is_constant(task, X, of_one, of_one, scores)


def test_measurements_are_the_loss_and_the_surrogate_of_a_fold():
    y, scores = classes(3)
    task, X = MulticlassTask(4), np.zeros((30, 1))
    weights = np.arange(30) % 3 + 1.0
    fold = Fold(X, y, None, X, y, weights)
    found = measured_scores(task, fold, rows(scores), scaled_log_loss)
    assert found.loss == mean_loss(task, y, predictions(task, X, rows(scores)), weights)
    values = scaled_log_loss(task, X, y, rows(scores), weights)
    assert found.surrogate == np.average(values, weights=weights)
    np.testing.assert_array_equal(found.examples.surrogates, values)
    np.testing.assert_array_equal(found.examples.losses, y != predictions(task, X, rows(scores)))
    np.testing.assert_array_equal(found.examples.weights, weights)
    assert not found.is_constant
    assert found.score is None


def test_the_surrogate_is_the_likelihood_where_it_can_be_had():
    y, scores = classes(1)
    given = MulticlassTask(4), np.zeros((30, 1)), y, rows(scores)
    np.testing.assert_array_equal(scaled_surrogate(*given), scaled_log_loss(*given))
    # Rankings have no marginals.
    X, Y = [np.zeros((3, 1))], [np.array([0, 1, 2])]
    of_list = StackedParts({"x": np.array([[1.0], [0.0], [3.0]])}, {"x": np.array([0, 3])})
    np.testing.assert_array_equal(
        scaled_surrogate(RankingTask(), X, Y, of_list), scaled_hinge(RankingTask(), X, Y, of_list)
    )


def scoring_fold():
    y, scores = classes(0)
    return Fold(scores, y, None, scores, y, held_rows=np.arange(30))


@pytest.mark.parametrize("value", [np.nan, np.inf, "high", None])
def test_error_of_a_score_that_is_not_finite_names_scoring(value):
    with pytest.raises(ValueError, match="scoring returned"):
        checked_score(lambda model, fold: value, None, scoring_fold())


def test_a_scorer_that_fails_is_named():
    def fails(model, fold):
        raise RuntimeError("no such column")

    with pytest.raises(ValueError, match=r"scoring failed .*no such column"):
        checked_score(fails, None, scoring_fold())


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
    weighted = Fold(X[:6], y[:6], None, X[6:9], y[6:9], held_weight=np.array([6.0, 7.0, 8.0]))
    assert score_by("accuracy", held_out)("a", weighted) == pytest.approx(14 / 21)

    def seen(estimator, X, y):
        np.testing.assert_array_equal(X[:, 0], [12, 14, 16])
        return list(y).count(estimator.label)

    assert score_by(seen, held_out)("b", weighted) == 1.0


def test_unknown_scorers_are_refused():
    with pytest.raises(ValueError, match="scoring is 'chunks', which is not a scorer"):
        score_by("chunks", held_out)
    with pytest.raises(TypeError, match="scoring is 3"):
        score_by(3, held_out)
