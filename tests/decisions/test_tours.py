"""Shortest tours against all tours, and against an integer program."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.decisions import LinearProgram, Tour


def test_twenty_nodes_against_an_integer_program():
    """Degrees alone bound the tour; cycles that do not reach all nodes are cut off one by one."""
    problem = Tour(20)
    i, j = np.triu_indices(20, 1)
    nodes = np.arange(20)[:, None]
    degrees = ((nodes == i) | (nodes == j)).astype(float)
    for seed in range(2):
        costs = np.random.default_rng(seed).normal(size=problem.n_items)
        A, b = np.zeros((1, len(i))), [0.0]
        while True:
            z = LinearProgram(A, b, degrees, np.full(20, 2.0), integrality=True).solve(costs)
            if problem.is_feasible(z):
                break
            cycle = np.arange(20) == 0
            for _ in range(20):
                ends = (z > 0) & (cycle[i] | cycle[j])
                cycle[i[ends]] = cycle[j[ends]] = True
            A = np.vstack((A, (cycle[i] & cycle[j]).astype(float)))
            b.append(cycle.sum() - 1.0)
        assert problem.solve(costs) @ costs == pytest.approx(z @ costs)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999), st.sampled_from([1.0, 1e-8, 1e8]))
def test_local_search_ends_in_a_tour_that_no_turned_part_makes_shorter(seed, scale):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    problem = Tour(n)
    costs, others = scale * rng.normal(size=(2, 3, problem.n_items))
    begun = problem.solve_all(others)
    tours = problem.improve_all(costs, begun)
    i, j = np.triu_indices(n, 1)
    for row, tour, first in zip(costs, tours, begun, strict=True):
        assert problem.is_feasible(tour)
        assert row @ tour <= row @ first + 1e-9 * scale
        # Turning a part takes two edges out and puts two in; what is no tour is left out.
        used, unused = np.flatnonzero(tour), np.flatnonzero(tour == 0)
        for out, into in product(combinations(used, 2), combinations(unused, 2)):
            if sorted([*i[[*out]], *j[[*out]]]) != sorted([*i[[*into]], *j[[*into]]]):
                continue
            other = tour.copy()
            other[[*out]], other[[*into]] = 0, 1
            if problem.is_feasible(other):
                assert row @ tour <= row @ other + 1e-8 * scale


def test_local_search_mostly_ends_in_the_shortest_tour():
    rng = np.random.default_rng(0)
    problem = Tour(12)
    costs, others = rng.normal(size=(2, 40, problem.n_items))
    best = problem.solve_all(costs)
    tours = problem.improve_all(costs, problem.solve_all(others))
    assert ((costs * (tours - best)).sum(axis=1) < 1e-9).mean() > 0.8


def test_two_cycles_are_no_tour():
    problem = Tour(6)
    two = np.zeros(15)
    for e, (i, j) in enumerate(zip(*np.triu_indices(6, 1), strict=True)):
        two[e] = (i < 3) == (j < 3)
    assert not problem.is_feasible(two)
    with pytest.raises(ValueError, match="at least 3 nodes"):
        Tour(2)
