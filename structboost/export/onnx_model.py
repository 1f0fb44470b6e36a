"""Export of models as ONNX graphs, for programs without Python or this library."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import singledispatchmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import structboost
from structboost.estimators.feature_importances import FeatureImportanceMixin
from structboost.export.onnx_trees import Subtree, TreeNodes, trees_of_ensemble, trees_of_table
from structboost.masters.registry import formulation_of
from structboost.masters.softmax_link import SoftmaxLink
from structboost.model.ensemble import Ensemble
from structboost.runtime.extras import require
from structboost.validation import shown
from structboost.weak.category_sets import SetColumns
from structboost.weak.lookup_table import LinearAndSteps, LookupTable, SumOfScorers
from structboost.weak.table import Scorer
from structboost.weak.weighted_trees import TreesWithSets, WeightedTrees

# Versions of the operators, old enough for the runtimes of the last years.
_OPSET, _ML_OPSET, _IR_VERSION = 17, 3, 8
_ML = "ai.onnx.ml"


def to_onnx(model: Any, *, kind: str | None = None) -> Any:
    """Convert a fitted model to ONNX, which predicts without Python or this library.

    The input ``X`` is a float32 tensor of shape (n, n_features).  Thresholds are rounded down to
    single precision, so each value of single precision goes to the same side as in this library;
    scores differ by the rounding of sums.  A value of double precision is rounded when it becomes
    an input.  A category is passed as its index in the estimator's ``categories_``, which the model
    also holds in its metadata; a missing or unknown one is NaN.

    Parameters
    ----------
    model : classifier, ranker or Ensemble
        A fitted estimator of tables, with stumps, trees, linear functions, single features, or
        lists of these; or ``StructBoost(...).model_``, of which the scores of parts are exported.
    kind : str, optional
        Kind of the parts of an Ensemble; required where it has several.

    Returns
    -------
    model : onnx.ModelProto
        The output ``scores`` equals ``decision_function``.  Classifiers also have ``label``, and
        ``probabilities`` where there is a ``predict_proba``.  Write it by ``onnx.save``.

    Raises
    ------
    MissingExtraError
        If the package ``onnx`` is not installed.
    TypeError
        If ``model`` has another type, its weak learners have no form in ONNX, it made columns of 0
        and 1 for categories or missing values, or it has one class.
    """
    require("onnx", "to_onnx")
    import onnx

    graph = _Graph(onnx)
    if isinstance(model, Ensemble):
        graph.output("scores", graph.scores(model.scorer(kind)))
        member = next(iter(model.members.values())) if kind is None else model.members[kind]
        n_features, names = member.n_features, None
    elif isinstance(model, FeatureImportanceMixin):
        check_is_fitted(model)
        _check_columns(model)
        _add_outputs(graph, model)
        estimator: Any = model
        n_features = estimator.n_features_in_
        names = getattr(model, "feature_names_in_", None)
        if getattr(model, "categories_", None):
            graph.facts["categories"] = json.dumps(estimator.categories_)
    else:
        raise TypeError(
            f"model is {shown(model)}; give a fitted classifier or ranker of tables, or the "
            "model_ of a StructBoost."
        )
    return graph.model(type(model).__name__, n_features, names)


def _check_columns(estimator: Any) -> None:
    """Raise TypeError if a graph cannot read the columns of the table, or there is one class."""
    encoding = getattr(estimator, "_encoding", None)
    if encoding is not None and encoding.adds_columns:
        raise TypeError(
            "The model has columns of 0 and 1 for categories or missing values "
            "(encoded_feature_names_), which an ONNX graph does not make; train on columns that "
            "you encoded, such as by sklearn.preprocessing.OneHotEncoder, or take stumps or trees."
        )
    if len(getattr(estimator, "classes_", (0, 1))) == 1:
        raise TypeError(
            f"The model always predicts its only class, {shown(estimator.classes_[0])}; train on "
            "at least two classes."
        )


def _add_outputs(graph: _Graph, estimator: Any) -> None:
    raw = graph.scores(estimator._scorer())
    # The decision function is linear in the scores of the channels.
    by_channel = estimator._decision(np.eye(graph.n_channels))
    if by_channel.ndim == 1 or not np.array_equal(by_channel, np.eye(graph.n_channels)):
        raw = graph.add("MatMul", raw, graph.constant(by_channel))
    graph.output("scores", raw)
    if not is_classifier(estimator) or get_tags(estimator).classifier_tags.multi_label:
        return
    is_binary = by_channel.ndim == 1
    if is_binary:
        index = graph.add("Cast", graph.add("Greater", raw, graph.constant(0.0)), to=7)
    else:
        index = graph.add("ArgMax", raw, axis=1, keepdims=0)
    if hasattr(estimator, "predict_proba"):
        if is_binary:
            column = graph.add("Unsqueeze", raw, graph.constant(np.array([1])))
            raw = graph.add("MatMul", column, graph.constant([[0.0, 1.0]]))
        probabilities = _probabilities(graph, raw, estimator)
        if (costs := estimator._class_costs()) is not None:
            expected = graph.add("MatMul", probabilities, graph.constant(costs))
            index = graph.add("ArgMin", expected, axis=1, keepdims=0)
    graph.output("label", graph.add("Gather", graph.constant(_labels(estimator.classes_)), index))
    if hasattr(estimator, "predict_proba"):
        graph.output("probabilities", probabilities)


def _probabilities(graph: _Graph, scores: str, estimator: Any) -> str:
    """Add nodes that compute ``link_.inverse`` of the estimator."""
    fallback = None if hasattr(estimator, "link_") else formulation_of(estimator._formulation())
    link: SoftmaxLink | None = estimator.link_ if fallback is None else fallback.link
    if link is None:
        raise TypeError(
            f"formulation is {shown(fallback)}, whose probabilities have no form in ONNX; "
            "export the model_ of the classifier, and compute them from its scores."
        )
    sharpened = graph.add("Mul", scores, graph.constant(link.sharpness))
    softmax = graph.add("Softmax", sharpened, axis=1)
    if not link.margin:
        return softmax
    factor = math.exp(link.margin)
    falling = graph.add("Mul", softmax, graph.constant(factor - 1.0))
    product = graph.add("Mul", softmax, graph.add("Sub", graph.constant(factor), falling))
    total = graph.add("ReduceSum", product, graph.constant(np.array([1])), keepdims=1)
    return graph.add("Div", product, total)


def _labels(classes: NDArray[Any]) -> NDArray[Any]:
    kind = classes.dtype.kind
    if kind in "US" or (kind == "O" and all(isinstance(label, str) for label in classes)):
        return classes.astype(str).astype(object)
    if kind in "iu":
        return classes.astype(np.int64)
    if kind in "fb":
        return classes
    raise TypeError(
        f"classes_ are {shown(classes.tolist())}, of a type that ONNX does not have; train with "
        "labels that are strings or numbers."
    )


class _Graph:
    """Nodes of an ONNX graph while they are collected."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: dict[str, str] = {}
        self.facts: dict[str, str] = {}
        self.n_channels = 0

    def scores(self, scorer: Scorer) -> str:
        """Add the scores of the rows of X, shape (n, n_channels)."""
        terms = _Terms(self)
        terms.take(scorer)
        outputs = terms.outputs
        if terms.trees is not None and terms.trees.n_trees:
            outputs.append(self.ensemble("X", terms.trees))
        if not outputs:
            nothing = np.zeros((terms.n_features, self.n_channels))
            outputs.append(self.add("MatMul", "X", self.constant(nothing)))
        total = outputs[0] if len(outputs) == 1 else self.add("Sum", *outputs)
        return self.add("Add", total, self.constant(terms.bias)) if np.any(terms.bias) else total

    def ensemble(self, rows: str, trees: TreeNodes) -> str:
        """Add the scores of rows by trees."""
        return self.add("TreeEnsembleRegressor", rows, domain=_ML, **trees.attributes())

    def hstack(self, rows: str, columns: SetColumns) -> str:
        """Append the columns of ``columns.beside`` to rows."""
        missing = columns.outside.shape[1] - 1
        first, last = self.constant(0.0), self.constant(float(missing))
        blocks = []
        for feature, outside in zip(columns.feature.tolist(), columns.outside, strict=True):
            column = self.add("Gather", rows, self.constant(np.array([feature])), axis=1)
            # Comparisons with NaN are false.
            is_category = self.add("GreaterOrEqual", column, first)
            is_category = self.add("And", is_category, self.add("Less", column, last))
            is_category = self.add(
                "And", is_category, self.add("Equal", column, self.add("Floor", column))
            )
            place = self.add("Cast", self.add("Where", is_category, column, last), to=7)
            blocks.append(self.add("Gather", self.constant(outside), place))
        return self.add("Concat", rows, *blocks, axis=1)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output, and return the output's name."""
        name = f"{operator}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], name, **attributes)
        self._nodes.append(node)
        return name

    def constant(self, value: Any) -> str:
        """Append an array, in single precision if it is double, and return its name."""
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def output(self, name: str, made_by: str) -> None:
        """Declare an output of the graph."""
        self._outputs[name] = made_by

    def model(self, name: str, n_features: int, feature_names: Iterable[Any] | None) -> Any:
        """Build and check the model."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        nodes = [helper.make_node("Identity", [name], [out]) for out, name in self._outputs.items()]
        rows = helper.make_tensor_value_info("X", types.FLOAT, ["n", n_features])
        outputs = [helper.make_empty_tensor_value_info(out) for out in self._outputs]
        graph = helper.make_graph(
            [*self._nodes, *nodes], name, [rows], outputs, initializer=self._constants
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_ML, _ML_OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="structboost",
            producer_version=structboost.__version__,
        )  # fmt: skip
        if feature_names is not None:
            self.facts["feature_names"] = json.dumps(list(feature_names))
        helper.set_model_props(model, self.facts)
        model = self._onnx.shape_inference.infer_shapes(model)
        self._onnx.checker.check_model(model)
        return model


class _Terms:
    """Terms of a scorer while they are collected, with a method for each form of scorer.

    Parameters
    ----------
    graph : _Graph

    Attributes
    ----------
    outputs : list of str
        Names of scores in the graph.
    trees : TreeNodes or None
        Trees that read X, of all terms together.
    bias : ndarray or float
        Constant that is added to all scores.
    n_features : int
        Number of features of X, as far as the terms use them.
    """

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        self.outputs: list[str] = []
        self.trees: TreeNodes | None = None
        self.bias: Any = 0.0
        self.n_features = 0

    @singledispatchmethod
    def take(self, scorer: Any) -> None:
        """Collect a scorer.

        Raises
        ------
        TypeError
            If ``scorer`` has no form in ONNX.
        """
        raise TypeError(
            "These weak learners have no form in ONNX; 'stump', 'pair_tree', 'tree', 'linear', "
            "'feature' and lists of these have."
        )

    @take.register
    def _take_sum(self, scorer: SumOfScorers) -> None:
        for term in scorer.terms:
            self.take(term)

    @take.register
    def _take_trees(self, scorer: WeightedTrees) -> None:
        self._add_trees(scorer.n_channels, trees_of_ensemble(scorer))

    @take.register
    def _take_trees_with_sets(self, scorer: TreesWithSets) -> None:
        """Add trees that read columns of sets after the features."""
        trees = _Terms(self._graph)
        trees.take(scorer.trees)
        assert trees.trees is not None
        rows = self._graph.hstack("X", scorer.columns)
        self.outputs.append(self._graph.ensemble(rows, trees.trees))

    @take.register
    def _take_steps(self, scorer: LookupTable) -> None:
        self._add_trees(len(scorer.bias), trees_of_table(scorer))
        self.bias = self.bias + scorer.bias
        self.n_features = max(self.n_features, scorer.n_features)

    @take.register
    def _take_linear_and_steps(self, scorer: LinearAndSteps) -> None:
        self._take_steps(scorer.steps)
        if not scorer.coefficients.any():
            return
        # Around the middle of the features, products are small, so rounding loses less.
        middle = np.zeros(len(scorer.coefficients))
        if scorer.span is not None:
            middle = scorer.span.mean(axis=0).astype(np.float32)
        graph = self._graph
        rows = graph.add("Sub", "X", graph.constant(middle))
        self.outputs.append(graph.add("MatMul", rows, graph.constant(scorer.coefficients)))
        self.bias = self.bias + middle @ scorer.coefficients

    def _add_trees(self, n_channels: int, added: Iterable[Subtree]) -> None:
        self._graph.n_channels = n_channels
        self.trees = self.trees or TreeNodes(n_channels)
        for tree in added:
            self.trees.add(tree)
