"""Spanning trees against all of them."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import SpanningTreeTask
from structboost.tasks import CandidatePairs


def test_marginals_of_trees_keep_their_digits_where_cycles_score_high():
    task = SpanningTreeTask()
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


def test_trees_of_few_candidates_are_listed_at_once():
    n = 30
    arcs = [(d - 1, d) for d in range(1, n)] + [(0, n - 1)]
    x = CandidatePairs(n, n, np.array(arcs), np.zeros((n, 1)))
    assert sorted(y[-1] for y in SpanningTreeTask().outputs(x)) == [0, n - 2]
