"""Every hinge master over given columns, against the full linear program."""

import numpy as np
import pytest

from structboost import RankingTask, StructBoost
from structboost.errors import EmptyModelWarning
from structboost.objectives.hinge import OneSlack
from structboost.objectives.norm_bounded import NormBoundedHinge
from structboost.solvers.bundle import CutPool
from structboost.solvers.proximal_step import _proximal_step
from tests.helpers.listed_outputs import Choose
from tests.helpers.problems import quadratic_optimum
from tests.objectives.hinge_problems import MASTERS, given_columns

BOUNDED = [name for name in MASTERS if name.startswith("norm_bounded")]
CASES = [
    *((name, C) for name in MASTERS if name not in BOUNDED for C in (2.0, 30.0, 1000.0)),
    *((name, theta) for name in BOUNDED for theta in (1e-3, 0.2, 1.5, 30.0, 1e5)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "C"), CASES)
@pytest.mark.parametrize("tolerance", [0.1, 1e-3, 1e-7])
def test_a_master_is_solved_to_the_gap_that_is_asked_for(name, C, tolerance):
    problem = given_columns(name, C)
    master, optimum = problem.master, problem.optimum(C)
    master.solve(tolerance)
    assert master.weights.min() >= 0
    assert master.primal == pytest.approx(problem.objective(master.weights, C), rel=1e-9, abs=1e-9)
    slack = 1e-9 + 1e-6 * problem.bounds_norm
    assert optimum * (1 - 1e-9) - slack <= master.primal
    assert master.primal <= optimum * (1 + 1.01 * tolerance) + slack
    # The proof: the duals, whose edges on all columns are at most what a weight costs.
    largest = problem.edges().max()
    assert largest <= master.min_edge + 1e-7
    assert master.bound(largest) <= optimum * (1 + 1e-9) + slack
    gap = master.primal - master.bound(largest)
    assert gap <= tolerance * master.primal * (1 + 1e-9) + slack
    assert master.bound(2.0 * max(largest, 1.0)) <= master.bound(largest)


ROWS = np.random.default_rng(0).normal(size=(6, 3))


@pytest.mark.parametrize(
    "formulation", ["one_slack", OneSlack(stabilize=False), "m_slack", NormBoundedHinge()]
)
@pytest.mark.parametrize("tol", [0.02, 1e-5])
@pytest.mark.parametrize(
    ("task", "X", "Y"),
    [(Choose(), ROWS[:, None], [0] * 6), (RankingTask(), [ROWS], [[0] * 6])],
    ids=["choose", "ranking"],
)
def test_where_the_truth_is_the_only_output_the_empty_model_is_certified(
    formulation, tol, task, X, Y
):
    trainer = StructBoost(task, C=1.0, tol=tol, formulation=formulation)
    with pytest.warns(EmptyModelWarning, match="No larger C helps"):
        trainer.fit(X, Y)
    last = trainer.history_[-1]
    assert (last["primal"], last["gap"], last["certified"], last["columns"]) == (0.0, 0.0, True, 0)
    with pytest.warns(EmptyModelWarning):
        path = trainer.path(X, Y, [1.0, 100.0])
    assert [one.objective_ for one in path] == [0.0, 0.0]


@pytest.mark.parametrize("name", MASTERS)
def test_C_may_change_and_columns_may_go(name):
    constants = (0.2, 0.01, 1.5) if name in BOUNDED else (30.0, 3.0, 300.0)
    problem = given_columns(name, constants[0])
    master = problem.master
    for C in constants:
        master.set_C(C)
        master.solve(1e-6)
        assert master.primal == pytest.approx(problem.optimum(C), rel=1e-5)
        assert not problem.bounds_norm or master.weights.sum() <= C * (1 + 1e-12)
    kept = master.weights > 0
    assert not kept.all()
    before = master.primal
    signatures = list(_proximal_step.signatures)
    master.keep_columns(kept)
    assert not len(master.pool.curvature.cuts)
    master.solve(1e-6)
    # A matrix in another layout would be compiled for again, with a warning that users see.
    assert _proximal_step.signatures == signatures
    assert master.pool.matrix.flags.c_contiguous
    assert master.primal == pytest.approx(before, rel=1e-5)
    assert master.primal == pytest.approx(problem.optimum(constants[-1], kept), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "C", "most"),
    [
        ("one_slack", 200.0, 400),
        ("m_slack", 200.0, 32),
        ("norm_bounded", 0.2, 130),
        ("norm_bounded", 1.5, 230),
        ("norm_bounded_coded", 0.2, 130),
        ("norm_bounded_coded", 1.5, 230),
    ],
)
def test_few_passes_are_enough(name, C, most):
    """With wrong step lengths, or constraints that do not matter, it takes many more."""
    calls = 0
    for seed in range(6):
        master = given_columns(name, C, seed).master
        master.solve(1e-5)
        assert master.oracle_calls > 0
        calls += master.oracle_calls
    assert calls <= most


@pytest.mark.parametrize("name", ["one_slack", "m_slack", "norm_bounded"])
def test_cuts_without_a_dual_are_dropped(name, monkeypatch):
    gone, keep = [], CutPool.keep
    monkeypatch.setattr(
        CutPool, "keep", lambda pool, kept: (gone.append((~kept).sum()), keep(pool, kept))[1]
    )
    scale = 0.05 if name in BOUNDED else 1.0
    problem = given_columns(name, 3.0 * scale)
    for C in (3.0, 30.0, 1.0, 300.0, 10.0, 3.0):
        problem.master.set_C(scale * C)
        problem.master.solve(1e-7)
        expected = problem.optimum(scale * C)
        assert problem.master.primal == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert sum(gone) > 0


def optimum_with_ridge(problem, C, ridge):
    """By a general solver, over the weights and a slack for each example."""
    n_columns, n, n_classes = problem.margins.shape
    slacks = np.repeat(np.eye(n), n_classes, axis=0)
    rows = np.hstack((problem.margins.reshape(n_columns, -1).T, slacks))
    costs = np.concatenate((np.ones(n_columns), C * problem.shares))
    squares = ridge * (np.arange(n_columns + n) < n_columns)
    return C * quadratic_optimum(costs / C, squares, rows, problem.delta.ravel())[0]


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_with_a_ridge_the_master_is_solved_to_the_gap_that_is_asked_for(ridge, monkeypatch):
    monkeypatch.setitem(MASTERS, "ridge", (OneSlack(ridge=ridge), "multiclass"))
    problem = given_columns("ridge", 3.0)
    master = problem.master
    for C, tolerance in ((30.0, 1.0), (300.0, 1e-6)):
        master.set_C(C)
        master.solve(tolerance)
        squares = master.weights @ master.weights
        objective = problem.objective(master.weights, C) + 0.5 * C * ridge * squares
        assert master.weights.min() >= 0
        assert master.primal == pytest.approx(objective, rel=1e-9)
        optimum = optimum_with_ridge(problem, C, ridge)
        # However loose a gap is asked for, 5 % is the largest.
        assert optimum * (1 - 1e-6) <= master.primal <= optimum * (1 + 1.1 * min(tolerance, 0.05))
        # Scaled until no column has an edge above its price, the duals hold without the ridge, too.
        largest = problem.edges().max()
        assert master.bound(1.0) == pytest.approx(master.dual_value / max(1.0, largest))
        assert master.bound(1.0) <= problem.optimum(C) * (1 + 1e-9)
        assert master.bound(2.0 * largest) == pytest.approx(master.dual_value / (2.0 * largest))
    before, limit = squares, 1.1 * master.primal
    master.spread(limit)
    assert master.primal <= limit
    assert master.weights @ master.weights < before
    # The ridge itself stays.
    master.solve(1e-6)
    assert master.primal == pytest.approx(optimum, rel=1e-5)


@pytest.mark.parametrize("name", MASTERS)
def test_a_loose_solution_has_its_proof(name):
    C = 1.5 if name in BOUNDED else 1000.0
    problem = given_columns(name, C)
    master, optimum = problem.master, problem.optimum(C)
    master.solve_loosely(1e-7)
    slack = 1e-9 + 1e-6 * problem.bounds_norm
    assert master.primal == pytest.approx(problem.objective(master.weights, C), rel=1e-9, abs=1e-9)
    assert master.primal >= optimum * (1 - 1e-9) - slack
    assert problem.edges().max() <= master.min_edge + 1e-7
    assert master.bound(1.0) <= optimum * (1 + 1e-9) + slack
    if name == "one_slack":
        assert master.oracle_calls <= 22
        assert master.primal - master.bound(1.0) > 1e-3 * optimum
        master.solve(1e-7)
        assert master.primal == pytest.approx(optimum, rel=1e-6)
