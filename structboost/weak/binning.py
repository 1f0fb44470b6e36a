"""Features binned once, before the first round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError

MAX_BINS = 256
# A row costs five bytes in the sparse form, one in the dense.
_MIN_COMMON_SHARE = 0.3


class RareRows(NamedTuple):
    """Rows outside the commonest bin of each feature: all that a histogram must visit.

    Parameters
    ----------
    common : ndarray of int64, shape (n_features,)
        The commonest bin; -1 where so few rows share it that the feature stays dense.
    indptr : ndarray of int64, shape (n_features + 1,)
    rows : ndarray of int32
        Rows of feature f at ``indptr[f]:indptr[f + 1]``, ascending; none where it is dense.
    codes : ndarray
        Their bins.
    """

    common: NDArray[np.int64]
    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    codes: NDArray[Any]


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
    rare : RareRows
        Sparse form of the features with one bin that holds most rows.
    """

    codes: NDArray[Any]
    thresholds: NDArray[np.float64]
    indptr: NDArray[np.int64]
    rare: RareRows

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
    return BinnedFeatures(codes, flat, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64), _rare_rows(codes))


def _rare_rows(codes: NDArray[Any]) -> RareRows:
    """Sparse form of the features with a bin that is common enough."""
    n_features, n_rows = codes.shape
    common = np.full(n_features, -1, np.int64)
    rows: list[NDArray[np.int32]] = []
    sizes = np.zeros(n_features, np.int64)
    for f, code in enumerate(codes):
        counts = np.bincount(code) if n_rows else np.zeros(1, np.int64)
        if counts.max() >= max(1, _MIN_COMMON_SHARE * n_rows):
            common[f] = counts.argmax()
            rows.append(np.flatnonzero(code != common[f]).astype(np.int32))
            sizes[f] = len(rows[-1])
        else:
            rows.append(np.zeros(0, np.int32))
    indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    outside = [code[of_feature] for code, of_feature in zip(codes, rows, strict=True)]
    return RareRows(common, indptr, np.concatenate(rows), np.concatenate(outside))


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
