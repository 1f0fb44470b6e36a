"""Orders of the nodes of acyclic graphs."""

from __future__ import annotations

import numpy as np

from structboost._typing import IntArray
from structboost.runtime.compiled import compiled


def topological_order(edges: IntArray, n_nodes: int) -> IntArray:
    """Sort nodes so that every edge, a pair (from, to), goes forwards.

    Nodes on cycles, and those behind them, are left out.
    """
    leaving = np.argsort(edges[:, 0], kind="stable")
    starts = np.searchsorted(edges[leaving, 0], np.arange(n_nodes + 1))
    waiting = np.bincount(edges[:, 1], minlength=n_nodes)
    order = np.empty(n_nodes, np.int64)
    n_sorted = _sort(np.ascontiguousarray(edges[leaving, 1]), starts, waiting, order)
    return order[:n_sorted]


@compiled
def _sort(heads: IntArray, starts: IntArray, waiting: IntArray, order: IntArray) -> int:
    """Take a node when all edges into it have been taken, and return the number of nodes taken."""
    end = 0
    for v in range(len(order)):
        if waiting[v] == 0:
            order[end] = v
            end += 1
    i = 0
    while i < end:
        for e in range(starts[order[i]], starts[order[i] + 1]):
            waiting[heads[e]] -= 1
            if waiting[heads[e]] == 0:
                order[end] = heads[e]
                end += 1
        i += 1
    return end
