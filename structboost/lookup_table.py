"""An ensemble of stumps as an additive table.

F_c(x) = bias_c + sum_f table[f, bin(x_f), c]: prediction costs one binary search and one look-up a used feature,
however many rounds were run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.validation import checked_features
from structboost.weak.stump import StumpTable


@dataclass(frozen=True)
class LookupTable:
    """Additive look-up tables of the used features.

    Parameters
    ----------
    bias : ndarray, shape (n_channels,)
        What constant stumps add.
    features : ndarray of int64, shape (n_used,)
        The used features, ascending.
    thresholds : ndarray of float64
        Ascending thresholds of feature ``features[u]`` at ``indptr[u]:indptr[u + 1]``.
    indptr : ndarray of int64, shape (n_used + 1,)
    values : ndarray of float64, shape (n_thresholds + n_used, n_channels)
        Scores of bin b of used feature u in row ``indptr[u] + u + b``.
    n_features : int
        Features the model was trained on.
    """

    bias: NDArray[np.float64]
    features: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    indptr: NDArray[np.int64]
    values: NDArray[np.float64]
    n_features: int

    @classmethod
    def of_stumps(cls, stumps: StumpTable, weights: NDArray[np.float64], n_features: int) -> LookupTable:
        """Tables of ``stumps`` with the weights W, shape (n_learners, n_channels)."""
        used = weights.any(axis=1)
        constant = used & np.isneginf(stumps.threshold)
        bias = stumps.right[constant] @ weights[constant]
        splits = np.flatnonzero(used & ~constant)
        features = np.unique(stumps.feature[splits])
        thresholds, values, indptr = [], [], [0]
        for f in features:
            own = splits[stumps.feature[splits] == f]
            levels, level = np.unique(stumps.threshold[own], return_inverse=True)
            steps = np.zeros((len(levels) + 1, weights.shape[1]))
            np.add.at(steps, level + 1, (stumps.right[own] - stumps.left[own])[:, None] * weights[own])
            steps[0] = stumps.left[own] @ weights[own]
            thresholds.append(levels)
            values.append(np.cumsum(steps, axis=0))
            indptr.append(indptr[-1] + len(levels))
        return cls(
            bias=np.asarray(bias, np.float64),
            features=features.astype(np.int64),
            thresholds=np.concatenate(thresholds) if thresholds else np.zeros(0),
            indptr=np.array(indptr, np.int64),
            values=np.concatenate(values) if values else np.zeros((0, weights.shape[1])),
            n_features=n_features,
        )

    def scores(self, features: Any) -> NDArray[np.float64]:
        """Scores of parts, shape (n_parts, n_channels); one thread, binning included."""
        rows = checked_features(features, self.n_features)
        out = np.empty((len(rows), len(self.bias)))
        _add_up(
            np.ascontiguousarray(rows), self.bias, self.features, self.thresholds, self.indptr,
            self.values, out,
        )  # fmt: skip
        return out


@njit(cache=True, nogil=True)
def _add_up(
    rows: NDArray[Any],
    bias: NDArray[np.float64],
    features: NDArray[np.int64],
    thresholds: NDArray[np.float64],
    indptr: NDArray[np.int64],
    values: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    n_channels = len(bias)
    for p in range(len(rows)):
        for c in range(n_channels):
            out[p, c] = bias[c]
        for u in range(len(features)):
            value = rows[p, features[u]]
            base = indptr[u]
            # Branch-free binary search: the number of thresholds below the value.
            below = 0
            length = indptr[u + 1] - base
            while length > 0:
                half = (length + 1) >> 1
                below += half * (thresholds[base + below + half - 1] < value)
                length -= half
            at = base + u + below
            for c in range(n_channels):
                out[p, c] += values[at, c]
