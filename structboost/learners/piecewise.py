"""Pieces of a piecewise linear function by features inside balls (ShareBoost, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, override
from structboost.files.archive import Array
from structboost.learners.base import Listed, ListedFamily, check_family_arguments, check_has_rows
from structboost.learners.table import LearnerTable, shares_of_one
from structboost.validation import (
    checked_array,
    checked_seed,
    checked_whole_number,
    shown,
)


class Piece(NamedTuple):
    """Learner with response ``sign`` times a scaled feature inside a ball, and 0 outside.

    With ``feature`` -1 the response is the constant ``sign`` inside.
    """

    ball: int
    feature: int
    sign: float = 1.0


@dataclass(frozen=True)
class PiecewiseTable(LearnerTable):
    """Table of learners, with their balls.

    A feature is scaled by ``(x - mean) / scale``.  A part is inside a ball if its distance from the
    centre, in scaled features, is below the radius.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "ball": Array("int64", ("n_learners",), low=0, high="n_balls - 1"),
        "feature": Array("int64", ("n_learners",), low=-1, high="n_features - 1"),
        "centers": Array("float64", ("n_balls", "n_features")),
        "radii": Array("float64", ("n_balls",), low=0.0, infinite=True),
        "means": Array("float64", ("n_features",)),
        "scales": Array("float64", ("n_features",), low=0.0, nonzero=True),
        "signs": Array("float64", ("n_learners",), low=-1.0, high=1.0, nonzero=True),
    }

    ball: IntArray
    feature: IntArray
    centers: FloatArray
    radii: FloatArray
    means: FloatArray
    scales: FloatArray
    signs: FloatArray

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        scaled = (np.asarray(features, np.float64) - self.means) / self.scales
        balls, place = np.unique(self.ball, return_inverse=True)
        inside = _inside(scaled, self.centers[balls], self.radii[balls])
        values = np.where(self.feature[:, None] < 0, 1.0, scaled.T[self.feature])
        return np.asarray(values * inside[place] * self.signs[:, None])

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_one(self.feature, n_features)


class PiecewiseFamily(ListedFamily):
    """Family of features inside balls around the centres of k-means.

    The radii are quantiles of the distances.  A group is all features of a ball.  Each learner is
    in the family with both signs.  The ball of infinite radius around the first centre gives
    the linear function.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts.
    response : (float, float)
        Responses are real, of either sign: the lower one must be below 0.
    n_centers : int
        Number of centres, at most the number of distinct parts.
    quantiles : sequence of float
        Fractions of the parts inside the balls of a centre.
    random_state : int
        Seed for k-means.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TaskError
        If there is no training part.

    Notes
    -----
    ShareBoost, section 3.2.
    """

    name = "piecewise"
    exact_pricing = True

    def __init__(
        self,
        features: AnyArray,
        response: tuple[float, float] = (-1.0, 1.0),
        *,
        n_centers: int = 20,
        quantiles: Sequence[float] = (0.05, 0.1, 0.2, 0.4),
        random_state: int = 0,
    ) -> None:
        check_family_arguments(features, response)
        checked_whole_number(n_centers, "n_centers")
        checked_seed(random_state, "random_state")
        quantiles = checked_array(quantiles, "quantiles", 1).tolist()
        if not len(quantiles) or not all(0 < q <= 1 for q in quantiles):
            raise ValueError(
                f"quantiles is {shown(quantiles)}; give fractions above 0 and at most 1."
            )
        check_has_rows(features, self.name)
        if min(response) >= 0:
            raise ValueError(
                "weak_learner 'piecewise' has responses of both signs, but those of this kind must "
                f"be in {response}; take 'stump', 'tree' or 'feature'."
            )
        rows = np.asarray(features, np.float64)
        self.n_features = rows.shape[1]
        self._means = rows.mean(axis=0)
        sizes = np.abs(rows - self._means).max(axis=0)
        self._scales = np.where(sizes > 0, sizes, 1.0)
        scaled = (rows - self._means) / self._scales
        n_different = len(np.unique(scaled, axis=0))
        means = KMeans(min(n_centers, n_different), n_init=1, random_state=random_state).fit(scaled)
        centers = means.cluster_centers_
        radii = np.quantile(pairwise_distances(centers, scaled), quantiles, axis=1)
        self._centers = np.vstack((centers[:1], np.tile(centers, (len(quantiles), 1))))
        # A part at the radius is outside.  The one that defines the quantile must not be.
        self._radii = np.concatenate(([np.inf], np.nextafter(radii, np.inf).ravel()))
        self._inside = _inside(scaled, self._centers, self._radii)
        self._columns = np.vstack((scaled.T, np.ones(len(rows))))

    @override
    def listed(self, duals: FloatArray) -> Listed:
        edges = np.concatenate(
            [self._columns[:, inside] @ duals[inside] for inside in self._inside]
        )
        n_pieces = self.n_features + 1

        def learner(k: int, turned: bool) -> Piece:
            ball, row = divmod(k, n_pieces)
            return Piece(ball, -1 if row == self.n_features else row, -1.0 if turned else 1.0)

        return Listed(learner, edges, -edges, np.arange(len(edges)) // n_pieces)

    @override
    def ways(self, learner: Piece) -> Sequence[Piece]:
        return [learner._replace(sign=sign) for sign in (1.0, -1.0)]

    @override
    def responses(self, learners: Sequence[Piece]) -> AnyArray:
        features, balls = [p.feature for p in learners], [p.ball for p in learners]
        signs = np.array([p.sign for p in learners])[:, None]
        return np.asarray(self._columns[features] * self._inside[balls] * signs, np.float32)

    @override
    def table(self, learners: Sequence[Piece]) -> PiecewiseTable:
        balls, place = np.unique([p.ball for p in learners], return_inverse=True)
        balls = balls.astype(np.int64)
        return PiecewiseTable(
            place.astype(np.int64), np.array([p.feature for p in learners], np.int64),
            self._centers[balls], self._radii[balls], self._means, self._scales,
            np.array([p.sign for p in learners], np.float64),
        )  # fmt: skip


def _inside(scaled: FloatArray, centers: FloatArray, radii: FloatArray) -> BoolArray:
    if not len(centers) or not len(scaled):
        return np.zeros((len(centers), len(scaled)), np.bool_)
    return np.asarray(pairwise_distances(centers, scaled) < radii[:, None])
