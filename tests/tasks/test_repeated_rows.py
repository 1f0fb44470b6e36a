"""Repeated rows of a table, against a dictionary of pairs."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy import sparse

from structboost.tasks import base
from structboost.tasks.base import merge_repeated_rows
from structboost.validation import OrderedRows

LIMITS = (
    {},
    {"_KEYS_AT_ONCE": 4},
    {"_MOST_COPIED": 1},
    *({"_MANY_ROWS": 2, "_FIRST_COLUMNS": n} for n in (1, 3)),
)


def pairs_of(rows, labels):
    """Rows of which missing values and zeros are equal to each other, with labels."""
    table = np.where(np.isnan(rows), None, rows + 0.0)
    return [(*row, label) for row, label in zip(table.tolist(), labels.tolist(), strict=True)]


@settings(max_examples=40)
@given(
    st.integers(0, 9999),
    st.sampled_from([2, 3, 10**6]),
    st.integers(1, 13),
    st.sampled_from([1.0, 0.5, 2.0**-130, 2.0**100]),
)
def test_repeated_pairs_are_merged_in_one_order_whatever_holds_them(
    seed, n_values, n_columns, scale
):
    rng = default_rng(seed)
    is_signed, has_gaps, has_constant = rng.random(3) < 0.5
    X = scale * rng.integers(-2 * is_signed, n_values, (60, n_columns)).astype(float)
    X[rng.random(X.shape) < 0.1 * has_gaps] = np.nan
    X[:, 0] = X[0, 0] if has_constant else X[:, 0]
    labels, weights = rng.integers(2, size=60), rng.integers(1, 5, size=60) / 4
    expected = merge_repeated_rows(X, labels, weights)
    pairs, everything = pairs_of(*expected[:2]), pairs_of(X, labels)
    counts, sums = Counter(everything), Counter()
    for pair, weight in zip(everything, weights, strict=True):
        sums[pair] += weight
    assert len(pairs) == len(sums)
    assert expected[2].tolist() == [sums[pair] for pair in pairs]
    assert expected[3].tolist() == [counts[pair] for pair in pairs]
    order = rng.permutation(60)
    X, labels, weights = X[order], labels[order], weights[order]
    nan = np.frombuffer(np.uint64(0xFFF8000000000001).tobytes(), np.float64)[0]
    minus_zero = np.where(X == 0, -0.0, np.where(np.isnan(X), nan, X))
    forms = [X, X.astype(np.float32), X.astype(">f8"), np.asfortranarray(X), minus_zero]
    forms += [sparse.csr_array(X), sparse.csr_array(X.astype(np.float32))]
    if scale == 1.0 and not has_gaps:
        forms += [X.astype(np.int64)]
        forms += [X.astype(np.uint8)] if n_values < 256 and not is_signed else []
    for form in forms:
        for limits in LIMITS:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in limits.items():
                    patch.setattr(base, name, value)
                rows, *more = merge_repeated_rows(form, labels, weights)
            dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
            for found, wanted in zip((dense, *more), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_rows_of_a_large_table_are_read_in_order_without_a_copy(monkeypatch):
    rng = default_rng(0)
    X, labels = rng.integers(3, size=(60, 3)).astype(np.float64), rng.integers(2, size=60)
    expected = merge_repeated_rows(X, labels, np.ones(60))[0]
    monkeypatch.setattr(base, "_MOST_COPIED", 1)
    rows = merge_repeated_rows(X, labels, np.ones(60))[0]
    assert isinstance(rows, OrderedRows)
    assert rows.table is X
    assert (len(rows), rows.shape, rows.dtype) == (len(expected), expected.shape, expected.dtype)
    chosen = rng.integers(len(rows), size=5)
    for index in (0, slice(2, 9), chosen, (slice(None), 1), (chosen, ...)):
        np.testing.assert_array_equal(rows[index], expected[index])
    assert np.asarray(rows, np.float32).dtype == np.float32
