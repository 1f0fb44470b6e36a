"""Knapsacks against all subsets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.decisions import Knapsack


def best_value(values, weights, capacity):
    subsets = np.array(list(product((0.0, 1.0), repeat=len(values))))
    fits = (subsets @ np.atleast_2d(weights).T <= np.atleast_1d(capacity) + 1e-9).all(axis=1)
    return (subsets[fits] @ values).max()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9999))
def test_knapsack_returns_the_best_of_all_subsets(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    whole = rng.integers(0, 7, size=n)
    sides = rng.uniform(0.0, 5.0, size=(int(rng.integers(1, 4)), n)).round(2)
    capacities = (sides.sum(axis=1) * rng.uniform(0.0, 1.0)).round(2)
    for problem in (Knapsack(whole, int(rng.integers(0, 15))), Knapsack(sides, capacities)):
        values = rng.normal(size=(4, n)) + 0.3
        chosen = problem.solve_all(values)
        for row, z in zip(values, chosen, strict=True):
            assert problem.is_feasible(z)
            np.testing.assert_allclose(
                z @ row, best_value(row, problem.weights, problem.capacity), atol=1e-9
            )


def test_knapsack_leaves_out_items_without_value():
    assert Knapsack([1, 1], 2).solve(np.array([0.0, -1.0])).tolist() == [0.0, 0.0]
    assert Knapsack([[1.5, 1.0]], [9.0]).solve(np.array([-1.0, 2.0])).tolist() == [0.0, 1.0]


def test_knapsack_refuses_wrong_weights_and_capacities():
    with pytest.raises(ValueError, match="negative"):
        Knapsack([1, -1], 2)
    with pytest.raises(ValueError, match=r"weights has shape \(1, 2\); give \(2, 2\)"):
        Knapsack([1, 1], [2, 3])
