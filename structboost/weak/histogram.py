"""The histogram kernel that prices stumps, for any number of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled
from structboost.shards.blocks import add_to_tree, close_tree, tree_depth, tree_sum
from structboost.weak.binning import BinnedFeatures

# Most numbers in the histograms that are filled together: a quarter of a megabyte.
_GROUP_ENTRIES = 1 << 15


def histograms(binned: BinnedFeatures, duals: FloatArray, first: int, last: int) -> FloatArray:
    """Sums of the duals of each bin and channel, added over blocks of rows along their tree.

    Parameters
    ----------
    binned : BinnedFeatures
    duals : ndarray, shape (n_rows, n_channels)
    first, last : int
        Features ``first <= f < last``.

    Returns
    -------
    histograms : ndarray, shape (sum of n_bins + 1, n_channels)
        Histograms of the features one below the other, then the totals over all rows.
    """
    duals = np.ascontiguousarray(duals, np.float64)
    n_bins = binned.bins.n_bins
    rows = np.flatnonzero(duals.any(axis=1))
    starts = np.searchsorted(rows, binned.blocks)
    block_totals = _block_totals(rows, starts, duals)
    out = np.empty((int(n_bins[first:last].sum()) + 1, duals.shape[1]))
    _fill_histograms(
        binned.codes,
        n_bins,
        binned.blocks,
        *binned.rare,
        rows,
        starts,
        duals,
        block_totals,
        first,
        last,
        out[:-1],
    )
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
    flipped: NDArray[np.bool_],
) -> None:
    """Best stump of each feature and channel, by prefix sums.

    A stump answers ``high`` right of its threshold and ``low`` left of it, flipped the other way
    round. Its edge on channel c is the sum over rows of ``duals[row, c] * answer``.

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
        left[:] = 0.0
        edges[f] = -np.inf
        bins[f] = 0
        flipped[f] = False
        for b in range(n_bins[f] - 1):
            for c in range(n_channels):
                left[c] += histograms[at + b, c]
                right = totals[c] - left[c]
                straight = low * left[c] + high * right
                turned = high * left[c] + low * right
                edge = max(straight, turned)
                if edge > edges[f, c]:
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
        left[:] = 0.0
        norms[f] = -np.inf
        bins[f] = 0
        for b in range(n_bins[f] - 1):
            norm = 0.0
            for c in range(n_channels):
                left[c] += histograms[at + b, c]
                norm += abs(low * left[c] + high * (totals[c] - left[c]))
            if norm > norms[f]:
                norms[f] = norm
                bins[f] = b
        at += n_bins[f]


@compiled
def _block_totals(rows: IntArray, starts: IntArray, duals: FloatArray) -> FloatArray:
    """Sum of the duals of each block and channel."""
    n_channels = duals.shape[1]
    totals = np.zeros((len(starts) - 1, n_channels))
    for block in range(len(totals)):
        for row in rows[starts[block] : starts[block + 1]]:
            for c in range(n_channels):
                totals[block, c] += duals[row, c]
    return totals


@compiled
def _group_end(first: int, last: int, n_bins: IntArray, n_channels: int) -> int:
    """End of the group of features from ``first`` whose histograms fit in the cache together."""
    size = n_bins[first] * n_channels
    end = first + 1
    while end < last and size + n_bins[end] * n_channels <= _GROUP_ENTRIES:
        size += n_bins[end] * n_channels
        end += 1
    return end


@compiled
def _fill_histograms(
    codes: NDArray[Any],
    n_bins: IntArray,
    blocks: IntArray,
    common: IntArray,
    rare_indptr: IntArray,
    rare_rows: NDArray[np.uint16],
    rare_codes: NDArray[Any],
    rows: IntArray,
    starts: IntArray,
    duals: FloatArray,
    block_totals: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """Fill ``out`` with the histograms of the features ``first <= f < last``, group by group."""
    n_blocks, n_channels = block_totals.shape
    n_features = len(n_bins)
    largest = 0
    beyond = first
    while beyond < last:
        begin, beyond = beyond, _group_end(beyond, last, n_bins, n_channels)
        largest = max(largest, n_bins[begin:beyond].sum())
    room = np.empty((largest, n_channels))
    rooms = np.empty((tree_depth(n_blocks), largest, n_channels))
    at = 0
    while first < last:
        beyond = _group_end(first, last, n_bins, n_channels)
        size = n_bins[first:beyond].sum()
        partial = room[:size]
        open_sums = rooms[:, :size]
        for block in range(n_blocks):
            # The first of two neighbours waits for the second in its place in the tree.
            waits = block % 2 == 0
            sums = open_sums[0] if waits else partial
            sums[:] = 0.0
            active = rows[starts[block] : starts[block + 1]]
            start = 0
            for f in range(first, beyond):
                histogram = sums[start : start + n_bins[f]]
                begin, end = (
                    rare_indptr[block * n_features + f],
                    rare_indptr[block * n_features + f + 1],
                )
                # A feature is read by its sparse form where that is shorter.
                if common[block, f] >= 0 and end - begin < len(active):
                    _fill_rare(
                        rare_rows[begin:end],
                        rare_codes[begin:end],
                        duals[blocks[block] :],
                        histogram,
                    )
                    _complete(histogram, common[block, f], block_totals[block])
                else:
                    _fill(codes[f], active, duals, histogram)
                start += n_bins[f]
            if not waits:
                add_to_tree(open_sums, block, partial)
        out[at : at + size] = close_tree(open_sums, n_blocks)
        at += size
        first = beyond


@compiled
def _fill(code: NDArray[Any], rows: IntArray, duals: FloatArray, histogram: FloatArray) -> None:
    """Add the active rows of a block to the histogram of a feature."""
    n_channels = duals.shape[1]
    for row in rows:
        bin_ = code[row]
        for c in range(n_channels):
            histogram[bin_, c] += duals[row, c]


@compiled
def _fill_rare(
    rows: NDArray[np.uint16], codes: NDArray[Any], duals: FloatArray, histogram: FloatArray
) -> None:
    """Add the rows that are outside the common bin; duals begin with the block."""
    n_channels = duals.shape[1]
    for e in range(len(rows)):
        bin_ = codes[e]
        row = rows[e]
        for c in range(n_channels):
            histogram[bin_, c] += duals[row, c]


@compiled
def _complete(histogram: FloatArray, common: int, totals: FloatArray) -> None:
    """Give the common bin the rest of the totals."""
    for c in range(len(totals)):
        others = 0.0
        for b in range(len(histogram)):
            others += histogram[b, c]
        histogram[common, c] = totals[c] - others
