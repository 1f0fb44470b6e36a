"""Sets of labels that are closed upwards, against all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import HierarchicalMultiLabelTask, StructuredSVM
from structboost import check_task as check
from structboost.contract import StackedParts
from structboost.errors import SampledOutputsWarning, TaskError


def random_hierarchy(rng, n_labels, tree):
    """Edges of a tree (or several), or of any graph without circles, labels in any order."""
    if tree:
        edges = [(int(rng.integers(v)), v) for v in range(1, n_labels) if rng.random() < 0.8]
    else:
        edges = [(u, v) for v in range(n_labels) for u in range(v) if rng.random() < 0.4]
    return rng.permutation(n_labels)[np.array(edges, np.int64).reshape(-1, 2)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_searches_of_closed_sets_equal_enumeration(seed, tree, ties):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 7))
    edges = random_hierarchy(rng, n_labels, tree)
    task = HierarchicalMultiLabelTask(n_labels, edges)
    outputs = np.array(list(task.outputs(None)))
    above = [set(edges[edges[:, 1] == v, 0].tolist()) for v in range(n_labels)]
    for z in np.array(np.meshgrid(*[[0, 1]] * n_labels)).reshape(n_labels, -1).T:
        closed = all(z[u] for v in range(n_labels) if z[v] for u in above[v])
        assert closed == (outputs == z).all(axis=1).any()
        assert closed == task.is_valid(None, z)
    scores = rng.normal(size=(4, n_labels))
    if ties:
        scores = rng.integers(-2, 3, scores.shape).astype(float)
    truth = outputs[rng.integers(0, len(outputs), 4)]
    stack = StackedParts({"x": scores}, {"x": np.arange(5)})
    found = np.array(task.argmax_batch([None] * 4, stack))
    assert all(task.is_valid(None, z) for z in found)
    probabilities = task.marginals_batch([None] * 4, stack)
    weights = np.exp(scores @ outputs.T)
    expected = weights @ outputs / weights.sum(axis=1, keepdims=True)
    assert probabilities.expected["x"] == pytest.approx(expected)
    assert probabilities.log_sums == pytest.approx(np.log(weights.sum(axis=1)))
    assert (found * scores).sum(axis=1) == pytest.approx((scores @ outputs.T).max(axis=1))
    violations = task.separate(None, truth, stack).violations(stack)
    for i, y in enumerate(truth):
        gains = [(z - y) @ scores[i] + task.loss(y, z) for z in outputs]
        assert violations[i] == pytest.approx(max(gains))


def test_weights_of_labels_fall_along_the_hierarchy():
    task = HierarchicalMultiLabelTask(4, [[0, 1], [1, 2], [0, 2]], decay=0.5)
    assert task.label_weights * 2.875 == pytest.approx([1.0, 0.5, 0.375, 1.0])
    assert task.loss([1, 1, 1, 0], [1, 0, 0, 0]) == pytest.approx(0.875 / 2.875)
    assert task.closed(np.array([[0, 0, 1, 0], [0, 0, 0, 1]])).tolist() == [
        [1, 1, 1, 0],
        [0, 0, 0, 1],
    ]
    scores = task.closed(np.array([[0.2, 0.1, 0.3, 0.4], [0.5, 0.4, -1.0, -2.0]]))
    assert scores.tolist() == [[0.3, 0.3, 0.3, 0.4], [0.5, 0.4, -1.0, -2.0]]
    assert HierarchicalMultiLabelTask(3, [[0, 1]], decay=1).loss([0, 0, 0], [1, 0, 1]) == 2 / 3


@pytest.mark.slow
@pytest.mark.parametrize("tree", [False, True])
def test_the_hierarchical_task_passes_check_task(tree):
    rng = np.random.default_rng(2)
    task = HierarchicalMultiLabelTask(5, random_hierarchy(rng, 5, tree))
    Y = list(task.outputs(None))
    check(task, rng.normal(size=(6, 2)), [Y[k] for k in rng.integers(0, len(Y), 6)])


def test_a_linear_model_of_a_hierarchy_is_certified_and_accurate():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(240, 3))
    below = X[:, 0] + X[:, 1] > 0
    Y = np.column_stack((below | (X[:, 2] > 0), X[:, 2] > 0, below, below & (X[:, 0] > 0)))
    task = HierarchicalMultiLabelTask(4, [[0, 1], [0, 2], [2, 3]])
    X = np.column_stack((X, np.ones(240)))
    svm = StructuredSVM(task, C=100, tol=0.02, random_state=0).fit(X[:120], Y[:120].astype(int))
    assert svm.history_[-1]["certified"]
    assert svm.history_[-1]["gap"] <= 0.02
    assert np.mean(np.array(svm.predict(X[120:])) == Y[120:]) > 0.9


@pytest.mark.parametrize(
    ("edges", "decay", "message"),
    [
        ([[0, 3]], 1.0, r"edges\[0, 1\] is 3; give whole numbers from 0 to 2"),
        ([[0, 0.5]], 1.0, "edges has type float64; give whole numbers"),
        ([[0, 0, 1], [1, 2, 2]], 1.0, r"shape \(2, 3\); give \(n_edges, 2\)"),
        ([(0,)], 1.0, r"shape \(1, 1\)"),
        ([[0, 1], [1, 2], [2, 1]], 1.0, "cycle at label 1"),
        ([[0, 1]], 0.0, "decay is 0"),
    ],
)
def test_wrong_hierarchies_are_named(edges, decay, message):
    with pytest.raises(TaskError, match=message):
        HierarchicalMultiLabelTask(3, edges, decay=decay)


@pytest.mark.slow
def test_probabilities_of_large_graphs_are_refused():
    task = HierarchicalMultiLabelTask(13, [[0, 2], [1, 2]])
    with pytest.raises(TaskError, match=r"Label 2 has several parents.*objective='hinge'"):
        task.marginals(None, np.zeros((1, 13)))
    rng = np.random.default_rng(0)
    with pytest.warns(SampledOutputsWarning):
        check(task, rng.normal(size=(3, 2)), task.closed(rng.integers(0, 2, (3, 13))))
    rare = HierarchicalMultiLabelTask(500, [[0, 499]]).marginals(None, np.full((1, 500), -800.0))
    assert np.all(rare == 0)


def test_sets_that_are_not_closed_are_named():
    task = HierarchicalMultiLabelTask(3, [[0, 1]])
    scores = StackedParts({"x": np.zeros((2, 3))}, {"x": np.arange(3)})
    with pytest.raises(TaskError, match=r"Y\[1\]: A set has label 1 without 0"):
        task.separate(None, [[1, 1, 0], [0, 1, 0]], scores)
