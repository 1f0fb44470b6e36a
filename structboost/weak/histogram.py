"""The histogram kernel that prices stumps, for any number of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.row_blocks import BLOCK_ROWS, block_starts

# Numbers in the histograms that are filled together, a block of rows at a time: a quarter of a megabyte.
_GROUP_ENTRIES = 1 << 15


@njit(cache=True, nogil=True)
def best_splits(
    codes: NDArray[Any],
    n_bins: NDArray[np.int64],
    common: NDArray[np.int64],
    rare_indptr: NDArray[np.int64],
    rare_rows: NDArray[np.int32],
    rare_codes: NDArray[Any],
    rows: NDArray[np.int64],
    duals: NDArray[np.float64],
    low: float,
    high: float,
    edges: NDArray[np.float64],
    bins: NDArray[np.int64],
    flipped: NDArray[np.bool_],
    first: int,
    last: int,
) -> None:
    """Best stump of each feature and channel, by one histogram and prefix sums.

    A stump answers ``high`` right of its threshold and ``low`` left of it, flipped the other way round.
    Its edge on channel c is the sum over rows of ``duals[row, c] * answer``.

    Parameters
    ----------
    codes : ndarray, shape (n_features, n_rows)
    n_bins : ndarray, shape (n_features,)
        Bins of each feature; a stump may split after bin b for b < n_bins - 1.
    common, rare_indptr, rare_rows, rare_codes : ndarray
        The sparse form of the features (:class:`structboost.weak.binning.RareRows`): the common bin gets what the
        others leave of the total.
    rows : ndarray, shape (n_active,)
        Rows where the duals are not all zero.
    duals : ndarray, shape (n_rows, n_channels)
    edges, bins, flipped : ndarray, shape (n_features, n_channels)
        Filled for features ``first <= f < last``; edge -inf where a feature has one bin.
    """
    n_channels = duals.shape[1]
    starts = block_starts(rows, len(duals))
    totals = _totals(rows, starts, duals)
    left = np.zeros(n_channels)
    group = first
    while group < last:
        beyond = _group_end(group, last, n_bins, n_channels)
        histograms, indptr = _histograms(
            group, beyond, codes, n_bins, common, rare_indptr, rare_rows, rare_codes, rows, starts, duals, totals
        )
        for f in range(group, beyond):
            histogram = histograms[indptr[f - group] : indptr[f - group + 1]]
            left[:] = 0.0
            edges[f] = -np.inf
            bins[f] = 0
            flipped[f] = False
            for b in range(n_bins[f] - 1):
                for c in range(n_channels):
                    left[c] += histogram[b, c]
                    right = totals[c] - left[c]
                    straight = low * left[c] + high * right
                    turned = high * left[c] + low * right
                    edge = max(straight, turned)
                    if edge > edges[f, c]:
                        edges[f, c] = edge
                        bins[f, c] = b
                        flipped[f, c] = turned > straight
        group = beyond


@njit(cache=True, nogil=True)
def best_shared_splits(
    codes: NDArray[Any],
    n_bins: NDArray[np.int64],
    common: NDArray[np.int64],
    rare_indptr: NDArray[np.int64],
    rare_rows: NDArray[np.int32],
    rare_codes: NDArray[Any],
    rows: NDArray[np.int64],
    duals: NDArray[np.float64],
    low: float,
    high: float,
    norms: NDArray[np.float64],
    bins: NDArray[np.int64],
    first: int,
    last: int,
) -> None:
    """Stump of each feature with the largest l1 norm of edges over the channels, over all thresholds.

    Parameters
    ----------
    codes, n_bins, common, rare_indptr, rare_rows, rare_codes, rows, duals, low, high
        As in :func:`best_splits`.
    norms : ndarray, shape (n_features,)
        Filled for features ``first <= f < last``; -inf where a feature has one bin.
    bins : ndarray of int64, shape (n_features,)
        The bin after which it splits.
    """
    n_channels = duals.shape[1]
    starts = block_starts(rows, len(duals))
    totals = _totals(rows, starts, duals)
    left = np.zeros(n_channels)
    group = first
    while group < last:
        beyond = _group_end(group, last, n_bins, n_channels)
        histograms, indptr = _histograms(
            group, beyond, codes, n_bins, common, rare_indptr, rare_rows, rare_codes, rows, starts, duals, totals
        )
        for f in range(group, beyond):
            histogram = histograms[indptr[f - group] : indptr[f - group + 1]]
            left[:] = 0.0
            norms[f] = -np.inf
            bins[f] = 0
            for b in range(n_bins[f] - 1):
                norm = 0.0
                for c in range(n_channels):
                    left[c] += histogram[b, c]
                    norm += abs(low * left[c] + high * (totals[c] - left[c]))
                if norm > norms[f]:
                    norms[f] = norm
                    bins[f] = b
        group = beyond


@njit(cache=True, nogil=True)
def _totals(rows: NDArray[np.int64], starts: NDArray[np.int64], duals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the duals of each channel."""
    n_channels = duals.shape[1]
    totals = np.zeros(n_channels)
    for block in range(len(starts) - 1):
        partial = np.zeros(n_channels)
        for row in rows[starts[block] : starts[block + 1]]:
            for c in range(n_channels):
                partial[c] += duals[row, c]
        totals += partial
    return totals


@njit(cache=True, nogil=True)
def _group_end(first: int, last: int, n_bins: NDArray[np.int64], n_channels: int) -> int:
    """End of the group of features from ``first`` whose histograms are filled together: they fit in the cache."""
    size = n_bins[first] * n_channels
    end = first + 1
    while end < last and size + n_bins[end] * n_channels <= _GROUP_ENTRIES:
        size += n_bins[end] * n_channels
        end += 1
    return end


@njit(cache=True, nogil=True)
def _histograms(
    first: int,
    last: int,
    codes: NDArray[Any],
    n_bins: NDArray[np.int64],
    common: NDArray[np.int64],
    rare_indptr: NDArray[np.int64],
    rare_rows: NDArray[np.int32],
    rare_codes: NDArray[Any],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    duals: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Histograms of the features ``first <= f < last``, one below the other, and where each begins."""
    n_blocks = len(starts) - 1
    indptr = np.zeros(last - first + 1, np.int64)
    indptr[1:] = np.cumsum(n_bins[first:last])
    histograms = np.zeros((indptr[-1], duals.shape[1]))
    partial = histograms if n_blocks == 1 else np.empty_like(histograms)
    # A feature is read by its sparse form where that is shorter.
    reads_rare = np.empty(last - first, np.bool_)
    position = rare_indptr[first:last].copy()
    for f in range(first, last):
        reads_rare[f - first] = common[f] >= 0 and rare_indptr[f + 1] - rare_indptr[f] < len(rows)
    for block in range(n_blocks):
        partial[:] = 0.0
        for f in range(first, last):
            histogram = partial[indptr[f - first] : indptr[f - first + 1]]
            if reads_rare[f - first]:
                at = position[f - first]
                end = at + np.searchsorted(rare_rows[at : rare_indptr[f + 1]], (block + 1) * BLOCK_ROWS)
                _fill_rare(rare_rows[at:end], rare_codes[at:end], duals, histogram)
                position[f - first] = end
            else:
                _fill(codes[f], rows[starts[block] : starts[block + 1]], duals, histogram)
        if n_blocks > 1:
            histograms += partial
    for f in range(first, last):
        if reads_rare[f - first]:
            _complete(histograms[indptr[f - first] : indptr[f - first + 1]], common[f], totals)
    return histograms, indptr


@njit(cache=True, nogil=True)
def _fill(
    code: NDArray[Any], rows: NDArray[np.int64], duals: NDArray[np.float64], histogram: NDArray[np.float64]
) -> None:
    """Add the active rows of a block to the histogram of a feature."""
    n_channels = duals.shape[1]
    for row in rows:
        bin_ = code[row]
        for c in range(n_channels):
            histogram[bin_, c] += duals[row, c]


@njit(cache=True, nogil=True)
def _fill_rare(
    rows: NDArray[np.int32], codes: NDArray[Any], duals: NDArray[np.float64], histogram: NDArray[np.float64]
) -> None:
    """Add the rows of a block that are outside the common bin."""
    n_channels = duals.shape[1]
    for e in range(len(rows)):
        bin_ = codes[e]
        row = rows[e]
        for c in range(n_channels):
            histogram[bin_, c] += duals[row, c]


@njit(cache=True, nogil=True)
def _complete(histogram: NDArray[np.float64], common: int, totals: NDArray[np.float64]) -> None:
    """Give the common bin what the others leave of the totals."""
    for c in range(len(totals)):
        others = 0.0
        for b in range(len(histogram)):
            others += histogram[b, c]
        histogram[common, c] = totals[c] - others
