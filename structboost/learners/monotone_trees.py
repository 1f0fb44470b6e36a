"""Leaves of trees whose responses rise or fall with some features.

Two leaves are compared where a point of one lies above a point of the other: in features with a
direction it may lie further in that direction, and in all others the points are equal.  The
responses keep the directions if and only if no leaf is above one that must not be below it.  The
best such responses are a maximum closure (Picard, Management Science 1976).  It is a level set of
the isotonic regression of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from structboost._typing import BoolArray, FloatArray, IntArray
from structboost.learners.binning import BY_SET, Thresholds, is_in_set
from structboost.runtime.compiled import compiled

# Answers between -1 and 1 that differ by less are equal.
_ROUNDING = 1e-9
# A bin behind all others.
_ENDLESS = 1 << 62

# Features, bins and sets of the nodes of trees, shape (n_trees, n_nodes) each.
Nodes = tuple[IntArray, IntArray, NDArray[np.uint64] | None]


class Directions:
    """Features with which the responses must rise or fall.

    Parameters
    ----------
    bins : Thresholds
    of_features : ndarray of int8, shape (n_features,)
        1, -1 or 0.

    Attributes
    ----------
    of_columns : ndarray of int8, shape (n_columns,)
        Direction of each column of bins; twice that if the last split of the column sends only
        missing values to the right, since these have no place in the order.
    """

    def __init__(self, bins: Thresholds, of_features: NDArray[np.int8]) -> None:
        apart = bins.is_apart
        # What is missing is the bin behind those of the numbers; -1 where nothing is.
        missing = np.full(len(of_features), -1, np.int64)
        missing[bins.feature[apart]] = bins.n_bins[apart] - 1
        self._table: tuple[Any, ...] = bins.feature, bins.is_low, missing, of_features
        self.of_columns = (of_features[bins.feature] * np.where(apart, 2, 1)).astype(np.int8)

    @property
    def any(self) -> bool:
        """Whether any feature has a direction."""
        return bool(self.of_columns.any())

    def best_leaves(
        self, nodes: Nodes, weights: FloatArray, responses: tuple[float, float]
    ) -> FloatArray:
        """Responses of largest edge that respect the directions, shape (n_trees, n_leaves).

        The nodes split columns of bins, perhaps by sets of bins that go left.  ``weights`` are the
        sums of the duals in the leaves, and ``responses`` the low and the high response.  The
        leaves of high response are those where the nearest weights that respect the directions are
        positive.
        """
        sizes = np.abs(weights).max(axis=1, keepdims=True)
        scaled = weights / np.where(sizes > 0, sizes, 1.0)
        nearest = self.nearest_leaves(nodes, scaled, np.ones(weights.shape))
        return np.where(nearest > 0, responses[1], responses[0])

    def nearest_leaves(self, nodes: Nodes, responses: FloatArray, masses: FloatArray) -> FloatArray:
        """Responses nearest to the wanted ones that respect the directions, of the same shape.

        The distance is that of least squares, weighted by ``masses``, whose dual has non-negative
        multipliers (Lawson and Hanson, Solving Least Squares Problems, chapter 23).  The pairs come
        in as responses violate it, which most never do.
        """
        return np.array(list(map(_nearest, self._pairs(nodes), responses, masses)))

    def _pairs(self, nodes: Nodes) -> Iterator[IntArray]:
        """Pairs of leaves of each tree whose first must not have the larger response."""
        features, bins, sets = nodes
        words = np.zeros((*bins.shape, 0), np.uint64) if sets is None else sets
        for tree in zip(features, bins, words, strict=True):
            yield np.argwhere(_may_rise(*tree, *self._table))


def _nearest(pairs: IntArray, responses: FloatArray, masses: FloatArray) -> FloatArray:
    """Responses of the leaves of a tree that are nearest to the wanted ones."""
    low, high = pairs.T
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


@compiled
def _may_rise(
    columns: IntArray,
    bins: IntArray,
    sets: NDArray[np.uint64],
    feature_of: IntArray,
    low: BoolArray,
    missing: IntArray,
    directions: NDArray[np.int8],
) -> BoolArray:
    """Compare two leaves, and return whether a point of the second may lie above the first.

    A leaf with itself is not compared.  Of each feature that nodes split, only the bins at which
    they do are looked at, those of sets, and what is behind them or missing.
    """
    n_nodes, n_set = len(bins), 64 * sets.shape[1]
    may_rise = np.ones((n_nodes + 1, n_nodes + 1), np.bool_)
    for leaf in range(n_nodes + 1):
        may_rise[leaf, leaf] = False
    values = np.empty(n_nodes + n_set + 3, np.int64)
    is_inside = np.empty((n_nodes + 1, len(values)), np.bool_)
    for first in range(n_nodes):
        feature, n, by_set, is_new = feature_of[columns[first]], 0, False, True
        for node in range(n_nodes):
            if feature_of[columns[node]] == feature:
                is_new = is_new and node >= first
                by_set = by_set or bins[node] == BY_SET
                if bins[node] >= 0:
                    values[n] = bins[node]
                    n += 1
        if not is_new:
            continue
        if by_set:
            for bin_ in range(n_set):
                values[bin_] = bin_
            n = n_set
        values[n] = missing[feature] - 1 if missing[feature] >= 0 else _ENDLESS
        n += 1
        # What is missing has no place in the order, nor has what training does not know beside it.
        n_ordered = n if directions[feature] != 0 else 0
        if missing[feature] >= 0:
            values[n], values[n + 1] = _ENDLESS, missing[feature]
            n += 2
        for leaf in range(n_nodes + 1):
            is_inside[leaf] = True
            child = leaf + n_nodes
            while child > 0:
                node = (child - 1) // 2
                if feature_of[columns[node]] == feature:
                    for k in range(n):
                        goes_left = bins[node] == -1 or values[k] <= bins[node]
                        if values[k] == missing[feature]:
                            goes_left = goes_left or low[columns[node]]
                        if bins[node] == BY_SET:
                            goes_left = values[k] < n_set and is_in_set(sets[node], values[k])
                        is_inside[leaf, k] &= goes_left == (child % 2 == 1)
                child = node
        for i in range(n_nodes + 1):
            for j in range(n_nodes + 1):
                lower, upper = (i, j) if directions[feature] > 0 else (j, i)
                lowest, highest, k, may = _ENDLESS, -1, 0, False
                while k < n and may_rise[i, j] and not may:
                    may = is_inside[i, k] and is_inside[j, k]
                    if k < n_ordered and is_inside[lower, k]:
                        lowest = min(lowest, values[k])
                    if k < n_ordered and is_inside[upper, k]:
                        highest = max(highest, values[k])
                    k += 1
                may_rise[i, j] &= may or lowest < highest
    return may_rise
