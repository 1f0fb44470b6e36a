"""Products of small matrices by BLAS, or in a fixed order that no library or processor changes.

The order in which BLAS adds depends on the processor and the number of threads, and so do the last
bits of a sum.  That does not matter where a program is solved to a tolerance.  It does where a
choice depends on the sum: in tracking, one box leads to the next.

Every product takes ``blas``, which is `BLAS` or `ORDERED`.  Matrices are C-contiguous; Fortran sees
them transposed.
"""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled
from structboost.runtime.fortran import (
    BLAS,
    DDOT,
    DGEMM,
    DGEMV,
    DGESV,
    real_function,
    subroutine,
)

# No routines: sums in the fixed order.
ORDERED: IntArray = np.zeros(0, np.int64)
_NO, _YES = np.uint8(ord("N")), np.uint8(ord("T"))

__all__ = [
    "BLAS",
    "ORDERED",
    "inner_product",
    "inner_products",
    "solution",
    "times_vector",
    "weighted_rows",
]


@compiled
def inner_product(a: FloatArray, b: FloatArray, blas: IntArray) -> float:
    """``a @ b`` of vectors."""
    if len(blas):
        one = np.int32(1)
        return float(real_function(blas[DDOT], (np.int32(len(a)), a, one, b, one)))
    # Eight sums side by side: one alone would wait for each addition.
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = len(a) - len(a) % 8
    for k in range(0, whole, 8):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
        s4 += a[k + 4] * b[k + 4]
        s5 += a[k + 5] * b[k + 5]
        s6 += a[k + 6] * b[k + 6]
        s7 += a[k + 7] * b[k + 7]
    for k in range(whole, len(a)):
        s0 += a[k] * b[k]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


@compiled
def times_vector(matrix: FloatArray, vector: FloatArray, blas: IntArray) -> FloatArray:
    """``matrix @ vector``."""
    n_rows = len(matrix)
    out = np.zeros(n_rows)
    if len(blas) == 0:
        for i in range(n_rows):
            out[i] = inner_product(matrix[i], vector, blas)
    elif matrix.size:
        _multiply(blas, _YES, matrix, vector, out)
    return out


@compiled
def weighted_rows(vector: FloatArray, matrix: FloatArray, blas: IntArray) -> FloatArray:
    """``vector @ matrix``."""
    n_rows, n_columns = matrix.shape
    out = np.zeros(n_columns)
    if len(blas) == 0:
        for i in range(n_rows):
            row, weight = matrix[i], vector[i]
            for j in range(n_columns):
                out[j] += weight * row[j]
    elif matrix.size:
        _multiply(blas, _NO, matrix, vector, out)
    return out


@compiled
def _multiply(
    blas: IntArray, transposed: np.uint8, matrix: FloatArray, vector: FloatArray, out: FloatArray
) -> None:
    """Fill ``out``, of any shape, with the product of a vector and the matrix."""
    n_rows, n_columns = np.int32(matrix.shape[0]), np.int32(matrix.shape[1])
    one = np.int32(1)
    subroutine(
        blas[DGEMV],
        (transposed, n_columns, n_rows, 1.0, matrix, n_columns, vector, one, 0.0, out, one),
    )


@compiled
def inner_products(a: FloatArray, b: FloatArray, blas: IntArray) -> FloatArray:
    """``a @ b.T``."""
    out = np.zeros((len(a), len(b)))
    if len(blas) == 0:
        for i in range(len(a)):
            for j in range(len(b)):
                out[i, j] = inner_product(a[i], b[j], blas)
    elif len(a) == 1 and len(b) == 1:
        out[0, 0] = inner_product(a[0], b[0], blas)
    elif len(a) == 1 and b.size:
        _multiply(blas, _YES, b, a[0], out)
    elif len(b) == 1 and a.size:
        _multiply(blas, _YES, a, b[0], out)
    elif a.size and b.size:
        n, m, k = np.int32(len(a)), np.int32(len(b)), np.int32(a.shape[1])
        subroutine(blas[DGEMM], (_YES, _NO, m, n, k, 1.0, b, k, a, k, 0.0, out, m))
    return out


@compiled
def solution(system: FloatArray, right: FloatArray, blas: IntArray) -> FloatArray:
    """Solutions for several right sides, which are rows, as the solutions are.

    In the fixed order by Gaussian elimination with partial pivoting.

    Raises
    ------
    LinAlgError
        If ``system`` is singular.
    """
    n = len(system)
    out = right.copy()
    if len(blas) == 0:
        _eliminate(system.copy(), out)
        return out
    left = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            left[j, i] = system[i, j]
    size, info = np.int32(n), np.zeros(1, np.int32)
    subroutine(
        blas[DGESV], (size, np.int32(len(out)), left, size, np.empty(n, np.int32), out, size, info)
    )
    if info[0] != 0:
        raise np.linalg.LinAlgError("The system of a Newton step is singular.")
    return out


@compiled
def _eliminate(left: FloatArray, out: FloatArray) -> None:
    n = len(left)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(left[i, k]) > abs(left[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                left[k, j], left[pivot, j] = left[pivot, j], left[k, j]
            for j in range(len(out)):
                out[j, k], out[j, pivot] = out[j, pivot], out[j, k]
        for i in range(k + 1, n):
            factor = left[i, k] / left[k, k]
            if factor != 0.0:
                for j in range(k, n):
                    left[i, j] -= factor * left[k, j]
                for j in range(len(out)):
                    out[j, i] -= factor * out[j, k]
    for k in range(n - 1, -1, -1):
        for j in range(len(out)):
            for i in range(k + 1, n):
                out[j, k] -= left[k, i] * out[j, i]
            out[j, k] /= left[k, k]
