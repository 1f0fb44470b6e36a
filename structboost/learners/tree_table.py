"""Trees of one depth as a table of learners, which computes their responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.files.schema import Array
from structboost.learners.category_sets import N_WORDS, SetColumns
from structboost.learners.table import LearnerTable
from structboost.learners.weighted_trees import TreesWithSets, WeightedTrees


@dataclass(frozen=True)
class TreeTable(LearnerTable):
    """Table of trees of one depth.

    ``missing_left`` is whether a node sends a missing feature (NaN) left.  None means always
    right.  ``sets`` are bits of the categories that a node sends left, 0 if it splits at its
    threshold.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "feature": Array("int64", ("n_learners", "n_nodes"), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners", "n_nodes"), infinite=True),
        "leaf": Array("float64", ("n_learners", "n_nodes + 1")),
        "missing_left": Array("uint8", ("n_learners", "n_nodes"), high=1, optional=True),
        "sets": Array("uint64", ("n_learners", "n_nodes", N_WORDS), optional=True),
    }
    takes_missing: ClassVar[bool] = True

    feature: IntArray
    threshold: FloatArray
    leaf: FloatArray
    missing_left: NDArray[np.uint8] | None = None
    sets: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        n_leaves = self.leaf.shape[1]
        if n_leaves & (n_leaves - 1):
            raise ValueError(f"a tree of {n_leaves} leaves is not complete")

    @override
    def responses(self, features: NDArray[Any]) -> FloatArray:
        scorer = self.scorer(np.eye(len(self)), features.shape[1])
        return np.ascontiguousarray(scorer.raw_scores(features).T)

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        out = np.zeros((len(self), n_features))
        trees, nodes = np.nonzero(np.isfinite(self.threshold))
        np.add.at(out, (trees, self.feature[trees, nodes]), 1.0)
        return np.asarray(out / np.maximum(out.sum(axis=1, keepdims=True), 1.0))

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> WeightedTrees | TreesWithSets:
        if self.sets is not None:
            columns, plain = self._without_sets(n_features)
            return TreesWithSets(columns, plain.scorer(weights, n_features))
        return WeightedTrees.of(self.feature, self.threshold, self._sides, self.leaf, weights)

    def _without_sets(self, n_features: int) -> tuple[SetColumns, TreeTable]:
        """Find the columns that stand for sets, and the trees that split them at a half."""
        assert self.sets is not None
        by_set = self.sets.any(axis=2)
        columns, place = SetColumns.of_nodes(
            self.feature[by_set], self.sets[by_set], self._sides[by_set]
        )
        feature = self.feature.copy()
        feature[by_set] = n_features + place
        return columns, TreeTable(feature, self.threshold, self.leaf, self.missing_left)

    @property
    def _sides(self) -> NDArray[np.uint8]:
        """Flags of nodes that send a missing feature left, as all nodes without a split do."""
        if self.missing_left is None:
            return np.isposinf(self.threshold).astype(np.uint8)
        return self.missing_left | np.isposinf(self.threshold)
