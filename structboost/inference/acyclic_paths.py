"""Cheapest paths in acyclic graphs, for many cost vectors at once; costs may be negative."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


def cheapest_paths(
    costs: FloatArray, tails: IntArray, heads: IntArray, order: IntArray, ends: tuple[int, int]
) -> FloatArray:
    """Cheapest path from one node to another for each row of costs.

    Parameters
    ----------
    costs : ndarray, shape (n, n_arcs)
        Cost of each arc, of either sign; a row for each problem.
    tails, heads : ndarray of int64, shape (n_arcs,)
        Nodes that each arc leaves and enters.
    order : ndarray of int64, shape (n_arcs,)
        The arcs in an order in which every arc into a node stands before all arcs out of it.
    ends : (int, int)
        First and last node; the last can be reached.

    Returns
    -------
    used : ndarray, shape (n, n_arcs)
        1 on the arcs of the path.  Among equally cheap ways into a node, the path takes the arc
        that stands first in ``order``.
    """
    used = np.zeros(costs.shape)
    _cheapest_paths(np.ascontiguousarray(costs), tails, heads, order, *ends, used)
    return used


@compiled
def _cheapest_paths(
    costs: FloatArray,
    tails: IntArray,
    heads: IntArray,
    order: IntArray,
    source: int,
    target: int,
    used: FloatArray,
) -> None:
    n_nodes = max(tails.max(), heads.max()) + 1
    lengths = np.empty(n_nodes)
    into = np.empty(n_nodes, np.int64)
    for i in range(len(costs)):
        lengths[:] = np.inf
        lengths[source] = 0.0
        for a in order:
            length = lengths[tails[a]] + costs[i, a]
            if length < lengths[heads[a]]:
                lengths[heads[a]] = length
                into[heads[a]] = a
        node = target
        while node != source:
            used[i, into[node]] = 1.0
            node = tails[into[node]]
