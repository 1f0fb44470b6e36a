"""Numbers of the columns of tables.

Checks without scikit-learn are in ``structboost.validation``, because processes of engines import
it and start in half the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.faces.forms import shape_of
from structboost.validation import (
    TABLE_TYPES,
    SparseRows,
    check_finite,
    first_unusable,
    frame_of,
    is_missing,
    is_whole,
    shown,
)

# Most entries of a sparse table that becomes an array: one gigabyte.
_MOST_ENTRIES = 1 << 27
# Larger whole numbers are not all numbers of double precision.
_EXACT = 2**53


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
    allow_missing = allow_missing and not is_sparse
    if not isinstance(y, str):
        check_lengths(X, y)
    options |= {
        "dtype": dtype,
        "ensure_all_finite": "allow-nan" if allow_missing else True,
        "accept_sparse": "csr",
    }
    try:
        if reset:
            checked = validate_data(estimator, X, y, **options)
        else:
            checked = check_array(X, estimator=estimator, input_name="X", **options)
    except ValueError as error:
        # The message of scikit-learn recommends another estimator, and does not name the sample.
        text = str(error)
        if "Input y contains" in text:
            # The checks of scikit-learn expect its own words for infinity.
            check_finite(y, "y", f" {error}" if "infinity" in text else "")
        for what in ("NaN", "infinity"):
            if f"X contains {what}" in text:
                remedy = (
                    "fill it, such as by sklearn.impute.SimpleImputer, give an array that is not "
                    "sparse, or name weak learners by text"
                )
                if what == "infinity":
                    remedy = "clip it, such as by np.clip(X, -1e30, 1e30)"
                    remedy += ", or make it NaN: missing" if allow_missing else ""
                rows = sparse.csr_array(X) if is_sparse else np.asarray(X, np.float64)
                raise ValueError(
                    f"X contains {what}, first in sample "
                    f"{first_unusable(rows, missing=allow_missing)}; {remedy}."
                ) from error
        raise
    table, *rest = checked if isinstance(checked, tuple) else (checked,)
    if is_sparse:
        table = SparseRows.of(table) if reads_sparse else _dense(table)
    elif not (table.flags.c_contiguous or table.flags.f_contiguous):
        # Products of strided rows have other last bits.
        table = np.ascontiguousarray(table)
    return (table, *rest) if rest else table


def _dense(table: Any) -> AnyArray:
    """Return the array of a sparse table, unless it is too large."""
    n_samples, n_features = table.shape
    if n_samples * n_features > _MOST_ENTRIES:
        raise ValueError(
            f"X is sparse and has {n_samples} x {n_features} entries, too many for the array that "
            "these weak learners need; take fewer columns, or weak_learner='tree', 'stump' or "
            "'linear' of StructBoostClassifier, which read sparse rows."
        )
    return np.asarray(table.toarray())


def check_lengths(X: Any, y: Any) -> None:
    """Raise ValueError unless there are as many labels as samples."""
    n_labels = np.shape(y)[:1] if sparse.issparse(y) or not hasattr(y, "__len__") else (len(y),)
    if n_labels and n_labels[0] != X.shape[0]:
        raise ValueError(
            f"X has {X.shape[0]} samples and y {n_labels[0]}; give one label for each."
        )


def check_width(estimator: str, n_features: int | None, X: Any) -> None:
    """Raise ValueError unless a table has as many columns as in training."""
    shape = shape_of(X)
    if len(shape) == 2 and shape[1] != n_features:
        raise ValueError(
            f"X has {shape[1]} features, but {estimator} is expecting {n_features} features as "
            "input."
        )


def numbers_of(X: Any, codes: dict[int, FloatArray]) -> Any:
    """Convert a table to an array or a sparse array of numbers, with NaN where values are missing.

    ``codes`` are numbers that replace columns.  ValueError or TypeError, which names the column, if
    one does not hold numbers, or whole numbers that double precision would round.
    """
    if sparse.issparse(X):
        _check_not_rounded(sparse.coo_array(X).data, "X")
        return X
    frame = frame_of(X)
    return _numbers_of_array(X, codes) if frame is None else _numbers_of_frame(X, frame, codes)


def _numbers_of_array(X: Any, codes: dict[int, FloatArray]) -> Any:
    has_objects = X.dtype.kind in "OSUTmMV"
    _check_not_rounded(X, "X")
    # scikit-learn names the shape of a matrix and of tables of other dimensions.
    if not (codes or has_objects) or X.ndim != 2 or isinstance(X, np.matrix):
        return X
    out = np.empty(X.shape) if has_objects else np.array(X, np.float64)
    for f in range(X.shape[1]):
        if f in codes:
            out[:, f] = codes[f]
        elif has_objects:
            out[:, f] = _numbers_of_objects(X[:, f].astype(object).tolist(), f"Column {f} of X")
    return out


def _numbers_of_frame(X: Any, frame: Any, codes: dict[int, FloatArray]) -> AnyArray:
    blocks = _blocks(X, frame, codes)
    columns = [(column[:, None], [f]) for f, column in codes.items()] + blocks
    dtypes = {block.dtype for block, _ in columns}
    # scikit-learn keeps tables of single precision and of bytes.
    is_uniform = len(dtypes) == 1 and dtypes <= {np.dtype(np.float32), np.dtype(np.uint8)}
    if len(columns) == 1 and (is_uniform or columns[0][0].dtype == np.float64):
        block = columns[0][0]
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
    for f, dtype in enumerate(X.dtypes if is_pandas else frame.schema.values()):
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
        blocks.append((_native(chosen.to_numpy()), places))
    return blocks


def empty_rows(X: Any) -> IntArray:
    """Return the indices of the rows of a sparse table that are 0 everywhere."""
    entries = sparse.coo_array(X)
    n_entries = np.bincount(entries.coords[0][entries.data != 0], minlength=entries.shape[0])
    return np.flatnonzero(n_entries == 0)


def _check_not_rounded(values: AnyArray, name: str) -> None:
    """Raise ValueError if an array has whole numbers that double precision would round."""
    if values.dtype.kind not in "iu" or not values.size:
        return
    if -_EXACT <= int(values.min()) and int(values.max()) <= _EXACT:
        return
    for value in values.ravel().tolist():
        if int(float(value)) != value:
            raise ValueError(
                f"{name} holds {value}, a whole number beyond 2**53 that double precision rounds, "
                "so neighbours would be equal; if it is a label, name its column in "
                "categorical_features or write strings, else subtract an offset."
            )


def _native(values: AnyArray) -> AnyArray:
    """Return single precision and bytes as they are, other numbers in double precision."""
    if values.dtype in (np.float32, np.uint8):
        return values
    _check_not_rounded(values, "X")
    return values.astype(np.float64)


def _numbers_of_series(column: Any, name: str) -> AnyArray:
    """Return the numbers of a column whose type is not one of NumPy for numbers."""
    dtype = column.dtype
    if not (dtype == nw.Boolean or dtype.is_integer() or dtype.is_float()):
        return _numbers_of_objects(column.to_list(), name)
    is_null = column.is_null().to_numpy()
    if not is_null.any():
        return _native(np.asarray(column.to_numpy()))
    out = np.full(len(column), np.nan)
    out[~is_null] = _native(np.asarray(column.drop_nulls().to_numpy()))
    return out


def _numbers_of_objects(values: Sequence[Any], name: str) -> FloatArray:
    """Return numbers of Python objects, with NaN for missing ones."""
    out = np.empty(len(values))
    for i, value in enumerate(values):
        if isinstance(value, float):
            out[i] = value
        elif is_missing(value):
            out[i] = np.nan
        else:
            try:
                if isinstance(value, str | bytes):
                    raise ValueError("it is text")
                out[i] = float(value)
                if is_whole(value) and int(out[i]) != value:
                    raise ValueError("double precision rounds it")
            except (TypeError, ValueError, OverflowError) as reason:
                of = TypeError if isinstance(reason, TypeError) else ValueError
                raise of(
                    f"{name} holds {shown(value)} in row {i}, which is no number ({reason}); make "
                    "numbers of it by .astype(float), or days of dates, encode it as numbers, such "
                    "as by sklearn.preprocessing.OneHotEncoder, or name it in categorical_features "
                    "before the fit."
                ) from reason
    return out
