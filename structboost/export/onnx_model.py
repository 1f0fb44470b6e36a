"""Export of models as ONNX graphs, for programs without Python or this library.

Trees and look-up tables are complete trees of the operator TreeEnsemble, one for each channel.  A
look-up table is a tree that halves the bins of a feature.  Its last thresholds are the largest
number, beyond which missing values alone come.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

import structboost
from structboost._typing import AnyArray, FloatArray
from structboost.faces.columns import ColumnEncoding
from structboost.faces.linear import StructuredSVMClassifier
from structboost.faces.multi_label import StructBoostMultiLabelClassifier
from structboost.faces.tables import TableFace
from structboost.learners.binning import MOST_CATEGORIES, flags_of
from structboost.learners.feature import ActiveFeatureScores
from structboost.learners.linear import HyperplaneTable
from structboost.learners.table import LookupTable, SumOfScorers, WeightedLearners
from structboost.learners.tree_table import OF_SET, WeightedTrees, single_thresholds
from structboost.model.ensemble import Ensemble
from structboost.objectives.base import SoftmaxLink
from structboost.runtime.registry import require
from structboost.validation import checked_choice, shown

# Versions of the operators.  The sums of trees have double precision from the second one on.
_OPSETS, _IR_VERSION = {"": 17, "ai.onnx.ml": 5}, 8

# Complete trees of one depth: features, thresholds and whether missing values go left, each of
# shape (n_trees, n_nodes), values of the leaves, shape (n_trees, n_leaves), and channels.
_Trees = tuple[AnyArray, AnyArray, AnyArray, FloatArray, AnyArray]


def to_onnx(model: Any, kind: str | None = None, *, dtype: Any = "float32") -> Any:
    """Convert a fitted model to ONNX, which predicts without Python or this library.

    The input ``X`` is a tensor of shape (n, n_features).  In single precision thresholds are
    rounded down, so each value of single precision goes to the same side as in this library; scores
    differ by the rounding of sums.  With ``dtype="float64"`` thresholds and sums have double
    precision, as here.  A category is passed as its index in the estimator's ``categories_``, which
    the model also holds in its metadata; a missing or unknown one is NaN.

    Parameters
    ----------
    model : estimator or Ensemble
        A fitted classifier or ranker of this library, or the ``model_`` of a trainer or another
        face, of which the scores of parts are exported.  Export the last step of a pipeline, and
        convert the steps before it elsewhere.
    kind : str, optional
        Kind of the parts of an Ensemble; required where it has several.
    dtype : {"float32", "float64"}
        Type of the numbers of inputs and outputs.

    Returns
    -------
    model : onnx.ModelProto
        The outputs are listed in the guide (docs/explain-and-export.md).  Write it by
        ``onnx.save``.  Runtimes need the operators ai.onnx.ml 5, as onnxruntime 1.21 has.

    Raises
    ------
    MissingExtraError
        If the package ``onnx`` is not installed.
    TypeError, ValueError
        If ``model`` or a part of it has no form in ONNX, or an argument does not fit the model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import StructBoostClassifier, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> exported = to_onnx(StructBoostClassifier(max_iter=5).fit(X, y))
    >>> [output.name for output in exported.graph.output]
    ['label', 'scores', 'probabilities']
    """
    require("onnx", "to_onnx", "onnx")
    name = checked_choice(getattr(dtype, "__name__", str(dtype)), "dtype", ("float32", "float64"))
    kinds = list(getattr(model, "members", ()))
    if kind is not None and kind not in kinds:
        raise ValueError(
            f"kind is {shown(kind)}, which names no parts of an Ensemble (here {kinds}); leave it "
            "out.  A file is written by onnx.save(to_onnx(model), 'model.onnx')."
        )
    if isinstance(model, Ensemble):
        scorer = model.scorer(kind)
        kind = kind or next(iter(model.members))
        graph = _Graph(np.dtype(name), model.members[kind].n_features)
        return graph.model({"scores": _scores(graph, scorer, "X", model.kinds[kind].n_channels)})
    is_table = isinstance(model, StructuredSVMClassifier | TableFace)
    if not is_table or isinstance(model, StructBoostMultiLabelClassifier):
        raise TypeError(
            f"model is {shown(model)}, which has no form in ONNX; give a fitted classifier or "
            "ranker of this library, such as the last step of a Pipeline, whose other steps you "
            "convert elsewhere, or the model_ of any other face or trainer."
        )
    check_is_fitted(model)
    columns = model._columns
    graph = _Graph(np.dtype(name), columns.n_features)
    if columns.names is not None:
        graph.facts["feature_names"] = columns.names
    if columns.categories:
        graph.facts["categories"] = columns.categories
    n_channels = model.model_.kinds["x"].n_channels
    scores = _scores(graph, model.model_.scorer(), _encoded(graph, columns.encoding), n_channels)
    # The decision function is linear in the scores of the channels.
    by_channel = model._decision(np.eye(n_channels))
    scores = graph.add("MatMul", scores, by_channel.reshape(n_channels, -1))
    if by_channel.ndim == 1:
        scores = graph.add("Squeeze", scores, np.array([1]))
    return graph.model(
        _classes(graph, model, scores) if is_classifier(model) else {"scores": scores}
    )


class _Graph:
    """Nodes of a graph while they are collected, whose numbers have one type.

    Its input is ``X``, and ``facts`` is metadata of the model, in the form of JSON.  Numbers inside
    have the type ``dtype``, which may become more precise than that of inputs and outputs.
    """

    def __init__(self, dtype: np.dtype[Any], n_features: int) -> None:
        self.dtype, self._outside, self._n_features = dtype, dtype, n_features
        self.facts: dict[str, Any] = {}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Append a node with one output, and return the output's name.

        Inputs are names of values, or constants.
        """
        from onnx import helper

        name = f"{operator}_{len(self._nodes)}"
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        self._nodes.append(helper.make_node(operator, names, [name], name, **attributes))
        return name

    def _constant(self, value: Any) -> str:
        """Append an array, whose floating-point numbers get the type of the graph."""
        from onnx import numpy_helper

        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: Any = None) -> str:
        """Convert a value, by default to the type of numbers in the graph."""
        from onnx import helper

        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(dtype or self.dtype))

    def columns(self, rows: str, indices: AnyArray) -> str:
        """Select columns of a table."""
        return self.add("Gather", rows, indices.astype(np.int64), axis=1)

    def repeated(self, row: AnyArray, rows: str) -> str:
        """Repeat one row of numbers for each row of a table."""
        size = self.add("Shape", rows, start=0, end=1)
        shape = self.add("Concat", size, np.array(row.shape, np.int64), axis=0)
        return self.add("Expand", row, shape)

    def trees(self, rows: str, trees: Sequence[_Trees], n_channels: int) -> str:
        """Add up complete trees, shape (n, n_channels)."""
        from onnx import numpy_helper

        columns: dict[str, list[AnyArray]] = defaultdict(list)
        n_nodes_before = n_leaves_before = 0
        for feature, threshold, missing_left, values, channels in trees:
            n_trees, n_nodes = feature.shape
            first_node = n_nodes_before + n_nodes * np.arange(n_trees)
            first_leaf = n_leaves_before + (n_nodes + 1) * np.arange(n_trees)
            n_nodes_before += feature.size
            n_leaves_before += values.size
            for side, first_child in (("true", 1), ("false", 2)):
                child = 2 * np.arange(n_nodes) + first_child
                is_leaf = child >= n_nodes
                first = np.where(is_leaf, first_leaf[:, None] - n_nodes, first_node[:, None])
                columns[f"nodes_{side}nodeids"].append(first + child)
                columns[f"nodes_{side}leafs"].append(np.tile(is_leaf, n_trees))
            columns["tree_roots"].append(first_node)
            columns["nodes_featureids"].append(feature)
            columns["nodes_missing_value_tracks_true"].append(missing_left)
            columns["nodes_splits"].append(threshold)
            columns["leaf_targetids"].append(np.repeat(channels, n_nodes + 1))
            columns["leaf_weights"].append(values)
        attributes = {
            name: np.concatenate(list(map(np.ravel, parts))) for name, parts in columns.items()
        }
        tensors = {
            name: attributes.pop(name).astype(self.dtype)
            for name in ("nodes_splits", "leaf_weights")
        }
        tensors["nodes_modes"] = np.zeros(n_nodes_before, np.uint8)  # at most the threshold
        return self.add(
            "TreeEnsemble",
            rows,
            domain="ai.onnx.ml",
            n_targets=n_channels,
            aggregate_function=1,  # a sum
            post_transform=0,
            **{name: numpy_helper.from_array(array, name) for name, array in tensors.items()},
            **{name: array.astype(int).tolist() for name, array in attributes.items()},
        )

    def model(self, outputs: dict[str, str]) -> Any:
        """Build and check the model with these outputs, in their order."""
        import onnx
        from onnx import helper

        self.dtype = self._outside
        named = [
            helper.make_node("Identity", [value if name == "label" else self.cast(value)], [name])
            for name, value in outputs.items()
        ]
        element = helper.np_dtype_to_tensor_dtype(self.dtype)
        graph = helper.make_graph(
            [*self._nodes, *named],
            "structboost",
            [helper.make_tensor_value_info("X", element, ["n", self._n_features])],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            initializer=self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in _OPSETS.items()],
            ir_version=_IR_VERSION,
            producer_name="structboost",
            producer_version=structboost.__version__,
        )
        helper.set_model_props(model, {key: json.dumps(fact) for key, fact in self.facts.items()})
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model)
        return model


def _encoded(graph: _Graph, encoding: ColumnEncoding | None) -> str:
    """Add the columns of 0 and 1 for categories and missing values, as in training."""
    filled = "X"
    if encoding is None:
        return filled
    is_missing = graph.add("IsNaN", "X")
    if encoding.means is not None:
        # In single precision a mean may be far from what training filled in.
        graph.dtype = np.dtype(np.float64)
        filled = graph.add("Where", is_missing, np.array(encoding.means), graph.cast("X"))
    if not encoding.adds_columns:
        return filled
    sizes = np.array(encoding.n_categories)
    plain, marked = np.flatnonzero(sizes < 0), np.flatnonzero(encoding.is_marked)
    of_code = np.repeat(np.arange(len(sizes)), np.maximum(sizes, 0))
    codes = np.concatenate([np.arange(size) * 1.0 for size in sizes])
    # NaN equals no code.
    is_code = graph.add("Equal", graph.cast(graph.columns("X", of_code)), codes)
    blocks = (
        graph.columns(filled, plain),
        graph.cast(graph.columns(is_missing, marked)),
        graph.cast(is_code),
    )
    # Order of the encoded columns: by feature, and numbers before their marks.
    order = np.concatenate((plain, marked + 0.5, of_code))
    return graph.columns(graph.add("Concat", *blocks, axis=1), np.argsort(order, kind="stable"))


def _scores(graph: _Graph, scorer: Any, rows: str, n_channels: int) -> str:
    """Add the scores of rows, shape (n, n_channels).

    TypeError if the scorer has no form in ONNX.
    """
    bias = np.zeros(n_channels)
    terms, trees = [], []
    for term in scorer.terms if isinstance(scorer, SumOfScorers) else [scorer]:
        match term:
            case WeightedTrees() if (term.side == OF_SET).any():
                # Trees that read columns of sets before the features are a graph of their own.
                terms.append(_scores(graph, *_by_columns(graph, term, rows), n_channels))
            case WeightedTrees():
                trees.append(_trees_of_ensemble(term, graph.dtype))
            case LookupTable():
                trees += _trees_of_table(term, graph.dtype)
                bias += term.bias
                if term.coefficients is not None and term.coefficients.any():
                    # Around the middle of the features, products are small, so rounding loses less.
                    middle = np.zeros(len(term.coefficients))
                    if term.span is not None:
                        middle = term.span.mean(axis=0).astype(graph.dtype)
                    centred = graph.add("Sub", rows, middle)
                    terms.append(graph.add("MatMul", centred, term.coefficients))
                    bias += middle @ term.coefficients
            case ActiveFeatureScores():
                # Weights of features of 0 and 1, of which some have none.
                used = np.flatnonzero(term.place >= 0)
                gains = term.gains[term.place[used]]
                terms.append(graph.add("MatMul", graph.columns(rows, used), gains))
                bias += term.base
            case WeightedLearners(learners=HyperplaneTable() as planes):
                side = graph.add("MatMul", rows, planes.coefficients.T)
                is_right = graph.add("Greater", side, -planes.intercept)
                step = (planes.right - planes.left)[:, None] * term.weights
                terms.append(graph.add("MatMul", graph.cast(is_right), step))
                bias += planes.left @ term.weights
            case _:
                learners = getattr(term, "learners", term)
                raise TypeError(
                    f"Weak learners of the type {type(learners).__name__} have no form in ONNX; "
                    "train with 'stump', 'pair_tree', 'tree', 'linear', 'feature', 'lda', 'svm', "
                    "'perceptron', or a list of these."
                )
    if any(values.size for *_, values, _ in trees):
        terms.append(graph.trees(rows, trees, n_channels))
    return graph.add("Sum", *terms, graph.repeated(bias, rows))


def _trees_of_ensemble(trees: WeightedTrees, dtype: np.dtype[Any]) -> _Trees:
    """Return a tree for each term, whose nodes that do not split send all rows left."""
    splits = np.isfinite(trees.threshold)
    threshold = _rounded(trees.threshold, dtype)
    index = np.repeat(np.arange(len(splits)), np.diff(trees.indptr))
    missing_left = (trees.side > 0) | ~splits
    nodes = trees.feature[index], threshold[index], missing_left[index]
    return (*nodes, trees.values, trees.channels)


def _trees_of_table(table: LookupTable, dtype: np.dtype[Any]) -> Iterator[_Trees]:
    """Yield the search trees of each used feature, one per channel."""
    n_channels = table.values.shape[1]
    for u, feature in enumerate(table.features.tolist()):
        begin, end = table.indptr[u : u + 2].tolist()
        depth = (end - begin + 1).bit_length()
        levels = [np.arange(1 << d) * (2 << (depth - d)) + (1 << (depth - d)) for d in range(depth)]
        order = np.concatenate(levels) // 2 - 1
        shape = n_channels, len(order)
        thresholds = np.full(len(order), np.inf)
        thresholds[: end - begin] = table.thresholds[begin:end]
        values = table.values[begin + u : end + u + 1]
        last = table.missing[u : u + 1].repeat(len(order) + 1 - len(values), axis=0)
        values = np.concatenate((values, last))
        yield (
            np.full(shape, feature),
            np.tile(_rounded(thresholds, dtype)[order], (n_channels, 1)),
            np.zeros(shape, bool),
            values.T,
            np.arange(n_channels),
        )


def _rounded(thresholds: FloatArray, dtype: np.dtype[Any]) -> AnyArray:
    """Round thresholds to a type, so that they split numbers of it as before."""
    rounded = single_thresholds(thresholds) if dtype == np.float32 else thresholds
    return np.where(np.isfinite(thresholds), rounded, np.finfo(dtype).max)


def _by_columns(graph: _Graph, trees: WeightedTrees, rows: str) -> tuple[WeightedTrees, str]:
    """Replace sets of trees by columns before the rows, 1 outside of a set and 0 in it."""
    by_set = trees.side == OF_SET
    keys = np.column_stack((trees.feature[by_set].astype(np.uint64), trees.sets[by_set]))
    distinct, place = np.unique(keys, axis=0, return_inverse=True)
    missing = float(MOST_CATEGORIES)
    blocks = []
    for outside, (f, *_) in zip(1.0 - flags_of(distinct[:, 1:]), distinct.tolist(), strict=True):
        column = graph.columns(rows, np.array([f]))
        # NaN equals nothing.
        nearest = graph.add("Clip", graph.add("Floor", column), 0.0, missing)
        is_category = graph.add("Equal", column, nearest)
        code = graph.cast(graph.add("Where", is_category, column, missing), np.dtype(np.int64))
        blocks.append(graph.add("Gather", outside, code))
    feature = trees.feature + len(distinct)
    feature[by_set] = place.reshape(-1)
    of_columns = replace(trees, feature=feature, side=np.where(by_set, 0, trees.side))
    return of_columns, graph.add("Concat", *blocks, rows, axis=1)


def _classes(graph: _Graph, estimator: Any, scores: str) -> dict[str, str]:
    """Add labels and probabilities of a classifier to its decision function."""
    classes = estimator.classes_
    outputs = {"label": "", "scores": scores}
    if len(classes) <= 2:
        index = graph.cast(graph.add("Greater", scores, 0.0), np.dtype(np.int64))
        column = graph.add("Unsqueeze", scores, np.array([1]))
        scores = graph.add("MatMul", column, np.eye(len(classes))[-1:])
    else:
        index = graph.add("ArgMax", scores, axis=1, keepdims=0)
    if hasattr(estimator, "predict_proba"):
        outputs["probabilities"] = _probabilities(graph, scores, estimator.link_)
        if (costs := estimator._class_costs()) is not None:
            expected = graph.add("MatMul", outputs["probabilities"], costs)
            index = graph.add("ArgMin", expected, axis=1, keepdims=0)
    if classes.dtype.kind in "OUS":
        if not all(isinstance(label, str) for label in classes.tolist()):
            raise TypeError(
                f"classes_ are {shown(classes.tolist())}, of a type that ONNX does not have; train "
                "with labels that are strings or numbers."
            )
        classes = classes.astype(object)
    outputs["label"] = graph.add("Gather", classes, index)
    return outputs


def _probabilities(graph: _Graph, scores: str, link: SoftmaxLink) -> str:
    """Add ``link.inverse`` of scores."""
    softmax = graph.add("Softmax", graph.add("Mul", scores, link.sharpness), axis=1)
    if not link.margin:
        return softmax
    factor = math.exp(link.margin)
    falling = graph.add("Mul", softmax, factor - 1.0)
    product = graph.add("Mul", softmax, graph.add("Sub", factor, falling))
    total = graph.add("ReduceSum", product, np.array([1]), keepdims=1)
    return graph.add("Div", product, total)
