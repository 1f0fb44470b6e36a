"""ONNX graph while its nodes are collected, with trees and look-up tables as tree ensembles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import structboost
from structboost._typing import AnyArray, BoolArray, ByteArray, FloatArray
from structboost.learners.binning import SetColumns
from structboost.learners.table import LookupTable
from structboost.learners.tree_table import WeightedTrees, single_thresholds

# A leaf is an array with its value for each channel.  An inner node has a feature, a threshold, the
# subtrees of values up to the threshold and above, and whether missing values go to the former.
Subtree = Any


def attributes_of_trees(trees: Sequence[Subtree], n_channels: int) -> dict[str, Any]:
    """Return the attributes of the operator ``TreeEnsembleRegressor``."""
    nodes: list[Any] = []
    targets: list[Any] = []

    def add(tree: Subtree, t: int, first: int) -> int:
        """Add a subtree, and return the index of its root in the tree."""
        n = len(nodes) - first
        if isinstance(tree, np.ndarray):
            nodes.append((t, n, 0, "LEAF", 0.0, 0, 0, 0))
            # A leaf without any value needs an entry as well.
            used = np.flatnonzero(tree).tolist() or [0]
            targets.extend((t, n, channel, float(tree[channel])) for channel in used)
            return n
        feature, threshold, left, right, missing = tree
        nodes.append(None)
        sides = add(left, t, first), add(right, t, first)
        nodes[first + n] = (t, n, feature, "BRANCH_LEQ", threshold, *sides, missing)
        return n

    for t, tree in enumerate(trees):
        add(tree, t, len(nodes))
    names = (
        "treeids nodeids featureids modes values truenodeids falsenodeids missing_value_tracks_true"
    )
    return {
        "n_targets": n_channels,
        **_columns("nodes_", names, nodes),
        **_columns("target_", "treeids nodeids ids weights", targets),
    }


def _columns(prefix: str, names: str, rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    columns = zip(*rows, strict=True)
    return {
        prefix + name: list(column) for name, column in zip(names.split(), columns, strict=True)
    }


def attributes_of_double_trees(trees: Sequence[Subtree], n_channels: int) -> dict[str, Any]:
    """Return the attributes of the operator ``TreeEnsemble``, whose leaves have one channel each.

    A tree of several channels becomes one tree for each of them.
    """
    nodes: list[Any] = []
    leaves: list[tuple[int, float]] = []

    def add(tree: Subtree, channel: int) -> tuple[int, int]:
        """Add a subtree, and return its index among nodes or leaves, and whether it is a leaf."""
        if isinstance(tree, np.ndarray):
            leaves.append((channel, float(tree[channel])))
            return len(leaves) - 1, 1
        feature, threshold, left, right, missing = tree
        place = len(nodes)
        nodes.append(None)
        sides = *add(left, channel), *add(right, channel)
        nodes[place] = (feature, threshold, missing, *sides)
        return place, 0

    roots = [
        add(_with_root(tree), channel)[0]
        for tree in trees
        for channel in np.flatnonzero(used_channels(tree)).tolist()
    ]
    names = (
        "featureids splits missing_value_tracks_true truenodeids trueleafs falsenodeids falseleafs"
    )
    attributes: dict[str, Any] = {
        "n_targets": n_channels,
        "aggregate_function": 1,  # a sum
        "post_transform": 0,
        "tree_roots": roots,
        "nodes_modes": np.zeros(len(nodes), np.uint8),  # at most the threshold
        **_columns("nodes_", names, nodes),
        **_columns("leaf_", "targetids weights", leaves),
    }
    for name in ("nodes_splits", "leaf_weights"):
        attributes[name] = np.array(attributes[name], np.float64)
    return attributes


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


def rounded(thresholds: FloatArray, dtype: np.dtype[Any]) -> AnyArray:
    """Round thresholds to a type, so that they split numbers of it as before."""
    return single_thresholds(thresholds) if dtype == np.float32 else thresholds


def used_channels(tree: Subtree) -> BoolArray:
    """Return whether each channel has a leaf that is not 0."""
    if isinstance(tree, np.ndarray):
        return np.asarray(tree != 0)
    return used_channels(tree[2]) | used_channels(tree[3])


def _search_tree(feature: int, thresholds: AnyArray, values: FloatArray) -> Subtree:
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
    features: AnyArray,
    thresholds: AnyArray,
    splits: BoolArray,
    missing_left: ByteArray,
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


# Versions of the operators, old enough for the runtimes of the last years.  The sums of trees are
# of double precision in the second version only.
_OPSET, _ML_OPSETS, _IR_VERSION = 17, {"float32": 3, "float64": 5}, 8
_ML = "ai.onnx.ml"


class Graph:
    """Nodes of an ONNX graph while they are collected.

    Parameters
    ----------
    onnx : module
    dtype : numpy.dtype
        Type of numbers of inputs and outputs, float32 or float64.

    Attributes
    ----------
    dtype : numpy.dtype
        Type of numbers of inputs and outputs, and in the graph.
    facts : dict of str to list or dict
        Metadata of the model, in the form of JSON.
    opsets : dict of str to int
        Version of each set of operators.
    """

    def __init__(self, onnx: Any, dtype: np.dtype[Any]) -> None:
        self._onnx = onnx
        self.dtype = dtype
        self.facts: dict[str, Any] = {}
        self.opsets = {"": _OPSET, _ML: _ML_OPSETS[dtype.name]}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: dict[str, Any] = {}

    def input(self, name: str, shape: Sequence[Any], dtype: Any = None) -> str:
        """Declare an input, by default of numbers, and return its name."""
        helper = self._onnx.helper
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        self._inputs[name] = helper.make_tensor_value_info(name, element, list(shape))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output, and return the output's name."""
        name = f"{operator}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], name, **attributes)
        self._nodes.append(node)
        return name

    def constant(self, value: Any) -> str:
        """Append an array, whose floating-point numbers get the type of the graph."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                array = array.astype(self.dtype)
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: Any = None) -> str:
        """Convert a value, by default to the type of numbers in the graph."""
        element = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        return self.add("Cast", value, to=element)

    def columns(self, rows: str, indices: Any) -> str:
        """Select columns of a table."""
        return self.add("Gather", rows, self.constant(np.asarray(indices, np.int64)), axis=1)

    def repeated(self, values: Any, rows: str) -> str:
        """Repeat one row of numbers for each row of a table, whatever that holds."""
        row = np.asarray(values)
        size = self.add("Shape", rows, start=0, end=1)
        shape = self.add("Concat", size, self.constant(np.array(row.shape, np.int64)), axis=0)
        return self.add("Expand", self.constant(row), shape)

    def ensemble(self, rows: str, trees: Sequence[Subtree], n_channels: int) -> str:
        """Add up trees, shape (n, n_channels)."""
        if self.dtype == np.float32:
            attributes = attributes_of_trees(trees, n_channels)
            return self.add("TreeEnsembleRegressor", rows, domain=_ML, **attributes)
        as_tensor = self._onnx.numpy_helper.from_array
        attributes = {
            name: as_tensor(value, name) if isinstance(value, np.ndarray) else value
            for name, value in attributes_of_double_trees(trees, n_channels).items()
        }
        return self.add("TreeEnsemble", rows, domain=_ML, **attributes)

    def codes(self, column: str, codes: Mapping[Any, int]) -> str:
        """Replace the categories of a column by their codes, and all other values by NaN."""
        kind = "strings" if isinstance(next(iter(codes)), str) else "int64s"
        coded = self.add(
            "LabelEncoder", column, domain=_ML, default_float=float("nan"),
            values_floats=[float(code) for code in codes.values()],
            **{f"keys_{kind}": list(codes)},
        )  # fmt: skip
        return self.cast(coded)

    def hstack_sets(self, rows: str, columns: SetColumns) -> str:
        """Append the columns of ``columns.beside`` to rows."""
        missing = columns.outside.shape[1] - 1
        first, last = self.constant(0.0), self.constant(float(missing))
        blocks = []
        for feature, outside in zip(columns.feature.tolist(), columns.outside, strict=True):
            column = self.columns(rows, [feature])
            # Comparisons with NaN are false.
            is_category = self.add("GreaterOrEqual", column, first)
            is_category = self.add("And", is_category, self.add("Less", column, last))
            is_whole = self.add("Equal", column, self.add("Floor", column))
            is_category = self.add("And", is_category, is_whole)
            code = self.cast(self.add("Where", is_category, column, last), np.int64)
            blocks.append(self.add("Gather", self.constant(outside), code))
        return self.add("Concat", rows, *blocks, axis=1)

    def model(self, name: str, outputs: Mapping[str, str]) -> Any:
        """Build and check the model with these outputs, in their order.

        Raises
        ------
        ValueError
            If an input has the name of an output.
        """
        both = sorted(self._inputs.keys() & outputs.keys())
        if both:
            raise ValueError(
                f"X has the column {both[0]!r}, which is the name of an output; rename it."
            )
        helper = self._onnx.helper
        named = [helper.make_node("Identity", [of], [out]) for out, of in outputs.items()]
        graph = helper.make_graph(
            [*self._nodes, *named],
            name,
            list(self._inputs.values()),
            [helper.make_empty_tensor_value_info(out) for out in outputs],
            initializer=self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in self.opsets.items()],
            ir_version=_IR_VERSION,
            producer_name="structboost",
            producer_version=structboost.__version__,
        )
        helper.set_model_props(model, {key: json.dumps(fact) for key, fact in self.facts.items()})
        model = self._onnx.shape_inference.infer_shapes(model)
        self._onnx.checker.check_model(model)
        return model
