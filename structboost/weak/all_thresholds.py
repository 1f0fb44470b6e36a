"""The best stumps over all distinct thresholds, where training saw a sample of quantiles.

Training prices stumps on at most 255 thresholds per feature.  One pass at its end, by sorting,
gives the largest edges over every threshold, and with them a bound over all stumps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.weak.binning import Thresholds


def largest_edges(
    rows: NDArray[Any],
    bins: Thresholds,
    columns: IntArray,
    duals: FloatArray,
    low: float,
    high: float,
    directions: NDArray[np.int8] | None = None,
) -> FloatArray:
    """Largest edge of each channel over all stumps on some columns, and over the constants.

    Parameters
    ----------
    rows : ndarray, shape (n_parts, n_features)
    bins : Thresholds
        Says which features the columns read.
    columns : ndarray of int64
        Columns whose thresholds are tried.
    duals : ndarray, shape (n_parts, n_channels)
        Signed weights; parts without any change no edge.
    low, high : float
        The two answers of a stump.
    directions : ndarray of int8, shape (n_columns,), optional
        1 for columns whose stumps must rise, -1 where they must fall.

    Returns
    -------
    edges : ndarray, shape (n_channels,)
    """
    active = np.flatnonzero(duals.any(axis=1))
    own = duals[active]
    totals = own.sum(axis=0)
    best = np.maximum(low * totals, high * totals)
    for j in columns:
        column = _column(rows, bins, int(j))[active]
        order = np.argsort(column, kind="stable")
        column = column[order]
        below = np.cumsum(own[order], axis=0)[np.flatnonzero(column[1:] != column[:-1])]
        above = totals - below
        direction = 0 if directions is None else directions[j]
        ways = ((low, high), (high, low))
        for left, right in ways[max(0, -direction) : 2 - max(0, direction)]:
            np.maximum(best, (left * below + right * above).max(axis=0, initial=-np.inf), out=best)
    return np.asarray(best)


def _column(rows: NDArray[Any], bins: Thresholds, j: int) -> NDArray[Any]:
    """Values of a column, infinite where they are missing."""
    if bins.gaps is None:
        return rows[:, j]
    values = rows[:, bins.gaps.feature[j]]
    return np.where(np.isnan(values), -np.inf if bins.gaps.low[j] else np.inf, values)
