"""Features binned once, before the first round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError

MAX_BINS = 256


@dataclass(frozen=True)
class BinnedFeatures:
    """Bin numbers of a feature table, and the thresholds between the bins.

    Parameters
    ----------
    codes : ndarray of uint8, uint16 or uint32, shape (n_features, n_rows)
        ``codes[f, p] <= b`` exactly where ``features[p, f] <= thresholds[indptr[f] + b]``.
    thresholds : ndarray of float64
        Ascending for each feature.
    indptr : ndarray of int64, shape (n_features + 1,)
        Thresholds of feature f are ``thresholds[indptr[f]:indptr[f + 1]]``.
    """

    codes: NDArray[Any]
    thresholds: NDArray[np.float64]
    indptr: NDArray[np.int64]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.indptr) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])

    @property
    def max_bins(self) -> int:
        """Largest number of bins of a feature."""
        return int(np.diff(self.indptr).max(initial=0)) + 1


def bin_features(features: NDArray[Any], *, exact: bool = False) -> BinnedFeatures:
    """Bin each feature between its distinct values.

    A feature of at most 256 distinct values gets a bin for each: no threshold is lost.
    Others get 256 bins of about equal count, or with ``exact`` a bin for each distinct value all the same.

    Parameters
    ----------
    features : ndarray, shape (n_rows, n_features)
        Finite.
    exact : bool
        Whether to keep all thresholds.

    Raises
    ------
    TaskError
        If a feature is NaN or infinite; the message names the row and the feature.
    """
    n_rows, n_features = features.shape
    per_feature = []
    for f in range(n_features):
        column = features[:, f]
        distinct, counts = np.unique(column, return_counts=True)
        distinct = distinct.astype(np.float64)
        if not np.isfinite(distinct[[0, -1]]).all():
            bad = int(np.flatnonzero(~np.isfinite(column))[0])
            raise TaskError(f"Feature {f} of part {bad} is NaN or infinite; impute or drop it.")
        per_feature.append(_thresholds(distinct, counts, exact=exact))
    sizes = [len(t) for t in per_feature]
    codes = np.empty((n_features, n_rows), dtype=_code_dtype(max(sizes, default=0) + 1))
    for f, thresholds in enumerate(per_feature):
        codes[f] = np.searchsorted(thresholds, features[:, f].astype(np.float64), side="left")
    flat = np.concatenate(per_feature) if per_feature else np.zeros(0)
    return BinnedFeatures(codes, flat, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))


def _thresholds(distinct: NDArray[np.float64], counts: NDArray[np.int64], *, exact: bool) -> NDArray[np.float64]:
    """Thresholds between neighbouring distinct values, thinned to quantiles where there are too many."""
    lower, upper = distinct[:-1], distinct[1:]
    middle = lower + 0.5 * (upper - lower)
    # Between neighbouring floats the middle may round up to the upper value, which must stay right of it.
    middle = np.where(middle < upper, middle, lower)
    if exact or len(distinct) <= MAX_BINS:
        return middle
    at_or_below = np.cumsum(counts)[:-1]
    wanted = np.arange(1, MAX_BINS) * (counts.sum() / MAX_BINS)
    chosen = np.unique(np.minimum(np.searchsorted(at_or_below, wanted), len(middle) - 1))
    return np.asarray(middle[chosen])


def _code_dtype(n_bins: int) -> type[np.unsignedinteger[Any]]:
    """Smallest unsigned type that holds the codes 0..n_bins-1."""
    if n_bins <= 1 << 8:
        return np.uint8
    return np.uint16 if n_bins <= 1 << 16 else np.uint32
