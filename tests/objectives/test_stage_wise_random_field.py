"""Newton steps of likelihoods by enumeration of all outputs; random fields and their face."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score, zero_one_loss

from structboost import (
    BinaryTask,
    ChainTask,
    MulticlassTask,
    MultiLabelTask,
    StructBoostMultiLabelClassifier,
)
from structboost.learners.terms import Terms
from structboost.objectives import StageWiseLikelihood, StageWiseRandomField
from structboost.objectives.base import Problem
from tests.helpers.dense_features import dense_features

ROWS = 6


def chains(rng):
    lengths = rng.integers(1, 4, size=ROWS)
    X = [rng.normal(size=(n, 2)) for n in lengths]
    return ChainTask(2), X, [rng.integers(2, size=len(x)) for x in X]


def sets(rng):
    return MultiLabelTask(3, pairs=True), *labels(rng)[1:]


def labels(rng):
    return MultiLabelTask(3), rng.normal(size=(ROWS, 2)), rng.integers(2, size=(ROWS, 3))


def classes(rng):
    task = MulticlassTask(3)
    task.outputs = lambda x: range(3)
    return task, np.zeros((ROWS, 1)), rng.integers(3, size=ROWS)


def two_classes(rng):
    task = BinaryTask()
    task.outputs = lambda x: (-1, 1)
    return task, np.zeros((ROWS, 1)), rng.choice([-1, 1], size=ROWS)


def losses(task, X, Y, scores, offsets):
    """Minus the logarithms of the probabilities of the true outputs, by enumeration."""

    def score(i, y):
        return sum(
            (scores[kind][offsets[kind][i] : offsets[kind][i + 1]] * feature).sum()
            for kind, feature in dense_features(task, X[i], y).items()
        )

    return np.array(
        [
            logsumexp([score(i, z) for z in task.outputs(X[i])]) - score(i, Y[i])
            for i in range(len(X))
        ]
    )


@pytest.mark.parametrize(
    ("make", "formulation"),
    [
        *((make, StageWiseLikelihood) for make in (classes, two_classes)),
        *(
            pytest.param(make, StageWiseRandomField, marks=pytest.mark.slow)
            for make in (chains, sets, labels)
        ),
    ],
)
@settings(max_examples=10)
@given(st.integers(0, 9999))
def test_steps_are_shrunken_newton_steps_of_the_likelihood(make, formulation, seed):
    rng = np.random.default_rng(seed)
    task, X, Y = make(rng)
    shares = rng.dirichlet(np.ones(ROWS))
    offsets = dict(task.stack(X).offsets)
    problem = Problem(task, X, Y, offsets, shares, np.random.RandomState(0))
    booster = formulation(shrinkage=0.3, largest_step=0.8).start(problem, np.inf)
    # Scores of classes are half the logarithms of odds.
    factor = 2.0 if formulation is StageWiseLikelihood else 1.0
    scores = {k: np.zeros((offsets[k][-1], p.n_channels)) for k, p in task.kinds.items()}
    at, answers = [], []

    def mean_loss(scores):
        scaled = {kind: factor * own for kind, own in scores.items()}
        return shares @ losses(task, X, Y, scaled, offsets)

    for kind, part in task.kinds.items():
        own = rng.integers(-127, 128, (part.n_channels, offsets[kind][-1])).astype(np.int8)
        numbers = np.arange(part.n_channels)
        first = booster.add_responses(kind, own)
        terms = Terms(numbers, first + numbers, numbers, np.ones(len(numbers)))
        booster.add_columns({kind: terms}, len(numbers))
        at += [(kind, channel) for channel in numbers]
        answers += list(own.astype(float))
    for _ in range(2):
        duals, weights = booster.gradient(), booster.weights.copy()
        assert booster.primal == pytest.approx(mean_loss(scores))
        booster.step(np.arange(len(at)))
        new = {kind: own.copy() for kind, own in scores.items()}
        for j, ((kind, channel), answer) in enumerate(zip(at, answers, strict=True)):

            def along(step, kind=kind, channel=channel, answer=answer, scores=scores):
                moved = {k: own.copy() for k, own in scores.items()}
                moved[kind][:, channel] += step * answer
                return mean_loss(moved)

            h = 1e-5
            slope = (along(-h) - along(h)) / (2 * h)
            assert answer @ duals[kind][:, channel] == pytest.approx(slope, rel=1e-4, abs=1e-4)
            change = booster.weights[j] - weights[j]
            if make is not chains:
                # One part for each example: the curvature is exact.
                curvature = (along(h) - 2 * along(0) + along(-h)) / h**2
                step = 0.0
                if slope > 1e-6:
                    step = 0.3 * min(slope / curvature, 0.8 / np.abs(answer).max())
                assert change == pytest.approx(step, rel=1e-3, abs=1e-8)
            new[kind][:, channel] += change * answer
        scores = new


def test_the_variance_of_a_count_is_taken_for_its_mean():
    task, x = ChainTask(2), np.zeros((4, 1))
    offsets = dict(task.stack([x]).offsets)
    problem = Problem(task, [x], [np.zeros(4, int)], offsets, np.ones(1), np.random.RandomState(0))
    formulation = StageWiseRandomField(shrinkage=1.0, largest_step=9.0)
    booster = formulation.start(problem, np.inf)
    one = np.zeros(1, int)
    booster.add_columns(
        {"step": Terms(one, one + booster.add_responses("step", np.ones((1, 1))), one, np.ones(1))},
        1,
    )
    booster.step(one)
    # Tag 0 follows tag 0 three times; three quarters of a time were expected.
    assert booster.weights == pytest.approx([(3 - 0.75) / 0.75])


@pytest.mark.slow
def test_the_default_of_label_sets_serves_the_loss_that_is_named():
    X, Y = make_multilabel_classification(2400, 12, n_classes=5, n_labels=2, random_state=4)
    train, test = slice(0, 400), slice(400, None)
    found = {
        loss: StructBoostMultiLabelClassifier(loss=loss, max_iter=60)
        .fit(X[train], Y[train])
        .predict(X[test])
        for loss in ("hamming", "subset", "f1")
    }
    f1, wrong = (
        {loss: measure(Y[test], sets) for loss, sets in found.items()}
        for measure in (partial(f1_score, average="samples", zero_division=1), zero_one_loss)
    )
    assert f1["f1"] > f1["hamming"]
    assert wrong["subset"] == min(wrong.values())
