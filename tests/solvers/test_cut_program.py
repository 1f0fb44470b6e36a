"""The linear program over the cuts: kept up with its pool, and every answer checked."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import linprog

from structboost.errors import SolverError
from structboost.solvers.bundle import CutPool
from structboost.solvers.cut_program import CutProgram
from tests.helpers.problems import full_optimum

NORMS = [None, 0.25]


def small_program(norm):
    """``2 w + xi >= 1``, slack costs 2: w is 1/2; under a norm of 1/4, the slack is 1/2."""
    pool = CutPool()
    program = CutProgram(pool, norm)
    program.add_slacks(np.array([2.0]))
    pool.add([0], np.zeros((1, 0)), np.ones(1))
    pool.add_columns(np.array([[2.0]]))
    return program


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(["cuts", "columns", "slacks", "drop cuts", "drop columns", "solve"]),
        min_size=5, max_size=25,
    ),
    st.sampled_from([None, 0.7]),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=60)
def test_it_keeps_up_with_its_pool(steps, norm, seed):
    rng = default_rng(seed)
    pool = CutPool()
    program = CutProgram(pool, norm)
    program.add_slacks(rng.uniform(1, 3, 2))
    for step in [*steps, "cuts", "solve"]:
        n_columns = pool.matrix.shape[1]
        if step == "cuts":
            pool.add(
                [None] * 3, rng.integers(-1, 3, (3, n_columns)).astype(float), rng.random(3),
                rng.integers(0, len(program.slack_costs), 3),
            )  # fmt: skip
        elif step == "columns":
            pool.add_columns(rng.integers(-1, 3, (len(pool), 2)).astype(float))
        elif step == "slacks":
            program.add_slacks(rng.uniform(1, 3, 1))
        elif step == "drop cuts":
            pool.keep(rng.random(len(pool)) < 0.7)
        elif step == "drop columns":
            kept = rng.random(n_columns) < 0.7
            program.keep_columns(kept)
            pool.keep_columns(kept)
        elif len(pool):
            found = program.solve()
            norms = None if norm is None else np.ones((1, n_columns))
            expected = full_optimum(
                pool.matrix, pool.losses, pool.slacks, program.slack_costs, norms, norm
            )
            assert found.objective == pytest.approx(expected, rel=1e-6, abs=1e-6)
            assert found.bound == pytest.approx(expected, rel=1e-4, abs=1e-4)
            assert len(found.weights) == n_columns
            assert len(found.duals) == len(pool)


class Highs:
    """HiGHS, with another answer or another way to begin from nothing."""

    def __init__(self, highs, **others):
        self._highs = highs
        self._others = others

    def __getattr__(self, name):
        return self._others[name] if name in self._others else getattr(self._highs, name)


each_norm = pytest.mark.parametrize("norm", NORMS)


@each_norm
def test_trouble_with_a_warm_solve_is_gone_after_a_cold_one(norm, monkeypatch, caplog):
    program = small_program(norm)
    run, colds = program._run, []
    highs = program._highs
    program._highs = Highs(highs, clearSolver=lambda: (colds.append(1), highs.clearSolver())[1])
    answers = iter([(None, "made trouble")])
    monkeypatch.setattr(program, "_run", lambda: next(answers, None) or run())
    with caplog.at_level(logging.INFO, logger="structboost"):
        solution = program.solve()
    assert solution.objective == pytest.approx(0.5 if norm is None else 1.0)
    np.testing.assert_allclose(solution.weights, [0.5 if norm is None else 0.25])
    assert solution.bound == pytest.approx(solution.objective)
    assert "made trouble; solving again" in caplog.text
    assert len(colds) == 1
    program.solve()
    program.solve(cold=True)
    assert len(colds) == 2
    for answer in (None, solution):
        monkeypatch.setattr(program, "_run", lambda answer=answer: (answer, "made trouble"))
        with pytest.raises(
            SolverError, match="with 1 cuts and 1 columns could not be solved: made trouble"
        ):
            program.solve()


@pytest.mark.slow
def test_large_costs_of_slacks_are_no_trouble():
    # The dual simplex method of HiGHS fails at some such costs ("excessive dual values").
    rng = default_rng(0)
    for cost in np.append(5.85e7, 10 ** rng.uniform(5, 9, 300)):
        entries = rng.choice([0.1470871, 0.2, 1 / 3, 1.0]) * rng.integers(-6, 6, 3)
        losses = rng.integers(1, 8, 3) / 7
        if cost == 5.85e7:
            entries, losses = np.array([0.14708710, -0.73543551]), np.array([1.0, 6 / 7])
        pool = CutPool()
        program = CutProgram(pool)
        program.add_slacks(np.array([cost]))
        pool.add([None] * len(losses), np.zeros((len(losses), 0)), losses)
        pool.add_columns(entries[:, None])
        found = linprog(
            [1.0 / cost, 1.0],
            A_ub=-np.column_stack((entries, np.ones(len(losses)))),
            b_ub=-losses,
            method="highs-ipm",
        )
        assert program.solve(cold=True).objective == pytest.approx(cost * found.fun, rel=1e-5)


@each_norm
@pytest.mark.parametrize("values", [[0.0, 1.0], [1.0, 0.0], [np.inf, 0.0]])
@pytest.mark.parametrize("dual", [0.0, 0.5])
def test_answers_of_the_solver_are_checked(norm, values, dual):
    program = small_program(norm)
    program.solve()
    wrong = type("Wrong", (), {"col_value": values, "row_dual": [dual] * (1 + (norm is not None))})
    program._highs = Highs(program._highs, getSolution=lambda: wrong)
    with pytest.raises(SolverError, match=r"primal .* and dual .* of its solution differ"):
        program.solve()


@each_norm
def test_what_the_solver_calls_infeasible_is_named(norm):
    program = small_program(norm)
    program._highs.changeColBounds(0, 5.0, 1.0)
    with pytest.raises(SolverError, match="HiGHS ended with the status"):
        program.solve()


def test_duals_beyond_the_cost_of_their_slack_are_scaled_down():
    program = small_program(None)
    answer = program._highs
    program.solve()
    # Multipliers that spend more than the slack costs would prove too high a bound.
    beyond = type("Beyond", (), {"col_value": answer.getSolution().col_value, "row_dual": [1e3]})
    program._highs = Highs(program._highs, getSolution=lambda: beyond)
    assert program.solve().duals.sum() == pytest.approx(program.slack_costs.sum())
