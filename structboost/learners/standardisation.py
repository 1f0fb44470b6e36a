"""Features on one scale for linear weak learners."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray, Range
from structboost.errors import TaskError
from structboost.learners.binning import SAMPLED_ROWS, sampled_rows

# The dimension is estimated from so many rows.
_ROWS_OF_DIMENSION = 500
# Largest size of values, and of its inverse: squares of their differences are numbers.
_LARGEST = 1e100


def check_sizes(sizes: FloatArray, family: str, largest: float) -> None:
    """Raise TaskError if a feature has sizes above ``largest``, or only such below its inverse."""
    bad = np.flatnonzero((sizes > largest) | ((sizes > 0) & (sizes < 1 / largest)))
    if len(bad):
        raise TaskError(
            f"Feature {bad[0]} of X has values up to {sizes[bad[0]]:.2g}; weak_learner={family!r} "
            f"takes features from {1 / largest:g} to {largest:g} only; scale the feature."
        )


class Standardisation(NamedTuple):
    """Standardised features ``(x - centers) / scales``, with a constant 1 last if there is a bias.

    Parameters
    ----------
    centers, scales : ndarray, shape (n_features,)
        The scale of a constant feature is infinite, so that it is zero.
    bias : bool
    dimension : float
        Effective number of uncorrelated features, between 1 and n_features (:func:`_dimension`).
    """

    centers: FloatArray
    scales: FloatArray
    bias: bool
    dimension: float

    @classmethod
    def of(cls, features: Any, response: Range) -> Standardisation:
        """Fit mean 0 and std 1, or root mean square 1 if responses must not be negative.

        Of more than 262,144 parts a sample is looked at.  TaskError if the values of a feature are
        too large or too small for its coefficients.
        """
        bias = min(response) < 0
        n_rows, n_features = features.shape
        if not n_rows:
            return cls(np.zeros(n_features), np.full(n_features, np.inf), bias, 1.0)
        if n_rows > SAMPLED_ROWS:
            features = features[sampled_rows(n_rows, SAMPLED_ROWS)]
        lows, highs = _extremes(features)
        check_sizes(np.maximum(-lows, highs), "linear", _LARGEST)
        centers, scales = _moments(features, bias)
        scales = np.where(highs > (lows if bias else 0), scales, np.inf)
        n_rows = features.shape[0]
        if n_rows > _ROWS_OF_DIMENSION:
            features = features[sampled_rows(n_rows, _ROWS_OF_DIMENSION)]
        return cls(centers, scales, bias, _dimension(features, centers, scales))

    @property
    def width(self) -> int:
        """Number of standardised features, including the constant."""
        return len(self.scales) + self.bias

    def rows(self, features: AnyArray) -> FloatArray:
        """Standardise features, shape (n_parts, width).

        TaskError if responses must not be negative, and a feature is.
        """
        self.check_signs(features)
        out = np.ones((len(features), self.width))
        scaled = out[:, : len(self.scales)]
        np.subtract(features, self.centers, out=scaled)
        scaled /= self.scales
        return out

    def check_signs(self, features: Any) -> None:
        """Raise TaskError if responses must not be negative, and a feature is."""
        if self.bias or not features.shape[0]:
            return
        negative = np.flatnonzero(_extremes(features)[0] < 0)
        if len(negative):
            raise TaskError(
                f"Feature {negative[0]} of a kind whose scores must not be negative is negative in "
                "places, so weak_learner='linear' cannot learn on it; shift the features to 0 and "
                "above, or take 'stump' for this kind."
            )


def _dense(features: Any) -> AnyArray:
    return np.asarray(features.toarray() if sparse.issparse(features) else features)


def _extremes(features: Any) -> tuple[FloatArray, FloatArray]:
    extremes = features.min(axis=0), features.max(axis=0)
    lows, highs = (_dense(extreme).ravel().astype(np.float64) for extreme in extremes)
    return lows, highs


def _moments(features: Any, bias: bool) -> tuple[FloatArray, FloatArray]:
    """Means, or 0 without a bias, and root mean square differences from them."""
    if sparse.issparse(features):
        return _moments_of_sparse(features, bias)
    # Sums over another type or order of the same numbers have other last bits.
    features = np.ascontiguousarray(features, np.float64)
    centers = features.mean(axis=0) if bias else np.zeros(features.shape[1])
    return centers, np.sqrt(np.square(features - centers).mean(axis=0))


def _moments_of_sparse(features: Any, bias: bool) -> tuple[FloatArray, FloatArray]:
    """Moments from the entries of a sparse array, whose other values are 0."""
    n_rows, n_features = features.shape
    columns, values = features.tocoo().col, features.tocoo().data.astype(np.float64)

    def sums(of: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(columns, of, n_features), np.float64)

    centers = sums(values) / n_rows if bias else np.zeros(n_features)
    n_absent = n_rows - np.bincount(columns, minlength=n_features)
    squares = sums(np.square(values - centers[columns])) + n_absent * np.square(centers)
    return centers, np.sqrt(squares / n_rows)


def _dimension(features: Any, centers: FloatArray, scales: FloatArray) -> float:
    """Participation ratio of the eigenvalues of ``rows'rows``.

    It is the squared sum of the eigenvalues over the sum of their squares.  The rows are the
    standardised features.  The squares of a sample are too large by about the sum
    squared, divided by the number of rows.
    """
    n_rows, n_features = features.shape
    if sparse.issparse(features) and n_rows < n_features:
        scaled, shift = features.multiply(1.0 / scales).tocsr(), centers / scales
        along = np.asarray(scaled @ shift)
        products = (scaled @ scaled.T).toarray() - along[:, None] - along + shift @ shift
    else:
        rows = (_dense(features) - centers) / scales
        products = rows @ rows.T if n_rows < n_features else rows.T @ rows
    total = float(np.trace(products))
    if not total:
        return 1.0
    excess = float(np.square(products).sum()) / total**2 - 1.0 / n_rows
    return float(1.0 / min(max(excess, 1.0 / n_features), 1.0))
