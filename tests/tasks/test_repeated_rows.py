"""Repeated rows of a table, against a dictionary of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from structboost.tasks import base
from structboost.tasks.base import merge_repeated_rows
from structboost.validation import OrderedRows


@pytest.mark.parametrize("n_values", [3, 10**6])
@pytest.mark.parametrize("keys_at_once", [4, 1 << 16])
def test_weights_of_repeated_pairs_are_added_up_whatever_the_order_of_rows(
    n_values, keys_at_once, monkeypatch
):
    monkeypatch.setattr(base, "_KEYS_AT_ONCE", keys_at_once)
    rng = np.random.default_rng(0)
    X = rng.integers(n_values, size=(60, 2)).astype(np.float32)
    labels, weights = rng.integers(2, size=60), rng.random(60)
    sums: dict[tuple[bytes, int], float] = {}
    for row, label, weight in zip(X, labels, weights, strict=True):
        key = row.tobytes(), int(label)
        sums[key] = sums.get(key, 0.0) + weight
    rows, of_rows, merged, counts = merge_repeated_rows(X, labels, weights)
    pairs = [(row.tobytes(), int(label)) for row, label in zip(rows, of_rows, strict=True)]
    assert sorted(sums) == sorted(pairs)
    np.testing.assert_allclose(merged, [sums[pair] for pair in pairs])
    everything = [(row.tobytes(), int(label)) for row, label in zip(X, labels, strict=True)]
    assert counts.tolist() == [everything.count(pair) for pair in pairs]
    order = rng.permutation(60)
    again = merge_repeated_rows(X[order], labels[order], weights[order])
    np.testing.assert_array_equal(again[0], rows)
    np.testing.assert_array_equal(again[1], of_rows)
    np.testing.assert_allclose(again[2], merged)
    np.testing.assert_array_equal(again[3], counts)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_columns_one_by_one_give_the_order_of_whole_rows(seed, dtype, monkeypatch):
    rng = np.random.default_rng(seed)
    n_values = rng.choice([2, 3, 40], 1 + 3 * (seed % 5))  # groups of many rows and of few
    X = rng.integers(n_values, size=(80, len(n_values))).astype(dtype)
    if dtype != np.uint8:
        X[rng.random(X.shape) < 0.1] = np.nan
        X[rng.random(X.shape) < 0.3] *= -0.0
    X[:, 0] = X[0, 0] if seed % 2 else X[:, 0]
    labels, weights = rng.integers(2, size=80), np.ones(80)
    expected = merge_repeated_rows(X, labels, weights)
    monkeypatch.setattr(base, "_MANY_ROWS", 2)
    monkeypatch.setattr(base, "_FIRST_COLUMNS", 1 + seed % 3)
    for a, b in zip(merge_repeated_rows(X, labels, weights), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_values", [3, 10**6])
def test_rows_of_a_large_table_are_read_in_order_without_a_copy(n_values, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(n_values, size=(60, 3)).astype(np.float64)
    labels, weights = rng.integers(2, size=60), np.ones(60)
    expected, *others = merge_repeated_rows(X, labels, weights)
    monkeypatch.setattr(base, "_MOST_COPIED", 1)
    rows, *again = merge_repeated_rows(X, labels, weights)
    assert isinstance(rows, OrderedRows)
    assert rows.table is X
    assert (len(rows), rows.shape, rows.dtype) == (len(expected), expected.shape, expected.dtype)
    for a, b in zip(again, others, strict=True):
        np.testing.assert_array_equal(a, b)
    chosen = rng.integers(len(rows), size=5)
    for index in (0, slice(2, 9), chosen, (slice(None), 1), (chosen, ...)):
        np.testing.assert_array_equal(rows[index], expected[index])
    np.testing.assert_array_equal(rows, expected)
    assert np.asarray(rows, np.float32).dtype == np.float32


@pytest.mark.parametrize("scale", [1.0, 0.5, 2.0**-130, 2.0**100])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_equal_values_have_one_order_whatever_holds_them(seed, scale):
    rng = np.random.default_rng(seed)
    X = scale * rng.integers(-2 * (seed % 2), 5, (40, 3)).astype(np.float64)
    X[rng.random(X.shape) < 0.2] *= 0.0
    labels, weights = rng.integers(2, size=40), np.ones(40)
    expected = merge_repeated_rows(X, labels, weights)
    minus_zero = np.where(X == 0, -0.0, X)
    forms = [X.astype(np.float32), X.astype(">f8"), np.asfortranarray(X), minus_zero]
    if scale == 1.0 and not seed % 2:
        forms += [X.astype(np.uint8), X.astype(np.int64)]
    for form in [*forms, sparse.csr_array(X), sparse.csr_array(X.astype(np.float32))]:
        rows, of_rows, merged, _ = merge_repeated_rows(form, labels, weights)
        dense = rows.toarray() if sparse.issparse(rows) else rows
        np.testing.assert_array_equal(dense, expected[0])
        np.testing.assert_array_equal(of_rows, expected[1])
        np.testing.assert_array_equal(merged, expected[2])


def test_missing_values_are_equal_to_each_other():
    nan = np.frombuffer(np.uint64(0xFFF8000000000001).tobytes(), np.float64)[0]
    X = np.array([[np.nan, 1.0], [nan, 1.0], [0.0, np.nan]])
    rows, _, weights, _ = merge_repeated_rows(X, np.zeros(3, int), np.ones(3))
    assert len(rows) == 2
    assert sorted(weights) == [1.0, 2.0]
