"""The best stumps over all distinct thresholds, where training saw a sample of quantiles.

Training prices stumps on at most 255 thresholds per feature.  One pass at its end, by sorting,
gives the largest edges over every threshold, and with them a bound over all stumps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray


def largest_edges(
    rows: NDArray[Any], features: IntArray, duals: FloatArray, low: float, high: float
) -> FloatArray:
    """Largest edge of each channel over all stumps on some features, and over the constants.

    Parameters
    ----------
    rows : ndarray, shape (n_parts, n_features)
    features : ndarray of int64
        Features whose thresholds are tried.
    duals : ndarray, shape (n_parts, n_channels)
        Signed weights; parts without any change no edge.
    low, high : float
        The two answers of a stump.

    Returns
    -------
    edges : ndarray, shape (n_channels,)
    """
    active = np.flatnonzero(duals.any(axis=1))
    own = duals[active]
    totals = own.sum(axis=0)
    best = np.maximum(low * totals, high * totals)
    for f in features:
        column = rows[active, f]
        order = np.argsort(column, kind="stable")
        column = column[order]
        below = np.cumsum(own[order], axis=0)[np.flatnonzero(column[1:] != column[:-1])]
        above = totals - below
        for left, right in ((low, high), (high, low)):
            np.maximum(best, (left * below + right * above).max(axis=0, initial=-np.inf), out=best)
    return np.asarray(best)
