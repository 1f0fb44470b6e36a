"""Sums along the tree and matrices that grow are those of their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from structboost.runtime import blocks
from structboost.runtime.blocks import (
    add_to_tree,
    blocks_of,
    close_tree,
    sum_of_nodes,
    tree_depth,
    tree_runs,
    tree_sum,
)
from structboost.runtime.memory import GrowingMatrix


def plain_tree(sums):
    """The definition: the first h, h the largest power of two below n, plus the others."""
    if len(sums) == 1:
        return sums[0].copy()
    half = 1 << ((len(sums) - 1).bit_length() - 1)
    return plain_tree(sums[:half]) + plain_tree(sums[half:])


@given(st.integers(1, 70), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_sums_along_the_tree_are_the_same_bits_however_it_is_cut_up(n, largest, seed):
    rng = default_rng(seed)
    sums = rng.normal(size=(n, 2)) * 10 ** rng.uniform(-8, 8, (n, 1))
    expected = plain_tree(sums)
    assert np.array_equal(tree_sum(sums.copy()), expected)
    open_sums, total = np.zeros((tree_depth(n), 1, 2)), np.empty((1, 2))
    for b in range(n):
        add_to_tree(open_sums, b, sums[b : b + 1].copy(), 1)
    close_tree(open_sums, n, total)
    assert np.array_equal(total[0], expected)
    runs = tree_runs(n, largest)
    assert [first for first, _ in runs] == np.cumsum([0, *(size for _, size in runs)])[:-1].tolist()
    of_runs = {run: tree_sum(sums[run[0] : sum(run)].copy()) for run in runs}
    assert np.array_equal(sum_of_nodes(of_runs, 0, n), expected)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90)), min_size=1, max_size=60),
    st.sampled_from((None, 1, 5)),
)
def test_blocks_partition_examples_and_rows(sizes, most_examples):
    offsets = {
        kind: np.concatenate(([0], np.cumsum(column)))
        for kind, column in zip("ab", zip(*sizes, strict=True), strict=True)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_ROWS", 16)
        found = blocks_of(offsets, most_examples)
    assert found.examples[0] == 0
    if most_examples is not None:
        assert np.diff(found.examples).max() <= most_examples
    assert found.examples[-1] == len(sizes)
    assert (np.diff(found.examples) >= 0).all()
    for kind, starts in found.rows.items():
        assert starts[0] == 0
        assert starts[-1] == offsets[kind][-1]
        assert (np.diff(starts) >= 0).all()
        assert np.diff(starts).max() < 2 * 16
        if not found.splits_examples:
            assert np.array_equal(offsets[kind][found.examples], starts)
    assert found.splits_examples == (max(max(size) for size in sizes) > 16)
    half = len(found) // 2
    rest = found.run(half, len(found) - half)
    assert rest.examples[0] == 0
    assert len(rest) == len(found) - half


def test_blocks_hold_as_many_examples_as_they_may():
    offsets = {"x": np.arange(14)}
    assert blocks_of(offsets).examples.tolist() == [0, 13]
    assert blocks_of(offsets, 5).examples.tolist() == [0, 5, 10, 13]


STEPS = st.lists(
    st.tuples(st.sampled_from(["rows", "columns", "keep", "keep_columns"]), st.integers(0, 9)),
    max_size=12,
)


@pytest.mark.slow
@given(STEPS, st.integers(0, 2**32 - 1))
def test_growing_matrix_equals_stacked_and_selected_arrays(steps, seed):
    rng = default_rng(seed)
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
        assert_array_equal(growing.rows, expected)
        assert len(growing) == len(expected)
        assert growing.rows.flags.c_contiguous


@pytest.mark.parametrize("dtype", [None, np.float32])
def test_growing_matrix_has_its_dtype_or_that_of_the_first_rows(dtype):
    growing = GrowingMatrix(3, dtype)
    growing.append(np.ones((1, 3)))
    growing.append(np.ones((40, 3), np.int8))
    assert growing.rows.dtype == (np.float64 if dtype is None else dtype)
    assert_array_equal(growing.rows, np.ones((41, 3)))
