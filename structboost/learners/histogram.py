"""Histograms that price stumps, for any number of channels, and those that grow trees.

A histogram of trees holds the positive and the negative weight of every bin, as integers in the
halves of one number of 64 bits.  So an addition counts both, and sums do not depend on their order.
Columns are counted from a table of codes with one line per row.  A column with one common bin has
only one entry, the weight of its other bins (:mod:`structboost.learners.tree_growth`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, RowArray, ShortArray
from structboost.contract.parts import starts_of
from structboost.learners.base import ROUNDING
from structboost.learners.binning import BinnedFeatures
from structboost.runtime.blocks import add_to_tree, close_tree, tree_depth, tree_sum
from structboost.runtime.compiled import compiled

# Most numbers in the histograms that are filled together: a quarter of a megabyte.
_GROUP_ENTRIES = 1 << 15


def histograms(binned: BinnedFeatures, duals: FloatArray, first: int, last: int) -> FloatArray:
    """Sum the duals of each bin and channel, over blocks of rows along their tree.

    Only features ``first <= f < last`` count.  Their histograms are one below the other, and the
    totals over all rows follow: shape (sum of n_bins + 1, n_channels).
    """
    duals = np.ascontiguousarray(duals, np.float64)
    n_bins = binned.bins.n_bins
    rows = np.flatnonzero(duals.any(axis=1))
    starts = rows.searchsorted(binned.blocks)
    block_totals = np.zeros((len(starts) - 1, duals.shape[1]))
    _add_block_totals(rows, starts, duals, block_totals)
    ends = [0, *n_bins[first:last].cumsum().tolist()]
    out = np.empty((ends[-1] + 1, duals.shape[1]))
    # Columns whose histograms fit in the cache together.
    group_of = (np.array(ends[1:]) - 1) * duals.shape[1] // _GROUP_ENTRIES
    bounds = [*np.flatnonzero(np.diff(group_of, prepend=-1)).tolist(), last - first]
    largest = max((ends[b] - ends[a] for a, b in pairwise(bounds)), default=0)
    rooms = np.empty((tree_depth(len(block_totals)) + 1, largest, duals.shape[1]))
    rare = (*binned.rare,)
    for a, b in pairwise(bounds):
        _fill_histograms(
            (binned.codes, n_bins, binned.blocks), rare, (rows, starts), duals, block_totals,
            first + a, first + b, (rooms[:-1], rooms[-1]), out[ends[a] : ends[b]],
        )  # fmt: skip
    out[-1] = tree_sum(block_totals)
    return out


@compiled
def best_splits(
    histograms: FloatArray,
    n_bins: IntArray,
    totals: FloatArray,
    low: float,
    high: float,
    edges: FloatArray,
    bins: IntArray,
    flipped: BoolArray,
) -> None:
    """Best stump of each feature and channel, by prefix sums.

    A stump responds with ``high`` right of its threshold and ``low`` left of it, and a flipped one
    the other way round.  Its edge on channel c is the sum over rows of ``duals[row, c] * answer``.

    Parameters
    ----------
    histograms : ndarray, shape (sum of n_bins, n_channels)
    n_bins : ndarray, shape (n_features,)
        Bins of each feature; a stump may split after bin b for b < n_bins - 1.
    totals : ndarray, shape (n_channels,)
    edges, bins, flipped : ndarray, shape (n_features, n_channels)
        Filled; edge -inf where a feature has one bin.
    """
    n_channels = len(totals)
    left = np.zeros(n_channels)
    at = 0
    for f in range(len(n_bins)):
        for c in range(n_channels):
            left[c] = 0.0
            edges[f, c] = -np.inf
            bins[f, c] = 0
            flipped[f, c] = False
        for b in range(n_bins[f] - 1):
            for c in range(n_channels):
                left[c] += histograms[at + b, c]
                right = totals[c] - left[c]
                straight = low * left[c] + high * right
                turned = high * left[c] + low * right
                edge = max(straight, turned)
                if edge > edges[f, c] * (1.0 + ROUNDING):
                    edges[f, c] = edge
                    bins[f, c] = b
                    flipped[f, c] = turned > straight
        at += n_bins[f]


@compiled
def best_shared_splits(
    histograms: FloatArray,
    n_bins: IntArray,
    totals: FloatArray,
    low: float,
    high: float,
    norms: FloatArray,
    bins: IntArray,
) -> None:
    """Stump of each feature with the largest l1 norm of edges over the channels.

    Parameters
    ----------
    histograms, n_bins, totals, low, high
        As in :func:`best_splits`.
    norms : ndarray, shape (n_features,)
        Filled; -inf where a feature has one bin.
    bins : ndarray of int64, shape (n_features,)
        The bin after which it splits.
    """
    n_channels = len(totals)
    left = np.zeros(n_channels)
    at = 0
    for f in range(len(n_bins)):
        for c in range(n_channels):
            left[c] = 0.0
        norms[f] = -np.inf
        bins[f] = 0
        for b in range(n_bins[f] - 1):
            norm = 0.0
            for c in range(n_channels):
                left[c] += histograms[at + b, c]
                norm += abs(low * left[c] + high * (totals[c] - left[c]))
            if norm > norms[f] * (1.0 + ROUNDING):
                norms[f] = norm
                bins[f] = b
        at += n_bins[f]


@compiled
def _add_block_totals(
    rows: IntArray, starts: IntArray, duals: FloatArray, totals: FloatArray
) -> None:
    for block in range(len(totals)):
        for i in range(starts[block], starts[block + 1]):
            for c in range(duals.shape[1]):
                totals[block, c] += duals[rows[i], c]


@compiled
def _fill_histograms(
    binned: tuple[AnyArray, IntArray, IntArray],
    rare: tuple[IntArray, IntArray, RowArray, AnyArray],
    rows_by_block: tuple[IntArray, IntArray],
    duals: FloatArray,
    block_totals: FloatArray,
    first: int,
    last: int,
    space: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Fill ``out`` with the histograms of the features ``first <= f < last``.

    ``binned`` are the codes, the number of bins of each feature and the first row of each block;
    ``rare`` is the sparse form of :class:`BinnedFeatures`.  ``rows_by_block`` are the rows whose
    duals are not zero, and where those of each block begin.  ``space`` is room for sums along the
    tree of blocks.
    """
    codes, n_bins, blocks = binned
    common, rare_indptr, rare_rows, rare_codes = rare
    rows, starts = rows_by_block
    open_sums, partial = space
    n_blocks, n_channels = block_totals.shape
    n_features = len(n_bins)
    for block in range(n_blocks):
        # The first of two neighbours waits for the second in its place in the tree.
        waits = block % 2 == 0
        sums = open_sums[0] if waits else partial
        start = 0
        for f in range(first, last):
            code, histogram = codes[f], sums[start : start + n_bins[f]]
            start += n_bins[f]
            for b in range(len(histogram)):
                for c in range(n_channels):
                    histogram[b, c] = 0.0
            begin = rare_indptr[block * n_features + f]
            end = rare_indptr[block * n_features + f + 1]
            usual = common[block, f]
            # A feature is read by its sparse form where that is shorter.
            if usual >= 0 and end - begin < starts[block + 1] - starts[block]:
                for e in range(begin, end):
                    bin_ = rare_codes[e]
                    row = blocks[block] + rare_rows[e]
                    for c in range(n_channels):
                        histogram[bin_, c] += duals[row, c]
                # The common bin gets the rest.
                for c in range(n_channels):
                    others = 0.0
                    for b in range(len(histogram)):
                        others += histogram[b, c]
                    histogram[usual, c] = block_totals[block, c] - others
            else:
                for i in range(starts[block], starts[block + 1]):
                    row = rows[i]
                    bin_ = code[row]
                    for c in range(n_channels):
                        histogram[bin_, c] += duals[row, c]
        if not waits:
            add_to_tree(open_sums, block, partial, len(out))
    close_tree(open_sums, n_blocks, out)


# Where the positive weight begins, and the bits of the negative one.
SHIFT = 32
MASK = (1 << 32) - 1
# Rows that are prefetched together.
ROWS_AT_ONCE = 64
# The absolute weights of a channel sum to this.
_TOTAL = 1 << 31
# Columns that are counted together: the histograms of 256 bins fit in the cache.
_GROUP_COLUMNS = 128
# Fewest sparse columns that are worth the compilation of their code, about a second.
_FEWEST_SPARSE = 64


class SparseColumns(NamedTuple):
    """Columns with one common bin, whose other bins have few rows.

    Parameters
    ----------
    features : ndarray of int64, shape (n_sparse,)
        Their indices among all columns.
    rare_indptr : ndarray of int64, shape (n_sparse + 1,)
    rare_rows : ndarray of int32
        Rows outside the common bin of sparse column k, at ``rare_indptr[k]`` and on.
    rare_codes : ndarray
        Their bins.
    row_indptr : ndarray of int64, shape (n_rows + 1,)
    row_entries : ndarray of int32
        Entries in a histogram of the sparse columns with row i outside their common bins, at
        ``row_indptr[i]`` and on.
    bins : ndarray of int64
        Room for the weights of the bins of a column.
    """

    features: IntArray
    rare_indptr: IntArray
    rare_rows: ShortArray
    rare_codes: AnyArray
    row_indptr: IntArray
    row_entries: ShortArray
    bins: IntArray


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
    sparse : tuple or None
        The other columns, as :class:`SparseColumns`, or None without one, which avoids the
        compilation of their code.
    """

    codes: AnyArray
    columns: IntArray
    by_row: AnyArray
    dense: IntArray
    sparse: tuple[Any, ...] | None


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
    columns = np.full((n_columns, 4), -1, np.int64)
    columns[:, 1] = binned.bins.n_bins
    columns[dense, 0] = np.cumsum(columns[dense, 1]) - columns[dense, 1]
    columns[sparse, 0] = columns[dense, 1].sum() + np.arange(len(sparse))
    columns[sparse, 2], columns[sparse, 3] = np.arange(len(sparse)), common[0, sparse]
    by_row = np.empty((binned.n_rows, len(dense)), binned.codes.dtype)
    for a, b in pairwise(binned.blocks.tolist()):
        by_row[a:b] = binned.codes[dense, a:b].T
    of_sparse = tuple(_sparse_columns(binned, sparse, columns)) if len(sparse) else None
    return CountedTable(binned.codes, columns, by_row, columns[dense, 0], of_sparse)


def _sparse_columns(binned: BinnedFeatures, sparse: IntArray, columns: IntArray) -> SparseColumns:
    rows_of = [
        np.flatnonzero(binned.codes[f] != common).astype(np.int32)
        for f, common in zip(sparse, columns[sparse, 3], strict=True)
    ]
    rare_rows, lengths = np.concatenate(rows_of), np.array([len(rows) for rows in rows_of])
    by_entry = np.repeat(columns[sparse, 0].astype(np.int32), lengths)
    return SparseColumns(
        sparse,
        starts_of(lengths),
        rare_rows,
        np.concatenate([binned.codes[f, rows] for f, rows in zip(sparse, rows_of, strict=True)]),
        starts_of(np.bincount(rare_rows, minlength=binned.n_rows)),
        by_entry[np.argsort(rare_rows, kind="stable")],
        np.empty(columns[sparse, 1].max(), np.int64),
    )


@compiled(no_cpython_wrapper=True)
def pack(
    duals: FloatArray, is_drawn: BoolArray, packed: IntArray, rows: ShortArray
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
        packed[i] = size << SHIFT if scaled > 0.0 else size
        rows[n] = i
        n += size != 0
        total += packed[i]
        # A condition instead of ``max``, which numba compiles as a function for each type.
        largest = size if size > largest else largest
    return n, total, largest


@compiled(no_cpython_wrapper=True)
def count(
    of_dense: tuple[AnyArray, IntArray],
    sparse: tuple[Any, ...] | None,
    packed: IntArray,
    rows: ShortArray,
    histogram: IntArray,
    at_once: IntArray,
) -> None:
    """Fill the histogram of a node with the packed weights of its rows.

    ``of_dense`` are ``by_row`` and ``dense`` of the :class:`CountedTable`.
    """
    by_row, dense = of_dense
    for b in range(len(histogram)):
        histogram[b] = 0
    for begin in range(0, len(dense), _GROUP_COLUMNS):
        end = min(len(dense), begin + _GROUP_COLUMNS)
        _count_dense(by_row, dense, begin, end, packed, rows, histogram, at_once)
    if sparse is not None:
        row_indptr, row_entries = sparse[4], sparse[5]
        for j in range(len(rows)):
            row = rows[j]
            for e in range(row_indptr[row], row_indptr[row + 1]):
                histogram[row_entries[e]] += packed[row]


@compiled(no_cpython_wrapper=True)
def _count_dense(
    by_row: AnyArray,
    dense: IntArray,
    begin: int,
    end: int,
    packed: IntArray,
    rows: ShortArray,
    histogram: IntArray,
    weights: IntArray,
) -> int:
    """Add the rows to the histograms of the dense columns ``begin <= k < end``.

    Rows that are far apart wait for memory, which a loop that only touches them requests all at
    once.  What it returns keeps that loop alive.  ``weights`` is room for those of these rows.
    """
    touched = 0
    for first in range(0, len(rows), ROWS_AT_ONCE):
        n = min(ROWS_AT_ONCE, len(rows) - first)
        is_far = rows[first + n - 1] - rows[first] > 4 * n
        for j in range(n):
            row = rows[first + j]
            weights[j] = packed[row]
            if is_far:
                touched += by_row[row, begin] + by_row[row, end - 1]
        # Two at a time: they mostly go to bins that do not wait for each other.  An index without
        # a sign is not checked for being negative.
        for j in range(0, n - 1, 2):
            row, next_row = np.uint64(rows[first + j]), np.uint64(rows[first + j + 1])
            weight, next_weight = weights[j], weights[j + 1]
            for k in range(begin, end):
                start = np.uint64(dense[k])
                histogram[start + np.uint64(by_row[row, k])] += weight
                histogram[start + np.uint64(by_row[next_row, k])] += next_weight
        if n % 2:
            row = rows[first + n - 1]
            for k in range(begin, end):
                histogram[dense[k] + np.int64(by_row[row, k])] += weights[n - 1]
    return touched


@compiled(no_cpython_wrapper=True)
def count_sparse(
    codes: tuple[AnyArray, IntArray],
    sparse: tuple[Any, ...],
    f: int,
    rows: ShortArray,
    weights: tuple[IntArray, IntArray],
    total: int,
    rest: int,
) -> None:
    """Count the bins of a sparse column in the rows of a node, whose masked weights are set."""
    of_bins, columns = codes
    _, rare_indptr, rare_rows, rare_codes, _, _, bins = sparse
    packed, masked = weights
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
            code = of_bins[f]
            for j in range(len(rows)):
                bins[np.int64(code[rows[j]])] += packed[rows[j]]
    bins[common] = total - rest


@compiled(no_cpython_wrapper=True)
def count_rows(code: AnyArray, rows: ShortArray, counts: IntArray) -> None:
    """Count the rows in each bin of a column."""
    for b in range(len(counts)):
        counts[b] = 0
    for j in range(len(rows)):
        counts[np.int64(code[rows[j]])] += 1
