"""Costs of items that users pass for decisions, read and checked once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from structboost._typing import FloatArray
from structboost.errors import TaskError
from structboost.faces.exact_numbers import check_exact
from structboost.faces.table_forms import frame_of
from structboost.validation import is_missing, lacks_and_has, shown, without_mask

Names = Sequence[Hashable]


def read_costs(
    costs: Any, n: int, n_items: int | None, names: Names | None = None
) -> tuple[FloatArray, list[Hashable] | None]:
    """Read costs of n instances as a table of n rows, and the names of the items, if there are any.

    Columns of a data frame are matched with ``names``, those of the problem or of training, or with
    their text.  TaskError, which names instance and item, if a cost is no finite number.
    """
    values, names = _by_item(nw.to_native(costs, pass_through=True), n, names)
    if values.ndim != 2 or len(values) != n:
        raise ValueError(
            f"costs has shape {values.shape}; give a row of costs for each of the {n} rows of X."
        )
    if n_items is not None and values.shape[1] != n_items:
        raise ValueError(
            f"X has features of {n_items} items, and costs has {values.shape[1]} columns; give one "
            "of each per item."
        )
    check_exact(values, "costs")
    table = _numbers(values, names)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        _raise_for_entry(table, names, *bad[0].tolist())
    # The order of entries in memory is that of sums, and so of their last bits.
    return np.ascontiguousarray(table), names


def _by_item(costs: Any, n: int, names: Names | None) -> tuple[Any, list[Hashable] | None]:
    """Return costs as an array with the items in order, and their names."""
    ordered = None if names is None else list(names)
    form = f"give an array or a data frame with a row of numbers for each of the {n} rows of X"
    if costs is None:
        raise ValueError(
            "PredictThenOptimize requires y to be passed, but the target y is None: give costs."
        )
    if isinstance(costs, str | bytes | Mapping | Set | Iterator) or sparse.issparse(costs):
        hint = "write costs.toarray()" if sparse.issparse(costs) else form
        raise TypeError(f"costs is {shown(costs)}; {hint}.")
    try:
        frame = frame_of(costs)
    except ValueError as error:
        raise ValueError(str(error).replace("X", "costs")) from None
    if frame is None:
        return _array(costs, form), ordered
    columns = list(costs.columns if hasattr(costs, "iloc") else frame.columns)
    counted: list[Any] = list(range(len(columns)))
    if set(columns) == set(counted):
        # Labels that pandas gives to columns without names, perhaps in another order.
        order = [columns.index(item) for item in counted]
    else:
        ordered = ordered or columns
        order = _order(columns, ordered)
    table = np.empty((len(frame), len(order)), object)
    for place, column in enumerate(order):
        table[:, place] = frame[:, column].to_list()
    return table, ordered


def _order(columns: list[Any], names: list[Hashable]) -> list[int]:
    """Return the place of the column of each item."""
    texts = [str(name) for name in names]
    wanted: list[Any] = texts if set(columns) == set(texts) else names
    missing = [name for name in wanted if name not in columns]
    unknown = [column for column in columns if column not in wanted]
    if missing or unknown:
        raise ValueError(
            f"The columns of costs must have the names of the items, such as {names[0]!r}; costs "
            f"{lacks_and_has(missing, unknown)}. Rename the columns, or give costs.to_numpy() with "
            "the columns in the order of the items."
        )
    return [columns.index(name) for name in wanted]


def _array(costs: Any, form: str) -> Any:
    """Return an array, perhaps of objects, and name the first row that is no row of numbers."""
    try:
        values = np.asarray(without_mask(costs))
    except (TypeError, ValueError):
        values = None
    if values is None or (values.dtype.kind == "O" and values.ndim < 2):
        _raise_for_row(costs, form)
        values = np.array([list(row) for row in costs], object)
    return values


def _raise_for_row(costs: Any, form: str) -> None:
    """Raise ValueError for the first entry that is no row or has another length."""
    is_sized = hasattr(costs, "__len__") and hasattr(costs, "__iter__")
    if isinstance(costs, type) or not is_sized or not len(costs):
        raise TypeError(f"costs is {shown(costs)}; {form}.")
    lengths = [len(row) if hasattr(row, "__len__") else None for row in costs]
    for i, length in enumerate(lengths):
        if length is None or isinstance(costs[i], str | bytes | Mapping | Set):
            raise ValueError(f"costs[{i}] is {shown(costs[i])}; {form}.")
    usual = max(set(lengths), key=lengths.count)
    for i, length in enumerate(lengths):
        if length != usual:
            raise ValueError(f"costs[{i}] has {length} entries, and other rows {usual}; {form}.")


def _numbers(values: Any, names: Names | None) -> FloatArray:
    """Return floats of an array, and name the first entry that is no real number."""
    if values.dtype.kind in "biuf":
        return np.asarray(values, np.float64)
    table = np.full(values.shape, np.nan)
    for i, row in enumerate(values.tolist()):
        for item, value in enumerate(row):
            if is_missing(value):
                continue
            try:
                if isinstance(value, str | bytes | complex) or hasattr(value, "year"):
                    raise TypeError
                table[i, item] = float(value)
            except (TypeError, ValueError, OverflowError):
                _raise_for_entry(values, names, i, item)
    return table


def _raise_for_entry(values: Any, names: Names | None, i: int, item: int) -> None:
    value = values[i, item]
    text = value if isinstance(value, float) else shown(value)
    name = item if names is None else repr(names[item])
    raise TaskError(
        f"The costs of X[{{sample}}] have {text} for item {name}; leave the input out, "
        "or fill the cost in.",
        i,
    )
