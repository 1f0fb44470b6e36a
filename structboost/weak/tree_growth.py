"""Kernels that grow trees from histograms of binned features.

A histogram holds the positive and the negative weight of every bin, as integers in the halves of
one number of 64 bits.  So an addition counts both, and sums do not depend on their order.  Below
the root only the rows of the smaller child are counted; its sibling has the difference to the
parent.  Columns are counted from a table of codes with one line per row.  A column with one common
bin has only one entry, the weight of its other bins: from that follows a bound on what its splits
can gain, and its bins are counted only where they may be better than the best split so far.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled
from structboost.weak.binning import BinnedFeatures
from structboost.weak.category_sets import is_in_set

# An impurity counts as smaller only by more than rounding: by this fraction of the node's.
_ROUNDING = 1e-10
# Rows of average weight that draw a category to the middle of the order: LightGBM's ``cat_smooth``.
_SMOOTHING = 10.0
# The absolute weights of a channel sum to this.
_TOTAL = 1 << 31
# Where the positive weight begins, and the bits of the negative one.
_SHIFT = 32
_MASK = (1 << 32) - 1
# Columns that are counted together: the histograms of 256 bins fit in the cache.
_GROUP_COLUMNS = 128
# Sparse columns that are passed over together.
_COLUMNS_AT_ONCE = 32
# Rows that are prefetched together.
_ROWS_AT_ONCE = 64


Room = tuple[IntArray, IntArray, NDArray[np.int32], IntArray, IntArray, IntArray | None]


# Fewest sparse columns that are worth the compilation of their code, about a second.
_FEWEST_SPARSE = 64


class CountedTable(NamedTuple):
    """Bins of all rows, as histograms read them.

    Parameters
    ----------
    codes : ndarray, shape (n_columns, n_rows)
    columns : ndarray of int64, shape (n_columns, 4)
        First entry of each column in a histogram and its number of bins.  Then the index among the
        sparse columns and the common bin, or -1 if it is dense.
    by_row : ndarray, shape (n_rows, n_dense)
        Codes of the dense columns.
    dense : ndarray of int64, shape (n_dense,)
        Their first entries in a histogram.
    sparse : ndarray of int64, shape (n_sparse,)
        The other columns.
    rare_indptr : ndarray of int64, shape (n_sparse + 1,)
    rare_rows : ndarray of int32
        Rows outside the common bin of sparse column k, at ``rare_indptr[k]`` and on.
    rare_codes : ndarray
        Their bins.
    row_indptr : ndarray of int64, shape (n_rows + 1,)
    row_entries : ndarray of int32
        Entries in a histogram of the sparse columns with row i outside their common bins, at
        ``row_indptr[i]`` and on.
    """

    codes: NDArray[Any]
    columns: IntArray
    by_row: NDArray[Any]
    dense: IntArray
    sparse: IntArray
    rare_indptr: IntArray
    rare_rows: NDArray[np.int32]
    rare_codes: NDArray[Any]
    row_indptr: IntArray
    row_entries: NDArray[np.int32]


def counted_table(binned: BinnedFeatures, row_fraction: float) -> CountedTable:
    """Table with sparse columns where they are shorter than the drawn rows."""
    common, indptr = binned.rare.common, binned.rare.indptr
    n_blocks, n_columns = common.shape
    sizes = np.diff(indptr).reshape(n_blocks, n_columns)
    is_sparse = (common == common[:1]).all(axis=0) & (common[0] >= 0)
    is_sparse &= sizes.sum(axis=0) < row_fraction * binned.n_rows
    if is_sparse.sum() < _FEWEST_SPARSE:
        is_sparse[:] = False
    sparse, dense = np.flatnonzero(is_sparse), np.flatnonzero(~is_sparse)
    rows, codes = [np.zeros(0, np.int32)], [np.zeros(0, binned.codes.dtype)]
    for f in sparse:
        for block in range(n_blocks):
            entries = slice(*indptr[block * n_columns + f : block * n_columns + f + 2])
            rows.append((binned.blocks[block] + binned.rare.rows[entries]).astype(np.int32))
            codes.append(binned.rare.codes[entries])
    columns = np.full((n_columns, 4), -1, np.int64)
    columns[:, 1] = binned.bins.n_bins
    columns[dense, 0] = np.cumsum(columns[dense, 1]) - columns[dense, 1]
    columns[sparse, 0] = columns[dense, 1].sum() + np.arange(len(sparse))
    columns[sparse, 2], columns[sparse, 3] = np.arange(len(sparse)), common[0, sparse]
    by_row = np.empty((binned.n_rows, len(dense)), binned.codes.dtype)
    for a, b in pairwise(binned.blocks.tolist()):
        by_row[a:b] = binned.codes[dense, a:b].T
    rare_rows = np.concatenate(rows)
    lengths = sizes[:, sparse].sum(axis=0)
    by_entry = np.repeat(columns[sparse, 0].astype(np.int32), lengths)
    return CountedTable(
        binned.codes,
        columns,
        by_row,
        columns[dense, 0],
        sparse,
        np.append(0, np.cumsum(lengths)),
        rare_rows,
        np.concatenate(codes),
        np.append(0, np.cumsum(np.bincount(rare_rows, minlength=binned.n_rows))),
        by_entry[np.argsort(rare_rows, kind="stable")],
    )


def work_arrays(depth: int, table: CountedTable) -> Room:
    """Allocate what :func:`grow` works in.

    Compiled code that allocates takes a tenth of a second more to compile, for each type of array.

    Returns
    -------
    histograms : ndarray of int64, shape (depth, n_entries)
        Histograms on the way to a leaf.
    weights : ndarray of int64, shape (2, n_rows)
        Packed weights, and zeros.
    row_numbers : ndarray of int32, shape (2, n_rows)
    todo : ndarray of int64, shape (depth + 1, 5)
        Nodes to split: index, place of the histogram, first and last row, weight.
    at_once : ndarray of int64
        Weights of neighbouring rows.
    bins : ndarray of int64, optional
        Weights of the bins of a sparse column, or None without one.
    """
    n_rows, n_bins = len(table.by_row), table.columns[:, 1]
    is_sparse = table.columns[:, 2] >= 0
    return (
        np.empty((depth, int(np.where(is_sparse, 1, n_bins).sum())), np.int64),
        np.zeros((2, n_rows), np.int64),
        np.empty((2, n_rows), np.int32),
        np.empty((depth + 1, 5), np.int64),
        np.empty(_ROWS_AT_ONCE, np.int64),
        np.empty(n_bins[is_sparse].max(), np.int64) if is_sparse.any() else None,
    )


@compiled(no_cpython_wrapper=True)
def _pack(
    duals: FloatArray, is_drawn: NDArray[np.bool_], packed: IntArray, rows: NDArray[np.int32]
) -> tuple[int, int, int]:
    """Fill ``packed`` with the duals of a channel as integers.

    Their absolute values sum to 2^31 at most.  Rows that are not drawn have zeros, and all others
    are listed in ``rows``.  Returns their count, sum and largest absolute value.
    """
    n_rows = len(packed)
    size_of_all = 0.0
    for i in range(n_rows):
        size_of_all += (1.0 if is_drawn[i] else 0.0) * abs(duals[i])
    scale = (_TOTAL - n_rows) / size_of_all if size_of_all > 0.0 else 0.0
    n, total, largest = 0, 0, 0
    for i in range(n_rows):
        scaled = (1.0 if is_drawn[i] else 0.0) * scale * duals[i]
        size: Any = np.int64(abs(scaled) + 0.5)
        packed[i] = size << _SHIFT if scaled > 0.0 else size
        rows[n] = i
        n += size != 0
        total += packed[i]
        largest = max(largest, size)
    return n, total, largest


@compiled(no_cpython_wrapper=True)
def _count_dense(
    by_row: NDArray[Any],
    dense: IntArray,
    begin: int,
    end: int,
    packed: IntArray,
    rows: NDArray[np.int32],
    histogram: IntArray,
    weights: IntArray,
) -> int:
    """Add the rows to the histograms of the dense columns ``begin <= k < end``.

    Rows that are far apart wait for memory, which a loop that only touches them requests all at
    once.  What it returns keeps that loop alive.  ``weights`` is room for those of these rows.
    """
    touched = 0
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        n = _ROWS_AT_ONCE if len(rows) - first > _ROWS_AT_ONCE else len(rows) - first
        is_far = rows[first + n - 1] - rows[first] > 4 * n
        for j in range(n):
            row = rows[first + j]
            weights[j] = packed[row]
            if is_far:
                touched += by_row[row, begin] + by_row[row, end - 1]
        # Two at a time: they mostly go to bins that do not wait for each other.
        for j in range(0, n - 1, 2):
            row, next_row = rows[first + j], rows[first + j + 1]
            for k in range(begin, end):
                start = dense[k]
                histogram[start + np.int64(by_row[row, k])] += weights[j]
                histogram[start + np.int64(by_row[next_row, k])] += weights[j + 1]
        if n % 2:
            row = rows[first + n - 1]
            for k in range(begin, end):
                histogram[dense[k] + np.int64(by_row[row, k])] += weights[n - 1]
    return touched


@compiled
def grow(
    table: tuple[NDArray[Any], ...],
    columns: tuple[NDArray[np.bool_], NDArray[np.int8]],
    duals: FloatArray,
    is_drawn: NDArray[np.bool_],
    room: Room,
    nodes: tuple[IntArray, IntArray],
    sets: NDArray[np.uint64] | None,
    counts: IntArray | None,
    limits: tuple[int, float],
    draw: tuple[int, int, IntArray, NDArray[np.bool_]],
) -> None:
    """Grow a tree for each channel, with splits of least Gini impurity.

    Parameters
    ----------
    table : CountedTable, as a plain tuple
    columns : (ndarray of bool, ndarray of int8), shape (n_columns,)
        Flags of categorical columns, and directions, as for :func:`split_of_node`.
    duals : ndarray, shape (n_channels, n_rows)
    is_drawn : ndarray of bool, shape (n_rows,)
        Rows that the trees are grown on.
    room : tuple of ndarrays
        Work arrays of :func:`work_arrays`.
    nodes : (ndarray of int64, ndarray of int64), shape (n_channels, 2^depth - 1)
        Filled with features and bins, where bin -1 is no split and bin -2 a split by a set.
    sets : ndarray of uint64, shape (n_channels, 2^depth - 1, n_words), optional
        Filled with the bins that go left at nodes that split by a set.  None without categories,
        which avoids the compilation of the code for sets.
    counts : ndarray of int64, shape (most bins of a column,), optional
        Work array for the rows of each bin, or None if one row is enough for a leaf.
    limits : (int, float)
        Fewest rows of a leaf, and what fraction of a channel's absolute weight is added to
        each side of a split.
    draw : (int, int, ndarray of int64, ndarray of bool)
        Seed, number of features that a node may split, feature of each column, and a work array
        for the columns that a node may split, which are all at first.
    """
    codes = table[0]
    histograms, weights, row_numbers, todo, at_once, of_bins = room
    features, bins = nodes
    min_rows, fraction = limits
    n_nodes = features.shape[1]
    rows, other = row_numbers[0], row_numbers[1]
    draws, is_open = draw[1] <= draw[2][-1], draw[3]
    # Weights of a channel, and those of a node whose rows are counted, zero elsewhere.
    packed, masked = weights[0], weights[1]
    left_set = None
    if sets is not None:
        left_set = np.zeros(sets.shape[2], np.uint64)
    for c in range(len(features)):
        n, total, largest = _pack(duals[c], is_drawn, packed, rows)
        _count(table, packed, rows[:n], histograms[0], at_once)
        ridge = fraction * ((total >> _SHIFT) + (total & _MASK))
        features[c] = 0
        bins[c] = -1
        todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3], todo[0, 4] = 0, 0, 0, n, total
        n_todo = 1
        while n_todo:
            n_todo -= 1
            node, place = todo[n_todo, 0], todo[n_todo, 1]
            begin, end, total = todo[n_todo, 2], todo[n_todo, 3], todo[n_todo, 4]
            if draws:
                _draw_columns(draw, c * n_nodes + node)
            f, b, left_total = split_of_node(
                table, histograms[place], (columns[0], columns[1], is_open), (total, ridge),
                left_set, rows[begin:end], (packed, masked), of_bins, counts, (min_rows, largest),
            )  # fmt: skip
            if b == -1:
                continue
            features[c, node], bins[c, node] = f, b
            if sets is not None and left_set is not None:
                for w in range(sets.shape[2]):
                    sets[c, node, w] = left_set[w]
            left = 2 * node + 1
            if left >= n_nodes:
                continue
            middle = _rows_parted(codes[f], b, left_set, rows, other, begin, end)
            smaller, larger = (left, begin, middle), (left + 1, middle, end)
            weight_of_smaller, weight_of_larger = left_total, total - left_total
            if middle - begin > end - middle:
                smaller, larger = larger, smaller
                weight_of_smaller, weight_of_larger = weight_of_larger, weight_of_smaller
            may_smaller = _may_split(weight_of_smaller, smaller[2] - smaller[1], min_rows)
            may_larger = _may_split(weight_of_larger, larger[2] - larger[1], min_rows)
            if may_smaller or may_larger:
                of_smaller = rows[smaller[1] : smaller[2]]
                _count(table, packed, of_smaller, histograms[place + 1], at_once)
            # The larger child takes the place of its parent, and comes last: the smaller one uses
            # no place but those below its own.
            if may_larger:
                for k in range(histograms.shape[1]):
                    histograms[place, k] -= histograms[place + 1, k]
                todo[n_todo, 0], todo[n_todo, 1] = larger[0], place
                todo[n_todo, 2], todo[n_todo, 3] = larger[1], larger[2]
                todo[n_todo, 4] = weight_of_larger
                n_todo += 1
            if may_smaller:
                todo[n_todo, 0], todo[n_todo, 1] = smaller[0], place + 1
                todo[n_todo, 2], todo[n_todo, 3] = smaller[1], smaller[2]
                todo[n_todo, 4] = weight_of_smaller
                n_todo += 1


@compiled(no_cpython_wrapper=True)
def _may_split(total: int, n_rows: int, min_rows: int) -> bool:
    """Whether a node has weight of both signs, and enough rows."""
    return bool(total >> _SHIFT > 0 and total & _MASK > 0 and n_rows >= 2 * min_rows)


@compiled(no_cpython_wrapper=True)
def _count(
    table: tuple[NDArray[Any], ...],
    packed: IntArray,
    rows: NDArray[np.int32],
    histogram: IntArray,
    at_once: IntArray,
) -> None:
    _, _, by_row, dense, _, _, _, _, row_indptr, row_entries = table
    for b in range(len(histogram)):
        histogram[b] = 0
    for begin in range(0, len(dense), _GROUP_COLUMNS):
        end = len(dense) if len(dense) - begin < _GROUP_COLUMNS else begin + _GROUP_COLUMNS
        _count_dense(by_row, dense, begin, end, packed, rows, histogram, at_once)
    if len(row_entries):
        for j in range(len(rows)):
            row = rows[j]
            for e in range(row_indptr[row], row_indptr[row + 1]):
                histogram[row_entries[e]] += packed[row]


@compiled(no_cpython_wrapper=True)
def _count_sparse(
    table: tuple[NDArray[Any], ...],
    f: int,
    rows: NDArray[np.int32],
    weights: tuple[IntArray, IntArray, IntArray],
    total: int,
    rest: int,
) -> None:
    """Count the bins of a sparse column in the rows of a node, whose masked weights are set."""
    codes, columns, _, _, _, rare_indptr, rare_rows, rare_codes, _, _ = table
    packed, masked, bins = weights
    k, common = columns[f, 2], columns[f, 3]
    n_bins = columns[f, 1]
    if n_bins == 2:
        bins[1 - common] = rest
    else:
        for b in range(n_bins):
            bins[b] = 0
        if rare_indptr[k + 1] - rare_indptr[k] < len(rows):
            for e in range(rare_indptr[k], rare_indptr[k + 1]):
                bins[np.int64(rare_codes[e])] += masked[rare_rows[e]]
        else:
            code = codes[f]
            for j in range(len(rows)):
                bins[np.int64(code[rows[j]])] += packed[rows[j]]
    bins[common] = total - rest


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
    return int(max(0.0, least - _ROUNDING * (positive + negative + half)))


@compiled(no_cpython_wrapper=True)
def _needed(node: tuple[int, float], limit: float) -> tuple[int, int]:
    """Weights outside the common bin that a better split needs, either of which is enough.

    One side of a split has none of the common bin.  If it has the larger fraction of positive
    weight, the impurity would be smaller without its negative weight, and the other way around.
    The positive one is shifted as in a histogram.
    """
    total, ridge = node
    positive, negative = float(total >> _SHIFT), float(total & _MASK)
    half = 0.5 * ridge
    of_positive = _least_weight(positive, negative, limit, half) << _SHIFT
    return of_positive, _least_weight(negative, positive, limit, half)


@compiled(no_cpython_wrapper=True)
def _any_enough(weights: IntArray, needed: tuple[int, int]) -> bool:
    """Whether any weight has enough of a sign.

    It is a loop that LLVM makes vector code of: a sum is negative if one of its terms is enough.
    """
    signs = 0
    for i in range(len(weights)):
        signs |= (needed[0] - 1 - weights[i]) | (needed[1] - 1 - (weights[i] & _MASK))
    return signs < 0


@compiled(no_cpython_wrapper=True)
def _limit_by_common_bins(
    table: tuple[NDArray[Any], ...],
    histogram: IntArray,
    columns: tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.bool_]],
    node: tuple[int, float],
    limits: tuple[float, float],
) -> float:
    """Lower a limit to the least impurity where common bins alone are one side of a split.

    Only splits that are certainly allowed count: ``limits`` are the limit, and the weight that is
    enough for a side.
    """
    of_columns, sparse = table[1], table[4]
    is_category, directions, is_open = columns
    total, ridge = node
    limit, enough = limits
    half = 0.5 * ridge
    positive, negative = float(total >> _SHIFT), float(total & _MASK)
    needed = _needed(node, limit)
    for begin in range(0, len(sparse), _COLUMNS_AT_ONCE):
        end = min(len(sparse), begin + _COLUMNS_AT_ONCE)
        first = of_columns[sparse[begin], 0]
        if not _any_enough(histogram[first : first + end - begin], needed):
            continue
        for k in range(begin, end):
            f, rest = sparse[k], histogram[first + k - begin]
            if rest < needed[0] and (rest & _MASK) < needed[1]:
                continue
            at_end = of_columns[f, 3] == 0 or of_columns[f, 3] == of_columns[f, 1] - 1
            if not at_end or is_category[f] or directions[f] != 0:
                continue
            if not is_open[f]:
                continue
            p, n = float(rest >> _SHIFT) + half, float(rest & _MASK) + half
            q, m = positive + ridge - p, negative + ridge - n
            value = p * n * (q + m) + q * m * (p + n)
            is_enough = min(p + n, q + m) - ridge >= enough
            if is_enough and value < limit * ((p + n) * (q + m)):
                limit = value / ((p + n) * (q + m))
                needed = _needed(node, limit)
    return limit


@compiled(no_cpython_wrapper=True)
def split_of_node(
    table: tuple[NDArray[Any], ...],
    histogram: IntArray,
    columns: tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.bool_]],
    node: tuple[int, float],
    left_set: NDArray[np.uint64] | None,
    rows: NDArray[np.int32],
    weights: tuple[IntArray, IntArray],
    of_bins: IntArray | None,
    counts: IntArray | None,
    limits: tuple[int, int],
) -> tuple[int, int, int]:
    """Find the feature and bin of the split of least impurity, and the weight on its left.

    The bin is -1 if no impurity is below that of the node.  The impurity of a side with the
    weights p and n is ``p n / (p + n)``: Gini's, times the weight, halved.  The best set of
    categories is a run of them in the order of p / (p + n) (Breiman et al., 1984, section 4.2.2);
    there the bin is -2, and ``left_set`` is filled.  A split of a feature with a direction above 0
    must not have the larger fraction of positive weight on the left, and one below 0 not on the
    right; the last split of a column is free of a direction of 2 or -2
    (:class:`structboost.weak.monotone_trees.Directions`).

    ``node`` is the weight of the node, and the ridge.  Half of that is added to p and half to n, on
    each side and in the node.  So the impurity falls by a fourth of the growth of
    ``(p - n)^2 / (p + n + ridge)``.  Only columns that are open are split.

    Sparse columns whose bins other than the common one have too little weight are passed over
    (:func:`_needed`).

    ``weights`` are those of all rows, and zeros.  ``of_bins`` is room for the bins of a sparse
    column, or None without one, which avoids the compilation of their code.  ``limits``
    are the fewest ``rows`` of a side, and the largest weight of a row.  The rows of a column are
    counted, with ``counts`` as room, where they are too light to be enough for certain.
    """
    codes, of_columns = table[0], table[1]
    is_category, directions, is_open = columns
    total, ridge = node
    best_feature, best_bin, best_left = 0, -1, 0
    positive, negative = float(total >> _SHIFT), float(total & _MASK)
    if positive <= 0.0 or negative <= 0.0:
        return best_feature, best_bin, best_left
    half = 0.5 * ridge
    impurity = (positive + half) * (negative + half) / (positive + negative + ridge)
    margin = _ROUNDING * impurity
    # What the next split must be below.
    limit = impurity + 0.25 * ridge - margin
    min_rows, largest = limits
    # Sides of less weight may have too few rows.
    enough = float(min_rows) * largest
    # Sparse columns are passed over by this limit; ten margins, since each split is below the last
    # one by a margin.
    cap, is_masked, needed = limit, False, (0, 0)
    if of_bins is not None:
        cap = _limit_by_common_bins(
            table, histogram, columns, node, (limit, enough if counts is not None else 0.0)
        )
        cap = min(limit, cap + 10.0 * margin)
        needed = _needed(node, cap)
    next_f = 0
    while next_f < len(directions):
        f = next_f
        next_f += 1
        first, n_bins = of_columns[f, 0], of_columns[f, 1]
        is_sparse = of_columns[f, 2] >= 0
        if of_bins is not None:
            if is_sparse:
                if limit < cap:
                    cap = limit
                    needed = _needed(node, cap)
                last = f + _COLUMNS_AT_ONCE - 1
                if last < len(directions) and of_columns[last, 2] == of_columns[f, 2] + last - f:
                    if not _any_enough(histogram[first : first + _COLUMNS_AT_ONCE], needed):
                        next_f = last + 1
                        continue
                rest = histogram[first]
                if rest == 0 or (rest < needed[0] and (rest & _MASK) < needed[1]):
                    continue
        if not is_open[f]:
            continue
        here = histogram[first : first + n_bins]
        if of_bins is not None:
            if is_sparse:
                if not is_masked:
                    is_masked = True
                    for j in range(len(rows)):
                        weights[1][rows[j]] = weights[0][rows[j]]
                _count_sparse(
                    table, f, rows, (weights[0], weights[1], of_bins), total, histogram[first]
                )
                here = of_bins[:n_bins]
        if left_set is not None and is_category[f]:
            if counts is not None:
                _count_rows(codes[f], rows, counts[:n_bins])
            needed = (len(rows), min_rows)
            least, left = _best_set(here, total, (limit, margin, half), left_set, counts, needed)
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
            p, n = float(left >> _SHIFT) + half, float(left & _MASK) + half
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
                        _count_rows(codes[f], rows, counts[:n_bins])
                        for k in range(1, n_bins):
                            counts[k] += counts[k - 1]
                    if min(counts[b], len(rows) - counts[b]) < min_rows:
                        continue
                limit = value / ((p + n) * (q + m)) - margin
                best_feature, best_bin, best_left = f, b, left
    if of_bins is not None:
        if is_masked:
            for j in range(len(rows)):
                weights[1][rows[j]] = 0
    return best_feature, best_bin, best_left


@compiled(no_cpython_wrapper=True)
def _best_set(
    histogram: IntArray,
    total: int,
    limits: tuple[float, float, float],
    left_set: NDArray[np.uint64],
    counts: IntArray | None,
    rows: tuple[int, int],
) -> tuple[float, int]:
    """Put the best set of bins into ``left_set`` if its impurity is below the first of ``limits``.

    Returns the new limit, and the weight of the set.  The other ``limits`` are what impurities must
    differ by, and half of the ridge.  Bins without rows go to the side of more weight.
    """
    limit, margin, half = limits
    n_bins = len(histogram)
    positive, negative = float(total >> _SHIFT), float(total & _MASK)
    prior = _SMOOTHING / max(1, rows[0])
    orders, order = np.empty(n_bins), np.empty(n_bins, np.int64)
    for b in range(n_bins):
        p, n = float(histogram[b] >> _SHIFT), float(histogram[b] & _MASK)
        orders[b] = np.inf
        if histogram[b] != 0:
            orders[b] = (p + prior * positive) / (p + n + prior * (positive + negative))
        # Insertion, since numba takes 2 s of every first fit to compile a sort.
        i = b
        while i > 0 and orders[order[i - 1]] > orders[b]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = b
    best, best_left, n_left, left = 0, 0, 0, 0
    for i in range(n_bins - 1):
        if orders[order[i + 1]] == np.inf:
            break
        left += histogram[order[i]]
        if counts is not None:
            n_left += counts[order[i]]
            if n_left < rows[1] or rows[0] - n_left < rows[1]:
                continue
        p, n = float(left >> _SHIFT) + half, float(left & _MASK) + half
        q, m = positive + 2.0 * half - p, negative + 2.0 * half - n
        value = p * n * (q + m) + q * m * (p + n)
        if value < limit * ((p + n) * (q + m)):
            limit = value / ((p + n) * (q + m)) - margin
            best, best_left = i + 1, left
    if best > 0:
        p, n = float(best_left >> _SHIFT), float(best_left & _MASK)
        takes_empty = 2.0 * (p + n) > positive + negative
        for w in range(len(left_set)):
            left_set[w] = np.uint64(0)
        for i in range(n_bins):
            b = order[i]
            if i < best or (orders[b] == np.inf and takes_empty):
                left_set[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    return limit, best_left


@compiled(no_cpython_wrapper=True)
def _draw_columns(draw: tuple[int, int, IntArray, NDArray[np.bool_]], node: int) -> None:
    """Open the columns of ``draw`` features, drawn anew for each node."""
    seed, n_drawn, feature_of, is_open = draw
    n_left = feature_of[-1] + 1
    state = np.uint64(seed) + np.uint64(node) * np.uint64(0xBF58476D1CE4E5B9)
    is_drawn = False
    for j in range(len(feature_of)):
        if j == 0 or feature_of[j] != feature_of[j - 1]:
            # The features that are still to come share the places that are still free.
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state ^ (state >> np.uint64(30))
            z *= np.uint64(0xBF58476D1CE4E5B9)
            z ^= z >> np.uint64(27)
            z *= np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            is_drawn = np.int64(z >> np.uint64(33)) % n_left < n_drawn
            n_drawn -= is_drawn
            n_left -= 1
        is_open[j] = is_drawn


@compiled(no_cpython_wrapper=True)
def _rows_parted(
    code: NDArray[Any],
    bin_: int,
    left_set: NDArray[np.uint64] | None,
    rows: NDArray[np.int32],
    other: NDArray[np.int32],
    begin: int,
    end: int,
) -> int:
    """Move the rows left of a split before the others, and return the index of the next row."""
    n_left, n_right = begin, 0
    for j in range(begin, end):
        row = rows[j]
        is_right = code[row] > bin_
        if left_set is not None and bin_ == -2:
            is_right = not is_in_set(left_set, np.int64(code[row]))
        rows[n_left] = row
        other[n_right] = row
        n_left += 1 - is_right
        n_right += is_right
    for j in range(n_right):
        rows[n_left + j] = other[j]
    return n_left


@compiled(no_cpython_wrapper=True)
def _count_rows(code: NDArray[Any], rows: NDArray[np.int32], counts: IntArray) -> None:
    for b in range(len(counts)):
        counts[b] = 0
    for j in range(len(rows)):
        counts[np.int64(code[rows[j]])] += 1


@compiled
def leaf_numbers(
    codes: NDArray[Any],
    features: IntArray,
    bins: IntArray,
    sets: NDArray[np.uint64] | None,
    out: NDArray[np.int16],
) -> None:
    """Leaf of every row in each tree, counted from the left, shape (n_trees, n_rows)."""
    n_nodes = features.shape[1]
    for t in range(len(features)):
        for i in range(codes.shape[1]):
            k = 0
            while k < n_nodes:
                b = bins[t, k]
                is_right = b >= 0 and codes[features[t, k], i] > b
                if sets is not None and b == -2:
                    is_right = not is_in_set(sets[t, k], np.int64(codes[features[t, k], i]))
                k = 2 * k + 1 + is_right
            out[t, i] = k - n_nodes


def row_hashes(codes: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash each row, with one hash for equal rows, by steps of splitmix64."""
    out = np.zeros(codes.shape[1], np.uint64)
    for code in codes:
        z = (out ^ code) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = z ^ (z >> np.uint64(31))
    return out
