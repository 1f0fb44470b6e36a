"""Splits of least Gini impurity, from the histogram of a node.

The bins of a sparse column are counted only where the weight outside of its common bin may be
enough for a better split than the best one so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import IntArray
from structboost.learners.tree_histograms import MASK, SHIFT, count_rows, count_sparse
from structboost.runtime.compiled import compiled

# An impurity counts as smaller only by more than rounding: by this fraction of the node's.
ROUNDING = 1e-10
# Sparse columns that are passed over together.
COLUMNS_AT_ONCE = 32
# Rows of average weight that draw a category to the middle of the order: LightGBM's ``cat_smooth``.
_SMOOTHING = 10.0


@compiled(no_cpython_wrapper=True)
def split_of_node(
    codes: tuple[NDArray[Any], IntArray],
    histogram: IntArray,
    columns: tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.bool_]],
    node: tuple[int, float],
    left_set: NDArray[np.uint64] | None,
    rows: NDArray[np.int32],
    weights: tuple[IntArray, IntArray],
    sparse: tuple[Any, ...] | None,
    counts: IntArray | None,
    limits: tuple[int, int, float],
) -> tuple[int, int, int]:
    """Find the feature and bin of the split of least impurity, and the weight on its left.

    The bin is -1 if no impurity is below that of the node.  The impurity of a side with the
    weights p and n is ``p n / (p + n)``: Gini's, times the weight, halved.  The best set of
    categories is a run of them in the order of p / (p + n) (Breiman et al., 1984, section 4.2.2);
    there the bin is -2, and ``left_set`` is filled.  A split of a feature with a direction above 0
    must not have the larger fraction of positive weight on the left, and one below 0 not on the
    right; the last split of a column is free of a direction of 2 or -2
    (:class:`structboost.learners.monotone_trees.Directions`).

    ``node`` is the weight of the node, and the ridge.  Half of that is added to p and half to n, on
    each side and in the node.  So the impurity falls by a fourth of the growth of
    ``(p - n)^2 / (p + n + ridge)``.  Only columns that are open are split.

    Sparse columns whose bins other than the common one have too little weight are passed over
    (:func:`_needed_weights`).

    ``codes`` are ``codes`` and ``columns`` of the :class:`CountedTable`, and ``weights`` those of
    all rows, and zeros.  ``limits`` are the fewest ``rows`` of a side, the largest weight of a row,
    and the price of a category (:func:`_best_set`).  The rows of a column are counted, with
    ``counts`` as room, where they are too light to be enough for certain.
    """
    of_rows, of_columns = codes
    is_category, directions, is_open = columns
    total, ridge = node
    best_feature, best_bin, best_left = 0, -1, 0
    positive, negative = float(total >> SHIFT), float(total & MASK)
    if positive <= 0.0 or negative <= 0.0:
        return best_feature, best_bin, best_left
    half = 0.5 * ridge
    impurity = (positive + half) * (negative + half) / (positive + negative + ridge)
    margin = ROUNDING * impurity
    # What the next split must be below.
    limit = impurity + 0.25 * ridge - margin
    min_rows, largest, price = limits
    # Sides of less weight may have too few rows.
    enough = float(min_rows) * largest
    # Sparse columns are passed over by what is needed to get below this limit.
    cap, is_masked, needed = limit, False, (0, 0)
    if sparse is not None:
        needed = _needed_weights(node, cap)
    next_f = 0
    while next_f < len(directions):
        f = next_f
        next_f += 1
        first, n_bins = of_columns[f, 0], of_columns[f, 1]
        is_sparse = of_columns[f, 2] >= 0
        if sparse is not None:
            if is_sparse:
                if limit < cap:
                    cap = limit
                    needed = _needed_weights(node, cap)
                last = f + COLUMNS_AT_ONCE - 1
                if last < len(directions) and of_columns[last, 2] == of_columns[f, 2] + last - f:
                    if not _any_enough(histogram[first : first + COLUMNS_AT_ONCE], needed):
                        next_f = last + 1
                        continue
                rest = histogram[first]
                if rest == 0 or (rest < needed[0] and (rest & MASK) < needed[1]):
                    continue
        if not is_open[f]:
            continue
        here = histogram[first : first + n_bins]
        if sparse is not None:
            if is_sparse:
                if not is_masked:
                    is_masked = True
                    for j in range(len(rows)):
                        weights[1][rows[j]] = weights[0][rows[j]]
                count_sparse(codes, sparse, f, rows, weights, total, histogram[first])
                here = sparse[6][:n_bins]
        if left_set is not None and is_category[f]:
            if counts is not None:
                count_rows(of_rows[f], rows, counts[:n_bins])
            of_side = (len(rows), min_rows)
            bounds = (limit, margin, half, price)
            least, left = _best_set(here, total, bounds, left_set, counts, of_side)
            if least < limit:
                limit = least
                best_feature, best_bin, best_left = f, -2, left
            continue
        left, is_counted = 0, False
        for b in range(n_bins - 1):
            # An empty bin makes no other split.
            weight = here[b]
            if weight == 0:
                continue
            left += weight
            p, n = float(left >> SHIFT) + half, float(left & MASK) + half
            q, m = positive + ridge - p, negative + ridge - n
            # Multiplied by both weights, which saves two divisions.
            value = p * n * (q + m) + q * m * (p + n)
            if value < limit * ((p + n) * (q + m)):
                if directions[f] != 0 and (abs(directions[f]) == 1 or b < n_bins - 2):
                    falls = (p - half) * (m - half) - (q - half) * (n - half)
                    if falls * directions[f] > 0.0:
                        continue
                if counts is not None and min(p + n, q + m) - ridge < enough:
                    if not is_counted:
                        is_counted = True
                        count_rows(of_rows[f], rows, counts[:n_bins])
                        for k in range(1, n_bins):
                            counts[k] += counts[k - 1]
                    if min(counts[b], len(rows) - counts[b]) < min_rows:
                        continue
                limit = value / ((p + n) * (q + m)) - margin
                best_feature, best_bin, best_left = f, b, left
    if sparse is not None:
        if is_masked:
            for j in range(len(rows)):
                weights[1][rows[j]] = 0
    return best_feature, best_bin, best_left


@compiled(no_cpython_wrapper=True)
def _best_set(
    histogram: IntArray,
    total: int,
    limits: tuple[float, float, float, float],
    left_set: NDArray[np.uint64],
    counts: IntArray | None,
    rows: tuple[int, int],
) -> tuple[float, int]:
    """Put the best set of bins into ``left_set`` if its impurity is below the first of ``limits``.

    Returns the new limit, and the weight of the set.  The other ``limits`` are what impurities must
    differ by, half of the ridge, and the price of a category.  Bins without rows go to the side of
    more weight.

    Where categories mean nothing, the best set of k gains on average (k - 2) mean row weights more
    than a split of two.  The impurity of a set has so much added, times the price.
    """
    limit, margin, half, price = limits
    n_bins = len(histogram)
    positive, negative = float(total >> SHIFT), float(total & MASK)
    prior = _SMOOTHING / max(1, rows[0])
    orders, order = np.empty(n_bins), np.empty(n_bins, np.int64)
    n_occupied = 0
    for b in range(n_bins):
        p, n = float(histogram[b] >> SHIFT), float(histogram[b] & MASK)
        orders[b] = np.inf
        if histogram[b] != 0:
            n_occupied += 1
            orders[b] = (p + prior * positive) / (p + n + prior * (positive + negative))
        # Insertion, since numba takes 2 s of every first fit to compile a sort.
        i = b
        while i > 0 and orders[order[i - 1]] > orders[b]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = b
    paid = 0.0
    if n_occupied > 2:
        paid = 0.25 * price * (n_occupied - 2) * (positive + negative) / max(1, rows[0])
    best, best_left, n_left, left = 0, 0, 0, 0
    for i in range(n_bins - 1):
        if orders[order[i + 1]] == np.inf:
            break
        left += histogram[order[i]]
        if counts is not None:
            n_left += counts[order[i]]
            if n_left < rows[1] or rows[0] - n_left < rows[1]:
                continue
        p, n = float(left >> SHIFT) + half, float(left & MASK) + half
        q, m = positive + 2.0 * half - p, negative + 2.0 * half - n
        value = p * n * (q + m) + q * m * (p + n)
        if value < (limit - paid) * ((p + n) * (q + m)):
            limit = value / ((p + n) * (q + m)) + paid - margin
            best, best_left = i + 1, left
    if best > 0:
        p, n = float(best_left >> SHIFT), float(best_left & MASK)
        takes_empty = 2.0 * (p + n) > positive + negative
        for w in range(len(left_set)):
            left_set[w] = np.uint64(0)
        for i in range(n_bins):
            b = order[i]
            if i < best or (orders[b] == np.inf and takes_empty):
                left_set[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    return limit, best_left


@compiled(no_cpython_wrapper=True)
def _needed_weights(node: tuple[int, float], limit: float) -> tuple[int, int]:
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
def _any_enough(weights: IntArray, needed: tuple[int, int]) -> bool:
    """Whether any weight has enough of a sign.

    It is a loop that LLVM makes vector code of: a sum is negative if one of its terms is enough.
    """
    signs = 0
    for i in range(len(weights)):
        signs |= (needed[0] - 1 - weights[i]) | (needed[1] - 1 - (weights[i] & MASK))
    return signs < 0
