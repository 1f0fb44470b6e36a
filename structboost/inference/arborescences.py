"""Spanning trees of highest score, directed away from a root (Chu-Liu-Edmonds)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import real_array
from structboost.runtime.compiled import compiled
from structboost.validation import checked_flag


def maximum_spanning_arborescence(scores: ArrayLike, *, single_root: bool = False) -> IntArray:
    """Find the spanning tree of highest score that is directed away from node 0.

    A tree scores the sum of its arcs (Chu-Liu-Edmonds algorithm).

    Parameters
    ----------
    scores : array-like, shape (n_nodes, n_nodes)
        Score of the arc from each head (row) to each dependent (column); minus infinity where there
        is no arc.  Column 0 and the diagonal are never used.
    single_root : bool
        Whether node 0 has exactly one child, as the root of a sentence has.

    Returns
    -------
    heads : ndarray of int64, shape (n_nodes,)
        Head of each node, -1 for node 0.  Of equally good arcs into a node, or into a cycle, the
        one of the first head is taken.

    Raises
    ------
    ValueError
        If node 0 does not reach every node, or does not with a single child.

    Notes
    -----
    Exact, in ``O(n_nodes^3)``, and mostly ``O(n_nodes^2)``, as few cycles are contracted.  With
    ``single_root``, arcs are compared first by how many of them leave node 0, then by score, so the
    best tree has as few children of node 0 as any.  Edmonds, Optimum branchings, Journal of
    Research of the National Bureau of Standards 1967; McDonald and others, Non-projective
    dependency parsing using spanning tree algorithms, EMNLP 2005; Stanojevic and Cohen, A root of a
    problem, EMNLP 2021.

    Examples
    --------
    >>> from structboost.inference import maximum_spanning_arborescence
    >>> maximum_spanning_arborescence([[0, 5, 1], [0, 0, 11], [0, 10, 0]]).tolist()
    [-1, 0, 1]
    """
    values, arcs, firsts = arcs_of(scores)
    is_single = checked_flag(single_root, "single_root")
    chosen = np.empty(firsts[1][-1], np.int64)
    if best_arborescences(values, arcs, *firsts, is_single, chosen) >= 0:
        raise not_reached(is_single)
    return np.append(-1, arcs[chosen[1:], 0])


def arcs_of(scores: ArrayLike) -> tuple[FloatArray, IntArray, tuple[IntArray, IntArray]]:
    """Check a table of scores, and return it as compiled code takes one graph."""
    table = real_array(scores, "scores", ("n_nodes", "n_nodes"), forbids=True)
    n = len(table)
    real_array(table, "scores", (n, n), forbids=True)
    arcs = np.argwhere(table > -np.inf)
    return table[arcs[:, 0], arcs[:, 1]], arcs, (np.array([0, len(arcs)]), np.array([0, n]))


def not_reached(single_root: bool) -> ValueError:
    """Make the error of a graph without a tree."""
    how = " with a single child" if single_root else ""
    return ValueError(f"scores leave nodes that node 0 does not reach{how}; allow more arcs.")


@compiled
def best_arborescences(
    scores: FloatArray,
    arcs: IntArray,
    first_arcs: IntArray,
    first_nodes: IntArray,
    single_root: bool,
    chosen: IntArray,
) -> int:
    """Choose the arc into each node of the best tree of every graph, below its first node.

    Each node takes its best arc; cycles are contracted to nodes, whose arcs then count by what
    they gain over the arc that they displace, until there are no cycles.

    Parameters
    ----------
    scores : ndarray, shape (n_arcs,)
        Score of each arc.
    arcs : ndarray of int64, shape (n_arcs, 2)
        Head and dependent, counted within the graph.
    first_arcs, first_nodes : ndarray of int64, shape (n_graphs + 1,)
        First arc and first node of each graph.
    single_root : bool
        Whether only trees count whose root has a single child.
    chosen : ndarray of int64, shape (n_nodes,)
        Filled with rows of ``arcs``, -1 for roots; of equally good arcs the first.

    Returns
    -------
    impossible : int
        First graph without such a tree, or -1.
    """
    for g in range(len(first_nodes) - 1):
        nodes = chosen[first_nodes[g] : first_nodes[g + 1]]
        ends = first_arcs[g], first_arcs[g + 1]
        if not _best_arborescence(scores, arcs, ends, single_root, nodes):
            return g
    return -1


@compiled
def _best_arborescence(
    scores: FloatArray,
    arcs: IntArray,
    ends: tuple[int, int],
    single_root: bool,
    chosen: IntArray,
) -> bool:
    """Fill in the arcs of the best tree of one graph, and return whether there is one.

    Arcs from the root come last if it is to have a single child: they are compared by ``price``
    before they are by weight.  A tree has the least number of them, and the largest score then.
    """
    first, last = ends
    n = len(chosen)
    # Nodes from n on are contracted cycles.  The best arc into a node is searched once: it changes
    # only when the node becomes a part of another.
    best = np.full(2 * n, -1, np.int64)
    cycle = np.full(2 * n, -1, np.int64)
    walk = np.full(2 * n, -1, np.int64)
    gain = np.empty(2 * n)
    alive, n_alive, n_all = np.arange(2 * n), n, n
    live, n_live = np.empty(last - first, np.int64), 0
    source, target = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
    weight = np.empty(last - first)
    price, least = np.zeros(last - first, np.int64), np.zeros(2 * n, np.int64)
    for a in range(last - first):
        source[a], target[a] = arcs[first + a]
        weight[a] = scores[first + a]
        price[a] = 1 if single_root and source[a] == 0 else 0
        if source[a] != target[a] and target[a] != 0:
            live[n_live] = a
            n_live += 1
    searched = 0
    while True:
        for i in range(n_live):
            a = live[i]
            v = target[a]
            if v < searched:
                continue
            is_cheaper = best[v] < 0 or price[a] < least[v]
            if is_cheaper or (price[a] == least[v] and weight[a] > gain[v]):
                best[v], gain[v], least[v] = a, weight[a], price[a]
        searched = n_all
        for i in range(n_alive):
            if best[alive[i]] < 0 and alive[i] != 0:
                return False
            walk[alive[i]] = -1
        for i in range(n_alive):
            v = alive[i]
            while v != 0 and walk[v] < 0:
                walk[v] = i
                v = source[best[v]]
            if v != 0 and walk[v] == i and cycle[v] < 0:
                while cycle[v] < 0:
                    cycle[v] = n_all
                    v = source[best[v]]
                n_all += 1
        if n_all == searched:
            break
        before, n_live = n_live, 0
        for i in range(before):
            a = live[i]
            if cycle[target[a]] >= 0:
                weight[a] -= gain[target[a]]
                price[a] -= least[target[a]]
                target[a] = cycle[target[a]]
            if cycle[source[a]] >= 0:
                source[a] = cycle[source[a]]
            if source[a] != target[a]:
                live[n_live] = a
                n_live += 1
        before, n_alive = n_alive, 0
        for i in range(before):
            if cycle[alive[i]] < 0:
                alive[n_alive] = alive[i]
                n_alive += 1
        for v in range(searched, n_all):
            alive[n_alive] = v
            n_alive += 1
    # A cycle opens where the arc into it enters.
    for v in range(n_all - 1, n - 1, -1):
        inside = arcs[first + best[v], 1]
        while cycle[inside] != v:
            inside = cycle[inside]
        best[inside] = best[v]
    chosen[0], n_children = -1, 0
    for v in range(1, n):
        chosen[v] = first + best[v]
        n_children += arcs[first + best[v], 0] == 0
    return not single_root or n_children <= 1
