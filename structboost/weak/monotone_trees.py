"""Leaves of trees whose answer rises or falls with some features.

Two leaves are compared where a point of one lies above a point of the other: in features with a
direction it may lie further in that direction, in all others the points are equal.  The answers
keep the directions if and only if no leaf is above one that must not be below it.  The best such
answers are a maximum closure (Picard, Management Science 1976), whose linear program has whole
numbers at its corners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray
from structboost.weak.binning import BinnedFeatures
from structboost.weak.category_sets import BY_SET

# Answers between -1 and 1 that differ by less are equal.
_ROUNDING = 1e-9

# By feature: the bins that reach a leaf, as bits of a number.
Region = dict[int, int]


class Directions:
    """Whether answers rise or fall with features.

    Parameters
    ----------
    binned : BinnedFeatures
    of_features : ndarray of int8, shape (n_features,)
        1, -1 or 0.

    Attributes
    ----------
    of_columns : ndarray of int8, shape (n_columns,)
        Direction of each column of bins; twice that where the last split of the column sends only
        what is missing to the right, which has no place in the order.
    """

    def __init__(self, binned: BinnedFeatures, of_features: NDArray[np.int8]) -> None:
        gaps, n_columns = binned.bins.gaps, binned.n_columns
        self._feature = np.arange(n_columns) if gaps is None else gaps.feature
        self._low = np.zeros(n_columns, bool) if gaps is None else gaps.low
        self._n_bins = binned.bins.n_bins
        self._of_features = of_features
        has_missing = np.bincount(self._feature, minlength=len(of_features))[self._feature] > 1
        apart = has_missing & ~self._low
        # What is missing is the bin behind those of the numbers.
        self._missing = dict(
            zip(self._feature[apart].tolist(), self._n_bins[apart] - 1, strict=True)
        )
        self.of_columns = (of_features[self._feature] * np.where(apart, 2, 1)).astype(np.int8)

    def best_leaves(
        self,
        features: Sequence[int],
        bins: Sequence[int],
        sets: Sequence[int],
        weights: FloatArray,
        answers: tuple[float, float],
    ) -> FloatArray:
        """Answers of largest edge that keep the directions, shape (n_leaves,).

        Parameters
        ----------
        features, bins, sets
            Those of the nodes of a tree; the features are columns of bins.
        weights : ndarray, shape (n_leaves,)
            Sum of the duals in each leaf.
        answers : (float, float)
            The low and the high one.
        """
        is_high = weights > 0
        pairs = self._pairs(features, bins, sets)
        if (is_high[pairs[:, 0]] > is_high[pairs[:, 1]]).any():
            places = np.repeat(np.arange(len(pairs)), 2), pairs.ravel()
            above = csr_array((np.tile([1.0, -1.0], len(pairs)), places))
            found = linprog(
                -weights[: above.shape[1]],
                above,
                np.zeros(len(pairs)),
                bounds=(0, 1),
                method="highs-ds",
            )
            is_high[: above.shape[1]] = found.x > 0.5
        return np.where(is_high, answers[1], answers[0])

    def nearest_leaves(
        self,
        features: Sequence[int],
        bins: Sequence[int],
        sets: Sequence[int],
        answers: FloatArray,
        masses: FloatArray,
    ) -> FloatArray:
        """The answers that keep the directions and are nearest to given ones, shape (n_leaves,).

        Near is meant in weighted least squares, whose dual is one of multipliers that are not
        negative (Lawson and Hanson, Solving Least Squares Problems, chapter 23).  The pairs come in
        as answers go wrong: most never do.

        Parameters
        ----------
        features, bins, sets
            As in :meth:`best_leaves`.
        answers, masses : ndarray, shape (n_leaves,)
            The answers wished for, and how much each counts.
        """
        low, high = self._pairs(features, bins, sets).T
        scale = np.sqrt(masses / masses.max())
        held = np.zeros(len(low), bool)
        out = answers
        while (fresh := (out[low] > out[high] + _ROUNDING) & ~held).any():
            held |= fresh
            rises = np.zeros((held.sum(), len(answers)))
            rows = np.arange(len(rises))
            rises[rows, high[held]], rises[rows, low[held]] = 1.0, -1.0
            multipliers, _ = nnls((rises / scale).T, -scale * answers, maxiter=30 * rises.size)
            out = answers + multipliers @ rises / scale**2
        out = out.copy()
        while (out[low] > out[high]).any():
            np.maximum.at(out, high, out[low])
        return out

    def _pairs(self, features: Sequence[int], bins: Sequence[int], sets: Sequence[int]) -> IntArray:
        """Leaves of which the first must not answer more than the second, shape (n_pairs, 2)."""
        regions = list(self._regions(features, bins, sets))
        return np.array(
            [
                (i, j)
                for i, first in enumerate(regions)
                for j, second in enumerate(regions)
                if i != j and self._may_rise(first, second)
            ],
            np.int64,
        ).reshape(-1, 2)

    def _regions(
        self, features: Sequence[int], bins: Sequence[int], sets: Sequence[int]
    ) -> Iterator[Region]:
        """The bins that reach each leaf, from the left; none where no row can come."""
        regions: list[Region] = [{}]
        for node, (column, bin_) in enumerate(zip(features, bins, strict=True)):
            region = regions[node]
            feature = int(self._feature[column])
            have = region.get(feature, -1)
            left = -1
            if bin_ >= 0:
                left = (2 << bin_) - 1
                if self._low[column]:
                    left |= 1 << int(self._missing[feature])
            elif bin_ == BY_SET:
                left = sets[node]
            regions += [region | {feature: have & left}, region | {feature: have & ~left}]
        return iter(regions[len(features) :])

    def _may_rise(self, first: Region, second: Region) -> bool:
        """Whether a point of the second region lies above one of the first, or is equal."""
        return all(
            self._may_rise_in(f, first.get(f, -1), second.get(f, -1)) for f in first | second
        )

    def _may_rise_in(self, feature: int, first: int, second: int) -> bool:
        direction = int(self._of_features[feature])
        if first & second or not direction or not first or not second:
            return bool(first & second)
        lower, upper = (first, second) if direction > 0 else (second, first)
        if feature in self._missing:
            numbers = (1 << int(self._missing[feature])) - 1
            lower, upper = lower & numbers, upper & numbers
        if not lower or not upper:
            return False
        # A region without an upper end is a negative number: all bits from some place on.
        return upper < 0 or (lower & -lower) <= upper
