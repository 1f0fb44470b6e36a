"""Trees of two levels as weak learners, priced exactly.

A tree with a root and two children is a function of the features of the root and the left child
plus one of the root and the right child.  So a model of such trees is a sum of functions of pairs
of features (:mod:`structboost.weak.pair_tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.weak.base import Candidate
from structboost.weak.category_sets import BY_SET, N_WORDS, number_of, words_of_flags
from structboost.weak.pair_search import best_children, stump_sizes
from structboost.weak.tree import Tree, TreeFamily

# Bins of a feature: with as many as stumps have, the search would take 64 times as long.
_MAX_BINS = 32
# A search of a part has one of so many columns in each pair.
_COLUMNS_OF_PART = 32


class _Node(NamedTuple):
    """Split of a node: the column, its bin or a set of bins as bits, and the rows on the left."""

    column: int
    bin: int
    members: int
    goes_left: NDArray[np.bool_]


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
    exact : bool
        Whether the family holds all distinct thresholds, or those of ``max_bins``.
    n_threads : int
        Ignored.
    max_bins : int
        Most bins of a feature of numbers, at most 256, unless ``exact``.
    categorical : sequence of int
        Features that hold numbers of categories, from 0 to 254.

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
        exact: bool = False,
        n_threads: int = 1,
        max_bins: int = _MAX_BINS,
        categorical: Sequence[int] = (),
    ) -> None:
        super().__init__(
            features, response, depth=2, exact=exact, n_threads=n_threads, row_share=1.0,
            categorical=categorical, max_bins=max_bins,
        )  # fmt: skip
        n_bins = self._n_bins
        self._starts = np.append(0, np.cumsum(n_bins)).astype(np.int64)
        most = int(n_bins.max(initial=1))
        self._work = np.empty((2, most + 5, most))
        first, second = np.triu_indices(len(n_bins))
        self._pairs = np.column_stack((first, second)).astype(np.int64)
        self._feature_of = self._feature(np.arange(len(n_bins)))
        self._is_part = False

    @property
    @override
    def identity(self) -> str:
        return f"{self.name} of {self.max_bins} bins, {self._is_category.nonzero()[0].tolist()}"

    @property
    @override
    def searches_all(self) -> bool:
        thinned = self.binned.bins.thinned
        return thinned is not None and not thinned.any()

    @override
    def part(self) -> Self | None:
        """Search pairs of all columns and the 32 with the best stumps on a channel."""
        if len(self._n_bins) <= 2 * _COLUMNS_OF_PART:
            return None
        part = copy(self)
        part._is_part, part.exact_pricing = True, False
        return part

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        self._leaves_of_round.clear()
        found = []
        for channel in range(duals.shape[1]):
            own = duals[:, channel]
            rows = np.flatnonzero(own)
            codes = np.ascontiguousarray(self.binned.codes[:, rows])
            found += self._best_trees(codes, own[rows], channel, per_channel)
        return sorted(found, key=lambda candidate: -candidate.edge)

    def _best_trees(
        self, codes: NDArray[Any], duals: FloatArray, channel: int, per_channel: int
    ) -> list[Candidate]:
        """Best trees of a channel, each with another feature at its root."""
        n_bins = int(self._starts[-1])
        pairs = self._pairs if not self._is_part else self._pairs_of_part(codes, duals)
        sizes, children = np.full((2, n_bins), -1.0), np.zeros((2, n_bins), np.int32)
        best_children(
            codes, duals, self._starts, self._is_category, pairs, self._work, sizes, children
        )
        of_cuts = sizes.sum(axis=0)
        # The last bin of numbers has nothing behind it.
        of_cuts[self._starts[1:][~self._is_category] - 1] = -1.0
        columns = np.repeat(np.arange(len(self._n_bins)), self._n_bins)
        order = np.argsort(-of_cuts, kind="stable")
        first = np.unique(self._feature_of[columns[order]], return_index=True)[1]
        cuts = [int(cut) for cut in order[np.sort(first)][:per_channel] if of_cuts[cut] >= 0]
        made = []
        for cut in cuts:
            column = int(columns[cut])
            of_children = int(children[0, cut]), int(children[1, cut])
            made.append(
                self._tree(codes, duals, column, cut - int(self._starts[column]), of_children)
            )
        if not made:
            made = [self._tree(codes, duals, 0, -1, (0, 0))]
        return [Candidate(tree, channel, edge) for tree, edge in made]

    def _pairs_of_part(self, codes: NDArray[Any], duals: FloatArray) -> IntArray:
        """Pairs of columns with one of the best stumps in each."""
        sizes = np.empty(len(self._n_bins))
        stump_sizes(codes, duals, self._starts, self._is_category, self._work[0, 0], sizes)
        is_chosen = np.zeros(len(sizes), np.bool_)
        is_chosen[np.argsort(-sizes, kind="stable")[:_COLUMNS_OF_PART]] = True
        return self._pairs[is_chosen[self._pairs].any(axis=1)]

    def _tree(
        self,
        codes: NDArray[Any],
        duals: FloatArray,
        column: int,
        bin_: int,
        of_children: tuple[int, int],
    ) -> tuple[Tree, float]:
        """Tree with this cut of its root and these columns of its children, and its edge."""
        by_set = bool(self._is_category[column]) and bin_ >= 0
        goes_left = np.ones(len(duals), np.bool_)
        if bin_ >= 0:
            goes_left = codes[column] == bin_ if by_set else codes[column] <= bin_
        root = _Node(column, BY_SET if by_set else bin_, 1 << bin_ if by_set else 0, goes_left)
        left, right = (
            self._best_split(codes, duals, of_child, side)
            for of_child, side in zip(of_children, (goes_left, ~goes_left), strict=True)
        )
        nodes = root, left, right
        sums = [
            float(duals[side & way].sum())
            for node, side in ((left, goes_left), (right, ~goes_left))
            for way in (node.goes_left, ~node.goes_left)
        ]
        leaves = tuple(self.high if s > 0 else self.low for s in sums)
        features, bins = np.array([n.column for n in nodes]), np.array([n.bin for n in nodes])
        thresholds = self._thresholds(features, bins)
        tree = Tree(
            tuple(features.tolist()), tuple(thresholds.tolist()), leaves, tuple(bins.tolist()),
            tuple(n.members for n in nodes) if self._n_words else (),
        )  # fmt: skip
        return tree, float(np.dot(leaves, sums))

    def _best_split(
        self, codes: NDArray[Any], duals: FloatArray, column: int, side: NDArray[np.bool_]
    ) -> _Node:
        """Best split of the rows of one side on a column."""
        n_bins = int(self._n_bins[column])
        sums = np.bincount(codes[column][side], duals[side], n_bins)
        if self._is_category[column]:
            inside = sums > 0
            if inside.any() and (sums < 0).any():
                members = np.zeros(64 * N_WORDS, np.bool_)
                members[:n_bins] = inside
                return _Node(
                    column, BY_SET, number_of(words_of_flags(members)), inside[codes[column]]
                )
            return _Node(column, -1, 0, np.ones(len(duals), np.bool_))
        below = np.cumsum(sums)
        sizes = np.abs(2.0 * below[:-1] - below[-1])
        bin_ = int(sizes.argmax()) if len(sizes) else -1
        if bin_ < 0 or sizes[bin_] <= abs(below[-1]):
            return _Node(column, -1, 0, np.ones(len(duals), np.bool_))
        return _Node(column, bin_, 0, codes[column] <= bin_)
