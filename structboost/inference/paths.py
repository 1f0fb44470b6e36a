"""Paths and orders in directed graphs, for many vectors of costs of either sign at once."""

from __future__ import annotations

from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


def cheapest_paths(
    costs: FloatArray, tails: IntArray, heads: IntArray, order: IntArray, ends: tuple[int, int]
) -> FloatArray:
    """Find the cheapest path between two nodes of a directed acyclic graph, for each row of costs.

    Exact, in ``O(n_arcs)``, for costs of either sign.  Of equally cheap ways into a node it is the
    first in ``order``, where every arc into a node stands before all arcs out of it.  ``ends`` are
    the first and the last node.
    """
    used = np.zeros(costs.shape)
    if not _cheapest_paths(np.ascontiguousarray(costs), tails, heads, order, *ends, used):
        raise ValueError(f"arcs have no path from source {ends[0]} to target {ends[1]}; add arcs.")
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
) -> bool:
    """Mark the arcs of each path, and return whether there is one."""
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
        if lengths[target] == np.inf:
            return False
        node = target
        while node != source:
            used[i, into[node]] = 1.0
            node = tails[into[node]]
    return True


def topological_order(edges: IntArray, n_nodes: int) -> IntArray:
    """Sort nodes so that every edge, a pair (from, to), goes forwards.

    Nodes on cycles, and those behind them, are left out.
    """
    sorter = TopologicalSorter({node: () for node in range(n_nodes)})
    for tail, head in edges.tolist():
        sorter.add(head, tail)
    with suppress(CycleError):
        sorter.prepare()
    order: list[int] = []
    while nodes := sorter.get_ready():
        order += nodes
        sorter.done(*nodes)
    return np.array(order, np.int64)


def path_of_fewest_arcs(
    arcs: IntArray, source: int, target: int, used: FloatArray
) -> FloatArray | None:
    """Return a path of the fewest arcs among those in use, or None if there is none.

    ``used`` is nonzero on the arcs that may be taken, and the path is 1 on its arcs.
    """
    rows = np.flatnonzero(used)
    arc_at = dict(zip(map(tuple, arcs[rows].tolist()), rows, strict=True))
    n_nodes = max(int(arcs.max()), source, target) + 1
    graph = csr_array((np.ones(len(rows)), tuple(arcs[rows].T)), (n_nodes, n_nodes))
    reached, before = breadth_first_order(graph, source)
    if target not in reached:
        return None
    path, node = np.zeros(len(arcs)), target
    while node != source:
        path[arc_at[int(before[node]), node]] = 1.0
        node = int(before[node])
    return path
