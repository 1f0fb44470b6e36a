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
    n_cuts = len(losses)
    free = np.empty(n_cuts, np.int64)
    n_iterations = 0
    unclipped = center - step + step * (multipliers @ matrix)
    weights = np.maximum(unclipped, 0.0)
    while True:
        slope = losses - matrix @ weights
        slack = (multipliers @ slope) / budget
        steepest = np.argmax(slope)
        gap = budget * (slope[steepest] - slack)
        if gap <= tolerance or n_iterations >= max_iterations:
            return weights, gap, n_iterations
        n_iterations += 1
        n_free = 0
        for k in range(n_cuts):
            if multipliers[k] > 0 or k == steepest:
                free[n_free] = k
                n_free += 1
        direction = _newton_direction(matrix, unclipped, step, multipliers, slope - slack, free[:n_free])
        length = _step_length(matrix, losses, unclipped, step, multipliers, direction, free[:n_free])
        if length <= 0:
            return weights, gap, n_iterations
        for i in range(n_free):
            k = free[i]
            multipliers[k] += length * direction[i]
            if multipliers[k] < 1e-14 * budget:
                multipliers[k] = 0.0
        multipliers *= budget / multipliers.sum()
        unclipped = center - step + step * (multipliers @ matrix)
        weights = np.maximum(unclipped, 0.0)


@njit(cache=True, nogil=True)
def _newton_direction(
    matrix: NDArray[np.float64],
    unclipped: NDArray[np.float64],
    step: float,
    multipliers: NDArray[np.float64],
    slope: NDArray[np.float64],
    free: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Ascent direction on the free multipliers with zero sum; those at zero do not fall."""
    positive = np.flatnonzero(unclipped > 0)
    n_free = len(free)
    block = np.empty((n_free, max(len(positive), 1)))
    block[:] = 0.0
    for i in range(n_free):
        row = matrix[free[i]]
        for j in range(len(positive)):
            block[i, j] = row[positive[j]]
    hessian = step * (block @ block.T)
    ridge = 1e-10 * np.trace(hessian) / n_free + 1e-14
    direction = np.zeros(n_free)
    moving = np.ones(n_free, np.bool_)
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
                system[i, j] = hessian[index[i], index[j]]
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
