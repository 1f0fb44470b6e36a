"""Gradient boosting of the library's trees, stored as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array, DamagedFileError
from structboost.learners.tree import Tree, TreeFamily
from structboost.runtime.compiled import compiled

_DEPTH = 4
_LEARNING_RATE = 0.16
_RIDGE = 1.0  # added to the curvature of a leaf


@dataclass(frozen=True)
class BoostedTrees:
    """Boosted classifier with a sum of trees for each class.

    Two classes have one sum, the log-odds of the second.  Values up to the threshold of a node go
    left.  The feature of leaves is -1, and their value is added to the sum, which starts at its
    baseline.  Children have larger indices than their node.  Only ``classes`` occur in training.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "feature": Array("int64", ("n_nodes",), low=-1, high="n_features - 1"),
        "threshold": Array("float64", ("n_nodes",), infinite=True),
        "left": Array("int64", ("n_nodes",), low=0, high="n_nodes - 1"),
        "right": Array("int64", ("n_nodes",), low=0, high="n_nodes - 1"),
        "value": Array("float64", ("n_nodes",)),
        "roots": Array("int64", ("n_rounds", "n_sums"), low=0, high="n_nodes - 1"),
        "baseline": Array("float64", ("n_sums",)),
        "classes": Array("int64", ("n_present",), low=0, high="n_labels - 1", rising=True),
        "n_classes": Array("int64", (), low="n_labels", high="n_labels"),
    }

    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    value: FloatArray
    roots: IntArray
    baseline: FloatArray
    classes: IntArray
    n_classes: int

    def log_probabilities(self, rows: NDArray[Any]) -> FloatArray:
        """Return the log-probabilities of all classes, shape (n_rows, n_classes).

        A class absent from training gets the probability 1e-6.
        """
        floor = np.log(1e-6)
        out = np.full((len(rows), self.n_classes), floor)
        if len(self.classes) == 1:
            out[:, self.classes[0]] = 0.0
            return out
        sums = np.tile(self.baseline, (len(rows), 1))
        _add_trees(
            np.ascontiguousarray(rows, np.float32),
            *(self.feature, self.threshold, self.left, self.right, self.value, self.roots),
            sums,
        )
        out[:, self.classes] = np.maximum(_log_probabilities(sums), floor)
        return out

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays for a model file."""
        return vars(self) | {"n_classes": np.array(self.n_classes, np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> BoostedTrees:
        """Build the classifier from arrays of :meth:`to_arrays` that fit the schema.

        DamagedFileError if a child does not come after its node, so that scoring might never end,
        or if the number of sums does not fit the classes.
        """
        trees = cls(**{**dict[str, Any](arrays), "n_classes": int(arrays["n_classes"])})
        inner = trees.feature >= 0
        nodes = np.arange(len(inner))
        if ((trees.left <= nodes) | (trees.right <= nodes))[inner].any():
            raise DamagedFileError("a tree has a child before its parent")
        n_classes = len(trees.classes)
        if not n_classes or len(trees.baseline) != (n_classes if n_classes > 2 else 1):
            raise DamagedFileError("its trees do not fit their classes")
        return trees


def fit_trees(
    rows: NDArray[Any], labels: IntArray, n_classes: int, *, n_rounds: int
) -> BoostedTrees:
    """Train by gradient boosting of the log loss (Friedman, Annals of Statistics 2001).

    In each round :class:`structboost.learners.tree.TreeFamily` grows a tree on the gradient of each
    sum, and a Newton step gives the leaves their values.  Not all of the classes need occur.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    # Two classes need one sum, the log-odds of the second; a single class needs no tree.
    n_sums = len(classes) if len(classes) > 2 else 1
    frequencies = np.bincount(codes) / len(codes)
    odds = frequencies if n_sums > 1 else frequencies[-1:] / frequencies[:1]
    baseline = np.log(odds) if len(classes) > 1 else np.zeros(1)
    truth = np.eye(len(classes))[codes][:, -n_sums:]
    family = TreeFamily(np.asarray(rows, np.float32), (-1.0, 1.0), depth=_DEPTH)
    trees: list[list[Tree]] = []
    sums = np.tile(baseline, (len(rows), 1))
    for _ in range(n_rounds if len(classes) > 1 else 0):
        probabilities = np.exp(_log_probabilities(sums))[:, -n_sums:]
        slopes, curvatures = truth - probabilities, probabilities * (1 - probabilities)
        round_: list[Any] = [None] * n_sums
        for tree, k, _ in family.price(slopes, 1):
            leaf = family.leaf_indices(tree)
            slope = np.bincount(leaf, slopes[:, k], 2**_DEPTH)
            curvature = np.bincount(leaf, curvatures[:, k], 2**_DEPTH)
            steps = _LEARNING_RATE * slope / (curvature + _RIDGE)
            sums[:, k] += steps[leaf]
            round_[k] = tree._replace(leaves=tuple(steps.tolist()))
        trees.append(round_)
    return _as_nodes(trees, baseline, classes, n_classes)


def _as_nodes(
    rounds: Sequence[Sequence[Tree]], baseline: FloatArray, classes: IntArray, n_classes: int
) -> BoostedTrees:
    """Concatenate complete trees, with inner nodes before leaves."""
    n_inner = 2**_DEPTH - 1
    n_nodes = 2 * n_inner + 1
    trees = [tree for of_round in rounds for tree in of_round]
    shape = (len(trees), n_nodes)
    feature, threshold, value = np.full(shape, -1), np.zeros(shape), np.zeros(shape)
    for t, tree in enumerate(trees):
        feature[t, :n_inner], threshold[t, :n_inner] = tree.features, tree.thresholds
        value[t, n_inner:] = tree.leaves
    first = np.arange(len(trees))[:, None] * n_nodes
    inner = np.arange(n_nodes) < n_inner
    left = np.where(inner, first + 2 * np.arange(n_nodes) + 1, first)
    return BoostedTrees(
        feature=feature.ravel(),
        threshold=threshold.ravel(),
        left=left.ravel(),
        right=(left + inner).ravel(),
        value=value.ravel(),
        roots=first.reshape(-1, len(baseline)),
        baseline=baseline,
        classes=classes.astype(np.int64),
        n_classes=n_classes,
    )


def _log_probabilities(sums: FloatArray) -> FloatArray:
    if sums.shape[1] == 1:
        sums = np.hstack((np.zeros_like(sums), sums))
    return np.asarray(log_softmax(sums, axis=1))


@compiled
def _add_trees(
    rows: NDArray[np.float32],
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    right: IntArray,
    value: FloatArray,
    roots: IntArray,
    sums: FloatArray,
) -> None:
    for i in range(len(rows)):
        for t in range(roots.shape[0]):
            for k in range(roots.shape[1]):
                node = roots[t, k]
                while feature[node] >= 0:
                    node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
                sums[i, k] += value[node]
