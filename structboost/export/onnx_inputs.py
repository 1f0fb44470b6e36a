"""Inputs of ONNX graphs, and columns that models read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from structboost.export.onnx_graph import Graph
from structboost.faces.columns import ColumnEncoding, RareCategories
from structboost.faces.table_forms import frame_of
from structboost.validation import array_of, shown


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
