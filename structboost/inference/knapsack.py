"""0/1 knapsacks, for many rows of values at once: by a table over capacities, or by branching."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


def best_fillings(values: FloatArray, weights: IntArray, capacity: int) -> FloatArray:
    """Items of the largest total value within one capacity, by dynamic programming.

    Parameters
    ----------
    values : ndarray, shape (n, n_items)
        Value of each item, a row for each problem; items of value 0 or less are left out.
    weights : ndarray of int64, shape (n_items,)
        Weight of each item, not negative.
    capacity : int
        Largest total weight; time and memory grow with it.

    Returns
    -------
    chosen : ndarray, shape (n, n_items)
        1 on the items chosen.  Among equally good choices, it is the one without the item of the
        largest number that they differ in.
    """
    chosen = np.zeros(values.shape)
    _fill_by_table(np.ascontiguousarray(values), weights, capacity, chosen)
    return chosen


def best_fillings_by_branching(
    values: FloatArray, weights: FloatArray, capacities: FloatArray
) -> FloatArray:
    """Items of the largest total value within several capacities, by branch and bound.

    Parameters
    ----------
    values : ndarray, shape (n, n_items)
        Value of each item, a row for each problem; items of value 0 or less are left out.
    weights : ndarray, shape (n_constraints, n_items)
        Weight of each item for each capacity, not negative.
    capacities : ndarray, shape (n_constraints,)
        Largest total weights.

    Returns
    -------
    chosen : ndarray, shape (n, n_items)
        1 on the items chosen.
    """
    chosen = np.zeros(values.shape)
    # Sorted here: numba takes long to compile a sort.
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.nan_to_num(values[:, None] / weights)
        burden = (weights / np.maximum(capacities, 1e-300)[:, None]).sum(axis=0)
        overall = np.nan_to_num(values / burden)
    orders = np.argsort(-rates, axis=2, kind="stable")
    branching = np.argsort(-overall, axis=1, kind="stable")
    for i, row in enumerate(np.ascontiguousarray(values, np.float64)):
        _fill_by_branching(row, weights, capacities, orders[i], branching[i], chosen[i])
    return chosen


@compiled
def _fill_by_table(
    values: FloatArray, weights: IntArray, capacity: int, chosen: FloatArray
) -> None:
    n_items = len(weights)
    best = np.empty(capacity + 1)
    taken = np.empty((n_items, capacity + 1), np.bool_)
    for i in range(len(values)):
        best[:] = 0.0
        for j in range(n_items):
            weight = weights[j]
            taken[j, :] = False
            if values[i, j] > 0.0:
                for room in range(capacity, weight - 1, -1):
                    value = best[room - weight] + values[i, j]
                    if value > best[room]:
                        best[room] = value
                        taken[j, room] = True
        room = capacity
        for j in range(n_items - 1, -1, -1):
            if taken[j, room]:
                chosen[i, j] = 1.0
                room -= weights[j]


@compiled
def _fill_by_branching(
    values: FloatArray,
    weights: FloatArray,
    capacities: FloatArray,
    orders: IntArray,
    order: IntArray,
    chosen: FloatArray,
) -> None:
    """Depth first, items with most value per share of the capacities first.

    The bound of a branch is the least over the capacities of the fractional knapsack, which takes
    the items as ``orders`` says.
    """
    n, n_sides = len(values), len(capacities)
    while n > 0 and values[order[n - 1]] <= 0.0:
        n -= 1
    depth_of = np.empty(len(values), np.int64)
    for a in range(len(values)):
        depth_of[order[a]] = a
    room = capacities.copy()
    slip = 1e-9 * (1.0 + np.abs(capacities))
    state = np.zeros(n + 1, np.int64)  # 0: not tried yet, 1: taken, 2: left out
    total, best = 0.0, -1.0
    at = 0
    while at >= 0:
        if at == n:
            if total > best:
                best = total
                chosen[:] = 0.0
                for a in range(n):
                    if state[a] == 1:
                        chosen[order[a]] = 1.0
            at -= 1
            continue
        item = order[at]
        if state[at] == 1:
            total -= values[item]
            for k in range(n_sides):
                room[k] += weights[k, item]
        if state[at] == 2:
            state[at] = 0
            at -= 1
            continue
        fits = state[at] == 0
        if fits:
            if total + _bound(values, weights, room, orders, depth_of, at) <= best:
                at -= 1
                continue
            for k in range(n_sides):
                fits = fits and weights[k, item] <= room[k] + slip[k]
        if fits:
            state[at] = 1
            total += values[item]
            for k in range(n_sides):
                room[k] -= weights[k, item]
        else:
            state[at] = 2
        at += 1
        state[at] = 0


@compiled
def _bound(
    values: FloatArray,
    weights: FloatArray,
    room: FloatArray,
    orders: IntArray,
    depth_of: IntArray,
    at: int,
) -> float:
    """Most value that the items from depth ``at`` on could add."""
    least = np.inf
    for k in range(len(room)):
        left, total = max(room[k], 0.0), 0.0
        for item in orders[k]:
            if values[item] <= 0.0:
                break
            if depth_of[item] < at:
                continue
            if weights[k, item] <= left:
                left -= weights[k, item]
                total += values[item]
            else:
                total += values[item] * left / weights[k, item]
                break
        least = min(least, total)
    return least
