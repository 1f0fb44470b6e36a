"""A matrix that grows, against stacking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structboost.runtime.memory import GrowingMatrix

STEPS = st.lists(
    st.tuples(st.sampled_from(["rows", "columns", "keep", "keep_columns"]), st.integers(0, 9)),
    max_size=12,
)


@pytest.mark.slow
@given(STEPS, st.integers(0, 2**32 - 1))
def test_growing_matrix_equals_stacked_and_selected_arrays(steps, seed):
    rng = np.random.default_rng(seed)
    growing, expected = GrowingMatrix(2, np.float64), np.zeros((0, 2))
    for step, n in steps:
        n_rows, n_columns = expected.shape
        if step == "rows":
            new = rng.normal(size=(n, n_columns))
            assert growing.append(new) == n_rows
            expected = np.vstack((expected, new))
        elif step == "columns":
            new = rng.normal(size=(n_rows, n))
            growing.append_columns(new)
            expected = np.hstack((expected, new))
        elif step == "keep":
            kept = rng.random(n_rows) < 0.5
            growing.keep(kept)
            expected = expected[kept]
        else:
            kept = rng.random(n_columns) < 0.5
            growing.keep_columns(kept if n % 2 else np.flatnonzero(kept)[::-1])
            expected = expected[:, kept] if n % 2 else expected[:, kept][:, ::-1]
        np.testing.assert_array_equal(growing.rows, expected)
        assert len(growing) == len(expected)
        assert growing.rows.flags.c_contiguous


@pytest.mark.parametrize("dtype", [None, np.float32])
def test_growing_matrix_has_its_dtype_or_that_of_the_first_rows(dtype):
    growing = GrowingMatrix(3, dtype)
    growing.append(np.ones((1, 3)))
    growing.append(np.ones((40, 3), np.int8))
    assert growing.rows.dtype == (np.float64 if dtype is None else dtype)
    np.testing.assert_array_equal(growing.rows, np.ones((41, 3)))
