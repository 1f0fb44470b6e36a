"""Spanning trees whose root has one child, and their sums, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from structboost import SpanningTreeTask, StructBoost, check_task
from structboost.errors import TaskError
from structboost.inference import arborescence_marginals, maximum_spanning_arborescence
from structboost.tasks import CandidatePairs


def trees(scores, single_root):
    """All trees of finite score, as heads and score."""
    n = len(scores)
    for heads in itertools.product(range(n), repeat=n - 1):
        above = np.array([0, *heads])
        reached = above.copy()
        for _ in range(n):
            reached = above[reached]
        n_children = sum(head == 0 for head in heads)
        if reached.any() or (single_root and n > 1 and n_children != 1):
            continue
        score = float(sum(scores[head, node] for node, head in enumerate(heads, 1)))
        if score > -np.inf:
            yield (-1, *heads), score


def random_scores(rng):
    n = rng.integers(1, 6)
    scores = rng.normal(size=(n, n)) * rng.choice([0.1, 1, 10, 200])
    if rng.random() < 0.3:
        scores = rng.integers(-2, 3, (n, n)).astype(float)
    scores[rng.random((n, n)) < rng.choice([0, 0.3, 0.6])] = -np.inf
    return scores


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_best_trees_and_marginals_are_those_of_all_trees(seed, single_root):
    rng = np.random.default_rng(seed)
    n_impossible = 0
    for _ in range(80):
        scores = random_scores(rng)
        listed = list(trees(scores, single_root))
        if not listed:
            n_impossible += 1
            for search in (maximum_spanning_arborescence, arborescence_marginals):
                with pytest.raises(ValueError, match="node 0 does not reach"):
                    search(scores, single_root=single_root)
            continue
        outputs, values = [y for y, _ in listed], np.array([value for _, value in listed])
        best = maximum_spanning_arborescence(scores, single_root=single_root).tolist()
        assert tuple(best) in outputs
        score = sum(scores[head, node] for node, head in enumerate(best[1:], 1))
        assert score == pytest.approx(values.max())
        of_arcs, log_sum = arborescence_marginals(scores, single_root=single_root)
        total = values.max() + np.log(np.exp(values - values.max()).sum())
        assert log_sum == pytest.approx(total)
        expected = np.zeros_like(scores)
        for y, value in listed:
            for node, head in enumerate(y[1:], 1):
                expected[head, node] += np.exp(value - total)
        assert of_arcs == pytest.approx(expected, abs=1e-10)
    assert n_impossible


@pytest.mark.slow
def test_a_task_with_a_single_root_passes_check_task_and_trains():
    rng = np.random.default_rng(0)
    task = SpanningTreeTask(single_root=True)
    X = [rng.normal(size=(4, 4, 2)) for _ in range(20)]
    Y = [task.argmax(x, x[:, :, :1].reshape(-1, 1)) for x in X]
    assert all((y == 0).sum() == 1 for y in Y)
    assert len(list(task.outputs(X[0]))) == 9
    check_task(task, X, Y)
    for formulation in ("one_slack", "log"):
        trainer = StructBoost(task, C=20.0, tol=0.2, max_rounds=30, formulation=formulation)
        trainer.fit(X, Y)
        assert trainer.history_[-1]["certified"]
        assert all((y == 0).sum() == 1 for y in trainer.predict(X))


def test_a_tree_of_two_children_is_named():
    task = SpanningTreeTask(single_root=True)
    X = [np.ones((3, 3, 1))] * 3
    with pytest.raises(TaskError, match=r"Y\[2\]: A tree has 2 children of node 0; give one"):
        StructBoost(task, C=1.0).fit(X, [[-1, 0, 1], [-1, 2, 0], [-1, 0, 0]])
    arcs = CandidatePairs(3, 3, np.array([(0, 1), (0, 2)]), np.ones((2, 1)))
    with pytest.raises(TaskError, match="does not reach with a single child; add arcs"):
        task.argmax(arcs, np.ones((2, 1)))
    with pytest.raises(TypeError, match="single_root is 1; give True or False"):
        SpanningTreeTask(single_root=1)
