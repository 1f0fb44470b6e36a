"""Products of small matrices by BLAS, or in a fixed order that no library or processor changes.

The order in which BLAS adds depends on the processor and the number of threads, and so do the last
bits of a sum.  That does not matter where a program is solved to a tolerance.  It does where a
choice depends on the sum: in tracking, one box leads to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.runtime.compiled import compiled


@compiled
def inner_product(a: FloatArray, b: FloatArray, ordered: bool) -> float:
    """``a @ b`` of vectors."""
    if not ordered:
        return float(a @ b)
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
def times_vector(matrix: FloatArray, vector: FloatArray, ordered: bool) -> FloatArray:
    """``matrix @ vector``."""
    if not ordered:
        return matrix @ vector
    out = np.empty(len(matrix))
    for i in range(len(matrix)):
        out[i] = inner_product(matrix[i], vector, True)
    return out


@compiled
def weighted_rows(vector: FloatArray, matrix: FloatArray, ordered: bool) -> FloatArray:
    """``vector @ matrix``."""
    if not ordered:
        return vector @ matrix
    out = np.zeros(matrix.shape[1])
    for i in range(len(matrix)):
        row, weight = matrix[i], vector[i]
        for j in range(len(out)):
            out[j] += weight * row[j]
    return out


@compiled
def inner_products(a: FloatArray, b: FloatArray, ordered: bool) -> FloatArray:
    """``a @ b.T``."""
    if not ordered:
        return a @ b.T
    out = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            out[i, j] = inner_product(a[i], b[j], True)
    return out


@compiled
def solution(system: FloatArray, right: FloatArray, ordered: bool) -> NDArray[Any]:
    """``inv(system) @ right``; ordered: by Gaussian elimination with partial pivoting."""
    if not ordered:
        return np.linalg.solve(system, right)
    left, out = system.copy(), right.copy()
    n = len(left)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(left[i, k]) > abs(left[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                left[k, j], left[pivot, j] = left[pivot, j], left[k, j]
            for j in range(out.shape[1]):
                out[k, j], out[pivot, j] = out[pivot, j], out[k, j]
        for i in range(k + 1, n):
            factor = left[i, k] / left[k, k]
            if factor != 0.0:
                for j in range(k, n):
                    left[i, j] -= factor * left[k, j]
                for j in range(out.shape[1]):
                    out[i, j] -= factor * out[k, j]
    for k in range(n - 1, -1, -1):
        for j in range(out.shape[1]):
            for i in range(k + 1, n):
                out[k, j] -= left[k, i] * out[i, j]
            out[k, j] /= left[k, k]
    return out
