"""Tables of features and of pairs of features, the form of trees of two levels.

Where x_a goes left, a tree of the root a and the children b and c is a function of x_a and x_b,
elsewhere one of x_a and x_c.  Sums of such trees are tables over the intervals between the
thresholds::

    F_c(x) = bias_c + sum_a f_a,c(x_a) + sum_{a < b} f_ab,c(x_a, x_b)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.learners.category_sets import HALF, SetColumns
from structboost.learners.lookup_table import LookupTable
from structboost.learners.table import Scorer
from structboost.learners.weighted_trees import TreesWithSets, WeightedTrees

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
        sets = None
        if isinstance(scorer, TreesWithSets):
            sets, scorer = scorer.columns, scorer.trees
        if not isinstance(scorer, WeightedTrees) or scorer.feature.shape[1] not in (1, 3):
            return None
        return cls(*_Builder(scorer, sets, n_features).tables())

    def thresholds(self, feature: int) -> FloatArray:
        """Thresholds between the bins of a feature, ascending."""
        u = int(np.searchsorted(self.steps.features, feature))
        begin, end = self.steps.indptr[u : u + 2]
        thresholds: FloatArray = self.steps.thresholds[begin:end]
        return thresholds

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores of checked rows, shape (n_parts, n_channels)."""
        of_pairs = self.pair_values(rows).sum(axis=1)
        return np.asarray(self.steps.raw_scores(rows) + of_pairs, np.float64)

    def pair_values(self, rows: NDArray[Any]) -> FloatArray:
        """Values of the functions of two features, shape (n_parts, n_pairs, n_channels)."""
        bins = self.bins(rows)
        out = np.empty((len(rows), len(self.pairs), len(self.steps.bias)))
        for k, ((a, b), values) in enumerate(self.pairs.items()):
            out[:, k] = values[bins[a], bins[b]]
        return out

    def bins(self, rows: NDArray[Any]) -> dict[int, IntArray]:
        """Bin of each row in each feature of a pair, the last one for missing values."""
        bins = {}
        for feature in sorted({f for pair in self.pairs for f in pair}):
            thresholds, column = self.thresholds(feature), rows[:, feature].astype(np.float64)
            below = np.searchsorted(thresholds, column)
            bins[feature] = np.where(np.isnan(column), len(thresholds) + 1, below)
        return bins

    def purified(self) -> Self:
        """Move the mean effect of each feature of a pair to the function of that feature.

        All bins between thresholds count alike, and missing values do not.  Each row and each
        column of a pair then has the mean 0 (Lengerich et al., AISTATS 2020), so the functions
        are unique.
        """
        values, missing = self.steps.values.copy(), np.array(self.steps.missing)
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


class _Builder:
    """Sums of trees of at most two levels over the bins of their features.

    ``sets`` are the columns that follow the features of a row.
    """

    def __init__(self, trees: WeightedTrees, sets: SetColumns | None, n_features: int) -> None:
        self._trees, self._sets, self._n_features = trees, sets, n_features
        splits = np.isfinite(trees.threshold)
        columns, thresholds = trees.feature[splits], trees.threshold[splits]
        self._thresholds: dict[int, FloatArray] = {}
        self._outside: dict[int, NDArray[np.bool_]] = {}
        for column in np.unique(columns).tolist():
            if column < n_features:
                self._thresholds[column] = np.unique(thresholds[columns == column])
        if sets is not None:
            self._add_sets(sets)
        self._singles: dict[int, FloatArray] = {}
        self._pairs: dict[Pair, FloatArray] = {}
        self._bias = np.zeros(trees.n_channels)

    def _add_sets(self, sets: SetColumns) -> None:
        """Bins of categories, the last of which holds all that are not known."""
        is_outside = sets.outside > HALF
        for feature in np.unique(sets.feature).tolist():
            at = np.flatnonzero(sets.feature == feature)
            differs = (is_outside[at, :-1] != is_outside[at, -1:]).any(axis=0)
            n_known = int(differs.nonzero()[0].max(initial=-1)) + 1
            self._thresholds[feature] = np.arange(n_known, dtype=np.float64) + HALF
            for k in at.tolist():
                unknown = np.repeat(is_outside[k, -1], 2)
                self._outside[k] = np.concatenate((is_outside[k, :n_known], unknown))

    def tables(self) -> tuple[LookupTable, dict[Pair, FloatArray]]:
        """Tables of features and of pairs."""
        trees = self._trees
        for t in range(len(trees.feature)):
            terms = slice(trees.indptr[t], trees.indptr[t + 1])
            leaves = np.zeros((trees.values.shape[1], trees.n_channels))
            np.add.at(leaves.T, trees.channels[terms], trees.values[terms])
            self._add_tree(t, leaves)
        n_channels = trees.n_channels
        features = sorted(self._thresholds)
        thresholds = [self._thresholds[f] for f in features]
        values = [
            self._singles.get(f, np.zeros((len(of_feature) + 2, n_channels)))
            for f, of_feature in zip(features, thresholds, strict=True)
        ]
        nothing = np.zeros((0, n_channels))
        steps = LookupTable(
            self._bias,
            np.array(features, np.int64),
            np.concatenate([np.zeros(0), *thresholds]),
            np.cumsum([0, *map(len, thresholds)], dtype=np.int64),
            np.concatenate([nothing, *(of_feature[:-1] for of_feature in values)]),
            self._n_features,
            np.concatenate([nothing, *(of_feature[-1:] for of_feature in values)]),
        )
        return steps, dict(sorted(self._pairs.items()))

    def _add_tree(self, t: int, leaves: FloatArray) -> None:
        if len(leaves) == 2:
            leaves = np.repeat(leaves, 2, axis=0)
        root = self._node(t, 0)
        if root is None:
            # All rows go left.
            self._add(None, self._node(t, 1) if len(leaves) == 4 else None, leaves[0], leaves[1])
            return
        feature, goes_left = root
        for child, side in ((1, goes_left), (2, ~goes_left)):
            first = 2 * (child - 1)
            node = self._node(t, child)
            self._add((feature, side), node, leaves[first], leaves[first + 1])

    def _node(self, t: int, k: int) -> tuple[int, NDArray[np.bool_]] | None:
        """Feature of a node, and which of its bins go left, or None if it does not split."""
        trees = self._trees
        if k >= trees.feature.shape[1] or not np.isfinite(trees.threshold[t, k]):
            return None
        column = int(trees.feature[t, k])
        if self._sets is not None and column >= self._n_features:
            place = column - self._n_features
            return int(self._sets.feature[place]), ~self._outside[place]
        thresholds = self._thresholds[column]
        n_left = int(np.searchsorted(thresholds, trees.threshold[t, k])) + 1
        goes_left = np.arange(len(thresholds) + 2) < n_left
        goes_left[-1] = trees.missing_left[t, k] > 0
        return column, goes_left

    def _add(
        self,
        root: tuple[int, NDArray[np.bool_]] | None,
        child: tuple[int, NDArray[np.bool_]] | None,
        left: FloatArray,
        right: FloatArray,
    ) -> None:
        """Add the responses of a child where its root sends rows to it."""
        if child is None:
            if root is None:
                self._bias += left
            else:
                self._single(root[0])[root[1]] += left
            return
        feature, goes_left = child
        values = np.where(goes_left[:, None], left, right)
        if root is None:
            self._single(feature)[:] += values
        elif root[0] == feature:
            self._single(feature)[root[1]] += values[root[1]]
        elif root[0] < feature:
            self._pair(root[0], feature)[root[1]] += values
        else:
            self._pair(feature, root[0])[:, root[1]] += values[:, None]

    def _single(self, feature: int) -> FloatArray:
        n_bins = len(self._thresholds[feature]) + 2
        return self._singles.setdefault(feature, np.zeros((n_bins, self._trees.n_channels)))

    def _pair(self, a: int, b: int) -> FloatArray:
        shape = len(self._thresholds[a]) + 2, len(self._thresholds[b]) + 2, self._trees.n_channels
        if (a, b) not in self._pairs:
            self._pairs[a, b] = np.zeros(shape)
        return self._pairs[a, b]
