"""The order of highest score plus loss, where the loss is 1 minus the NDCG of several grades.

Which place an item takes is an assignment.  Within a grade the best order is that of the scores,
so the pairs of one grade score the same in every order that can win, and the pairs of different
grades score as all pairs do, up to a constant.  All pairs score linearly in the places: the item
at place p of n stands in front of n - p items and behind p - 1 (the discounted gain is linear in
the places as well; Le and Smola, 2007, section 3).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from structboost._typing import FloatArray


def value_of_graded_order(scores: FloatArray, gains: FloatArray, k: int = 0) -> float:
    """Normalised discounted gain of items in the order of ``scores``.

    Where items are tied, it is the mean of the best and the worst order.

    Parameters
    ----------
    scores, gains : ndarray, shape (n_items,)
        Score of each item, and what it is worth at the first rank.
    k : int
        Places that count; 0 for all.

    Returns
    -------
    value : float
        From 0 to 1.
    """
    discounts = _discounts(len(gains), k)
    largest = discounts @ -np.sort(-gains)
    found = [gains[np.lexsort((sign * gains, -scores))] for sign in (1, -1)]
    return float(discounts @ (found[0] + found[1]) / (2.0 * largest))


def most_violated_graded_order(
    scores: FloatArray, gains: FloatArray, n_pairs: float, k: int = 0
) -> tuple[FloatArray, float]:
    """Order of the largest ``1 - NDCG`` minus the score of its swapped pairs.

    A pair of items i and j with a larger gain of i scores ``(scores[i] - scores[j]) / n_pairs``.

    Parameters
    ----------
    scores, gains : ndarray, shape (n_items,)
        Score of each item, and what it is worth at the first rank.
    n_pairs : float
        What the scores of pairs are divided by.
    k : int
        Places that count; 0 for all.

    Returns
    -------
    heights : ndarray, shape (n_items,)
        Larger for an item further in front: the order.
    loss : float
        1 minus the NDCG of the order.
    """
    n = len(scores)
    discounts = _discounts(n, k)
    largest = discounts @ -np.sort(-gains)
    # A pair in its order instead of swapped changes the signed sum of all pairs by twice its score.
    surplus = np.arange(n - 1.0, -n, -2.0) / (2.0 * n_pairs)
    # Sorted, items whose scores tie keep one order, and so do the results.
    order = np.argsort(-scores, kind="stable")
    gain = np.multiply.outer(scores[order], surplus)
    gain -= np.multiply.outer(gains[order] / largest, discounts)
    _, places = linear_sum_assignment(gain, maximize=True)
    heights = np.empty(n)
    heights[order] = -places.astype(np.float64)
    value = gains[order] @ discounts[places] / largest
    return heights, max(0.0, 1.0 - float(value))


def _discounts(n: int, k: int) -> FloatArray:
    """What a unit of gain counts at each place."""
    discounts: FloatArray = 1.0 / np.log2(np.arange(2.0, n + 2.0))
    if k:
        discounts[k:] = 0.0
    return discounts
