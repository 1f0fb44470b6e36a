"""Features on one scale, as linear weak learners take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.exceptions import TaskError
from structboost.weak.binning import SAMPLED_ROWS, sampled_rows

# The dimension is estimated from so many rows.
_ROWS_OF_DIMENSION = 500


class Standardisation(NamedTuple):
    """``(x - centers) / scales``, and behind it the constant 1 if there is a bias.

    Parameters
    ----------
    centers, scales : ndarray, shape (n_features,)
        The scale of a constant feature is infinite, so that it is zero.
    bias : bool
    dimension : float
        How many uncorrelated features would be as many: between 1 and n_features
        (:func:`_dimension`).
    """

    centers: FloatArray
    scales: FloatArray
    bias: bool
    dimension: float

    @classmethod
    def of(cls, features: NDArray[Any], response: tuple[float, float]) -> Standardisation:
        """Mean 0 and standard deviation 1; where answers must not be negative, root mean square 1.

        Parameters
        ----------
        features : ndarray, shape (n_parts, n_features)
            Of more than 262,144 parts a sample is looked at.
        response : (float, float)
            Whether answers may be negative.
        """
        bias = min(response) < 0
        n_rows, n_features = features.shape
        if not n_rows:
            return cls(np.zeros(n_features), np.full(n_features, np.inf), bias, 1.0)
        if n_rows > SAMPLED_ROWS:
            features = features[sampled_rows(n_rows, SAMPLED_ROWS)]
        centers = features.mean(axis=0, dtype=np.float64) if bias else np.zeros(n_features)
        scales = np.sqrt(np.square(features - centers).mean(axis=0))
        constant = features.max(axis=0) == features.min(axis=0) if bias else scales == 0
        scales = np.where(constant, np.inf, scales)
        if len(features) > _ROWS_OF_DIMENSION:
            features = features[sampled_rows(len(features), _ROWS_OF_DIMENSION)]
        return cls(centers, scales, bias, _dimension((features - centers) / scales))

    @property
    def width(self) -> int:
        """Number of standardised features, the constant included."""
        return len(self.scales) + self.bias

    def rows(self, features: NDArray[Any]) -> FloatArray:
        """Standardised features, shape (n_parts, width).

        Raises
        ------
        TaskError
            If answers must not be negative, and a feature is.
        """
        if not self.bias and len(features):
            _check_not_negative(features)
        out = np.ones((len(features), self.width))
        own = out[:, : len(self.scales)]
        np.subtract(features, self.centers, out=own)
        own /= self.scales
        return out


def _dimension(rows: FloatArray) -> float:
    """Participation ratio of the eigenvalues of ``rows'rows``: their sum squared by their squares.

    The squares of a sample are too large by about the sum squared, divided by the number of rows.
    """
    of_rows = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    total = float(np.trace(of_rows))
    if not total:
        return 1.0
    share = float(np.square(of_rows).sum()) / total**2 - 1.0 / len(rows)
    return float(1.0 / min(max(share, 1.0 / rows.shape[1]), 1.0))


def _check_not_negative(features: NDArray[Any]) -> None:
    negative = np.flatnonzero(features.min(axis=0) < 0)
    if len(negative):
        raise TaskError(
            f"Feature {negative[0]} of a kind whose scores must not be negative is negative in "
            "places, so weak_learner='linear' cannot learn on it; shift the features to 0 and "
            "above, or take 'stump' for this kind."
        )
