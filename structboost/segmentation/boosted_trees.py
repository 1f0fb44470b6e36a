"""Gradient boosting of the library's trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array, DamagedFileError
from structboost.learners.table import Scorer
from structboost.learners.tree import TreeFamily
from structboost.learners.tree_table import TreeTable

_DEPTH = 4
_LEARNING_RATE = 0.16
_RIDGE = 1.0  # added to the curvature of a leaf
_TREE = ("feature", "threshold", "leaf")
_LEAST = np.log(1e-6)


@dataclass(frozen=True)
class BoostedTrees:
    """Boosted classifier with a sum of trees for each class.

    Two classes have one sum, the log-odds of the second.  The trees of a round follow one another,
    one for each sum, and the first of a sum hold its baseline.  Only ``classes`` occur in training.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        **{name: TreeTable.schema[name] for name in _TREE},
        "classes": Array("int64", ("n_present",), low=0, high="n_labels - 1", rising=True),
        "n_classes": Array("int64", (), low="n_labels", high="n_labels"),
    }

    trees: TreeTable
    classes: IntArray
    n_classes: int

    def log_probabilities(self, rows: NDArray[Any]) -> FloatArray:
        """Return the log-probabilities of all classes, shape (n_rows, n_classes).

        A class absent from training gets the probability 1e-6.
        """
        out = np.full((len(rows), self.n_classes), _LEAST)
        if len(self.classes) == 1:
            out[:, self.classes[0]] = 0.0
            return out
        sums = self._scorer.raw_scores(np.ascontiguousarray(rows, np.float32))
        out[:, self.classes] = np.maximum(_log_probabilities(sums), _LEAST)
        return out

    @cached_property
    def _scorer(self) -> Scorer:
        n_sums = _n_sums(self.classes)
        sums = np.arange(len(self.trees)) % n_sums
        return self.trees.scorer(np.eye(n_sums)[sums], int(self.trees.feature.max()) + 1)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays for a model file."""
        arrays = {name: getattr(self.trees, name) for name in _TREE}
        return arrays | {"classes": self.classes, "n_classes": np.array(self.n_classes, np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> BoostedTrees:
        """Build the classifier from arrays of :meth:`to_arrays` that fit the schema.

        DamagedFileError if the trees are not complete, or do not fit the classes.
        """
        classes = arrays["classes"]
        try:
            trees = TreeTable(*(arrays[name] for name in _TREE))
        except ValueError as error:
            raise DamagedFileError(str(error)) from error
        is_single = len(classes) == 1
        if not len(classes) or len(trees) % _n_sums(classes) or not (len(trees) or is_single):
            raise DamagedFileError("its trees do not fit their classes")
        return cls(trees, classes, int(arrays["n_classes"]))


def fit_trees(
    rows: NDArray[Any], labels: IntArray, n_classes: int, *, n_rounds: int
) -> BoostedTrees:
    """Train by gradient boosting of the log loss (Friedman, Annals of Statistics 2001).

    In each round :class:`structboost.learners.tree.TreeFamily` grows a tree on the gradient of each
    sum, and a Newton step gives the leaves their values.  Not all of the classes need occur.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    n_sums = _n_sums(classes)
    n_trees = n_rounds * n_sums if len(classes) > 1 else 0
    feature = np.zeros((n_trees, 2**_DEPTH - 1), np.int64)
    threshold, leaf = np.zeros(feature.shape), np.zeros((n_trees, 2**_DEPTH))
    frequencies = np.bincount(codes) / len(codes)
    odds = frequencies if n_sums > 1 else frequencies[-1:] / frequencies[:1]
    truth = np.eye(len(classes))[codes][:, -n_sums:]
    family = TreeFamily(np.asarray(rows, np.float32), (-1.0, 1.0), depth=_DEPTH)
    sums = np.tile(np.log(odds), (len(rows), 1))
    for first in range(0, n_trees, n_sums):
        probabilities = np.exp(_log_probabilities(sums))[:, -n_sums:]
        slopes, curvatures = truth - probabilities, probabilities * (1 - probabilities)
        for tree, k, _ in family.price(slopes, 1):
            leaves = family.leaf_indices(tree)
            slope = np.bincount(leaves, slopes[:, k], 2**_DEPTH)
            curvature = np.bincount(leaves, curvatures[:, k], 2**_DEPTH)
            steps = _LEARNING_RATE * slope / (curvature + _RIDGE)
            sums[:, k] += steps[leaves]
            feature[first + k], threshold[first + k] = tree.features, tree.thresholds
            leaf[first + k] = steps
    leaf[:n_sums] += np.log(odds)[:, None][: len(leaf)]
    return BoostedTrees(TreeTable(feature, threshold, leaf), classes.astype(np.int64), n_classes)


def _n_sums(classes: IntArray) -> int:
    """Return the number of sums, one for two classes or for a single class, which has no tree."""
    return len(classes) if len(classes) > 2 else 1


def _log_probabilities(sums: FloatArray) -> FloatArray:
    if sums.shape[1] == 1:
        sums = np.hstack((np.zeros_like(sums), sums))
    return np.asarray(log_softmax(sums, axis=1))
