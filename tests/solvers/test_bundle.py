"""The bundle with and without a ridge, and its cut pool, against an independent solver."""

import numpy as np
import pytest

from structboost.errors import SolverError
from structboost.solvers.bundle import Bundle, CutPool
from tests.helpers.problems import quadratic_optimum

C, N_COLUMNS = 5.0, 12


class LargestMargin(Bundle):
    """``sum(w) + C max(losses - A w) + ridge / 2 |w|^2`` for many given rows: a cut is a row."""

    def __init__(self, seed=0, *, ridge=0.0, step_length=1.0):
        rng = np.random.default_rng(seed)
        self.A, self.losses = rng.normal(0.6, 1.0, (200, N_COLUMNS)), rng.random(200)
        self.C, self.ridge, self.step_length = C, ridge, step_length
        self.weights, self.risk = np.zeros(N_COLUMNS), np.inf
        self.pool = CutPool(empty_cut=True)
        self.pool.multipliers[0] = C
        self.pool.add_columns(np.zeros((1, N_COLUMNS)))
        self.proofs = 0

    def _new_cut(self, weights):
        margins = self.losses - self.A @ weights
        row = int(margins.argmax())
        self.pool.add([row], self.A[row][None], self.losses[[row]])
        return max(0.0, float(margins[row]))

    def _is_proved(self, accuracy):
        self.proofs += 1
        return self.objective() - optimum(self) <= accuracy

    def objective(self):
        return self._objective(self.weights, self.risk)


class OrderedLargestMargin(LargestMargin):
    ordered = True
    max_idle = 6
    max_cuts = 10


def optimum(problem):
    """The same by a general solver, over the weights and the slack."""
    rows = np.column_stack((problem.A, np.ones(len(problem.A))))
    costs, is_weight = np.append(np.ones(N_COLUMNS), C), np.arange(N_COLUMNS + 1) < N_COLUMNS
    return quadratic_optimum(costs, problem.ridge * is_weight, rows, problem.losses)[0]


@pytest.mark.parametrize("master", [LargestMargin, OrderedLargestMargin])
@pytest.mark.parametrize(("ridge", "step"), [(0.0, 1.0), (0.3, 1.0), (0.3, np.inf), (30.0, 1e-3)])
@pytest.mark.parametrize("seed", range(3))
def test_the_center_comes_within_the_accuracy_asked_for(master, ridge, step, seed):
    problem = master(seed, ridge=ridge, step_length=step)
    problem._cut(problem.weights)
    assert problem._solve_by_bundle(lambda: 1e-5)
    best = optimum(problem)
    assert best - 1e-7 <= problem.objective() <= best + 1e-5 + 1e-7
    assert problem.weights.min() >= 0
    risk = max(0.0, (problem.losses - problem.A @ problem.weights).max())
    assert problem.risk == pytest.approx(risk, abs=1e-12)
    assert (problem.proofs > 0) == (ridge == 0)
    assert problem.pool.multipliers.sum() == pytest.approx(C)


def test_a_center_of_unknown_risk_gives_way_to_the_first_cut():
    """As after a change of the training set: with an infinite step, old weights do not matter."""
    problem = LargestMargin(ridge=0.3, step_length=np.inf)
    problem.weights = np.full(N_COLUMNS, 1e6)
    assert problem._solve_by_bundle(lambda: 1e-5)
    assert problem.objective() == pytest.approx(optimum(problem), abs=2e-5)


def test_too_few_cuts_are_told():
    problem = LargestMargin(ridge=0.3)
    problem._cut(problem.weights)
    assert not problem._solve_by_bundle(lambda: 1e-9, max_cuts=2)
    assert len(problem.pool) == 1 + 1 + 2


def test_an_infinite_loss_is_named():
    problem = LargestMargin()
    problem.losses[3] = np.inf
    with pytest.raises(SolverError, match="check that losses are finite"):
        problem._cut(problem.weights)


def test_the_empty_cut_and_those_with_a_dual_or_a_multiplier_stay():
    pool = CutPool(empty_cut=True)
    pool.add(list("abcdef"), np.zeros((6, 0)), np.arange(6.0))
    multipliers = np.array([0.0, 1.0, 0, 0, 0, 2.0, 0])
    for _ in range(4):
        pool.age(multipliers)
    pool.duals[2] = 1.0
    pool.idle[6] = 1
    kept = pool.in_use(3)
    np.testing.assert_array_equal(kept, [True, True, True, False, False, True, True])
    # Where they are too many, the idlest go first, but none with a dual or a multiplier.
    np.testing.assert_array_equal(np.flatnonzero(pool.in_use(9, most=4)), [0, 1, 2, 5])
    assert pool.in_use(9, most=1).sum() == 4
    assert pool.keep(kept) == ["c", "d"]
    assert pool.cuts == [None, "a", "b", "e", "f"]
    assert pool.numbers.tolist() == [0, 1, 2, 5, 6]
    pool.add(["g"], np.zeros((1, 0)), np.ones(1))
    assert pool.numbers[-1] == 7
    assert pool.made == slice(1, None)


def test_without_a_ridge_or_a_proof_it_refuses():
    problem = LargestMargin()
    problem._cut(problem.weights)
    with pytest.raises(NotImplementedError, match="LargestMargin proves nothing"):
        Bundle._is_proved(problem, 1.0)
