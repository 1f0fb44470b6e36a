"""Trees of two levels as weak learners, priced exactly.

A tree with a root and two children is a function of the features of the root and the left child
plus one of the root and the right child.  So a model of such trees is a sum of functions of pairs
of features (:mod:`structboost.learners.pair_tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.learners.base import ROUNDING, Candidate, best_first, ranked
from structboost.learners.category_sets import BY_SET, number_of_flags
from structboost.learners.pair_search import BY_SETS, best_children, stump_sizes
from structboost.learners.tree import Tree, TreeFamily

# Bins of a feature: with as many as stumps have, the search would take 64 times as long.
_MAX_BINS = 32
# A search of a part has one of so many columns in each pair.
_COLUMNS_OF_PART = 32
# Limits of the lists of pairs and of the histograms: some hundred megabytes.
_MOST_COLUMNS, _MOST_BINS = 4000, 4096


class _Child(NamedTuple):
    """Column of a child, its bin or its set of bins as bits, and its leaves."""

    column: int
    bin: int
    members: int
    leaves: tuple[float, float]


# Child and its edge.
_Priced = tuple[_Child, float]


class PairTreeFamily(TreeFamily):
    """Family of all trees of two levels on binned features, whose best is found exactly.

    Each leaf has either response.  The root splits a feature of numbers at a threshold and a
    categorical one into one category and all others; a child splits a categorical feature by any
    set.

    Parameters
    ----------
    features : ndarray or sparse array, shape (n_parts, n_features)
        Features of the training parts.  Bins of sparse ones are dense, a byte each as a rule.
    response : (float, float)
        The two responses.
    exact : bool or None
        Whether the family holds all distinct thresholds, or those of ``max_bins`` as by default.
    n_threads : int
        Ignored.
    max_bins : int
        Most bins of a feature of numbers, at most 256, unless ``exact``.
    categorical : sequence of int
        Features that hold numbers of categories, from 0 to 254.
    directions : sequence of int, optional
        For each feature 1 (the response must not fall where it grows), -1 (it must not rise) or 0
        (unconstrained).  A tree keeps them if no response falls where some of these features move
        in their directions and all others are equal.  Missing values are equal to each other only.
        The family has all trees that keep them.

    Raises
    ------
    ValueError
        If there are more than 4,000 columns, or a feature has more than 4,096 bins.

    Notes
    -----
    The depth-two routine of MurTree (Demirovic et al., JMLR 2022), for weights of either sign.
    """

    name = "pair_tree"
    exact_pricing = True
    ridge = 0.0

    def __init__(
        self,
        features: Any,
        response: tuple[float, float],
        *,
        exact: bool | None = None,
        n_threads: int = 1,
        max_bins: int = _MAX_BINS,
        categorical: Sequence[int] = (),
        directions: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            features, response, depth=2, exact=exact, n_threads=n_threads, row_fraction=1.0,
            categorical=categorical, directions=directions, max_bins=max_bins,
        )  # fmt: skip
        of_columns = np.sign(self._directions.of_columns)
        self._sides = np.where(self._is_category, BY_SETS, of_columns).astype(np.int8)
        self._is_apart = self.binned.bins.is_apart
        # Column of each feature whose last bin holds its missing values, or -1.
        self._column_apart = np.full(self.n_features, -1, np.int64)
        self._feature_of, apart = self.binned.bins.feature, np.flatnonzero(self._is_apart)
        self._column_apart[self._feature_of[apart]] = apart
        n_bins = self._n_bins
        _check_size(len(n_bins), int(n_bins.max(initial=1)))
        self._starts = np.append(0, np.cumsum(n_bins)).astype(np.int64)
        most = int(n_bins.max(initial=1))
        self._work = np.empty((2, most + 5, most))
        # Columns of one bin split nothing.
        splitting = np.flatnonzero(n_bins > 1)
        self._pairs = splitting[np.column_stack(np.triu_indices(len(splitting)))].astype(np.int64)
        self._is_part = False

    @property
    @override
    def identity(self) -> str:
        return f"{self.name} of {self.max_bins} bins, {self._sides.tolist()}"

    @property
    @override
    def searches_all(self) -> bool:
        return self.binned.bins.searches_all

    @override
    def part(self) -> Self | None:
        # Pairs of all columns and the 32 with the best stumps on a channel.
        if len(self._n_bins) <= 2 * _COLUMNS_OF_PART:
            return None
        part = copy(self)
        part._is_part, part.exact_pricing = True, False
        return part

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        candidates = []
        for channel in range(duals.shape[1]):
            of_channel = duals[:, channel]
            rows = np.flatnonzero(of_channel)
            codes = np.ascontiguousarray(self.binned.codes[:, rows])
            candidates += self._best_trees(codes, of_channel[rows], channel, per_channel)
        return best_first(candidates)

    def _best_trees(
        self, codes: NDArray[Any], duals: FloatArray, channel: int, per_channel: int
    ) -> list[Candidate]:
        """Best trees of a channel, each with another feature at its root."""
        starts, n_bins = self._starts, int(self._starts[-1])
        pairs = self._pairs if not self._is_part else self._pairs_of_part(codes, duals)
        sizes, children = np.full((3, n_bins), -np.inf), np.zeros((3, n_bins), np.int32)
        sides = self._sides, self._is_apart
        best_children(codes, duals, starts, *sides, pairs, self._work, sizes, children)
        of_cuts = sizes[:2].sum(axis=0)
        for column in np.flatnonzero(np.abs(self._sides) == 1).tolist():
            bins = slice(starts[column], starts[column + 1])
            of_cuts[bins] = self._directed_sizes(codes, duals, column, sizes[:, bins])
        # The last bin of numbers has nothing behind it.
        of_cuts[starts[1:][~self._is_category] - 1] = -np.inf
        columns = np.repeat(np.arange(len(self._n_bins)), self._n_bins)
        order = ranked(of_cuts)
        first = np.unique(self._feature_of[columns[order]], return_index=True)[1]
        trees = []
        for cut in order[np.sort(first)][:per_channel].tolist():
            if np.isfinite(of_cuts[cut]):
                column = int(columns[cut])
                bin_ = cut - int(starts[column])
                trees.append(self._tree(codes, duals, column, bin_, children[:, cut].tolist()))
        if not trees:
            trees = [self._tree(codes, duals, 0, -1, [0, 0, 0])]
        return [Candidate(tree, channel, edge) for tree, edge in trees]

    def _directed_sizes(
        self, codes: NDArray[Any], duals: FloatArray, column: int, sizes: FloatArray
    ) -> FloatArray:
        """Compute the sizes of the best trees of the cuts of a directed column, shape (n_bins,).

        All numbers of a side have one response, or both children split one column (third row of
        ``sizes``).  The last cut of a column with missing values apart is free.
        """
        below = np.cumsum(np.bincount(codes[column], duals, int(self._n_bins[column])))
        apart, missing = int(self._column_apart[self._feature_of[column]]), 0.0
        if apart >= 0:
            missing = float(duals[codes[apart] == self._n_bins[apart] - 1].sum())
        to_left, to_right = (0.0, missing) if self._is_apart[column] else (missing, 0.0)
        rises = int(self._sides[column])
        right = rises * (below[-1] - below - to_right) + abs(to_right)
        left = -rises * (below - to_left) + abs(to_left)
        of_cuts = np.maximum(np.maximum(sizes[0] + right, left + sizes[1]), sizes[2])
        if self._is_apart[column]:
            of_cuts[-2] = sizes[:2, -2].sum()
        return np.asarray(of_cuts)

    def _pairs_of_part(self, codes: NDArray[Any], duals: FloatArray) -> IntArray:
        """Pairs of columns with one of the best stumps in each."""
        sizes = np.empty(len(self._n_bins))
        stump_sizes(codes, duals, self._starts, self._sides, self._work[0, 0], sizes)
        is_chosen = np.zeros(len(sizes), np.bool_)
        is_chosen[np.argsort(-sizes, kind="stable")[:_COLUMNS_OF_PART]] = True
        first, second = self._pairs.T
        return np.asarray(self._pairs[is_chosen[first] | is_chosen[second]])

    def _tree(
        self,
        codes: NDArray[Any],
        duals: FloatArray,
        column: int,
        bin_: int,
        of_children: list[int],
    ) -> tuple[Tree, float]:
        """Tree with this cut of its root and these columns of its children, and its edge.

        The columns are those of the left and the right child, and of two children on one.
        """
        by_set = bool(self._is_category[column]) and bin_ >= 0
        goes_left = np.ones(len(duals), np.bool_)
        if bin_ >= 0:
            goes_left = codes[column] == bin_ if by_set else codes[column] <= bin_
        root = _Child(column, BY_SET if by_set else bin_, 1 << bin_ if by_set else 0, (0.0, 0.0))
        sides = goes_left, ~goes_left
        children = [
            self._best_split(codes[of_child, side], duals[side], of_child)
            for of_child, side in zip(of_children[:2], sides, strict=True)
        ]
        is_last = self._is_apart[column] and bin_ == self._n_bins[column] - 2
        if abs(self._sides[column]) == 1 and bin_ >= 0 and not is_last:
            children = self._directed_children(
                codes, duals, column, sides, children, of_children[2]
            )
        nodes = [root, *(child for child, _ in children)]
        features, bins = np.array([n.column for n in nodes]), np.array([n.bin for n in nodes])
        tree = Tree(
            tuple(features.tolist()),
            tuple(self._thresholds(features, bins).tolist()),
            tuple(leaf for node in nodes[1:] for leaf in node.leaves),
            tuple(bins.tolist()),
            tuple(node.members for node in nodes) if self._n_words else (),
        )
        return tree, sum(edge for _, edge in children)

    def _best_split(self, codes: NDArray[Any], duals: FloatArray, column: int) -> _Priced:
        """Best child of rows with these codes of a column, and its edge."""
        total, n_bins = float(duals.sum()), int(self._n_bins[column])
        side = self._sides[column]
        sums = np.bincount(codes, duals, n_bins).astype(np.float64)
        is_high = np.full(n_bins, total > ROUNDING * float(np.abs(duals).sum()))
        if side == BY_SETS:
            if sums.max() > 0 > sums.min():
                is_high = sums > 0
            return self._child(column, is_high, sums)
        below = np.cumsum(sums)[:-1]
        gains = np.array([2.0 * below - total, total - 2.0 * below])
        ordered = gains[:, :-1] if self._is_apart[column] else gains
        ordered[[side > 0, side < 0]] = -np.inf
        size = gains.max(initial=-np.inf)
        if size > (1 + ROUNDING) * abs(total):
            way, bin_ = np.argwhere(gains >= (1 - ROUNDING) * size)[0].tolist()
            is_high = (np.arange(n_bins) <= bin_) == (way == 0)
        return self._child(column, is_high, sums)

    def _directed_children(
        self,
        codes: NDArray[Any],
        duals: FloatArray,
        column: int,
        sides: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        free: list[_Priced],
        nested: int,
    ) -> list[_Priced]:
        """Best two children of a cut of a directed column, from the best ``free`` ones.

        ``sides`` are the rows on the left and on the right, and ``nested`` is the column that both
        children may split.
        """
        way, apart = int(self._sides[column]), int(self._column_apart[self._feature_of[column]])
        at, options = (apart if apart >= 0 else column), list[list[_Priced]]()
        for k, is_high in enumerate((False, True)):
            # One response to all numbers of this side, and the better one where they are missing.
            rows = sides[::way][k]
            counts = np.bincount(codes[at, rows], duals[rows], int(self._n_bins[at]))
            sums = counts.astype(np.float64)
            response = np.full(len(sums), is_high)
            if apart >= 0 and sums[-1] != 0:
                response[-1] = sums[-1] > 0
            children = free[::way]
            children[k] = self._child(at, response, sums)
            options.insert(0, children)
        options.append(self._nested(codes, duals, nested, *sides[::way]))
        return max(options, key=lambda children: children[0][1] + children[1][1])[::way]

    def _nested(
        self,
        codes: NDArray[Any],
        duals: FloatArray,
        column: int,
        low: NDArray[np.bool_],
        high: NDArray[np.bool_],
    ) -> list[_Priced]:
        """Best children on one column whose high bins on the ``low`` side are so on the other."""
        n_bins, side = int(self._n_bins[column]), int(self._sides[column])
        of_low, of_high = (
            np.bincount(codes[column, rows], duals[rows], n_bins).astype(np.float64)
            for rows in (low, high)
        )
        # Bins are high on neither side, on the high one, or on both.
        sums = np.array([np.zeros(n_bins), of_high, of_low + of_high])
        states = sums.argmax(axis=0)
        if side != BY_SETS:
            n = n_bins - int(self._is_apart[column])
            ways = [1, -1] if side == 0 else [side]
            rising = [_rising_states(of_low[:n][::way], of_high[:n][::way])[::way] for way in ways]
            states[:n] = max(rising, key=lambda of_bins: sums[of_bins, np.arange(n)].sum())
        return [self._child(column, states > 1, of_low), self._child(column, states > 0, of_high)]

    def _child(self, column: int, is_high: NDArray[np.bool_], sums: FloatArray) -> _Priced:
        """Child with these bins of high response, and its edge."""
        leaves = np.where(is_high, self.high, self.low)
        edge, last = float(leaves @ sums), len(is_high) - 1 - int(self._is_apart[column])
        first, of_last, of_missing = float(leaves[0]), float(leaves[last]), float(leaves[-1])
        if (is_high == is_high[0]).all():
            return _Child(column, -1, 0, (first, first)), edge
        if self._is_category[column]:
            return _Child(column, BY_SET, number_of_flags(is_high), (self.high, self.low)), edge
        bin_ = int((is_high[: last + 1] != is_high[last]).sum()) - 1
        if bin_ < 0:
            return _Child(column, last, 0, (first, of_missing)), edge
        # Where missing values do not go with the last numbers, the next column has them low.
        return _Child(column + (of_missing != of_last), bin_, 0, (first, of_last)), edge


def _rising_states(of_low: FloatArray, of_high: FloatArray) -> IntArray:
    """States of bins, which rise from 0 over 1 (adds ``of_high``) to 2 (adds both sums)."""
    after_low, after_high = (
        np.append(np.cumsum(sums[::-1])[::-1], 0.0) for sums in (of_low, of_high)
    )
    both = int((after_low + np.maximum.accumulate(after_high)).argmax())
    high = int(after_high[: both + 1].argmax())
    bins = np.arange(len(of_low))
    return (bins >= high).astype(np.int64) + (bins >= both)


def _check_size(n_columns: int, most_bins: int) -> None:
    """Raise ValueError where the search would take too much memory."""
    if n_columns > _MOST_COLUMNS:
        raise ValueError(
            f"weak_learner='pair_tree' searches pairs of columns, and there are {n_columns}; keep "
            f"at most {_MOST_COLUMNS} features, such as by sklearn.feature_selection.SelectKBest, "
            "or take weak_learner='stump' or 'tree'."
        )
    if most_bins > _MOST_BINS:
        raise ValueError(
            f"exact is True, which gives a feature {most_bins} bins, and trees of two levels take "
            f"at most {_MOST_BINS}; leave exact=False."
        )
