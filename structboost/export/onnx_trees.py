"""Conversion of look-up tables and trees to tree ensembles of ONNX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.learners.lookup_table import LookupTable
from structboost.learners.weighted_trees import WeightedTrees, single_thresholds

# A leaf is an array with its value for each channel.  An inner node has a feature, a threshold, the
# subtrees of values up to the threshold and above, and whether missing values go to the former.
Subtree = Any


class _TreeNodes:
    """Nodes of trees in the attributes of the operator ``TreeEnsembleRegressor``."""

    def __init__(self) -> None:
        self._n_trees = 0
        self._nodes: dict[str, list[Any]] = {
            name: []
            for name in (
                "treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                "falsenodeids", "missing_value_tracks_true",
            )
        }  # fmt: skip
        self._targets: dict[str, list[Any]] = {
            name: [] for name in ("treeids", "nodeids", "ids", "weights")
        }

    def add(self, tree: Subtree) -> None:
        """Add a tree."""
        self._n_nodes = 0
        self._add(tree)
        self._n_trees += 1

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the operator."""
        return {
            **{f"nodes_{name}": values for name, values in self._nodes.items()},
            **{f"target_{name}": values for name, values in self._targets.items()},
        }

    def _add(self, tree: Subtree) -> int:
        """Append a subtree, and return the index of its root."""
        node = self._n_nodes
        self._n_nodes += 1
        is_leaf = isinstance(tree, np.ndarray)
        feature, threshold, *_, missing_left = (0, 0.0, 0) if is_leaf else tree
        place = len(self._nodes["nodeids"])
        mode = "LEAF" if is_leaf else "BRANCH_LEQ"
        row = (self._n_trees, node, feature, mode, threshold, 0, 0, missing_left)
        for values, value in zip(self._nodes.values(), row, strict=True):
            values.append(value)
        if is_leaf:
            self._add_targets(node, tree)
        else:
            self._nodes["truenodeids"][place] = self._add(tree[2])
            self._nodes["falsenodeids"][place] = self._add(tree[3])
        return node

    def _add_targets(self, node: int, added: Any) -> None:
        # A leaf without any value needs an entry as well.
        used = np.flatnonzero(added).tolist() or [0]
        self._targets["treeids"] += [self._n_trees] * len(used)
        self._targets["nodeids"] += [node] * len(used)
        self._targets["ids"] += used
        self._targets["weights"] += added[used].tolist()


def attributes_of_trees(trees: Sequence[Subtree], n_channels: int) -> dict[str, Any]:
    """Return the attributes of the operator ``TreeEnsembleRegressor``."""
    nodes = _TreeNodes()
    for tree in trees:
        nodes.add(tree)
    return {"n_targets": n_channels, **nodes.attributes()}


def attributes_of_double_trees(trees: Sequence[Subtree], n_channels: int) -> dict[str, Any]:
    """Return the attributes of the operator ``TreeEnsemble``, whose leaves have one channel each.

    A tree of several channels becomes one tree for each of them.
    """
    nodes: list[list[Any]] = []
    leaves: list[tuple[int, float]] = []

    def added(tree: Subtree, channel: int) -> tuple[int, int]:
        """Append a subtree, and return its index and whether it is a leaf."""
        if isinstance(tree, np.ndarray):
            leaves.append((channel, float(tree[channel])))
            return len(leaves) - 1, 1
        feature, threshold, left, right, missing_left = tree
        place = len(nodes)
        nodes.append([feature, threshold, missing_left])
        nodes[place] += [*added(left, channel), *added(right, channel)]
        return place, 0

    roots = []
    for tree in trees:
        for channel in np.flatnonzero(used_channels(tree)).tolist():
            roots.append(added(_with_root(tree), channel)[0])
    names = ("featureids", "splits", "missing_value_tracks_true", "truenodeids", "trueleafs",
             "falsenodeids", "falseleafs")  # fmt: skip
    columns = dict(zip(names, map(list, zip(*nodes, strict=True)), strict=True))
    columns["splits"] = np.array(columns["splits"], np.float64)  # type: ignore[assignment]
    targets, weights = zip(*leaves, strict=True)
    return {
        "n_targets": n_channels,
        "aggregate_function": 1,  # a sum
        "post_transform": 0,
        "tree_roots": roots,
        "nodes_modes": np.zeros(len(nodes), np.uint8),  # at most the threshold
        **{f"nodes_{name}": values for name, values in columns.items()},
        "leaf_targetids": list(targets),
        "leaf_weights": np.array(weights, np.float64),
    }


def _with_root(tree: Subtree) -> Subtree:
    """Return an equal tree whose root splits, and not into a leaf on the left side only.

    onnxruntime 1.21 to 1.23 adds up wrong leaves of the latter.
    """
    if isinstance(tree, np.ndarray):
        return 0, 0.0, tree, tree, 0
    if isinstance(tree[2], np.ndarray) and not isinstance(tree[3], np.ndarray):
        # All values are at most the largest number, and missing ones go left, too.
        return 0, float(np.finfo(np.float64).max), tree, np.zeros_like(tree[2]), 1
    return tree


def trees_of_table(table: LookupTable, dtype: np.dtype[Any]) -> Iterator[Subtree]:
    """Build a search tree for each used feature, with thresholds for rows of a type."""
    thresholds = rounded(table.thresholds, dtype)
    for u, feature in enumerate(table.features.tolist()):
        begin, end = table.indptr[u : u + 2]
        values = table.values[begin + u : end + u + 1]
        tree = _search_tree(feature, thresholds[begin:end], values)
        if table.missing is not None and (table.missing[u] != values[-1]).any():
            # A missing value is not at most the largest number.
            tree = (feature, float(np.finfo(dtype).max), tree, table.missing[u], 0)
        yield tree


def trees_of_ensemble(trees: WeightedTrees, dtype: np.dtype[Any]) -> Iterator[Subtree]:
    """Return the trees, without the nodes that do not split."""
    thresholds = rounded(trees.threshold, dtype)
    for t in range(len(trees.feature)):
        terms = slice(trees.indptr[t], trees.indptr[t + 1])
        leaves = np.zeros((trees.values.shape[1], trees.n_channels))
        np.add.at(leaves.T, trees.channels[terms], trees.values[terms])
        splits = np.isfinite(trees.threshold[t])
        nodes = trees.feature[t], thresholds[t], splits, trees.missing_left[t]
        yield _complete_tree(0, *nodes, leaves)


def rounded(thresholds: FloatArray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round thresholds to a type, so that they split numbers of it as before."""
    return single_thresholds(thresholds) if dtype == np.float32 else thresholds


def used_channels(tree: Subtree) -> NDArray[np.bool_]:
    """Return whether each channel has a leaf that is not 0."""
    if isinstance(tree, np.ndarray):
        return np.asarray(tree != 0)
    return used_channels(tree[2]) | used_channels(tree[3])


def _search_tree(feature: int, thresholds: NDArray[Any], values: FloatArray) -> Subtree:
    """Build a tree that halves the bins of one feature until one is left."""
    if not len(thresholds):
        return values[0]
    half = len(thresholds) // 2
    return (
        feature,
        float(thresholds[half]),
        _search_tree(feature, thresholds[:half], values[: half + 1]),
        _search_tree(feature, thresholds[half + 1 :], values[half + 1 :]),
        0,
    )


def _complete_tree(
    node: int,
    features: NDArray[Any],
    thresholds: NDArray[Any],
    splits: NDArray[np.bool_],
    missing_left: NDArray[np.uint8],
    leaves: FloatArray,
) -> Subtree:
    """Return the subtree at a node of a complete tree, with children 2 node + 1 and + 2."""
    if node >= len(splits):
        return leaves[node - len(splits)]
    left, right = (
        _complete_tree(child, features, thresholds, splits, missing_left, leaves)
        for child in (2 * node + 1, 2 * node + 2)
    )
    if not splits[node]:
        return left
    sides = left, right, int(missing_left[node])
    return (int(features[node]), float(thresholds[node]), *sides)
