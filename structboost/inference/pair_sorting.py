"""Violated pairs of a ranking, by sorting instead of enumeration.

For items with relevance y and score F, the pair (i, j) with y_i > y_j is violated where
F_i - F_j < 1.  A cut needs how often (with what weight) each item is the better and the worse half
of such pairs; both follow from sorted orders.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import real_array
from structboost.runtime.compiled import compiled


def violated_pairs(scores: ArrayLike, relevance: ArrayLike) -> tuple[FloatArray, float]:
    """Count the pairs of items that a ranking by scores violates.

    Item i must score at least 1 more than item j where ``relevance[i] > relevance[j]``: for each
    pair the loss-augmented argmax of the area under the ROC curve.

    Parameters
    ----------
    scores : array-like, shape (n_items,)
        Score of each item.
    relevance : array-like, shape (n_items,)
        Relevance of each item, larger for better.

    Returns
    -------
    signed : ndarray, shape (n_items,)
        Number of violated pairs in which the item is the better half, minus those in which it is
        the worse.
    n_violated : float
        Number of violated pairs.

    Notes
    -----
    Exact, in ``O(n_items * log n_items)``, without a list of the pairs.  Joachims, A support vector
    method for multivariate performance measures, ICML 2005; StructBoost, section 3.2.

    Examples
    --------
    >>> from structboost.inference import violated_pairs
    >>> signed, n_violated = violated_pairs([2.0, 0.5, 0.0], [1, 0, 1])
    >>> signed.tolist(), n_violated
    ([0.0, -1.0, 1.0], 1.0)
    """
    values = real_array(scores, "scores", ("n_items",))
    ranks, levels = np.unique(
        real_array(relevance, "relevance", (len(values),)), return_inverse=True
    )
    return violated_pair_weights(values, levels, len(ranks), np.ones(len(values)), 1.0)


@compiled
def weigh_pairs(levels: IntArray, n_levels: int, weights: FloatArray) -> float:
    """Add up the products of the weights of all pairs of items of different level.

    ``levels`` are the relevance of each item, 0..n_levels-1.
    """
    sizes = np.zeros(n_levels)
    total = 0.0
    for i in range(len(levels)):
        sizes[levels[i]] += weights[i]
        total += weights[i]
    same = 0.0
    for size in sizes:
        same += size * size
    return 0.5 * (total * total - same)


@compiled
def _weight_up_to(tree: FloatArray, level: int) -> float:
    """Add up the entries of a Fenwick tree at levels 0..level."""
    total = 0.0
    index = level + 1
    while index > 0:
        total += tree[index]
        index -= index & -index
    return total


@compiled
def _add(tree: FloatArray, level: int, weight: float) -> None:
    """Add an entry of some weight at ``level`` to a Fenwick tree."""
    index = level + 1
    while index < len(tree):
        tree[index] += weight
        index += index & -index


@compiled
def violated_pair_weights(
    scores: FloatArray, levels: IntArray, n_levels: int, weights: FloatArray, margin: float
) -> tuple[FloatArray, float]:
    """Weigh the pairs with ``scores[i] - scores[j] < margin``, level i above level j.

    Arguments are those of :func:`weigh_pairs`, the result is that of :func:`violated_pairs`, where
    a pair counts the product of the weights of its items.
    """
    n = len(scores)
    order = np.argsort(scores, kind="mergesort")
    signed = np.zeros(n)
    # Upwards: an item is the worse half of every better item below its score + margin.
    seen = np.zeros(n_levels + 1)
    total = 0.0
    end = 0
    for position in range(n):
        item = order[position]
        while end < n and scores[order[end]] - scores[item] < margin:
            _add(seen, levels[order[end]], weights[order[end]])
            total += weights[order[end]]
            end += 1
        signed[item] -= weights[item] * (total - _weight_up_to(seen, levels[item]))
    # Downwards: an item is the better half of every lower-level item above its score - margin.
    seen[:] = 0.0
    end = n - 1
    violated = 0.0
    for position in range(n - 1, -1, -1):
        item = order[position]
        while end >= 0 and scores[item] - scores[order[end]] < margin:
            _add(seen, levels[order[end]], weights[order[end]])
            end -= 1
        better = weights[item] * _weight_up_to(seen, levels[item] - 1)
        signed[item] += better
        violated += better
    return signed, violated


@compiled
def most_violated_pairs(
    scores: FloatArray, levels: IntArray, margin: float, limit: int
) -> tuple[IntArray, IntArray]:
    """List violated pairs in order of violation, at most ``limit`` for each better item.

    Returns the better and the worse item of each pair; for every better item its highest-scored
    lower-level items come first.
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
