"""The search for the best zeros and ones: against all of them, and against HiGHS."""

import itertools

import numpy as np
import pytest
from numpy.random import default_rng

from structboost.decisions import LinearProgram
from structboost.errors import TaskError
from structboost.solvers.milp import quiet_highs, search_binary


def program(seed):
    """A small random program, with or without integers, an equation, a fixed entry; costs."""
    rng = default_rng(seed)
    n, n_rows = rng.integers(2, 9), rng.integers(1, 4)
    A, b = rng.normal(size=(n_rows, n)), 1.0 + 2.0 * rng.normal(size=n_rows)
    costs = rng.normal(size=n) * 10.0 ** rng.integers(-6, 8)
    if seed % 2:
        A, b, costs = np.round(2 * A), np.round(b), np.round(costs)
    constraints = {}
    if seed % 3 == 0:
        constraints = {"A_eq": np.ones((1, n)), "b_eq": [rng.integers(1, n + 1)]}
    bounds = np.tile([0.0, 1.0], (n, 1))
    if seed % 5 == 0:
        bounds[rng.integers(n)] = rng.integers(2)
    return LinearProgram(
        A, b, bounds=bounds, integrality=True, maximize=bool(rng.integers(2)), **constraints
    ), costs


@pytest.mark.parametrize("seed", range(120))
def test_the_solution_is_the_best_of_all_zeros_and_ones(seed):
    problem, costs = program(seed)
    every = np.array(list(itertools.product([0.0, 1.0], repeat=len(costs))))
    feasible = every[[problem.is_feasible(z) for z in every]]
    if not len(feasible):
        with pytest.raises(TaskError, match="infeasible"):
            problem.solve(costs)
        return
    solution, sign = problem.solve(costs), -1.0 if problem.maximize else 1.0
    assert problem.is_feasible(solution)
    assert np.isin(solution, (0.0, 1.0)).all()
    best = (sign * feasible @ costs).min()
    assert sign * costs @ solution == pytest.approx(best, rel=1e-9, abs=1e-9 * np.abs(costs).max())
    # A local search is told of feasible solutions only, and never makes one worse.
    improved = problem.improve_all(np.tile(costs, (len(feasible), 1)), feasible)
    assert all(problem.is_feasible(z) for z in improved)
    assert (sign * improved @ costs <= sign * feasible @ costs + 1e-9 * np.abs(costs).max()).all()


@pytest.mark.parametrize("most_sets", [1, 3, 10, 100, 1000])
def test_a_search_that_ends_early_claims_no_proof_that_it_does_not_have(most_sets):
    n_proven = 0
    for seed in range(40):
        rng = default_rng(seed)
        values, rows = np.abs(rng.normal(size=10)), rng.uniform(size=(2, 10))
        sides = np.array([[-np.inf, -np.inf], 0.4 * rows.sum(axis=1)])
        bounds = np.tile([0.0, 1.0], (10, 1))
        every = np.array(list(itertools.product([0.0, 1.0], repeat=10)))
        best = (every @ values)[(every @ rows.T <= sides[1]).all(axis=1)].max()
        # The proof does not depend on the prices, which only guide the search.
        result = search_binary(values, rows, sides, rng.normal(size=2), bounds, most_sets)
        assert not result.is_proven or values @ result.solution == pytest.approx(best)
        n_proven += result.is_proven
    assert (n_proven > 0) == (most_sets > 10)


@pytest.mark.slow
def test_fifty_entries_are_searched_to_the_proof_that_branching_gives():
    rng = default_rng(0)
    A = rng.uniform(size=(3, 50))
    problem = LinearProgram(A, 0.4 * A.sum(axis=1), integrality=True, maximize=True)
    for costs in np.abs(rng.normal(size=(3, 50))):
        result = problem._search(costs, 1 << 18)
        assert result.is_proven
        branched = problem._run_at(costs).getSolution().col_value
        assert costs @ result.solution == pytest.approx(costs @ np.array(branched))


def test_entries_of_equal_worth_do_not_make_the_search_try_all_their_sets():
    problem = LinearProgram(np.ones((1, 60)), [30.0], integrality=True, maximize=True)
    for costs in (np.ones(60), np.zeros(60), -np.ones(60)):
        assert problem._search(costs, 1000).is_proven
        assert problem.solve(costs) @ costs == max(0.0, 30.0 * costs[0])


def test_making_and_running_a_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    solver = quiet_highs()
    solver.addVar(0.0, 3.0)
    solver.changeColCost(0, -1.0)
    solver.run()
    assert np.asarray(solver.getSolution().col_value).tolist() == [3.0]
    assert "".join(capfd.readouterr()) == ""
