"""Elastic net of weights, a squared norm and an l1 norm, and its conjugate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structboost._typing import FloatArray


@dataclass(frozen=True)
class ElasticNet:
    """Penalty ``(1 - l1_ratio) / 2 |w|^2 + l1_ratio |w|_1`` of weights.

    The l1 norm may count some weights more than once: a merged column of m equal ones, of the
    value ``sqrt(m)``, has ``scale`` ``sqrt(m)``.

    Parameters
    ----------
    l1_ratio : float
        From 0, the squared norm alone, to below 1.

    Notes
    -----
    Zou and Hastie, Regularization and variable selection via the elastic net, JRSS B 2005.
    """

    l1_ratio: float = 0.0

    @property
    def ridge(self) -> float:
        """Weight of half the squared norm."""
        return 1.0 - self.l1_ratio

    def value(self, weights: FloatArray, scale: float | FloatArray = 1.0) -> float:
        """Return the penalty of weights."""
        half = 0.5 * float(np.vdot(weights, weights))
        if not self.l1_ratio:
            return half
        return self.ridge * half + self.l1_ratio * float((scale * np.abs(weights)).sum())

    def best(self, slopes: FloatArray, scale: float | FloatArray = 1.0) -> FloatArray:
        """Return the weights w that maximise ``<slopes, w> - value(w)``, many of them zero."""
        if not self.l1_ratio:
            return slopes
        beyond = np.maximum(np.abs(slopes) - self.l1_ratio * scale, 0.0)
        return np.copysign(beyond, slopes) / self.ridge

    def conjugate(self, slopes: FloatArray, scale: float | FloatArray = 1.0) -> float:
        """Return the maximum of ``<slopes, w> - value(w)``."""
        weights = self.best(slopes, scale)
        return 0.5 * self.ridge * float(np.vdot(weights, weights))
