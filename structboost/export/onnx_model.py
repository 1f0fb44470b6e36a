"""Export of models as ONNX graphs, for programs without Python or this library."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from structboost._typing import AnyArray, FloatArray
from structboost.export.onnx_graph import (
    Graph,
    Subtree,
    trees_of_ensemble,
    trees_of_table,
    used_channels,
)
from structboost.faces.columns import ColumnEncoding, RareCategories
from structboost.faces.forms import frame_of
from structboost.faces.linear import StructuredSVMClassifier
from structboost.faces.multi_label import StructBoostMultiLabelClassifier
from structboost.faces.tables import TableFace
from structboost.faces.tagger import StructBoostTagger
from structboost.learners.active_feature import ActiveFeatureScores
from structboost.learners.binning import SetColumns
from structboost.learners.linear import HyperplaneTable
from structboost.learners.table import LookupTable, Scorer, SumOfScorers, WeightedLearners
from structboost.learners.tree_table import WeightedTrees
from structboost.model.ensemble import Ensemble
from structboost.objectives.base import SoftmaxLink
from structboost.runtime.registry import require
from structboost.tasks.chunk_tags import ChunkTags
from structboost.tasks.hierarchical import HierarchicalMultiLabelTask
from structboost.validation import array_of, checked_choice, shown


class GraphInputs:
    """Inputs of a graph, which are one table ``X`` or the columns of a data frame.

    Parameters
    ----------
    graph : Graph
    sample : array-like or data frame, optional
        Rows as the model will read them.

    Raises
    ------
    TypeError
        If the sample is an array of text.
    """

    def __init__(self, graph: Graph, sample: Any = None) -> None:
        self.graph = graph
        self._rows: str | None = None
        self._shape: tuple[int, ...] = ()
        self.types: dict[str, Any] = {}
        frame = None if sample is None else frame_of(sample)
        if frame is not None:
            self.types = {name: _type_of(frame[name], graph) for name in frame.columns}
            for name, dtype in self.types.items():
                graph.input(name, ["n", 1], dtype)
        elif sample is not None:
            array = array_of(sample)
            if array.dtype.kind in "OUS" and any(isinstance(one, str) for one in array.flat):
                raise TypeError("X is an array of text; give a data frame, or leave X out.")
            self._shape = array.shape

    def rows(self, shape: Sequence[Any]) -> str:
        """Return the table X, which the first call declares with the shape."""
        if self.types:
            raise TypeError(
                f"X is a data frame with the columns {shown(list(self.types))}, and the model "
                "reads one table of numbers; leave X out."
            )
        width = shape[-1]
        if len(self._shape) == 2 and isinstance(width, int) and self._shape[1] != width:
            raise ValueError(
                f"X has shape {self._shape}, and the model was trained on {width} columns; give "
                "rows of the training set."
            )
        if self._rows is None:
            self._rows = self.graph.input("X", shape)
        return self._rows

    def numbers(
        self,
        n_features: int,
        names: Sequence[Any] | None = None,
        categories: Mapping[int, Sequence[Any]] | None = None,
    ) -> str:
        """Return a table of numbers and codes of categories, as estimators of tables read it.

        Raises
        ------
        ValueError, TypeError
            If columns are not those of training, or one holds neither numbers nor categories of the
            training set.
        """
        if not self.types:
            return self.rows(["n", n_features])
        names = self._names(n_features, names)
        columns = [self._column(name, (categories or {}).get(i)) for i, name in enumerate(names)]
        return self.graph.add("Concat", *columns, axis=1)

    def _names(self, n_features: int, names: Sequence[Any] | None) -> list[str]:
        """Return the names of the inputs in the order of training."""
        names = list(self.types) if names is None else [str(name) for name in names]
        if self.types.keys() != set(names) or len(names) != n_features:
            raise ValueError(
                f"X has the columns {shown(list(self.types))}, and the model was trained on "
                f"{n_features} columns, {shown(names)}; give a row of the training set."
            )
        return names

    def _column(self, name: str, categories: Sequence[Any] | None) -> str:
        dtype = self.types[name]
        if categories is None:
            if dtype.kind == "O":
                raise TypeError(f"X has text in the column {name!r}, where training had numbers.")
            return self.graph.cast(name)
        codes: dict[Any, int] = {}
        for code, value in enumerate(categories):
            # Rare categories share one code.
            for one in value if isinstance(value, RareCategories) else (value,):
                codes[one] = code
        is_text = {isinstance(one, str) for one in codes}
        if dtype.kind not in "Oi" or is_text != {dtype.kind == "O"}:
            raise TypeError(
                f"X has categories in the column {name!r} that are neither all text nor all whole "
                "numbers, as ONNX needs them; leave X out, and give the codes of categories_."
            )
        return self.graph.codes(name, codes)


def _type_of(column: Any, graph: Graph) -> np.dtype[Any]:
    """Return the type of an input for a column of a data frame."""
    if column.dtype.is_float():
        return graph.dtype
    values = column.drop_nulls()
    if column.dtype.is_integer() or column.dtype == nw.Boolean:
        # Missing values of whole numbers are NaN.  Nullable columns of pandas may have some in
        # other rows.
        is_nullable = hasattr(getattr(column.to_native(), "dtype", None), "na_value")
        is_whole = len(values) == len(column) and not is_nullable
        return np.dtype(np.int64) if is_whole else graph.dtype
    first = values[0] if len(values) else ""
    return np.dtype(object if isinstance(first, str) else np.int64)


def encoded(graph: Graph, rows: str, encoding: ColumnEncoding | None) -> str:
    """Add the columns of 0 and 1 for categories and missing values, as in training."""
    if encoding is None:
        return rows
    is_missing = graph.add("IsNaN", rows)
    filled = rows
    if encoding.means is not None:
        filled = graph.add("Where", is_missing, graph.constant(np.array(encoding.means)), rows)
    if not encoding.adds_columns:
        return filled
    n_categories, is_marked = np.array(encoding.n_categories), np.array(encoding.is_marked)
    is_number = n_categories < 0
    blocks = [graph.columns(filled, np.flatnonzero(is_number))] if is_number.any() else []
    # Order of the encoded columns: by feature, and numbers before their marks.
    order = np.flatnonzero(is_number).tolist()
    if is_marked.any():
        blocks.append(graph.cast(graph.columns(is_missing, np.flatnonzero(is_marked))))
        order += (np.flatnonzero(is_marked) + 0.5).tolist()
    if not is_number.all():
        sizes = np.maximum(n_categories, 0)
        of_code = np.repeat(np.arange(len(sizes)), sizes)
        codes = np.arange(len(of_code)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        # NaN equals no code.
        is_code = graph.add("Equal", graph.columns(rows, of_code), graph.constant(codes * 1.0))
        blocks.append(graph.cast(is_code))
        order += of_code.tolist()
    stacked = blocks[0] if len(blocks) == 1 else graph.add("Concat", *blocks, axis=1)
    return graph.columns(stacked, np.argsort(order, kind="stable"))


def scores_of(graph: Graph, scorer: Scorer, rows: str, n_channels: int) -> str:
    """Add the scores of rows, shape (n, n_channels).

    Raises
    ------
    TypeError
        If the scorer has no form in ONNX.
    """
    terms = _Terms(graph, rows, n_channels)
    terms.take(scorer)
    outputs = list(terms.outputs)
    if terms.trees:
        outputs.append(graph.ensemble(rows, terms.trees, n_channels))
    if not outputs or np.any(terms.bias):
        outputs.append(graph.repeated(np.broadcast_to(terms.bias, n_channels) * 1.0, rows))
    return outputs[0] if len(outputs) == 1 else graph.add("Sum", *outputs)


class _Terms:
    """Terms of a scorer while they are collected.

    Attributes
    ----------
    outputs : list of str
        Names of scores in the graph.
    trees : list of Subtree
        Trees that read the rows, of all terms together.
    bias : ndarray or float
        Constant that is added to all scores.
    """

    def __init__(self, graph: Graph, rows: str, n_channels: int) -> None:
        self._graph, self._rows, self._n_channels = graph, rows, n_channels
        self.outputs: list[str] = []
        self.trees: list[Subtree] = []
        self.bias: Any = 0.0

    def take(self, scorer: Any) -> None:
        """Collect a scorer, or raise TypeError if it has no form in ONNX."""
        graph, rows = self._graph, self._rows
        match scorer:
            case SumOfScorers():
                for term in scorer.terms:
                    self.take(term)
            case WeightedTrees(sets=None):
                self._add_trees(trees_of_ensemble(scorer, graph.dtype))
            case WeightedTrees(sets=SetColumns() as sets):
                # Trees that read columns of sets after the features are a graph of their own.
                rows, trees = graph.hstack_sets(rows, sets), replace(scorer, sets=None)
                self.outputs.append(scores_of(graph, trees, rows, self._n_channels))
            case LookupTable():
                self._add_trees(trees_of_table(scorer, graph.dtype))
                self.bias = self.bias + scorer.bias
                if scorer.coefficients is not None and scorer.coefficients.any():
                    self._take_linear(scorer.coefficients, scorer.span)
            case ActiveFeatureScores():
                # Weights of features of 0 and 1, of which some have none.
                used = np.flatnonzero(scorer.place >= 0)
                if len(used):
                    gains = scorer.gains[scorer.place[used]]
                    self._add_product(graph.columns(rows, used), gains)
                self.bias = self.bias + scorer.base
            case WeightedLearners(learners=HyperplaneTable() as planes):
                side = graph.add("MatMul", rows, graph.constant(planes.coefficients.T))
                is_right = graph.add("Greater", side, graph.constant(-planes.intercept))
                step = (planes.right - planes.left)[:, None] * scorer.weights
                self._add_product(graph.cast(is_right), step)
                self.bias = self.bias + planes.left @ scorer.weights
            case _:
                learners = getattr(scorer, "learners", scorer)
                raise TypeError(
                    f"Weak learners of the type {type(learners).__name__} have no form in ONNX; "
                    "train with 'stump', 'pair_tree', 'tree', 'linear', 'feature', 'lda', 'svm', "
                    "'perceptron', or a list of these."
                )

    def _take_linear(self, coefficients: FloatArray, span: FloatArray | None) -> None:
        # Around the middle of the features, products are small, so rounding loses less.
        middle = np.zeros(len(coefficients))
        if span is not None:
            middle = span.mean(axis=0).astype(self._graph.dtype)
        rows = self._graph.add("Sub", self._rows, self._graph.constant(middle))
        self._add_product(rows, coefficients)
        self.bias = self.bias + middle @ coefficients

    def _add_product(self, rows: str, coefficients: Any) -> None:
        self.outputs.append(self._graph.add("MatMul", rows, self._graph.constant(coefficients)))

    def _add_trees(self, added: Iterable[Subtree]) -> None:
        self.trees += [tree for tree in added if used_channels(tree).any()]


# Most sets that are compared with each other for the least expected loss: 32 megabytes.
_MOST_SETS = 2048


def label_sets(
    graph: Graph, task: Any, scores: str, sharpness: float, *, by_likelihood: bool
) -> dict[str, str]:
    """Add ``labels``, rows of 0 and 1, and ``marginals``, probabilities of the labels.

    Raises
    ------
    TypeError
        If no closed form of either is known.
    """
    sharp = graph.add("Mul", scores, graph.constant(sharpness))
    if isinstance(task, HierarchicalMultiLabelTask):
        return _add_hierarchy(graph, task, scores, sharp)
    if task.sets is not None:
        return _add_listed_sets(graph, task, sharp, by_likelihood=by_likelihood)
    marginals = graph.add("Sigmoid", sharp)
    if by_likelihood and task.loss_name == "f1":
        raise TypeError(
            "loss is 'f1', and the sets of largest expected F1 have no form in ONNX; train with "
            "outputs='seen', or export model_ and call structboost.inference.best_expected_f1 "
            "on the probabilities of its scores."
        )
    threshold: Any = 0.0
    if by_likelihood and task._costs is not None:
        missing, excess = task._costs
        with np.errstate(divide="ignore"):
            threshold = np.log(excess) - np.log(missing)
    is_in = graph.add("Greater", sharp, graph.constant(threshold))
    return {"labels": graph.cast(is_in, np.int64), "marginals": marginals}


def _add_listed_sets(
    graph: Graph, task: Any, scores: str, *, by_likelihood: bool
) -> dict[str, str]:
    codes = task._codes(task.sets)
    by_set = graph.add("MatMul", scores, graph.constant(codes.T * 1.0))
    probabilities = graph.add("Softmax", by_set, axis=1)
    of_sets = graph.constant(task.sets * 1.0)
    index = graph.add("ArgMax", by_set, axis=1, keepdims=0)
    if by_likelihood and task.loss_name != "subset":
        if len(task.sets) > _MOST_SETS:
            raise TypeError(
                f"The model compares {len(task.sets)} sets of labels, and a graph at most "
                f"{_MOST_SETS}; train with outputs='all', or with loss='subset'."
            )
        losses = task._losses(task.sets[:, None], task.sets[None])
        expected = graph.add("MatMul", probabilities, graph.constant(losses))
        index = graph.add("ArgMin", expected, axis=1, keepdims=0)
    return {
        "labels": graph.add("Gather", graph.constant(task.sets), index),
        "marginals": graph.add("MatMul", probabilities, of_sets),
    }


def _add_hierarchy(
    graph: Graph, task: HierarchicalMultiLabelTask, scores: str, sharp: str
) -> dict[str, str]:
    parents, children = task.edges.T
    if len(np.unique(children)) < len(children):
        label = int(np.flatnonzero(np.bincount(children) > 1)[0])
        name = label if task.label_names is None else task.label_names[label]
        raise TypeError(
            f"Label {name!r} has several parents, for which the best set has no form in ONNX; "
            "export model_, and call structboost.inference.maximum_closure on its scores."
        )
    above = np.full(task.n_labels, -1)
    above[children] = parents
    levels = [np.flatnonzero(above < 0)]
    while len(below := np.flatnonzero(np.isin(above, levels[-1]))):
        levels.append(below)
    best = _tree_of_labels(graph, scores, above, levels, _positive)
    is_in = [graph.add("Greater", total, graph.constant(0.0)) for total in best]
    probable = _tree_of_labels(graph, sharp, above, levels, _softplus)
    given_parent = [graph.add("Sigmoid", total) for total in probable]
    return {
        "labels": graph.cast(_down(graph, is_in, above, levels, "And"), np.int64),
        "marginals": _down(graph, given_parent, above, levels, "Mul"),
    }


def _tree_of_labels(
    graph: Graph,
    scores: str,
    above: AnyArray,
    levels: list[AnyArray],
    gain: Callable[[Graph, str], str],
) -> list[str]:
    """Add, level by level, the score of each label and the gains of those below it."""
    totals: list[str] = []
    for depth in range(len(levels) - 1, -1, -1):
        total = graph.columns(scores, levels[depth])
        if totals:
            below = above[levels[depth + 1]][:, None] == levels[depth]
            gains = graph.add("MatMul", gain(graph, totals[0]), graph.constant(below * 1.0))
            total = graph.add("Add", total, gains)
        totals.insert(0, total)
    return totals


def _positive(graph: Graph, value: str) -> str:
    return graph.add("Relu", value)


def _softplus(graph: Graph, value: str) -> str:
    """Add ``log(1 + exp(value))``, for which onnxruntime has single precision only."""
    falling = graph.add("Exp", graph.add("Neg", graph.add("Abs", value)))
    rest = graph.add("Log", graph.add("Add", graph.constant(1.0), falling))
    return graph.add("Add", graph.add("Relu", value), rest)


def _down(
    graph: Graph,
    of_levels: list[str],
    above: AnyArray,
    levels: list[AnyArray],
    operator: str,
) -> str:
    """Combine each label with those above it, and return the labels in their order."""
    combined = of_levels[:1]
    for depth in range(1, len(levels)):
        place = np.searchsorted(levels[depth - 1], above[levels[depth]])
        of_parents = graph.columns(combined[-1], place)
        combined.append(graph.add(operator, of_levels[depth], of_parents))
    stacked = graph.add("Concat", *combined, axis=1)
    return graph.columns(stacked, np.argsort(np.concatenate(levels)))


# Least score: a sum of it and others is finite, and never the largest.
_FORBIDDEN = -1e30


@singledispatch
def outputs_of(model: Any, inputs: GraphInputs) -> dict[str, str]:
    """Add what a fitted model computes, and return the outputs by their names, in order.

    Raises
    ------
    TypeError
        If it has no form in ONNX.
    """
    raise TypeError(
        f"model is {shown(model)}, which has no form in ONNX; give a fitted classifier, ranker "
        "or tagger of this library, such as the last step of a Pipeline, whose other steps you "
        "convert elsewhere, or the model_ of a StructBoost or StructuredSVM."
    )


def scores_of_kind(model: Ensemble, kind: str | None, inputs: GraphInputs) -> str:
    """Add the scores of the parts of one kind.

    Raises
    ------
    ValueError
        If the model has several kinds of parts, or another one.
    """
    scorer = model.scorer(kind)
    kind = next(iter(model.members)) if kind is None else kind
    rows = inputs.rows(["n", model.members[kind].n_features])
    return scores_of(inputs.graph, scorer, rows, model.kinds[kind].n_channels)


def _table_scores(estimator: Any, inputs: GraphInputs) -> str:
    """Add the scores of the channels for the rows of a table."""
    graph = inputs.graph
    columns = estimator._columns
    rows = inputs.numbers(columns.n_features, columns.names, columns.categories)
    rows = encoded(graph, rows, columns.encoding)
    if columns.names is not None:
        graph.facts["feature_names"] = columns.names
    if columns.categories:
        graph.facts["categories"] = columns.categories
    return scores_of(graph, estimator.model_.scorer(), rows, _n_channels(estimator))


def _n_channels(estimator: Any) -> int:
    return int(estimator.model_.kinds["x"].n_channels)


@outputs_of.register(StructuredSVMClassifier)
@outputs_of.register(TableFace)
def _add_table(estimator: Any, inputs: GraphInputs) -> dict[str, str]:
    graph = inputs.graph
    raw = _decided(graph, estimator, _table_scores(estimator, inputs))
    if not is_classifier(estimator):
        return {"scores": raw}
    return _add_classes(graph, estimator, raw)


def _decided(graph: Graph, estimator: Any, raw: str) -> str:
    """Add the decision function, which is linear in the scores of the channels."""
    by_channel = estimator._decision(np.eye(_n_channels(estimator)))
    if by_channel.ndim == 2 and np.array_equal(by_channel, np.eye(len(by_channel))):
        return raw
    decided = graph.add("MatMul", raw, graph.constant(by_channel.reshape(len(by_channel), -1)))
    if by_channel.ndim == 2:
        return decided
    return graph.add("Squeeze", decided, graph.constant(np.array([1])))


def _add_classes(graph: Graph, estimator: Any, raw: str) -> dict[str, str]:
    """Add labels and probabilities of a classifier to its decision function."""
    outputs, is_binary = {"label": "", "scores": raw}, len(estimator.classes_) <= 2
    if is_binary:
        index = graph.cast(graph.add("Greater", raw, graph.constant(0.0)), np.int64)
    else:
        index = graph.add("ArgMax", raw, axis=1, keepdims=0)
    if hasattr(estimator, "predict_proba"):
        if len(estimator.classes_) == 1:
            outputs["probabilities"] = graph.repeated([1.0], raw)
        else:
            if is_binary:
                column = graph.add("Unsqueeze", raw, graph.constant(np.array([1])))
                raw = graph.add("MatMul", column, graph.constant([[0.0, 1.0]]))
            outputs["probabilities"] = _probabilities(graph, raw, estimator)
            if (costs := estimator._class_costs()) is not None:
                expected = graph.add("MatMul", outputs["probabilities"], graph.constant(costs))
                index = graph.add("ArgMin", expected, axis=1, keepdims=0)
    outputs["label"] = graph.add("Gather", graph.constant(_labels(estimator.classes_)), index)
    return outputs


def _probabilities(graph: Graph, scores: str, estimator: Any) -> str:
    """Add nodes that compute ``link_.inverse`` of the estimator."""
    link: SoftmaxLink = estimator.link_
    sharpened = graph.add("Mul", scores, graph.constant(link.sharpness))
    softmax = graph.add("Softmax", sharpened, axis=1)
    if not link.margin:
        return softmax
    factor = math.exp(link.margin)
    falling = graph.add("Mul", softmax, graph.constant(factor - 1.0))
    product = graph.add("Mul", softmax, graph.add("Sub", graph.constant(factor), falling))
    total = graph.add("ReduceSum", product, graph.constant(np.array([1])), keepdims=1)
    return graph.add("Div", product, total)


def _labels(classes: AnyArray) -> AnyArray:
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


@outputs_of.register
def _add_label_sets(
    estimator: StructBoostMultiLabelClassifier, inputs: GraphInputs
) -> dict[str, str]:
    graph = inputs.graph
    scores = _table_scores(estimator, inputs)
    if estimator._form == "single":
        return _add_classes(graph, estimator, _decided(graph, estimator, scores))
    graph.facts["classes"] = estimator.classes_.tolist()
    sharpness = estimator.temperature_ or 1.0
    sets = label_sets(
        graph, estimator.task_, scores, sharpness, by_likelihood=estimator._by_likelihood
    )
    return {"labels": sets["labels"], "scores": scores, "marginals": sets["marginals"]}


@outputs_of.register
def _add_tagger(tagger: StructBoostTagger, inputs: GraphInputs) -> dict[str, str]:
    if len(tagger.transition_columns_):
        raise TypeError(
            "transition_features was set, and ONNX files have one score for each pair of tags; "
            "train without it, or save the tagger by save()."
        )
    graph, n_tags = inputs.graph, len(tagger.classes_)
    n_features = int(tagger.n_features_in_ or 0)
    names = getattr(tagger, "feature_names_in_", None)
    rows = inputs.numbers(n_features, names)
    for fact in ("feature_names_", "feature_names_in_"):
        if hasattr(tagger, fact):
            graph.facts["feature_names"] = list(getattr(tagger, fact))
    graph.facts["classes"] = tagger.classes_.tolist()
    scores = scores_of(graph, tagger.model_.scorer("token"), rows, n_tags)
    if len(columns := tagger._reader.vector_columns):
        vectors = graph.columns(rows, columns)
        of_vectors = scores_of(graph, tagger.model_.scorer("vector"), vectors, n_tags)
        scores = graph.add("Add", scores, of_vectors)
    if tagger.outside_offset_:
        is_outside = np.arange(n_tags) == ChunkTags(tagger.classes_).outside
        lowered = graph.constant(tagger.outside_offset_ * is_outside)
        scores = graph.add("Sub", scores, lowered)
    task: Any = tagger.task_
    pairs, first, last = (np.maximum(penalty, _FORBIDDEN) for penalty in task.penalties)
    return {
        "scores": scores,
        "transitions": graph.constant(tagger.transitions_ + pairs.reshape(n_tags, n_tags)),
        "first": graph.constant(first),
        "last": graph.constant(last),
    }


def to_onnx(model: Any, X: Any = None, *, kind: str | None = None, dtype: Any = "float32") -> Any:
    """Convert a fitted model to ONNX, which predicts without Python or this library.

    By default the input ``X`` is a float32 tensor of shape (n, n_features).  Thresholds are rounded
    down to single precision, so each value of single precision goes to the same side as in this
    library; scores differ by the rounding of sums.  With ``dtype="float64"`` thresholds and sums
    have double precision, as here.  A category is passed as its index in the estimator's
    ``categories_``, which the model also holds in its metadata; a missing or unknown one is NaN.
    With a data frame ``X`` each column is an input, and categories are text or whole numbers.

    Parameters
    ----------
    model : estimator or Ensemble
        A fitted classifier, ranker or tagger of this library, or the ``model_`` of a trainer, of
        which the scores of parts are exported.  Export the last step of a pipeline, and convert
        the steps before it elsewhere.
    X : data frame or array-like, optional
        Rows as the model will read them.  A data frame gives the names and types of the inputs,
        each of shape (n, 1).
    kind : str, optional
        Kind of the parts of an Ensemble; required where it has several.
    dtype : {"float32", "float64"}
        Type of the numbers of inputs and outputs.  float64 needs a runtime that has the operators
        ai.onnx.ml 5, such as onnxruntime 1.21.

    Returns
    -------
    model : onnx.ModelProto
        The outputs are listed in the guide (docs/explain-and-export.md).  Write it by
        ``onnx.save``.

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
    import onnx

    name = checked_choice(getattr(dtype, "__name__", str(dtype)), "dtype", ("float32", "float64"))
    if isinstance(X, str | os.PathLike):
        raise TypeError(f"X is {shown(X)}, a path; write onnx.save(to_onnx(model), {str(X)!r}).")
    graph = Graph(onnx, np.dtype(name))
    inputs = GraphInputs(graph, X)
    if isinstance(model, Ensemble):
        return graph.model("Ensemble", {"scores": scores_of_kind(model, kind, inputs)})
    if kind is not None:
        raise ValueError(
            f"kind is {shown(kind)}, which is read with an Ensemble only; leave it out."
        )
    if hasattr(model, "fit"):
        check_is_fitted(model)
    return graph.model(type(model).__name__, outputs_of(model, inputs))
