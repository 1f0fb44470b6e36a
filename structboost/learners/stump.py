"""Decision stumps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.files.schema import Array, DamagedFileError, whole_number
from structboost.learners.all_thresholds import largest_edges
from structboost.learners.base import (
    Candidate,
    WeakLearnerFamily,
    check_family_arguments,
    checked_directions,
)
from structboost.learners.binning import Thresholds, bin_features
from structboost.learners.candidates import (
    best_first,
    best_ways,
    largest_norms,
    ranked,
    response_type,
    with_constant,
)
from structboost.learners.category import CategoryFamily
from structboost.learners.histogram import best_shared_splits, best_splits, histograms
from structboost.learners.lookup_table import LookupTable
from structboost.learners.table import LearnerTable, shares_of_one

# A function of :mod:`structboost.learners.histogram` that finds the best splits, and what it fills.
Kernel = Callable[..., None]
Found = tuple[NDArray[Any], ...]
# First feature of a group, and the first behind it.
Group = tuple[int, int]

# Most numbers in the histograms that are held together.
_HELD_ENTRIES = 1 << 22
# Work (rows x features) below which threads cost more than they save.
_MIN_THREADED_WORK = 2_000_000


class Stump(NamedTuple):
    """Stump with response ``left`` where the column is at most the threshold, else ``right``.

    The columns are those of the bins (:class:`structboost.learners.binning.Gaps`): the features, if
    nothing is missing.  A stump with the threshold -inf is constant.
    """

    feature: int
    threshold: float
    left: float
    right: float
    bin: int


@dataclass(frozen=True)
class StumpTable(LearnerTable):
    """Table of stumps, ``left`` where the feature is at most the threshold, else ``right``.

    ``missing_left`` is whether the response to a missing feature (NaN) is ``left``.  None means
    always ``right``.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners",), infinite=True),
        "left": Array("float64", ("n_learners",)),
        "right": Array("float64", ("n_learners",)),
        "missing_left": Array("uint8", ("n_learners",), high=1, optional=True),
    }
    takes_missing: ClassVar[bool] = True

    feature: IntArray
    threshold: FloatArray
    left: FloatArray
    right: FloatArray
    missing_left: NDArray[np.uint8] | None = None

    @override
    def responses(self, features: NDArray[Any]) -> FloatArray:
        out = np.empty((len(self), len(features)))
        for k in range(len(self)):
            column = features[:, self.feature[k]]
            below = column <= self.threshold[k]
            if self.missing_left is not None and self.missing_left[k]:
                below |= np.isnan(column)
            out[k] = np.where(below, self.left[k], self.right[k])
        return out

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_one(np.where(np.isfinite(self.threshold), self.feature, -1), n_features)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LookupTable:
        of_missing = (
            self.right
            if self.missing_left is None
            else np.where(self.missing_left, self.left, self.right)
        )
        return LookupTable.of_stumps(
            self.feature, self.threshold, self.left, self.right, of_missing, weights, n_features
        )


class StumpSearch(WeakLearnerFamily):
    """Search by histograms over all stumps between the bins of each feature, and the constant.

    Attributes
    ----------
    bins : Thresholds
    low, high : float
        The two responses of a stump.
    directions : ndarray of int8, shape (n_columns,), or None
        1 for columns whose stumps must rise, -1 where they must fall.
    rows : ndarray, shape (n_parts, n_features), or None
        The features, if they are in memory.
    """

    name = "stump"
    exact_pricing = True
    can_resume = True
    takes_missing = True

    def __init__(
        self, bins: Thresholds, response: tuple[float, float], rows: NDArray[Any] | None
    ) -> None:
        self.bins = bins
        self.rows = rows
        self.n_features = bins.n_features
        self.low, self.high = response
        self.directions: NDArray[np.int8] | None = None

    @property
    @override
    def searches_all(self) -> bool:
        return self.bins.thinned is not None and not self.bins.thinned.any()

    @override
    def widest_edges(self, duals: Any) -> FloatArray | None:
        if self.rows is None:
            return None
        thinned = (
            np.ones(self.bins.n_columns, np.bool_)
            if self.bins.thinned is None
            else self.bins.thinned
        )
        edges = largest_edges(
            self.rows, self.bins, np.flatnonzero(thinned), self._gathered(duals), self.low,
            self.high, self.directions,
        )  # fmt: skip
        for candidate in self.price(duals, 1):
            edges[candidate.channel] = max(edges[candidate.channel], candidate.edge)
        return edges

    def _gathered(self, duals: Any) -> FloatArray:
        gathered: FloatArray = duals
        return gathered

    @abstractmethod
    def _search(self, duals: Any, kernel: Kernel, splits: Found) -> FloatArray:
        """Fill ``splits``, one row per column, by a kernel of histograms, and return the totals."""

    def _fill(
        self, kernel: Kernel, splits: Found, sums: FloatArray, totals: FloatArray, group: Group
    ) -> None:
        """Fill the rows of a group of columns from their histograms."""
        rows = slice(*group)
        of_rows = (array[rows] for array in splits)
        kernel(sums, self.bins.n_bins[rows], totals, self.low, self.high, *of_rows)

    @override
    def price(self, duals: Any, per_channel: int) -> list[Candidate]:
        shape = (self.bins.n_columns, duals.shape[1])
        edges, bins, flipped = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.bool_)
        totals = self._search(duals, best_splits, (edges, bins, flipped))
        self._keep_directions(duals, edges, bins, flipped)
        candidates = []
        for channel, total in enumerate(totals):
            flip = self.low * total > self.high * total
            constant = Candidate(
                self._stump(0, -1, flip), channel, float((self.low if flip else self.high) * total)
            )
            column = edges[:, channel]
            splits = [
                Candidate(
                    self._stump(int(f), int(bins[f, channel]), bool(flipped[f, channel])),
                    channel,
                    float(column[f]),
                )
                for f in self._best_columns(column, per_channel)
            ]
            candidates += with_constant(splits, constant, per_channel)
        return best_first(candidates)

    def _keep_directions(
        self, duals: Any, edges: FloatArray, bins: IntArray, flipped: NDArray[np.bool_]
    ) -> None:
        """Restrict columns that have a direction to stumps of this direction."""

    @override
    def table(self, learners: Sequence[Stump]) -> StumpTable:
        gaps = self.bins.gaps
        if gaps is None:
            return StumpTable.of(learners)
        column = [s.feature for s in learners]
        missing_left = gaps.low[column].astype(np.uint8)
        return StumpTable.of(learners, feature=gaps.feature[column], missing_left=missing_left)

    @override
    def restored(self, values: Sequence[Any]) -> Stump:
        feature = whole_number(values[0], "feature", 0, self.bins.n_columns - 1)
        bin_ = whole_number(values[4], "bin", -1, int(self.bins.n_bins[feature]) - 2)
        stump = self._stump(feature, bin_, values[2] == self.high)
        if stump != tuple(values):
            raise DamagedFileError(f"the stump {values} is none of these features")
        return stump

    def _best_columns(self, values: FloatArray, most: int) -> list[int]:
        """Columns of the largest values, each on a feature of its own."""
        order = ranked(values)
        if self.bins.gaps is not None:
            first = np.unique(self.bins.gaps.feature[order], return_index=True)[1]
            order = order[np.sort(first)]
        return [int(j) for j in order[:most] if np.isfinite(values[j])]

    def _stump(self, feature: int, bin_: int, flip: bool) -> Stump:
        threshold = -np.inf if bin_ < 0 else self.bins.values[self.bins.indptr[feature] + bin_]
        left, right = (self.high, self.low) if flip else (self.low, self.high)
        return Stump(feature, float(threshold), left, right, bin_)


class StumpFamily(StumpSearch):
    """Family of stumps on features in memory.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Training features; they are binned once.
    response : (float, float)
        The two responses of a stump (:class:`structboost.PartKind`).
    exact : bool or None
        Whether the family holds all distinct thresholds, or 255 quantiles of each feature.  None
        means all for at most 20,000 parts.
    n_threads : int
        Number of threads; the result does not depend on it.
    directions : sequence of int, optional
        For each feature 1, -1 or 0: its stumps rise with it, fall with it, or do either.
    """

    sets_of_categories = CategoryFamily
    in_threads = True

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        exact: bool | None = None,
        n_threads: int = 1,
        directions: Sequence[int] | None = None,
    ) -> None:
        check_family_arguments(features, response, exact=exact, n_threads=n_threads)
        self.binned = bin_features(features, exact=exact)
        super().__init__(self.binned.bins, response, features)
        if directions is not None:
            of_features = checked_directions(directions, self.n_features)
            gaps = self.bins.gaps
            self.directions = of_features if gaps is None else of_features[gaps.feature]
        self.n_threads = n_threads

    @override
    def price_shared(self, duals: FloatArray, n_learners: int) -> list[tuple[Stump, FloatArray]]:
        if self.directions is not None:
            raise ValueError(
                "Features with a direction (monotonic_cst) do not go with a pricing rule that "
                "shares stumps with weights of either sign; take pricing='own'."
            )
        n_columns = self.bins.n_columns
        norms, bins = np.empty(n_columns), np.empty(n_columns, np.int64)
        self._search(duals, best_shared_splits, (norms, bins))
        chosen = [
            self._stump(int(f), int(bins[f]), flip=False)
            for f in self._best_columns(norms, n_learners)
        ]
        candidates = [*chosen, self._stump(0, -1, flip=False)]
        edges = self.responses(candidates) @ duals
        return largest_norms(candidates, edges, n_learners)

    @override
    def refine(self, learner: Stump, duals: FloatArray) -> list[Candidate]:
        turned = self._stump(learner.feature, learner.bin, learner.left == self.low)
        is_free = self.directions is None or not self.directions[learner.feature]
        ways = (learner, turned) if is_free or learner.bin < 0 else (learner,)
        return best_ways(ways, self.responses(ways) @ duals)

    @override
    def responses(self, learners: Sequence[Stump]) -> NDArray[Any]:
        out = np.empty((len(learners), self.binned.n_rows), response_type(self.low, self.high))
        for k, stump in enumerate(learners):
            below = self.binned.codes[stump.feature].astype(np.int64) <= stump.bin
            out[k] = np.where(below, stump.left, stump.right)
        return out

    @override
    def _keep_directions(
        self, duals: FloatArray, edges: FloatArray, bins: IntArray, flipped: NDArray[np.bool_]
    ) -> None:
        for j in np.flatnonzero(self._directions()):
            filled = histograms(self.binned, duals, int(j), int(j) + 1)
            below = np.cumsum(filled[:-1], axis=0)[:-1]
            above = filled[-1] - below
            rises = self.low * below + self.high * above
            falls = self.high * below + self.low * above
            turned = np.full(rises.shape, self._directions()[j] < 0)
            gaps = self.bins.gaps
            if gaps is not None and (gaps.feature == gaps.feature[j]).sum() > 1 and not gaps.low[j]:
                # What is missing has no place among the numbers: alone, it may go either way.
                turned[-1] = falls[-1] > rises[-1]
            if len(below):
                of_splits = np.where(turned, falls, rises)
                bins[j] = of_splits.argmax(axis=0)
                edges[j] = of_splits.max(axis=0)
                flipped[j] = np.take_along_axis(turned, bins[j][None], axis=0)[0]

    def _directions(self) -> NDArray[np.int8]:
        return np.zeros(0, np.int8) if self.directions is None else self.directions

    @override
    def _search(self, duals: FloatArray, kernel: Kernel, splits: Found) -> FloatArray:
        def run(group: Group) -> FloatArray:
            filled = histograms(self.binned, duals, *group)
            self._fill(kernel, splits, filled[:-1], filled[-1], group)
            return np.asarray(filled[-1])

        groups = feature_groups(self.bins.n_bins, duals.shape[1], self.n_threads)
        if self.n_threads == 1 or self.binned.n_rows * self.n_features < _MIN_THREADED_WORK:
            return [run(group) for group in groups][-1]
        with ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(run, groups))[-1]


def feature_groups(n_bins: IntArray, n_channels: int, at_least: int = 1) -> list[Group]:
    """First and last feature of each group whose histograms are in memory together.

    Without features there is one empty group.
    """
    ends = np.cumsum(n_bins) * n_channels
    total = int(ends[-1]) if len(ends) else 0
    n_groups = min(max(at_least, -(-total // _HELD_ENTRIES)), max(1, len(n_bins)))
    if not len(n_bins):
        return [(0, 0)]
    bounds = np.searchsorted(ends, np.arange(1, n_groups) * (total / n_groups))
    starts = np.unique([0, *bounds.tolist(), len(n_bins)])
    return [(int(first), int(last)) for first, last in pairwise(starts)]
