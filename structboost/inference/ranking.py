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
pairs do, up to a constant.  There are two searches.  Lists of few items go by the first, others by
the shorter one:

- Which place an item takes is an assignment.  All pairs score linearly in the places: the item at
  place p of n stands in front of n - p items and behind p - 1 (the discounted gain is linear in the
  places as well; Le and Smola, 2007, section 3).
- The first k places hold the first items of each grade, and all others follow by their scores.
  Dynamic programming goes through the numbers of items of each grade.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import not_negative, real_array
from structboost.runtime.compiled import compiled
from structboost.validation import checked_choice, checked_whole_number


def ranking_value(scores: ArrayLike, gains: ArrayLike, measure: str, k: int | None = None) -> float:
    """Compute the average precision, NDCG or precision of items in the order of their scores.

    Parameters
    ----------
    scores : array-like, shape (n_items,)
        Score of each item.
    gains : array-like, shape (n_items,)
        Gain of each item at the first place, not negative; 1 of relevant items and 0 of others for
        ``"map"`` and ``"precision"``.  At least two items differ.
    measure : {"map", "ndcg", "precision"}
        Average precision; discounted gain ``sum_i gains[i] / log2(1 + place of i)`` over its
        largest value; or relevant items among the first k over the largest number of them.
    k : int, optional
        Number of places that count.  ``"precision"`` needs it, and ``"ndcg"`` takes it.

    Returns
    -------
    value : float
        From 0 to 1.  Where items are tied, the mean of the best and the worst order.

    Notes
    -----
    Exact, in ``O(n_items * log n_items)``.  Järvelin and Kekäläinen, Cumulated gain-based
    evaluation of IR techniques, TOIS 2002.

    Examples
    --------
    >>> from structboost.inference import ranking_value
    >>> round(ranking_value([3.0, 2.0, 1.0], [0, 1, 1], "map"), 3)
    0.583
    """
    values, worth, top = _checked_list(scores, gains, measure, k)
    if top.name == "ndcg":
        return value_of_graded_order(values, worth, top.k)
    return value_of_order(values, worth.astype(np.int64), top)


def most_violated_ranking(
    scores: ArrayLike, gains: ArrayLike, measure: str, k: int | None = None
) -> tuple[IntArray, float]:
    """Find the order of items of the largest loss plus score (loss-augmented argmax).

    It maximises ``1 - value`` minus the sum of ``(scores[i] - scores[j]) / n_pairs`` over the pairs
    with ``gains[i] > gains[j]`` in which j stands in front of i; ``n_pairs`` is the number of all
    pairs with different gains.

    Parameters
    ----------
    scores, gains, measure, k
        As :func:`ranking_value` takes them.

    Returns
    -------
    order : ndarray of int64, shape (n_items,)
        Items from the first place on; among equally good orders always the same.
    loss : float
        1 minus the value of the order.

    Notes
    -----
    Exact.  ``"map"`` in ``O(n_relevant * n_others)`` (Yue and others, SIGIR 2007), ``"precision"``
    in ``O(k * n_relevant)`` (Joachims, ICML 2005, Algorithm 2), ``"ndcg"`` by the assignment of
    items to places in ``O(n_items^3)`` (Le and Smola 2007), or by dynamic programming where few
    grades or places make that shorter.

    Examples
    --------
    >>> from structboost.inference import most_violated_ranking
    >>> order, loss = most_violated_ranking([1.5, 1.0, 0.9], [1, 0, 0], "map")
    >>> order.tolist(), round(loss, 3)
    ([1, 0, 2], 0.5)
    """
    values, worth, top = _checked_list(scores, gains, measure, k)
    if top.name == "ndcg":
        grades, levels = np.unique(worth, return_inverse=True)
        n_pairs = weigh_pairs(levels, len(grades), np.ones(len(levels)))
        heights, loss = most_violated_graded_order(values, worth, n_pairs, top.k)
        return np.argsort(-heights, kind="stable"), loss
    relevant, others, in_front = merge(values, worth.astype(np.int64), top)
    order, is_relevant = np.empty(len(values), np.int64), np.zeros(len(values), np.bool_)
    places = np.arange(len(relevant)) + in_front
    is_relevant[places] = True
    order[places], order[~is_relevant] = relevant, others
    return order, loss_of_merge(in_front, top)


def _checked_list(
    scores: ArrayLike, gains: ArrayLike, measure: Any, k: Any
) -> tuple[FloatArray, FloatArray, TopMeasure]:
    values = real_array(scores, "scores", ("n_items",))
    worth = not_negative(gains, "gains", (len(values),))
    name = checked_choice(measure, "measure", ("map", "ndcg", "precision"))
    if len(np.unique(worth)) < 2:
        raise ValueError("gains are all equal; give at least two different ones.")
    if name != "ndcg" and not np.isin(worth, (0, 1)).all():
        raise ValueError(f"gains has other numbers than 0 and 1; measure={name!r} takes only them.")
    if (k is None and name == "precision") or (k is not None and name == "map"):
        raise ValueError(f"k is {k}; 'precision' needs the number of places, 'map' takes none.")
    return values, worth, TopMeasure(name, 0 if k is None else checked_whole_number(k, "k"))


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


class TopMeasure(NamedTuple):
    """Measure of an order, ``"map"``, ``"ndcg"``, or ``"precision"`` at k."""

    name: str
    k: int = 0


def value_of_order(scores: FloatArray, levels: IntArray, measure: TopMeasure) -> float:
    """Compute a measure of an order, as :func:`~structboost.inference.ranking_value` does.

    ``levels`` are 1 for relevant items and 0 for others; there are some of each.
    """
    relevant, others = np.sort(-scores[levels == 1]), np.sort(-scores[levels == 0])
    ends = (np.searchsorted(others, relevant, side=side) for side in ("left", "right"))
    return 0.5 * sum(_value(in_front, measure) for in_front in ends)


def most_violated_order(
    scores: FloatArray, levels: IntArray, measure: TopMeasure
) -> tuple[FloatArray, float]:
    """Find an order as :func:`~structboost.inference.most_violated_ranking` does, and its loss.

    It is given by the fraction of the pairs that are swapped, of each item; negative for others.
    """
    relevant, others, in_front = merge(scores, levels, measure)
    n_relevant, n_others = len(relevant), len(others)
    signed = np.zeros(len(scores))
    signed[relevant] = in_front / (n_relevant * n_others)
    # The first others stand in front of a relevant item, as many as are in front of it.
    passed = n_relevant - np.searchsorted(in_front, np.arange(n_others), side="right")
    signed[others] = -passed / (n_relevant * n_others)
    return signed, loss_of_merge(in_front, measure)


def merge(
    scores: FloatArray, levels: IntArray, measure: TopMeasure
) -> tuple[IntArray, IntArray, IntArray]:
    """Merge the relevant and the other items to the order of :func:`most_violated_order`.

    Returns both, each in the order of their scores, and how many other items stand in front of each
    relevant one.
    """
    order = np.argsort(-scores, kind="stable")
    relevant, others = order[levels[order] == 1], order[levels[order] == 0]
    in_front = np.zeros(len(relevant), np.int64)
    if measure.name == "precision":
        in_front = _others_in_front(scores[relevant], scores[others], measure.k)
    else:
        largest = float(_gains(in_front, measure).sum())
        is_ndcg = measure.name == "ndcg"
        _move_others(scores[relevant], scores[others], is_ndcg, largest, in_front)
    return relevant, others, in_front


def loss_of_merge(in_front: IntArray, measure: TopMeasure) -> float:
    """Compute 1 minus the value of an order with so many other items in front of relevant ones."""
    return max(0.0, 1.0 - _value(in_front, measure))


def _value(in_front: IntArray, measure: TopMeasure) -> float:
    """Compute the value of an order from the number of other items before each relevant one."""
    return float(_gains(in_front, measure).sum() / _gains(0 * in_front, measure).sum())


def _gains(in_front: IntArray, measure: TopMeasure) -> FloatArray:
    """Compute the gain of each relevant item."""
    rank = np.arange(1, len(in_front) + 1)
    place = rank + in_front
    if measure.name == "precision":
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
