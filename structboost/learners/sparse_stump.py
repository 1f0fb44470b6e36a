"""Decision stumps on sparse tables, whose search visits only the entries that are not 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray, override
from structboost.files.schema import DamagedFileError, whole_number
from structboost.learners.base import Candidate, WeakLearnerFamily
from structboost.learners.candidates import (
    ROUNDING,
    best_first,
    best_ways,
    response_type,
    with_constant,
)
from structboost.learners.stump import Stump, StumpTable
from structboost.runtime.compiled import compiled


class SparseStumpFamily(WeakLearnerFamily):
    """Family of all stumps between distinct values of sparse features, and the constant.

    Parameters
    ----------
    features : sparse array, shape (n_parts, n_features)
        Finite.
    response : (float, float)
        The two responses of a stump.
    exact, n_threads
        Ignored: all distinct thresholds are searched, in one thread.
    """

    name = "stump"
    exact_pricing = True
    can_resume = True

    def __init__(
        self,
        features: Any,
        response: tuple[float, float],
        *,
        exact: bool | None = None,
        n_threads: int = 1,
    ) -> None:
        self.low, self.high = response
        self.n_parts, self.n_features = features.shape
        columns = sparse.csc_array(features)
        columns.sum_duplicates()
        columns.eliminate_zeros()
        self._starts = columns.indptr.astype(np.int64)
        owner = np.repeat(np.arange(self.n_features, dtype=np.int32), np.diff(self._starts))
        order = np.lexsort((columns.data, owner))
        self._rows = columns.indices[order].astype(np.int32)
        self._values = columns.data[order].astype(np.float64)

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        candidates: list[Candidate] = []
        edges, places = np.empty(self.n_features), np.empty(self.n_features, np.int64)
        for channel in range(duals.shape[1]):
            of_channel = np.ascontiguousarray(duals[:, channel])
            total = float(of_channel.sum())
            _best_places(
                self._starts, self._rows, self._values, of_channel, total, self.low, self.high,
                edges, places,
            )  # fmt: skip
            splits = [
                Candidate(
                    self._stump(f, int(abs(places[f])) - 1, bool(places[f] < 0)),
                    channel,
                    float(edges[f]),
                )
                for f in _largest(edges, per_channel)
            ]
            flip = self.low * total > self.high * total
            largest = max(self.low * total, self.high * total)
            constant = Candidate(self._stump(0, -1, flip), channel, largest)
            candidates += with_constant(splits, constant, per_channel)
        return best_first(candidates)

    @override
    def refine(self, learner: Stump, duals: FloatArray) -> list[Candidate]:
        turned = learner._replace(left=learner.right, right=learner.left)
        ways = (learner, turned)
        return best_ways(ways, self.responses(ways) @ duals)

    @override
    def responses(self, learners: Sequence[Stump]) -> NDArray[Any]:
        out = np.empty((len(learners), self.n_parts), response_type(self.low, self.high))
        for k, stump in enumerate(learners):
            out[k] = stump.left if stump.threshold >= 0 else stump.right
            entries = slice(*self._starts[stump.feature : stump.feature + 2])
            below = self._values[entries] <= stump.threshold
            out[k, self._rows[entries]] = np.where(below, stump.left, stump.right)
        return out

    @override
    def table(self, learners: Sequence[Stump]) -> StumpTable:
        return StumpTable.of(learners)

    @override
    def restored(self, values: Sequence[Any]) -> Stump:
        feature = whole_number(values[0], "feature", 0, self.n_features - 1)
        place = whole_number(values[4], "bin", -1, len(self._ascending(feature)) - 2)
        stump = self._stump(feature, place, values[2] == self.high)
        if stump != tuple(values):
            raise DamagedFileError(f"the stump {values} is none of these features")
        return stump

    def _ascending(self, feature: int) -> FloatArray:
        """Values of a feature in ascending order, with one 0 if it occurs."""
        values: FloatArray = self._values[slice(*self._starts[feature : feature + 2])]
        if len(values) < self.n_parts:
            values = np.insert(values, np.searchsorted(values, 0.0), 0.0)
        return values

    def _stump(self, feature: int, place: int, flip: bool) -> Stump:
        if place < 0:
            return Stump(feature, -np.inf, *self._sides(flip), -1)
        lower, upper = self._ascending(feature)[place : place + 2]
        with np.errstate(over="ignore"):
            middle = lower + 0.5 * (upper - lower)
        return Stump(feature, float(middle if middle < upper else lower), *self._sides(flip), place)

    def _sides(self, flip: bool) -> tuple[float, float]:
        return (self.high, self.low) if flip else (self.low, self.high)


def _largest(edges: FloatArray, most: int) -> list[int]:
    """Order the largest edges, descending, with ties up to rounding by index."""
    n = min(most, len(edges))
    least = np.partition(edges, len(edges) - n)[len(edges) - n]
    slack = ROUNDING * max(abs(least), abs(float(edges.max())))
    candidates = np.flatnonzero((edges >= least - slack) & np.isfinite(edges))
    steps = np.round(edges[candidates] / max(slack, np.finfo(float).tiny))
    return [int(f) for f in candidates[np.argsort(-steps, kind="stable")[:n]]]


@compiled
def _best_places(
    starts: IntArray,
    rows: NDArray[np.int32],
    values: FloatArray,
    duals: FloatArray,
    total: float,
    low: float,
    high: float,
    edges: FloatArray,
    places: IntArray,
) -> None:
    """Position of the best split of each feature, counted from 1 and negative if turned.

    The values of a feature are its entries in ascending order, with 0 among them where a part has
    none.  The edge is -inf if all values are equal.
    """
    n_parts = len(duals)
    for f in range(len(edges)):
        begin, end = starts[f], starts[f + 1]
        edges[f] = -np.inf
        places[f] = 1
        zeros = total
        for e in range(begin, end):
            zeros -= duals[rows[e]]
        has_zeros = end - begin < n_parts
        left, place = 0.0, 0
        e, is_behind_zeros = begin, not has_zeros
        while e < end or not is_behind_zeros:
            if not is_behind_zeros and (e == end or values[e] > 0.0):
                last = 0.0
                left += zeros
                is_behind_zeros = True
            else:
                last = values[e]
                left += duals[rows[e]]
                e += 1
            place += 1
            following = np.inf
            if e < end:
                following = values[e]
            if not is_behind_zeros and following > 0.0:
                following = 0.0
            # Not between equal values, nor behind the last.
            if math.isinf(following) or following == last:
                continue
            right = total - left
            straight, turned = low * left + high * right, high * left + low * right
            edge = max(straight, turned)
            if edge > edges[f] + ROUNDING * abs(edge):
                edges[f] = edge
                places[f] = -place if turned > straight else place
