"""Violated pairs of a ranking, found by sorting instead of enumeration.

For items with relevance y and score F, the pair (i, j) with y_i > y_j is violated where
F_i - F_j < 1.  What a cut needs of the violated pairs is how often each
item is their better and their worse half; both follow from sorted orders, in
O(n log n) for each level of relevance (StructBoost, section 3.2; Joachims 2005).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def count_pairs(levels: NDArray[np.int64], n_levels: int) -> int:
    """Number of pairs of different level; ``levels`` in 0..n_levels-1."""
    sizes = np.zeros(n_levels, np.int64)
    for level in levels:
        sizes[level] += 1
    n = len(levels)
    return (n * n - int((sizes * sizes).sum())) // 2


@njit(cache=True, nogil=True)
def _count_up_to(tree: NDArray[np.int64], level: int) -> int:
    """Entries of a Fenwick tree at levels 0..level."""
    total = 0
    index = level + 1
    while index > 0:
        total += tree[index]
        index -= index & -index
    return total


@njit(cache=True, nogil=True)
def _add_one(tree: NDArray[np.int64], level: int) -> None:
    """Count one more entry at ``level`` in a Fenwick tree."""
    index = level + 1
    while index < len(tree):
        tree[index] += 1
        index += index & -index


@njit(cache=True, nogil=True)
def violated_pair_counts(
    scores: NDArray[np.float64], levels: NDArray[np.int64], n_levels: int, margin: float
) -> tuple[NDArray[np.int64], int]:
    """Signed counts of the pairs with ``scores[i] - scores[j] < margin``, level i above level j.

    Returns
    -------
    counts : ndarray of int64, shape (n,)
        Pairs in which the item is the better half, minus those in which it is the worse.
    n_violated : int
        Number of such pairs.
    """
    n = len(scores)
    order = np.argsort(scores, kind="mergesort")
    counts = np.zeros(n, np.int64)
    # Upwards: an item is the worse half of every better item whose score is under its own + margin.
    seen = np.zeros(n_levels + 1, np.int64)
    end = 0
    for position in range(n):
        item = order[position]
        while end < n and scores[order[end]] - scores[item] < margin:
            _add_one(seen, levels[order[end]])
            end += 1
        counts[item] -= end - _count_up_to(seen, levels[item])
    # Downwards: an item is the better half of every lower-level item above its own - margin.
    seen[:] = 0
    end = n - 1
    n_violated = 0
    for position in range(n - 1, -1, -1):
        item = order[position]
        while end >= 0 and scores[item] - scores[order[end]] < margin:
            _add_one(seen, levels[order[end]])
            end -= 1
        better = _count_up_to(seen, levels[item] - 1)
        counts[item] += better
        n_violated += better
    return counts, n_violated


@njit(cache=True, nogil=True)
def most_violated_pairs(
    scores: NDArray[np.float64], levels: NDArray[np.int64], margin: float, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Violated pairs in order of violation, at most ``limit`` for each better item.

    Returns
    -------
    better, worse : ndarray of int64
        Items of each pair; for every better item its highest-scored lower-level items first.
    """
    n = len(scores)
    order = np.argsort(scores, kind="mergesort")
    better = np.empty(n * limit, np.int64)
    worse = np.empty(n * limit, np.int64)
    n_pairs = 0
    for item in range(n):
        taken = 0
        for position in range(n - 1, -1, -1):
            other = order[position]
            if taken == limit or scores[item] - scores[other] >= margin:
                break
            if levels[other] < levels[item]:
                better[n_pairs] = item
                worse[n_pairs] = other
                n_pairs += 1
                taken += 1
    return better[:n_pairs].copy(), worse[:n_pairs].copy()
