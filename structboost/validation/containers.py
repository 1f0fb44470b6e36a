"""Checks and forms of tables, arrays and sequences of examples."""

from __future__ import annotations

from collections.abc import Mapping, MappingView, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray
from structboost.validation.messages import shown

# Types of tables.
TABLE_TYPES = (np.float64, np.float32, np.uint8)


class SparseRows(sparse.csr_array):
    """Sparse table with a length, like sequences of inputs."""

    def __len__(self) -> int:
        return int(self.shape[0])

    @classmethod
    def of(cls, table: Any) -> SparseRows:
        """Copy a sparse table, with sorted entries that are not 0."""
        rows = cls(table, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return rows


class OrderedRows:
    """Rows of a table in another order, of which only the rows that are read are copied.

    Parameters
    ----------
    table : ndarray, shape (n, n_columns)
    order : ndarray of int64, shape (n_rows,)
        Row ``i`` is ``table[order[i]]``.
    """

    ndim = 2

    def __init__(self, table: NDArray[Any], order: IntArray) -> None:
        self.table, self.order = table, order
        self.shape, self.dtype = (len(order), table.shape[1]), table.dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.shape[0]} rows and {self.shape[1]} columns"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows, columns = index if isinstance(index, tuple) else (index, ...)
        return np.asarray(self.table[:, columns][self.order[rows]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("Rows in another order cannot be an array without a copy.")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


def copied_in_order(rows: Any) -> Any:
    """Return rows in another order as a copy, and any other table unchanged."""
    return rows[:] if isinstance(rows, OrderedRows) else rows


def checked_features(features: Any, n_features: int, *, missing: bool = False) -> NDArray[Any]:
    """Return features as a matrix of the model's width, with NaN only if ``missing``."""
    rows = SparseRows(features) if sparse.issparse(features) else np.asarray(features)
    if rows.dtype.kind not in "fiub":
        rows = rows.astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(
            f"features has shape {rows.shape}; the model was trained on {n_features} features per "
            "part."
        )
    bad = first_unusable(rows, missing=missing)
    if bad is not None:
        raise ValueError(f"features[{bad}] has {unusable(missing)} entries; impute or drop them.")
    return rows


def first_unusable(rows: Any, *, missing: bool) -> int | None:
    """Return the first row with infinite or, unless ``missing``, NaN entries, or None.

    Parameters
    ----------
    rows : ndarray, OrderedRows, or sparse array by rows, shape (n_rows, n_features)
    """
    if sparse.issparse(rows):
        bad_entries = ~np.isfinite(rows.data)
        if not bad_entries.any():
            return None
        return int(np.searchsorted(rows.indptr, int(bad_entries.argmax()), side="right")) - 1
    if isinstance(rows, OrderedRows):
        is_good = first_unusable(rows.table, missing=missing) is None
        return None if is_good else first_unusable(rows[:], missing=missing)
    if rows.dtype.kind != "f" or (good := np.isfinite(rows)).all():
        return None
    bad = ~good & ~np.isnan(rows) if missing else ~good
    return int(np.flatnonzero(bad.any(axis=1))[0]) if bad.any() else None


def unusable(missing: bool) -> str:
    """Describe in words the values that features must not have."""
    return "infinite" if missing else "NaN or infinite"


def check_examples(X: Any, Y: Any) -> None:
    """Raise unless ``X`` and ``Y`` are sequences, equally long, and not empty."""
    check_inputs(X)
    check_sequence(Y, "Y", "give a list of outputs, or [y] for one example")
    if len(X) != len(Y):
        raise ValueError(f"X has {len(X)} examples and Y {len(Y)}; they must be equally many.")
    if not len(X):
        raise ValueError("X is empty; give at least one example.")


def by_position(examples: Any) -> Any:
    """Return examples of which ``examples[i]`` is the one at index i.

    Series and data frames of pandas become arrays, or lists of objects, because they use numbers as
    labels of rows and names of columns.  Sparse tables get a length, and masked entries become NaN.
    Other types are returned unchanged.
    """
    if isinstance(examples, np.ma.MaskedArray):
        return without_mask(examples)
    if isinstance(examples, list | tuple):
        return _examples_without_mask(examples)
    if sparse.issparse(examples) and not isinstance(examples, SparseRows):
        return SparseRows.of(examples)
    if not hasattr(examples, "iloc") or hasattr(examples, "__dask_graph__"):
        return examples
    values = examples.to_numpy()
    return list(values) if values.dtype == object and values.ndim == 1 else values


def without_mask(value: Any) -> Any:
    """Return a masked array as an array in which masked entries are NaN, and others unchanged."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if not np.ma.getmaskarray(value).any():
        return np.asarray(value)
    of_type = np.float64 if value.dtype.kind in "biuf" else object
    return np.asarray(np.ma.filled(value.astype(of_type), np.nan))


def check_unmasked(value: Any, name: str, remedy: str) -> None:
    """Raise ValueError if an array has masked entries."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise ValueError(f"{name} has masked entries; {remedy}.")


def _examples_without_mask(examples: Any) -> Any:
    """Return a list of examples without masked arrays, of which tuples may consist."""
    out = None
    for i, example in enumerate(examples):
        if isinstance(example, np.ma.MaskedArray):
            plain = without_mask(example)
        elif isinstance(example, tuple) and any(
            isinstance(part, np.ma.MaskedArray) for part in example
        ):
            parts = map(without_mask, example)
            plain = type(example)(*parts) if hasattr(example, "_fields") else tuple(parts)
        else:
            continue
        out = list(examples) if out is None else out
        out[i] = plain
    return examples if out is None else out


def rows_of(sequence: Sequence[Any], rows: IntArray) -> Any:
    """Select entries of a sequence by their indices, as a table where it is one."""
    if isinstance(sequence, np.ndarray | SparseRows | OrderedRows):
        return sequence[rows]
    return [sequence[i] for i in rows]


def check_inputs(X: Any) -> None:
    """Raise TypeError unless ``X`` is a sequence or table, which have a length."""
    check_sequence(X, "X", "give a list of inputs, or [x] for one input x")


def check_sequence(value: Any, name: str, remedy: str) -> None:
    """Raise TypeError unless ``value`` has a length and an order."""
    is_other = isinstance(value, Mapping | Set | MappingView | type | str | bytes)
    # An array of no dimensions has the method, which raises.
    if is_other or not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
        raise TypeError(f"{name} is {shown(value)}, not a sequence; {remedy}.")


def array_of(value: Any) -> NDArray[Any]:
    """Return ``value`` as an array, of one object and no dimensions where it cannot be one."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        # Rows of different lengths, and objects whose conversion raises.
        array = np.empty((), object)
        array[()] = value
        return array


def checked_numbers(value: Any, name: str) -> FloatArray:
    """Return ``value`` as an array of floats."""
    try:
        return np.array(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}; give an array of numbers.") from None


def checked_array(value: Any, name: str, n_axes: int | None = None) -> NDArray[Any]:
    """Return ``value`` as an array of real numbers with so many axes, without a copy if it is one.

    TypeError or ValueError if it holds anything but real numbers, or has other axes.
    """
    axes = "" if n_axes is None else f" with {n_axes} {'axis' if n_axes == 1 else 'axes'}"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # lists of unequal lengths
        raise TypeError(f"{name} is {shown(value)}; give an array of numbers{axes}.") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} is {shown(value)}; give an array of numbers{axes}.")
    if n_axes is not None and array.ndim != n_axes:
        raise ValueError(f"{name} has shape {array.shape}; give an array of numbers{axes}.")
    return array
