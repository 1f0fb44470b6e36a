"""The quadratic step of the proximal bundle method, by its dual."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


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
) -> tuple[NDArray[np.float64], float, int]:
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

    Returns
    -------
    weights : ndarray, shape (n_columns,)
    gap : float
    n_iterations : int
    """
    n_cuts, n_columns = matrix.shape
    # Free cuts: those that had a multiplier, in the order in which they got it.  Their products over the
    # columns of positive weight are the curvature of the dual; they are kept up to date.
    free = np.empty(n_cuts, np.int64)
    is_free = np.zeros(n_cuts, np.bool_)
    n_free = 0
    gram = np.zeros((n_cuts, n_cuts))
    positive = np.zeros(n_columns, np.bool_)
    n_iterations = 0
    unclipped = center - step + step * (multipliers @ matrix)
    weights = np.maximum(unclipped, 0.0)
    while True:
        slope = losses - matrix @ weights
        slack = (multipliers @ slope) / budget
        steepest = int(np.argmax(slope))
        gap = budget * (slope[steepest] - slack)
        if gap <= tolerance or n_iterations >= max_iterations:
            return weights, gap, n_iterations
        n_iterations += 1
        _update_gram(matrix, unclipped, positive, free[:n_free], gram)
        for k in range(n_cuts):
            if not is_free[k] and (multipliers[k] > 0 or k == steepest):
                is_free[k] = True
                free[n_free] = k
                n_free += 1
        _extend_gram(matrix, positive, free[:n_free], gram)
        direction = _newton_direction(gram, step, multipliers, slope - slack, free[:n_free], steepest)
        length = _step_length(matrix, losses, unclipped, step, multipliers, direction, free[:n_free])
        if length <= 0:
            return weights, gap, n_iterations
        unclipped[:] = 0.0
        for i in range(n_free):
            k = free[i]
            multipliers[k] += length * direction[i]
            if multipliers[k] < 1e-14 * budget:
                multipliers[k] = 0.0
        multipliers *= budget / multipliers.sum()
        for i in range(n_free):
            if multipliers[free[i]] > 0:
                unclipped += multipliers[free[i]] * matrix[free[i]]
        unclipped = center - step + step * unclipped
        weights = np.maximum(unclipped, 0.0)


@njit(cache=True, nogil=True)
def _update_gram(
    matrix: NDArray[np.float64],
    unclipped: NDArray[np.float64],
    positive: NDArray[np.bool_],
    free: NDArray[np.int64],
    gram: NDArray[np.float64],
) -> None:
    """Bring ``positive`` and the products of the free cuts over its columns up to date."""
    changed = np.flatnonzero((unclipped > 0) != positive)
    n_free = len(free)
    block = np.empty((n_free, len(changed)))
    signed = np.empty((n_free, len(changed)))
    for j in range(len(changed)):
        column = changed[j]
        sign = -1.0 if positive[column] else 1.0
        positive[column] = not positive[column]
        for i in range(n_free):
            block[i, j] = matrix[free[i], column]
            signed[i, j] = sign * block[i, j]
    if n_free and len(changed):
        gram[:n_free, :n_free] += signed @ block.T


@njit(cache=True, nogil=True)
def _extend_gram(
    matrix: NDArray[np.float64],
    positive: NDArray[np.bool_],
    free: NDArray[np.int64],
    gram: NDArray[np.float64],
) -> None:
    """Fill the rows of the cuts that became free: those whose square is still zero."""
    n_free = len(free)
    first = n_free
    while first > 0 and gram[first - 1, first - 1] == 0.0:
        first -= 1
    columns = np.flatnonzero(positive)
    if first == n_free or len(columns) == 0:
        return
    block = np.empty((n_free, len(columns)))
    for i in range(n_free):
        row = matrix[free[i]]
        for j in range(len(columns)):
            block[i, j] = row[columns[j]]
    new = block[first:] @ block.T
    gram[first:n_free, :n_free] = new
    gram[:n_free, first:n_free] = new.T


@njit(cache=True, nogil=True)
def _newton_direction(
    gram: NDArray[np.float64],
    step: float,
    multipliers: NDArray[np.float64],
    slope: NDArray[np.float64],
    free: NDArray[np.int64],
    entering: int,
) -> NDArray[np.float64]:
    """Ascent direction with zero sum on the positive multipliers and the entering one, which must rise."""
    n_free = len(free)
    trace = 0.0
    for i in range(n_free):
        trace += gram[i, i]
    ridge = 1e-10 * step * trace / n_free + 1e-14
    direction = np.zeros(n_free)
    moving = np.empty(n_free, np.bool_)
    for i in range(n_free):
        moving[i] = multipliers[free[i]] > 0 or free[i] == entering
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
            right[i, 0] = slope[free[index[i]]]
        solution = np.linalg.solve(system, right)
        shift = solution[:, 0].sum() / solution[:, 1].sum()
        for i in range(n):
            direction[index[i]] = solution[i, 0] - shift * solution[i, 1]
        blocked = False
        for i in range(n_free):
            if moving[i] and multipliers[free[i]] <= 0 and direction[i] < 0:
                moving[i] = False
                blocked = True
        if not blocked:
            return direction


@njit(cache=True, nogil=True)
def _step_length(
    matrix: NDArray[np.float64],
    losses: NDArray[np.float64],
    unclipped: NDArray[np.float64],
    step: float,
    multipliers: NDArray[np.float64],
    direction: NDArray[np.float64],
    free: NDArray[np.int64],
) -> float:
    """Exact maximiser of the dual along ``direction``, up to the first multiplier that reaches zero."""
    longest = np.inf
    gain = 0.0
    change = np.zeros(matrix.shape[1])
    for i in range(len(free)):
        if direction[i] != 0:
            gain += losses[free[i]] * direction[i]
            change += direction[i] * matrix[free[i]]
        if direction[i] < 0:
            longest = min(longest, -multipliers[free[i]] / direction[i])
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
