"""Steps of scikit-learn in ONNX graphs, converted by the package skl2onnx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from structboost.export.onnx_graph import Graph
from structboost.runtime.extras import require


def insert_steps(graph: Graph, steps: Pipeline, types: Mapping[str, Any], n_features: int) -> str:
    """Add fitted transformers that read values of the graph, and return the table they make.

    Parameters
    ----------
    graph : Graph
    steps : Pipeline
    types : dict of str to (dtype, int)
        Type and number of columns of the values that they read.
    n_features : int
        Number of columns that they make.

    Raises
    ------
    MissingExtraError
        If skl2onnx is not installed.
    TypeError
        If skl2onnx has no converter for a step.
    """
    require("onnx", "to_onnx of steps of scikit-learn", "skl2onnx")
    from onnx.checker import check_model
    from skl2onnx import convert_sklearn
    from skl2onnx.common import data_types

    kinds = {
        "float32": data_types.FloatTensorType,
        "float64": data_types.DoubleTensorType,
        "int64": data_types.Int64TensorType,
        "object": data_types.StringTensorType,
    }
    initial = [
        (value, kinds[np.dtype(dtype).name]([None, width]))
        for value, (dtype, width) in types.items()
    ]
    try:
        # skl2onnx writes no operators of later versions of ai.onnx.ml.
        model = convert_sklearn(
            steps,
            initial_types=initial,
            target_opset={**graph.opsets, "ai.onnx.ml": 3},
            custom_conversion_functions={SimpleImputer: _convert_imputer},
            custom_shape_calculators={SimpleImputer: _set_type_of_imputed},
        )
        # It mixes both precisions in some steps, which no runtime loads.
        check_model(model, full_check=True)
        width = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
        if width not in (0, n_features):
            raise TypeError(f"it makes {width} columns, and scikit-learn {n_features}")
        _keep_empty_shapes(model)
        rows = graph.cast(graph.insert(model)[0])
    except Exception as error:  # skl2onnx has many of its own
        is_double = np.dtype(graph.dtype) == np.float64
        remedy = "Leave dtype out, or export" if is_double else "Export"
        raise TypeError(
            f"The steps {', '.join(map(repr, steps.named_steps))} have no form in ONNX with "
            f"dtype={np.dtype(graph.dtype).name!r}: {str(error).strip().rstrip('.')}. {remedy} "
            "the last step alone, and prepare its rows elsewhere."
        ) from error
    # Some steps do not declare how many columns they make.
    return graph.add("Reshape", rows, graph.constant(np.array([0, n_features])))


def _keep_empty_shapes(model: Any) -> None:
    """Let steps reshape a table of no rows to the shape of another value.

    A zero in a shape would otherwise be the size before.
    """
    from onnx.helper import make_attribute

    shapes = {node.output[0] for node in model.graph.node if node.op_type == "Shape"}
    for node in model.graph.node:
        if node.op_type == "Reshape" and node.input[1] in shapes:
            node.attribute.append(make_attribute("allowzero", 1))


def _set_type_of_imputed(operator: Any) -> None:
    kind = type(operator.inputs[0].type)
    operator.outputs[0].type = kind([None, len(operator.raw_operator.statistics_)])


def _convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Replace missing numbers in either precision.

    The operator Imputer, which skl2onnx writes, has single precision only.
    """
    from skl2onnx.operator_converters.common import concatenate_variables
    from skl2onnx.operator_converters.imputer_op import convert_sklearn_imputer
    from skl2onnx.proto import onnx_proto

    step, of_input = operator.raw_operator, type(operator.inputs[0].type).__name__
    elements = {"FloatTensorType": "FLOAT", "DoubleTensorType": "DOUBLE"}
    if step.indicator_ is not None:
        raise TypeError("SimpleImputer has add_indicator=True, which is not converted")
    replaces_nan = isinstance(step.missing_values, float) and np.isnan(step.missing_values)
    if of_input not in elements or not replaces_nan:
        convert_sklearn_imputer(scope, operator, container)
        return
    if np.isnan(step.statistics_).any():
        raise TypeError("SimpleImputer drops columns that were missing in training")
    rows = concatenate_variables(scope, operator.inputs, container)
    is_missing, values = map(scope.get_unique_variable_name, ("is_missing", "statistics"))
    element = getattr(onnx_proto.TensorProto, elements[of_input])
    container.add_initializer(values, element, [len(step.statistics_)], step.statistics_)
    container.add_node("IsNaN", rows, is_missing, op_version=13)
    out = operator.outputs[0].full_name
    container.add_node("Where", [is_missing, values, rows], out, op_version=9)
