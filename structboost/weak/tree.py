"""Trees of given depth as weak learners, grown greedily on binned features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array, DamagedFileError, whole_number
from structboost.runtime.compiled import compiled
from structboost.validation import checked_whole_number
from structboost.weak.base import Candidate, WeakLearnerFamily
from structboost.weak.binning import bin_features
from structboost.weak.candidates import answer_type, largest_norms
from structboost.weak.table import LearnerTable, comparable


class Tree(NamedTuple):
    """A complete binary tree.

    Node k sends ``features[k] <= thresholds[k]`` to node 2k + 1, all else to node 2k + 2.  A node
    that does not split has an infinite threshold.  ``leaves`` are the answers, left to right.
    """

    features: tuple[int, ...]
    thresholds: tuple[float, ...]
    leaves: tuple[float, ...]
    bins: tuple[int, ...]


@dataclass(frozen=True)
class TreeTable(LearnerTable):
    """Trees of one depth as arrays.

    Parameters
    ----------
    feature : ndarray of int64, shape (n_learners, 2^depth - 1)
    threshold : ndarray of float64, shape (n_learners, 2^depth - 1)
    leaf : ndarray of float64, shape (n_learners, 2^depth)
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "feature": Array("int64", ("n_learners", "n_nodes"), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners", "n_nodes"), infinite=True),
        "leaf": Array("float64", ("n_learners", "n_nodes + 1")),
    }

    feature: IntArray
    threshold: FloatArray
    leaf: FloatArray

    def __post_init__(self) -> None:
        n_leaves = self.leaf.shape[1]
        if n_leaves & (n_leaves - 1):
            raise ValueError(f"a tree of {n_leaves} leaves is not complete")

    def responses(self, features: NDArray[Any]) -> FloatArray:
        """Answers of all trees on ``features``, shape (n_learners, n_parts)."""
        out = np.empty((len(self), len(features)))
        _answer(comparable(features), self.feature, self.threshold, self.leaf, out)
        return out

    def feature_shares(self, n_features: int) -> FloatArray:
        """Each feature's share of the nodes that split."""
        out = np.zeros((len(self), n_features))
        trees, nodes = np.nonzero(np.isfinite(self.threshold))
        np.add.at(out, (trees, self.feature[trees, nodes]), 1.0)
        return np.asarray(out / np.maximum(out.sum(axis=1, keepdims=True), 1.0))

    def scorer(self, weights: FloatArray, n_features: int) -> WeightedTrees:
        """Trees whose leaves hold weighted answers."""
        return WeightedTrees.of(self, weights)


@dataclass(frozen=True)
class WeightedTrees:
    """Trees whose leaves hold what they add to the scores.

    Parameters
    ----------
    feature, threshold : ndarray, shape (n_trees, n_nodes)
        As in :class:`TreeTable`.
    indptr : ndarray of int64, shape (n_trees + 1,)
        Terms of tree t are ``indptr[t]:indptr[t + 1]``.
    channels : ndarray of int64, shape (n_terms,)
    values : ndarray of float64, shape (n_terms, n_leaves)
    n_channels : int
    """

    feature: IntArray
    threshold: FloatArray
    indptr: IntArray
    channels: IntArray
    values: FloatArray
    n_channels: int

    @classmethod
    def of(cls, trees: TreeTable, weights: FloatArray) -> WeightedTrees:
        """Trees with the weights W, shape (n_learners, n_channels)."""
        used = np.flatnonzero(weights.any(axis=1))
        rows, channels = np.nonzero(weights[used])
        values = weights[used[rows], channels][:, None] * trees.leaf[used[rows]]
        indptr = np.searchsorted(rows, np.arange(len(used) + 1))
        return cls(
            trees.feature[used],
            trees.threshold[used],
            indptr.astype(np.int64),
            channels.astype(np.int64),
            values,
            weights.shape[1],
        )

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores of rows that were checked, shape (n_parts, n_channels)."""
        out = np.zeros((len(rows), self.n_channels))
        _add_up(
            comparable(rows), self.feature, self.threshold, self.indptr, self.channels,
            self.values, out,
        )  # fmt: skip
        return out


class TreeFamily(WeakLearnerFamily):
    """Trees of given depth, grown greedily.

    Each split minimises the weighted Gini impurity; each leaf takes the sign of its weight.  A tree
    of larger edge may exist, so nothing is certified.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
    response : (float, float)
        The two answers.
    depth : int
        Number of splits from the root to a leaf.
    exact : bool
        Whether all distinct thresholds are tried, or 255 quantiles of each feature.
    n_threads : int
        Ignored.
    """

    name = "tree"
    exact_pricing = False
    can_resume = True

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        depth: int = 3,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        self.binned = bin_features(features, exact=exact)
        self.n_features = self.binned.n_features
        self.low, self.high = response
        self.depth = checked_whole_number(depth, "depth", 12)
        self._n_bins = self.binned.bins.n_bins

    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        """One tree per channel, best first."""
        found = [
            self._grow(np.ascontiguousarray(duals[:, channel]), channel)
            for channel in range(duals.shape[1])
        ]
        return sorted(found, key=lambda candidate: -candidate.edge)

    def price_shared(self, duals: FloatArray, n_learners: int) -> list[tuple[Tree, FloatArray]]:
        """The best tree of each channel, largest l1 norm of edges first."""
        trees = list(dict.fromkeys(candidate.learner for candidate in self.price(duals, 1)))
        return largest_norms(trees, self.responses(trees) @ duals, n_learners)

    def refine(self, learner: Tree, duals: FloatArray) -> list[Candidate]:
        """The splits of ``learner`` on every channel, with the best leaves for that channel."""
        at = self.leaf_numbers(learner)
        weights = np.stack(
            [np.bincount(at, weights=d, minlength=len(learner.leaves)) for d in duals.T]
        )
        leaves = np.where(weights > 0, self.high, self.low)
        edges = (weights * leaves).sum(axis=1)
        return [
            Candidate(learner._replace(leaves=tuple(leaves[c].tolist())), c, float(edges[c]))
            for c in range(duals.shape[1])
        ]

    def responses(self, learners: Sequence[Tree]) -> NDArray[Any]:
        """Answers on the training parts, int8 where both answers are small integers."""
        out = np.empty((len(learners), self.binned.n_rows), answer_type(self.low, self.high))
        for k, tree in enumerate(learners):
            out[k] = np.array(tree.leaves)[self.leaf_numbers(tree)]
        return out

    def table(self, learners: Sequence[Tree]) -> TreeTable:
        """The trees as arrays."""
        n_nodes = 2**self.depth - 1
        return TreeTable(
            np.array([t.features for t in learners], np.int64).reshape(-1, n_nodes),
            np.array([t.thresholds for t in learners], np.float64).reshape(-1, n_nodes),
            np.array([t.leaves for t in learners], np.float64).reshape(-1, n_nodes + 1),
        )

    def restored(self, values: Sequence[Any]) -> Tree:
        """The tree of these fields, its splits between bins of these features."""
        made = Tree(*(tuple(field) for field in values))
        n_nodes = 2**self.depth - 1
        if [len(field) for field in made] != [n_nodes, n_nodes, n_nodes + 1, n_nodes]:
            raise DamagedFileError("a tree is of another depth")
        for feature, bin_ in zip(made.features, made.bins, strict=True):
            whole_number(feature, "feature", 0, self.n_features - 1)
            whole_number(bin_, "bin", -1, int(self._n_bins[feature]) - 2)
        if made.thresholds != self._thresholds(made.features, made.bins) or not set(
            made.leaves
        ) <= {self.low, self.high}:
            raise DamagedFileError("a tree is none of these features")
        return made

    def _thresholds(self, features: Sequence[int], bins: Sequence[int]) -> tuple[float, ...]:
        """Thresholds of nodes, infinity where they do not split."""
        indptr, values = self.binned.bins.indptr, self.binned.bins.values
        return tuple(
            float(values[indptr[f] + b]) if b >= 0 else np.inf
            for f, b in zip(features, bins, strict=True)
        )

    def _grow(self, duals: FloatArray, channel: int) -> Candidate:
        features, bins, leaves, edge = _grow(
            self.binned.codes, self._n_bins, duals, self.depth, float(self.low), float(self.high)
        )
        at = self._thresholds(features.tolist(), bins.tolist())
        tree = Tree(tuple(features.tolist()), at, tuple(leaves.tolist()), tuple(bins.tolist()))
        return Candidate(tree, channel, float(edge))

    def leaf_numbers(self, tree: Tree) -> IntArray:
        """Leaf of every training part, counted from the left, shape (n_parts,)."""
        node = np.zeros(self.binned.n_rows, np.int64)
        features, bins = np.array(tree.features), np.array(tree.bins)
        rows = np.arange(self.binned.n_rows)
        for _ in range(self.depth):
            b = bins[node]
            right = (b >= 0) & (self.binned.codes[features[node], rows] > b)
            node = 2 * node + 1 + right
        return np.asarray(node - (2**self.depth - 1), np.int64)


@compiled
def _grow(
    codes: NDArray[Any], n_bins: IntArray, duals: FloatArray, depth: int, low: float, high: float
) -> tuple[IntArray, IntArray, FloatArray, float]:
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


@compiled
def _impurity(positive: float, negative: float) -> float:
    """Gini impurity times the weight, halved."""
    total = positive + negative
    return positive * negative / total if total > 0 else 0.0


@compiled
def _leaf(row: NDArray[Any], features: IntArray, thresholds: FloatArray) -> int:
    """Leaf of a row, counted from the left."""
    n_nodes = len(features)
    k = 0
    while k < n_nodes:
        # Branch-free: which side a row takes cannot be predicted.
        k = 2 * k + 2 - (row[features[k]] <= thresholds[k])
    return k - n_nodes


@compiled
def _answer(
    rows: NDArray[Any],
    features: IntArray,
    thresholds: FloatArray,
    leaves: FloatArray,
    out: FloatArray,
) -> None:
    for t in range(len(features)):
        for p in range(len(rows)):
            out[t, p] = leaves[t, _leaf(rows[p], features[t], thresholds[t])]


@compiled
def _add_up(
    rows: NDArray[Any],
    features: IntArray,
    thresholds: FloatArray,
    indptr: IntArray,
    channels: IntArray,
    values: FloatArray,
    out: FloatArray,
) -> None:
    for p in range(len(rows)):
        for t in range(len(features)):
            leaf = _leaf(rows[p], features[t], thresholds[t])
            for term in range(indptr[t], indptr[t + 1]):
                out[p, channels[term]] += values[term, leaf]
