"""The histogram kernel that prices stumps, for any number of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


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
    totals = _totals(rows, duals)
    histogram = np.zeros((n_bins[first:last].max(), n_channels))
    left = np.zeros(n_channels)
    for f in range(first, last):
        of_feature = histogram[: n_bins[f]]
        _histogram(f, codes, common, rare_indptr, rare_rows, rare_codes, rows, duals, totals, of_feature)
        left[:] = 0.0
        edges[f] = -np.inf
        bins[f] = 0
        flipped[f] = False
        for b in range(n_bins[f] - 1):
            for c in range(n_channels):
                left[c] += of_feature[b, c]
                right = totals[c] - left[c]
                straight = low * left[c] + high * right
                turned = high * left[c] + low * right
                edge = max(straight, turned)
                if edge > edges[f, c]:
                    edges[f, c] = edge
                    bins[f, c] = b
                    flipped[f, c] = turned > straight


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
    totals = _totals(rows, duals)
    histogram = np.zeros((n_bins[first:last].max(), n_channels))
    left = np.zeros(n_channels)
    for f in range(first, last):
        of_feature = histogram[: n_bins[f]]
        _histogram(f, codes, common, rare_indptr, rare_rows, rare_codes, rows, duals, totals, of_feature)
        left[:] = 0.0
        norms[f] = -np.inf
        bins[f] = 0
        for b in range(n_bins[f] - 1):
            norm = 0.0
            for c in range(n_channels):
                left[c] += of_feature[b, c]
                norm += abs(low * left[c] + high * (totals[c] - left[c]))
            if norm > norms[f]:
                norms[f] = norm
                bins[f] = b


@njit(cache=True, nogil=True)
def _totals(rows: NDArray[np.int64], duals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the duals of each channel."""
    n_channels = duals.shape[1]
    totals = np.zeros(n_channels)
    for row in rows:
        for c in range(n_channels):
            totals[c] += duals[row, c]
    return totals


@njit(cache=True, nogil=True)
def _histogram(
    f: int,
    codes: NDArray[Any],
    common: NDArray[np.int64],
    rare_indptr: NDArray[np.int64],
    rare_rows: NDArray[np.int32],
    rare_codes: NDArray[Any],
    rows: NDArray[np.int64],
    duals: NDArray[np.float64],
    totals: NDArray[np.float64],
    histogram: NDArray[np.float64],
) -> None:
    """Histogram of feature ``f``, by its sparse form where that is shorter."""
    start, stop = rare_indptr[f], rare_indptr[f + 1]
    if common[f] >= 0 and stop - start < len(rows):
        _fill_rare(rare_rows[start:stop], rare_codes[start:stop], common[f], duals, totals, histogram)
    else:
        _fill(codes[f], rows, duals, histogram)


@njit(cache=True, nogil=True)
def _fill(
    code: NDArray[Any], rows: NDArray[np.int64], duals: NDArray[np.float64], histogram: NDArray[np.float64]
) -> None:
    """Histogram of a feature from all active rows."""
    n_channels = duals.shape[1]
    histogram[:] = 0.0
    for row in rows:
        bin_ = code[row]
        for c in range(n_channels):
            histogram[bin_, c] += duals[row, c]


@njit(cache=True, nogil=True)
def _fill_rare(
    rows: NDArray[np.int32],
    codes: NDArray[Any],
    common: int,
    duals: NDArray[np.float64],
    totals: NDArray[np.float64],
    histogram: NDArray[np.float64],
) -> None:
    """Histogram of a feature from the rows outside its common bin; that bin is what they leave of ``totals``."""
    n_channels = duals.shape[1]
    histogram[:] = 0.0
    for e in range(len(rows)):
        bin_ = codes[e]
        row = rows[e]
        for c in range(n_channels):
            histogram[bin_, c] += duals[row, c]
    for c in range(n_channels):
        others = 0.0
        for b in range(len(histogram)):
            others += histogram[b, c]
        histogram[common, c] = totals[c] - others
