"""The quadratic step of the proximal bundle method, by its dual.

Compiled in loops over single numbers: array expressions take numba several times as long to
compile (docs/decisions/first-use.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.masters.products import (
    BLAS,
    ORDERED,
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
        ORDERED if ordered else BLAS,
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
    blas: IntArray,
) -> tuple[FloatArray, float, int, IntArray, FloatArray, NDArray[np.bool_]]:
    """The same, the fields of the curvature one by one."""
    # Free cuts: those that had a multiplier, in the order in which they got it; the known ones come
    # first. Their rows stand together: a Newton step then touches them only, and a pass over all
    # cuts finds the next. Where there may be more, arrays have room behind them.
    n_cuts, n_columns = matrix.shape
    order, n_known, n_free = _free_cuts(multipliers, known_cuts)
    all_rows, all_level, all_own = _gathered(matrix, losses, multipliers, order, n_free)
    gram = np.zeros((2 * n_free, 2 * n_free))
    _copy_products(multipliers, known_cuts, known_gram, gram)
    positive = known_positive.copy()
    weights = np.empty(n_columns)
    unclipped = weighted_rows(all_own[:n_free], all_rows[:n_free], blas)
    for j in range(n_columns):
        unclipped[j] = center[j] - step + step * unclipped[j]
    n_iterations = 0
    stuck = False
    while True:
        _clip(unclipped, weights)
        slope = _shortfalls(losses, matrix, weights, blas)
        steepest = _largest(slope)
        own = all_own[:n_free]
        slack = inner_product(own, _picked(slope, order[:n_free]), blas) / budget
        gap = budget * (slope[steepest] - slack)
        if gap <= tolerance or stuck or n_iterations >= max_iterations:
            for i in range(n_cuts):
                multipliers[i] = 0.0
            for i in range(n_free):
                multipliers[order[i]] = own[i]
            return weights, gap, n_iterations, order[:n_known], _corner(gram, n_known), positive
        if not _is_in(steepest, order[:n_free]):
            if n_free == len(all_rows):
                all_rows = _enlarged(all_rows, 2 * n_free, n_columns)
            for j in range(n_columns):
                all_rows[n_free, j] = matrix[steepest, j]
            order[n_free] = steepest
            all_level[n_free] = losses[steepest]
            all_own[n_free] = 0.0
            n_free += 1
            if n_free > len(gram):
                gram = _enlarged(gram, 2 * n_free, 2 * n_free)
        rows, level, own = all_rows[:n_free], all_level[:n_free], all_own[:n_free]
        inner_tolerance = max(0.1 * gap, 0.5 * tolerance)
        at_rest = False
        slope = _shortfalls(level, rows, weights, blas)
        entering = _largest(slope)
        slack = inner_product(own, slope, blas) / budget
        while not at_rest:
            n_iterations += 1
            _update_gram(rows[:n_known], unclipped, positive, gram, blas)
            _extend_gram(rows, positive, n_known, gram, blas)
            n_known = n_free
            direction = _newton_direction(gram, step, own, slope, slack, entering, blas)
            change = weighted_rows(direction, rows, blas)
            gain = inner_product(level, direction, blas)
            length = _step_length(gain, change, unclipped, step, own, direction)
            if length <= 0:
                stuck = True
                break
            _move(own, direction, length, budget)
            for j in range(n_columns):
                unclipped[j] += (length * step) * change[j]
            _clip(unclipped, weights)
            slope = _shortfalls(level, rows, weights, blas)
            entering = _largest(slope)
            slack = inner_product(own, slope, blas) / budget
            left = budget * (slope[entering] - slack)
            at_rest = left <= inner_tolerance or n_iterations >= max_iterations


@compiled
def _free_cuts(multipliers: FloatArray, known_cuts: IntArray) -> tuple[IntArray, int, int]:
    """Cuts with a multiplier, the known ones first; how many are known, and how many there are."""
    order = np.empty(len(multipliers), np.int64)
    is_known = np.zeros(len(multipliers), np.bool_)
    n_known = 0
    for cut in known_cuts:
        is_known[cut] = True
        if multipliers[cut] > 0:
            order[n_known] = cut
            n_known += 1
    n_free = n_known
    for cut in range(len(multipliers)):
        if multipliers[cut] > 0 and not is_known[cut]:
            order[n_free] = cut
            n_free += 1
    return order, n_known, n_free


@compiled
def _gathered(
    matrix: FloatArray, losses: FloatArray, multipliers: FloatArray, order: IntArray, n_free: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows, losses and multipliers of the free cuts."""
    rows = np.empty((2 * n_free, matrix.shape[1]))
    level, own = np.empty(len(losses)), np.empty(len(losses))
    for i in range(n_free):
        level[i], own[i] = losses[order[i]], multipliers[order[i]]
        for j in range(matrix.shape[1]):
            rows[i, j] = matrix[order[i], j]
    return rows, level, own


@compiled
def _copy_products(
    multipliers: FloatArray, known_cuts: IntArray, known_gram: FloatArray, gram: FloatArray
) -> None:
    """Fill in the products of the known cuts with a multiplier."""
    at = 0
    for i in range(len(known_cuts)):
        if multipliers[known_cuts[i]] > 0:
            other = 0
            for j in range(len(known_cuts)):
                if multipliers[known_cuts[j]] > 0:
                    gram[at, other] = known_gram[i, j]
                    other += 1
            at += 1


@compiled
def _enlarged(matrix: FloatArray, n_rows: int, n_columns: int) -> FloatArray:
    """``matrix`` with room for more rows and columns."""
    grown = np.empty((n_rows, n_columns))
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            grown[i, j] = matrix[i, j]
    return grown


@compiled
def _corner(gram: FloatArray, n: int) -> FloatArray:
    corner = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            corner[i, j] = gram[i, j]
    return corner


@compiled
def _clip(unclipped: FloatArray, weights: FloatArray) -> None:
    for j in range(len(weights)):
        weights[j] = 0.0 if unclipped[j] < 0.0 else unclipped[j]


@compiled
def _shortfalls(
    losses: FloatArray, rows: FloatArray, weights: FloatArray, blas: IntArray
) -> FloatArray:
    """Loss of each cut less its product with the weights: slopes of the dual."""
    slope = times_vector(rows, weights, blas)
    for i in range(len(slope)):
        slope[i] = losses[i] - slope[i]
    return slope


@compiled
def _largest(values: FloatArray) -> int:
    """Position of the first of the largest values."""
    at = 0
    for i in range(1, len(values)):
        if values[i] > values[at]:
            at = i
    return at


@compiled
def _picked(values: FloatArray, order: IntArray) -> FloatArray:
    picked = np.empty(len(order))
    for i in range(len(order)):
        picked[i] = values[order[i]]
    return picked


@compiled
def _is_in(cut: int, order: IntArray) -> bool:
    for other in order:
        if other == cut:
            return True
    return False


@compiled
def _update_gram(
    rows: FloatArray,
    unclipped: FloatArray,
    positive: NDArray[np.bool_],
    gram: FloatArray,
    blas: IntArray,
) -> None:
    """Bring ``positive`` and the products of the known cuts over its columns up to date."""
    n_known = len(rows)
    n_changed = 0
    for j in range(len(positive)):
        if (unclipped[j] > 0) != positive[j]:
            n_changed += 1
    block = np.empty((n_known, n_changed))
    signed = np.empty((n_known, n_changed))
    at = 0
    for j in range(len(positive)):
        if (unclipped[j] > 0) != positive[j]:
            sign = -1.0 if positive[j] else 1.0
            for i in range(n_known):
                block[i, at] = rows[i, j]
                signed[i, at] = sign * rows[i, j]
            positive[j] = not positive[j]
            at += 1
    change = inner_products(signed, block, blas)
    for i in range(n_known):
        for j in range(n_known):
            gram[i, j] += change[i, j]


@compiled
def _extend_gram(
    rows: FloatArray, positive: NDArray[np.bool_], n_known: int, gram: FloatArray, blas: IntArray
) -> None:
    """Fill the rows of the cuts that became free."""
    n_free, n_columns = rows.shape
    if n_known == n_free:
        return
    fresh = np.zeros((n_free - n_known, n_columns))
    for i in range(n_known, n_free):
        for j in range(n_columns):
            if positive[j]:
                fresh[i - n_known, j] = rows[i, j]
    new = inner_products(fresh, rows, blas)
    for i in range(n_known, n_free):
        for j in range(n_free):
            gram[i, j] = new[i - n_known, j]
    for i in range(n_known, n_free):
        for j in range(n_free):
            gram[j, i] = new[i - n_known, j]


@compiled
def _newton_direction(
    gram: FloatArray,
    step: float,
    multipliers: FloatArray,
    slope: FloatArray,
    slack: float,
    entering: int,
    blas: IntArray,
) -> FloatArray:
    """Ascent direction of zero sum on the positive multipliers and ``entering``, which rises."""
    n_free = len(multipliers)
    trace = 0.0
    for i in range(n_free):
        trace += gram[i, i]
    ridge = 1e-10 * step * trace / n_free + 1e-14
    direction = np.empty(n_free)
    index = np.empty(n_free, np.int64)
    moving = np.empty(n_free, np.bool_)
    for i in range(n_free):
        moving[i] = multipliers[i] > 0
    moving[entering] = True
    while True:
        n = 0
        for i in range(n_free):
            direction[i] = 0.0
            if moving[i]:
                index[n] = i
                n += 1
        if n < 2:
            return direction
        system = np.empty((n, n))
        right = np.empty((2, n))
        for i in range(n):
            for j in range(n):
                system[i, j] = step * gram[index[i], index[j]]
            system[i, i] += ridge
            right[0, i] = slope[index[i]] - slack
            right[1, i] = 1.0
        moves = solution(system, right, blas)
        by_slope, by_ones = 0.0, 0.0
        for i in range(n):
            by_slope += moves[0, i]
            by_ones += moves[1, i]
        shift = by_slope / by_ones
        blocked = False
        for i in range(n):
            k = index[i]
            direction[k] = moves[0, i] - shift * moves[1, i]
            if multipliers[k] <= 0 and direction[k] < 0:
                moving[k] = False
                blocked = True
        if not blocked:
            return direction


@compiled
def _move(own: FloatArray, direction: FloatArray, length: float, budget: float) -> None:
    """Move the multipliers, and keep their sum."""
    total = 0.0
    for i in range(len(own)):
        own[i] += length * direction[i]
        if own[i] < 1e-14 * budget:
            own[i] = 0.0
        total += own[i]
    scale = budget / total
    for i in range(len(own)):
        own[i] *= scale


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
    high = longest if longest < np.inf else 1.0
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
