"""Kernels of the exact search for trees of two levels.

The edge of a tree whose leaves have the sums s of the duals is ``mid sum(s) + half sum(|s|)``, if
``mid`` and ``half`` are the mean of the two responses and half their difference.  So the best tree
has the largest sum of ``|s|``.  A child with the sum T, split into l and T - l, adds
``|l| + |T - l| = max(|T|, |2l - T|)``: the largest and the smallest l are all that is needed.  The
sums of all children of all cuts of a root are in the histogram over pairs of bins, added up along
both features (the depth-two routine of MurTree, Demirovic et al., JMLR 2022).  Where most rows are
in the first bin of a feature, as in pixels, only the others are visited.

A root may split a feature with a direction.  Then no response on its low side may pass one on its
high side where all other features are equal.  Either all numbers of one side have one response, or
both children split the same feature, and the set of high responses on the low side is within that
on the high side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.learners.base import ROUNDING
from structboost.runtime.compiled import compiled

# Side of a column that is split by sets of categories.
BY_SETS = 2


@compiled
def best_children(
    codes: NDArray[Any],
    duals: FloatArray,
    starts: IntArray,
    sides: NDArray[np.int8],
    is_apart: NDArray[np.bool_],
    pairs: IntArray,
    room: FloatArray,
    sizes: FloatArray,
    children: NDArray[np.int32],
) -> None:
    """Raise ``sizes`` to those of the best children on either side of every cut.

    A cut of a number lies after a bin.  A cut of a category has this category on its left.

    Parameters
    ----------
    codes : ndarray, shape (n_columns, n_rows)
    duals : ndarray, shape (n_rows,)
    starts : ndarray of int64, shape (n_columns + 1,)
        First bin of each column, and the number of all bins.
    sides : ndarray of int8, shape (n_columns,)
        `BY_SETS` for columns that children split by any set of bins, and roots by one bin.  1 and
        -1 where the response must rise or fall with the column, otherwise 0.
    is_apart : ndarray of bool, shape (n_columns,)
        Columns whose last bin holds missing values.  They have no place in the order of a side.
    pairs : ndarray of int64, shape (n_pairs, 2)
        Pairs of columns to search, each in both orders.
    room : ndarray, shape (2, most bins + 5, most bins)
        Work space.
    sizes : ndarray, shape (3, n_bins)
        Sums of ``|s|`` of the left and the right child of each cut.  The third row has those of two
        children on one column that keep the side of the root, where it has one.
    children : ndarray of int32, shape (3, n_bins)
        Columns of these children.
    """
    ends, rows, margins = _rows_beside_first(codes, duals, starts)
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        n_a, n_b = starts[a + 1] - starts[a], starts[b + 1] - starts[b]
        by_a, by_b = room[0, :n_a, :n_b], room[1, :n_b, :n_a]
        for i in range(n_a):
            for j in range(n_b):
                by_a[i, j] = 0.0
        of_a, of_b = codes[a], codes[b]
        first_rows, other = rows[ends[a] : ends[a + 1]], rows[ends[b] : ends[b + 1]]
        if 2 * min(len(first_rows), len(other)) > len(duals) or a == b:
            for row in range(len(duals)):
                by_a[of_a[row], of_b[row]] += duals[row]
        elif len(other) <= len(first_rows):
            _fill_beside_first(by_a, of_a, of_b, other, duals, margins[starts[a] : starts[a + 1]])
        else:
            _fill_beside_first(
                by_a.T, of_b, of_a, first_rows, duals, margins[starts[b] : starts[b + 1]]
            )
        if sides[a] != BY_SETS:
            _add_up(by_a)
        for i in range(n_a):
            for j in range(n_b):
                by_b[j, i] = by_a[i, j]
        if sides[b] != BY_SETS:
            _add_up(by_b)
        for turn in range(1 if a == b else 2):
            root, child, sums = (a, b, by_b) if turn == 0 else (b, a, by_a)
            if turn == 1:
                for j in range(n_b):
                    for i in range(n_a):
                        by_a[i, j] = by_b[j, i]
            of_root, of_child = starts[root], (sides[child], is_apart[child])
            _raise_to_children(
                sums, room[0, -5:], sides[root] == BY_SETS, of_child, child, sizes[:, of_root:],
                children[:, of_root:],
            )  # fmt: skip
            if abs(sides[root]) == 1:
                _raise_to_nested(
                    sums, sides[root], of_child, child, sizes[2, of_root:], children[2, of_root:]
                )


@compiled
def _rows_beside_first(
    codes: NDArray[Any], duals: FloatArray, starts: IntArray
) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    """Return the rows outside the first bin of each column, and the sums of all bins."""
    n_columns, n_rows = codes.shape
    ends, margins = np.zeros(n_columns + 1, np.int64), np.zeros(starts[-1])
    rows = np.empty(n_columns * n_rows, np.int32)
    for f in range(n_columns):
        code, end = codes[f], ends[f]
        for row in range(n_rows):
            margins[starts[f] + code[row]] += duals[row]
            if code[row] > 0:
                rows[end] = row
                end += 1
        ends[f + 1] = end
    return ends, rows, margins


@compiled
def _fill_beside_first(
    sums: FloatArray,
    of_rows: NDArray[Any],
    of_columns: NDArray[Any],
    rows: NDArray[np.int32],
    duals: FloatArray,
    margins: FloatArray,
) -> None:
    """Add up the rows outside the first column of a histogram, and subtract for the first."""
    for row in rows:
        sums[of_rows[row], of_columns[row]] += duals[row]
    for i in range(len(margins)):
        sums[i, 0] = margins[i] - sums[i, 1:].sum()


@compiled
def _add_up(sums: FloatArray) -> None:
    """Add up each column from the first row on."""
    for i in range(1, len(sums)):
        for j in range(sums.shape[1]):
            sums[i, j] += sums[i - 1, j]


@compiled
def _raise_to_children(
    sums: FloatArray,
    work: FloatArray,
    root_is_category: bool,
    side_of_column: tuple[int, bool],
    column: int,
    sizes: FloatArray,
    children: NDArray[np.int32],
) -> None:
    """Raise the sizes of a root's cuts by children on ``column``.

    Row j of ``sums`` belongs to bin j of the child, column i to cut i of the root.
    """
    n_child, n_root = sums.shape
    side, is_apart = side_of_column
    left, left_low = work[0, :n_root], work[1, :n_root]
    right, right_low = work[2, :n_root], work[3, :n_root]
    for i in range(n_root):
        left[i] = left_low[i] = right[i] = right_low[i] = 0.0
    for j in range(n_child):
        of_bin = sums[j]
        total = of_bin[n_root - 1]
        if root_is_category:
            total = of_bin.sum()
        if side == BY_SETS:
            for i in range(n_root):
                left[i] += abs(of_bin[i])
                right[i] += abs(total - of_bin[i])
        else:
            for i in range(n_root):
                value, other = of_bin[i], total - of_bin[i]
                left[i] = max(left[i], value)
                left_low[i] = min(left_low[i], value)
                right[i] = max(right[i], other)
                right_low[i] = min(right_low[i], other)
    if side != BY_SETS:
        of_bin = sums[n_child - 1]
        total = of_bin.sum() if root_is_category else of_bin[n_root - 1]
        for i in range(n_root):
            value, other = of_bin[i], total - of_bin[i]
            # A child without a split is the cut before the first bin or after the last.
            rising, rising_right = value - 2.0 * left_low[i], other - 2.0 * right_low[i]
            falling, falling_right = 2.0 * left[i] - value, 2.0 * right[i] - other
            left[i], right[i] = abs(value), abs(other)
            if side >= 0:
                left[i], right[i] = max(left[i], rising), max(right[i], rising_right)
            if side <= 0:
                left[i], right[i] = max(left[i], falling), max(right[i], falling_right)
        if side != 0 and is_apart:
            # The last cut, which leaves only missing values to the right, is free.
            present = sums[n_child - 2]
            total_present = present.sum() if root_is_category else present[n_root - 1]
            for i in range(n_root):
                value, other = present[i], total_present - present[i]
                missing, other_missing = of_bin[i] - value, total - of_bin[i] - other
                left[i] = max(left[i], abs(value) + abs(missing))
                right[i] = max(right[i], abs(other) + abs(other_missing))
    for i in range(n_root):
        if left[i] > sizes[0, i] * (1.0 + ROUNDING):
            sizes[0, i], children[0, i] = left[i], column
        if right[i] > sizes[1, i] * (1.0 + ROUNDING):
            sizes[1, i], children[1, i] = right[i], column


@compiled
def _raise_to_nested(
    sums: FloatArray,
    side_of_root: int,
    side_of_column: tuple[int, bool],
    column: int,
    sizes: FloatArray,
    children: NDArray[np.int32],
) -> None:
    """Raise the sizes of the cuts of a root with a side by two children on ``column``.

    The bins of high responses on the low side of the root are among those on the high side.  So a
    bin is high on neither side, on the high one, or on both.  Along the order of the bins this
    state only rises, or only falls, and that of missing values is free.  ``sums`` are those of
    :func:`_raise_to_children`.
    """
    n_child, n_root = sums.shape
    side, is_apart = side_of_column
    n_ordered = n_child - 1 if is_apart else n_child
    for i in range(n_root - 1):
        # Best sums so far of bins in the state of both sides, of the high one, and of neither.
        rising_both, rising, falling_both, falling, after = 0.0, 0.0, 0.0, 0.0, 0.0
        free, whole, left_before, whole_before = 0.0, 0.0, 0.0, 0.0
        for j in range(n_child):
            left, of_both = sums[j, i] - left_before, sums[j, n_root - 1] - whole_before
            if side != BY_SETS:
                left_before, whole_before = sums[j, i], sums[j, n_root - 1]
            of_high = of_both - left if side_of_root > 0 else left
            whole += of_both
            if side == BY_SETS or j == n_ordered:
                free += max(0.0, of_high, of_both)
            else:
                rising_both = max(rising_both, rising, 0.0) + of_both
                rising = max(rising, 0.0) + of_high
                after = max(after, falling, falling_both)
                falling = max(falling, falling_both) + of_high
                falling_both += of_both
        best = 0.0
        if side != BY_SETS and side >= 0:
            best = max(best, rising_both, rising)
        if side != BY_SETS and side <= 0:
            best = max(best, falling_both, falling, after)
        size = 2.0 * (best + free) - whole
        if size > sizes[i]:
            sizes[i], children[i] = size, column


@compiled
def stump_sizes(
    codes: NDArray[Any],
    duals: FloatArray,
    starts: IntArray,
    sides: NDArray[np.int8],
    room: FloatArray,
    sizes: FloatArray,
) -> None:
    """Fill ``sizes``, shape (n_columns,), with the sums of ``|s|`` of the best stumps.

    Parameters are those of :func:`best_children`, with ``room`` of shape (most bins,).
    """
    for f in range(len(sizes)):
        of_bins = room[: starts[f + 1] - starts[f]]
        for b in range(len(of_bins)):
            of_bins[b] = 0.0
        code = codes[f]
        for row in range(len(duals)):
            of_bins[code[row]] += duals[row]
        total, size, left = of_bins.sum(), 0.0, 0.0
        for b in range(len(of_bins)):
            left = abs(of_bins[b]) if sides[f] == BY_SETS else left + of_bins[b]
            size = size + left if sides[f] == BY_SETS else max(size, abs(2.0 * left - total))
        sizes[f] = size
