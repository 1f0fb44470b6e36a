"""Export of models as ONNX graphs, for programs without Python or this library."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from structboost.export.onnx_faces import outputs_of, scores_of_kind
from structboost.export.onnx_graph import Graph
from structboost.export.onnx_inputs import GraphInputs
from structboost.model.ensemble import Ensemble
from structboost.runtime.extras import require
from structboost.validation import checked_choice, shown


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
