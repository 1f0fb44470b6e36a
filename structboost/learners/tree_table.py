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
from structboost.learners.binning import HALF, N_WORDS, category_of, flags_of, is_in_set
from structboost.learners.table import LookupTable, ScoredTable, Scorer, comparable
from structboost.runtime.compiled import compiled

_BLOCK_ROWS = 64
# Fewer rows walk down from the root.
_FEWEST_IN_BLOCK = 6
# Levels whose nodes are compared with all rows: seven nodes, as many bits.
_TOP_LEVELS = 3
# Side of a node that splits by a set, whose last bit is that of missing values.
OF_SET = 2


@dataclass(frozen=True)
class TreeTable(ScoredTable):
    """Table of trees of one depth.

    ``missing_left`` is whether a node sends a missing feature (NaN) left.  None means always
    right.  ``sets`` are bits of the categories that a node sends left, 0 if it splits at its
    threshold.  The last bit is that of missing values.
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
        sides = np.isposinf(self.threshold).astype(np.uint8)
        if self.missing_left is not None:
            sides |= self.missing_left
        if self.sets is not None:
            sides[self.sets.any(axis=2)] = OF_SET
        used = np.flatnonzero(weights.any(axis=1))
        rows, channels = np.nonzero(weights[used])
        values = weights[used[rows], channels][:, None] * self.leaf[used[rows]]
        ends = np.searchsorted(rows, np.arange(len(used) + 1)).astype(np.int64)
        nodes = self.feature[used], self.threshold[used], sides[used]
        sets = np.zeros((0, 0, N_WORDS), np.uint64) if self.sets is None else self.sets[used]
        return WeightedTrees(*nodes, ends, channels, values, weights.shape[1], sets)


@dataclass(frozen=True)
class WeightedTrees:
    """Trees whose leaves hold their contributions to the scores.

    Parameters
    ----------
    feature, threshold : ndarray, shape (n_trees, n_nodes)
        As in :class:`TreeTable`.
    side : ndarray of uint8, shape (n_trees, n_nodes)
        Where a node sends a missing feature: 0 is right, 1 left, and 2 by its set.
    indptr : ndarray of int64, shape (n_trees + 1,)
        Terms of tree t are ``indptr[t]:indptr[t + 1]``.
    channels : ndarray of int64, shape (n_terms,)
    values : ndarray of float64, shape (n_terms, n_leaves)
    n_channels : int
    sets : ndarray of uint64, shape (n_trees, n_nodes, N_WORDS)
        As in :class:`TreeTable`.  There are no trees in it if none has a set.
    """

    feature: IntArray
    threshold: FloatArray
    side: ByteArray
    indptr: IntArray
    channels: IntArray
    values: FloatArray
    n_channels: int
    sets: WordArray

    def raw_scores(self, rows: AnyArray) -> FloatArray:
        """Scores of checked rows, shape (n_parts, n_channels)."""
        out = np.zeros((len(rows), self.n_channels))
        rows = comparable(rows)
        used, side, place = self._used_features
        is_double = rows.dtype == np.float64
        thresholds = self.threshold if is_double else self._single_thresholds
        room = (
            np.empty((len(used), _BLOCK_ROWS), thresholds.dtype),
            np.zeros((len(used), _BLOCK_ROWS), np.int64),
            np.zeros(_BLOCK_ROWS, np.uint8),
            np.zeros(_BLOCK_ROWS, np.int64),
            np.zeros((self.n_channels, _BLOCK_ROWS)),
        )
        trees = place, thresholds, self.sets, self.indptr, self.channels, self.values
        top = self._top if len(rows) >= _FEWEST_IN_BLOCK else (0, np.zeros(1, np.int64))
        _add_in_blocks(rows, (used, side), trees, *top, room, out)
        return out

    def is_left(self, t: int, rows: AnyArray) -> BoolArray:
        """Return whether each node of a tree sends rows left, shape (n_parts, n_nodes)."""
        n_nodes = self.feature.shape[1]
        feature, threshold = self.feature[t][:, None], self.threshold[t][:, None]
        ends, sets = np.arange(n_nodes + 1), self.sets[t : t + 1].reshape(-1, 1, N_WORDS)
        values = np.tile([1.0, 0.0], (n_nodes, 1))
        of_nodes = WeightedTrees(
            feature, threshold, self.side[t][:, None], ends, ends[:-1], values, n_nodes, sets
        )
        return np.asarray(of_nodes.raw_scores(rows) > 0)

    @cached_property
    def _used_features(self) -> tuple[IntArray, ByteArray, IntArray]:
        """Features of the nodes, with the side of missing values, and their index by node.

        A feature appears once for each side.
        """
        both = 3 * self.feature + self.side
        used, place = np.unique(both, return_inverse=True)
        side = (used % 3).astype(np.uint8)
        return used // 3, side, place.reshape(both.shape).astype(np.int64)

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
def _add_in_blocks(
    rows: AnyArray,
    features: tuple[IntArray, ByteArray],
    trees: tuple[IntArray, AnyArray, WordArray, IntArray, IntArray, FloatArray],
    n_top: int,
    node_after_top: IntArray,
    room: tuple[AnyArray, IntArray, ByteArray, IntArray, FloatArray],
    out: FloatArray,
) -> None:
    """Add up scores block by block.

    ``room`` has values, categories, outcomes of the top nodes, leaves and scores of the rows of a
    block.
    """
    used, side = features
    place, thresholds, sets, indptr, channels, values = trees
    block, codes, bits, leaf, sums = room
    n_nodes, width = place.shape[1], block.shape[1]
    for begin in range(0, len(rows), width):
        n = width if len(rows) - begin > width else len(rows) - begin
        for u in range(len(used)):
            of_missing = -np.inf if side[u] else np.inf
            for p in range(n):
                value = rows[begin + p, used[u]]
                block[u, p] = of_missing if math.isnan(value) else value
                if side[u] == OF_SET:
                    codes[u, p] = category_of(value)
        for c in range(out.shape[1]):
            for p in range(n):
                sums[c, p] = 0.0
        for t in range(len(place)):
            for p in range(n):
                bits[p] = 0
            for k in range(n_top):
                bit = np.uint8(1 << k)
                if side[place[t, k]] == OF_SET:
                    # A choice among four words is vectorised, a look-up is not.
                    code, members = codes[place[t, k]], sets[t, k]
                    first, second, third, fourth = members[0], members[1], members[2], members[3]
                    for p in range(n):
                        low = second if code[p] & 64 else first
                        high = fourth if code[p] & 64 else third
                        word = high if code[p] & 128 else low
                        is_right = ~word >> np.uint64(code[p] & 63) & np.uint64(1)
                        bits[p] |= np.uint8(is_right << np.uint64(k))
                    continue
                feature, threshold = block[place[t, k]], thresholds[t, k]
                if threshold == np.inf:
                    continue
                for p in range(n):
                    bits[p] |= bit if feature[p] > threshold else np.uint8(0)
            for p in range(n):
                leaf[p] = node_after_top[bits[p]] - n_nodes
            if n_top < n_nodes:
                for p in range(n):
                    k = leaf[p] + n_nodes
                    while k < n_nodes:
                        u = place[t, k]
                        is_left = block[u, p] <= thresholds[t, k]
                        if len(sets) and side[u] == OF_SET:
                            is_left = is_in_set(sets[t, k], codes[u, p])
                        k = 2 * k + 2 - is_left
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
    feature_of, is_split = trees.feature, np.isfinite(trees.threshold)
    by_set = trees.side == OF_SET
    # Thresholds of each feature, then a value of each bin and a missing one.
    thresholds = {
        f: np.unique(trees.threshold[is_split & (feature_of == f)])
        for f in np.unique(feature_of[is_split]).tolist()
    }
    values = {f: np.append(of_bins, (np.inf, np.nan)) for f, of_bins in thresholds.items()}
    for f in np.unique(feature_of[by_set]).tolist():
        # The last bin of categories has all that no set knows, as if they were missing.
        inside = flags_of(trees.sets[by_set & (feature_of == f)])
        differs = (inside != inside[:, -1:]).any(axis=0)
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
        trees.feature[at], trees.threshold[at], trees.side[at], np.cumsum([0, *sizes]),
        trees.channels[places], trees.values[places] * is_here, trees.n_channels,
        trees.sets[at if len(trees.sets) else at[:0]],
    ).raw_scores(rows)  # fmt: skip
