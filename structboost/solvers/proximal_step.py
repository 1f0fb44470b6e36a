"""Quadratic step of the proximal bundle method, by its dual, and products in a fixed order.

Compiled in loops over single numbers: array expressions take numba several times as long to
compile (docs/decisions.md).

The order in which BLAS adds depends on the processor and the number of threads, and so do the last
bits of a sum.  That does not matter where a program is solved to a tolerance.  It does where a
choice depends on the sum: in tracking, one box leads to the next.

Compiled products take matrices row by row, in arrays of one dimension, because fewer types compile
sooner; Fortran sees them transposed.  Their last argument is `BLAS` or `ORDERED`: numba compiles
the sums in the fixed order only where they are requested, because it leaves out what None excludes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from structboost._typing import BoolArray, FloatArray, IntArray
from structboost.runtime.compiled import compiled, real_function, subroutine

BLAS = None
ORDERED = True
_NO, _YES = np.uint8(ord("N")), np.uint8(ord("T"))


def ordered_product(a: FloatArray, b: FloatArray) -> float:
    """Compute ``a @ b`` of vectors, in the fixed order."""
    return inner_product(len(a), a, b, ORDERED)


def ordered_times_vector(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Compute ``matrix @ vector``, in the fixed order."""
    out = np.empty(len(matrix))
    times_vector(len(matrix), len(vector), matrix.reshape(-1), vector, out, ORDERED)
    return out


@compiled
def inner_product(n: int, a: FloatArray, b: FloatArray, order: bool | None) -> float:
    """Product of the first ``n`` entries of two vectors."""
    if order is None:
        one = np.int32(1)
        return float(real_function("ddot", (np.int32(n), a, one, b, one)))
    # Eight sums side by side: one alone would wait for each addition.
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = n - n % 8
    for k in range(0, whole, 8):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
        s4 += a[k + 4] * b[k + 4]
        s5 += a[k + 5] * b[k + 5]
        s6 += a[k + 6] * b[k + 6]
        s7 += a[k + 7] * b[k + 7]
    for k in range(whole, n):
        s0 += a[k] * b[k]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


@compiled
def times_vector(
    n_rows: int,
    n_columns: int,
    matrix: FloatArray,
    vector: FloatArray,
    out: FloatArray,
    order: bool | None,
) -> None:
    """Fill ``out`` with the products of the first rows with a vector."""
    if order is None:
        _multiply(_YES, n_rows, n_columns, matrix, vector, out)
        return
    for i in range(n_rows):
        row = matrix[i * n_columns : (i + 1) * n_columns]
        out[i] = inner_product(n_columns, row, vector, order)


@compiled
def weighted_rows(
    n_rows: int,
    n_columns: int,
    vector: FloatArray,
    matrix: FloatArray,
    out: FloatArray,
    order: bool | None,
) -> None:
    """Fill ``out`` with the sum of the first rows, each times an entry of the vector."""
    if order is None:
        _multiply(_NO, n_rows, n_columns, matrix, vector, out)
        return
    for j in range(n_columns):
        out[j] = 0.0
    for i in range(n_rows):
        for j in range(n_columns):
            out[j] += vector[i] * matrix[i * n_columns + j]


@compiled
def _multiply(
    transposed: np.uint8,
    n_rows: int,
    n_columns: int,
    matrix: FloatArray,
    vector: FloatArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` with the product of the matrix and the vector, 0 for an empty matrix."""
    m, n, one = np.int32(n_columns), np.int32(n_rows), np.int32(1)
    if m > 0 and n > 0:
        subroutine("dgemv", (transposed, m, n, 1.0, matrix, m, vector, one, 0.0, out, one))
        return
    for i in range(len(out)):
        out[i] = 0.0


@compiled
def inner_products(
    n: int, m: int, k: int, a: FloatArray, b: FloatArray, out: FloatArray, order: bool | None
) -> None:
    """Fill ``out`` with ``a @ b.T`` of the first ``n`` and ``m`` rows of length ``k`` > 0."""
    if order is not None:
        for i in range(n):
            for j in range(m):
                row, other = a[i * k : (i + 1) * k], b[j * k : (j + 1) * k]
                out[i * m + j] = inner_product(k, row, other, order)
    elif n == 1 and m == 1:
        out[0] = inner_product(k, a, b, order)
    elif n == 1:
        _multiply(_YES, m, k, b, a, out)
    elif m == 1:
        _multiply(_YES, n, k, a, b, out)
    else:
        n32, m32, k32 = np.int32(n), np.int32(m), np.int32(k)
        subroutine("dgemm", (_YES, _NO, m32, n32, k32, 1.0, b, k32, a, k32, 0.0, out, m32))


@compiled
def solve(
    n: int, m: int, system: FloatArray, right: FloatArray, pivots: IntArray, order: bool | None
) -> None:
    """Replace ``m`` right-hand sides, which are rows, by their solutions for ``system``.

    In the fixed order by Gaussian elimination with partial pivoting.

    Parameters
    ----------
    pivots : ndarray of int32, shape (more than n,)
        Space for LAPACK.

    Raises
    ------
    LinAlgError
        If ``system`` is singular.
    """
    if order is not None:
        _eliminate(n, m, system, right)
        return
    size = np.int32(n)
    subroutine("dgesv", (size, np.int32(m), system, size, pivots[1:], right, size, pivots))
    if pivots[0] != 0:
        raise np.linalg.LinAlgError("The system of a Newton step is singular.")


@compiled
def _eliminate(n: int, m: int, left: FloatArray, out: FloatArray) -> None:
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(left[k * n + i]) > abs(left[k * n + pivot]):
                pivot = i
        if pivot != k:
            for j in range(n):
                left[j * n + k], left[j * n + pivot] = left[j * n + pivot], left[j * n + k]
            for j in range(m):
                out[j * n + k], out[j * n + pivot] = out[j * n + pivot], out[j * n + k]
        for i in range(k + 1, n):
            factor = left[k * n + i] / left[k * n + k]
            if factor != 0.0:
                for j in range(k, n):
                    left[j * n + i] -= factor * left[j * n + k]
                for j in range(m):
                    out[j * n + i] -= factor * out[j * n + k]
    for k in range(n - 1, -1, -1):
        for j in range(m):
            for i in range(k + 1, n):
                out[j * n + k] -= left[i * n + k] * out[j * n + i]
            out[j * n + k] /= left[k * n + k]


_MAX_NEWTON_STEPS = 500


class Curvature(NamedTuple):
    """Products of cuts over the columns of positive weight, which one step passes to the next.

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
    positive: BoolArray


def no_curvature(n_columns: int) -> Curvature:
    """Make a curvature without products."""
    return Curvature(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros(n_columns, np.bool_))


def proximal_step(
    matrix: FloatArray,
    losses: FloatArray,
    budget: float,
    center: FloatArray,
    step: float,
    multipliers: FloatArray,
    tolerance: float,
    curvature: Curvature,
    *,
    ordered: bool = False,
) -> tuple[FloatArray, Curvature]:
    """Minimise ``sum(w) + budget * max(losses - matrix @ w) + |w - center|^2 / (2 step)``, w >= 0.

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
    curvature : Curvature
        Products from the last step, for the same indices of cuts, which only save time.
    ordered : bool
        Whether the weights must not depend on BLAS, to the last bit
        (:mod:`structboost.solvers.proximal_step`), which is slower for many cuts.

    Returns
    -------
    weights : ndarray, shape (n_columns,)
    curvature : Curvature
    """
    n_cuts = len(losses)
    weights, positive = np.empty_like(center), curvature.positive.copy()
    order, gram = np.empty(n_cuts, np.int64), np.empty((n_cuts, n_cuts))
    n = _proximal_step(
        (matrix.reshape(-1), losses),
        (budget, step),
        center,
        multipliers,
        tolerance,
        (curvature.cuts, curvature.gram.reshape(-1)),
        weights,
        (order, gram.reshape(-1), positive),
        (np.empty(n_cuts, np.int64), np.empty(n_cuts + 1, np.int32)),
        ORDERED if ordered else BLAS,
    )
    return weights, Curvature(order[:n], gram[:n, :n].copy(), positive)


@compiled
def _proximal_step(
    cuts: tuple[FloatArray, FloatArray],
    budget_and_step: tuple[float, float],
    center: FloatArray,
    multipliers: FloatArray,
    tolerance: float,
    products: tuple[IntArray, FloatArray],
    weights: FloatArray,
    curvature: tuple[IntArray, FloatArray, BoolArray],
    space: tuple[IntArray, IntArray],
    sums: bool | None,
) -> int:
    """Make the step, and return the number of cuts of the curvature.

    ``weights``, ``multipliers`` and ``curvature`` (order of its cuts, their products, positive
    columns) are filled in.
    """
    matrix, losses = cuts
    budget, step = budget_and_step
    order, gram, positive = curvature
    # Free cuts: those that had a multiplier, in the order in which they got it; the known ones come
    # first. Their rows stand together: a Newton step then touches them only, and a pass over all
    # cuts finds the next.
    n_cuts, n_columns = len(losses), len(center)
    rows = np.empty(n_cuts * n_columns)
    level, in_order = np.empty(n_cuts), np.empty(n_cuts)
    slope, direction = np.empty(n_cuts), np.empty(n_cuts)
    unclipped, change = np.empty(n_columns), np.empty(n_columns)
    n_known, n_free = _free_cuts(multipliers, products[0], products[1], order, gram)
    for i in range(n_free):
        in_order[i] = multipliers[order[i]]
        _take_in(matrix, losses, order[i], i, level, rows, n_columns)
    weighted_rows(n_free, n_columns, in_order, rows, unclipped, sums)
    for j in range(n_columns):
        unclipped[j] = center[j] - step + step * unclipped[j]
    n_iterations = 0
    stuck = False
    while True:
        _clip(unclipped, weights)
        steepest = _shortfalls(n_cuts, losses, matrix, weights, slope, sums)
        is_free = False
        for i in range(n_free):
            direction[i] = slope[order[i]]
            is_free |= order[i] == steepest
        gap = budget * (slope[steepest] - inner_product(n_free, in_order, direction, sums) / budget)
        if gap <= tolerance or stuck or n_iterations >= _MAX_NEWTON_STEPS:
            break
        if not is_free:
            order[n_free] = steepest
            in_order[n_free] = 0.0
            _take_in(matrix, losses, steepest, n_free, level, rows, n_columns)
            n_free += 1
        begun = n_iterations
        while True:
            entering = _shortfalls(n_free, level, rows, weights, slope, sums)
            slack = inner_product(n_free, in_order, slope, sums) / budget
            left = budget * (slope[entering] - slack)
            at_rest = left <= max(0.1 * gap, 0.5 * tolerance) or n_iterations >= _MAX_NEWTON_STEPS
            if at_rest and n_iterations > begun:
                break
            n_iterations += 1
            _update_gram(n_known, n_cuts, rows, unclipped, positive, gram, sums)
            _extend_gram(n_known, n_free, n_cuts, rows, positive, gram, sums)
            n_known = n_free
            _newton_direction(
                n_free,
                (n_cuts, gram, step),
                in_order,
                (slope, slack),
                entering,
                direction,
                space,
                sums,
            )
            weighted_rows(n_free, n_columns, direction, rows, change, sums)
            gain = inner_product(n_free, level, direction, sums)
            length = _step_length(n_free, gain, change, unclipped, step, in_order, direction)
            if length <= 0:
                stuck = True
                break
            _move(n_free, in_order, direction, length, budget)
            for j in range(n_columns):
                unclipped[j] += (length * step) * change[j]
            _clip(unclipped, weights)
    for i in range(n_cuts):
        multipliers[i] = 0.0
    for i in range(n_free):
        multipliers[order[i]] = in_order[i]
    return n_known


@compiled
def _free_cuts(
    multipliers: FloatArray,
    known_cuts: IntArray,
    known_gram: FloatArray,
    order: IntArray,
    gram: FloatArray,
) -> tuple[int, int]:
    """Find the cuts with a multiplier and their known products, and count both."""
    n_cuts, n_all = len(multipliers), len(known_cuts)
    n_known = 0
    for i in range(n_all):
        if multipliers[known_cuts[i]] > 0:
            order[n_known] = known_cuts[i]
            at = n_known * n_cuts
            for j in range(n_all):
                if multipliers[known_cuts[j]] > 0:
                    gram[at] = known_gram[i * n_all + j]
                    at += 1
            n_known += 1
    n_free = n_known
    for cut in range(n_cuts):
        is_known = not multipliers[cut] > 0
        for i in range(n_known):
            is_known |= order[i] == cut
        if not is_known:
            order[n_free] = cut
            n_free += 1
    return n_known, n_free


@compiled
def _take_in(
    matrix: FloatArray,
    losses: FloatArray,
    cut: int,
    at: int,
    level: FloatArray,
    rows: FloatArray,
    n_columns: int,
) -> None:
    """Copy the loss and the row of a cut to those of the free cuts."""
    level[at] = losses[cut]
    for j in range(n_columns):
        rows[at * n_columns + j] = matrix[cut * n_columns + j]


@compiled
def _clip(unclipped: FloatArray, weights: FloatArray) -> None:
    for j in range(len(weights)):
        weights[j] = 0.0 if unclipped[j] < 0.0 else unclipped[j]


@compiled
def _shortfalls(
    n: int,
    losses: FloatArray,
    rows: FloatArray,
    weights: FloatArray,
    slope: FloatArray,
    sums: bool | None,
) -> int:
    """Fill in the slopes of the dual, and return the index of the largest."""
    times_vector(n, len(weights), rows, weights, slope, sums)
    largest = 0
    for i in range(n):
        slope[i] = losses[i] - slope[i]
        if slope[i] > slope[largest]:
            largest = i
    return largest


@compiled
def _update_gram(
    n_known: int,
    n_cuts: int,
    rows: FloatArray,
    unclipped: FloatArray,
    positive: BoolArray,
    gram: FloatArray,
    sums: bool | None,
) -> None:
    """Update ``positive`` and the products of the known cuts over its columns."""
    n_columns = len(positive)
    # Counted from above: for a count from 0 numba would compile the products once more.
    n_changed = n_columns
    for j in range(n_columns):
        if (unclipped[j] > 0) == positive[j]:
            n_changed -= 1
    if n_changed == 0:
        return
    block, signed = np.empty(n_known * n_changed), np.empty(n_known * n_changed)
    at = 0
    for j in range(n_columns):
        if (unclipped[j] > 0) != positive[j]:
            sign = -1.0 if positive[j] else 1.0
            for i in range(n_known):
                block[i * n_changed + at] = rows[i * n_columns + j]
                signed[i * n_changed + at] = sign * rows[i * n_columns + j]
            positive[j] = not positive[j]
            at += 1
    change = np.empty(n_known * n_known)
    inner_products(n_known, n_known, n_changed, signed, block, change, sums)
    for i in range(n_known):
        for j in range(n_known):
            gram[i * n_cuts + j] += change[i * n_known + j]


@compiled
def _extend_gram(
    n_known: int,
    n_free: int,
    n_cuts: int,
    rows: FloatArray,
    positive: BoolArray,
    gram: FloatArray,
    sums: bool | None,
) -> None:
    """Fill in the products of the cuts that became free."""
    n_new, n_columns = n_free - n_known, len(positive)
    if n_new == 0:
        return
    fresh, new = np.empty(n_new * n_columns), np.empty(n_new * n_free)
    for i in range(n_new):
        for j in range(n_columns):
            row = (n_known + i) * n_columns
            fresh[i * n_columns + j] = rows[row + j] if positive[j] else 0.0
    inner_products(n_new, n_free, n_columns, fresh, rows, new, sums)
    for i in range(n_new):
        for j in range(n_free):
            gram[j * n_cuts + n_known + i] = new[i * n_free + j]
            if j < n_known:
                gram[(n_known + i) * n_cuts + j] = new[i * n_free + j]


@compiled
def _newton_direction(
    n_free: int,
    products: tuple[int, FloatArray, float],
    multipliers: FloatArray,
    slopes: tuple[FloatArray, float],
    entering: int,
    direction: FloatArray,
    space: tuple[IntArray, IntArray],
    sums: bool | None,
) -> None:
    """Ascent direction of zero sum on the positive multipliers and ``entering``, which rises."""
    n_cuts, gram, step = products
    slope, slack = slopes
    index, pivots = space
    trace = 0.0
    n, at = n_free, 0
    for i in range(n_free):
        trace += gram[i * n_cuts + i]
        if multipliers[i] > 0 or i == entering:
            index[at] = i
            at += 1
        else:
            n -= 1
    ridge = 1e-10 * step * trace / n_free + 1e-14
    system, moves = np.empty(n * n), np.empty(2 * n)
    while True:
        for i in range(n_free):
            direction[i] = 0.0
        if n < 2:
            return
        for i in range(n):
            for j in range(n):
                system[j * n + i] = step * gram[index[i] * n_cuts + index[j]]
            system[i * n + i] += ridge
            moves[i] = slope[index[i]] - slack
            moves[n + i] = 1.0
        solve(n, 2, system, moves, pivots, sums)
        by_slope, by_ones = 0.0, 0.0
        for i in range(n):
            by_slope += moves[i]
            by_ones += moves[n + i]
        shift = by_slope / by_ones
        n_left = 0
        for i in range(n):
            k = index[i]
            direction[k] = moves[i] - shift * moves[n + i]
            if multipliers[k] > 0 or direction[k] >= 0:
                index[n_left] = k
                n_left += 1
        if n_left == n:
            return
        n = n_left


@compiled
def _move(
    n_free: int, in_order: FloatArray, direction: FloatArray, length: float, budget: float
) -> None:
    total = 0.0
    for i in range(n_free):
        in_order[i] += length * direction[i]
        if in_order[i] < 1e-14 * budget:
            in_order[i] = 0.0
        total += in_order[i]
    scale = budget / total
    for i in range(n_free):
        in_order[i] *= scale


@compiled
def _step_length(
    n_free: int,
    gain: float,
    change: FloatArray,
    unclipped: FloatArray,
    step: float,
    multipliers: FloatArray,
    direction: FloatArray,
) -> float:
    """Step to the maximum of the dual along ``direction``, or to the first multiplier at zero.

    ``gain`` and ``change`` are the products of the direction with the losses and with the matrix.
    """
    longest = np.inf
    for i in range(n_free):
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
