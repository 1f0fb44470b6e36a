"""Numbers of the columns of tables, exact or refused.

Checks without scikit-learn are in ``structboost.validation``, because processes of engines import
it and start in half the time.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.errors import warn_user
from structboost.faces.forms import (
    check_exact,
    check_whole_number_exact,
    frame_of,
    is_sparse,
    shape_of,
)
from structboost.validation import (
    TABLE_TYPES,
    SparseRows,
    check_finite,
    is_missing,
    is_number,
    shown,
)

# Most entries of a sparse table that becomes an array: one gigabyte.
_MOST_ENTRIES = 1 << 27


def validated_numbers(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    *,
    reset: bool = True,
    allow_missing: bool,
    reads_sparse: bool,
    dtype: Any = TABLE_TYPES,
    **options: Any,
) -> Any:
    """Check numbers and ``y`` by scikit-learn, and name the entry in errors.

    In a fit, ``reset`` is True and sets ``n_features_in_``.  Entries of an array may be NaN with
    ``allow_missing``, and sparse tables stay sparse with ``reads_sparse``.  All other options go to
    ``validate_data``.
    """
    is_sparse = sparse.issparse(X)
    check_outputs(y, X)
    options |= {
        "dtype": dtype,
        "ensure_all_finite": "allow-nan" if allow_missing and not is_sparse else True,
        "accept_sparse": "csr",
    }
    try:
        if reset:
            checked = validate_data(estimator, X, y, **options)
        else:
            checked = check_array(X, estimator=estimator, input_name="X", **options)
    except ValueError as error:
        # The message of scikit-learn recommends another estimator, and does not name the sample.
        if "Input y contains" in str(error):
            # The checks of scikit-learn expect its own words for infinity.
            check_finite(y, "y", f" {error}" if "infinity" in str(error) else "")
        if "X contains NaN" in str(error):
            _raise_for_missing(X, error)
        if "X contains infinity" in str(error):
            _raise_for_infinite(X, error)
        raise
    table, *rest = checked if isinstance(checked, tuple) else (checked,)
    if is_sparse:
        table = SparseRows.of(table) if reads_sparse else _dense(table)
    elif not (table.flags.c_contiguous or table.flags.f_contiguous):
        # Products of strided rows have other last bits.
        table = np.ascontiguousarray(table)
    return (table, *rest) if rest else table


def check_outputs(y: Any, X: Any) -> None:
    """Raise ValueError if true outputs are complex, or are not as many as the rows of a table."""
    if y is None or isinstance(y, str) or sparse.issparse(y):
        return
    try:
        outputs = np.asarray(y)
    except ValueError:  # rows differ in length
        return
    shape, n_samples = outputs.shape, X.shape[0]
    if outputs.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers; give labels.")
    if len(shape) > 2:
        raise ValueError(f"y has shape {shape}: Found array with dim {len(shape)}; give one label.")
    if shape and shape[0] != n_samples:
        raise ValueError(f"X has {n_samples} samples and y {shape[0]}; give one for each.")


def check_width(estimator: str, n_features: int | None, X: Any) -> None:
    """Raise ValueError unless a table has as many columns as in training."""
    shape = shape_of(X)
    if len(shape) == 2 and shape[1] != n_features and min(shape):
        raise ValueError(
            f"X has {shape[1]} features, but {estimator} is expecting {n_features} features as "
            "input."
        )


def _dense(table: Any) -> AnyArray:
    """Return the array of a sparse table, unless it is too large."""
    n_entries = int(np.prod(table.shape, dtype=object))
    if n_entries > _MOST_ENTRIES:
        raise ValueError(
            f"X is sparse and has {table.shape[0]} x {table.shape[1]} entries, too many for the "
            "array that these weak learners need; take fewer columns, or weak_learner='tree', "
            "'stump' or 'linear' of StructBoostClassifier, which read sparse rows."
        )
    return np.asarray(table.toarray())


def _raise_for_missing(X: Any, error: ValueError) -> None:
    """Raise ValueError, with the first missing entry, if ``X`` has any."""
    for row, column in _entries(X, np.isnan)[:1]:
        takers = "sparse tables" if sparse.issparse(X) else "these weak learners"
        remedy = (
            "put numbers there, or give an array that is not sparse"
            if sparse.issparse(X)
            else "fill it, such as by sklearn.impute.SimpleImputer, or name weak learners by text"
        )
        raise ValueError(
            f"X contains NaN, first in sample {row}, feature {column}, which {takers} do not take; "
            f"{remedy}."
        ) from error


def _raise_for_infinite(X: Any, error: ValueError) -> None:
    """Raise ValueError, with the first infinite entry, if ``X`` has any."""
    for row, column in _entries(X, np.isinf)[:1]:
        raise ValueError(
            f"X contains infinity, first in sample {row}, feature {column}; give finite numbers, "
            "such as by numpy.clip."
        ) from error


def _entries(X: Any, are_wrong: Callable[[AnyArray], BoolArray]) -> IntArray:
    """Return rows and columns of the wrong entries in the order of rows, shape (n, 2)."""
    if not sparse.issparse(X):
        return np.argwhere(are_wrong(np.asarray(X, np.float64)))
    entries = sparse.coo_array(X)
    wrong = are_wrong(entries.data)
    return np.unique(np.column_stack((entries.row[wrong], entries.col[wrong])), axis=0)


_ENCODE = (
    "encode it as numbers first, such as by sklearn.preprocessing.OneHotEncoder, or name it in "
    "categorical_features before the fit"
)


_READ = (
    "make numbers of it by .astype(float), or name it in categorical_features before the fit if it "
    "has categories"
)


def numbers_of(X: Any, codes: dict[int, FloatArray]) -> Any:
    """Convert a table to an array or a sparse array of numbers, with NaN where values are missing.

    ``codes`` are numbers that replace columns.  ValueError or TypeError, which names the column, if
    one does not hold numbers, or whole numbers that double precision would round.
    """
    if sparse.issparse(X):
        check_exact(X.data if hasattr(X, "data") else X.tocoo().data, "X")
        return X
    frame = frame_of(X)
    if frame is None:
        return _numbers_of_array(X, codes)
    if is_sparse(X):
        return _numbers_of_sparse_columns(X)
    return _numbers_of_frame(X, frame, codes)


def empty_rows(X: Any) -> IntArray:
    """Return the indices of the rows of a sparse table that are 0 everywhere."""
    entries = sparse.coo_array(X)
    has_entries = np.zeros(entries.shape[0], bool)
    has_entries[entries.coords[0][entries.data != 0]] = True
    return np.flatnonzero(~has_entries)


def warn_of_empty_rows(X: Any) -> None:
    """Warn if rows of a sparse table are 0 everywhere, where training had no such row."""
    rows = empty_rows(X)
    if len(rows):
        warn_user(
            f"X has {len(rows)} of {X.shape[0]} rows that are 0 everywhere, such as row {rows[0]}, "
            "and training had none; make X as in training, with the same vocabulary.",
            UserWarning,
        )


def _numbers_of_array(X: Any, codes: dict[int, FloatArray]) -> Any:
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if kind in "mM":
        raise ValueError(
            f"X holds {X.dtype}; convert dates to numbers first, such as days since one of them."
        )
    if kind in "iu":
        check_exact(X, "X")
    if not codes and kind not in "OSU":
        return X
    if np.ndim(X) != 2 or isinstance(X, np.matrix):
        return X  # scikit-learn names the shape
    if kind not in "OSU":
        out = np.array(X, np.float64)
    else:
        out = np.empty(X.shape)
        for f in range(X.shape[1]):
            if f not in codes:
                name = f"Column {f} of X"
                out[:, f] = _numbers_of_objects(X[:, f].tolist(), name, X.dtype, TypeError)
    for f, column in codes.items():
        out[:, f] = column
    return out


def _numbers_of_sparse_columns(X: Any) -> Any:
    """Return the sparse array of a frame of pandas whose columns are all sparse."""
    for i, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        if dtype.subtype.kind in "cmMO":
            raise ValueError(f"Column {name!r} of X holds {dtype}; convert it to numbers first.")
        if dtype.fill_value != 0:
            raise ValueError(
                f"Column {name!r} of X is sparse with the fill value {dtype.fill_value}; only 0 is "
                "supported. Give X.sparse.to_dense()."
            )
        check_exact(np.asarray(X.iloc[:, i].array.sp_values), f"Column {name!r} of X")
    return sparse.csr_array(X.sparse.to_coo())


def _numbers_of_frame(X: Any, frame: Any, codes: dict[int, FloatArray]) -> AnyArray:
    blocks = _blocks(X, frame, codes)
    columns = [(column[:, None], [f]) for f, column in codes.items()] + blocks
    dtypes = {block.dtype for block, _ in columns}
    # scikit-learn keeps tables of single precision and of bytes.
    is_uniform = len(dtypes) == 1 and dtypes <= {np.dtype(np.float32), np.dtype(np.uint8)}
    if len(columns) == 1 and (is_uniform or columns[0][0].dtype == np.float64):
        block: AnyArray = columns[0][0]
        return block
    out = np.empty(frame.shape, dtypes.pop() if is_uniform else np.float64)
    for block, places in columns:
        out[:, places] = block
    return out


def _blocks(X: Any, frame: Any, codes: dict[int, FloatArray]) -> list[tuple[AnyArray, list[int]]]:
    """Return blocks of numbers, shape (n_samples, n_columns), and their places in the table."""
    plain: dict[Any, list[int]] = {}
    blocks: list[tuple[AnyArray, list[int]]] = []
    names = frame.columns
    is_pandas = hasattr(X, "iloc")
    types = X.dtypes if is_pandas else frame.schema.values()
    for f, dtype in enumerate(types):
        if f in codes:
            continue
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            plain.setdefault(dtype, []).append(f)
        elif isinstance(dtype, nw.Float64 | nw.Float32):
            plain.setdefault(type(dtype), []).append(f)
        else:
            column = _numbers_of_series(frame.get_column(names[f]), f"Column {names[f]!r} of X")
            blocks.append((column[:, None], [f]))
    for places in plain.values():
        # Labels of pandas need not be text.
        chosen = X.iloc[:, places] if is_pandas else frame.select([names[f] for f in places])
        values: AnyArray = chosen.to_numpy()
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
            for k, f in enumerate(places):
                check_exact(values[:, k], f"Column {names[f]!r} of X")
        blocks.append((_native(values), places))
    return blocks


def _native(values: AnyArray) -> AnyArray:
    """Return single precision and bytes as they are, other numbers in double precision."""
    if values.dtype in (np.float32, np.uint8):
        return values
    return values.astype(np.float64)


def _numbers_of_series(column: Any, name: str) -> AnyArray:
    """Return the numbers of a column whose type is not one of NumPy for numbers."""
    dtype, native = column.dtype, column.to_native()
    if hasattr(native, "sparse"):  # of pandas
        native = native.sparse.to_dense()
        column = nw.from_native(native, series_only=True)
        dtype = column.dtype
    kind = getattr(getattr(native, "dtype", None), "kind", "")
    if dtype.is_temporal() or kind in ("m", "M"):
        _raise_for_dates(name, getattr(native, "dtype", dtype))
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} holds complex numbers; give reals.")
    if dtype.is_integer():
        check_exact(np.asarray(column.drop_nulls().to_numpy()), name)
    if dtype == nw.Boolean or dtype.is_integer() or dtype.is_float():
        is_null = column.is_null().to_numpy()
        if not is_null.any():
            return _native(np.asarray(column.to_numpy()))
        out = np.full(len(column), np.nan)
        out[~is_null] = column.drop_nulls().to_numpy()
        return out
    return _numbers_of_objects(column.to_list(), name, getattr(native, "dtype", dtype))


def _raise_for_dates(name: str, dtype: Any) -> None:
    raise ValueError(
        f"{name} holds {dtype}; convert it to numbers first, such as days since a date."
    )


def _numbers_of_objects(
    values: Sequence[Any], name: str, dtype: Any, error: type[Exception] = ValueError
) -> FloatArray:
    """Return numbers of Python objects, with NaN for missing ones.

    ``error`` is the class for objects that are neither numbers nor text.
    """
    out = np.empty(len(values))
    for i, value in enumerate(values):
        if isinstance(value, float):
            out[i] = value
        elif isinstance(value, complex | np.complexfloating):
            raise ValueError(f"Complex data not supported: {name} holds {shown(value)}.")
        elif isinstance(value, numbers.Integral):
            check_whole_number_exact(int(value), name)
            out[i] = float(value)
        elif is_missing(value):
            out[i] = np.nan
        elif isinstance(value, str | bytes):
            texts = (one for one in values if isinstance(one, str | bytes))
            remedy = _READ if all(map(is_number, texts)) else _ENCODE
            raise ValueError(f"{name} holds {dtype}, such as {shown(value)} in row {i}; {remedy}.")
        else:
            out[i] = _float_of(value, name, f"{dtype}, such as {shown(value)} in row {i}", error)
    return out


def _float_of(value: Any, name: str, what: str, error: type[Exception]) -> float:
    if hasattr(value, "year"):  # dates have no number
        raise ValueError(f"{name} holds {what}; convert it to numbers first, such as days.")
    try:
        return float(value)
    except (TypeError, ValueError) as reason:
        raise error(f"{name} holds {what}, which is no number ({reason}); {_ENCODE}.") from reason
