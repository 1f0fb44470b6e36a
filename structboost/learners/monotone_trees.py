"""Leaves of trees whose responses rise or fall with some features.

Two leaves are compared where a point of one lies above a point of the other: in features with a
direction it may lie further in that direction, and in all others the points are equal.  The
responses keep the directions if and only if no leaf is above one that must not be below it.  The
best such responses are a maximum closure (Picard, Management Science 1976), whose linear program
has whole numbers at its corners.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray
from structboost.learners.binning import BinnedFeatures
from structboost.learners.category_sets import BY_SET
from structboost.runtime.compiled import compiled

# Answers between -1 and 1 that differ by less are equal.
_ROUNDING = 1e-9
# The last bin of an interval without an end.
_ENDLESS = 1 << 62
# All bins, as bits.
_ALL = np.uint64(2**64 - 1)


class Directions:
    """Features with which the responses must rise or fall.

    Parameters
    ----------
    binned : BinnedFeatures
    of_features : ndarray of int8, shape (n_features,)
        1, -1 or 0.

    Attributes
    ----------
    of_columns : ndarray of int8, shape (n_columns,)
        Direction of each column of bins; twice that if the last split of the column sends only
        missing values to the right, since these have no place in the order.
    """

    def __init__(self, binned: BinnedFeatures, of_features: NDArray[np.int8]) -> None:
        gaps, n_columns = binned.bins.gaps, binned.n_columns
        self._feature = np.arange(n_columns) if gaps is None else gaps.feature
        self._low = np.zeros(n_columns, bool) if gaps is None else gaps.low
        self._of_features = of_features
        has_missing = np.bincount(self._feature, minlength=len(of_features))[self._feature] > 1
        apart = has_missing & ~self._low
        # What is missing is the bin behind those of the numbers; -1 where nothing is.
        self._missing = np.full(len(of_features), -1, np.int64)
        self._missing[self._feature[apart]] = binned.bins.n_bins[apart] - 1
        self.of_columns = (of_features[self._feature] * np.where(apart, 2, 1)).astype(np.int8)

    @property
    def any(self) -> bool:
        """Whether any feature has a direction."""
        return bool(self.of_columns.any())

    def best_leaves(
        self,
        features: IntArray,
        bins: IntArray,
        sets: NDArray[np.uint64],
        weights: FloatArray,
        responses: tuple[float, float],
    ) -> FloatArray:
        """Responses of largest edge that respect the directions, shape (n_leaves,).

        The nodes split columns of bins, perhaps by ``sets`` of bins that go left.  ``weights`` are
        the sums of the duals in the leaves, and ``responses`` the low and the high response.
        """
        is_high = weights > 0
        pairs = self._pairs(features, bins, sets)
        if (is_high[pairs[:, 0]] > is_high[pairs[:, 1]]).any():
            places = np.repeat(np.arange(len(pairs)), 2), pairs.ravel()
            above = csr_array((np.tile([1.0, -1.0], len(pairs)), places))
            solution = linprog(
                -weights[: above.shape[1]],
                above,
                np.zeros(len(pairs)),
                bounds=(0, 1),
                method="highs-ds",
            )
            is_high[: above.shape[1]] = solution.x > 0.5
        return np.where(is_high, responses[1], responses[0])

    def nearest_leaves(
        self,
        features: IntArray,
        bins: IntArray,
        sets: NDArray[np.uint64],
        responses: FloatArray,
        masses: FloatArray,
    ) -> FloatArray:
        """Responses nearest to the wanted ones that respect the directions, shape (n_leaves,).

        The distance is that of least squares, weighted by ``masses``, whose dual has non-negative
        multipliers (Lawson and Hanson, Solving Least Squares Problems, chapter 23).  The pairs come
        in as responses violate it, which most never do.
        """
        low, high = self._pairs(features, bins, sets).T
        scale = np.sqrt(masses / masses.max())
        held = np.zeros(len(low), bool)
        out = responses
        while (fresh := (out[low] > out[high] + _ROUNDING) & ~held).any():
            held |= fresh
            rises = np.zeros((held.sum(), len(responses)))
            rows = np.arange(len(rises))
            rises[rows, high[held]], rises[rows, low[held]] = 1.0, -1.0
            multipliers, _ = nnls((rises / scale).T, -scale * responses, maxiter=30 * rises.size)
            out = responses + multipliers @ rises / scale**2
        out = out.copy()
        while (out[low] > out[high]).any():
            np.maximum.at(out, high, out[low])
        return out

    def _pairs(self, features: IntArray, bins: IntArray, sets: NDArray[np.uint64]) -> IntArray:
        """Pairs of leaves whose first must not have the larger response, shape (n_pairs, 2)."""
        columns = self._feature, self._low, self._missing
        regions = _regions(features, bins, sets, *columns)
        return np.argwhere(_may_rise(*regions, self._missing, self._of_features))


@compiled
def _regions(
    columns: IntArray,
    bins: IntArray,
    sets: NDArray[np.uint64],
    feature_of: IntArray,
    low: NDArray[np.bool_],
    missing: IntArray,
) -> tuple[IntArray, IntArray, NDArray[np.uint64]]:
    """Bins that reach each leaf, from the left, none where no row can come.

    Returns
    -------
    features : ndarray of int64, shape (n_leaves, depth + 1)
        Features on the way to a leaf, each once, followed by -1 for all other features.
    intervals : ndarray of int64, shape (n_leaves, depth + 1, 3)
        First and last bin of each, and whether it includes the separate bin of missing values.
    members : ndarray of uint64, shape (n_leaves, depth + 1, n_words + 1)
        Bins as bits for features split by sets.  The last word represents all later bins.
    """
    n_leaves, n_words, depth = len(bins) + 1, sets.shape[1], 0
    while 1 << depth < n_leaves:
        depth += 1
    features = np.full((n_leaves, depth + 1), -1, np.int64)
    intervals = np.empty((n_leaves, depth + 1, 3), np.int64)
    intervals[:, :, 0], intervals[:, :, 1], intervals[:, :, 2] = 0, _ENDLESS, 1
    members = np.full((n_leaves, depth + 1, n_words + 1), _ALL)
    for leaf in range(n_leaves):
        node = 0
        for level in range(depth):
            column, bin_ = columns[node], bins[node]
            goes_left = (leaf >> (depth - 1 - level)) & 1 == 0
            feature = feature_of[column]
            at = _place(features[leaf], feature)
            features[leaf, at] = feature
            interval, of_set = intervals[leaf, at], members[leaf, at]
            if bin_ == BY_SET:
                for w in range(n_words):
                    of_set[w] &= sets[node, w] if goes_left else ~sets[node, w]
                if goes_left:
                    of_set[n_words] = 0
            elif bin_ >= 0:
                missing_left = low[column] or missing[feature] <= bin_
                interval[1] = min(interval[1], bin_) if goes_left else interval[1]
                interval[0] = interval[0] if goes_left else max(interval[0], bin_ + 1)
                interval[2] = interval[2] if goes_left == missing_left else 0
            elif not goes_left:
                interval[1], interval[2] = -1, 0
            node = 2 * node + (1 if goes_left else 2)
    return features, intervals, members


@compiled
def _place(features: IntArray, feature: int) -> int:
    """Index of a feature, or of the first -1."""
    at = 0
    while features[at] >= 0 and features[at] != feature:
        at += 1
    return at


@compiled
def _may_rise(
    features: IntArray,
    intervals: IntArray,
    members: NDArray[np.uint64],
    missing: IntArray,
    directions: NDArray[np.int8],
) -> NDArray[np.bool_]:
    """Compare two regions, and return whether a point of the second may lie above the first.

    False for a region and itself.
    """
    n_leaves = len(features)
    may_rise = np.zeros((n_leaves, n_leaves), np.bool_)
    for i in range(n_leaves):
        for j in range(n_leaves):
            may_rise[i, j] = i != j
            for of_leaf in (i, j):
                for feature in features[of_leaf]:
                    if feature < 0 or not may_rise[i, j]:
                        break
                    first = i, _place(features[i], feature)
                    second = j, _place(features[j], feature)
                    may_rise[i, j] = _may_rise_in(
                        intervals, members, first, second, missing[feature], directions[feature]
                    )
    return may_rise


@compiled
def _may_rise_in(
    intervals: IntArray,
    members: NDArray[np.uint64],
    first: tuple[int, int],
    second: tuple[int, int],
    missing: int,
    direction: int,
) -> bool:
    if _overlap(intervals, members, first, second, missing):
        return True
    if (
        direction == 0
        or not _overlap(intervals, members, first, first, missing)
        or not _overlap(intervals, members, second, second, missing)
    ):
        return False
    # What is missing has no place in the order.
    last = missing - 1 if missing >= 0 else _ENDLESS
    lower, upper = (first, second) if direction > 0 else (second, first)
    lowest, highest = intervals[lower][0], min(intervals[upper][1], last)
    has_lower = lowest <= min(intervals[lower][1], last)
    return bool(has_lower and intervals[upper][0] <= highest and lowest <= highest)


@compiled
def _overlap(
    intervals: IntArray,
    members: NDArray[np.uint64],
    first: tuple[int, int],
    second: tuple[int, int],
    missing: int,
) -> bool:
    lowest = max(intervals[first][0], intervals[second][0])
    highest = min(intervals[first][1], intervals[second][1])
    overlaps = lowest < highest or (lowest == highest and lowest != missing)
    if not overlaps:
        overlaps = missing >= 0 and intervals[first][2] == 1 and intervals[second][2] == 1
    in_both = False
    for w in range(members.shape[2]):
        in_both = in_both or (members[first][w] & members[second][w]) != 0
    return bool(overlaps and in_both)
