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
        # All nodes without a split send a missing feature left.
        sides, feature = np.isposinf(self.threshold).astype(np.uint8), self.feature
        if self.missing_left is not None:
            sides |= self.missing_left
        if self.sets is None:
            return WeightedTrees.of(feature, self.threshold, sides, self.leaf, weights)
        # Trees split the columns that stand for sets at a half.
        by_set = self.sets.any(axis=2)
        columns, place = SetColumns.of_nodes(feature[by_set], self.sets[by_set], sides[by_set])
        feature = feature.copy()
        feature[by_set] = n_features + place
        trees = WeightedTrees.of(feature, self.threshold, sides, self.leaf, weights)
        return TreesWithSets(columns, trees)
