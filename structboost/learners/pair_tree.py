"""Trees of two levels as weak learners, priced exactly.

A tree with a root and two children is a function of the features of the root and the left child
plus one of the root and the right child.  So a model of such trees is a sum of functions of pairs
of features (:mod:`structboost.learners.tree_table`).

Kernels of the exact search for trees of two levels.

The edge of a tree whose leaves have the sums s of the duals is ``mid sum(s) + half sum(|s|)``, if
``mid`` and ``half`` are the mean of the two responses and half their difference.  So the best tree
has the largest sum of ``|s|``.  A child with the sum T, split into l and T - l, adds
``|l| + |T - l| = max(|T|, |2l - T|)``: the largest and the smallest l are all that is needed.  The
sums of all children of all cuts of a root are in the histogram over pairs of bins, added up along
both features (the depth-two routine of MurTree, Demirovic et al., JMLR 2022).  Where most rows are
in the first bin of a feature, as in pixels, only the others are visited.

A root may split a feature with a direction.  Then no response on its low side may pass one on its
high side where all other features are equal.  Either all numbers of one side have one response, or
both children split the same feature, and the set of high responses on the low side is within that
on the high side.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from structboost._typing import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    Range,
    ShortArray,
    SignArray,
    override,
)
from structboost.contract.parts import starts_of
from structboost.learners.base import ROUNDING, Candidate, best_first, ranked
from structboost.learners.binning import BY_SET, number_of_flags
from structboost.learners.tree import Tree, TreeFamily
from structboost.runtime.compiled import compiled

# Side of a column that is split by sets of categories.
BY_SETS = 2


@compiled
def best_children(
    codes: AnyArray,
    duals: FloatArray,
    starts: IntArray,
    sides: SignArray,
    is_apart: BoolArray,
    pairs: IntArray,
    room: FloatArray,
    sizes: FloatArray,
    children: ShortArray,
) -> None:
    """Raise ``sizes`` to those of the best children on either side of every cut.

    A cut of a number lies after a bin.  A cut of a category has this category on its left.

    Parameters
    ----------
    codes : ndarray, shape (n_columns, n_rows)
    duals : ndarray, shape (n_rows,)
    starts : ndarray of int64, shape (n_columns + 1,)
        First bin of each column, and the number of all bins.
    sides : ndarray of int8, shape (n_columns,)
        `BY_SETS` for columns that children split by any set of bins, and roots by one bin.  1 and
        -1 where the response must rise or fall with the column, otherwise 0.
    is_apart : ndarray of bool, shape (n_columns,)
        Columns whose last bin holds missing values.  They have no place in the order of a side.
    pairs : ndarray of int64, shape (n_pairs, 2)
        Pairs of columns to search, each in both orders.
    room : ndarray, shape (2, most bins + 5, most bins)
        Work space.
    sizes : ndarray, shape (3, n_bins)
        Sums of ``|s|`` of the left and the right child of each cut.  The third row has those of two
        children on one column that keep the side of the root, where it has one.
    children : ndarray of int32, shape (3, n_bins)
        Columns of these children.
    """
    ends, rows, margins = _rows_beside_first(codes, duals, starts)
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        n_a, n_b = starts[a + 1] - starts[a], starts[b + 1] - starts[b]
        by_a, by_b = room[0, :n_a, :n_b], room[1, :n_b, :n_a]
        for i in range(n_a):
            for j in range(n_b):
                by_a[i, j] = 0.0
        of_a, of_b = codes[a], codes[b]
        first_rows, other = rows[ends[a] : ends[a + 1]], rows[ends[b] : ends[b + 1]]
        if 2 * min(len(first_rows), len(other)) > len(duals) or a == b:
            for row in range(len(duals)):
                by_a[of_a[row], of_b[row]] += duals[row]
        elif len(other) <= len(first_rows):
            _fill_beside_first(by_a, of_a, of_b, other, duals, margins[starts[a] : starts[a + 1]])
        else:
            _fill_beside_first(
                by_a.T, of_b, of_a, first_rows, duals, margins[starts[b] : starts[b + 1]]
            )
        if sides[a] != BY_SETS:
            _add_up(by_a)
        for i in range(n_a):
            for j in range(n_b):
                by_b[j, i] = by_a[i, j]
        if sides[b] != BY_SETS:
            _add_up(by_b)
        for turn in range(1 if a == b else 2):
            root, child, sums = (a, b, by_b) if turn == 0 else (b, a, by_a)
            if turn == 1:
                for j in range(n_b):
                    for i in range(n_a):
                        by_a[i, j] = by_b[j, i]
            of_root, of_child = starts[root], (sides[child], is_apart[child])
            _raise_to_children(
                sums, room[0, -5:], sides[root] == BY_SETS, of_child, child, sizes[:, of_root:],
                children[:, of_root:],
            )  # fmt: skip
            if abs(sides[root]) == 1:
                _raise_to_nested(
                    sums, sides[root], of_child, child, sizes[2, of_root:], children[2, of_root:]
                )


@compiled
def _rows_beside_first(
    codes: AnyArray, duals: FloatArray, starts: IntArray
) -> tuple[IntArray, ShortArray, FloatArray]:
    """Return the rows outside the first bin of each column, and the sums of all bins."""
    n_columns, n_rows = codes.shape
    ends, margins = np.zeros(n_columns + 1, np.int64), np.zeros(starts[-1])
    rows = np.empty(n_columns * n_rows, np.int32)
    for f in range(n_columns):
        code, end = codes[f], ends[f]
        for row in range(n_rows):
            margins[starts[f] + code[row]] += duals[row]
            if code[row] > 0:
                rows[end] = row
                end += 1
        ends[f + 1] = end
    return ends, rows, margins


@compiled
def _fill_beside_first(
    sums: FloatArray,
    of_rows: AnyArray,
    of_columns: AnyArray,
    rows: ShortArray,
    duals: FloatArray,
    margins: FloatArray,
) -> None:
    """Add up the rows outside the first column of a histogram, and subtract for the first."""
    for row in rows:
        sums[of_rows[row], of_columns[row]] += duals[row]
    for i in range(len(margins)):
        sums[i, 0] = margins[i] - sums[i, 1:].sum()


@compiled
def _add_up(sums: FloatArray) -> None:
    """Add up each column from the first row on."""
    for i in range(1, len(sums)):
        for j in range(sums.shape[1]):
            sums[i, j] += sums[i - 1, j]


@compiled
def _raise_to_children(
    sums: FloatArray,
    work: FloatArray,
    root_is_category: bool,
    side_of_column: tuple[int, bool],
    column: int,
    sizes: FloatArray,
    children: ShortArray,
) -> None:
    """Raise the sizes of a root's cuts by children on ``column``.

    Row j of ``sums`` belongs to bin j of the child, column i to cut i of the root.
    """
    n_child, n_root = sums.shape
    side, is_apart = side_of_column
    left, left_low = work[0, :n_root], work[1, :n_root]
    right, right_low = work[2, :n_root], work[3, :n_root]
    for i in range(n_root):
        left[i] = left_low[i] = right[i] = right_low[i] = 0.0
    for j in range(n_child):
        of_bin = sums[j]
        total = of_bin[n_root - 1]
        if root_is_category:
            total = of_bin.sum()
        if side == BY_SETS:
            for i in range(n_root):
                left[i] += abs(of_bin[i])
                right[i] += abs(total - of_bin[i])
        else:
            for i in range(n_root):
                value, other = of_bin[i], total - of_bin[i]
                left[i] = max(left[i], value)
                left_low[i] = min(left_low[i], value)
                right[i] = max(right[i], other)
                right_low[i] = min(right_low[i], other)
    if side != BY_SETS:
        of_bin = sums[n_child - 1]
        total = of_bin.sum() if root_is_category else of_bin[n_root - 1]
        for i in range(n_root):
            value, other = of_bin[i], total - of_bin[i]
            # A child without a split is the cut before the first bin or after the last.
            rising, rising_right = value - 2.0 * left_low[i], other - 2.0 * right_low[i]
            falling, falling_right = 2.0 * left[i] - value, 2.0 * right[i] - other
            left[i], right[i] = abs(value), abs(other)
            if side >= 0:
                left[i], right[i] = max(left[i], rising), max(right[i], rising_right)
            if side <= 0:
                left[i], right[i] = max(left[i], falling), max(right[i], falling_right)
        if side != 0 and is_apart:
            # The last cut, which leaves only missing values to the right, is free.
            present = sums[n_child - 2]
            total_present = present.sum() if root_is_category else present[n_root - 1]
            for i in range(n_root):
                value, other = present[i], total_present - present[i]
                missing, other_missing = of_bin[i] - value, total - of_bin[i] - other
                left[i] = max(left[i], abs(value) + abs(missing))
                right[i] = max(right[i], abs(other) + abs(other_missing))
    for i in range(n_root):
        if left[i] > sizes[0, i] * (1.0 + ROUNDING):
            sizes[0, i], children[0, i] = left[i], column
        if right[i] > sizes[1, i] * (1.0 + ROUNDING):
            sizes[1, i], children[1, i] = right[i], column


@compiled
def _raise_to_nested(
    sums: FloatArray,
    side_of_root: int,
    side_of_column: tuple[int, bool],
    column: int,
    sizes: FloatArray,
    children: ShortArray,
) -> None:
    """Raise the sizes of the cuts of a root with a side by two children on ``column``.

    The bins of high responses on the low side of the root are among those on the high side.  So a
    bin is high on neither side, on the high one, or on both.  Along the order of the bins this
    state only rises, or only falls, and that of missing values is free.  ``sums`` are those of
    :func:`_raise_to_children`.
    """
    n_child, n_root = sums.shape
    side, is_apart = side_of_column
    n_ordered = n_child - 1 if is_apart else n_child
    for i in range(n_root - 1):
        # Best sums so far of bins in the state of both sides, of the high one, and of neither.
        rising_both, rising, falling_both, falling, after = 0.0, 0.0, 0.0, 0.0, 0.0
        free, whole, left_before, whole_before = 0.0, 0.0, 0.0, 0.0
        for j in range(n_child):
            left, of_both = sums[j, i] - left_before, sums[j, n_root - 1] - whole_before
            if side != BY_SETS:
                left_before, whole_before = sums[j, i], sums[j, n_root - 1]
            of_high = of_both - left if side_of_root > 0 else left
            whole += of_both
            if side == BY_SETS or j == n_ordered:
                free += max(0.0, of_high, of_both)
            else:
                rising_both = max(rising_both, rising, 0.0) + of_both
                rising = max(rising, 0.0) + of_high
                after = max(after, falling, falling_both)
                falling = max(falling, falling_both) + of_high
                falling_both += of_both
        best = 0.0
        if side != BY_SETS and side >= 0:
            best = max(best, rising_both, rising)
        if side != BY_SETS and side <= 0:
            best = max(best, falling_both, falling, after)
        size = 2.0 * (best + free) - whole
        if size > sizes[i]:
            sizes[i], children[i] = size, column


# A search of a part has one of so many columns in each pair.
_COLUMNS_OF_PART = 32
# The list of pairs of more columns would take a gigabyte.
_MOST_COLUMNS = 4000


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
        Features of the training parts, of which each has 32 bins at most.  Those of sparse ones are
        dense, a byte each as a rule.
    response : (float, float)
        The two responses.
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
        If there are more than 4,000 columns.

    Notes
    -----
    The depth-two routine of MurTree (Demirovic et al., JMLR 2022), for weights of either sign.
    """

    name = "pair_tree"
    exact_pricing = True
    ridge = 0.0
    # With as many bins as stumps have, the search would take 64 times as long.
    max_bins = 32

    def __init__(
        self,
        features: Any,
        response: Range,
        *,
        categorical: Sequence[int] = (),
        directions: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            features, response, depth=2, row_fraction=1.0, categorical=categorical,
            directions=directions,
        )  # fmt: skip
        of_columns = np.sign(self._directions.of_columns)
        self._sides = np.where(self._is_category, BY_SETS, of_columns).astype(np.int8)
        self._is_apart = self.binned.bins.is_apart
        # Column of each feature whose last bin holds its missing values, or -1.
        self._column_apart = np.full(self.n_features, -1, np.int64)
        self._feature_of, apart = self.binned.bins.feature, np.flatnonzero(self._is_apart)
        self._column_apart[self._feature_of[apart]] = apart
        n_bins = self._n_bins
        if len(n_bins) > _MOST_COLUMNS:
            raise ValueError(
                f"weak_learner='pair_tree' searches pairs of columns, and there are {len(n_bins)}; "
                f"keep at most {_MOST_COLUMNS} features, such as by "
                "sklearn.feature_selection.SelectKBest, or take weak_learner='stump' or 'tree'."
            )
        self._starts = starts_of(n_bins)
        most = int(n_bins.max(initial=1))
        self._work = np.empty((2, most + 5, most))
        # Columns of one bin split nothing.
        splitting = np.flatnonzero(n_bins > 1)
        self._pairs = splitting[np.column_stack(np.triu_indices(len(splitting)))].astype(np.int64)

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
        part.exact_pricing = False
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
        self, codes: AnyArray, duals: FloatArray, channel: int, per_channel: int
    ) -> list[Candidate]:
        """Best trees of a channel, each with another feature at its root."""
        starts, n_bins = self._starts, int(self._starts[-1])
        pairs = self._pairs if self.exact_pricing else self._pairs_of_part(codes, duals)
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
        self, codes: AnyArray, duals: FloatArray, column: int, sizes: FloatArray
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

    def _pairs_of_part(self, codes: AnyArray, duals: FloatArray) -> IntArray:
        """Pairs of columns with one of the best stumps in each."""
        sizes = np.empty(len(self._n_bins))
        for f, n in enumerate(self._n_bins.tolist()):
            sums = np.bincount(codes[f], duals, n)
            of_cuts = np.abs(2.0 * np.cumsum(sums) - sums.sum())
            sizes[f] = np.abs(sums).sum() if self._sides[f] == BY_SETS else of_cuts.max()
        is_chosen = np.zeros(len(sizes), np.bool_)
        is_chosen[np.argsort(-sizes, kind="stable")[:_COLUMNS_OF_PART]] = True
        first, second = self._pairs.T
        return np.asarray(self._pairs[is_chosen[first] | is_chosen[second]])

    def _tree(
        self, codes: AnyArray, duals: FloatArray, column: int, bin_: int, of_children: list[int]
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

    def _best_split(self, codes: AnyArray, duals: FloatArray, column: int) -> _Priced:
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
        codes: AnyArray,
        duals: FloatArray,
        column: int,
        sides: tuple[BoolArray, BoolArray],
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
        self, codes: AnyArray, duals: FloatArray, column: int, low: BoolArray, high: BoolArray
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

    def _child(self, column: int, is_high: BoolArray, sums: FloatArray) -> _Priced:
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
