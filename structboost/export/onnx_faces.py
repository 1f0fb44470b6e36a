"""Outputs of ONNX graphs for each kind of estimator."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from structboost.export.onnx_graph import Graph
from structboost.export.onnx_inputs import GraphInputs, encoded
from structboost.export.onnx_label_sets import label_sets
from structboost.export.onnx_scorers import scores_of
from structboost.faces.feature_importances import FeatureImportanceMixin
from structboost.faces.multi_label import StructBoostMultiLabelClassifier
from structboost.faces.tagger import StructBoostTagger
from structboost.model.ensemble import Ensemble
from structboost.objectives.registry import formulation_of
from structboost.objectives.softmax_link import SoftmaxLink
from structboost.tasks.chunk_tags import ChunkTags
from structboost.validation import shown

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
    return scores_of(graph, estimator._scorer(), rows, _n_channels(estimator))


def _n_channels(estimator: Any) -> int:
    return int(estimator.model_.kinds["x"].n_channels)


@outputs_of.register
def _of_table(estimator: FeatureImportanceMixin, inputs: GraphInputs) -> dict[str, str]:
    graph = inputs.graph
    raw = _decided(graph, estimator, _table_scores(estimator, inputs))
    if not is_classifier(estimator):
        return {"scores": raw}
    return _of_classes(graph, estimator, raw)


def _decided(graph: Graph, estimator: Any, raw: str) -> str:
    """Add the decision function, which is linear in the scores of the channels."""
    by_channel = estimator._decision(np.eye(_n_channels(estimator)))
    if by_channel.ndim == 2 and np.array_equal(by_channel, np.eye(len(by_channel))):
        return raw
    decided = graph.add("MatMul", raw, graph.constant(by_channel.reshape(len(by_channel), -1)))
    if by_channel.ndim == 2:
        return decided
    return graph.add("Squeeze", decided, graph.constant(np.array([1])))


def _of_classes(graph: Graph, estimator: Any, raw: str) -> dict[str, str]:
    """Add labels and probabilities of a classifier to its decision function."""
    outputs, is_binary = {"label": "", "scores": raw}, len(estimator.classes_) <= 2
    if is_binary:
        index = graph.whole(graph.add("Greater", raw, graph.constant(0.0)))
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


@outputs_of.register
def _of_label_sets(
    estimator: StructBoostMultiLabelClassifier, inputs: GraphInputs
) -> dict[str, str]:
    graph = inputs.graph
    scores = _table_scores(estimator, inputs)
    if estimator._form == "single":
        return _of_classes(graph, estimator, _decided(graph, estimator, scores))
    graph.facts["classes"] = estimator.classes_.tolist()
    sharpness = estimator.temperature_ or 1.0
    sets = label_sets(
        graph, estimator.task_, scores, sharpness, by_likelihood=estimator._by_likelihood
    )
    return {"labels": sets["labels"], "scores": scores, "marginals": sets["marginals"]}


@outputs_of.register
def _of_tagger(tagger: StructBoostTagger, inputs: GraphInputs) -> dict[str, str]:
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
