"""Products in an order of their own against those of BLAS."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.masters.products import (
    BLAS,
    ORDERED,
    inner_product,
    inner_products,
    solution,
    times_vector,
    weighted_rows,
)
from structboost.masters.proximal_step import no_curvature, proximal_step

SIZES = st.integers(0, 20)


@given(SIZES, SIZES, SIZES, st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_ordered_products_are_products(n, m, k, seed):
    rng = np.random.default_rng(seed)
    a, b, v, w = (
        rng.normal(size=(n, k)),
        rng.normal(size=(m, k)),
        rng.normal(size=k),
        rng.normal(size=n),
    )
    for blas in (BLAS, ORDERED):
        np.testing.assert_allclose(times_vector(a, v, blas), a @ v, atol=1e-12)
        np.testing.assert_allclose(weighted_rows(w, a, blas), w @ a, atol=1e-12)
        np.testing.assert_allclose(inner_products(a, b, blas), a @ b.T, atol=1e-12)
        assert inner_product(v, 2 * v, blas) == pytest.approx(2 * (v**2).sum(), abs=1e-12)


@given(st.integers(2, 15), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_solutions_solve(n, seed):
    rng = np.random.default_rng(seed)
    system, right = rng.normal(size=(n, n)), rng.normal(size=(2, n))
    system[0, 0] = 0.0  # without pivoting it would fail
    for blas in (BLAS, ORDERED):
        found = solution(system, right, blas)
        size = np.abs(system).max() * np.abs(found).max() + 1.0
        np.testing.assert_allclose(system @ found.T, right.T, atol=1e-10 * size)


def test_a_singular_system_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        solution(np.zeros((2, 2)), np.ones((2, 2)), BLAS)


def test_the_ordered_step_ends_at_the_same_weights():
    rng = np.random.default_rng(0)
    matrix, losses = rng.normal(size=(12, 40)), np.append(0.0, rng.random(11))
    matrix[0] = 0.0
    found = []
    for ordered in (False, True):
        multipliers = np.append(5.0, np.zeros(11))
        weights, gap, _, _ = proximal_step(
            matrix,
            losses,
            5.0,
            np.zeros(40),
            0.1,
            multipliers,
            1e-10,
            100,
            no_curvature(40),
            ordered=ordered,
        )
        assert gap <= 1e-10
        found.append(weights)
    assert found[0].max() > 0
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
