"""Paths and orders in directed graphs, for many vectors of costs of either sign at once."""

from __future__ import annotations

from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import node_pairs, rows, whole_array
from structboost.runtime.compiled import compiled


def dag_shortest_path(costs: ArrayLike, arcs: ArrayLike, source: int, target: int) -> FloatArray:
    """Find the cheapest path between two nodes of a directed acyclic graph.

    Parameters
    ----------
    costs : array-like, shape (n_arcs,) or (n_problems, n_arcs)
        Cost of each arc, of either sign; a row for each problem.
    arcs : array-like of int, shape (n_arcs, 2)
        Tail and head of each arc: nodes, counted from 0.
    source, target : int
        First and last node.

    Returns
    -------
    used : ndarray, of the shape of ``costs``
        1 on the arcs of the path.  Of equally cheap ways into a node, the path takes the one whose
        tail comes first in topological order.

    Raises
    ------
    ValueError
        If the arcs form a cycle, or no path leads from ``source`` to ``target``.

    Notes
    -----
    Exact, in ``O(n_arcs)`` for each problem, by dynamic programming.  Cormen and others,
    Introduction to algorithms, section on single-source shortest paths in directed acyclic graphs.

    Examples
    --------
    >>> from structboost.inference import dag_shortest_path
    >>> arcs = [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
    >>> dag_shortest_path([1.0, 3.0, -1.0, 4.0, 2.0], arcs, 0, 3).tolist()
    [1.0, 0.0, 1.0, 0.0, 1.0]
    """
    pairs = node_pairs(arcs, "arcs")
    if not len(pairs):
        raise ValueError("arcs has no rows; give (n_arcs, 2), at least one.")
    table, shape = rows(costs, "costs", len(pairs))
    n_nodes = int(pairs.max()) + 1
    nodes = topological_order(pairs, n_nodes)
    if len(nodes) < n_nodes:
        raise ValueError("arcs form a cycle; take one away.")
    ends = whole_array([source, target], "[source, target]", (2,), n_nodes)
    places = np.argsort(nodes)
    order = np.argsort(places[pairs[:, 0]], kind="stable")
    tails, heads = np.ascontiguousarray(pairs.T)
    return cheapest_paths(table, tails, heads, order, (int(ends[0]), int(ends[1]))).reshape(shape)


def cheapest_paths(
    costs: FloatArray, tails: IntArray, heads: IntArray, order: IntArray, ends: tuple[int, int]
) -> FloatArray:
    """Find the cheapest path for each row of costs, as :func:`dag_shortest_path` does.

    In ``order`` every arc into a node stands before all arcs out of it.  ``ends`` are the first and
    the last node.
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
