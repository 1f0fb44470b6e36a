"""Stage-wise likelihood: loss, slopes and curvatures by differences, its steps and its end."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from structboost import BinaryTask, MulticlassTask, StructBoost, StructBoostClassifier
from structboost.learners import TreeFamily
from structboost.learners.terms import Terms
from structboost.objectives import Exponential, StageWiseLikelihood, stage_wise_likelihood
from structboost.objectives.base import Problem

ROWS = 12


def made_booster(seed, n_classes, **parameters):
    """A booster with unequal weights of examples, the labels and these weights."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, size=ROWS)
    is_binary = n_classes == 2
    task = BinaryTask() if is_binary else MulticlassTask(n_classes)
    shares = rng.dirichlet(np.ones(ROWS))
    problem = Problem(
        task, np.zeros((ROWS, 1)), 2 * labels - 1 if is_binary else labels,
        {"x": np.arange(ROWS + 1)}, shares, np.random.RandomState(0),
    )  # fmt: skip
    return StageWiseLikelihood(**parameters).booster(problem), labels, shares


def add_learners(booster, answers, channels):
    first = booster.add_responses("x", answers)
    numbers = np.arange(len(channels))
    terms = Terms(numbers, first + numbers, np.asarray(channels), np.ones(len(channels)))
    booster.add_columns({"x": terms}, len(channels))


def mean_loss(scores, labels, shares):
    """By the definition; scores by channel and example, one channel for two classes."""
    if len(scores) == 1:
        scores = np.vstack((np.zeros(ROWS), scores))
    return shares @ (logsumexp(2 * scores, axis=0) - 2 * scores[labels, np.arange(ROWS)])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999), st.integers(2, 4))
def test_steps_are_shrunken_newton_steps_of_the_loss(seed, n_classes):
    booster, labels, shares = made_booster(seed, n_classes, shrinkage=0.3, largest_step=0.8)
    n_channels = 1 if n_classes == 2 else n_classes
    answers = np.random.default_rng(seed).integers(-127, 128, (n_channels, ROWS)).astype(np.int8)
    add_learners(booster, answers, np.arange(n_channels))
    scores = np.zeros((n_channels, ROWS))
    for _ in range(3):
        duals = booster.gradient()["x"]
        weights = booster.weights.copy()
        booster.step(np.arange(n_channels))
        new = scores.copy()
        for channel, answer in enumerate(answers.astype(float)):

            def along(step, channel=channel, answer=answer, scores=scores):
                moved = scores.copy()
                moved[channel] += step * answer
                return mean_loss(moved, labels, shares)

            h = 1e-5
            slope = (along(-h) - along(h)) / (2 * h)
            curvature = (along(h) - 2 * along(0) + along(-h)) / h**2
            assert answer @ duals[:, channel] == pytest.approx(slope, rel=1e-4, abs=1e-4)
            step = 0.0
            if slope > 1e-6:
                step = 0.3 * min(slope / curvature, 0.8 / np.abs(answer).max())
            change = booster.weights[channel] - weights[channel]
            assert change == pytest.approx(step, rel=1e-3, abs=1e-8)
            new[channel] += change * answer
        scores = new
        assert booster.primal == pytest.approx(mean_loss(scores, labels, shares))


def test_training_ends_where_the_loss_is_low_enough():
    X = np.arange(40.0)[:, None]
    y = X[:, 0] > 19
    ends = [
        StructBoostClassifier(C=np.inf, objective=StageWiseLikelihood(enough=enough)).fit(X, y)
        for enough in (0.1, 0.01)
    ]
    lengths = [len(model.history_) for model in ends]
    assert lengths[0] < lengths[1] < 200
    for model, enough in zip(ends, (0.1, 0.01), strict=True):
        assert model.objective_ <= enough < max(r["primal"] for r in model.history_)
        assert model.history_[-1]["bound"] is None


@pytest.mark.slow
def test_the_default_withstands_wrong_labels_better_than_the_exponential_loss():
    X, y = make_classification(800, 20, n_informative=6, n_classes=3, flip_y=0.2, random_state=3)
    trees = partial(TreeFamily, row_fraction=0.5, random_state=0)
    exponential = Exponential(tau_max=1, largest_weight=1.0)
    models = [
        StructBoostClassifier(random_state=0),
        StructBoostClassifier(C=np.inf, objective=exponential, weak_learner=trees),
    ]
    default, other = [model.fit(X[::2], y[::2]) for model in models]
    assert default.score(X[1::2], y[1::2]) > other.score(X[1::2], y[1::2])
    losses = [log_loss(y[1::2], model.predict_proba(X[1::2])) for model in (default, other)]
    assert losses[0] < 0.5 * losses[1]
    objectives = np.array([record["primal"] for record in default.history_])
    assert (np.diff(objectives) < 0).all()


def test_parameters_out_of_range_are_refused():
    wrong = {"shrinkage": 0.0, "largest_step": -1.0, "enough": -1e-3}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            StageWiseLikelihood(**{name: value}).check()


def test_a_column_that_is_chosen_again_steps_on():
    """Three stumps for forty rounds: their answers are asked for anew in most of them."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(200, 1)).astype(float)
    y = np.where(rng.random(200) < 0.2 + 0.2 * X[:, 0], 1, -1)
    trainer = StructBoost(
        BinaryTask(), C=np.inf, formulation=StageWiseLikelihood(enough=0.0), weak_learner="stump",
        columns_per_channel=1, max_rounds=40,
    ).fit(X, y)  # fmt: skip
    assert len(trainer.model_.weights) < 7 < len(trainer.history_)
    losses = np.logaddexp(0.0, -2.0 * y * trainer.model_.scores(X)[:, 0])
    assert trainer.objective_ == pytest.approx(losses.mean(), rel=1e-9)
    primal = [record["primal"] for record in trainer.history_]
    assert (np.diff(primal) < 0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_losses_in_pieces_give_the_same_temperature(n_classes, monkeypatch):
    X, y = make_classification(
        300, n_informative=4, n_classes=n_classes, flip_y=0.3, random_state=0
    )
    whole = StructBoostClassifier(max_iter=30).fit(X, y)
    monkeypatch.setattr(stage_wise_likelihood, "_EXAMPLES_AT_ONCE", 7)
    pieces = StructBoostClassifier(max_iter=30).fit(X, y)
    assert whole.temperature_ != 1.0
    assert pieces.temperature_ == whole.temperature_
    assert pieces.history_[-1]["held_out_loss"] == whole.history_[-1]["held_out_loss"]
