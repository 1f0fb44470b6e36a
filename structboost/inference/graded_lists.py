"""The order of highest score plus loss, where the loss is 1 minus the NDCG of several grades.

Within a grade the best order is that of the scores, so the pairs of one grade score the same in
every order that can win, and the pairs of different grades score as all pairs do, up to a constant.
There are two searches.  Lists of few items go by the first, others by the shorter one:

- Which place an item takes is an assignment.  All pairs score linearly in the places: the item at
  place p of n stands in front of n - p items and behind p - 1 (the discounted gain is linear in the
  places as well; Le and Smola, 2007, section 3).
- The first k places hold the first items of each grade, and all others follow by their scores.
  Dynamic programming goes through the numbers of items of each grade.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled

# An assignment of so few items takes less than a millisecond.
_SHORT = 100
# The assignment of n items takes about as long as n^3 / 6 steps of the other search.
_STEPS_OF_ASSIGNMENT = 1 / 6
_MOST_STATES = 1 << 24


def value_of_graded_order(scores: FloatArray, gains: FloatArray, k: int = 0) -> float:
    """Compute the NDCG of the first ``k`` places, 0 for all, as ``ranking_value`` does."""
    discounts = _discounts(len(gains), k)
    largest = discounts @ -np.sort(-gains)
    ends = [gains[np.lexsort((sign * gains, -scores))] for sign in (1, -1)]
    return float(discounts @ (ends[0] + ends[1]) / (2.0 * largest))


def most_violated_graded_order(
    scores: FloatArray, gains: FloatArray, n_pairs: float, k: int = 0
) -> tuple[FloatArray, float]:
    """Find an order as :func:`~structboost.inference.most_violated_ranking` does, and its loss.

    ``n_pairs`` divides the scores of pairs, ``k`` places count, 0 for all.  The order is given by
    heights, larger for an item further in front.
    """
    n = len(scores)
    discounts = _discounts(n, k)
    largest = discounts @ -np.sort(-gains)
    # Sorted, items whose scores tie keep one order, and so do the results.
    order = np.argsort(-scores, kind="stable")
    places = _best_places(scores[order], gains[order] / largest, discounts, n_pairs, k)
    heights = np.empty(n)
    heights[order] = -places.astype(np.float64)
    value = gains[order] @ discounts[places] / largest
    return heights, max(0.0, 1.0 - float(value))


def _best_places(
    scores: FloatArray, gains: FloatArray, discounts: FloatArray, n_pairs: float, k: int
) -> IntArray:
    """Find the places of the best order by the search that is quicker."""
    n = len(scores)
    if n > _SHORT:
        grades, grade_of = np.unique(gains, return_inverse=True)
        limits = np.minimum(np.bincount(grade_of), k or n)
        n_states = float(np.prod(limits + 1.0))
        if n_states * len(grades) ** 2 < _STEPS_OF_ASSIGNMENT * n**3 and n_states <= _MOST_STATES:
            return places_by_counts(scores, grade_of, grades, discounts, n_pairs, limits)
    return places_by_assignment(scores, gains, discounts, n_pairs)


def places_by_assignment(
    scores: FloatArray, gains: FloatArray, discounts: FloatArray, n_pairs: float
) -> IntArray:
    """Find the places of the best order, from 0, by the assignment of items to places.

    Scores are in descending order, and gains divided by the largest discounted sum.  The discounts
    are the value of a unit of gain at each place, and ``n_pairs`` divides the scores of pairs.
    """
    n = len(scores)
    # A pair in its order instead of swapped changes the signed sum of all pairs by twice its score.
    surplus = np.arange(n - 1.0, -n, -2.0) / (2.0 * n_pairs)
    gain = np.multiply.outer(scores, surplus)
    gain -= np.multiply.outer(gains, discounts)
    _, places = linear_sum_assignment(gain, maximize=True)
    return np.asarray(places)


def places_by_counts(
    scores: FloatArray,
    grade_of: IntArray,
    grades: FloatArray,
    discounts: FloatArray,
    n_pairs: float,
    limits: IntArray,
) -> IntArray:
    """Find the places of the best order by the numbers of items of each grade in the first places.

    Arguments and result are those of :func:`places_by_assignment`, with the gain of each of the
    ``grades``, the grade of each item, and the most items of each grade in the places that count;
    the discounts of the others are 0.
    """
    items = np.argsort(grade_of, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(grade_of))))
    sums = np.concatenate(([0.0], np.cumsum(scores[items])))
    # Number of items of each grade that have a larger score than each item.
    descending = -scores[items]
    above = np.stack([np.searchsorted(descending[a:b], -scores) for a, b in pairwise(starts)])
    n_counted = int(np.count_nonzero(discounts))
    strides = np.concatenate(([1], np.cumprod(limits + 1)))
    choices = np.full(strides[-1], -1, np.int16)
    values = np.full(strides[-1], -np.inf)
    last = np.empty(1, np.int64)
    _fill_by_counts(
        (scores, items, starts, sums, np.ascontiguousarray(above), grades, discounts),
        (n_counted, float(n_pairs), limits.astype(np.int64), strides),
        (values, choices, last),
    )
    chosen = np.empty(n_counted, np.int64)
    state, counts = int(last[0]), last[0] // strides[:-1] % (limits + 1)
    for place in range(n_counted - 1, -1, -1):
        grade = int(choices[state])
        counts[grade] -= 1
        state -= int(strides[grade])
        chosen[place] = items[starts[grade] + counts[grade]]
    is_other = np.ones(len(scores), bool)
    is_other[chosen] = False
    places = np.empty(len(scores), np.int64)
    places[np.concatenate((chosen, np.flatnonzero(is_other)))] = np.arange(len(scores))
    return places


@compiled
def _fill_by_counts(
    of_items: tuple[FloatArray, IntArray, IntArray, FloatArray, IntArray, FloatArray, FloatArray],
    of_states: tuple[int, float, IntArray, IntArray],
    results: tuple[FloatArray, NDArray[np.int16], IntArray],
) -> None:
    """Fill in the best value of each state, the grade of its last item, and the best last state.

    A state is the numbers of items of each grade in front.  An item that follows them swaps the
    pairs with all other items that have larger scores.
    """
    scores, items, starts, sums, above, grades, discounts = of_items
    n_counted, n_pairs, limits, strides = of_states
    values, choices, last = results
    n_grades = len(grades)
    values[0] = 0.0
    best = -np.inf
    for state in range(len(values)):
        value = values[state]
        if value == -np.inf:
            continue
        place = 0
        for g in range(n_grades):
            place += state // strides[g] % (limits[g] + 1)
        if place == n_counted:
            if value > best:
                best, last[0] = value, state
            continue
        for g in range(n_grades):
            count = state // strides[g] % (limits[g] + 1)
            if count == limits[g]:
                continue
            item = items[starts[g] + count]
            swapped = 0.0
            for h in range(n_grades):
                larger = starts[h] + above[h, item]
                first = starts[h] + state // strides[h] % (limits[h] + 1)
                if first < larger:
                    swapped += sums[larger] - sums[first] - (larger - first) * scores[item]
            next_value = value - swapped / n_pairs - grades[g] * discounts[place]
            following = state + strides[g]
            if next_value > values[following]:
                values[following], choices[following] = next_value, g


def _discounts(n: int, k: int) -> FloatArray:
    """Compute the value of a unit of gain at each place."""
    discounts: FloatArray = 1.0 / np.log2(np.arange(2.0, n + 2.0))
    if k:
        discounts[k:] = 0.0
    return discounts
