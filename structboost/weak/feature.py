"""The features themselves as weak learners: linear predictors that use few of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.weak.base import Candidate, WeakLearnerFamily


class Feature(NamedTuple):
    """``(x[feature] - center) / scale``; the constant 1 where ``feature`` is -1."""

    feature: int
    center: float
    scale: float


@dataclass(frozen=True)
class FeatureTable:
    """Scaled features as arrays.

    Parameters
    ----------
    feature : ndarray of int64, shape (n_learners,)
        -1 for the constant.
    center, scale : ndarray of float64, shape (n_learners,)
    """

    feature: NDArray[np.int64]
    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.feature)

    def responses(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Scaled features, shape (n_learners, n_parts)."""
        values = (features[:, self.feature].T - self.center[:, None]) / self.scale[:, None]
        return np.where(self.feature[:, None] < 0, 1.0, values)

    def select(self, index: NDArray[np.int64]) -> FeatureTable:
        """The learners at ``index``."""
        return FeatureTable(self.feature[index], self.center[index], self.scale[index])

    def feature_shares(self, n_features: int) -> NDArray[np.float64]:
        """One for the feature; nothing for the constant."""
        out = np.zeros((len(self), n_features))
        used = np.flatnonzero(self.feature >= 0)
        out[used, self.feature[used]] = 1.0
        return out

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays a model file holds."""
        return {"feature": self.feature, "center": self.center, "scale": self.scale}


class FeatureFamily(WeakLearnerFamily):
    """All features, centred and scaled into -1..1 (as ShareBoost assumes them), and the constant.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
    groups : array-like of int, shape (n_features,), optional
        Features of the same number are chosen together (section 2.1).  Default: each is alone.
    response, exact, n_threads
        Not used: answers are real, and the search is one product of matrices.
    """

    name = "feature"
    exact_pricing = True

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float] = (-1.0, 1.0),
        *,
        groups: Any = None,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        rows = np.asarray(features, np.float32)
        self.n_features = rows.shape[1]
        self._groups = _checked_groups(groups, self.n_features)
        self._centers = rows.mean(axis=0, dtype=np.float64)
        scaled = np.ones((self.n_features + 1, len(rows)), np.float32)
        scaled[:-1] = (rows - self._centers.astype(np.float32)).T
        sizes = np.abs(scaled[:-1]).max(axis=1)
        self._scales = np.where(sizes > 0, sizes, 1.0).astype(np.float64)
        scaled[:-1] /= self._scales.astype(np.float32)[:, None]
        self._scaled = scaled

    def price(self, duals: NDArray[np.float64], per_channel: int) -> Sequence[Candidate]:
        """Features of largest edge on each channel."""
        edges = self._edges(duals)
        found = [
            Candidate(self._learner(int(f)), channel, float(edges[f, channel]))
            for channel in range(duals.shape[1])
            for f in np.argsort(-edges[:, channel], kind="stable")[:per_channel]
        ]
        return sorted(found, key=lambda candidate: -candidate.edge)

    def price_shared(self, duals: NDArray[np.float64], n_learners: int) -> Sequence[tuple[Any, NDArray[np.float64]]]:
        """Features of largest l1 norm of the gradient (7)."""
        edges = self._edges(duals)
        norms = np.abs(edges).sum(axis=1)
        return [(self._learner(int(f)), edges[f]) for f in np.argsort(-norms, kind="stable")[:n_learners]]

    def price_groups(
        self, duals: NDArray[np.float64], n_groups: int
    ) -> Sequence[Sequence[tuple[Any, NDArray[np.float64]]]]:
        """Groups of largest summed l1 norm, the constant a group of its own."""
        edges = self._edges(duals)
        norms = np.bincount(self._groups, weights=np.abs(edges).sum(axis=1))
        return [
            [(self._learner(int(f)), edges[f]) for f in np.flatnonzero(self._groups == group)]
            for group in np.argsort(-norms, kind="stable")[:n_groups]
        ]

    def refine(self, learner: Feature, duals: NDArray[np.float64]) -> Sequence[Candidate]:
        """The feature on every channel."""
        edges = self._scaled[learner.feature] @ duals
        return [Candidate(learner, channel, float(edge)) for channel, edge in enumerate(edges)]

    def responses(self, learners: Sequence[Feature]) -> NDArray[Any]:
        """Scaled features of the training parts."""
        return self._scaled[[learner.feature for learner in learners]]

    def table(self, learners: Sequence[Feature]) -> FeatureTable:
        """The learners as arrays."""
        return FeatureTable(
            np.array([f.feature for f in learners], np.int64),
            np.array([f.center for f in learners], np.float64),
            np.array([f.scale for f in learners], np.float64),
        )

    def _learner(self, row: int) -> Feature:
        if row == self.n_features:
            return Feature(-1, 0.0, 1.0)
        return Feature(row, float(self._centers[row]), float(self._scales[row]))

    def _edges(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self._scaled @ duals.astype(np.float32), np.float64)


def _checked_groups(groups: Any, n_features: int) -> NDArray[np.int64]:
    """Number of the group of each feature, and of the constant behind them, from 0 without holes."""
    if groups is None:
        return np.arange(n_features + 1)
    given = np.asarray(groups)
    if given.shape != (n_features,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"groups has shape {given.shape} and type {given.dtype}; give a whole number for each of the "
            f"{n_features} features."
        )
    numbers = np.unique(given, return_inverse=True)[1]
    return np.append(numbers, numbers.max() + 1).astype(np.int64)
