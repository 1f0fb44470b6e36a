"""Exact search for the best zeros and ones under a few constraints, from the prices of these.

With a price y of each constraint, the value of an entry is what it gives less what it takes,
``r = c - A'y``.  No solution is worth more than the bound at which each entry follows the sign of
its r, and one that departs from that in some entries is worth less than the bound by the sum of
their ``|r|`` at least.  With the prices of the relaxation few sets of entries have a sum below the
loss of the best solution, and all of them are tried.

The bound is that of Lagrangian relaxation (Geoffrion, Lagrangean relaxation for integer
programming, Mathematical Programming Study 1974).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.runtime.compiled import compiled

# Part of its size, and of 1, by which a side may be passed.
_SLIP = 1e-9
# A solution is better where it is by this part of the largest value.
_LEAST_GAIN = 1e-9
# Entries that the first search may change all at once, about; each further one doubles the loss.
_FIRST_ENTRIES = 8


class SearchedSolution(NamedTuple):
    """The best solution that a search came to, and whether no other one is better."""

    solution: FloatArray | None
    is_proven: bool


def search_binary(
    values: FloatArray,
    rows: FloatArray,
    sides: FloatArray,
    prices: FloatArray,
    bounds: FloatArray,
    most_nodes: int,
) -> SearchedSolution:
    """Search for zeros and ones z of the largest ``values'z`` with ``low <= rows z <= high``.

    Parameters
    ----------
    values : ndarray, shape (n_items,)
    rows : ndarray, shape (n_rows, n_items)
    sides : ndarray, shape (2, n_rows)
        Low and high sides; minus and plus infinity where there is none.
    prices : ndarray, shape (n_rows,)
        What a unit of the high side is worth, negative for the low one.  The better they are, the
        shorter is the search.
    bounds : ndarray, shape (n_items, 2)
        Smallest and largest value of each entry, 0 or 1.
    most_nodes : int
        Sets of entries after which the search gives up.

    Returns
    -------
    result : SearchedSolution
    """
    # A side that is not there has no price.
    prices = np.where(np.isfinite(np.where(prices > 0, sides[1], sides[0])), prices, 0.0)
    reduced = values - rows.T @ prices
    base = np.clip((reduced > 0).astype(np.float64), *bounds.T)
    spent = np.where(prices > 0, sides[1], np.where(prices < 0, sides[0], 0.0))
    excess = float(prices @ spent + reduced @ base - values @ base)
    # Above 0 even then: of solutions of no worth, one is enough.
    least = _LEAST_GAIN * float(np.abs(values).max(initial=0.0)) or np.finfo(np.float64).tiny

    is_free = bounds[:, 0] < bounds[:, 1]
    order = np.argsort(np.abs(reduced), kind="stable")
    order = order[is_free[order]]
    signs, sizes = 1.0 - 2.0 * base[order], np.abs(reduced[order])
    moves = np.ascontiguousarray((rows[:, order] * signs).T)
    # What all entries from each one on can lower and raise.
    repair = np.zeros((2, len(order) + 1, len(rows)))
    repair[0, :-1] = np.minimum(moves, 0.0)[::-1].cumsum(axis=0)[::-1]
    repair[1, :-1] = np.maximum(moves, 0.0)[::-1].cumsum(axis=0)[::-1]
    size = np.where(np.isfinite(sides), np.abs(sides), 0.0)
    passed = sides + np.array([[-_SLIP], [_SLIP]]) * (1.0 + size)

    budget = max(float(sizes[:_FIRST_ENTRIES].max(initial=0.0)), least)
    total = float(sizes.sum())
    while True:
        loss, flips, n_nodes = _search(
            values[order] * signs, sizes, moves, repair, rows @ base, passed, excess, budget,
            most_nodes, least,
        )  # fmt: skip
        most_nodes -= n_nodes
        is_proven = most_nodes > 0 and (loss <= budget + least or budget >= total)
        if is_proven or most_nodes <= 0:
            break
        # Nothing below the loss of a solution is left out next time.
        budget = min(2.0 * budget, loss) if loss < np.inf else 2.0 * budget
    if loss == np.inf:
        return SearchedSolution(None, is_proven)
    base[order] = np.where(flips, 1.0 - base[order], base[order])
    return SearchedSolution(base, is_proven)


@compiled
def _search(
    gains: FloatArray,
    sizes: FloatArray,
    moves: FloatArray,
    repair: FloatArray,
    activity: FloatArray,
    sides: FloatArray,
    excess: float,
    budget: float,
    most_nodes: int,
    least: float,
) -> tuple[float, NDArray[np.bool_], int]:
    """Try sets of entries whose sizes, which ascend, have a sum of at most a budget, depth first.

    Returns the smallest loss, infinite without a solution, its set, and how many sets were tried.
    """
    n, n_rows = len(sizes), len(activity)
    now, stack, depth = activity.copy(), np.empty(n + 1, np.int64), 0
    is_flipped, best_flips = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    # Excess over the bound of the present set, and the sum of its sizes.
    loss, spent, best, n_nodes, entry = excess, 0.0, np.inf, 0, 0
    while True:
        n_nodes += 1
        is_feasible, is_repairable = True, True
        for i in range(n_rows):
            if now[i] < sides[0, i]:
                is_feasible = False
                is_repairable &= now[i] + repair[1, entry, i] >= sides[0, i]
            elif now[i] > sides[1, i]:
                is_feasible = False
                is_repairable &= now[i] + repair[0, entry, i] <= sides[1, i]
        if is_feasible and loss < best - least:
            best = loss
            best_flips[:] = is_flipped
            budget = min(budget, best - least)
        if n_nodes >= most_nodes:
            return best, best_flips, n_nodes
        if not is_repairable:
            entry = n
        # One more entry, or else the one after the last.
        while entry >= n or spent + sizes[entry] > budget:
            if depth == 0:
                return best, best_flips, n_nodes
            depth -= 1
            entry = stack[depth]
            is_flipped[entry] = False
            spent, loss = spent - sizes[entry], loss + gains[entry]
            for i in range(n_rows):
                now[i] -= moves[entry, i]
            entry += 1
        stack[depth] = entry
        depth += 1
        is_flipped[entry] = True
        spent, loss = spent + sizes[entry], loss - gains[entry]
        for i in range(n_rows):
            now[i] += moves[entry, i]
        entry += 1
