"""Trees of two levels as weak learners, priced exactly.

A tree with a root and two children is a function of the features of the root and the left child
plus one of the root and the right child.  So a model of such trees is a sum of functions of pairs
of features (:mod:`structboost.learners.tree_table`).

The edge of a tree whose leaves have the sums s of the duals is ``mid sum(s) + half sum(|s|)``, if
``mid`` and ``half`` are the mean of the two responses and half their difference.  So the best tree
has the largest sum of ``|s|``.  A child with the sum T, split into l and T - l, adds
``|l| + |T - l| = max(|T|, |2l - T|)``: the largest and the smallest l are all that is needed.  The
sums of all children of all cuts of a root are in the histogram over pairs of bins, added up along
both features (the depth-two routine of MurTree, Demirovic et al., JMLR 2022).  Where most rows are
in the first bin of a feature, as in pixels, only the others are visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, ShortArray, override
from structboost.learners.base import ROUNDING, Candidate, best_first, ranked
from structboost.learners.tree import Tree, TreeFamily
from structboost.runtime.compiled import compiled


@compiled
def best_children(
    codes: AnyArray,
    duals: FloatArray,
    starts: IntArray,
    pairs: IntArray,
    room: FloatArray,
    sizes: FloatArray,
    children: ShortArray,
) -> None:
    """Raise ``sizes`` to those of the best children on either side of every cut, after a bin.

    Parameters
    ----------
    codes : ndarray, shape (n_columns, n_rows)
    duals : ndarray, shape (n_rows,)
    starts : ndarray of int64, shape (n_columns + 1,)
        First bin of each column, and the number of all bins.
    pairs : ndarray of int64, shape (n_pairs, 2)
        Pairs of columns to search, each in both orders.
    room : ndarray, shape (2, most bins + 4, most bins)
        Work space.
    sizes : ndarray, shape (2, n_bins)
        Sums of ``|s|`` of the left and the right child of each cut.
    children : ndarray of int32, shape (2, n_bins)
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
        _add_up(by_a)
        for i in range(n_a):
            for j in range(n_b):
                by_b[j, i] = by_a[i, j]
        _add_up(by_b)
        work, of_a, of_b = room[0, -4:], starts[a], starts[b]
        _raise_to_children(by_b, work, b, sizes[:, of_a:], children[:, of_a:])
        if a != b:
            for j in range(n_b):
                for i in range(n_a):
                    by_a[i, j] = by_b[j, i]
            _raise_to_children(by_a, work, a, sizes[:, of_b:], children[:, of_b:])


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
    sums: FloatArray, work: FloatArray, column: int, sizes: FloatArray, children: ShortArray
) -> None:
    """Raise the sizes of a root's cuts by children on ``column``.

    Row j of ``sums`` belongs to bin j of the child, column i to cut i of the root.
    """
    n_child, n_root = sums.shape
    left, left_low = work[0, :n_root], work[1, :n_root]
    right, right_low = work[2, :n_root], work[3, :n_root]
    for i in range(n_root):
        left[i] = left_low[i] = right[i] = right_low[i] = 0.0
    for j in range(n_child):
        of_bin = sums[j]
        total = of_bin[n_root - 1]
        for i in range(n_root):
            value, other = of_bin[i], total - of_bin[i]
            left[i] = max(left[i], value)
            left_low[i] = min(left_low[i], value)
            right[i] = max(right[i], other)
            right_low[i] = min(right_low[i], other)
    of_bin = sums[n_child - 1]
    total = of_bin[n_root - 1]
    for i in range(n_root):
        value, other = of_bin[i], total - of_bin[i]
        # A child without a split is the cut before the first bin or after the last.
        of_left = max(abs(value), value - 2.0 * left_low[i], 2.0 * left[i] - value)
        of_right = max(abs(other), other - 2.0 * right_low[i], 2.0 * right[i] - other)
        if of_left > sizes[0, i] * (1.0 + ROUNDING):
            sizes[0, i], children[0, i] = of_left, column
        if of_right > sizes[1, i] * (1.0 + ROUNDING):
            sizes[1, i], children[1, i] = of_right, column


@compiled
def stump_sizes(
    codes: AnyArray, duals: FloatArray, starts: IntArray, room: FloatArray, sizes: FloatArray
) -> None:
    """Fill ``sizes``, shape (n_columns,), with the sums of ``|s|`` of the best stumps.

    Parameters are those of :func:`best_children`, with ``room`` of shape (most bins,).
    """
    for f in range(len(sizes)):
        of_bins = room[: starts[f + 1] - starts[f]]
        for b in range(len(of_bins)):
            of_bins[b] = 0.0
        code = codes[f]
        for row in range(len(duals)):
            of_bins[code[row]] += duals[row]
        total, size, left = of_bins.sum(), 0.0, 0.0
        for b in range(len(of_bins)):
            left += of_bins[b]
            size = max(size, abs(2.0 * left - total))
        sizes[f] = size


# A search of a part has one of so many columns in each pair.
_COLUMNS_OF_PART = 32
# The list of pairs of more columns would take a gigabyte.
_MOST_COLUMNS = 4000

# Column, bin, leaves and edge of a child.
_Child = tuple[int, int, tuple[float, float], float]


class PairTreeFamily(TreeFamily):
    """Family of all trees of two levels on binned features, whose best is found exactly.

    Each leaf has either response.

    Parameters
    ----------
    features : ndarray or sparse array, shape (n_parts, n_features)
        Features of the training parts, of which each has 32 bins at most.  Those of sparse ones are
        dense, a byte each as a rule.
    response : (float, float)
        The two responses.

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

    def __init__(self, features: Any, response: tuple[float, float]) -> None:
        super().__init__(features, response, depth=2, row_fraction=1.0)
        n_bins = self._n_bins
        if len(n_bins) > _MOST_COLUMNS:
            raise ValueError(
                f"weak_learner='pair_tree' searches pairs of columns, and there are {len(n_bins)}; "
                f"keep at most {_MOST_COLUMNS} features, such as by "
                "sklearn.feature_selection.SelectKBest, or take weak_learner='stump' or 'tree'."
            )
        self._starts = np.append(0, np.cumsum(n_bins)).astype(np.int64)
        most = int(n_bins.max(initial=1))
        self._work = np.empty((2, most + 4, most))
        # Columns of one bin split nothing.
        splitting = np.flatnonzero(n_bins > 1)
        self._pairs = splitting[np.column_stack(np.triu_indices(len(splitting)))].astype(np.int64)

    @property
    @override
    def identity(self) -> str:
        return self.name

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
        sizes, children = np.full((2, n_bins), -np.inf), np.zeros((2, n_bins), np.int32)
        best_children(codes, duals, starts, pairs, self._work, sizes, children)
        of_cuts = sizes.sum(axis=0)
        # The last bin has nothing behind it.
        of_cuts[starts[1:] - 1] = -np.inf
        columns = np.repeat(np.arange(len(self._n_bins)), self._n_bins)
        order = ranked(of_cuts)
        first = np.unique(self.binned.bins.feature[columns[order]], return_index=True)[1]
        cuts = [cut for cut in order[np.sort(first)][:per_channel] if np.isfinite(of_cuts[cut])]
        roots = [
            (int(columns[cut]), int(cut - starts[columns[cut]]), children[:, cut]) for cut in cuts
        ]
        return [
            self._tree(codes, duals, channel, *root)
            for root in roots or [(0, -1, np.zeros(2, np.int32))]
        ]

    def _pairs_of_part(self, codes: AnyArray, duals: FloatArray) -> IntArray:
        """Pairs of columns with one of the best stumps in each."""
        sizes = np.empty(len(self._n_bins))
        stump_sizes(codes, duals, self._starts, self._work[0, 0], sizes)
        is_chosen = np.zeros(len(sizes), np.bool_)
        is_chosen[np.argsort(-sizes, kind="stable")[:_COLUMNS_OF_PART]] = True
        first, second = self._pairs.T
        return np.asarray(self._pairs[is_chosen[first] | is_chosen[second]])

    def _tree(
        self,
        codes: AnyArray,
        duals: FloatArray,
        channel: int,
        column: int,
        bin_: int,
        of_children: Sequence[int] | ShortArray,
    ) -> Candidate:
        """Tree with this cut of its root, if not -1, and these columns of its children."""
        goes_left = (codes[column] <= bin_) | (bin_ < 0)
        children = [
            self._best_split(codes[of_child, side], duals[side], int(of_child))
            for of_child, side in zip(of_children, (goes_left, ~goes_left), strict=True)
        ]
        columns, bins, leaves, edges = zip(*children, strict=True)
        features, bins = (column, *columns), (bin_, *bins)
        thresholds = self._thresholds(np.array(features), np.array(bins)).tolist()
        tree = Tree(features, tuple(thresholds), leaves[0] + leaves[1], bins)
        return Candidate(tree, channel, sum(edges))

    def _best_split(self, codes: AnyArray, duals: FloatArray, column: int) -> _Child:
        """Best child of rows with these codes of a column."""
        total, n_bins = float(duals.sum()), int(self._n_bins[column])
        sums = np.bincount(codes, duals, n_bins).astype(np.float64)
        below = np.cumsum(sums)[:-1]
        gains = np.array([2.0 * below - total, total - 2.0 * below])
        size = gains.max(initial=-np.inf)
        if size > (1 + ROUNDING) * abs(total):
            way, bin_ = np.argwhere(gains >= (1 - ROUNDING) * size)[0].tolist()
            leaves = (self.low, self.high) if way else (self.high, self.low)
        else:
            is_high = total > ROUNDING * float(np.abs(duals).sum())
            bin_, leaves = -1, (self.high if is_high else self.low,) * 2
        edge = float(np.where(np.arange(n_bins) <= bin_, *leaves) @ sums)
        return column, bin_, leaves, edge
