"""Tables of trees, and of trees over pairs of features.

Trees are a table of learners, or have leaves that hold their scores, which predict fastest.  Rows
are taken in blocks, one feature below the other.  The nodes of the first levels are compared with
all rows of a block, whether a row gets there or not: such loops are vectorised.  The results are
the bits of a number, from which a table gives the node that the row has come to.

Tables of features and of pairs of features are the form of trees of two levels.  Where x_a goes
left, a tree of the root a and the children b and c is a function of x_a and x_b, elsewhere one of
x_a and x_c.  Sums of such trees are tables over the intervals between the thresholds::

    F_c(x) = bias_c + sum_a f_a,c(x_a) + sum_{a < b} f_ab,c(x_a, x_b)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Self

import numpy as np

from structboost._typing import (
    AnyArray,
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    SingleArray,
    WordArray,
    override,
)
from structboost.files.archive import Array
from structboost.learners.binning import HALF, N_WORDS, SetColumns
from structboost.learners.table import LookupTable, ScoredTable, Scorer, comparable
from structboost.runtime.compiled import compiled

_BLOCK_ROWS = 64
# Rows that get columns of sets together.
_ROWS_WITH_SETS = 4096
# Fewer rows walk down one by one.
_FEWEST_IN_BLOCK = 6
# Levels whose nodes are compared with all rows: seven nodes, as many bits.
_TOP_LEVELS = 3


@dataclass(frozen=True)
class TreeTable(ScoredTable):
    """Table of trees of one depth.

    ``missing_left`` is whether a node sends a missing feature (NaN) left.  None means always
    right.  ``sets`` are bits of the categories that a node sends left, 0 if it splits at its
    threshold.
    """

    schema = {
        "feature": Array("int64", ("n_learners", "n_nodes"), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners", "n_nodes"), infinite=True),
        "leaf": Array("float64", ("n_learners", "n_nodes + 1")),
        "missing_left": Array("uint8", ("n_learners", "n_nodes"), high=1, optional=True),
        "sets": Array("uint64", ("n_learners", "n_nodes", N_WORDS), optional=True),
    }
    takes_missing = True

    feature: IntArray
    threshold: FloatArray
    leaf: FloatArray
    missing_left: ByteArray | None = None
    sets: WordArray | None = None

    def __post_init__(self) -> None:
        n_leaves = self.leaf.shape[1]
        if n_leaves & (n_leaves - 1):
            raise ValueError(f"a tree of {n_leaves} leaves is not complete")

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
    missing_left: ByteArray
    indptr: IntArray
    channels: IntArray
    values: FloatArray
    n_channels: int
    sets: SetColumns | None = None

    def raw_scores(self, rows: AnyArray) -> FloatArray:
        """Scores of checked rows, shape (n_parts, n_channels)."""
        out = np.zeros((len(rows), self.n_channels))
        if self.sets is None:
            self._add_scores(rows, out)
        else:
            for a in range(0, len(rows), _ROWS_WITH_SETS):
                of_block = slice(a, a + _ROWS_WITH_SETS)
                self._add_scores(self.sets.hstack(rows[of_block]), out[of_block])
        return out

    def _add_scores(self, rows: AnyArray, out: FloatArray) -> None:
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
    def _used_features(self) -> tuple[IntArray, BoolArray, IntArray]:
        """Features of the nodes, with the side of missing values, and their index by node.

        A feature appears twice if nodes send missing values of it to both sides.
        """
        both = 2 * self.feature + self.missing_left
        used, place = np.unique(both, return_inverse=True)
        return used // 2, used % 2 == 1, place.reshape(both.shape).astype(np.int64)

    @cached_property
    def _single_thresholds(self) -> SingleArray:
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


def single_thresholds(thresholds: FloatArray) -> SingleArray:
    """Round the thresholds down to single precision.

    They split single-precision numbers as the thresholds do.
    """
    with np.errstate(over="ignore"):
        single = thresholds.astype(np.float32)
    return np.where(single > thresholds, np.nextafter(single, np.float32(-np.inf)), single)


@compiled
def _add_one_by_one(
    rows: AnyArray,
    features: IntArray,
    thresholds: FloatArray,
    missing_left: ByteArray,
    indptr: IntArray,
    channels: IntArray,
    values: FloatArray,
    out: FloatArray,
) -> None:
    n_nodes = features.shape[1]
    for p in range(len(rows)):
        for t in range(len(features)):
            k = 0
            while k < n_nodes:
                value = rows[p, features[t, k]]
                # Branch-free: which side a row takes cannot be predicted.
                is_left = value <= thresholds[t, k]
                is_left |= math.isnan(value) & (missing_left[t, k] != 0)
                k = 2 * k + 2 - is_left
            for term in range(indptr[t], indptr[t + 1]):
                out[p, channels[term]] += values[term, k - n_nodes]


@compiled
def _add_in_blocks(
    rows: AnyArray,
    features: tuple[IntArray, BoolArray],
    trees: tuple[IntArray, AnyArray, IntArray, IntArray, FloatArray],
    n_top: int,
    node_after_top: IntArray,
    room: tuple[AnyArray, ByteArray, IntArray, FloatArray],
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


Pair = tuple[int, int]


@dataclass(frozen=True)
class PairTables:
    """Look-up tables of features and of pairs of features.

    Parameters
    ----------
    steps : LookupTable
        Functions of single features, with a value where a feature is missing.
    pairs : dict of (int, int) to ndarray, shape (n_bins_a + 1, n_bins_b + 1, n_channels)
        Function of two features a < b, by their bins.  The last row and the last column are those
        of missing values.
    """

    steps: LookupTable
    pairs: dict[Pair, FloatArray]

    def __repr__(self) -> str:
        n_single, n_pairs = len(self.steps.features), len(self.pairs)
        return f"PairTables({n_single} features, {n_pairs} pairs, {len(self.steps.bias)} channels)"

    @classmethod
    def of(cls, scorer: Scorer, n_features: int) -> Self | None:
        """Convert a scorer of rows of ``n_features``, or return None if its trees are deeper."""
        if not isinstance(scorer, WeightedTrees) or scorer.feature.shape[1] not in (1, 3):
            return None
        return cls(*_tables(scorer, n_features))

    def raw_scores(self, rows: AnyArray) -> FloatArray:
        """Scores of checked rows, shape (n_parts, n_channels)."""
        bins, out = self.bins(rows), self.steps.raw_scores(rows)
        for (a, b), values in self.pairs.items():
            out += values[bins[a], bins[b]]
        return out

    def bins(self, rows: AnyArray) -> dict[int, IntArray]:
        """Bin of each row in each feature of a pair, the last one for missing values."""
        places = {f: int(np.searchsorted(self.steps.features, f)) for f in sum(self.pairs, ())}
        return {feature: self.steps.bins(u, rows) for feature, u in places.items()}

    def purified(self) -> Self:
        """Move the mean effect of each feature of a pair to the function of that feature.

        All bins between thresholds count alike, and missing values do not.  Each row and each
        column of a pair then has the mean 0 (Lengerich et al., AISTATS 2020), so the functions
        are unique.
        """
        values, missing = self.steps.values.copy(), self.steps.missing.copy()
        bias, pairs = self.steps.bias.copy(), {}
        for (a, b), table in self.pairs.items():
            of_a = table[:, :-1].mean(axis=1)
            of_b = table[:-1].mean(axis=0)
            mean = of_a[:-1].mean(axis=0)
            pairs[a, b] = table - of_a[:, None] - of_b[None] + mean
            bias += mean
            for feature, effect in ((a, of_a - mean), (b, of_b - mean)):
                u = int(np.searchsorted(self.steps.features, feature))
                begin, end = self.steps.indptr[u : u + 2]
                values[begin + u : end + u + 1] += effect[:-1]
                missing[u] += effect[-1]
        steps = replace(self.steps, bias=bias, values=values, missing=missing)
        return replace(self, steps=steps, pairs=pairs)


def _tables(trees: WeightedTrees, n_features: int) -> tuple[LookupTable, dict[Pair, FloatArray]]:
    """Add up trees of at most two levels over the bins of their features, and of pairs of these."""
    is_split, feature_of, sets = np.isfinite(trees.threshold), trees.feature.copy(), trees.sets
    # Thresholds of each feature, then a value of each bin and a missing one.
    thresholds = {
        f: np.unique(trees.threshold[is_split & (feature_of == f)])
        for f in np.unique(feature_of[is_split & (feature_of < n_features)]).tolist()
    }
    values = {f: np.append(of_bins, (np.inf, np.nan)) for f, of_bins in thresholds.items()}
    if sets is not None:
        by_set = feature_of >= n_features
        feature_of[by_set] = sets.feature[feature_of[by_set] - n_features]
        for f in np.unique(sets.feature).tolist():
            # The last bin of categories has all that no set knows, as if they were missing.
            outside = sets.outside[sets.feature == f]
            differs = (outside[:, :-1] != outside[:, -1:]).any(axis=0)
            n_known = int(differs.nonzero()[0].max(initial=-1)) + 1
            thresholds[f] = np.arange(n_known) + HALF
            values[f] = np.append(np.arange(n_known + 1.0), np.nan)
    halves: dict[tuple[int, ...], list[tuple[int, int]]] = {(): []}
    for t, (root, *children) in enumerate(np.where(is_split, feature_of, -1).tolist()):
        for half, child in enumerate(children or [root]):
            halves.setdefault(tuple(sorted({root, child} - {-1})), []).append((t, half))
    sums = {}
    for key, of_key in halves.items():
        grid = np.array([*product(*(values[f] for f in key))])
        rows = np.zeros((len(grid), n_features))
        rows[:, key] = grid
        shape = *(len(values[f]) for f in key), trees.n_channels
        sums[key] = _sums_of_halves(trees, of_key, rows).reshape(shape)
    features, n_channels = sorted(thresholds), trees.n_channels
    singles = [sums.get((f,), np.zeros((len(values[f]), n_channels))) for f in features]
    nothing = np.zeros((0, n_channels))
    steps = LookupTable(
        sums[()],
        np.array(features, np.int64),
        np.concatenate([np.zeros(0), *(thresholds[f] for f in features)]),
        np.cumsum([0, *(len(thresholds[f]) for f in features)], dtype=np.int64),
        np.concatenate([nothing, *(of_feature[:-1] for of_feature in singles)]),
        n_features,
        np.concatenate([nothing, *(of_feature[-1:] for of_feature in singles)]),
    )
    return steps, {(k[0], k[1]): sums[k] for k in sorted(sums) if len(k) == 2}


def _sums_of_halves(
    trees: WeightedTrees, halves: Sequence[tuple[int, int]], rows: FloatArray
) -> FloatArray:
    """Scores of rows by the leaves of one child of each tree."""
    at, half = np.array(halves, np.int64).reshape(-1, 2).T
    terms = [np.arange(*trees.indptr[t : t + 2]) for t in at.tolist()]
    sizes, places = [len(of_tree) for of_tree in terms], np.concatenate([at[:0], *terms])
    is_here = np.arange(trees.values.shape[1]) // 2 == np.repeat(half, sizes)[:, None]
    return WeightedTrees(
        trees.feature[at], trees.threshold[at], trees.missing_left[at], np.cumsum([0, *sizes]),
        trees.channels[places], trees.values[places] * is_here, trees.n_channels, trees.sets,
    ).raw_scores(rows)  # fmt: skip
