"""Bounds on what splits of sparse columns can gain, from the weight outside their common bins.

The bins of a sparse column are counted only where they may be better than the best split so far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import IntArray
from structboost.learners.tree_histograms import MASK, SHIFT
from structboost.runtime.compiled import compiled

# An impurity counts as smaller only by more than rounding: by this fraction of the node's.
ROUNDING = 1e-10
# Sparse columns that are passed over together.
COLUMNS_AT_ONCE = 32


@compiled(no_cpython_wrapper=True)
def limit_by_common_bins(
    sparse: tuple[IntArray, IntArray],
    histogram: IntArray,
    columns: tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.bool_]],
    node: tuple[int, float],
    limits: tuple[float, float],
) -> float:
    """Lower a limit to the least impurity where common bins alone are one side of a split.

    Only splits that are certainly allowed count: ``limits`` are the limit, and the weight that is
    enough for a side.  ``sparse`` are the columns of the table, and indices of the sparse ones.
    """
    of_columns, features = sparse
    is_category, directions, is_open = columns
    total, ridge = node
    limit, enough = limits
    half = 0.5 * ridge
    positive, negative = float(total >> SHIFT), float(total & MASK)
    needed = needed_weights(node, limit)
    for begin in range(0, len(features), COLUMNS_AT_ONCE):
        end = min(len(features), begin + COLUMNS_AT_ONCE)
        first = of_columns[features[begin], 0]
        if not any_enough(histogram[first : first + end - begin], needed):
            continue
        for k in range(begin, end):
            f, rest = features[k], histogram[first + k - begin]
            if rest < needed[0] and (rest & MASK) < needed[1]:
                continue
            at_end = of_columns[f, 3] == 0 or of_columns[f, 3] == of_columns[f, 1] - 1
            if not at_end or is_category[f] or directions[f] != 0:
                continue
            if not is_open[f]:
                continue
            p, n = float(rest >> SHIFT) + half, float(rest & MASK) + half
            q, m = positive + ridge - p, negative + ridge - n
            value = p * n * (q + m) + q * m * (p + n)
            is_enough = min(p + n, q + m) - ridge >= enough
            if is_enough and value < limit * ((p + n) * (q + m)):
                limit = value / ((p + n) * (q + m))
                needed = needed_weights(node, limit)
    return limit


@compiled(no_cpython_wrapper=True)
def needed_weights(node: tuple[int, float], limit: float) -> tuple[int, int]:
    """Weights outside the common bin that a better split needs, either of which is enough.

    One side of a split has none of the common bin.  If it has the larger fraction of positive
    weight, the impurity would be smaller without its negative weight, and the other way around.
    The positive one is shifted as in a histogram.
    """
    total, ridge = node
    positive, negative = float(total >> SHIFT), float(total & MASK)
    half = 0.5 * ridge
    of_positive = _least_weight(positive, negative, limit, half) << SHIFT
    return of_positive, _least_weight(negative, positive, limit, half)


@compiled(no_cpython_wrapper=True)
def _least_weight(positive: float, negative: float, limit: float, half: float) -> int:
    """Positive weight that one side needs for a split with an impurity below the limit.

    A side without negative weight has the least impurity.  That of the other side is then
    ``a b / (a + b)``, with what is left of the positive weight as a.
    """
    b, other = negative + half, limit - 0.5 * half
    if b <= other:
        return 0
    least = positive + half - other * b / (b - other)
    return int(max(0.0, least - ROUNDING * (positive + negative + half)))


@compiled(no_cpython_wrapper=True)
def any_enough(weights: IntArray, needed: tuple[int, int]) -> bool:
    """Whether any weight has enough of a sign.

    It is a loop that LLVM makes vector code of: a sum is negative if one of its terms is enough.
    """
    signs = 0
    for i in range(len(weights)):
        signs |= (needed[0] - 1 - weights[i]) | (needed[1] - 1 - (weights[i] & MASK))
    return signs < 0
