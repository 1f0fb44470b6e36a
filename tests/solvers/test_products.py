"""Products in an order of their own against those of BLAS."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose

from structboost.solvers.proximal_step import (
    BLAS,
    ORDERED,
    inner_product,
    inner_products,
    no_curvature,
    ordered_product,
    ordered_times_vector,
    proximal_step,
    solve,
    times_vector,
    weighted_rows,
)

SIZES = st.integers(0, 20)


@given(SIZES, SIZES, SIZES, st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_products_in_both_orders_are_products(n, m, k, seed):
    rng = default_rng(seed)
    a, b, v, w = (rng.normal(size=size) for size in ((n, k), (m, k), k, n))
    for order in (BLAS, ORDERED):

        def filled(product, shape, *arguments, order=order):
            out = np.full(shape, np.nan)
            product(*arguments, out.reshape(-1), order)
            return out

        flat = a.reshape(-1)
        assert_allclose(filled(times_vector, n, n, k, flat, v), a @ v, atol=1e-12)
        assert_allclose(filled(weighted_rows, k, n, k, w, flat), w @ a, atol=1e-12)
        if n and m and k:
            found = filled(inner_products, (n, m), n, m, k, flat, b.reshape(-1))
            assert_allclose(found, a @ b.T, atol=1e-12)
        product = inner_product(k, v, 2 * v, order)
        assert product == pytest.approx(2 * (v**2).sum(), abs=1e-12)
    assert_allclose(ordered_times_vector(a, v), a @ v, atol=1e-12)
    assert ordered_product(v, 2 * v) == product


@given(st.integers(2, 15), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_solutions_solve(n, seed):
    rng = default_rng(seed)
    system, right = rng.normal(size=(n, n)), rng.normal(size=(2, n))
    system[0, 0] = 0.0  # without pivoting it would fail
    for order in (BLAS, ORDERED):
        found = solved(system, right, order)
        size = np.abs(system).max() * np.abs(found).max() + 1.0
        assert_allclose(system @ found.T, right.T, atol=1e-10 * size)


def solved(system, right, order):
    n, found = len(system), right.copy()
    by_columns = system.T.copy().reshape(-1)
    solve(n, len(right), by_columns, found.reshape(-1), np.zeros(n + 1, np.int32), order)
    return found


def test_a_singular_system_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        solved(np.zeros((2, 2)), np.ones((2, 2)), BLAS)


def test_the_ordered_step_ends_at_the_same_weights():
    rng = default_rng(0)
    matrix, losses = rng.normal(size=(12, 40)), np.append(0.0, rng.random(11))
    matrix[0] = 0.0
    found = []
    for ordered in (False, True):
        multipliers = np.append(5.0, np.zeros(11))
        weights, _ = proximal_step(
            matrix, losses, 5.0, np.zeros(40), 0.1, multipliers, 1e-10, no_curvature(40),
            ordered=ordered,
        )  # fmt: skip
        found.append(weights)
    assert found[0].max() > 0
    assert_allclose(found[0], found[1], atol=1e-6)
