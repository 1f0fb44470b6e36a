"""Trees of one depth as a table of learners, and with leaves that hold their scores.

The latter is the form of fastest prediction.  Rows are taken in blocks, one feature below the
other.  The nodes of the first levels are compared with all rows of a block, whether a row gets
there or not: such loops are vectorised.  The results are the bits of a number, from which a table
gives the node that the row has come to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.files.schema import Array
from structboost.learners.category_sets import N_WORDS, SetColumns
from structboost.learners.table import LearnerTable, comparable
from structboost.runtime.compiled import compiled

_BLOCK_ROWS = 64
# Rows that get columns of sets together.
_ROWS_WITH_SETS = 4096
# Fewer rows walk down one by one.
_FEWEST_IN_BLOCK = 6
# Levels whose nodes are compared with all rows: seven nodes, as many bits.
_TOP_LEVELS = 3


@dataclass(frozen=True)
class TreeTable(LearnerTable):
    """Table of trees of one depth.

    ``missing_left`` is whether a node sends a missing feature (NaN) left.  None means always
    right.  ``sets`` are bits of the categories that a node sends left, 0 if it splits at its
    threshold.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "feature": Array("int64", ("n_learners", "n_nodes"), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners", "n_nodes"), infinite=True),
        "leaf": Array("float64", ("n_learners", "n_nodes + 1")),
        "missing_left": Array("uint8", ("n_learners", "n_nodes"), high=1, optional=True),
        "sets": Array("uint64", ("n_learners", "n_nodes", N_WORDS), optional=True),
    }
    takes_missing: ClassVar[bool] = True

    feature: IntArray
    threshold: FloatArray
    leaf: FloatArray
    missing_left: NDArray[np.uint8] | None = None
    sets: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        n_leaves = self.leaf.shape[1]
        if n_leaves & (n_leaves - 1):
            raise ValueError(f"a tree of {n_leaves} leaves is not complete")

    @override
    def responses(self, features: NDArray[Any]) -> FloatArray:
        scorer = self.scorer(np.eye(len(self)), features.shape[1])
        return np.ascontiguousarray(scorer.raw_scores(features).T)

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        out = np.zeros((len(self), n_features))
        trees, nodes = np.nonzero(np.isfinite(self.threshold))
        np.add.at(out, (trees, self.feature[trees, nodes]), 1.0)
        return np.asarray(out / np.maximum(out.sum(axis=1, keepdims=True), 1.0))

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> WeightedTrees:
        # All nodes without a split send a missing feature left.
        sides, feature, sets = np.isposinf(self.threshold).astype(np.uint8), self.feature, None
        if self.missing_left is not None:
            sides |= self.missing_left
        if self.sets is not None:
            by_set = self.sets.any(axis=2)
            sets, place = SetColumns.of_nodes(feature[by_set], self.sets[by_set], sides[by_set])
            feature = feature.copy()
            feature[by_set] = n_features + place
        used = np.flatnonzero(weights.any(axis=1))
        rows, channels = np.nonzero(weights[used])
        values = weights[used[rows], channels][:, None] * self.leaf[used[rows]]
        ends = np.searchsorted(rows, np.arange(len(used) + 1)).astype(np.int64)
        nodes = feature[used], self.threshold[used], sides[used]
        return WeightedTrees(*nodes, ends, channels, values, weights.shape[1], sets)


@dataclass(frozen=True)
class WeightedTrees:
    """Trees whose leaves hold their contributions to the scores.

    Parameters
    ----------
    feature, threshold, missing_left : ndarray, shape (n_trees, n_nodes)
        As in :class:`TreeTable`.
    indptr : ndarray of int64, shape (n_trees + 1,)
        Terms of tree t are ``indptr[t]:indptr[t + 1]``.
    channels : ndarray of int64, shape (n_terms,)
    values : ndarray of float64, shape (n_terms, n_leaves)
    n_channels : int
    sets : SetColumns, optional
        Columns that trees read after the features of a row, which they split at a half.
    """

    feature: IntArray
    threshold: FloatArray
    missing_left: NDArray[np.uint8]
    indptr: IntArray
    channels: IntArray
    values: FloatArray
    n_channels: int
    sets: SetColumns | None = None

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores of checked rows, shape (n_parts, n_channels)."""
        out = np.zeros((len(rows), self.n_channels))
        if self.sets is None:
            self._add_scores(rows, out)
        else:
            for a in range(0, len(rows), _ROWS_WITH_SETS):
                of_block = slice(a, a + _ROWS_WITH_SETS)
                self._add_scores(self.sets.hstack(rows[of_block]), out[of_block])
        return out

    def _add_scores(self, rows: NDArray[Any], out: FloatArray) -> None:
        """Add the scores of rows with the columns of sets to zeros."""
        rows = comparable(rows)
        terms = self.indptr, self.channels, self.values
        if len(rows) < _FEWEST_IN_BLOCK:
            _add_one_by_one(rows, self.feature, self.threshold, self.missing_left, *terms, out)
        else:
            used, is_low, place = self._used_features
            is_double = rows.dtype == np.float64
            thresholds = self.threshold if is_double else self._single_thresholds
            room = (
                np.empty((len(used), _BLOCK_ROWS), thresholds.dtype),
                np.zeros(_BLOCK_ROWS, np.uint8),
                np.zeros(_BLOCK_ROWS, np.int64),
                np.zeros((self.n_channels, _BLOCK_ROWS)),
            )
            trees = place, thresholds, *terms
            _add_in_blocks(rows, (used, is_low), trees, *self._top, room, out)

    @cached_property
    def _used_features(self) -> tuple[IntArray, NDArray[np.bool_], IntArray]:
        """Features of the nodes, with the side of missing values, and their index by node.

        A feature appears twice if nodes send missing values of it to both sides.
        """
        both = 2 * self.feature + self.missing_left
        used, place = np.unique(both, return_inverse=True)
        return used // 2, used % 2 == 1, place.reshape(both.shape).astype(np.int64)

    @cached_property
    def _single_thresholds(self) -> NDArray[np.float32]:
        return single_thresholds(self.threshold)

    @cached_property
    def _top(self) -> tuple[int, IntArray]:
        """Number of nodes that are compared with all rows, and the table of their outcomes."""
        n_top = min(2**_TOP_LEVELS - 1, self.feature.shape[1])
        node = np.zeros(2**n_top, np.int64)
        bits = np.arange(len(node))
        for _ in range(n_top.bit_length()):
            node = 2 * node + 1 + (bits >> node & 1)
        return n_top, node


def single_thresholds(thresholds: FloatArray) -> NDArray[np.float32]:
    """Round the thresholds down to single precision.

    They split single-precision numbers as the thresholds do.
    """
    with np.errstate(over="ignore"):
        single = thresholds.astype(np.float32)
    return np.where(single > thresholds, np.nextafter(single, np.float32(-np.inf)), single)


@compiled
def _add_one_by_one(
    rows: NDArray[Any],
    features: IntArray,
    thresholds: FloatArray,
    missing_left: NDArray[np.uint8],
    indptr: IntArray,
    channels: IntArray,
    values: FloatArray,
    out: FloatArray,
) -> None:
    for p in range(len(rows)):
        for t in range(len(features)):
            leaf = leaf_of(rows[p], features[t], thresholds[t], missing_left[t])
            for term in range(indptr[t], indptr[t + 1]):
                out[p, channels[term]] += values[term, leaf]


@compiled
def leaf_of(
    row: NDArray[Any], features: IntArray, thresholds: FloatArray, missing_left: NDArray[np.uint8]
) -> int:
    """Leaf of a row, counted from the left."""
    n_nodes = len(features)
    k = 0
    while k < n_nodes:
        value = row[features[k]]
        # Branch-free: which side a row takes cannot be predicted.
        goes_left = (value <= thresholds[k]) | (math.isnan(value) & (missing_left[k] != 0))
        k = 2 * k + 2 - goes_left
    return k - n_nodes


@compiled
def _add_in_blocks(
    rows: NDArray[Any],
    features: tuple[IntArray, NDArray[np.bool_]],
    trees: tuple[IntArray, NDArray[Any], IntArray, IntArray, FloatArray],
    n_top: int,
    node_after_top: IntArray,
    room: tuple[NDArray[Any], NDArray[np.uint8], IntArray, FloatArray],
    out: FloatArray,
) -> None:
    """Add up scores block by block.

    ``room`` has values, outcomes of the top nodes, leaves and scores of the rows of a block.
    """
    used, is_low = features
    place, thresholds, indptr, channels, values = trees
    block, bits, leaf, sums = room
    n_nodes, width = place.shape[1], block.shape[1]
    for begin in range(0, len(rows), width):
        n = width if len(rows) - begin > width else len(rows) - begin
        for u in range(len(used)):
            of_missing = -np.inf if is_low[u] else np.inf
            for p in range(n):
                value = rows[begin + p, used[u]]
                block[u, p] = of_missing if math.isnan(value) else value
        for c in range(out.shape[1]):
            for p in range(width):
                sums[c, p] = 0.0
        for t in range(len(place)):
            for p in range(width):
                bits[p] = 0
            for k in range(n_top):
                feature, threshold = block[place[t, k]], thresholds[t, k]
                bit = np.uint8(1 << k)
                for p in range(width):
                    bits[p] |= bit if feature[p] > threshold else np.uint8(0)
            for p in range(n):
                leaf[p] = node_after_top[bits[p]] - n_nodes
            if n_top < n_nodes:
                for p in range(n):
                    k = leaf[p] + n_nodes
                    while k < n_nodes:
                        k = 2 * k + 1 + (block[place[t, k], p] > thresholds[t, k])
                    leaf[p] = k - n_nodes
            for term in range(indptr[t], indptr[t + 1]):
                of_leaf, of_channel = values[term], sums[channels[term]]
                for p in range(n):
                    of_channel[p] += of_leaf[leaf[p]]
        for p in range(n):
            for c in range(out.shape[1]):
                out[begin + p, c] = sums[c, p]
