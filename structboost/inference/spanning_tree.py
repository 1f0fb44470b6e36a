"""Spanning trees directed away from a root, of which one is the best, and sums over all.

The best tree is that of Chu, Liu and Edmonds.  The sum is a determinant (Tutte 1948; Koo and
others, EMNLP 2007).  Here nodes are eliminated one by one, in logarithms and without a subtraction,
so that cycles of high scores cost no digits.  The probabilities are the derivatives of its
logarithm, computed backwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import real_array
from structboost.runtime.compiled import compiled


def maximum_spanning_arborescence(scores: ArrayLike) -> IntArray:
    """Find the spanning tree of highest score that is directed away from node 0.

    A tree scores the sum of its arcs (Chu-Liu-Edmonds algorithm).

    Parameters
    ----------
    scores : array-like, shape (n_nodes, n_nodes)
        Score of the arc from each head (row) to each dependent (column); minus infinity where there
        is no arc.  Column 0 and the diagonal are never used.

    Returns
    -------
    heads : ndarray of int64, shape (n_nodes,)
        Head of each node, -1 for node 0.  Of equally good arcs into a node, or into a cycle, the
        one of the first head is taken.

    Raises
    ------
    ValueError
        If node 0 does not reach every node.

    Notes
    -----
    Exact, in ``O(n_nodes^3)``, and mostly ``O(n_nodes^2)``, as few cycles are contracted.  Edmonds,
    Optimum branchings, Journal of Research of the National Bureau of Standards 1967; McDonald and
    others, Non-projective dependency parsing using spanning tree algorithms, EMNLP 2005.

    Examples
    --------
    >>> from structboost.inference import maximum_spanning_arborescence
    >>> maximum_spanning_arborescence([[0, 5, 1], [0, 0, 11], [0, 10, 0]]).tolist()
    [-1, 0, 1]
    """
    values, arcs, firsts = arcs_of(scores)
    chosen = np.empty(firsts[1][-1], np.int64)
    if best_arborescences(values, arcs, *firsts, chosen) >= 0:
        raise _not_reached()
    return np.append(-1, arcs[chosen[1:], 0])


def arcs_of(scores: ArrayLike) -> tuple[FloatArray, IntArray, tuple[IntArray, IntArray]]:
    """Check a table of scores, and return it as compiled code takes one graph."""
    table = real_array(scores, "scores", ("n_nodes", "n_nodes"), forbids=True)
    n = len(table)
    real_array(table, "scores", (n, n), forbids=True)
    arcs = np.argwhere(table > -np.inf)
    return table[arcs[:, 0], arcs[:, 1]], arcs, (np.array([0, len(arcs)]), np.array([0, n]))


def _not_reached() -> ValueError:
    return ValueError("scores leave nodes that node 0 does not reach; allow more arcs.")


@compiled
def best_arborescences(
    scores: FloatArray,
    arcs: IntArray,
    first_arcs: IntArray,
    first_nodes: IntArray,
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
        if not _best_arborescence(scores, arcs, ends, nodes):
            return g
    return -1


@compiled
def _best_arborescence(
    scores: FloatArray, arcs: IntArray, ends: tuple[int, int], chosen: IntArray
) -> bool:
    """Fill in the arcs of the best tree of one graph, and return whether there is one."""
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
    for a in range(last - first):
        source[a], target[a] = arcs[first + a]
        weight[a] = scores[first + a]
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
            if best[v] < 0 or weight[a] > gain[v]:
                best[v], gain[v] = a, weight[a]
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
    chosen[0] = -1
    for v in range(1, n):
        chosen[v] = first + best[v]
    return True


def arborescence_marginals(scores: ArrayLike) -> tuple[FloatArray, float]:
    """Compute the probabilities of the arcs of random spanning trees directed away from node 0.

    A tree has probability ``exp(score) / Z``, with the score and the argument of
    :func:`maximum_spanning_arborescence`, and ``Z`` the sum over all trees.

    Parameters
    ----------
    scores : array-like, shape (n_nodes, n_nodes)
        Score of the arc from each head (row) to each dependent (column).

    Returns
    -------
    of_arcs : ndarray, shape (n_nodes, n_nodes)
        Probability of each arc.  The columns but the first sum to 1.
    log_sum : float
        Logarithm of ``Z``.

    Raises
    ------
    ValueError
        If node 0 does not reach every node.

    Notes
    -----
    Exact for scores of any size, in ``O(n_nodes^3)``, by elimination of nodes without subtractions.
    Koo, Globerson, Carreras and Collins, Structured prediction models via the matrix-tree theorem,
    EMNLP 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost.inference import arborescence_marginals
    >>> of_arcs, log_sum = arborescence_marginals(np.zeros((3, 3)))
    >>> of_arcs.round(3).tolist(), round(float(np.exp(log_sum)), 3)
    ([[0.0, 0.667, 0.667], [0.0, 0.0, 0.333], [0.0, 0.333, 0.0]], 3.0)
    """
    values, arcs, firsts = arcs_of(scores)
    of_arcs, log_sums = np.zeros(len(arcs)), np.empty(1)
    if sum_arborescences(values, arcs, *firsts, of_arcs, log_sums) >= 0:
        raise _not_reached()
    table = np.zeros((firsts[1][-1],) * 2)
    table[arcs[:, 0], arcs[:, 1]] = of_arcs
    return table, float(log_sums[0])


@compiled
def sum_arborescences(
    scores: FloatArray,
    arcs: IntArray,
    first_arcs: IntArray,
    first_nodes: IntArray,
    of_arcs: FloatArray,
    log_sums: FloatArray,
) -> int:
    """Compute the probabilities of arcs of all graphs, as :func:`arborescence_marginals` does.

    Arguments are those of :func:`structboost.inference.spanning_tree.best_arborescences`.  Fills
    the probability of each arc, and the logarithm of the sum of each graph.  Returns the first
    graph without a tree, or -1.
    """
    for g in range(len(first_nodes) - 1):
        n = first_nodes[g + 1] - first_nodes[g]
        # Logarithms of the weights among the first k + 1 nodes, for each k one matrix.
        starts = np.append(0, np.cumsum(np.arange(1, n + 1) ** 2))
        weights = np.full(starts[n], -np.inf)
        whole = weights[starts[n - 1] :].reshape(n, n)
        for i in range(first_arcs[g], first_arcs[g + 1]):
            head, node = arcs[i]
            if node > 0 and head != node:
                whole[head, node] = scores[i]
        sums = np.zeros(n)
        for k in range(n - 1, 0, -1):
            before = weights[starts[k] : starts[k + 1]].reshape(k + 1, k + 1)
            rest = weights[starts[k - 1] : starts[k]].reshape(k, k)
            if before[:k, k].max() == -np.inf:
                return g
            sums[k] = _eliminate(before, rest)
        log_sums[g] = sums.sum()
        slopes = np.zeros((n, n))
        for k in range(1, n):
            before = weights[starts[k] : starts[k + 1]].reshape(k + 1, k + 1)
            rest = weights[starts[k - 1] : starts[k]].reshape(k, k)
            _restore(before, rest, sums[k], slopes)
        for i in range(first_arcs[g], first_arcs[g + 1]):
            of_arcs[i] = max(0.0, slopes[arcs[i, 0], arcs[i, 1]])
    return -1


@compiled
def _eliminate(before: FloatArray, rest: FloatArray) -> float:
    """Fill ``rest`` with the weights without the last node, and return that node's logarithm.

    A node below the last one goes below the heads of that, in proportion to their weights.
    """
    k = len(rest)
    most = before[:k, k].max()
    total = most + np.log(np.exp(before[:k, k] - most).sum())
    for head in range(k):
        for node in range(1, k):
            if head != node:
                via = before[head, k] + before[k, node] - total
                larger, smaller = max(before[head, node], via), min(before[head, node], via)
                rest[head, node] = larger
                if smaller > -np.inf:
                    rest[head, node] += np.log1p(np.exp(smaller - larger))
    return float(total)


@compiled
def _restore(before: FloatArray, rest: FloatArray, total: float, slopes: FloatArray) -> None:
    """Turn the derivatives by ``rest``, in ``slopes``, into those by ``before``."""
    k = len(rest)
    below = 0.0
    for head in range(k):
        for node in range(1, k):
            if rest[head, node] > -np.inf:
                via = before[head, k] + before[k, node] - total
                moved = slopes[head, node] * np.exp(via - rest[head, node])
                slopes[head, node] *= np.exp(before[head, node] - rest[head, node])
                slopes[head, k] += moved
                slopes[k, node] += moved
                below += moved
    for head in range(k):
        slopes[head, k] += (1.0 - below) * np.exp(before[head, k] - total)
