"""Pieces of a piecewise linear function: the features inside balls (ShareBoost, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances

from structboost.weak.base import Candidate, WeakLearnerFamily


class Piece(NamedTuple):
    """Scaled feature ``feature`` inside ball ``ball``, 0 outside; the constant 1 inside where ``feature`` is -1."""

    ball: int
    feature: int


@dataclass(frozen=True)
class PiecewiseTable:
    """Learners as arrays, with the balls they are of.

    Parameters
    ----------
    ball, feature : ndarray of int64, shape (n_learners,)
    centers : ndarray, shape (n_balls, n_features)
        In scaled features.
    radii : ndarray, shape (n_balls,)
        A part is inside where its distance is below the radius.
    means, scales : ndarray, shape (n_features,)
        Of the scaling.
    """

    ball: NDArray[np.int64]
    feature: NDArray[np.int64]
    centers: NDArray[np.float64]
    radii: NDArray[np.float64]
    means: NDArray[np.float64]
    scales: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ball)

    def responses(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Answers, shape (n_learners, n_parts)."""
        scaled = (np.asarray(features, np.float64) - self.means) / self.scales
        balls, place = np.unique(self.ball, return_inverse=True)
        inside = _inside(scaled, self.centers[balls], self.radii[balls])
        values = np.where(self.feature[:, None] < 0, 1.0, scaled.T[self.feature])
        return np.asarray(values * inside[place])

    def select(self, index: NDArray[np.int64]) -> PiecewiseTable:
        """The learners at ``index``."""
        return PiecewiseTable(self.ball[index], self.feature[index], self.centers, self.radii, self.means, self.scales)

    def feature_shares(self, n_features: int) -> NDArray[np.float64]:
        """One for the feature; nothing for constants."""
        out = np.zeros((len(self), n_features))
        used = np.flatnonzero(self.feature >= 0)
        out[used, self.feature[used]] = 1.0
        return out

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays a model file holds."""
        return vars(self)


class PiecewiseFamily(WeakLearnerFamily):
    """Balls around centres of k-means, their radii quantiles of the distances; a group is all features of a ball.

    The ball of infinite radius around the first centre is among them: the linear function itself.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
    response : (float, float)
        Not used: answers are real.
    n_centers : int
        At most as many as there are different parts.
    quantiles : sequence of float
        Shares of the parts that a centre's balls hold.
    random_state : int
        Of k-means.
    exact, n_threads
        Not used.
    """

    name = "piecewise"
    exact_pricing = True

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float] = (-1.0, 1.0),
        *,
        n_centers: int = 20,
        quantiles: Sequence[float] = (0.05, 0.1, 0.2, 0.4),
        random_state: int = 0,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        if n_centers < 1 or not len(quantiles) or not all(0 < q <= 1 for q in quantiles):
            raise ValueError(
                f"n_centers is {n_centers!r} and quantiles {quantiles!r}; give at least one centre, and shares "
                "above 0 and at most 1."
            )
        rows = np.asarray(features, np.float64)
        self.n_features = rows.shape[1]
        self._means = rows.mean(axis=0)
        sizes = np.abs(rows - self._means).max(axis=0)
        self._scales = np.where(sizes > 0, sizes, 1.0)
        scaled = (rows - self._means) / self._scales
        n_different = len(np.unique(scaled, axis=0))
        found = KMeans(min(n_centers, n_different), n_init=1, random_state=random_state).fit(scaled).cluster_centers_
        radii = np.quantile(pairwise_distances(found, scaled), quantiles, axis=1)
        self._centers = np.vstack((found[:1], np.tile(found, (len(quantiles), 1))))
        # A part at the radius is outside: one that defines the quantile would be lost to rounding else.
        self._radii = np.concatenate(([np.inf], np.nextafter(radii, np.inf).ravel()))
        self._inside = _inside(scaled, self._centers, self._radii)
        self._columns = np.vstack((scaled.T, np.ones(len(rows))))

    def price(self, duals: NDArray[np.float64], per_channel: int) -> Sequence[Candidate]:
        """Learners of largest edge on each channel."""
        edges = self._edges(duals)
        flat = edges.reshape(-1, edges.shape[2])
        found = [
            Candidate(self._learner(*divmod(int(k), self.n_features + 1)), channel, float(flat[k, channel]))
            for channel in range(flat.shape[1])
            for k in np.argsort(-flat[:, channel], kind="stable")[:per_channel]
        ]
        return sorted(found, key=lambda candidate: -candidate.edge)

    def price_shared(self, duals: NDArray[np.float64], n_learners: int) -> Sequence[tuple[Any, NDArray[np.float64]]]:
        """Single learners of largest l1 norm of edges."""
        edges = self._edges(duals)
        flat = edges.reshape(-1, edges.shape[2])
        order = np.argsort(-np.abs(flat).sum(axis=1), kind="stable")[:n_learners]
        return [(self._learner(*divmod(int(k), self.n_features + 1)), flat[k]) for k in order]

    def price_groups(
        self, duals: NDArray[np.float64], n_groups: int
    ) -> Sequence[Sequence[tuple[Any, NDArray[np.float64]]]]:
        """Balls of largest summed l1 norm, each with all features and the constant."""
        edges = self._edges(duals)
        order = np.argsort(-np.abs(edges).sum(axis=(1, 2)), kind="stable")[:n_groups]
        return [[(self._learner(int(ball), f), edges[ball, f]) for f in range(self.n_features + 1)] for ball in order]

    def refine(self, learner: Piece, duals: NDArray[np.float64]) -> Sequence[Candidate]:
        """The learner on every channel."""
        edges = self.responses([learner])[0] @ duals
        return [Candidate(learner, channel, float(edge)) for channel, edge in enumerate(edges)]

    def responses(self, learners: Sequence[Piece]) -> NDArray[Any]:
        """Answers on the training parts."""
        features, balls = [p.feature for p in learners], [p.ball for p in learners]
        return np.asarray(self._columns[features] * self._inside[balls], np.float32)

    def table(self, learners: Sequence[Piece]) -> PiecewiseTable:
        """The learners as arrays; balls that none of them is of are left out."""
        balls, place = np.unique([p.ball for p in learners], return_inverse=True)
        balls = balls.astype(np.int64)
        return PiecewiseTable(
            place.astype(np.int64),
            np.array([p.feature for p in learners], np.int64),
            self._centers[balls],
            self._radii[balls],
            self._means,
            self._scales,
        )

    def _learner(self, ball: int, row: int) -> Piece:
        return Piece(ball, -1 if row == self.n_features else row)

    def _edges(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Edges, shape (n_balls, n_features + 1, n_channels)."""
        return np.stack([self._columns[:, inside] @ duals[inside] for inside in self._inside])


def _inside(scaled: NDArray[np.float64], centers: NDArray[np.float64], radii: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which parts each ball holds, shape (n_balls, n_parts)."""
    if not len(centers):
        return np.zeros((0, len(scaled)), np.bool_)
    return np.asarray(pairwise_distances(centers, scaled) < radii[:, None])
