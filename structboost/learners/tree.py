"""Trees of given depth as weak learners, grown greedily on binned features.

Rows may be drawn for each round, as in stochastic boosting (Friedman, 2002).  Where responses must
rise or fall with some features, two leaves are compared where a point of one lies above a point of
the other: in features with a direction it may lie further in that direction, and in all others the
points are equal.  The responses keep the directions if and only if no leaf is above one that must
not be below it.  The best such responses are a maximum closure (Picard, Management Science 1976).
It is a level set of the isotonic regression of the weights.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls
from sklearn.utils import check_random_state

from structboost._typing import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    LeafArray,
    Range,
    SignArray,
    WordArray,
    override,
)
from structboost.files.archive import DamagedFileError, whole_number
from structboost.learners.base import Candidate, Growth, WeakLearnerFamily, response_type
from structboost.learners.binning import (
    BY_SET,
    HALF,
    MAX_BINS,
    N_WORDS,
    BinnedFeatures,
    Thresholds,
    bin_features,
    for_all_categories,
    is_in_set,
    numbers_of,
    words_of,
)
from structboost.learners.histogram import counted_table
from structboost.learners.tree_growth import (
    SURE,
    confident_leaves,
    fill_leaf_indices,
    grow,
    sum_leaves,
    work_arrays,
)
from structboost.learners.tree_table import TreeTable
from structboost.runtime.compiled import compiled
from structboost.validation import (
    checked_flag,
    checked_fraction,
    checked_not_negative,
    checked_number,
    checked_random_state,
    checked_whole_number,
    shown,
)

# Answers between -1 and 1 that differ by less are equal.
_ROUNDING = 1e-9
# A bin behind all others.
_ENDLESS = 1 << 62

# Features, bins and sets of the nodes of trees, shape (n_trees, n_nodes) each.
Nodes = tuple[IntArray, IntArray, WordArray | None]


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

    def __init__(self, bins: Thresholds, of_features: SignArray) -> None:
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
    sets: WordArray,
    feature_of: IntArray,
    low: BoolArray,
    missing: IntArray,
    directions: SignArray,
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
        # What is missing has no place in the order, nor has a category that training does not know.
        n_ordered = n if directions[feature] != 0 else 0
        if missing[feature] >= 0:
            values[n], values[n + 1] = missing[feature], _ENDLESS
            n += 1 + by_set
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


# Fewer distinct rows are not drawn from: a round might draw none, or none that differ.
_FEWEST_DRAWN_FROM = 50

# Flags of the rows of a round, or None for all, and the seed of its features.
Draw = tuple[BoolArray | None, int]


def _draws(
    binned: BinnedFeatures, fraction: float, random_state: Any, *, needs_seeds: bool
) -> Iterator[Draw]:
    """Draw the rows that the trees of each round are grown on, and a seed for their features.

    Rows of equal features are drawn together, and the draw does not depend on their order.
    ``fraction`` is 1 for all rows, and the seed is 0 unless ``needs_seeds``.
    """
    random = check_random_state(random_state)
    while True:
        is_drawn = None
        if fraction < 1 and binned.distinct_rows[1] >= _FEWEST_DRAWN_FROM:
            groups, n_distinct = binned.distinct_rows
            is_drawn = (random.random_sample(n_distinct) < fraction).take(groups)
        yield is_drawn, int(random.randint(1 << 31)) if needs_seeds else 0


# Fraction of the rows for trees that share the weight with many others.
_ROW_FRACTION = 0.5
# Rounds whose rows are drawn ahead have so many rows at most.
_MOST_AHEAD = 1 << 22


class Tree(NamedTuple):
    """Complete binary tree.

    Node k sends ``features[k] <= thresholds[k]`` to node 2k + 1, all else to node 2k + 2, where the
    features are the columns of the bins (:class:`structboost.learners.binning.Thresholds`).  A node
    that does not split has an infinite threshold.  ``leaves`` run from left to right.  A
    node with a set, bins of a categorical feature as bits of a number, sends those left.
    """

    features: tuple[int, ...]
    thresholds: tuple[float, ...]
    leaves: tuple[float, ...]
    bins: tuple[int, ...]
    sets: tuple[int, ...] = ()


class TreeFamily(WeakLearnerFamily):
    """Family of trees of fixed depth, grown greedily.

    Each split minimises the weighted Gini impurity; each leaf takes the sign of its weight.  A tree
    of larger edge may exist, so nothing is certified.

    Parameters
    ----------
    features : ndarray or sparse array, shape (n_parts, n_features)
        Features of the training parts.  Bins of sparse ones are dense, a byte each as a rule.
    response : (float, float)
        The two responses.
    depth : int
        Number of splits from the root to a leaf.
    exact : bool
        Whether all distinct thresholds are tried, or 255 quantiles of each feature.
    row_fraction : float, optional
        If below 1, the fraction of the rows that a round's trees are grown on, each row drawn anew:
        stochastic boosting (Friedman, 2002).  Rows of equal features are drawn together, and the
        draw does not depend on the order of the rows: a row twice is a row of twice the weight.
        If fewer than 50 rows are distinct, all are taken.
        None means one half if the master has a ridge, and all rows otherwise.
    random_state : int, RandomState or None
        Seed for the rows that are drawn.  Only a run whose seed is a number can be resumed.
    categorical : sequence of int
        Features that hold numbers of categories, from 0 to 254: nodes send a set of them left.
    directions : sequence of int, optional
        For each feature 1 (the response must not fall where it grows), -1 (it must not rise) or 0
        (unconstrained).  Missing values are unconstrained.
    confident : bool
        Whether a leaf has a confident response, as in Gentle AdaBoost (Friedman, Hastie and
        Tibshirani, 2000): 127 times its weight over its absolute weight, to which that of an
        average row is added, as an integer.  Rows of equal features count as one.  The responses
        must be -1 and 1.
    min_samples_leaf : int
        Least number of rows in a leaf, counting drawn rows whose dual is not 0.
    l2_regularization : float
        Number of rows of average absolute weight, half of them for either sign, that are added to
        each side of a split and to each confident leaf.  Small leaves then have smaller responses,
        and a split must gain more.  HistGradientBoosting adds its ``l2_regularization`` to the sum
        of the hessians in the same places.  Duals have no hessians and shrink during training, so
        the absolute weight of a leaf replaces that sum, in units of the average row of the round.
    max_features : float
        Fraction of the features, above 0 and at most 1, that a node may split, drawn anew for each
        node from ``random_state``; at least one feature.
    category_penalty : float
        Number of mean row weights of the node that a split by a set must gain more for each further
        category, from the third on.  1 is what useless categories gain on average.
    binning : callable
        Bins a table as :func:`structboost.learners.binning.bin_features` does, such as
        :class:`structboost.learners.binning.BinsOfOneTable` for families of one table.
    """

    name = "tree"
    exact_pricing = False
    can_resume = True
    takes_missing = True
    takes_sparse = True
    reads_bins = True
    # Without it few trees get all of the weight (docs/decisions.md).
    ridge = 1.0
    # Most bins of a feature of numbers, unless ``exact``.
    max_bins = MAX_BINS

    def __init__(
        self,
        features: Any,
        response: Range,
        *,
        depth: int = 3,
        exact: bool | None = None,
        row_fraction: float | None = None,
        random_state: Any = None,
        categorical: Sequence[int] = (),
        directions: Sequence[int] | None = None,
        confident: bool = False,
        min_samples_leaf: int = 1,
        l2_regularization: float = 0.0,
        max_features: float = 1.0,
        category_penalty: float = 1.0,
        binning: Callable[..., BinnedFeatures] = bin_features,
    ) -> None:
        self.min_samples_leaf = checked_whole_number(min_samples_leaf, "min_samples_leaf")
        self.l2_regularization = checked_not_negative(l2_regularization, "l2_regularization")
        self.category_penalty = float(checked_not_negative(category_penalty, "category_penalty"))
        self.max_features = checked_number(max_features, "max_features", "a fraction, such as 0.5")
        if not 0 < self.max_features <= 1:
            raise ValueError(
                f"max_features is {shown(max_features)}; give a fraction of the features, above 0 "
                "and at most 1, such as 0.5."
            )
        checked_random_state(random_state)
        checked_flag(confident, "confident")
        self._is_left_open = row_fraction is None
        if row_fraction is None or row_fraction == 1:
            row_fraction = 1.0
        else:
            row_fraction = checked_fraction(row_fraction, "row_fraction")
        self.binned = binning(
            features, exact=bool(exact), categorical=categorical, max_bins=self.max_bins
        )
        self._restart(row_fraction, random_state)
        self._is_category = np.isin(self.binned.bins.feature, categorical)
        of_features = np.zeros(features.shape[1], np.int8)
        if directions is not None:
            of_features = np.array(directions, np.int8)
        if of_features[np.asarray(categorical, np.int64)].any():
            raise ValueError("directions has one of a categorical feature; give 0 for it.")
        self._directions = Directions(self.binned.bins, of_features)
        self.n_features = self.binned.bins.n_features
        self.low, self.high = response
        self.confident = confident
        if confident and tuple(response) != (-1, 1):
            raise ValueError(
                "confident is True, which needs the responses -1 and 1; set confident=False."
            )
        self.depth = checked_whole_number(depth, "depth", 12)
        self._n_bins = self.binned.bins.n_bins
        # Words of the set of a node.
        self._n_words = N_WORDS if self._is_category.any() else 0
        # After the thresholds of all features that of a node that does not split.
        self._values = np.append(self.binned.bins.values, np.inf)
        # Rows that the trees of this round were not grown on, and the leaves that the others give
        # them, by tree and channel.
        self._left_out: BoolArray | None = None
        self._drawn_leaves: dict[tuple[Tree, int], FloatArray] = {}

    def _restart(self, row_fraction: float, random_state: Any) -> None:
        """Draw this fraction of the rows from now on."""
        self.row_fraction, self._seed = row_fraction, random_state
        needs_seeds = self.max_features < 1
        self._draws = _draws(self.binned, row_fraction, random_state, needs_seeds=needs_seeds)
        # Rounds that are drawn ahead.
        self._ahead: deque[Draw] = deque()
        # A checkpoint does not store the state of a generator that others use as well.
        self.can_resume = isinstance(random_state, Integral) or not (
            row_fraction < 1 or needs_seeds
        )

    def _next_round(self) -> Draw:
        """Take the first round that was drawn ahead, or draw one."""
        return self._ahead.popleft() if self._ahead else next(self._draws)

    @cached_property
    def _all_rows(self) -> BoolArray:
        return np.ones(self.binned.n_rows, np.bool_)

    @property
    @override
    def identity(self) -> str:
        fraction, seed = self.row_fraction, self._seed
        drawn = f"rows {fraction} by {seed}" if fraction < 1 else "all rows"
        sides = f"{self._is_category.nonzero()[0].tolist()} {self._directions.of_columns.tolist()}"
        limits = f"{self.min_samples_leaf} {self.l2_regularization}"
        if self._n_words:
            limits += f" {self.category_penalty}"
        if self.max_features < 1:
            limits += f" {self.max_features} by {seed}"
        return f"{self.name} of depth {self.depth}, {drawn}, {self.confident}, {sides}, {limits}"

    @override
    def resample(self, rng: Any) -> None:
        if self._is_left_open:
            self._restart(_ROW_FRACTION, 0 if rng is None else rng)

    @override
    def skip_rounds(self, n_rounds: int) -> None:
        for _ in range(n_rounds):
            self._next_round()

    @cached_property
    def _setup(self) -> tuple[Any, ...]:
        """Arguments of :func:`grow` that no round changes, as in :class:`Growth`."""
        table, ridge = counted_table(self.binned, self.row_fraction), self.l2_regularization
        of_columns = self.binned.bins.feature
        n_drawn = math.ceil(self.max_features * self.n_features)
        return (
            tuple(table),
            (self._is_category, self._directions.of_columns),
            work_arrays(self.depth, table),
            (
                self.min_samples_leaf,
                float(ridge and ridge / self.binned.distinct_rows[1]),
                self.category_penalty,
            ),
            (n_drawn, of_columns, np.ones(len(of_columns), np.bool_)),
            None if self.min_samples_leaf == 1 else np.empty(self._n_bins.max(initial=1), np.int64),
        )

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        """Grow one tree per channel, best first.

        Edges are computed on all rows, or estimated from the drawn rows.
        """
        duals = np.ascontiguousarray(duals.T, np.float64)
        is_drawn, seed = self._next_round()
        self._left_out = None if is_drawn is None else ~is_drawn
        n_channels = len(duals)
        features, bins = np.empty((2, n_channels, 2**self.depth - 1), np.int64)
        sets = np.zeros((*bins.shape, self._n_words), np.uint64) if self._n_words else None
        rows = self._all_rows if is_drawn is None else is_drawn
        table, columns, room, limits, draw, counts = self._setup
        nodes = features, bins, sets
        grow(
            table, columns, duals, rows, room, nodes[:2], sets, counts, limits, (seed, *draw)
        )  # fmt: skip
        leaf_indices = np.empty((n_channels, self.binned.n_rows), np.int16)
        fill_leaf_indices(self.binned.codes, features, bins, sets, leaf_indices)
        leaves, weights, of_drawn = self._new_leaves(nodes, leaf_indices, duals, is_drawn)
        edges = (leaves * weights).sum(axis=1)
        trees = self._trees(nodes, leaves)
        self._drawn_leaves = {(tree, c): of_drawn[c] for c, tree in enumerate(trees)}
        return _by_edge(trees, edges.tolist())

    @override
    def growth(self, n_rounds: int, n_channels: int) -> Growth | None:
        if not self.confident or self._directions.any:
            return None
        n_rounds = max(1, min(n_rounds, _MOST_AHEAD // max(1, self.binned.n_rows)))
        while len(self._ahead) < n_rounds:
            self._ahead.append(next(self._draws))
        drawn, seeds = zip(*islice(self._ahead, n_rounds), strict=True)
        rows = [self._all_rows if is_drawn is None else is_drawn for is_drawn in drawn]
        n_leaves = 2**self.depth
        nodes = np.empty((2, n_rounds, n_channels, n_leaves - 1), np.int64)
        of_sets = n_rounds * n_channels, n_leaves - 1, self._n_words
        return Growth(
            self._setup,
            np.array(rows),
            np.array(seeds),
            (*nodes, np.empty((n_rounds, 2, n_channels, n_leaves))),
            np.zeros(of_sets, np.uint64) if self._n_words else None,
            np.empty((n_rounds, 4, n_channels, n_leaves)),
            np.empty((n_channels, self.binned.n_rows), np.int16),
            self._fractions,
        )

    @override
    def grown(self, growth: Growth, n_rounds: int) -> list[list[Candidate]]:
        features, bins, responses = growth.trees
        leaves = responses[:n_rounds, 0]
        edges = (leaves * growth.sums[:n_rounds, 0]).sum(axis=2)
        n_channels = edges.shape[1]
        sets = None if growth.sets is None else growth.sets[: n_rounds * n_channels]
        nodes = np.concatenate(features[:n_rounds]), np.concatenate(bins[:n_rounds]), sets
        trees = iter(self._trees(nodes, np.concatenate(leaves)))
        return [_by_edge(islice(trees, n_channels), of_round) for of_round in edges.tolist()]

    @override
    def left_out(self) -> BoolArray | None:
        return self._left_out

    @override
    def held_out_response(self, learner: Tree, channel: int) -> FloatArray | None:
        leaves = self._drawn_leaves.get((learner, channel))
        if self._left_out is None or leaves is None:
            return None
        return np.where(self._left_out, leaves[self.leaf_indices(learner)], 0.0)

    @override
    def refine(self, learner: Tree, duals: FloatArray) -> list[Candidate]:
        at = self.leaf_indices(learner)
        weights: FloatArray = np.stack(
            [np.bincount(at, weights=d, minlength=len(learner.leaves)) for d in duals.T]
        )
        leaves = self._best_leaves(self._nodes([learner] * len(weights)), weights)
        edges = (weights * leaves).sum(axis=1)
        return [
            Candidate(learner._replace(leaves=tuple(leaves[c].tolist())), c, float(edges[c]))
            for c in range(duals.shape[1])
        ]

    @override
    def responses(self, learners: Sequence[Tree]) -> AnyArray:
        leaf_indices = self._leaf_indices(learners)
        leaves = np.array([t.leaves for t in learners], response_type(self.low, self.high))
        out = np.empty((len(learners), self.binned.n_rows), leaves.dtype)
        for row, leaf, at in zip(out, leaves, leaf_indices, strict=True):
            np.take(leaf, at, out=row)
        return out

    @override
    def table(self, learners: Sequence[Tree]) -> TreeTable:
        columns, bins, sets = self._nodes(learners)
        leaf = np.array([t.leaves for t in learners], np.float64).reshape(-1, 2**self.depth)
        low = self.binned.bins.is_low[columns]
        if sets is not None:
            by_set = bins == BY_SET
            n_bins = self._n_bins[columns[by_set]]
            sets[by_set], low[by_set] = for_all_categories(sets[by_set], n_bins)
        sides = low.astype(np.uint8) if low.any() else None
        feature = self.binned.bins.feature[columns]
        return TreeTable(feature, self._thresholds(columns, bins), leaf, sides, sets)

    @override
    def restored(self, values: Sequence[Any]) -> Tree:
        tree = Tree(*(tuple(field) for field in values))
        n_nodes = 2**self.depth - 1
        n_sets = n_nodes if self._n_words else 0
        if [len(field) for field in tree] != [n_nodes, n_nodes, n_nodes + 1, n_nodes, n_sets]:
            raise DamagedFileError("a tree is of another depth")
        for node in range(n_sets):
            by_set = tree.bins[node] == BY_SET
            whole_number(tree.sets[node], "set", int(by_set), by_set and 2 ** (64 * N_WORDS) - 1)
        for feature, bin_ in zip(tree.features, tree.bins, strict=True):
            whole_number(feature, "feature", 0, len(self._n_bins) - 1)
            if bin_ != BY_SET or not self._is_category[feature]:
                whole_number(bin_, "bin", -1, int(self._n_bins[feature]) - 2)
        thresholds = self._thresholds(np.array(tree.features), np.array(tree.bins))
        allowed = range(-SURE, SURE + 1) if self.confident else (self.low, self.high)
        if list(tree.thresholds) != thresholds.tolist() or not set(tree.leaves) <= set(allowed):
            raise DamagedFileError("a tree is none of these features")
        return tree

    def _thresholds(self, features: IntArray, bins: IntArray) -> FloatArray:
        """Thresholds of nodes, infinite at nodes that do not split."""
        places = np.where(bins >= 0, self.binned.bins.indptr[features] + bins, -1)
        thresholds = self._values[places]
        if self._n_words:
            thresholds[bins == BY_SET] = HALF
        return thresholds

    def _nodes(self, learners: Sequence[Tree]) -> Nodes:
        """Features, bins and words of the sets of trees, or None for these without categories."""
        n_nodes = 2**self.depth - 1
        features = np.array([t.features for t in learners], np.int64).reshape(-1, n_nodes)
        bins = np.array([t.bins for t in learners], np.int64).reshape(-1, n_nodes)
        if not self._n_words:
            return features, bins, None
        words = np.zeros((*bins.shape, N_WORDS), np.uint64)
        words[bins == BY_SET] = words_of(members for t in learners for members in t.sets if members)
        return features, bins, words

    @property
    def _fractions(self) -> tuple[float, float]:
        """Fractions of the mass of a tree that are added to that of a confident leaf."""
        fraction = (1.0 + self.l2_regularization) / self.binned.distinct_rows[1]
        return fraction, fraction / self.row_fraction

    def _new_leaves(
        self, nodes: Nodes, leaf_indices: LeafArray, duals: FloatArray, is_drawn: BoolArray | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Leaves of new trees, sums of the duals, and the leaves as only the drawn rows fill them.

        Sums of trees that are not confident are estimated from the drawn rows.
        """
        rows = self._all_rows if is_drawn is None else is_drawn
        if is_drawn is not None and not self.confident:
            duals = np.where(is_drawn, duals / self.row_fraction, 0.0)
        sums = np.empty((4, len(leaf_indices), 2**self.depth))
        sum_leaves(leaf_indices, duals, rows, sums)
        if not self.confident:
            leaves = self._best_leaves(nodes, sums[0])
            return leaves, sums[0], leaves
        leaves, of_drawn = responses = np.empty((2, *sums.shape[1:]))
        confident_leaves(sums, self._fractions, responses)
        if self._directions.any:
            leaves = self._directions.nearest_leaves(nodes, leaves, sums[1])
        return np.rint(SURE * leaves), sums[0], of_drawn

    def _best_leaves(self, nodes: Nodes, weights: FloatArray) -> FloatArray:
        """Find the leaves of largest edge, either response each, shape (n_trees, n_leaves)."""
        if self._directions.any:
            return self._directions.best_leaves(nodes, weights, (self.low, self.high))
        return np.where(weights > 0, self.high, self.low)

    def _trees(self, nodes: Nodes, leaves: FloatArray) -> list[Tree]:
        """Make trees of their nodes and leaves, each tree in a row."""
        features, bins, sets = nodes
        fields = [features, self._thresholds(features, bins), leaves, bins]
        if sets is not None:
            members, by_set = np.zeros(bins.shape, object), bins == BY_SET
            members[by_set] = numbers_of(sets[by_set])
            fields.append(members)
        return list(map(Tree, *(map(tuple, field.tolist()) for field in fields)))

    def leaf_indices(self, tree: Tree) -> LeafArray:
        """Leaf of every training part, counted from the left, shape (n_parts,)."""
        return np.asarray(self._leaf_indices([tree])[0])

    def _leaf_indices(self, learners: Sequence[Tree]) -> LeafArray:
        out = np.empty((len(learners), self.binned.n_rows), np.int16)
        fill_leaf_indices(self.binned.codes, *self._nodes(learners), out)
        return out


def _by_edge(trees: Iterable[Tree], edges: Sequence[float]) -> list[Candidate]:
    """Return the trees of the channels as candidates, best first."""
    candidates = map(Candidate, trees, range(len(edges)), edges)
    return sorted(candidates, key=lambda candidate: -candidate.edge)
