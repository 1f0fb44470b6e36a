"""Checks of the tables that users pass to estimators, after their columns became numbers.

Checks without scikit-learn are in ``structboost.validation``, because processes of engines import
it and start in half the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from structboost._typing import IntArray
from structboost.faces.table_forms import shape_of
from structboost.validation import TABLE_TYPES, SparseRows, check_finite

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


def _dense(table: Any) -> NDArray[Any]:
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


def _entries(X: Any, are_wrong: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> IntArray:
    """Return rows and columns of the wrong entries in the order of rows, shape (n, 2)."""
    if not sparse.issparse(X):
        return np.argwhere(are_wrong(np.asarray(X, np.float64)))
    entries = sparse.coo_array(X)
    wrong = are_wrong(entries.data)
    return np.unique(np.column_stack((entries.row[wrong], entries.col[wrong])), axis=0)
