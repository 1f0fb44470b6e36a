"""Sums over all spanning trees directed away from a root, and the probabilities of their arcs.

The sum is a determinant (Tutte 1948; Koo and others, EMNLP 2007).  Here nodes are eliminated one by
one, in logarithms and without a subtraction, so that cycles of high scores cost no digits.  The
probabilities are the derivatives of its logarithm, computed backwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arborescences import arcs_of, not_reached
from structboost.runtime.compiled import compiled
from structboost.validation import checked_flag


def arborescence_marginals(
    scores: ArrayLike, *, single_root: bool = False
) -> tuple[FloatArray, float]:
    """Compute the probabilities of the arcs of random spanning trees directed away from node 0.

    A tree has probability ``exp(score) / Z``, with the score and the argument of
    :func:`maximum_spanning_arborescence`, and ``Z`` the sum over all trees.

    Parameters
    ----------
    scores : array-like, shape (n_nodes, n_nodes)
        Score of the arc from each head (row) to each dependent (column).
    single_root : bool
        Whether node 0 has exactly one child.

    Returns
    -------
    of_arcs : ndarray, shape (n_nodes, n_nodes)
        Probability of each arc.  The columns but the first sum to 1.
    log_sum : float
        Logarithm of ``Z``.

    Raises
    ------
    ValueError
        If node 0 does not reach every node, or does not with a single child.

    Notes
    -----
    Exact for scores of any size, in ``O(n_nodes^3)``, by elimination of nodes without subtractions.
    With ``single_root``, a node is eliminated without its arc from node 0, which is its limit where
    these arcs weigh little.
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
    is_single = checked_flag(single_root, "single_root")
    of_arcs, log_sums = np.zeros(len(arcs)), np.empty(1)
    if sum_arborescences(values, arcs, *firsts, is_single, of_arcs, log_sums) >= 0:
        raise not_reached(is_single)
    table = np.zeros((firsts[1][-1],) * 2)
    table[arcs[:, 0], arcs[:, 1]] = of_arcs
    return table, float(log_sums[0])


@compiled
def sum_arborescences(
    scores: FloatArray,
    arcs: IntArray,
    first_arcs: IntArray,
    first_nodes: IntArray,
    single_root: bool,
    of_arcs: FloatArray,
    log_sums: FloatArray,
) -> int:
    """Compute the probabilities of arcs of all graphs, as :func:`arborescence_marginals` does.

    Arguments are those of :func:`structboost.inference.arborescences.best_arborescences`.  Fills
    the probability of each arc, and the logarithm of the sum of each graph.  Returns the first
    graph without a tree, or -1.
    """
    for g in range(len(first_nodes) - 1):
        n = first_nodes[g + 1] - first_nodes[g]
        # Logarithms of the weights among the first k + 1 nodes, for each k one matrix.
        starts = np.zeros(n + 1, np.int64)
        for k in range(n):
            starts[k + 1] = starts[k] + (k + 1) ** 2
        weights = np.full(starts[n], -np.inf)
        whole = weights[starts[n - 1] :].reshape(n, n)
        for i in range(first_arcs[g], first_arcs[g + 1]):
            head, node = arcs[i]
            if node > 0 and head != node:
                whole[head, node] = scores[i]
        sums, swapped = np.zeros(n), np.arange(n)
        for k in range(n - 1, 0, -1):
            before = weights[starts[k] : starts[k + 1]].reshape(k + 1, k + 1)
            rest = weights[starts[k - 1] : starts[k]].reshape(k, k)
            # The last node has no head but the root.
            lowest = 1 if single_root and k > 1 else 0
            swapped[k] = _node_with_head(before, lowest)
            if swapped[k] < 0:
                return g
            _swap(before, swapped[k])
            sums[k] = _eliminate(before, rest, lowest)
        log_sums[g] = sums.sum()
        slopes = np.zeros((n, n))
        for k in range(1, n):
            before = weights[starts[k] : starts[k + 1]].reshape(k + 1, k + 1)
            rest = weights[starts[k - 1] : starts[k]].reshape(k, k)
            lowest = 1 if single_root and k > 1 else 0
            _restore(before, rest, sums[k], lowest, slopes)
            _swap(before, swapped[k])
            _swap(slopes[: k + 1, : k + 1], swapped[k])
        for i in range(first_arcs[g], first_arcs[g + 1]):
            of_arcs[i] = max(0.0, slopes[arcs[i, 0], arcs[i, 1]])
    return -1


@compiled
def _node_with_head(weights: FloatArray, lowest: int) -> int:
    """Return the last node that has a head from ``lowest`` on, or -1.

    A node without one is the only child of the root, so it is eliminated last.
    """
    for node in range(len(weights) - 1, 0, -1):
        for head in range(lowest, len(weights)):
            if head != node and weights[head, node] > -np.inf:
                return node
    return -1


@compiled
def _swap(table: FloatArray, node: int) -> None:
    """Exchange a node and the last one in rows and columns."""
    k = len(table) - 1
    if node == k:
        return
    for j in range(k + 1):
        table[node, j], table[k, j] = table[k, j], table[node, j]
    for j in range(k + 1):
        table[j, node], table[j, k] = table[j, k], table[j, node]


@compiled
def _eliminate(before: FloatArray, rest: FloatArray, lowest: int) -> float:
    """Fill ``rest`` with the weights without the last node, and return that node's logarithm.

    A node below the last one goes below the heads of that from ``lowest`` on, in proportion to
    their weights.
    """
    k = len(rest)
    most = before[lowest:k, k].max()
    total = most + np.log(np.exp(before[lowest:k, k] - most).sum())
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
def _restore(
    before: FloatArray, rest: FloatArray, total: float, lowest: int, slopes: FloatArray
) -> None:
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
    for head in range(lowest, k):
        slopes[head, k] += (1.0 - below) * np.exp(before[head, k] - total)
