"""Gradient-boosted trees as plain arrays: trained by scikit-learn, scored and saved without it (no pickle)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

_ARRAYS = ("feature", "threshold", "left", "right", "value", "roots", "baseline")


@dataclass(frozen=True)
class BoostedTrees:
    """A boosted classifier: sums of trees, one sum for each class (two classes: one sum, the log-odds of the second).

    Attributes
    ----------
    feature : ndarray of int64, shape (n_nodes,)
        What a node splits on; -1 in leaves.
    threshold, value : ndarray of float64, shape (n_nodes,)
        Values up to the threshold go left; what a leaf adds.
    left, right : ndarray of int64, shape (n_nodes,)
        Numbers of the children.
    roots : ndarray of int64, shape (n_rounds, n_sums)
        Roots of the trees.
    baseline : ndarray of float64, shape (n_sums,)
        What the sums start at.
    classes : ndarray of int64, shape (n_present,)
        Classes that the training rows had.
    n_classes : int
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    roots: NDArray[np.int64]
    baseline: NDArray[np.float64]
    classes: NDArray[np.int64]
    n_classes: int

    def log_probabilities(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Logarithms of the probabilities of all classes, shape (n_rows, n_classes).

        A class that the training rows had not gets the probability 1e-6.
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
        if sums.shape[1] == 1:
            sums = np.hstack((np.zeros_like(sums), sums))
        sums -= sums.max(axis=1, keepdims=True)
        sums -= np.log(np.exp(sums).sum(axis=1, keepdims=True))
        out[:, self.classes] = np.maximum(sums, floor)
        return out

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays a model file holds."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _ARRAYS}
        return arrays | {"classes": self.classes, "n_classes": np.array(self.n_classes)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> BoostedTrees:
        """What :meth:`to_arrays` gave, checked: a damaged file never makes scoring read outside of the arrays.

        Raises
        ------
        ValueError
            If a tree names a node that does not come after it.
        """
        made = cls(**{name: arrays[name] for name in (*_ARRAYS, "classes")}, n_classes=int(arrays["n_classes"]))
        n = len(made.feature)
        inner = np.flatnonzero(made.feature >= 0)
        children = np.concatenate((made.left[inner], made.right[inner]))
        parents = np.concatenate((inner, inner))
        if not (len(made.threshold) == len(made.left) == len(made.right) == len(made.value) == n):
            raise ValueError("the nodes of its trees are not equally many")
        if (children <= parents).any() or (children >= n).any() or not ((made.roots >= 0) & (made.roots < n)).all():
            raise ValueError("its trees are damaged")
        return made


def fit_trees(
    rows: NDArray[Any],
    labels: NDArray[np.int64],
    n_classes: int,
    *,
    n_rounds: int,
    learning_rate: float = 0.1,
    max_leaves: int = 16,
    min_leaf: int = 20,
    l2: float = 1.0,
    max_features: float = 1.0,
    random_state: int = 0,
) -> BoostedTrees:
    """Train by ``sklearn.ensemble.HistGradientBoostingClassifier`` and take out its trees.

    Parameters
    ----------
    rows : ndarray, shape (n_rows, n_features)
    labels : ndarray of int64, shape (n_rows,)
        In 0..n_classes-1; not all need occur.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) == 1:
        nothing, indices = np.zeros(0), np.zeros(0, np.int64)
        roots, baseline = np.zeros((0, 1), np.int64), np.zeros(1)
        return BoostedTrees(indices, nothing, indices, indices, nothing, roots, baseline, classes, n_classes)
    booster = HistGradientBoostingClassifier(
        max_iter=n_rounds,
        learning_rate=learning_rate,
        max_leaf_nodes=max_leaves,
        min_samples_leaf=min_leaf,
        l2_regularization=l2,
        max_features=max_features,
        early_stopping=False,
        random_state=random_state,
    )
    # Without weights: with them scikit-learn bins by weighted percentiles, ten times slower than the rest together.
    booster.fit(np.ascontiguousarray(rows, np.float32), codes)
    return _taken_out(booster, classes, n_classes)


def _taken_out(booster: Any, classes: NDArray[np.int64], n_classes: int) -> BoostedTrees:
    """The trees of a fitted booster; its attributes are private, so a test compares the scores with its own."""
    rounds = booster._predictors
    roots = np.zeros((len(rounds), len(rounds[0])), np.int64)
    blocks = []
    start = 0
    for i, trees in enumerate(rounds):
        for j, tree in enumerate(trees):
            roots[i, j] = start
            blocks.append((tree.nodes, start))
            start += len(tree.nodes)
    nodes = np.concatenate([block for block, _ in blocks])
    shift = np.concatenate([np.full(len(block), first, np.int64) for block, first in blocks])
    leaf = nodes["is_leaf"].astype(bool)
    return BoostedTrees(
        feature=np.where(leaf, -1, nodes["feature_idx"].astype(np.int64)),
        threshold=nodes["num_threshold"].astype(np.float64),
        left=nodes["left"].astype(np.int64) + shift,
        right=nodes["right"].astype(np.int64) + shift,
        value=nodes["value"].astype(np.float64),
        roots=roots,
        baseline=np.asarray(booster._baseline_prediction, np.float64).ravel(),
        classes=classes.astype(np.int64),
        n_classes=n_classes,
    )


@njit(cache=True, nogil=True)
def _add_trees(
    rows: NDArray[np.float32],
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    value: NDArray[np.float64],
    roots: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> None:
    for i in range(len(rows)):
        for t in range(roots.shape[0]):
            for k in range(roots.shape[1]):
                node = roots[t, k]
                while feature[node] >= 0:
                    node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
                sums[i, k] += value[node]
