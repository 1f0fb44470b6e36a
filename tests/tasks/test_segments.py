"""Segments: the search against all cuts, the contract, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import SegmentTask, StructBoost, StructuredSVM, check_task
from structboost.contract import StackedParts
from structboost.errors import TaskError


def random_sequences(rng):
    """A task, inputs without features, random scores, and true cuts."""
    n_labels, max_length = (int(k) for k in rng.integers(1, 4, size=2))
    pairs = [(a, b) for a in range(n_labels) for b in range(n_labels)]
    task = SegmentTask(
        n_labels,
        max_length,
        loss=str(rng.choice(["tokens", "segments"])),
        span_features=bool(rng.random() < 0.5),
        forbidden=[pair for pair in pairs if n_labels > 1 and rng.random() < 0.15],
    )
    X = [np.zeros((n, 1)) for n in rng.integers(0, 5, size=rng.integers(1, 4))]
    if task.span_features:
        X = [(x, np.zeros((len(x), max_length, 1))) for x in X]
    X = [x for x in X if any(True for _ in task.outputs(x))]
    Y = [list(task.outputs(x)) for x in X]
    return task, X, [outputs[rng.integers(len(outputs))] for outputs in Y]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_searches_of_segments_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    task, X, Y = random_sequences(rng)
    if not X:
        return
    stack = task.stack(X)
    # In eighths: sums are exact, and ties occur.
    rows = {
        kind: (8 * rng.normal(size=(len(of_kind), task.kinds[kind].n_channels))).round() / 8
        for kind, of_kind in stack.rows.items()
    }
    scores = StackedParts(rows, stack.offsets)
    best = task.argmax_batch(X, scores)
    augmented = task.argmax_batch(X, scores, Y)
    violations = task.separate(X, Y, scores).violations(scores)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        own = scores.example(i)

        def value(z, x=x, own=own):
            entries = task.joint_feature(x, z).items()
            return sum(
                (own[kind][parts, channels] * ones).sum()
                for kind, (parts, channels, ones) in entries
            )

        outputs = list(task.outputs(x))
        assert task.is_valid(x, best[i])
        assert value(best[i]) == max(map(value, outputs))
        largest = max(value(z) + task.loss(y, z) for z in outputs)
        assert value(augmented[i]) + task.loss(y, augmented[i]) == largest
        assert violations[i] == largest - value(y)
        assert np.array_equal(task.argmax(x, own, y), augmented[i])


def spoken(rng, n_sequences):
    """Segments of one label; features tell the label with noise, and the first token."""
    X, Y = [], []
    for _ in range(n_sequences):
        lengths = rng.integers(1, 5, size=rng.integers(2, 5))
        ends = np.cumsum(lengths)
        label = rng.integers(3, size=len(lengths))
        noise = rng.normal(size=(ends[-1], 4))
        noise[np.arange(ends[-1]), np.repeat(label, lengths)] += 1.5
        noise[ends - lengths, 3] += 2.0
        X.append(noise)
        Y.append(np.column_stack((ends - lengths, ends, label)))
    return X, Y


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["tokens", "segments"])
def test_the_segment_task_passes_check_task_and_learns(loss):
    rng = np.random.default_rng(0)
    task = SegmentTask(3, 4, loss=loss)
    X, Y = spoken(rng, 30)
    check_task(task, [x[:3] for x in X[:2]], [np.array([[0, 2, 1], [2, 3, 0]])] * 2)
    test_X, test_Y = spoken(rng, 30)

    def mean_loss(outputs):
        return np.mean([task.loss(y, z) for y, z in zip(test_Y, outputs, strict=True)])

    model = StructBoost(task, C=30, max_rounds=6, tol=0.1).fit(X, Y)
    linear = StructuredSVM(task, C=30, tol=0.1).fit(X, Y)
    nothing = mean_loss([np.array([[i, i + 1, 0] for i in range(len(x))]) for x in test_X])
    assert max(mean_loss(model.predict(test_X)), mean_loss(linear.predict(test_X))) < 0.6 * nothing


def test_wrong_cuts_and_parameters_of_segments_are_named():
    task = SegmentTask(2, 3, forbidden=[(1, 1)])
    x = np.zeros((4, 1))
    for y, message in [
        ([[0, 4, 0]], "max_length=3"),
        ([[0, 2, 0], [3, 4, 0]], "leave out tokens or overlap"),
        ([[0, 2, 0], [2, 4, 2]], "labels from 0 to 2"),
        ([[0, 2], [2, 4]], "rows"),
        ([[0, 2, 1], [2, 4, 1]], "forbidden"),
    ]:
        assert not task.is_valid(x, y)
        with pytest.raises(TaskError, match=message):
            task.joint_feature(x, y)
    with pytest.raises(TaskError, match=r"Y\[0\].*end at 3; the sequence has 4 tokens"):
        StructBoost(task, C=1).fit([x], [[[0, 3, 0]]])
    with pytest.raises(TaskError, match=r"X\[0\] is allowed"):
        SegmentTask(1, 1, forbidden=[(0, 0)]).argmax(
            x, {k: np.zeros((n, 1)) for k, n in dict(token=4, begin=4, span=1, pair=1).items()}
        )
    with pytest.raises(TaskError, match=r"features of segments of shape \(4, 2, 1\)"):
        SegmentTask(2, 3, span_features=True).parts((x, np.zeros((4, 2, 1))))
    for given_, message in [
        (dict(n_labels=0), "n_labels is 0"),
        (dict(max_length=1.5), "max_length is 1.5"),
        (dict(loss="f1"), "loss is 'f1'"),
        (dict(forbidden=[(0, 2)]), "forbidden has"),
    ]:
        with pytest.raises(TaskError, match=message):
            SegmentTask(**{"n_labels": 2, "max_length": 3, **given_})
