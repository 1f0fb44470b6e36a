"""Values of orders of items at the top of the list, and the most violated order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import not_negative, real_array
from structboost.inference.graded_lists import most_violated_graded_order, value_of_graded_order
from structboost.inference.pair_sorting import weigh_pairs
from structboost.inference.top_of_list import TopMeasure, loss_of_merge, merge, value_of_order
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
