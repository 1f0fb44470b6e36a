"""Repeated rows of a table, against a dictionary of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from structboost.tasks import tables
from structboost.tasks.tables import merge_repeated_rows


@pytest.mark.parametrize("n_values", [3, 10**6])
@pytest.mark.parametrize("keys_at_once", [4, 1 << 16])
def test_weights_of_repeated_pairs_are_added_up_in_an_order_of_their_own(
    n_values, keys_at_once, monkeypatch
):
    monkeypatch.setattr(tables, "_KEYS_AT_ONCE", keys_at_once)
    rng = np.random.default_rng(0)
    X = rng.integers(n_values, size=(60, 2)).astype(np.float32)
    labels, weights = rng.integers(2, size=60), rng.random(60)
    sums: dict[tuple[bytes, int], float] = {}
    for row, label, weight in zip(X, labels, weights, strict=True):
        key = row.tobytes(), int(label)
        sums[key] = sums.get(key, 0.0) + weight
    rows, of_rows, merged = merge_repeated_rows(X, labels, weights)
    pairs = [(row.tobytes(), int(label)) for row, label in zip(rows, of_rows, strict=True)]
    assert sorted(sums) == sorted(pairs)
    np.testing.assert_allclose(merged, [sums[pair] for pair in pairs])
    order = rng.permutation(60)
    again = merge_repeated_rows(X[order], labels[order], weights[order])
    np.testing.assert_array_equal(again[0], rows)
    np.testing.assert_array_equal(again[1], of_rows)
    np.testing.assert_allclose(again[2], merged)


def test_repeated_rows_of_sparse_tables_are_merged():
    X = sparse.csr_array(np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]))
    rows, labels, weights = merge_repeated_rows(X, np.array([0, 1, 0]), np.ones(3))
    assert sorted(
        zip(rows.sum(axis=1).tolist(), labels.tolist(), weights.tolist(), strict=True)
    ) == [
        (1.0, 0, 2.0),
        (2.0, 1, 1.0),
    ]
