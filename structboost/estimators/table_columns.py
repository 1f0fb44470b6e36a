"""Categorical columns of tables as numbers: which they are, and the number of each category."""

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
# Categories of a column in order; their places are their numbers.
Categories = Mapping[int, Sequence[Any]]


def frame_of(X: Any) -> Any:
    """A data frame of any library that narwhals knows, or of narwhals; None for all else.

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
            f"X has {names.count(twice)} columns named {twice!r}; give each column a name of its "
            "own, or pass X as an array."
        ) from error
    return frame if isinstance(frame, nw.DataFrame) else None


def is_sparse(X: Any) -> bool:
    """Whether scikit-learn reads a table as a sparse one: so it does pandas' sparse columns."""
    pandas = nw.dependencies.get_pandas()
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return bool(sparse.issparse(X))
    return X.shape[1] > 0 and all(isinstance(dtype, pandas.SparseDtype) for dtype in X.dtypes)


def categorical_columns(X: Any, wanted: Any) -> list[int]:
    """Numbers of the categorical columns of a table.

    Parameters
    ----------
    X : array or data frame
    wanted : "from_dtype", None, or array-like of bool, int or str

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
    given, n_columns = np.asarray(wanted), np.shape(X)[1]
    if given.dtype.kind in "UO" and frame is not None and given.ndim == 1:
        unknown = [name for name in given.tolist() if name not in frame.columns]
        if unknown:
            raise ValueError(
                f"categorical_features names {unknown[0]!r}, which is no column of X; it has "
                f"{shown(frame.columns)}."
            )
        return sorted(frame.columns.index(name) for name in given.tolist())
    if given.dtype.kind == "b" and given.shape == (n_columns,):
        return [int(f) for f in np.flatnonzero(given)]
    is_number = given.dtype.kind in "iu" and given.ndim == 1
    if is_number and (given >= 0).all() and (given < n_columns).all():
        return [int(f) for f in np.unique(given)]
    if given.ndim == 1 and not given.size:
        return []
    raise ValueError(
        f"categorical_features is {shown(wanted)}; give 'from_dtype', None, names of columns of a "
        f"data frame, column numbers from 0 to {n_columns - 1}, or a mask of {n_columns} bool."
    )


def categories_of(X: Any, columns: Sequence[int]) -> dict[int, list[Any]]:
    """The categories that occur in columns.

    Raises
    ------
    ValueError
        If a column has too many; the message names it.
    """
    found = {}
    for f in columns:
        values = {value for value in _values(X, f) if not is_missing(value)}
        if len(values) > MOST_CATEGORIES:
            raise ValueError(
                f"Column {_name(X, f)!r} of X has {len(values)} categories; at most "
                f"{MOST_CATEGORIES} are supported. Join the rare ones, or leave it out of "
                "categorical_features and encode it as numbers."
            )
        found[f] = _in_order(values, _name(X, f))
    return found


def with_numbers(X: Any, categories: Categories) -> Any:
    """The table with the numbers of categories in place of them, NaN for missing and unknown ones.

    A data frame stays one.
    """
    if not categories:
        return X
    codes = {f: _codes(_values(X, f), known) for f, known in categories.items()}
    frame = frame_of(X)
    if frame is None:
        given = np.asarray(X)
        # An array of strings and numbers keeps the numbers for the checks that name them.
        out = np.array(given, object if given.dtype.kind in "OUS" else np.float64)
        for f, column in codes.items():
            out[:, f] = column
        return out
    names = frame.columns
    made = [
        nw.new_series(names[f], column, nw.Float64, backend=frame.implementation)
        for f, column in codes.items()
    ]
    if hasattr(X, "index"):
        # Series of pandas find their rows by the index.
        return X.assign(**{series.name: series.to_numpy() for series in made})
    return frame.with_columns(*made).to_native()


def _codes(values: Sequence[Any], categories: Sequence[Any]) -> FloatArray:
    number = {value: i for i, value in enumerate(categories)}
    return np.array(
        [np.nan if is_missing(value) else number.get(value, np.nan) for value in values]
    )


def _values(X: Any, f: int) -> Sequence[Any]:
    """Values of a column as Python's."""
    frame = frame_of(X)
    if frame is None:
        return list(np.asarray(X)[:, f].tolist())
    return list(frame[:, f].to_list())


def _name(X: Any, f: int) -> Any:
    frame = frame_of(X)
    return f if frame is None else frame.columns[f]


def _in_order(values: Iterable[Any], name: Any) -> list[Any]:
    """Categories in ascending order, strings last."""
    try:
        return sorted(values, key=lambda value: (isinstance(value, str), value))
    except TypeError as error:
        raise ValueError(
            f"Column {name!r} of X has categories of types that have no order together "
            f"({error}); convert them to strings."
        ) from error
