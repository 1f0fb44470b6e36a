"""Checks of the tables that users pass to estimators.

Checks without scikit-learn are in ``structboost.validation``, because processes of engines import
it and start in half the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from structboost._typing import IntArray
from structboost.estimators.table_columns import frame_of, is_sparse
from structboost.validation import TABLE_TYPES, SparseRows, check_finite, shown
from structboost.weak.families import check_takes_sparse


def validated_table(
    estimator: Any, X: Any, y: Any = "no_validation", *, dtype: Any = TABLE_TYPES, **options: Any
) -> Any:
    """Check ``X`` and ``y`` by ``validate_data`` of scikit-learn, and name the column in errors.

    X may have missing entries (NaN) if the tags of the estimator allow them.
    """
    X = nw.to_native(X, pass_through=True)
    _check_columns(X)
    tags = get_tags(estimator).input_tags
    reads_sparse = is_sparse(X)
    if reads_sparse and not tags.sparse:
        check_takes_sparse(getattr(estimator, "weak_learner", None))
        raise ValueError(
            f"X is sparse, which {type(estimator).__name__} cannot take; write X.toarray() in "
            "place of X."
        )
    options |= {"ensure_all_finite": "allow-nan" if tags.allow_nan and not reads_sparse else True}
    if tags.sparse:
        options["accept_sparse"] = "csr"
    try:
        checked = validate_data(estimator, X, y, dtype=dtype, **options)
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
    if not reads_sparse:
        return checked
    if isinstance(checked, tuple):
        return SparseRows.of(checked[0]), *checked[1:]
    return SparseRows.of(checked)


def check_names_and_width(estimator: Any, X: Any) -> None:
    """Raise ValueError unless the columns are those of training, whatever their values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # validated_table warns of missing names
        validate_data(estimator, X, reset=False, skip_check_array=True)


def _raise_for_missing(X: Any, error: ValueError) -> None:
    """Raise ValueError, with the first missing entry, if ``X`` has any."""
    for row, column in _entries(X, np.isnan)[:1]:
        takers = "sparse tables" if is_sparse(X) else "weak learners other than stumps and trees"
        remedy = (
            "put numbers there, or give an array that is not sparse"
            if is_sparse(X)
            else "fill it, such as by sklearn.impute.SimpleImputer"
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


def _entries(X: Any, are_wrong: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> IntArray:
    """Return rows and columns of the wrong entries in the order of rows, shape (n, 2)."""
    if not is_sparse(X):
        return np.argwhere(are_wrong(_numbers(X)))
    entries = sparse.coo_array(X if sparse.issparse(X) else X.sparse.to_coo())
    wrong = are_wrong(entries.data)
    return np.unique(np.column_stack((entries.row[wrong], entries.col[wrong])), axis=0)


def _numbers(X: Any) -> NDArray[np.float64]:
    """Return a table of numbers, with NaN for missing values of pandas such as NA."""
    if hasattr(X, "iloc"):
        return np.asarray(X.to_numpy(np.float64, na_value=np.nan))
    return np.asarray(X, np.float64)


def _check_columns(X: Any) -> None:
    """Raise ValueError if an array or a column of a data frame does not hold numbers."""
    frame = frame_of(X)
    if frame is not None and not frame.implementation.is_pandas_like():
        for name, dtype in frame.schema.items():
            _check_type(name, dtype)
        return
    if frame is None:
        if getattr(getattr(X, "dtype", None), "kind", "f") in "mM":
            raise ValueError(
                f"X holds {X.dtype}; convert dates to numbers first, such as days since one of "
                "them."
            )
        return
    reads_sparse = is_sparse(X)
    for i, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        if dtype.kind in "mM":
            raise ValueError(
                f"Column {name!r} of X holds {dtype}; convert it to numbers first, such as days "
                "since a date."
            )
        if reads_sparse and dtype.fill_value != 0:
            raise ValueError(
                f"Column {name!r} of X is sparse with the fill value {dtype.fill_value}; only 0 is "
                "supported. Give X.sparse.to_dense()."
            )
        if dtype.kind == "O":
            _check_convertible(name, X.iloc[:, i])


def _check_type(name: str, dtype: Any) -> None:
    """Raise ValueError if a column of a frame outside pandas does not hold numbers."""
    if dtype.is_temporal():
        raise ValueError(
            f"Column {name!r} of X holds {dtype}; convert it to numbers first, such as days since "
            "a date."
        )
    if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Unknown)):
        raise ValueError(
            f"Column {name!r} of X holds {dtype}; encode it as numbers first, such as by "
            "sklearn.preprocessing.OneHotEncoder."
        )


def _check_convertible(name: Any, column: Any) -> None:
    """Raise ValueError if a column of objects or categories does not hold numbers."""
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        row = next(i for i, value in enumerate(column) if not _is_number(value))
        raise ValueError(
            f"Column {name!r} of X holds {column.dtype}, such as {shown(column.iloc[row])} in row "
            f"{row}; encode it as numbers first, such as by sklearn.preprocessing.OneHotEncoder."
        ) from error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
