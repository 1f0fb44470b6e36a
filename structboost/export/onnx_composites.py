"""Estimators of scikit-learn that hold estimators of this library, in ONNX graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from structboost.errors import warn_user
from structboost.export.onnx_faces import labelled, outputs_of
from structboost.export.onnx_graph import Graph
from structboost.export.onnx_inputs import GraphInputs
from structboost.export.onnx_steps import check_rounded, rows_after

__all__ = ["outputs_of"]

# Rounding of scores in single precision, relative to the largest, and the rise of probabilities
# within it that is too much.
_SLIP, _LARGEST_RISE = 1e-6, 1e-2
# Width of an interval between scores that single precision does not tell apart.
_SMALLEST = float(np.finfo(np.float32).tiny)


@outputs_of.register
def _of_search(search: BaseSearchCV, inputs: GraphInputs) -> dict[str, str]:
    check_is_fitted(search)
    return outputs_of(search.best_estimator_, inputs)


@outputs_of.register
def _of_frozen(frozen: FrozenEstimator, inputs: GraphInputs) -> dict[str, str]:
    return outputs_of(frozen.estimator, inputs)


@outputs_of.register
def _of_pipeline(pipeline: Pipeline, inputs: GraphInputs) -> dict[str, str]:
    *before, (_, last) = pipeline.steps
    steps = Pipeline([step for step in before if step[1] not in (None, "passthrough")])
    if not steps.steps:
        return outputs_of(last, inputs)
    graph = inputs.graph
    graph.widen()
    names = getattr(pipeline, "feature_names_in_", None)
    blocks = inputs.blocks(pipeline.n_features_in_, names)
    rows = rows_after(graph, steps, blocks, last.n_features_in_)
    if graph.declared == np.float32 and not inputs.is_inner:
        check_rounded(pipeline, inputs.sample)
    return outputs_of(last, GraphInputs(graph, rows=rows))


@outputs_of.register
def _of_calibrated(calibrated: CalibratedClassifierCV, inputs: GraphInputs) -> dict[str, str]:
    check_is_fitted(calibrated)
    graph, classes = inputs.graph, calibrated.classes_
    each = [
        _calibrated(graph, one, outputs_of(one.estimator, inputs)["scores"])
        for one in calibrated.calibrated_classifiers_
    ]
    # A mean has no double precision in onnxruntime.
    mean = graph.add("Mul", graph.add("Sum", *each), graph.constant(1.0 / len(each)))
    index = graph.add("ArgMax", mean, axis=1, keepdims=0)
    return {"label": labelled(graph, classes, index), "probabilities": mean}


def _calibrated(graph: Graph, model: Any, scores: str) -> str:
    """Add the probabilities of one classifier with its calibrators."""
    is_binary = len(model.classes) == 2
    if is_binary:
        scores = graph.add("Unsqueeze", scores, graph.constant(np.array([1])))
    if model.method == "temperature":
        beta = float(model.calibrators[0].beta_)
        if is_binary:
            scores = graph.add("MatMul", scores, graph.constant([[-1.0, 1.0]]))
        return graph.add("Softmax", graph.add("Mul", scores, graph.constant(beta)), axis=1)
    columns = []
    for k, calibrator in enumerate(model.calibrators):
        column = graph.columns(scores, [k])
        add = _sigmoid if model.method == "sigmoid" else _isotonic
        columns.append(add(graph, calibrator, column))
    if is_binary:
        # 1 - p and p.
        product = graph.add("MatMul", columns[0], graph.constant([[-1.0, 1.0]]))
        return graph.add("Add", product, graph.constant([1.0, 0.0]))
    stacked = columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)
    # Classes that the classifier has not seen have probability 0.
    seen = (model.estimator.classes_[:, None] == model.classes).astype(float)
    stacked = graph.add("MatMul", stacked, graph.constant(seen))
    total = graph.add("ReduceSum", stacked, graph.constant(np.array([1])), keepdims=1)
    is_zero = graph.add("Equal", total, graph.constant(0.0))
    even = graph.constant(1.0 / len(model.classes))
    one = graph.constant(1.0)
    return graph.add(
        "Where", is_zero, even, graph.add("Div", stacked, graph.add("Where", is_zero, one, total))
    )


def _sigmoid(graph: Graph, calibrator: Any, column: str) -> str:
    product = graph.add("Mul", column, graph.constant(-float(calibrator.a_)))
    return graph.add("Sigmoid", graph.add("Sub", product, graph.constant(float(calibrator.b_))))


def _isotonic(graph: Graph, calibrator: Any, column: str) -> str:
    """Add the function that is linear between points and constant beyond."""
    x, y = calibrator.X_thresholds_, calibrator.y_thresholds_
    if len(x) == 1:
        return graph.repeated(y, column)
    if graph.dtype == np.float32:
        # Scores of single precision differ by rounding: what the function rises by is in doubt.
        slip = _SLIP * np.abs(x).max()
        rise = np.interp(x + slip, x, y) - np.interp(x - slip, x, y)
        if (largest := rise.max()) > _LARGEST_RISE:
            warn_user(
                f"The isotonic calibration rises by {largest:.2g} at the score "
                f"{x[rise.argmax()]:.6g}, where the next one is as near as the rounding of single "
                "precision.  Probabilities of such scores may differ by as much from "
                "predict_proba.  Give dtype='float64', or calibrate with method='sigmoid'.",
                UserWarning,
            )
        # Rounded before they are subtracted, so that the function stays the same at each point.
        x = x.astype(np.float32).astype(np.float64)
    # Each interval adds its rise times the fraction of it that is below the score.
    below = graph.add("Sub", column, graph.constant(x[:-1]))
    fraction = graph.add("Div", below, graph.constant(np.maximum(np.diff(x), _SMALLEST)))
    fraction = graph.add("Clip", fraction, graph.constant(0.0), graph.constant(1.0))
    rise = graph.add("MatMul", fraction, graph.constant(np.diff(y)[:, None]))
    return graph.add("Add", rise, graph.constant(y[0]))
