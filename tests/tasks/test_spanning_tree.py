"""Spanning trees against all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import SpanningTreeTask, StructBoost, Task
from structboost import check_task as check
from structboost.contract import StackedParts
from structboost.errors import TaskError
from structboost.tasks import CandidatePairs


def random_input(rng, n):
    """All arcs, or some of them, among which there is a tree."""
    if rng.random() < 0.4:
        return rng.normal(size=(n, n, 2))
    kept = rng.random((n, n)) < 0.5
    kept[[rng.integers(d) for d in range(1, n)], np.arange(1, n)] = True
    arcs = rng.permutation(np.argwhere(kept))
    return CandidatePairs(n, n, arcs, rng.normal(size=(len(arcs), 2)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.booleans())
def test_searches_of_trees_equal_enumeration(seed, ties):
    rng = np.random.default_rng(seed)
    task = SpanningTreeTask()
    X = [random_input(rng, int(n)) for n in rng.integers(1, 6, size=3)]
    rows = [rng.normal(size=(len(task.parts(x)), 1)) for x in X]
    if ties:
        rows = [own.round() for own in rows]
    stack = StackedParts({"arc": np.concatenate(rows)}, {"arc": np.cumsum([0, *map(len, rows)])})
    listed = [list(task.outputs(x)) for x in X]
    truth = [outputs[rng.integers(len(outputs))] for outputs in listed]
    violations = task.separate(X, truth, stack).violations(stack)
    found = task.argmax_batch(X, stack)
    for i, (x, own) in enumerate(zip(X, rows, strict=True)):

        def value(y, x=x, own=own):
            return float(own[task.joint_feature(x, y).parts, 0].sum())

        assert task.is_valid(x, found[i])
        assert value(found[i]) == pytest.approx(max(map(value, listed[i])))
        assert value(task.argmax(x, own)) == pytest.approx(value(found[i]))
        gains = [value(y) + task.loss(truth[i], y) for y in listed[i]]
        assert violations[i] == pytest.approx(max(gains) - value(truth[i]))
        n = len(truth[i])
        if not isinstance(x, CandidatePairs):
            assert len(listed[i]) == (n ** (n - 2) if n > 1 else 1)  # Cayley


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_marginals_of_trees_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    task = SpanningTreeTask()
    X = [random_input(rng, int(n)) for n in rng.integers(1, 6, size=2)]
    rows = [4 * rng.normal(size=(len(task.parts(x)), 1)) for x in X]
    stack = StackedParts({"arc": np.concatenate(rows)}, {"arc": np.cumsum([0, *map(len, rows)])})
    found = task.marginals_batch(X, stack)
    for i, (x, own) in enumerate(zip(X, rows, strict=True)):
        listed = Task.marginals(task, x, own)
        of_graph = found.expected["arc"][slice(*stack.offsets["arc"][i : i + 2])]
        assert of_graph == pytest.approx(listed, abs=1e-12)
        assert task.marginals(x, own) == pytest.approx(listed, abs=1e-12)
        assert found.log_sums[i] == pytest.approx(Task.log_sum(task, x, own))
        assert task.log_sum(x, own) == pytest.approx(found.log_sums[i])


def test_marginals_of_trees_keep_their_digits_where_cycles_score_high():
    task, x = SpanningTreeTask(), np.zeros((4, 4, 1))
    scores = np.zeros((4, 4))
    scores[1, 2] = scores[2, 1] = scores[2, 3] = scores[3, 2] = 60.0
    found = task.marginals(x, scores.reshape(-1, 1))
    listed = Task.marginals(task, x, scores.reshape(-1, 1))
    assert found == pytest.approx(listed, abs=1e-12)
    n = 30
    many = task.marginals(np.zeros((n, n, 1)), 50 * np.random.default_rng(0).normal(size=(n**2, 1)))
    assert many.reshape(n, n).sum(axis=0)[1:] == pytest.approx(1.0)
    assert many.reshape(n, n).sum(axis=0)[0] == 0.0


def test_large_trees_score_as_those_of_networkx():
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(0)
    task = SpanningTreeTask()
    for n in (20, 40):
        # Near pairs of nodes attract each other: circles within circles.
        near = np.exp(-np.abs(np.subtract.outer(np.arange(n), rng.permutation(n))))
        scores = 2 * near + 0.5 * rng.random((n, n))
        graph = networkx.DiGraph()
        pairs = [(h, d) for h in range(n) for d in range(1, n) if h != d]
        graph.add_weighted_edges_from((h, d, scores[h, d]) for h, d in pairs)
        best = networkx.maximum_spanning_arborescence(graph)
        heads = task.argmax(np.zeros((n, n, 1)), scores.reshape(-1, 1))
        assert scores[heads[1:], np.arange(1, n)].sum() == pytest.approx(best.size("weight"))


def test_the_tree_task_passes_check_task():
    rng = np.random.default_rng(1)
    task = SpanningTreeTask()
    X = [random_input(rng, 4) for _ in range(6)]
    Y = [list(task.outputs(x)) for x in X]
    check(task, X, [outputs[rng.integers(len(outputs))] for outputs in Y])


def test_a_boosted_model_learns_heads():
    rng = np.random.default_rng(2)
    task = SpanningTreeTask()
    X = [rng.normal(size=(6, 6, 2)) for _ in range(60)]
    Y = [task.argmax(x, (x[:, :, 0] + 0.5 * x[:, :, 1]).reshape(-1, 1)) for x in X]
    model = StructBoost(task, C=100, tol=0.1, max_rounds=15, weak_learner="linear")
    model.fit(X[:40], Y[:40])
    assert model.history_[-1]["certified"]
    assert np.mean(np.concatenate(model.predict(X[40:])) == np.concatenate(Y[40:])) > 0.9


def test_arcs_are_labelled_and_take_other_features():
    task, rng = SpanningTreeTask(), np.random.default_rng(3)
    for x in (random_input(rng, 4), rng.normal(size=(4, 4, 2))):
        y = next(iter(task.outputs(x)))
        labels = task.part_labels(x, y)
        assert labels.sum() == 3
        assert np.array_equal(task.argmax(x, labels[:, None] * 1.0), y)
        other = rng.normal(size=(len(labels), 5))
        assert np.array_equal(task.parts(task.with_features(x, other)), other)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1, 0], "has 2 heads for 3"),
        ([0, 0, 0], "give -1 for node 0"),
        ([-1, 0, 3], "then 0 to 2"),
        ([-1, 2, 1], "from node 1 to node 0"),
        ([-1, 0.5, 0], "give an array of whole numbers, a head for each node"),
        ([-1, 2, 0], r"the pair \(2, 1\), which is no candidate"),
    ],
)
def test_an_output_that_is_no_tree_is_named(y, message):
    task = SpanningTreeTask()
    x = CandidatePairs(3, 3, np.array([[0, 1], [0, 2]]), np.zeros((2, 1)))
    assert not task.is_valid(x, y)
    with pytest.raises(TaskError, match=message):
        task.joint_feature(x, y)


def test_wrong_inputs_of_trees_are_named():
    task = SpanningTreeTask()
    with pytest.raises(TaskError, match=r"shape \(2, 3, 1\)"):
        task.parts(np.zeros((2, 3, 1)))
    x = CandidatePairs(3, 3, np.array([[0, 1], [1, 0]]), np.zeros((2, 1)))
    with pytest.raises(TaskError, match="node 0 does not reach"):
        task.argmax(x, np.zeros((2, 1)))
    with pytest.raises(TaskError, match="One tree has 2"):
        task.loss([-1, 0], [-1])


def test_trees_of_few_candidates_are_listed_at_once():
    n = 30
    arcs = [(d - 1, d) for d in range(1, n)] + [(0, n - 1)]
    x = CandidatePairs(n, n, np.array(arcs), np.zeros((n, 1)))
    assert sorted(y[-1] for y in SpanningTreeTask().outputs(x)) == [0, n - 2]
