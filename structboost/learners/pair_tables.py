"""Tables of features and of pairs of features, the form of trees of two levels.

Where x_a goes left, a tree of the root a and the children b and c is a function of x_a and x_b,
elsewhere one of x_a and x_c.  Sums of such trees are tables over the intervals between the
thresholds::

    F_c(x) = bias_c + sum_a f_a,c(x_a) + sum_{a < b} f_ab,c(x_a, x_b)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.learners.category_sets import HALF
from structboost.learners.lookup_table import LookupTable
from structboost.learners.table import Scorer
from structboost.learners.tree_table import WeightedTrees

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
