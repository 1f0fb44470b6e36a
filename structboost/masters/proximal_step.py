"""The quadratic step of the proximal bundle method, by its dual."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.masters.products import (
    inner_product,
    inner_products,
    solution,
    times_vector,
    weighted_rows,
)
from structboost.runtime.compiled import compiled


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

    cuts: IntArray
    gram: FloatArray
    positive: NDArray[np.bool_]


def no_curvature(n_columns: int) -> Curvature:
    """Nothing known yet."""
    return Curvature(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros(n_columns, np.bool_))


def proximal_step(
    matrix: FloatArray,
    losses: FloatArray,
    budget: float,
    center: FloatArray,
    step: float,
    multipliers: FloatArray,
    tolerance: float,
    max_iterations: int,
    known: Curvature,
    *,
    ordered: bool = False,
) -> tuple[FloatArray, float, int, Curvature]:
    """``min sum(w) + budget * max(losses - matrix @ w) + |w - center|^2 / (2 step)`` over w >= 0.

    Solved in its dual, a concave piecewise quadratic over the simplex ``multipliers >= 0, sum =
    budget``, by an active-set Newton method.  For given multipliers the weights are ``w = max(0,
    center - step + step * matrix' multipliers)``.

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
    ordered : bool
        Whether the weights must be the same, bit by bit, whatever BLAS does
        (:mod:`structboost.masters.products`); slower where there are many cuts.

    Returns
    -------
    weights : ndarray, shape (n_columns,)
    gap : float
    n_iterations : int
    curvature : Curvature
    """
    weights, gap, n_iterations, cuts, gram, positive = _proximal_step(
        matrix,
        losses,
        budget,
        center,
        step,
        multipliers,
        tolerance,
        max_iterations,
        *known,
        ordered,
    )
    return weights, gap, n_iterations, Curvature(cuts, gram, positive)


@compiled
def _proximal_step(
    matrix: FloatArray,
    losses: FloatArray,
    budget: float,
    center: FloatArray,
    step: float,
    multipliers: FloatArray,
    tolerance: float,
    max_iterations: int,
    known_cuts: IntArray,
    known_gram: FloatArray,
    known_positive: NDArray[np.bool_],
    ordered: bool,
) -> tuple[FloatArray, float, int, IntArray, FloatArray, NDArray[np.bool_]]:
    """The same, the fields of the curvature one by one."""
    # Free cuts: those that had a multiplier, in the order in which they got it; the known ones come
    # first. Their rows stand together: a Newton step then touches them only, and a pass over all
    # cuts finds the next.
    order, n_known, gram = _free_cuts(multipliers, known_cuts, known_gram)
    n_free = len(order)
    rows, level, own = matrix[order], losses[order], multipliers[order]
    positive = known_positive.copy()
    is_free = multipliers > 0
    unclipped = center - step + step * weighted_rows(own, rows, ordered)
    weights = np.maximum(unclipped, 0.0)
    n_iterations = 0
    stuck = False
    while True:
        slope = losses - times_vector(matrix, weights, ordered)
        slack = inner_product(own, slope[order], ordered) / budget
        steepest = int(np.argmax(slope))
        gap = budget * (slope[steepest] - slack)
        if gap <= tolerance or stuck or n_iterations >= max_iterations:
            multipliers[:] = 0.0
            multipliers[order] = own
            return (
                weights,
                gap,
                n_iterations,
                order[:n_known],
                gram[:n_known, :n_known].copy(),
                positive,
            )
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
            _update_gram(rows[:n_known], unclipped, positive, gram, ordered)
            _extend_gram(rows[:n_free], positive, n_known, gram, ordered)
            n_known = n_free
            free_slope = level - times_vector(rows[:n_free], weights, ordered)
            slack = inner_product(own, free_slope, ordered) / budget
            direction = _newton_direction(
                gram, step, own, free_slope - slack, int(np.argmax(free_slope)), ordered
            )
            change = weighted_rows(direction, rows[:n_free], ordered)
            gain = inner_product(level, direction, ordered)
            length = _step_length(gain, change, unclipped, step, own, direction)
            if length <= 0:
                stuck = True
                break
            own += length * direction
            own[own < 1e-14 * budget] = 0.0
            own *= budget / own.sum()
            unclipped += (length * step) * change
            weights = np.maximum(unclipped, 0.0)
            free_slope = level - times_vector(rows[:n_free], weights, ordered)
            left = budget * (free_slope.max() - inner_product(own, free_slope, ordered) / budget)
            at_rest = left <= inner_tolerance or n_iterations >= max_iterations


@compiled
def _free_cuts(
    multipliers: FloatArray, known_cuts: IntArray, known_gram: FloatArray
) -> tuple[IntArray, int, FloatArray]:
    """Cuts with a multiplier, the ``n_known`` known ones first, and the products of those."""
    kept = np.flatnonzero(multipliers[known_cuts] > 0)
    is_new = multipliers > 0
    is_new[known_cuts] = False
    n_known = len(kept)
    order = np.concatenate((known_cuts[kept], np.flatnonzero(is_new)))
    gram = np.zeros((2 * len(order), 2 * len(order)))
    for i in range(n_known):
        for j in range(n_known):
            gram[i, j] = known_gram[kept[i], kept[j]]
    return order, n_known, gram


@compiled
def _with_row(rows: FloatArray, at: int, row: FloatArray) -> FloatArray:
    """``rows`` with ``row`` at its place; twice as large where it was full."""
    if at == len(rows):
        grown = np.empty((2 * len(rows), rows.shape[1]))
        grown[: len(rows)] = rows
        rows = grown
    rows[at] = row
    return rows


@compiled
def _enlarged(gram: FloatArray, size: int) -> FloatArray:
    """``gram`` with room for more cuts."""
    grown = np.zeros((size, size))
    grown[: len(gram), : len(gram)] = gram
    return grown


@compiled
def _update_gram(
    rows: FloatArray,
    unclipped: FloatArray,
    positive: NDArray[np.bool_],
    gram: FloatArray,
    ordered: bool,
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
        gram[:n_known, :n_known] += inner_products(signed, block, ordered)


@compiled
def _extend_gram(
    rows: FloatArray, positive: NDArray[np.bool_], n_known: int, gram: FloatArray, ordered: bool
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
    new = inner_products(fresh, rows, ordered)
    gram[n_known:n_free, :n_free] = new
    gram[:n_free, n_known:n_free] = new.T


@compiled
def _newton_direction(
    gram: FloatArray,
    step: float,
    multipliers: FloatArray,
    slope: FloatArray,
    entering: int,
    ordered: bool,
) -> FloatArray:
    """Ascent direction of zero sum on the positive multipliers and ``entering``, which rises."""
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
        moves = solution(system, right, ordered)
        shift = moves[:, 0].sum() / moves[:, 1].sum()
        for i in range(n):
            direction[index[i]] = moves[i, 0] - shift * moves[i, 1]
        blocked = False
        for i in range(n_free):
            if moving[i] and multipliers[i] <= 0 and direction[i] < 0:
                moving[i] = False
                blocked = True
        if not blocked:
            return direction


@compiled
def _step_length(
    gain: float,
    change: FloatArray,
    unclipped: FloatArray,
    step: float,
    multipliers: FloatArray,
    direction: FloatArray,
) -> float:
    """Maximiser of the dual along ``direction``, up to the first multiplier that reaches zero.

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
