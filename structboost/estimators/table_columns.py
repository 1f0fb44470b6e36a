"""Categorical columns of tables, and their encoding as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from structboost._typing import FloatArray
from structboost.validation import is_missing, shown
from structboost.weak.category_sets import MOST_CATEGORIES

FROM_DTYPE = "from_dtype"
# Ordered categories of a column, whose positions are their codes.
Categories = Mapping[int, Sequence[Any]]


def frame_of(X: Any) -> Any:
    """Return a narwhals data frame for a frame of any supported library, or else None.

    Raises
    ------
    ValueError
        If it is lazy, or two columns have one name.
    """
    X = nw.to_native(X, pass_through=True)  # narwhals warns of its own frames below
    if nw.dependencies.is_polars_lazyframe(X):
        raise ValueError("X is a LazyFrame, which holds no rows yet; give X.collect().")
    pyarrow = nw.dependencies.get_pyarrow()
    if pyarrow is not None and isinstance(X, pyarrow.RecordBatch):
        X = pyarrow.Table.from_batches([X])
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        names = list(getattr(X, "column_names", X.columns))  # Arrow's columns are arrays
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"X has {names.count(twice)} columns named {twice!r}; give each column another name, "
            "or pass X as an array."
        ) from error
    return frame if isinstance(frame, nw.DataFrame) else None


def is_sparse(X: Any) -> bool:
    """Whether scikit-learn reads a table as sparse, as it does with sparse columns of pandas."""
    pandas = nw.dependencies.get_pandas()
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return bool(sparse.issparse(X))
    return X.shape[1] > 0 and all(isinstance(dtype, pandas.SparseDtype) for dtype in X.dtypes)


def categorical_columns(X: Any, wanted: Any) -> list[int]:
    """Return the indices of the categorical columns of a table.

    Raises
    ------
    ValueError
        If it names no columns of X.
    """
    frame = frame_of(X)
    if wanted is None or (isinstance(wanted, str) and wanted == FROM_DTYPE):
        if wanted is None or frame is None:
            return []
        kinds = (nw.Categorical, nw.Enum, nw.String)
        return [i for i, dtype in enumerate(frame.schema.values()) if isinstance(dtype, kinds)]
    selection, n_columns = np.asarray(wanted), np.shape(X)[1]
    if selection.dtype.kind in "UO" and frame is not None and selection.ndim == 1:
        unknown = [name for name in selection.tolist() if name not in frame.columns]
        if unknown:
            raise ValueError(
                f"categorical_features names {unknown[0]!r}, which is no column of X; it has "
                f"{shown(frame.columns)}."
            )
        return sorted(frame.columns.index(name) for name in selection.tolist())
    if selection.dtype.kind == "b" and selection.shape == (n_columns,):
        return [int(f) for f in np.flatnonzero(selection)]
    is_index = selection.dtype.kind in "iu" and selection.ndim == 1
    if is_index and (selection >= 0).all() and (selection < n_columns).all():
        return [int(f) for f in np.unique(selection)]
    if selection.ndim == 1 and not selection.size:
        return []
    raise ValueError(
        f"categorical_features is {shown(wanted)}; give 'from_dtype', None, names of columns of a "
        f"data frame, column indices from 0 to {n_columns - 1}, or a mask of {n_columns} bool."
    )


def categories_of(X: Any, columns: Sequence[int]) -> dict[int, list[Any]]:
    """Return the categories that occur in columns.

    Raises
    ------
    ValueError
        If a column has too many; the message names it.
    """
    categories = {}
    for f in columns:
        values = {value for value in _values(X, f) if not is_missing(value)}
        if len(values) > MOST_CATEGORIES:
            raise ValueError(
                f"Column {_name(X, f)!r} of X has {len(values)} categories; at most "
                f"{MOST_CATEGORIES} are supported. Join the rare ones, or leave it out of "
                "categorical_features and encode it as numbers."
            )
        categories[f] = _in_order(values, _name(X, f))
    return categories


def with_numbers(X: Any, categories: Categories) -> Any:
    """Replace categories in a table or data frame by codes, NaN if missing or unknown."""
    if not categories:
        return X
    codes = {f: _codes(_values(X, f), values) for f, values in categories.items()}
    frame = frame_of(X)
    if frame is None:
        table = np.asarray(X)
        # In an array of strings and numbers, later checks name the numbers.
        out = np.array(table, object if table.dtype.kind in "OUS" else np.float64)
        for f, column in codes.items():
            out[:, f] = column
        return out
    names = frame.columns
    columns = [
        nw.new_series(names[f], column, nw.Float64, backend=frame.implementation)
        for f, column in codes.items()
    ]
    if hasattr(X, "index"):
        # pandas aligns series by the index.
        return X.assign(**{series.name: series.to_numpy() for series in columns})
    return frame.with_columns(*columns).to_native()


def _codes(values: Sequence[Any], categories: Sequence[Any]) -> FloatArray:
    code = {value: i for i, value in enumerate(categories)}
    return np.array([np.nan if is_missing(value) else code.get(value, np.nan) for value in values])


def _values(X: Any, f: int) -> Sequence[Any]:
    """Return the values of a column as Python objects."""
    frame = frame_of(X)
    if frame is None:
        return list(np.asarray(X)[:, f].tolist())
    return list(frame[:, f].to_list())


def _name(X: Any, f: int) -> Any:
    frame = frame_of(X)
    return f if frame is None else frame.columns[f]


def _in_order(values: Iterable[Any], name: Any) -> list[Any]:
    """Return categories in ascending order, strings last."""
    try:
        return sorted(values, key=lambda value: (isinstance(value, str), value))
    except TypeError as error:
        raise ValueError(
            f"Column {name!r} of X has categories of types that have no common order "
            f"({error}); convert them to strings."
        ) from error
