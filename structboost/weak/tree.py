"""Trees of given depth as weak learners, grown greedily on binned features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.weak.base import Candidate, WeakLearnerFamily
from structboost.weak.binning import bin_features


class Tree(NamedTuple):
    """A complete binary tree: node k splits ``features[k] <= thresholds[k]`` to 2k + 1, else to 2k + 2.

    A node that does not split has threshold infinity: all go left.  ``leaves`` are the answers, left to right.
    """

    features: tuple[int, ...]
    thresholds: tuple[float, ...]
    leaves: tuple[float, ...]
    bins: tuple[int, ...]


@dataclass(frozen=True)
class TreeTable:
    """Trees of one depth as arrays.

    Parameters
    ----------
    feature : ndarray of int64, shape (n_learners, 2^depth - 1)
    threshold : ndarray of float64, shape (n_learners, 2^depth - 1)
    leaf : ndarray of float64, shape (n_learners, 2^depth)
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    leaf: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.feature)

    def responses(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Answers of all trees on ``features``, shape (n_learners, n_parts)."""
        out = np.empty((len(self), len(features)))
        _answer(np.ascontiguousarray(features), self.feature, self.threshold, self.leaf, out)
        return out

    def select(self, index: NDArray[np.int64]) -> TreeTable:
        """The trees at ``index``."""
        return TreeTable(self.feature[index], self.threshold[index], self.leaf[index])

    def feature_shares(self, n_features: int) -> NDArray[np.float64]:
        """Each feature's share of the nodes that split."""
        out = np.zeros((len(self), n_features))
        trees, nodes = np.nonzero(np.isfinite(self.threshold))
        np.add.at(out, (trees, self.feature[trees, nodes]), 1.0)
        return np.asarray(out / np.maximum(out.sum(axis=1, keepdims=True), 1.0))

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays a model file holds."""
        return {"feature": self.feature, "threshold": self.threshold, "leaf": self.leaf}


class TreeFamily(WeakLearnerFamily):
    """Trees of given depth, each split the one of least weighted Gini impurity, each leaf of the sign of its weight.

    Greedy: a tree of larger edge may exist, so nothing is certified.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
    response : (float, float)
        The two answers.
    depth : int
    exact : bool
        Whether all distinct thresholds are tried, or 255 quantiles of a feature.
    n_threads : int
        Not used.
    """

    name = "tree"
    exact_pricing = False
    learner_type = Tree

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        depth: int = 3,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        if isinstance(depth, bool) or int(depth) != depth or not 1 <= depth <= 12:
            raise ValueError(f"depth is {depth!r}; give a whole number from 1 to 12.")
        self.binned = bin_features(features, exact=exact)
        self.n_features = self.binned.n_features
        self.low, self.high = response
        self.depth = int(depth)
        self._n_bins = np.diff(self.binned.indptr) + 1

    def price(self, duals: NDArray[np.float64], per_channel: int) -> list[Candidate]:
        """One tree a channel, best first."""
        found = [self._grow(np.ascontiguousarray(duals[:, channel]), channel) for channel in range(duals.shape[1])]
        return sorted(found, key=lambda candidate: -candidate.edge)

    def price_shared(self, duals: NDArray[np.float64], n_learners: int) -> list[tuple[Tree, NDArray[np.float64]]]:
        """Of the best trees of the channels, those of largest l1 norm of edges."""
        trees = list(dict.fromkeys(candidate.learner for candidate in self.price(duals, 1)))
        edges = self.responses(trees) @ duals
        order = np.argsort(-np.abs(edges).sum(axis=1), kind="stable")[:n_learners]
        return [(trees[k], edges[k]) for k in order]

    def refine(self, learner: Tree, duals: NDArray[np.float64]) -> list[Candidate]:
        """The splits of ``learner`` on every channel, with the leaves that the channel prefers."""
        at = self._leaf_numbers(learner)
        weights = np.stack([np.bincount(at, weights=d, minlength=len(learner.leaves)) for d in duals.T])
        leaves = np.where(weights > 0, self.high, self.low)
        edges = (weights * leaves).sum(axis=1)
        return [
            Candidate(learner._replace(leaves=tuple(leaves[c].tolist())), c, float(edges[c]))
            for c in range(duals.shape[1])
        ]

    def responses(self, learners: Sequence[Tree]) -> NDArray[Any]:
        """Answers on the training parts, int8 where both answers are small integers."""
        whole = float(self.low).is_integer() and float(self.high).is_integer()
        out = np.empty((len(learners), self.binned.n_rows), np.int8 if whole else np.float32)
        for k, tree in enumerate(learners):
            out[k] = np.array(tree.leaves)[self._leaf_numbers(tree)]
        return out

    def table(self, learners: Sequence[Tree]) -> TreeTable:
        """The trees as arrays."""
        n_nodes = 2**self.depth - 1
        return TreeTable(
            np.array([t.features for t in learners], np.int64).reshape(-1, n_nodes),
            np.array([t.thresholds for t in learners], np.float64).reshape(-1, n_nodes),
            np.array([t.leaves for t in learners], np.float64).reshape(-1, n_nodes + 1),
        )

    def _grow(self, duals: NDArray[np.float64], channel: int) -> Candidate:
        features, bins, leaves, edge = _grow(
            self.binned.codes, self._n_bins, duals, self.depth, float(self.low), float(self.high)
        )
        indptr, thresholds = self.binned.indptr, self.binned.thresholds
        at = [float(thresholds[indptr[f] + b]) if b >= 0 else np.inf for f, b in zip(features, bins, strict=True)]
        tree = Tree(tuple(features.tolist()), tuple(at), tuple(leaves.tolist()), tuple(bins.tolist()))
        return Candidate(tree, channel, float(edge))

    def _leaf_numbers(self, tree: Tree) -> NDArray[np.int64]:
        """Leaf of every training part."""
        node = np.zeros(self.binned.n_rows, np.int64)
        features, bins = np.array(tree.features), np.array(tree.bins)
        rows = np.arange(self.binned.n_rows)
        for _ in range(self.depth):
            b = bins[node]
            right = (b >= 0) & (self.binned.codes[features[node], rows] > b)
            node = 2 * node + 1 + right
        return np.asarray(node - (2**self.depth - 1), np.int64)


@njit(cache=True, nogil=True)
def _grow(
    codes: NDArray[Any], n_bins: NDArray[np.int64], duals: NDArray[np.float64], depth: int, low: float, high: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], float]:
    """Features and bins of the nodes (bin -1: no split), answers of the leaves, and the edge."""
    n_features, n_rows = codes.shape
    n_nodes = 2**depth - 1
    features = np.zeros(n_nodes, np.int64)
    bins = np.full(n_nodes, -1, np.int64)
    node = np.zeros(n_rows, np.int64)
    for level in range(depth):
        first = 2**level - 1
        width = first + 1
        positive = np.zeros(width)
        negative = np.zeros(width)
        for i in range(n_rows):
            if duals[i] > 0:
                positive[node[i]] += duals[i]
            else:
                negative[node[i]] -= duals[i]
        best = np.empty(width)
        for k in range(width):
            best[k] = _impurity(positive[k], negative[k]) * (1.0 - 1e-12)
        for f in range(n_features):
            histogram = np.zeros((width, n_bins[f], 2))
            code = codes[f]
            for i in range(n_rows):
                if duals[i] > 0:
                    histogram[node[i], code[i], 0] += duals[i]
                else:
                    histogram[node[i], code[i], 1] -= duals[i]
            for k in range(width):
                left_positive = 0.0
                left_negative = 0.0
                for b in range(n_bins[f] - 1):
                    left_positive += histogram[k, b, 0]
                    left_negative += histogram[k, b, 1]
                    value = _impurity(left_positive, left_negative) + _impurity(
                        positive[k] - left_positive, negative[k] - left_negative
                    )
                    if value < best[k]:
                        best[k] = value
                        features[first + k] = f
                        bins[first + k] = b
        for i in range(n_rows):
            k = first + node[i]
            right = bins[k] >= 0 and codes[features[k], i] > bins[k]
            node[i] = 2 * node[i] + (1 if right else 0)
    weights = np.zeros(n_nodes + 1)
    for i in range(n_rows):
        weights[node[i]] += duals[i]
    leaves = np.empty(n_nodes + 1)
    edge = 0.0
    for k in range(n_nodes + 1):
        leaves[k] = high if weights[k] > 0 else low
        edge += leaves[k] * weights[k]
    return features, bins, leaves, edge


@njit(cache=True, nogil=True)
def _impurity(positive: float, negative: float) -> float:
    """Gini impurity times the weight, halved."""
    total = positive + negative
    return positive * negative / total if total > 0 else 0.0


@njit(cache=True, nogil=True)
def _answer(
    rows: NDArray[Any],
    features: NDArray[np.int64],
    thresholds: NDArray[np.float64],
    leaves: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    n_trees, n_nodes = features.shape
    for t in range(n_trees):
        for p in range(len(rows)):
            k = 0
            while k < n_nodes:
                k = 2 * k + 1 if rows[p, features[t, k]] <= thresholds[t, k] else 2 * k + 2
            out[t, p] = leaves[t, k - n_nodes]
