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
        return cls(*_tables(scorer, sets, n_features))

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
        places = {f: int(np.searchsorted(self.steps.features, f)) for f in sum(self.pairs, ())}
        return {feature: self.steps.bins(u, rows) for feature, u in places.items()}

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


def _tables(
    trees: WeightedTrees, sets: SetColumns | None, n_features: int
) -> tuple[LookupTable, dict[Pair, FloatArray]]:
    """Add up trees of at most two levels over the bins of their features, and of pairs of these.

    ``sets`` are the columns that follow the features of a row.
    """
    is_split, n_channels = np.isfinite(trees.threshold), trees.n_channels
    used = np.unique(trees.feature[is_split]).tolist()
    thresholds = {
        f: np.unique(trees.threshold[is_split & (trees.feature == f)])
        for f in used
        if f < n_features
    }
    # A value of each bin of a feature, and a missing one.
    values = {f: np.append(of_bins, (np.inf, np.nan)) for f, of_bins in thresholds.items()}
    if sets is None:
        sets = SetColumns(np.zeros(0, np.int64), np.zeros((0, 1)))
    for f in np.unique(sets.feature).tolist():
        # The last bin of categories has all that no set knows, as if they were missing.
        outside = sets.outside[sets.feature == f]
        differs = (outside[:, :-1] != outside[:, -1:]).any(axis=0)
        n_known = int(differs.nonzero()[0].max(initial=-1)) + 1
        thresholds[f] = np.arange(n_known) + HALF
        values[f] = np.append(np.arange(n_known + 1.0), np.nan)

    def node(t: int, k: int) -> tuple[int | None, NDArray[np.bool_]]:
        """Feature of a node, or None without a split, and which of its bins go left."""
        if k >= trees.feature.shape[1] or not is_split[t, k]:
            return None, np.ones(1, np.bool_)
        f, value = int(trees.feature[t, k]), None
        if f >= n_features:
            column = SetColumns(np.zeros(1, np.int64), sets.outside[[f - n_features]])
            f = int(sets.feature[f - n_features])
            value = column.hstack(values[f][:, None])[:, 1]
        value = values[f] if value is None else value
        is_missing = np.isnan(value) & (trees.missing_left[t, k] > 0)
        return f, (value <= trees.threshold[t, k]) | is_missing

    sums: dict[tuple[int, ...], FloatArray] = {(): np.zeros(n_channels)}
    for t in range(len(trees.feature)):
        terms = slice(trees.indptr[t], trees.indptr[t + 1])
        leaves = np.zeros((trees.values.shape[1], n_channels))
        np.add.at(leaves.T, trees.channels[terms], trees.values[terms])
        leaves = np.repeat(leaves, 4 // len(leaves), axis=0)
        (a, goes_left), children = node(t, 0), (node(t, 1), node(t, 2))
        for k, (b, is_left) in enumerate(children):
            side = goes_left if k == 0 else ~goes_left
            added = np.where(is_left[:, None], leaves[2 * k], leaves[2 * k + 1])
            added = np.where(side[:, None, None], added, 0.0)
            if a is not None and a == b:
                added = np.diagonal(added).T
            elif a is not None and b is not None and a > b:
                added = added.swapaxes(0, 1)
            key = tuple(sorted({f for f in (a, b) if f is not None}))
            shape = *(len(values[f]) for f in key), n_channels
            sums[key] = sums.get(key, 0.0) + added.reshape(shape)
    features = sorted(thresholds)
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
