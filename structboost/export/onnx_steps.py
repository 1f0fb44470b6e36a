"""Steps of scikit-learn in ONNX graphs, whose values are those of scikit-learn to the last bit.

They compute in double precision, and column by column: sums over columns round otherwise in each
runtime, so that trees could split what is equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from narwhals import selectors
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

from structboost._typing import FloatArray
from structboost.export.onnx_graph import Graph
from structboost.faces.table_forms import frame_of
from structboost.validation import array_of, is_missing, shown


class Block(NamedTuple):
    """Value of a graph that is some columns of a table, all numbers or all text."""

    value: str
    width: int
    is_text: bool = False


class _CannotError(Exception):
    """Reason why a step has no form."""


# Operator, the fitted attribute with its numbers, and the parameter without which it is left out.
_Scaling = tuple[str, str, str]
Blocks = list[Block]
# Difference of scores, in terms of the largest, that is rounding.
_CLOSE = 1e-4


def rows_after(graph: Graph, steps: Pipeline, blocks: Blocks, n_features: int) -> str:
    """Add fitted steps that read columns, and return the table of numbers that they make.

    TypeError, with the name of the step, if one has no form in ONNX that is equal to the last bit.
    """
    columns = _after(graph, "", steps, blocks)
    if any(block.is_text for block in columns):
        raise TypeError(
            "The last step of the Pipeline reads columns of text; put a OneHotEncoder or an "
            "OrdinalEncoder before it, or export the last step alone."
        )
    if (width := sum(block.width for block in columns)) != n_features:
        raise TypeError(
            f"The steps make {width} columns, and the last step was trained on {n_features}; "
            "export the last step alone."
        )
    return _numbers(graph, columns)


def _after(graph: Graph, name: str, step: Any, blocks: Blocks) -> Blocks:
    """Add a fitted step that reads columns, and return the columns that it makes."""
    if step in (None, "passthrough"):
        return blocks
    if isinstance(step, Pipeline):
        for inner_name, inner in step.steps:
            blocks = _after(graph, f"{name}__{inner_name}".strip("_"), inner, blocks)
        return blocks
    kind = type(step)
    is_selector = isinstance(step, SelectorMixin) and kind.__module__.startswith("sklearn.")
    convert = _select if is_selector else _CONVERTERS.get(kind)
    reason = f"give steps of {', '.join(one.__name__ for one in _CONVERTERS)} or selectors only"
    if convert is not None:
        try:
            return convert(graph, step, blocks)
        except _CannotError as error:
            reason = str(error)
    raise TypeError(
        f"The step {name!r} is {shown(step)}, which has no form in ONNX that is equal to the last "
        f"bit: {reason}, or export the last step alone, and prepare its rows elsewhere."
    )


def _numbers(graph: Graph, blocks: Blocks) -> str:
    """Return columns as one table of numbers."""
    if any(block.is_text for block in blocks):
        raise _CannotError("it reads text, so encode text before it")
    values = [block.value for block in blocks]
    return values[0] if len(values) == 1 else graph.add("Concat", *values, axis=1)


def check_rounded(pipeline: Pipeline, sample: Any) -> None:
    """Raise ValueError if rows have other scores when they are rounded to single precision."""
    remedy = "give dtype='float64'"
    if sample is None:
        raise ValueError(
            "X is missing, by which it is checked that single precision is enough for the steps of "
            f"a Pipeline; give rows of the training set, as many as there are, or {remedy}."
        )
    exact = _scores(pipeline, sample)
    try:
        rounded = _scores(pipeline, _rounded(sample))
    except ValueError:  # an encoder refuses a category that was rounded
        rounded = np.full_like(exact, np.nan)
    close = np.abs(rounded - exact) <= _CLOSE * max(1.0, np.abs(exact).max(initial=0.0))
    if not close.all():
        row = int(np.argwhere(~close)[0, 0])
        raise ValueError(
            f"X[{row}] has other scores when it is rounded to single precision; {remedy}."
        )


def _rounded(sample: Any) -> Any:
    """Return rows with their numbers rounded to single precision."""
    frame = frame_of(sample)
    if frame is not None:
        floats = selectors.by_dtype(nw.Float64)
        return frame.with_columns(floats.cast(nw.Float32).cast(nw.Float64)).to_native()
    rows = array_of(sample)
    if rows.dtype.kind != "f":
        return rows
    with np.errstate(over="ignore"):
        return rows.astype(np.float32).astype(np.float64)


def _scores(pipeline: Pipeline, X: Any) -> FloatArray:
    last = pipeline[-1]
    methods = ("decision_function", "predict_costs", "predict_proba")
    method = next(getattr(last, name) for name in methods if hasattr(last, name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(method(pipeline[:-1].transform(X)))


def _columns(graph: Graph, blocks: Blocks, indices: Any) -> Blocks:
    """Select columns of blocks, in the order of the indices."""
    places = [(block, j) for block in blocks for j in range(block.width)]
    runs: list[tuple[Block, list[int]]] = []
    for block, j in (places[index] for index in indices):
        if runs and runs[-1][0] == block:
            runs[-1][1].append(j)
        else:
            runs.append((block, [j]))
    return [
        block
        if within == list(range(block.width))
        else Block(graph.columns(block.value, within), len(within), block.is_text)
        for block, within in runs
    ]


def _select(graph: Graph, step: Any, blocks: Blocks) -> Blocks:
    return _columns(graph, blocks, step.get_support(indices=True))


def _parallel_steps(graph: Graph, step: Any, blocks: Blocks) -> Blocks:
    columns = []
    for name, inner, _ in step.transformers_:
        indices = step._transformer_to_input_indices[name]
        if not (isinstance(inner, str) and inner == "drop") and len(indices):
            columns += _after(graph, name, inner, _columns(graph, blocks, indices))
    return columns


def _joined_steps(graph: Graph, step: Any, blocks: Blocks) -> Blocks:
    if step.transformer_weights:
        raise _CannotError("leave transformer_weights out")
    each = [
        _after(graph, name, one, blocks)
        for name, one in step.transformer_list
        if not (isinstance(one, str) and one == "drop")
    ]
    return [block for of_one in each for block in of_one]


def _unchanged(graph: Graph, step: Any, blocks: Blocks) -> Blocks:
    if step.func is not None:
        raise _CannotError("leave func out")
    return blocks


def _scaled(graph: Graph, step: Any, blocks: Blocks, *, by: Sequence[_Scaling]) -> Blocks:
    if getattr(step, "clip", False):
        raise _CannotError("leave clip out")
    rows = _numbers(graph, blocks)
    for operator, attribute, flag in by:
        if not flag or getattr(step, flag):
            rows = graph.add(operator, rows, graph.constant(getattr(step, attribute)))
    return [Block(rows, step.n_features_in_)]


def _binarized(graph: Graph, step: Any, blocks: Blocks) -> Blocks:
    above = graph.add("Greater", _numbers(graph, blocks), graph.constant(float(step.threshold)))
    return [Block(graph.cast(above), step.n_features_in_)]


def _imputed(graph: Graph, step: Any, blocks: Blocks) -> Blocks:
    absent = step.missing_values
    try:
        filled = step.statistics_.astype(np.float64)
    except ValueError:
        filled = None
    if filled is None or isinstance(absent, str):
        raise _CannotError("impute numbers only")
    rows, n = _numbers(graph, blocks), len(filled)
    is_absent = (
        graph.add("IsNaN", rows)
        if is_missing(absent)
        else graph.add("Equal", rows, graph.constant(float(absent)))
    )
    whole = graph.add("Where", is_absent, graph.constant(filled), rows)
    # Columns without any number in training are left out.
    indices = np.flatnonzero(step.keep_empty_features | (filled == filled))  # noqa: PLR0124
    columns = _columns(graph, [Block(whole, n)], indices)
    if step.indicator_ is not None:
        marks = [Block(graph.cast(is_absent), n)]
        columns += _columns(graph, marks, step.indicator_.features_)
    return columns


def _encoded(graph: Graph, step: Any, blocks: Blocks) -> Blocks:
    """Look up what an encoder makes of each category, and of other values, in each column."""
    base = [categories[0] for categories in step.categories_]
    (first,) = _transformed(step, [base])
    place, looked_up, n_found = np.full(len(first), -1), [], 0
    for j, categories in enumerate(step.categories_):
        rows = [[*base[:j], value, *base[j + 1 :]] for value in categories]
        table = _transformed(step, rows)
        try:
            other = _transformed(step, [[*base[:j], _another(categories), *base[j + 1 :]]])
        except ValueError:  # it refuses other values, which are missing here
            other = np.full((1, len(first)), np.nan)
            differs = _differ(table, first)
        else:
            differs = _differ(np.vstack((table, other)), first)
        of_column = np.flatnonzero(differs.any(axis=0))
        place[of_column] = n_found + np.arange(len(of_column))
        n_found += len(of_column)
        table = np.vstack((table, other))[:, of_column]
        (column,) = _columns(graph, blocks, [j])
        codes = _codes(graph, column, categories)
        looked_up.append(graph.add("Gather", graph.constant(table), codes, axis=0))
    constant = place < 0
    place[constant] = n_found + np.arange(constant.sum())
    looked_up.append(graph.repeated(first[constant], blocks[0].value))
    whole = graph.add("Concat", *looked_up, axis=1)
    return [Block(graph.columns(whole, place), len(first))]


def _transformed(step: Any, rows: list[list[Any]]) -> FloatArray:
    has_text = any(isinstance(value, str) for value in rows[0])
    with warnings.catch_warnings():  # that columns have no names, or that values are unknown
        warnings.simplefilter("ignore")
        table = step.transform(np.array(rows, object if has_text else np.float64))
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table, np.float64)


def _differ(table: FloatArray, row: FloatArray) -> NDArray[np.bool_]:
    return np.asarray((table != row) & ~(np.isnan(table) & np.isnan(row)))


def _another(categories: NDArray[Any]) -> Any:
    """Return a value that is no category."""
    if any(isinstance(value, str) for value in categories):
        return "".join(map(str, categories)) + "?"
    return np.nextafter(np.nanmax(categories.astype(np.float64), initial=0.0), np.inf)


def _codes(graph: Graph, column: Block, categories: NDArray[Any]) -> str:
    """Add the index of each value among the categories, whose number other values get."""
    values, n = categories.tolist(), len(categories)
    is_text = any(isinstance(value, str) for value in values)
    if is_text != column.is_text:
        raise _CannotError(
            f"its categories are {shown(values)}, so give X, a data frame or an array of text"
            if is_text
            else "it reads numbers, so give a data frame with columns of numbers"
        )
    missing = [index for index, value in enumerate(values) if is_missing(value)]
    if is_text and missing:
        raise _CannotError("text is never missing in ONNX, so fill it before the pipeline")
    if is_text:
        codes = graph.text_codes(column.value, values)
    else:
        equal = graph.cast(graph.add("Equal", column.value, graph.constant(categories * 1.0)))
        offsets = graph.constant(np.arange(n)[:, None] - float(n))
        codes = graph.add("Add", graph.add("MatMul", equal, offsets), graph.constant(float(n)))
        if missing:
            index = graph.constant(float(missing[0]))
            codes = graph.add("Where", graph.add("IsNaN", column.value), index, codes)
        codes = graph.whole(codes)
    return graph.add("Squeeze", codes, graph.constant(np.array([1])))


_CONVERTERS: dict[type, Callable[[Graph, Any, Blocks], Blocks]] = {
    StandardScaler: partial(
        _scaled, by=[("Sub", "mean_", "with_mean"), ("Div", "scale_", "with_std")]
    ),
    RobustScaler: partial(
        _scaled, by=[("Sub", "center_", "with_centering"), ("Div", "scale_", "with_scaling")]
    ),
    MinMaxScaler: partial(_scaled, by=[("Mul", "scale_", ""), ("Add", "min_", "")]),
    MaxAbsScaler: partial(_scaled, by=[("Div", "scale_", "")]),
    Binarizer: _binarized,
    SimpleImputer: _imputed,
    OneHotEncoder: _encoded,
    OrdinalEncoder: _encoded,
    TargetEncoder: _encoded,
    ColumnTransformer: _parallel_steps,
    FeatureUnion: _joined_steps,
    FunctionTransformer: _unchanged,
}
