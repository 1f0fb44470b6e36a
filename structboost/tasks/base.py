"""Bases of tasks, checks of their arguments, and tasks whose parts are rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, BoolArray, Examples, FloatArray, IntArray, override
from structboost.contract.parts import Kinds, SparseFeature, StackedParts
from structboost.contract.task import Batches, Searches, Sums, SumsBatches, Task
from structboost.errors import TaskError
from structboost.inference.arguments import as_array
from structboost.validation import OrderedRows, first_unusable, shown


class BatchTask(Task, Searches, Batches, Sums, SumsBatches):
    """Base of tasks whose batch forms do the work, and whose other forms call them."""

    @override
    def argmax(self, x: Any, scores: Any, y: Any = None) -> Any:
        truths = None if y is None else [y]
        return self.argmax_batch([x], alone(self.kinds, scores), truths)[0]

    @override
    def marginals(self, x: Any, scores: Any) -> Any:
        expected = self.marginals_batch([x], alone(self.kinds, scores)).expected
        return expected if len(self.kinds) > 1 else next(iter(expected.values()))

    @override
    def log_sum(self, x: Any, scores: Any) -> float:
        return float(self.log_sums_batch([x], alone(self.kinds, scores))[0])

    @override
    def log_sums_batch(self, X: Examples, scores: StackedParts) -> FloatArray:
        return self.marginals_batch(X, scores).log_sums


def alone(kinds: Kinds, scores: Any) -> StackedParts:
    """Stack the scores of one example, an array or a dict by kind."""
    rows = scores if isinstance(scores, Mapping) else {next(iter(kinds)): scores}
    return StackedParts(
        rows, {kind: np.array([0, len(of_kind)], np.int64) for kind, of_kind in rows.items()}
    )


def indicator(
    parts: IntArray, channels: IntArray | None = None, value: float = 1.0
) -> SparseFeature:
    """Make a joint feature of ``value`` on each part, on its channel or on channel 0."""
    n = len(parts)
    at = np.zeros(n, np.int64) if channels is None else channels
    return SparseFeature(parts, at, np.full(n, value))


def exchange(
    parts: tuple[IntArray, IntArray],
    channels: tuple[IntArray, IntArray] | None = None,
    value: float = 1.0,
) -> SparseFeature:
    """Make the difference of two indicators, ``value`` and minus ``value`` in turns.

    ``parts`` are those that only the first one has, and those that only the second one has.
    Without ``channels`` of these parts all are 0.
    """
    n = len(parts[0])
    at = np.zeros(2 * n, np.int64) if channels is None else np.column_stack(channels).ravel()
    return SparseFeature(np.column_stack(parts).ravel(), at, np.tile([value, -value], n))


# Rows that are compared with their neighbours at once, and values that are made bytes at once.
_KEYS_AT_ONCE, _VALUES_AT_ONCE = 1 << 16, 1 << 20
# Columns that are compared one by one before whole rows, and rows for which that pays.
_FIRST_COLUMNS, _MANY_ROWS = 8, 10_000
# Values of a table above which its rows are not copied into another order.
_MOST_COPIED = 1 << 22


class TableTask(BatchTask):
    """Task whose inputs are feature vectors, each of which is its only part.

    All inputs together are a table or a sparse array by rows, whose entries may be missing (NaN).
    """

    reads_inputs = False

    @override
    def parts(self, x: Any) -> AnyArray:
        return np.asarray(x).reshape(1, -1)

    @override
    def stack(self, X: Any) -> StackedParts:
        rows = X if sparse.issparse(X) or isinstance(X, OrderedRows) else _rows(X)
        if rows.ndim != 2 or 0 in rows.shape:
            raise TaskError(
                f"X has shape {rows.shape}; give a non-empty table (n_examples, n_features), "
                "X[[i]] for one example."
            )
        bad = first_unusable(rows, missing=True)
        if bad is not None:
            raise TaskError(
                "X[{sample}] has infinite features; replace them, or make them NaN: missing.", bad
            )
        return StackedParts({"x": rows}, {"x": np.arange(rows.shape[0] + 1, dtype=np.int64)})


def _rows(X: Any) -> AnyArray:
    """Return ``X`` as an array, after a check that its rows have one shape."""
    table = as_array(X)
    if table.ndim and (table.dtype.kind in "fiub" or len(table) == 0):
        return table
    rows = []
    for i, x in enumerate(X):
        try:
            row = as_array(x)
            objects = row.flat if row.dtype.hasobject else ()
            if row.dtype.kind not in "fiubO" or any(isinstance(of, str | bytes) for of in objects):
                raise TypeError  # NumPy would read numbers of text
            rows.append(np.asarray(row, np.float64))  # None is missing
        except (TypeError, ValueError):
            rows.append(np.empty(()))
        if rows[i].ndim != 1 or rows[i].shape != rows[0].shape or isinstance(x, str | bytes):
            raise TaskError(
                f"X[{{sample}}] is {shown(x)}; give vectors of real numbers, all of one length, "
                "NaN where one is missing.",
                i,
            )
    return np.array(rows)


def merge_repeated_rows(
    rows: Any, labels: IntArray, weights: FloatArray, repeats: IntArray | None = None
) -> tuple[Any, IntArray, FloatArray, IntArray]:
    """Merge equal pairs of a row and a label, in a fixed order, and add up and count them.

    The training problem is the same and smaller; and repeating a row is exactly the same as
    weighing it, whatever the order of the rows.

    Parameters
    ----------
    rows, labels, weights
        The examples.
    repeats : ndarray of int64, shape (n,), optional
        Numbers of rows that the examples stand for where equal rows have several labels.

    Returns
    -------
    rows, labels
        The distinct pairs.
    weights : ndarray, shape (n_pairs,)
        Sums of the weights of equal pairs.
    counts : ndarray of int64, shape (n_pairs,)
        Numbers of equal pairs, or sums of their repeats.
    """
    order, first = _ordered(rows)
    if np.array_equal(first, np.arange(len(order))):
        # No row is repeated.
        ones, in_doubles = np.ones(len(order), np.int64), np.asarray(weights, np.float64)
        return _in_order(rows, order), labels[order], in_doubles[order], ones
    ranks = np.empty(len(order), np.int64)
    ranks[order] = first
    n_labels = int(labels.max()) + 1
    _, chosen, pair = np.unique(ranks * n_labels + labels, return_index=True, return_inverse=True)
    merged = np.bincount(pair, weights=weights).astype(np.float64)
    if repeats is None or len(chosen) == len(np.unique(first)):
        repeats = np.ones(len(pair), np.int64)
    counts = np.bincount(pair, weights=repeats).astype(np.int64)
    return _in_order(rows, chosen), labels[chosen], merged, counts


def has_contradictions(rows: Any) -> bool:
    """Whether merged pairs have the same row, with other labels."""
    order, first = _ordered(rows)
    return not np.array_equal(first, np.arange(len(order)))


def _in_order(rows: Any, order: IntArray) -> Any:
    """Return rows in an order, as a copy unless it would be large."""
    is_large = isinstance(rows, np.ndarray) and rows.size > _MOST_COPIED
    return OrderedRows(rows, order) if is_large else rows[order]


def _ordered(rows: Any) -> tuple[IntArray, IntArray]:
    """Return the order of rows by their keys, and for each place the first with an equal row.

    In a large table the first columns tell most rows apart, and whole rows are compared only where
    they do not.
    """
    n_rows = rows.shape[0]
    if sparse.issparse(rows) or n_rows < _MANY_ROWS:
        return _ordered_by(_keys(rows))
    order, tied, first = np.arange(n_rows), np.arange(n_rows), np.zeros(n_rows, np.int64)
    for f in range(min(_FIRST_COLUMNS, rows.shape[1])):
        keys = _bytes(rows[order[tied], f]).view(">u8").astype(np.uint64)
        if (keys == keys[0]).all():
            continue
        inner = np.lexsort((keys, first[tied]))
        order[tied] = order[tied][inner]
        is_new = _is_new(keys[inner]) | _is_new(first[tied])
        first[tied] = tied[_last_true(is_new)]
        tied = tied[_is_repeated(first[tied])]
        if not len(tied):
            return order, first
    if len(tied) == n_rows:
        return _ordered_by(_keys(rows))
    inner, places = _ordered_by(_keys(rows[order[tied]]))
    order[tied], first[tied] = order[tied][inner], tied[places]
    return order, first


def _ordered_by(keys: AnyArray) -> tuple[IntArray, IntArray]:
    """Return the order of keys, and for each place the first with an equal key.

    :func:`numpy.unique` would copy the keys, which are the whole table, three times.
    """
    order = np.argsort(keys, kind="stable")
    is_new = np.ones(len(keys), np.bool_)
    for begin in range(1, len(keys), _KEYS_AT_ONCE):
        here = order[begin : begin + _KEYS_AT_ONCE]
        before = order[begin - 1 : begin - 1 + len(here)]
        is_new[begin : begin + len(here)] = keys[here] != keys[before]
    return order, _last_true(is_new)


def _is_new(values: AnyArray) -> BoolArray:
    """Return whether each value differs from the one before it, and True for the first."""
    is_new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    return is_new


def _is_repeated(ascending: IntArray) -> BoolArray:
    """Return whether a neighbour of each value is equal."""
    is_new = _is_new(ascending)
    is_alone: BoolArray = is_new & np.append(is_new[1:], True)
    return ~is_alone


def _last_true(flags: BoolArray) -> IntArray:
    """Return the last place up to each one whose flag is set, as that of the first is."""
    return np.maximum.accumulate(np.where(flags, np.arange(len(flags)), 0))


def _keys(rows: Any) -> AnyArray:
    """Make a key of each row from its values as doubles, equal for tables of any type."""
    if sparse.issparse(rows):
        return _keys_of_sparse(rows)
    n_rows, n_columns = rows.shape
    if rows.dtype == np.uint8:
        # One byte for each value, in the same order.
        ranks = np.argsort(np.argsort(_bytes(np.arange(256.0)))).astype(np.uint8)
        codes: AnyArray = ranks[rows]
        return codes.view(np.dtype((np.void, n_columns))).ravel()
    # The lowest bytes of values in single precision are 0.
    first = 3 if rows.dtype == np.float32 else 0
    keys: AnyArray = np.empty((n_rows, n_columns, 8 - first), np.uint8)
    step = max(1, _VALUES_AT_ONCE // n_columns)
    for begin in range(0, n_rows, step):
        block = rows[begin : begin + step]
        of_values = _bytes(block.ravel()).view(np.uint8).reshape(*block.shape, 8)
        keys[begin : begin + step] = of_values[:, :, first:]
    return keys.reshape(n_rows, -1).view(np.dtype((np.void, n_columns * (8 - first)))).ravel()


def _keys_of_sparse(rows: Any) -> AnyArray:
    """The keys of sparse rows, in the order of those of the same rows with their zeros.

    Where two rows differ first, an entry comes behind a zero: so do rows with more entries, and
    entries of earlier columns.
    """
    entries = np.empty(len(rows.data), [("column", ">u4"), ("value", "V8")])
    entries["column"] = np.iinfo(np.uint32).max - rows.indices.astype(np.int64)
    entries["value"] = _bytes(rows.data)
    keys = [entries[a:b].tobytes() for a, b in pairwise(rows.indptr.tolist())]
    return np.array(keys, object)


def _bytes(values: AnyArray) -> AnyArray:
    """Return the eight bytes of each value as a double, where -0 is 0 and all NaN are equal."""
    doubles = values.astype("<f8") + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view("V8")
