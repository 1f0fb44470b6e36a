"""The quadratic step of the proximal bundle method, by its dual."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray


class Curvature(NamedTuple):
    """Products of cuts over the columns of positive weight: what one step leaves for the next.

    Parameters
    ----------
    cuts : ndarray of int64, shape (n_known,)
        Rows of the matrix.
    gram : ndarray, shape (n_known, n_known)
    positive : ndarray of bool, shape (n_columns,)
        The columns over which the products are taken.
    """

    cuts: NDArray[np.int64]
    gram: NDArray[np.float64]
    positive: NDArray[np.bool_]


def no_curvature(n_columns: int) -> Curvature:
    """Nothing known yet."""
    return Curvature(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros(n_columns, np.bool_))


@njit(cache=True, nogil=True)
def proximal_step(
    matrix: NDArray[np.float64],
    losses: NDArray[np.float64],
    budget: float,
    center: NDArray[np.float64],
    step: float,
    multipliers: NDArray[np.float64],
    tolerance: float,
    max_iterations: int,
    known: Curvature,
) -> tuple[NDArray[np.float64], float, int, Curvature]:
    """``min sum(w) + budget * max(losses - matrix @ w) + |w - center|^2 / (2 step)`` over w >= 0.

    Solved in its dual, a concave piecewise quadratic over the simplex ``multipliers >= 0, sum = budget``,
    by an active-set Newton method.  For given multipliers the weights are
    ``w = max(0, center - step + step * matrix' multipliers)``.

    Parameters
    ----------
    matrix : ndarray, shape (n_cuts, n_columns)
        The first row must be the empty cut: zeros, with loss 0.
    losses : ndarray, shape (n_cuts,)
    budget : float
        C.
    center : ndarray, shape (n_columns,)
    multipliers : ndarray, shape (n_cuts,)
        A feasible start, changed in place to the solution.
    tolerance : float
        Duality gap at which to stop.
    known : Curvature
        What the last step left, its cuts numbered as here; it only saves time.

    Returns
    -------
    weights : ndarray, shape (n_columns,)
    gap : float
    n_iterations : int
    curvature : Curvature
    """
    # Free cuts: those that had a multiplier, in the order in which they got it; the known ones come first.
    # Their rows stand together: a Newton step then touches them only, and a pass over all cuts finds the next.
    order, n_known, gram = _free_cuts(multipliers, known)
    n_free = len(order)
    rows, level, own = matrix[order], losses[order], multipliers[order]
    positive = known.positive.copy()
    is_free = multipliers > 0
    unclipped = center - step + step * (own @ rows)
    weights = np.maximum(unclipped, 0.0)
    n_iterations = 0
    stuck = False
    while True:
        slope = losses - matrix @ weights
        slack = (own @ slope[order]) / budget
        steepest = int(np.argmax(slope))
        gap = budget * (slope[steepest] - slack)
        if gap <= tolerance or stuck or n_iterations >= max_iterations:
            multipliers[:] = 0.0
            multipliers[order] = own
            return weights, gap, n_iterations, Curvature(order[:n_known], gram[:n_known, :n_known].copy(), positive)
        if not is_free[steepest]:
            is_free[steepest] = True
            n_free += 1
            order = np.append(order, steepest)
            level = np.append(level, losses[steepest])
            own = np.append(own, 0.0)
            rows = _with_row(rows, n_free - 1, matrix[steepest])
        inner_tolerance = max(0.1 * gap, 0.5 * tolerance)
        at_rest = False
        while not at_rest:
            n_iterations += 1
            if len(gram) < n_free:
                gram = _enlarged(gram, 2 * n_free)
            _update_gram(rows[:n_known], unclipped, positive, gram)
            _extend_gram(rows[:n_free], positive, n_known, gram)
            n_known = n_free
            free_slope = level - rows[:n_free] @ weights
            slack = (own @ free_slope) / budget
            direction = _newton_direction(gram, step, own, free_slope - slack, int(np.argmax(free_slope)))
            change = direction @ rows[:n_free]
            length = _step_length(float(level @ direction), change, unclipped, step, own, direction)
            if length <= 0:
                stuck = True
                break
            own += length * direction
            own[own < 1e-14 * budget] = 0.0
            own *= budget / own.sum()
            unclipped += (length * step) * change
            weights = np.maximum(unclipped, 0.0)
            free_slope = level - rows[:n_free] @ weights
            left = budget * (free_slope.max() - (own @ free_slope) / budget)
            at_rest = left <= inner_tolerance or n_iterations >= max_iterations


@njit(cache=True, nogil=True)
def _free_cuts(
    multipliers: NDArray[np.float64], known: Curvature
) -> tuple[NDArray[np.int64], int, NDArray[np.float64]]:
    """Cuts with a multiplier, the ``n_known`` known ones first, and the products of those."""
    kept = np.flatnonzero(multipliers[known.cuts] > 0)
    is_new = multipliers > 0
    is_new[known.cuts] = False
    n_known = len(kept)
    order = np.concatenate((known.cuts[kept], np.flatnonzero(is_new)))
    gram = np.zeros((2 * len(order), 2 * len(order)))
    for i in range(n_known):
        for j in range(n_known):
            gram[i, j] = known.gram[kept[i], kept[j]]
    return order, n_known, gram


@njit(cache=True, nogil=True)
def _with_row(rows: NDArray[np.float64], at: int, row: NDArray[np.float64]) -> NDArray[np.float64]:
    """``rows`` with ``row`` at its place; twice as large where it was full."""
    if at == len(rows):
        grown = np.empty((2 * len(rows), rows.shape[1]))
        grown[: len(rows)] = rows
        rows = grown
    rows[at] = row
    return rows


@njit(cache=True, nogil=True)
def _enlarged(gram: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """``gram`` with room for more cuts."""
    grown = np.zeros((size, size))
    grown[: len(gram), : len(gram)] = gram
    return grown


@njit(cache=True, nogil=True)
def _update_gram(
    rows: NDArray[np.float64], unclipped: NDArray[np.float64], positive: NDArray[np.bool_], gram: NDArray[np.float64]
) -> None:
    """Bring ``positive`` and the products of the known cuts over its columns up to date."""
    changed = np.flatnonzero((unclipped > 0) != positive)
    n_known = len(rows)
    block = np.empty((n_known, len(changed)))
    signed = np.empty((n_known, len(changed)))
    signs = np.where(positive[changed], -1.0, 1.0)
    for i in range(n_known):
        row = rows[i]
        for j in range(len(changed)):
            block[i, j] = row[changed[j]]
            signed[i, j] = signs[j] * block[i, j]
    positive[changed] = ~positive[changed]
    if n_known and len(changed):
        gram[:n_known, :n_known] += signed @ block.T


@njit(cache=True, nogil=True)
def _extend_gram(
    rows: NDArray[np.float64], positive: NDArray[np.bool_], n_known: int, gram: NDArray[np.float64]
) -> None:
    """Fill the rows of the cuts that became free."""
    n_free = len(rows)
    columns = np.flatnonzero(positive)
    if n_known == n_free:
        return
    if len(columns) == 0:
        gram[n_known:n_free, :n_free] = 0.0
        gram[:n_free, n_known:n_free] = 0.0
        return
    fresh = np.zeros((n_free - n_known, rows.shape[1]))
    for i in range(n_known, n_free):
        for j in columns:
            fresh[i - n_known, j] = rows[i, j]
    new = fresh @ rows.T
    gram[n_known:n_free, :n_free] = new
    gram[:n_free, n_known:n_free] = new.T


@njit(cache=True, nogil=True)
def _newton_direction(
    gram: NDArray[np.float64],
    step: float,
    multipliers: NDArray[np.float64],
    slope: NDArray[np.float64],
    entering: int,
) -> NDArray[np.float64]:
    """Ascent direction with zero sum on the positive multipliers and the entering one, which must rise."""
    n_free = len(multipliers)
    trace = 0.0
    for i in range(n_free):
        trace += gram[i, i]
    ridge = 1e-10 * step * trace / n_free + 1e-14
    direction = np.zeros(n_free)
    moving = multipliers > 0
    moving[entering] = True
    while True:
        index = np.flatnonzero(moving)
        n = len(index)
        direction[:] = 0.0
        if n < 2:
            return direction
        system = np.empty((n, n))
        right = np.ones((n, 2))
        for i in range(n):
            for j in range(n):
                system[i, j] = step * gram[index[i], index[j]]
            system[i, i] += ridge
            right[i, 0] = slope[index[i]]
        solution = np.linalg.solve(system, right)
        shift = solution[:, 0].sum() / solution[:, 1].sum()
        for i in range(n):
            direction[index[i]] = solution[i, 0] - shift * solution[i, 1]
        blocked = False
        for i in range(n_free):
            if moving[i] and multipliers[i] <= 0 and direction[i] < 0:
                moving[i] = False
                blocked = True
        if not blocked:
            return direction


@njit(cache=True, nogil=True)
def _step_length(
    gain: float,
    change: NDArray[np.float64],
    unclipped: NDArray[np.float64],
    step: float,
    multipliers: NDArray[np.float64],
    direction: NDArray[np.float64],
) -> float:
    """Exact maximiser of the dual along ``direction``, up to the first multiplier that reaches zero.

    ``gain`` and ``change`` are the products of the direction with the losses and with the matrix.
    """
    longest = np.inf
    for i in range(len(direction)):
        if direction[i] < 0:
            longest = min(longest, -multipliers[i] / direction[i])
    # The derivative along the direction falls monotonely: safeguarded Newton steps on it.
    low = 0.0
    high = longest if np.isfinite(longest) else 1.0
    length = min(1.0, high)
    for _ in range(60):
        slope = gain
        curvature = 0.0
        for j in range(len(change)):
            value = unclipped[j] + length * step * change[j]
            if value > 0:
                slope -= change[j] * value
                curvature += step * change[j] * change[j]
        if slope > 0:
            low = length
            if length >= longest:
                break
        else:
            high = length
        if abs(slope) <= 1e-12 * (abs(gain) + 1e-300):
            break
        trial = length + slope / curvature if curvature > 0 else longest
        if slope > 0:
            trial = min(trial, longest) if trial > length else 0.5 * (low + high)
            if trial <= low:
                break
        elif trial <= low or trial >= high:
            trial = 0.5 * (low + high)
        if abs(trial - length) <= 1e-13 * length:
            break
        length = trial
    return min(length, longest)
