"""Inputs that are the rows of one table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.parts import StackedParts
from structboost.exceptions import TaskError
from structboost.tasks.batch_task import BatchTask
from structboost.validation import first_unusable

# Rows that are compared with their neighbours at once, and values that are made bytes at once.
_KEYS_AT_ONCE, _VALUES_AT_ONCE = 1 << 16, 1 << 20


class TableTask(BatchTask):
    """A task whose inputs are feature vectors: the one part of an input is itself.

    All inputs together are a table or a sparse array by rows, whose entries may be missing (NaN).
    """

    reads_inputs: ClassVar[bool] = False

    @override
    def parts(self, x: Any) -> NDArray[Any]:
        return np.asarray(x).reshape(1, -1)

    @override
    def stack(self, X: Any) -> StackedParts:
        rows = X if sparse.issparse(X) else _rows(X)
        if rows.ndim != 2 or 0 in rows.shape:
            raise TaskError(
                f"X has shape {rows.shape}; give a non-empty table (n_examples, n_features), "
                "X[[i]] for one example."
            )
        if rows.dtype.kind not in "fiub":
            rows = rows.astype(np.float64)
        bad = first_unusable(rows, missing=True)
        if bad is not None:
            raise TaskError(
                "X[{sample}] has infinite features; replace them, or make them NaN: missing.", bad
            )
        return StackedParts({"x": rows}, {"x": np.arange(rows.shape[0] + 1, dtype=np.int64)})


def _rows(X: Any) -> NDArray[Any]:
    """Return ``X`` as an array, after a check that its rows have one shape."""
    try:
        return np.asarray(X)
    except ValueError:
        shapes = [np.shape(x) for x in X]
        first = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
        if first is None:
            raise
        raise TaskError(
            f"X[{{sample}}] has shape {shapes[first]}, and X[0] has {shapes[0]}; give every "
            "example the same features.",
            first,
        ) from None


def checked_classes(Y: Sequence[Any], n_classes: int, task: str) -> IntArray:
    """Return labels as int64, each of them in 0..n_classes-1.

    Raises
    ------
    TaskError
        If one is not; the message names it and the task.
    """
    labels = np.asarray(Y)
    if labels.ndim != 1:
        raise TaskError(
            f"Y has shape {labels.shape}; this {task} takes one label for each example."
        )
    if labels.dtype.kind in "fiub":
        good = (0 <= labels) & (labels < n_classes) & (np.floor(labels) == labels)
    else:
        good = np.array([_is_class(label, n_classes) for label in Y], bool)
    if not good.all():
        first = int(np.argmin(good))
        shown = next(label for i, label in enumerate(Y) if i == first)
        shown = shown.item() if isinstance(shown, np.generic) else shown
        raise TaskError(
            f"Y[{{sample}}] is {shown!r}; this {task} takes the labels 0..{n_classes - 1}. Number "
            "other labels, as sklearn.preprocessing.LabelEncoder does.",
            first,
        )
    return labels.astype(np.int64)


def _is_class(label: Any, n_classes: int) -> bool:
    is_number = isinstance(label, int | float | np.integer | np.floating)
    return is_number and bool(0 <= label < n_classes and int(label) == label)


def merge_repeated_rows(
    rows: Any, labels: IntArray, weights: FloatArray
) -> tuple[Any, IntArray, FloatArray]:
    """Merge equal pairs of a row and a label, in a fixed order, and add up their weights.

    The training problem is the same and smaller; and repeating a row is exactly the same as
    weighing it, whatever the order of the rows.
    """
    ranks, order = _ranks(_keys(rows))
    if len(order) and ranks[order[-1]] == len(order) - 1:
        # No row is repeated.
        return rows[order], labels[order], np.asarray(weights, np.float64)[order]
    n_labels = int(labels.max()) + 1
    _, first, pair = np.unique(ranks * n_labels + labels, return_index=True, return_inverse=True)
    return rows[first], labels[first], np.bincount(pair, weights=weights).astype(np.float64)


def _ranks(keys: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Compute the rank of each key among the distinct ones, and the order of the keys.

    :func:`numpy.unique` would copy the keys, which are the whole table, three times.
    """
    order = np.argsort(keys, kind="stable")
    is_new = np.zeros(len(keys), np.int64)
    for begin in range(1, len(keys), _KEYS_AT_ONCE):
        here = order[begin : begin + _KEYS_AT_ONCE]
        before = order[begin - 1 : begin - 1 + len(here)]
        is_new[begin : begin + len(here)] = keys[here] != keys[before]
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.cumsum(is_new)
    return ranks, order


def _keys(rows: Any) -> NDArray[Any]:
    """Make a key for each row: the bytes of its values as doubles, equal for tables of any type."""
    if sparse.issparse(rows):
        return _keys_of_sparse(rows)
    n_rows, n_columns = rows.shape
    if rows.dtype == np.uint8:
        # One byte for each value, in the same order.
        ranks = np.argsort(np.argsort(_bytes(np.arange(256.0)))).astype(np.uint8)
        codes: NDArray[Any] = ranks[rows]
        return codes.view(np.dtype((np.void, n_columns))).ravel()
    # The lowest bytes of values in single precision are 0.
    first = 3 if rows.dtype == np.float32 else 0
    keys: NDArray[Any] = np.empty((n_rows, n_columns, 8 - first), np.uint8)
    step = max(1, _VALUES_AT_ONCE // n_columns)
    for begin in range(0, n_rows, step):
        block = rows[begin : begin + step]
        of_values = _bytes(block.ravel()).view(np.uint8).reshape(*block.shape, 8)
        keys[begin : begin + step] = of_values[:, :, first:]
    return keys.reshape(n_rows, -1).view(np.dtype((np.void, n_columns * (8 - first)))).ravel()


def _keys_of_sparse(rows: Any) -> NDArray[Any]:
    """The keys of sparse rows, in the order of those of the same rows with their zeros.

    Where two rows differ first, an entry comes behind a zero: so do rows with more entries, and
    entries of earlier columns.
    """
    entries = np.empty(len(rows.data), [("column", ">u4"), ("value", "V8")])
    entries["column"] = np.iinfo(np.uint32).max - rows.indices.astype(np.int64)
    entries["value"] = _bytes(rows.data)
    keys = [entries[a:b].tobytes() for a, b in pairwise(rows.indptr.tolist())]
    return np.array(keys, object)


def _bytes(values: NDArray[Any]) -> NDArray[Any]:
    """The eight bytes of each value as a double; -0 as 0, and every NaN as one."""
    doubles = values.astype("<f8") + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view("V8")
