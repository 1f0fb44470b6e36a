"""Matchings against all of them."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import MatchingTask, StructBoost
from structboost import check_task as check
from structboost.contract import StackedParts
from structboost.errors import TaskError
from structboost.tasks import CandidatePairs


def random_input(rng, task):
    n_left, n_right = (int(n) for n in rng.integers(1, 4, size=2))
    if not task.unmatched or rng.random() < 0.3:
        return rng.normal(size=(n_left, n_right, 2))
    cells = rng.permutation(n_left * n_right)[: rng.integers(0, n_left * n_right + 1)]
    pairs = np.column_stack((cells // n_right, cells % n_right))
    return CandidatePairs(n_left, n_right, pairs, rng.normal(size=(len(cells), 2)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.booleans())
def test_searches_of_matchings_equal_enumeration(seed, unmatched):
    rng = np.random.default_rng(seed)
    task = MatchingTask(unmatched=unmatched)
    x = random_input(rng, task)
    scores = (4 * rng.normal(size=(len(task.parts(x)), 1))).round() / 4
    outputs = list(task.outputs(x))
    truth = outputs[rng.integers(len(outputs))]
    stack = StackedParts({"pair": scores}, {"pair": np.array([0, len(scores)])})

    def value(y):
        return float(scores[task.joint_feature(x, y).parts, 0].sum())

    found = task.argmax(x, scores)
    assert task.is_valid(x, found)
    assert value(found) == max(map(value, outputs))
    violated = max(value(y) + task.loss(truth, y) for y in outputs) - value(truth)
    assert task.separate([x], [truth], stack).violations(stack)[0] == pytest.approx(violated)
    for y in outputs:
        wrong = set(enumerate(y)) ^ set(enumerate(truth))
        assert task.loss(truth, y) == sum(partner >= 0 for _, partner in wrong) / 2


@pytest.mark.slow
@pytest.mark.parametrize("unmatched", [False, True])
def test_the_matching_task_passes_check_task(unmatched):
    rng = np.random.default_rng(0)
    task = MatchingTask(unmatched=unmatched)
    X = [random_input(rng, task) for _ in range(6)]
    Y = [list(task.outputs(x)) for x in X]
    check(task, X, [outputs[rng.integers(len(outputs))] for outputs in Y])


def points(rng, n, unmatched):
    """Two sets of points, the second shifted; with ``unmatched`` some are missing on each side."""
    left = rng.uniform(size=(n, 2))
    right = left + 0.03 * rng.normal(size=(n, 2))
    order = rng.permutation(n)
    partners = np.argsort(order)
    right = right[order]
    if unmatched:
        gone = partners[:2]
        partners = partners.copy()
        partners[:2] = -1
        right[gone] = rng.uniform(size=(2, 2)) + 2.0
    return np.abs(left[:, None] - right[None]), partners


@pytest.mark.slow
@pytest.mark.parametrize("unmatched", [False, True])
def test_a_boosted_model_matches_points(unmatched):
    rng = np.random.default_rng(1)
    X, Y = zip(*[points(rng, 6, unmatched) for _ in range(40)], strict=True)
    model = StructBoost(MatchingTask(unmatched=unmatched), C=100, tol=0.1, max_rounds=12)
    model.fit(X[:20], Y[:20])
    share = np.mean(np.concatenate(model.predict(X[20:])) == np.concatenate(Y[20:]))
    assert share > 0.9
    if unmatched:
        assert -1 in np.concatenate(model.predict(X[20:]))
        sparse = []
        for x in X:
            pairs = np.argwhere(x.max(axis=2) < 0.3)
            sparse.append(CandidatePairs(6, 6, pairs, x[pairs[:, 0], pairs[:, 1]]))
        Y = [
            np.where([(i, j) in set(map(tuple, x.pairs)) for i, j in enumerate(y)], y, -1)
            for x, y in zip(sparse, Y, strict=True)
        ]
        model.fit(sparse[:20], Y[:20])
        assert np.mean(np.concatenate(model.predict(sparse[20:])) == np.concatenate(Y[20:])) > 0.9


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 0], "gives 0 to two left members"),
        ([0], "has 1 entries for 2"),
        ([0, 3], r"partners are 0\.\.2, or -1"),
        ([-1, 1], "unmatched=True"),
        ([0.5, 1], "whole numbers"),
    ],
)
def test_an_output_that_is_no_matching_is_named(y, message):
    task, x = MatchingTask(), np.zeros((2, 3, 1))
    assert not task.is_valid(x, y)
    with pytest.raises(TaskError, match=message):
        task.joint_feature(x, y)


def test_wrong_inputs_of_matchings_are_named():
    pairs = np.array([[0, 1]])
    x = CandidatePairs(2, 2, pairs, np.zeros((1, 1)))
    with pytest.raises(TaskError, match=r"the pair \(0, 0\), which is no candidate"):
        MatchingTask(unmatched=True).joint_feature(x, [0, -1])
    with pytest.raises(TaskError, match="unmatched=True"):
        MatchingTask().parts(x)
    with pytest.raises(TaskError, match=r"shape \(2, 3\)"):
        MatchingTask().parts(np.zeros((2, 3)))
    with pytest.raises(TaskError, match="One matching has 2"):
        MatchingTask().loss([0, 1], [0])
    for arguments, message in [
        ((2, 2, pairs, np.zeros((2, 1))), "for 1 pairs"),
        ((2, 1, pairs, np.zeros((1, 1))), r"pairs\[0\] is \[0, 1\]"),
        ((2, 2, np.repeat(pairs, 2, axis=0), np.zeros((2, 1))), "a pair twice"),
        ((2, 2, np.array([[0.6, 1.2]]), np.zeros((1, 1))), "type float64; give whole numbers"),
        # What np.nonzero returns is not turned around in silence.
        ((3, 3, np.array([[0, 1, 2], [1, 2, 0]]), np.zeros((3, 1))), r"shape \(2, 3\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            CandidatePairs(*arguments)


@pytest.mark.parametrize("unmatched", [False, True])
@pytest.mark.parametrize("shape", [(0, 2), (1, 0), (3, 3), (2, 4), (4, 2)])
def test_all_matchings_are_listed_in_order(unmatched, shape):
    task, x = MatchingTask(unmatched=unmatched), np.zeros((*shape, 1))
    everything = product(range(-1, shape[1]), repeat=shape[0])
    wanted = [y for y in everything if task.is_valid(x, np.array(y, np.int64))]
    assert [tuple(y.tolist()) for y in task.outputs(x)] == wanted


def test_the_first_matchings_of_large_sets_come_at_once():
    listed = list(islice(MatchingTask().outputs(np.zeros((40, 40, 1))), 3))
    assert listed[0].tolist() == list(range(40))
    assert listed[2][-3:].tolist() == [38, 37, 39]
