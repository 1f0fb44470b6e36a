"""Message passing on graphs: it ends where the bound creeps, and not before."""

from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng

from structboost.inference import graph as graphs
from structboost.inference.graph import best_labels, map_labels, one_graph
from tests.helpers.task_problems import grid_edges

SIDE, N_LABELS = 4, 3


def frustrated(seed):
    """A grid of random scores, with pairs of random scores of either sign."""
    rng = default_rng(seed)
    edges = grid_edges(SIDE)
    nodes = rng.normal(size=(SIDE * SIDE, N_LABELS))
    return one_graph(nodes, edges, rng.normal(size=(len(edges), N_LABELS, N_LABELS)))


def sweeps_and_bound(scores, monkeypatch):
    """How often messages go forth and back over all nodes, the bound, and the score."""
    n_chosen = 0
    chosen, passed = graphs._chosen, graphs._pass_messages
    found = {}

    def counted(*arguments):
        nonlocal n_chosen
        n_chosen += 1
        return chosen(*arguments)

    def in_python(*arguments):
        passed.py_func(*arguments)
        found["bound"] = arguments[-1][0]

    with monkeypatch.context() as patched:
        patched.setattr(graphs, "_chosen", counted)
        patched.setattr(graphs, "_pass_messages", in_python)
        labels, _ = best_labels(scores)
    n_sweeps, left = divmod(n_chosen, len(scores.unary))
    assert not left
    return n_sweeps, found["bound"], scores.values(labels)[0]


@pytest.mark.slow
def test_message_passing_ends_where_the_bound_creeps(monkeypatch):
    scores = frustrated(0)
    n_sweeps, bound, value = sweeps_and_bound(scores, monkeypatch)
    assert graphs._PATIENCE < n_sweeps < 30
    assert bound - value > 0.1
    monkeypatch.setattr(graphs, "_PATIENCE", graphs._SWEEPS + 1)
    n_all, best_bound, _ = sweeps_and_bound(scores, monkeypatch)
    assert n_all == graphs._SWEEPS
    # What ten times as many sweeps would have proved in addition.
    assert 0 <= bound - best_bound < 0.01 * (bound - value)


def test_message_passing_goes_on_while_the_bound_falls(monkeypatch):
    n_sweeps, bound, value = sweeps_and_bound(frustrated(4), monkeypatch)
    assert 5 < n_sweeps < 15
    assert bound == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_two_labels_that_favour_equal_ones_are_the_best_on_graphs_with_cycles(seed):
    rng = default_rng(seed)
    n = int(rng.integers(3, 8))
    edges = np.array([(p, q) if rng.random() < 0.5 else (q, p) for p in range(n) for q in range(p)])
    unary, tables = rng.normal(size=(n, 2)), rng.normal(size=(len(edges), 2, 2))
    tables[:, 0, 0] += np.maximum(0, tables[:, 0, 1] + tables[:, 1, 0] - np.trace(tables.T))
    labels, bound = map_labels(unary, edges, tables)
    every = np.array(list(product([0, 1], repeat=n)))
    of_edges = tables[np.arange(len(edges)), *every[:, edges].transpose(2, 0, 1)]
    values = unary[np.arange(n), every].sum(axis=1) + of_edges.sum(axis=1)
    assert bound == pytest.approx(values.max())
    assert values[(every == labels).all(axis=1)][0] == pytest.approx(values.max())
