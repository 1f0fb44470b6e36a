"""Solvers of the likelihood of chains against enumeration and an independent solver."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from structboost.errors import TaskError
from structboost.linear.chain import DualChain, PrimalChain, chain_problem
from structboost.linear.designs import SameColumns
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.tasks.chain import ChainTask, Stretch, labelled_stretches

N_FEATURES, N_TAGS = 6, 3
FORBIDDEN = [(0, 2), (None, 1), (2, None)]
DUAL_AND_PRIMAL = [DualChain, PrimalChain]
SOLVERS = [*DUAL_AND_PRIMAL, PrimalLikelihood]


class Problem:
    """Tokens whose features 4 and 5 are equal, tags that partly follow, and all other tags."""

    def __init__(self, seed=0, n=12, *, vectors=False, forbidden=False, unknown=False):
        rng = default_rng(seed)
        self.task = ChainTask(N_TAGS, vectors=vectors, forbidden=FORBIDDEN if forbidden else [])
        X, Y = [], []
        while len(X) < n:
            size = int(rng.integers(1, 5))
            table = rng.random((size, N_FEATURES)) < 0.4
            table[:, 5] = table[:, 4]
            tags = (table[:, 0] + table[:, 4] + (rng.random(size) < 0.2)) % N_TAGS
            x = np.where(table, np.arange(N_FEATURES), -1)
            if vectors:
                x = x, 3.0 * tags[:, None] + rng.normal(5.0, [1.0, 9.0], (size, 2))
            if forbidden and n % 2:
                x = Stretch(x, begins=bool(len(X) % 2), ends=True)
            if not self.task.is_valid(x, tags):
                continue
            X.append(x)
            Y.append(np.where(rng.random(size) < 0.3, -1, tags) if unknown else tags)
        if unknown:
            X, Y = labelled_stretches(X, Y)
        self.X, self.Y = X, Y
        self.weights = rng.dirichlet(np.full(len(X), 5.0))

    def solver(self, solver, rows=None, **options):
        rows = np.arange(len(self.X)) if rows is None else rows
        weights = self.weights[rows] / self.weights[rows].sum()
        return solver(
            self.task, [self.X[i] for i in rows], [self.Y[i] for i in rows], weights,
            active=["token"], **options,
        )  # fmt: skip

    def joint(self, problem, x, tags):
        """Joint feature, kind after kind, as the weights of a problem stand."""
        content = x.x if isinstance(x, Stretch) else x
        parts = content if isinstance(content, tuple) else (content,)
        out = {kind: np.zeros_like(w) for kind, w in problem.matrices().items()}
        for t, tag in enumerate(tags):
            row = parts[0][t]
            out["token"][[*row[(row >= 0)], -1], tag] += 1.0
            if "vector" in out:
                out["vector"][:, tag] += problem.designs["vector"].matrix(parts[1][t : t + 1])[0]
            if t:
                out["step"][-1, tags[t - 1] * N_TAGS + tag] += 1.0
        return np.concatenate([out[kind].ravel() for kind in sorted(out)])

    def objective(self, problem, C):
        """Objective of all weights, and its slope."""
        every = [
            np.array([self.joint(problem, x, z) for z in self.task.outputs(x)]) for x in self.X
        ]
        true = [self.joint(problem, x, y) for x, y in zip(self.X, self.Y, strict=True)]

        def objective(w):
            value, slope = w @ w / 2, w
            for weight, of_all, of_true in zip(self.weights, every, true, strict=True):
                value += C * weight * (logsumexp(of_all @ w) - of_true @ w)
                slope = slope + C * weight * (softmax(of_all @ w) @ of_all - of_true)
            return value, slope

        return objective


def improve(problem, n=1):
    """Make rounds until the gap is small."""
    for _ in range(n):
        problem.improve()
        if problem.primal - problem.bound < 1e-5 * problem.primal:
            break


def flat(problem):
    """All weights, kind after kind."""
    matrices = problem.matrices()
    return np.concatenate([matrices[kind].ravel() for kind in sorted(matrices)])


CASES = [
    {},
    {"vectors": True},
    {"forbidden": True},
    {"forbidden": True, "n": 11},
    {"unknown": True},
    {"vectors": True, "forbidden": True, "n": 11},
]


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_optimum_and_bounds_are_those_of_an_independent_solver(solver, case):
    examples, C = Problem(**case), 6.0
    problem = examples.solver(solver)
    problem.begin(C)
    objective = examples.objective(problem, C)
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 5000}
    start = np.zeros(len(flat(problem)))
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    for _ in range(400):
        problem.improve()
        assert problem.bound <= best.fun * (1 + 1e-7)
        assert problem.primal == pytest.approx(objective(flat(problem))[0], rel=1e-9)
        if problem.primal - problem.bound < 1e-6 * problem.primal:
            break
    assert [problem.bound, problem.primal] == pytest.approx([best.fun] * 2, rel=1e-4)
    np.testing.assert_allclose(flat(problem), best.x, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [*zip(SOLVERS, SOLVERS, strict=True), *itertools.permutations(DUAL_AND_PRIMAL)],
)
def test_the_next_C_and_the_whole_set_start_from_the_fit_before(first, second):
    examples, rows = Problem(2, 40), np.arange(0, 40, 2)
    part = examples.solver(first, rows)
    for C in (10.0, 20.0):
        part.begin(C)
        improve(part, 60)
    warm, cold = (examples.solver(second) for _ in range(2))
    warm.adopt(part.result(), rows, 30.0)
    cold.begin(30.0)
    improve(warm)
    improve(cold)
    if first is second or second is PrimalChain:
        assert warm.primal < cold.primal
    for problem in (warm, cold):
        improve(problem, 100)
    assert warm.primal == pytest.approx(cold.primal, rel=1e-3)
    assert warm.bound <= cold.primal * (1 + 1e-9)


def test_weights_of_adopted_duals_are_sums_in_the_order_of_tokens():
    examples = Problem(n=200, vectors=True)
    part, warm = (examples.solver(DualChain) for _ in range(2))
    part.begin(10.0)
    improve(part, 3)
    warm.adopt(part.result(), np.arange(200), 10.0)
    tags = np.concatenate(examples.Y)[:, None] == np.arange(N_TAGS)
    of_tokens = np.repeat(warm._sequences[2], np.diff(warm._starts))[:, None]
    of_tokens = -of_tokens * warm._duals[0] + of_tokens * tags
    products = warm._tokens[3][:, :, None] * of_tokens[:, None]
    # BLAS adds in the order of the processor.
    np.testing.assert_array_equal(warm._weights[0][-4:-1], products.cumsum(axis=0)[-1])


@pytest.mark.parametrize("solver", DUAL_AND_PRIMAL)
def test_large_scores_and_empty_sequences_end_in_finite_weights(solver):
    X = [np.zeros((0, 1), int)] + [np.array([[0], [1], [0]])] * 2
    Y = [np.zeros(0, int), np.array([0, 1, 0]), np.array([0, 1, 1])]
    problem = solver(ChainTask(2), X, Y, np.full(3, 1 / 3), active=["token"])
    for C, gap in ((1e9, np.inf), (1.0, 1e-3)):
        problem.begin(C)
        improve(problem, 40)
        assert np.isfinite(flat(problem)).all()
        assert np.isfinite([problem.primal, problem.bound]).all()
        assert problem.bound <= problem.primal * (1 + 1e-6)
        assert problem.primal - problem.bound <= gap * problem.primal


def test_a_forbidden_tag_of_training_is_named():
    X, Y = [np.array([[0], [1]])] * 2, [np.array([0, 0]), np.array([0, 1])]
    with pytest.raises(TaskError, match=r"Y\[1\]"):
        DualChain(ChainTask(2, forbidden=[(0, 1)]), X, Y, np.full(2, 0.5), active=["token"])


def test_the_solver_follows_from_lengths_and_memory(monkeypatch):
    long = ChainTask(2), [np.zeros((300, 1), int)], [np.zeros(300, int)], np.ones(1)
    assert isinstance(chain_problem(*long, active=["token"]), PrimalChain)
    assert isinstance(Problem().solver(chain_problem), DualChain)
    monkeypatch.setattr("structboost.linear.chain._MOST_PAIRS", 10)
    assert isinstance(Problem().solver(chain_problem), PrimalChain)


# -- equal columns -------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_equal_columns_are_one_column_of_the_same_scores_and_norm(seed):
    rng = default_rng(seed)
    table = rng.random((5, 4))[:, rng.integers(0, 4, 9)] < 0.5
    columns = SameColumns(np.where(table, np.arange(9), -1), 9)
    groups, starts = columns.entries
    matrix = np.zeros((5, len(columns.values)))
    np.add.at(matrix, (np.repeat(np.arange(5), np.diff(starts)), groups), columns.values[groups])
    weights = rng.normal(size=(len(columns.values), 2))
    spread = columns.spread(weights)
    np.testing.assert_allclose(matrix @ weights, table @ spread, atol=1e-12)
    assert np.square(spread).sum() == pytest.approx(np.square(weights).sum())
    assert len(columns.values) == len({tuple(column) for column in table.T})
