"""ONNX graph while its nodes are collected."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import structboost
from structboost.export.onnx_trees import Subtree, attributes_of_double_trees, attributes_of_trees
from structboost.learners.category_sets import SetColumns

# Versions of the operators, old enough for the runtimes of the last years.  The sums of trees are
# of double precision in the second version only.
_OPSET, _ML_OPSETS, _IR_VERSION = 17, {"float32": 3, "float64": 5}, 8
_ML = "ai.onnx.ml"
_INT64 = 7


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
        element = self._onnx.helper.np_dtype_to_tensor_dtype(dtype or self.dtype)
        return self.add("Cast", value, to=element)

    def whole(self, value: str) -> str:
        """Convert a value to 64-bit integers."""
        return self.add("Cast", value, to=_INT64)

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
            code = self.whole(self.add("Where", is_category, column, last))
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
