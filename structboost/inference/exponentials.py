"""Exponentials of scores, and logarithms of their sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.runtime.compiled import compiled

# Number of tags from which on exponentials of pairs are computed several at once.
MANY_TAGS = 64
# The least exponent, parts of the logarithm of 2, and what rounds to whole numbers when added.
_LEAST_EXPONENT, _LOG2_E = -707.0, 1.4426950408889634
_LN_2_HIGH, _LN_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUNDING = 1.5 * 2.0**52

# Functions without a form for calls from Python compile faster, and must not be called from it.
INSIDE: Any = {"no_cpython_wrapper": True}


@compiled(**INSIDE)
def exponentials(
    transitions: FloatArray,
    row: int,
    allowed: FloatArray,
    following: FloatArray,
    preceding: FloatArray,
    many: FloatArray | None,
) -> float:
    """Fill in ``exp(score - largest)`` of pairs and its transpose, and return the largest score.

    The arrays are those of :func:`space_of_sums`.
    """
    n_tags = len(following)
    largest = -np.inf
    # Without many tags, numba leaves this out.
    if many is not None:
        for k in range(n_tags):
            many[k] = -np.inf
        for j in range(n_tags):
            for k in range(n_tags):
                at = j * n_tags + k
                following[j, k] = transitions[row, at] + allowed[at]
                many[k] = np.maximum(many[k], following[j, k])
        for k in range(n_tags):
            largest = max(largest, many[k])
        for j in range(n_tags):
            for k in range(n_tags):
                following[j, k] -= largest
            _exponentiate(following[j], many)
            for k in range(n_tags):
                preceding[k, j] = following[j, k]
        return largest
    for at in range(n_tags * n_tags):
        largest = max(largest, transitions[row, at] + allowed[at])
    for j in range(n_tags):
        for k in range(n_tags):
            at = j * n_tags + k
            following[j, k] = np.exp(transitions[row, at] + allowed[at] - largest)
            preceding[k, j] = following[j, k]
    return largest


@compiled(fastmath={"contract"})
def _exponentiate(values: FloatArray, space: FloatArray) -> None:
    """Replace values, none of them positive, by their exponentials, in vector registers.

    A value is ``n log 2 + r``.  Its exponential is that of r, a polynomial, times 2 to the n, which
    is set in the bits of the exponent.  Below the least exponent, it is 0.
    """
    for k in range(len(values)):
        value = np.maximum(values[k], _LEAST_EXPONENT)
        # Adding a large number rounds to n, whose bits are then the lowest ones.
        space[k] = value * _LOG2_E + _ROUNDING
        n = space[k] - _ROUNDING
        r = value - n * _LN_2_HIGH - n * _LN_2_LOW
        power = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
        power = power * r + 1.0 / 39916800.0
        power = power * r + 1.0 / 3628800.0
        power = power * r + 1.0 / 362880.0
        power = power * r + 1.0 / 40320.0
        power = power * r + 1.0 / 5040.0
        power = power * r + 1.0 / 720.0
        power = power * r + 1.0 / 120.0
        power = power * r + 1.0 / 24.0
        power = power * r + 1.0 / 6.0
        power = ((power * r + 0.5) * r + 1.0) * r + 1.0
        values[k] = 0.0 if values[k] < _LEAST_EXPONENT else power
    bits = space.view(np.int64)
    for k in range(len(values)):
        bits[k] = (bits[k] + 1023) << 52
    for k in range(len(values)):
        values[k] *= space[k]


@compiled
def log_sum_exp(values: FloatArray) -> float:
    """Compute the logarithm of a sum of exponentials, which may be minus infinity."""
    largest = -np.inf
    for k in range(len(values)):
        largest = max(largest, values[k])
    if largest == -np.inf:
        return largest
    total = 0.0
    for k in range(len(values)):
        total += np.exp(values[k] - largest)
    return float(largest + np.log(total))
