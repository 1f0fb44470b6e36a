"""The order of highest score plus loss, where the loss looks at the top of the list.

Relevant and other items are each in the order of their scores; only how the two lists are merged is
searched.  An other item moves in front of relevant ones while that gains more loss than score, and
the moves are independent: each is worth less the further down the other item stands (Yue et al.,
SIGIR 2007, section 4.3, for average precision; Chakrabarti et al., KDD 2008, for NDCG).
"""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled

# How the value of an order is measured.
AVERAGE_PRECISION = 0
NDCG = 1


def value_of_order(scores: FloatArray, levels: IntArray, measure: int) -> float:
    """Average precision or NDCG of items in the order of ``scores``.

    Where relevant and other items are tied, it is the mean of the best and the worst order.

    Parameters
    ----------
    scores : ndarray, shape (n_items,)
    levels : ndarray of int64, shape (n_items,)
        1 for relevant items, 0 for others; there are some of each.
    measure : int
        ``AVERAGE_PRECISION`` or ``NDCG``.
    """
    relevant, others = np.sort(-scores[levels == 1]), np.sort(-scores[levels == 0])
    ends = (np.searchsorted(others, relevant, side=side) for side in ("left", "right"))
    return 0.5 * sum(_value(in_front, measure) for in_front in ends)


def most_violated_order(
    scores: FloatArray, levels: IntArray, measure: int
) -> tuple[FloatArray, float]:
    """Order of the largest ``1 - value`` minus the score of its swapped pairs.

    A pair of a relevant item i and another item j scores ``(scores[i] - scores[j]) / n_pairs``.

    Parameters
    ----------
    scores, levels, measure
        As :func:`value_of_order` takes them.

    Returns
    -------
    signed : ndarray, shape (n_items,)
        Share of the swapped pairs of each item, negative for other items.
    loss : float
        1 minus the value of the order.
    """
    order = np.argsort(-scores, kind="stable")
    relevant, others = order[levels[order] == 1], order[levels[order] == 0]
    n_relevant, n_others = len(relevant), len(others)
    in_front = np.zeros(n_relevant, np.int64)
    largest = float(_gains(np.zeros(n_relevant, np.int64), measure).sum())
    _move_others(scores[relevant], scores[others], measure, largest, in_front)
    signed = np.zeros(len(scores))
    signed[relevant] = in_front / (n_relevant * n_others)
    # The first others stand in front of a relevant item, as many as are in front of it.
    passed = n_relevant - np.searchsorted(in_front, np.arange(n_others), side="right")
    signed[others] = -passed / (n_relevant * n_others)
    return signed, max(0.0, 1.0 - _value(in_front, measure))


def _value(in_front: IntArray, measure: int) -> float:
    """Value of an order with so many other items in front of each relevant one."""
    return float(_gains(in_front, measure).sum() / _gains(0 * in_front, measure).sum())


def _gains(in_front: IntArray, measure: int) -> FloatArray:
    number = np.arange(1, len(in_front) + 1)
    place = number + in_front
    return number / place if measure == AVERAGE_PRECISION else 1.0 / np.log2(1.0 + place)


@compiled
def _move_others(
    relevant: FloatArray, others: FloatArray, measure: int, largest: float, in_front: IntArray
) -> None:
    """Move other items in front of relevant ones, both in descending order of their scores."""
    n_relevant = len(relevant)
    share = 1.0 / (n_relevant * len(others))
    for j in range(len(others)):
        total, best, place = 0.0, 0.0, n_relevant
        for i in range(n_relevant - 1, -1, -1):
            at = i + 1.0 + j
            if measure == 0:
                lost = (i + 1.0) / at - (i + 1.0) / (at + 1.0)
            else:
                lost = 1.0 / np.log2(1.0 + at) - 1.0 / np.log2(2.0 + at)
            total += lost / largest - (relevant[i] - others[j]) * share
            if total > best:
                best, place = total, i
        for i in range(place, n_relevant):
            in_front[i] += 1
