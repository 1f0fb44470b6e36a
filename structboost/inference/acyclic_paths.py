"""Cheapest paths in acyclic graphs, for many vectors of costs of either sign at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import node_pairs, rows, whole_array
from structboost.inference.topological_order import topological_order
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
    used = np.zeros(table.shape)
    if not _cheapest_paths(table, tails, heads, order, int(ends[0]), int(ends[1]), used):
        raise ValueError(f"arcs have no path from source {ends[0]} to target {ends[1]}; add arcs.")
    return used.reshape(shape)


def cheapest_paths(
    costs: FloatArray, tails: IntArray, heads: IntArray, order: IntArray, ends: tuple[int, int]
) -> FloatArray:
    """Find the cheapest path for each row of costs, as :func:`dag_shortest_path` does.

    In ``order`` every arc into a node stands before all arcs out of it.  ``ends`` are the first and
    the last node, which can be reached.
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
