"""Products of small matrices by BLAS, or in a fixed order on every library and processor.

The order in which BLAS adds depends on the processor and the number of threads, and so do the last
bits of a sum.  That does not matter where a program is solved to a tolerance.  It does where a
choice depends on the sum: in tracking, one box leads to the next.

Compiled functions take matrices row by row, in arrays of one dimension, because fewer types compile
sooner; Fortran sees them transposed.  Their last argument is `BLAS` or `ORDERED`: numba compiles
the sums in the fixed order only where they are requested, because it leaves out what None excludes.
"""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.blas import real_function, subroutine
from structboost.runtime.compiled import compiled

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
