"""The order of highest score plus loss, where the loss looks at the top of the list.

Relevant and other items are each in the order of their scores; only how the two lists are merged is
searched.  An other item moves in front of relevant ones while that gains more loss than score, and
the moves are independent: each is worth less the further down the other item stands (Yue et al.,
SIGIR 2007, section 4.3, for average precision; Chakrabarti et al., KDD 2008, for NDCG).  For the
precision of the first k, the best order is found for each number of relevant items among them
(Joachims, ICML 2005, Algorithm 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


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
