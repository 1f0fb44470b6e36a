"""Search of 0/1 knapsacks for many rows of values at once, by capacities or by branching."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import n_dimensions, not_negative, rows
from structboost.runtime.compiled import compiled

# First depth of the search.  numba compiles once more for a literal 0.
_ROOT: Any = np.int64(0)

# Largest table of dynamic programming; beyond it, branching is used.
_LARGEST_CAPACITY = 1_000_000


def solve_knapsack(values: ArrayLike, weights: ArrayLike, capacity: ArrayLike) -> FloatArray:
    """Choose the items of the largest total value whose weights keep within the capacities.

    Parameters
    ----------
    values : array-like, shape (n_items,) or (n_problems, n_items)
        Value of each item; a row for each problem.  Items of value 0 or less are left out.
    weights : array-like, shape (n_items,) or (n_capacities, n_items)
        Weight of each item, for each capacity; not negative.
    capacity : float or array-like, shape (n_capacities,)
        Largest total weight; not negative.

    Returns
    -------
    chosen : ndarray, of the shape of ``values``
        1 on the chosen items; among equally good choices always the same.

    Notes
    -----
    Exact.  One capacity up to a million and whole weights: dynamic programming in ``O(n_items *
    capacity)`` for each problem.  Otherwise branch and bound, which may take long for more than
    some forty items.  Kellerer, Pferschy and Pisinger, Knapsack problems, Springer 2004.

    Examples
    --------
    >>> from structboost.inference import solve_knapsack
    >>> solve_knapsack([6.0, 5.0, 4.0], weights=[3, 2, 2], capacity=4).tolist()
    [0.0, 1.0, 1.0]
    """
    table, shape = rows(values, "values", "n_items")
    loads, limits = checked_loads(weights, capacity, table.shape[1])
    if len(limits) == 1 and limits[0] <= _LARGEST_CAPACITY and not (loads % 1).any():
        whole = np.minimum(loads[0], limits[0] + 1).astype(np.int64)
        chosen = np.zeros(table.shape)
        _fill_by_table(table, whole, int(limits[0]), chosen)
    else:
        chosen = best_fillings_by_branching(table, loads, limits)
    return chosen.reshape(shape)


def checked_loads(
    weights: ArrayLike, capacity: ArrayLike, n_items: int | str
) -> tuple[FloatArray, FloatArray]:
    """Check weights and capacities of :func:`solve_knapsack`, and return them as arrays."""
    sides: Any = [capacity] if n_dimensions(capacity, "capacity") == 0 else capacity
    limits = not_negative(sides, "capacity", ("n_capacities",))
    loads, _ = rows(weights, "weights", n_items)
    not_negative(loads, "weights", (len(limits), n_items))
    return loads, limits


def best_fillings_by_branching(
    values: FloatArray, weights: FloatArray, capacities: FloatArray
) -> FloatArray:
    """Fill several capacities by branch and bound, row by row, as :func:`solve_knapsack` does.

    ``weights`` have a row for each capacity.
    """
    chosen = np.zeros(values.shape)
    # Sorted here: numba takes long to compile a sort.
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.nan_to_num(values[:, None] / weights)
        burden = (weights / np.maximum(capacities, 1e-300)[:, None]).sum(axis=0)
        overall = np.nan_to_num(values / burden)
    orders = np.argsort(-rates, axis=2, kind="stable")
    branching = np.argsort(-overall, axis=1, kind="stable")
    slip = 1e-9 * (1.0 + np.abs(capacities))
    n_items = values.shape[1]
    space = np.empty(n_items, np.int64), np.empty(n_items + 1, np.int64)
    for i, row in enumerate(np.ascontiguousarray(values, np.float64)):
        _fill_by_branching(
            row, weights, capacities.copy(), slip, orders[i], branching[i], *space, chosen[i]
        )
    return chosen


@compiled
def _fill_by_table(
    values: FloatArray, weights: IntArray, capacity: int, chosen: FloatArray
) -> None:
    """Fill one capacity by dynamic programming, row by row.

    Of equally good choices, it is the one without the last item in which they differ.
    """
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
    room: FloatArray,
    slip: FloatArray,
    orders: IntArray,
    order: IntArray,
    depth_of: IntArray,
    state: IntArray,
    chosen: FloatArray,
) -> None:
    """Branch depth first, items with most value per unit of the capacities first.

    The bound of a branch is the least over the capacities of the fractional knapsack, which takes
    the items in these ``orders``.  ``room`` holds the capacities, and changes; ``slip`` is what an
    item may exceed them by.
    """
    n, n_sides = len(values), len(room)
    while n > 0 and values[order[n - 1]] <= 0.0:
        n -= 1
    for a in range(len(values)):
        depth_of[order[a]] = a
    total, best = 0.0, -1.0
    at = _ROOT
    state[at] = 0  # 0: not tried yet, 1: taken, 2: left out
    while at >= 0:
        if at == n:
            if total > best:
                best = total
                for a in range(len(values)):
                    chosen[order[a]] = 1.0 if a < n and state[a] == 1 else 0.0
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
    """Bound the value that the items from depth ``at`` on could add."""
    least = np.inf
    for k in range(len(room)):
        left, total = max(room[k], 0.0), 0.0
        for a in range(orders.shape[1]):
            item = orders[k, a]
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
