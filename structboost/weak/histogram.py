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
    rows : ndarray, shape (n_active,)
        Rows where the duals are not all zero.
    duals : ndarray, shape (n_active, n_channels)
    edges, bins, flipped : ndarray, shape (n_features, n_channels)
        Filled for features ``first <= f < last``; edge -inf where a feature has one bin.
    """
    n_channels = duals.shape[1]
    totals = np.zeros(n_channels)
    for r in range(len(rows)):
        for c in range(n_channels):
            totals[c] += duals[r, c]
    histogram = np.zeros((n_bins[first:last].max(), n_channels))
    for f in range(first, last):
        histogram[: n_bins[f]] = 0.0
        code = codes[f]
        for r in range(len(rows)):
            bin_ = code[rows[r]]
            for c in range(n_channels):
                histogram[bin_, c] += duals[r, c]
        for c in range(n_channels):
            edge = -np.inf
            bin_of_best = 0
            flip = False
            left = 0.0
            for b in range(n_bins[f] - 1):
                left += histogram[b, c]
                right = totals[c] - left
                straight = low * left + high * right
                turned = high * left + low * right
                if straight > edge:
                    edge = straight
                    bin_of_best = b
                    flip = False
                if turned > edge:
                    edge = turned
                    bin_of_best = b
                    flip = True
            edges[f, c] = edge
            bins[f, c] = bin_of_best
            flipped[f, c] = flip
