"""Containers that are tables, and those that are sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from numbers import Number
from types import ModuleType
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from structboost._typing import AnyArray
from structboost.validation import is_missing, shown

# Larger whole numbers are not all numbers of double precision.
EXACT = 2**53


def check_exact(values: AnyArray, name: str) -> None:
    """Raise ValueError if an array has whole numbers that double precision would round."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return
    if -EXACT <= int(values.min()) and int(values.max()) <= EXACT:
        return
    is_large = values > EXACT
    if values.dtype.kind == "i":
        is_large |= values < -EXACT
    for value in values[is_large].tolist():
        check_whole_number_exact(value, name)


def check_whole_number_exact(value: int, name: str) -> None:
    """Raise ValueError if double precision would round a whole number."""
    try:
        is_exact = int(float(value)) == value
    except OverflowError:
        is_exact = False
    if not is_exact:
        raise ValueError(
            f"{name} holds {shown(value)}, a whole number beyond 2**53 that double precision "
            "rounds, so neighbours would be equal; if it is a label, name its column in "
            "categorical_features or write strings, else subtract an offset."
        )


def check_small(value: Any, name: str) -> None:
    """Raise ValueError for a whole number whose neighbours may be equal as floats."""
    if isinstance(value, int | np.integer) and abs(int(value)) > EXACT:
        raise ValueError(
            f"{name} holds {shown(value)}, a whole number beyond 2**53, and floats cannot hold "
            "all of these without rounding; give smaller ones, or strings if they are names."
        )


def may_be_rounded(table: AnyArray) -> bool:
    """Whether an array of floats may have been made of larger whole numbers."""
    if table.dtype.kind != "f" or not table.size:
        return False
    return bool((np.abs(table) >= EXACT).any())


FORMS_OF_TABLES = (
    "a data frame of pandas, polars or Arrow, an array of shape (n_samples, n_features), a list "
    "of equally long rows, or a sparse matrix"
)


def frame_of(X: Any, name: str = "X") -> Any:
    """Return a narwhals data frame for a frame of any supported library, or else None.

    ValueError if it is lazy, or two columns have one name.
    """
    X = nw.to_native(X, pass_through=True)  # narwhals warns of its own frames below
    if isinstance(X, np.ndarray | list | tuple) or sparse.issparse(X):
        return None
    if nw.dependencies.is_polars_lazyframe(X):
        raise ValueError(f"{name} is a LazyFrame, which holds no rows yet; give {name}.collect().")
    pyarrow = nw.dependencies.get_pyarrow()
    if pyarrow is not None and isinstance(X, pyarrow.RecordBatch):
        X = pyarrow.Table.from_batches([X])
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        names = list(getattr(X, "column_names", X.columns))  # Arrow's columns are arrays
        twice = next(one for one in names if names.count(one) > 1)
        raise ValueError(
            f"{name} has {names.count(twice)} columns named {twice!r}; give each column another "
            f"name, or pass {name} as an array."
        ) from error
    return frame if isinstance(frame, nw.DataFrame) else None


def shape_of(X: Any) -> tuple[int, ...]:
    """Return the shape of a table without its values."""
    if sparse.issparse(X):
        return tuple(X.shape)
    return np.shape(X) if (frame := frame_of(X)) is None else tuple(frame.shape)


def is_sparse(X: Any) -> bool:
    """Whether a table is sparse, as an array or as a frame of pandas with sparse columns only."""
    pandas = nw.dependencies.get_pandas()
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return bool(sparse.issparse(X))
    return X.shape[1] > 0 and all(isinstance(dtype, pandas.SparseDtype) for dtype in X.dtypes)


def checked_form(X: Any, *, most_axes: int = 2) -> Any:
    """Return a native data frame, an array or a sparse array or matrix for what a user passes.

    TypeError if it is no table.  ValueError if it is a table of another form, such as one row, or
    rows differ in length.
    """
    X = nw.to_native(X, pass_through=True)
    if sparse.issparse(X):
        table = X
        if X.ndim != 2:
            raise ValueError(
                f"X is a sparse array of shape {X.shape}. Expected 2D array; for one row write "
                "X.reshape((1, -1))."
            )
    else:
        _check_container(X)
        table = X if frame_of(X) is not None else _checked_array(X)
    _check_shape(table, most_axes)
    return table


def _checked_array(X: Any) -> Any:
    """Return the array of what is neither sparse nor a data frame."""
    if isinstance(X, np.ma.MaskedArray):
        return _without_mask(X)
    if isinstance(X, list | tuple):
        return _array_of_rows(X)
    if hasattr(X, "__array__") or hasattr(X, "__array_interface__"):
        # scikit-learn names matrices of NumPy.
        table = X if isinstance(X, np.matrix) else np.asarray(X)
        is_of_rows = table.dtype.kind == "O" and table.ndim == 1 and len(table) > 0
        return _array_of_rows(table.tolist()) if is_of_rows else table
    if hasattr(X, "__len__") and hasattr(X, "__getitem__") and not isinstance(X, type):
        return _array_of_rows(list(X))
    raise TypeError(f"X is {shown(X)}, which is no table; give {FORMS_OF_TABLES}.")


def _check_container(X: Any) -> None:
    """Raise unless ``X`` may be a table."""
    if isinstance(X, Mapping):
        raise TypeError(
            f"X is a {type(X).__name__}, {shown(X)}; a dict has no order of rows and columns that "
            f"fit and predict share. Write pandas.DataFrame(X); X may be {FORMS_OF_TABLES}."
        )
    if X is None or isinstance(X, str | bytes | bytearray | Set | type | ModuleType):
        raise TypeError(f"X is {shown(X)}, which is no table; give {FORMS_OF_TABLES}.")
    if isinstance(X, Iterator):
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read only once; write list(X). X may be "
            f"{FORMS_OF_TABLES}."
        )
    if _is_series(X):
        raise ValueError(
            f"X is a {type(X).__name__}, not 2-dimensional; for one row write frame.iloc[[i]] or "
            f"frame[i : i + 1], for one column series.to_frame(). X may be {FORMS_OF_TABLES}."
        )
    if getattr(getattr(X, "dtype", None), "names", None):
        raise ValueError(
            f"X is a structured array with the fields {shown(list(X.dtype.names))}; write "
            "pandas.DataFrame(X)."
        )


def _check_shape(X: Any, most_axes: int) -> None:
    """Raise ValueError, in the words of scikit-learn, unless a table has rows and columns."""
    shape = shape_of(X)
    if len(shape) < 2:
        what = "scalar array" if not shape else "1D array"
        if shape and shape[0] and all(isinstance(text, str) for text in X):
            raise ValueError(
                f"X has shape {shape}. Expected 2D array, got 1D array of strings instead. For one "
                "row write [X]; texts get columns by "
                "sklearn.feature_extraction.text.TfidfVectorizer."
            )
        raise ValueError(
            f"X has shape {shape}. Expected 2D array, got {what} instead. Reshape your data: for "
            "one row write X.reshape(1, -1), for one column X.reshape(-1, 1)."
        )
    if len(shape) > most_axes:
        raise ValueError(
            f"X has shape {shape}: Found array with dim {len(shape)}, while dim <= "
            f"{most_axes} is required; "
            "write X.reshape(len(X), -1)."
        )
    for n, what in ((shape[0], "sample"), (min(shape[1:]), "feature")):
        if not n:
            raise ValueError(
                f"X has no {'rows' if what == 'sample' else 'columns'}: Found array with 0 "
                f"{what}(s) (shape={shape}) while a minimum of 1 is required."
            )
    if frame_of(X) is not None:
        _check_labels_of_columns(X)
    elif getattr(X, "dtype", np.dtype(float)).kind == "c":
        raise ValueError(f"Complex data not supported: X holds {X.dtype}; give real numbers.")


def _is_series(X: Any) -> bool:
    try:
        series = nw.from_native(X, series_only=True, pass_through=True)
    except (TypeError, ValueError):
        return False
    return isinstance(series, nw.Series)


def _check_labels_of_columns(frame: Any) -> None:
    """Raise ValueError if columns of pandas have labels that are neither text nor numbers."""
    labels: Any = getattr(frame, "columns", ())
    if getattr(labels, "nlevels", 1) > 1:
        raise ValueError(
            f"X has columns of {labels.nlevels} levels, such as {shown(labels[0])}; give each one "
            "name, such as by X.columns = ['_'.join(map(str, one)) for one in X.columns]."
        )


def _without_mask(X: Any) -> Any:
    """Return an array in which masked entries are NaN."""
    if not np.ma.getmaskarray(X).any():
        return np.asarray(X)
    if X.dtype.kind in "biuf":
        check_exact(X.compressed(), "X")
        return np.asarray(X.astype(np.float64).filled(np.nan))
    return np.asarray(X.astype(object).filled(np.nan))


def _check_row(row: Any, i: int) -> None:
    """Raise TypeError if a row has names, is sparse, or has no order."""
    if isinstance(row, Mapping):
        raise TypeError(
            f"X[{i}] is the dict {shown(row)}; write pandas.DataFrame(X). X may be "
            f"{FORMS_OF_TABLES}."
        )
    if sparse.issparse(row):
        raise TypeError(f"X[{i}] is a sparse array; write scipy.sparse.vstack(X, format='csr').")
    if _is_series(row) or frame_of(row) is not None:
        how = "pandas.concat(X)" if np.ndim(row) == 2 else "pandas.DataFrame(X)"
        raise TypeError(f"X[{i}] is a {type(row).__name__}; write {how}.")
    if isinstance(row, Iterator | Set):
        raise TypeError(f"X[{i}] is {shown(row)}, which is no row; give lists of numbers.")


def _array_of_rows(X: Any) -> Any:
    """Return the array of a list of rows."""
    types = list(map(type, X))
    if any(issubclass(of, np.ma.MaskedArray) for of in set(types)):
        X = [_without_mask(row) if isinstance(row, np.ma.MaskedArray) else row for row in X]
        types = list(map(type, X))
    for of in set(types) - {list, tuple, np.ndarray, float, int}:
        _check_row(X[types.index(of)], types.index(of))
    lengths = [len(row) if hasattr(row, "__len__") else None for row in X]
    other = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
    if other is not None and not isinstance(X[other], str):
        values = ["one value" if n is None else f"{n} values" for n in lengths]
        raise ValueError(
            f"X[{other}] has {values[other]}, and X[0] has {values[0]}; give equally long rows."
        )
    try:
        table = np.asarray(X)
    except ValueError as error:  # rows of rows
        raise ValueError(f"X is no table ({error}); give equally long rows of numbers.") from error
    if table.dtype.kind in "SU" or may_be_rounded(table):
        # Strings would swallow numbers, and floats whole numbers.
        table = np.asarray(X, dtype=object)
    return table


_FORMS = (
    "give a list of sequences, each of them a list of dicts, a sparse matrix or an array "
    "(n_tokens, n_features)"
)


def listed_sequences(X: Any) -> list[Any]:
    """Return the sequences of a list, an array of three dimensions, a series or another container.

    TypeError or ValueError if it is one table, a mapping, a set, a string, an iterator, no
    container, or empty.
    """
    is_table = sparse.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2)
    if not _is_container(X) or (is_table and X.dtype != object):
        raise TypeError(f"X is {shown(X)}, no list of sequences; {_FORMS}.  [X] is one sequence.")
    sequences = _values(X)
    if not sequences:
        raise ValueError("X is empty; give at least one sequence.")
    return sequences


def listed_tags(y: Any, lengths: Sequence[int]) -> list[list[Any]]:
    """Return the tags of each sequence as Python values, None where one is missing.

    ValueError or TypeError, which names it, if this is no list of sequences, a sequence has not one
    tag for each token, or a tag is neither a string nor a number.
    """
    if not _is_container(y):
        raise TypeError(f"y is {shown(y)}; give a list that has a list of tags for each sequence.")
    y = _values(y)
    if len(y) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences and y {len(y)}; give one for each.")
    out = []
    for i, (tags, n) in enumerate(zip(y, lengths, strict=True)):
        listed = _values(tags) if _is_container(tags) else []
        if len(listed) != n or not _is_container(tags):
            raise ValueError(f"y[{i}] is {shown(tags)}; give a tag for each of the {n} tokens.")
        out.append([tag if type(tag) is str else _tag(tag, i, t) for t, tag in enumerate(listed)])
    return out


def _tag(tag: Any, i: int, t: int) -> Any:
    """Return a tag as a Python value, None if it is missing."""
    if isinstance(tag, str):
        return str.__str__(tag)
    if is_missing_tag(tag):
        return None
    tag = tag.item() if isinstance(tag, np.generic) else tag
    if not isinstance(tag, int | float):
        raise ValueError(f"y[{i}][{t}] is {shown(tag)}; give one string or number a token.")
    return tag


def is_missing_tag(tag: Any) -> bool:
    """Whether a tag is None, NaN, or the missing value of pandas."""
    return not isinstance(tag, str) and not hasattr(tag, "__len__") and is_missing(tag)


def is_of_dicts(x: Any) -> bool:
    """Whether a sequence is a list of dicts."""
    return isinstance(x, list | tuple) and (
        set(map(type, x)) <= {dict} or all(isinstance(token, Mapping) for token in x)
    )


def numbers_of(x: Any, i: int) -> Any:
    """Return sequence ``i`` as a sparse array or an array of real numbers, of any shape.

    TypeError or ValueError if it is neither.
    """
    if sparse.issparse(x):
        return x
    if not _is_container(x) or isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"X[{i}] is {shown(x)}; give a list of dicts, such as frame.to_dict('records'), or an "
            "array, such as frame.to_numpy(), without masked values."
        )
    try:
        rows = np.asarray(x)
        if rows.dtype.kind == "O" and rows.ndim == 2 and all(map(is_real, rows.flat)):
            rows = np.array(rows, np.float64)
    except (ValueError, OverflowError):
        rows = np.zeros(0, object)
    if rows.dtype.kind not in "biuf":
        raise ValueError(
            f"X[{i}] is {shown(x)}; give (n_tokens, n_features) numbers, or a dict of features for "
            "each token.  structboost.text.TokenFeatures makes features of words."
        )
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def _is_container(values: Any) -> bool:
    """Whether values have an order and can be read again, which frames and iterators have not."""
    is_other = isinstance(values, str | bytes | Mapping | Set | Iterator)
    has_axes = getattr(values, "ndim", 1) != 0  # an array of none is an Iterable that raises
    is_frame = hasattr(values, "columns") or hasattr(values, "collect")
    return not (is_other or is_frame) and has_axes and isinstance(values, Iterable)


def _values(x: Any) -> list[Any]:
    """Return the items of an iterable, in Python types if a series or an Arrow array has them."""
    for name in ("to_pylist", "to_list"):
        if hasattr(x, name):
            return list(getattr(x, name)())
    return list(x)


def is_real(value: Any) -> bool:
    """Whether a value is a real number or a bool."""
    return isinstance(value, Number | np.bool_) and not isinstance(value, complex)
