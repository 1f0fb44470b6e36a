"""Message passing on graphs: it ends where the bound creeps, and not before."""

from __future__ import annotations

import numpy as np
import pytest

from structboost.inference import graph as graphs
from structboost.inference.graph import best_labels, one_graph

SIDE, N_LABELS = 4, 3


def frustrated(seed):
    """A grid of random scores, with pairs of random scores of either sign."""
    rng = np.random.default_rng(seed)
    place = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    across = np.column_stack((place[:, :-1].ravel(), place[:, 1:].ravel()))
    edges = np.vstack((across, np.column_stack((place[:-1].ravel(), place[1:].ravel()))))
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
