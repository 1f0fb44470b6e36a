"""Sums over all spanning trees directed away from a root, and the probabilities of their arcs.

The sum is a determinant (Tutte 1948; Koo and others, EMNLP 2007).  Here nodes are eliminated one by
one, in logarithms and without a subtraction, so that cycles of high scores cost no digits.  The
probabilities are the derivatives of its logarithm, found backwards.
"""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


@compiled
def sum_arborescences(
    scores: FloatArray,
    arcs: IntArray,
    first_arcs: IntArray,
    first_nodes: IntArray,
    chances: FloatArray,
    log_sums: FloatArray,
) -> int:
    """Probabilities of arcs where a tree has probability ``~ exp(score)``.

    Parameters
    ----------
    scores, arcs, first_arcs, first_nodes
        As :func:`structboost.inference.arborescences.best_arborescences` takes them.
    chances : ndarray, shape (n_arcs,)
        Is filled with the probability of each arc.
    log_sums : ndarray, shape (n_graphs,)
        Is filled with the logarithms of the sums.

    Returns
    -------
    impossible : int
        First graph in which the root does not reach every node, or -1.
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
        sums = np.zeros(n)
        for k in range(n - 1, 0, -1):
            own = weights[starts[k] : starts[k + 1]].reshape(k + 1, k + 1)
            rest = weights[starts[k - 1] : starts[k]].reshape(k, k)
            sums[k] = _eliminate(own, rest)
            if sums[k] == -np.inf:
                return g
        log_sums[g] = sums.sum()
        found = np.zeros((n, n))
        for k in range(1, n):
            own = weights[starts[k] : starts[k + 1]].reshape(k + 1, k + 1)
            rest = weights[starts[k - 1] : starts[k]].reshape(k, k)
            _restore(own, rest, sums[k], found)
        for i in range(first_arcs[g], first_arcs[g + 1]):
            chances[i] = max(0.0, found[arcs[i, 0], arcs[i, 1]])
    return -1


@compiled
def _eliminate(own: FloatArray, rest: FloatArray) -> float:
    """Fill ``rest`` with the weights without the last node; the logarithm of what it is worth.

    A node below the last one goes below the heads of that, in proportion to their weights.
    """
    k = len(rest)
    most = own[:k, k].max()
    if most == -np.inf:
        return float(most)
    total = most + np.log(np.exp(own[:k, k] - most).sum())
    for head in range(k):
        for node in range(1, k):
            if head != node:
                via = own[head, k] + own[k, node] - total
                larger, smaller = max(own[head, node], via), min(own[head, node], via)
                rest[head, node] = larger
                if smaller > -np.inf:
                    rest[head, node] += np.log1p(np.exp(smaller - larger))
    return float(total)


@compiled
def _restore(own: FloatArray, rest: FloatArray, total: float, found: FloatArray) -> None:
    """Turn the derivatives by ``rest``, in ``found``, into those by ``own``."""
    k = len(rest)
    below = 0.0
    for head in range(k):
        for node in range(1, k):
            if rest[head, node] > -np.inf:
                via = own[head, k] + own[k, node] - total
                moved = found[head, node] * np.exp(via - rest[head, node])
                found[head, node] *= np.exp(own[head, node] - rest[head, node])
                found[head, k] += moved
                found[k, node] += moved
                below += moved
    for head in range(k):
        found[head, k] += (1.0 - below) * np.exp(own[head, k] - total)
