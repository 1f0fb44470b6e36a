"""Orders of items of highest score plus loss, and violated pairs.

**Pairs.**  For items with relevance y and score F, the pair (i, j) with y_i > y_j is violated where
F_i - F_j < 1.  A cut needs how often (with what weight) each item is the better and the worse half
of such pairs; both follow from sorted orders.  Nothing is enumerated.

**Two grades at the top of the list.**  Relevant and other items are each in the order of their
scores; only how the two lists are merged is searched.  An other item moves in front of relevant
ones while that gains more loss than score, and the moves are independent: each is worth less the
further down the other item stands (Yue et al., SIGIR 2007, section 4.3, for average precision;
Chakrabarti et al., KDD 2008, for NDCG).  For the precision of the first k, the best order is found
for each number of relevant items among them (Joachims, ICML 2005, Algorithm 2).

**NDCG of several grades.**  Within a grade the best order is that of the scores, so the pairs of
one grade score the same in every order that can win, and the pairs of different grades score as all
pairs do, up to a constant.  Which place an item takes is an assignment.  All pairs score linearly
in the places: the item at place p of n stands in front of n - p items and behind p - 1 (the
discounted gain is linear in the places as well; Le and Smola, 2007, section 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


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

    Arguments are those of :func:`weigh_pairs`.  The result is, for each item, the pairs in which it
    is the better half minus those in which it is the worse, and the sum over all; a pair counts the
    product of the weights of its items.
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


class TopMeasure(NamedTuple):
    """Measure of an order, ``"map"``, ``"ndcg"``, or ``"capped_recall"`` at k."""

    name: str
    k: int = 0


def value_of_order(scores: FloatArray, gains: FloatArray, measure: TopMeasure) -> float:
    """Compute a measure of scores, of ties the mean over all orders of the items that tie.

    ``gains`` are 1 for relevant items and 0 for others, or of grades for the NDCG, of whose places
    the first ``k`` count, 0 for all.  McSherry and Najork, ECIR 2008.
    """
    n, order = len(gains), np.argsort(-scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    sizes = np.diff(np.append(starts, n))
    sums = np.add.reduceat(gains[order], starts)
    means = np.repeat(sums / sizes, sizes)
    if measure.name != "map":
        discounts = _discounts(n, measure)
        return float(means @ discounts / (-np.sort(-gains) @ discounts))
    # Relevant items in front of each place: those of higher scores, and some that tie.
    in_front = np.repeat(np.cumsum(sums) - sums, sizes)
    of_tied = np.repeat((sums - 1.0) / np.maximum(sizes - 1, 1), sizes)
    in_front += of_tied * (np.arange(n) - np.repeat(starts, sizes))
    return float(means @ ((in_front + 1.0) / np.arange(1.0, n + 1.0)) / sums.sum())


def most_violated_order(
    scores: FloatArray, levels: IntArray, measure: TopMeasure
) -> tuple[FloatArray, float]:
    """Find the order of the largest loss plus score, and its loss.

    It maximises ``1 - value`` minus the sum of ``(scores[i] - scores[j]) / n_pairs`` over the pairs
    of a relevant item i and another item j that stands in front of it.  The order is given by the
    fraction of the pairs that are swapped, of each item; negative for others.
    """
    order = np.argsort(-scores, kind="stable")
    relevant, others = order[levels[order] == 1], order[levels[order] == 0]
    # Other items in front of each relevant one.
    in_front = np.zeros(len(relevant), np.int64)
    if measure.name == "capped_recall":
        in_front = _others_in_front(scores[relevant], scores[others], measure.k)
    else:
        largest = float(_gains(in_front, measure).sum())
        _move_others(scores[relevant], scores[others], measure.name == "ndcg", largest, in_front)
    n_relevant, n_others = len(relevant), len(others)
    signed = np.zeros(len(scores))
    signed[relevant] = in_front / (n_relevant * n_others)
    # The first others stand in front of a relevant item, as many as are in front of it.
    passed = n_relevant - np.searchsorted(in_front, np.arange(n_others), side="right")
    signed[others] = -passed / (n_relevant * n_others)
    value = _gains(in_front, measure).sum() / _gains(0 * in_front, measure).sum()
    return signed, max(0.0, 1.0 - float(value))


def _gains(in_front: IntArray, measure: TopMeasure) -> FloatArray:
    """Compute the gain of each relevant item from the number of other items before it."""
    rank = np.arange(1, len(in_front) + 1)
    place = rank + in_front
    if measure.name == "capped_recall":
        return (place <= measure.k).astype(np.float64)
    return rank / place if measure.name == "map" else 1.0 / np.log2(1.0 + place)


def _others_in_front(relevant: FloatArray, others: FloatArray, k: int) -> IntArray:
    """Count other items in front of each relevant one, for the precision of the first k.

    Both are in descending order of their scores.
    """
    n_relevant, n_others = len(relevant), len(others)
    above = np.searchsorted(-others, -relevant)
    sums = np.append(0.0, np.cumsum(others))
    best, best_in_front = -np.inf, above
    for inside in range(max(0, k - n_others), min(k, n_relevant) + 1):
        first = np.arange(n_relevant) < inside
        in_front = np.where(first, np.minimum(above, k - inside), np.maximum(above, k - inside))
        lost = in_front @ relevant - sums[in_front].sum()
        value = -inside / min(k, n_relevant) - lost / (n_relevant * n_others)
        if value > best:
            best, best_in_front = value, in_front
    return best_in_front


@compiled
def _move_others(
    relevant: FloatArray, others: FloatArray, is_ndcg: bool, largest: float, in_front: IntArray
) -> None:
    """Move other items in front of relevant ones, both in descending order of their scores."""
    n_relevant = len(relevant)
    weight = 1.0 / (n_relevant * len(others))
    for j in range(len(others)):
        total, best, place = 0.0, 0.0, n_relevant
        for i in range(n_relevant - 1, -1, -1):
            at = i + 1.0 + j
            if is_ndcg:
                lost = 1.0 / np.log2(1.0 + at) - 1.0 / np.log2(2.0 + at)
            else:
                lost = (i + 1.0) / at - (i + 1.0) / (at + 1.0)
            total += lost / largest - (relevant[i] - others[j]) * weight
            if total > best:
                best, place = total, i
        for i in range(place, n_relevant):
            in_front[i] += 1


def most_violated_graded_order(
    scores: FloatArray, gains: FloatArray, n_pairs: float, measure: TopMeasure
) -> tuple[FloatArray, float]:
    """Find the order of the largest loss plus score, and its loss.

    ``n_pairs`` divides the scores of pairs.  The order is given by heights, larger for an item
    further in front.
    """
    n = len(scores)
    discounts = _discounts(n, measure)
    largest = discounts @ -np.sort(-gains)
    # Sorted, items whose scores tie keep one order, and so do the results.
    order = np.argsort(-scores, kind="stable")
    places = _best_places(scores[order], gains[order] / largest, discounts, n_pairs)
    heights = np.empty(n)
    heights[order] = -places.astype(np.float64)
    value = gains[order] @ discounts[places] / largest
    return heights, max(0.0, 1.0 - float(value))


def _best_places(
    scores: FloatArray, gains: FloatArray, discounts: FloatArray, n_pairs: float
) -> IntArray:
    """Find the places of the best order, from 0, by the assignment of items to places.

    Scores are in descending order, and gains divided by the largest discounted sum.  The discounts
    are the value of a unit of gain at each place, and ``n_pairs`` divides the scores of pairs.
    """
    n = len(scores)
    # A pair in its order instead of swapped changes the signed sum of all pairs by twice its score.
    surplus = np.arange(n - 1.0, -n, -2.0) / (2.0 * n_pairs)
    gain = np.multiply.outer(scores, surplus) - np.multiply.outer(gains, discounts)
    return np.asarray(linear_sum_assignment(gain, maximize=True)[1])


def _discounts(n: int, measure: TopMeasure) -> FloatArray:
    """Compute the value of a unit of gain at each place."""
    is_ndcg = measure.name == "ndcg"
    discounts = 1.0 / np.log2(np.arange(2.0, n + 2.0)) if is_ndcg else np.ones(n)
    if measure.k:
        discounts[measure.k :] = 0.0
    return discounts
