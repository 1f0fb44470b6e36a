"""Cross-entropy over weights with prices: optimum, bound, and the same by column generation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import approx_fprime, minimize
from scipy.special import logsumexp

from structboost.solvers.priced_cross_entropy import PricedCrossEntropy, ScoreBlock


def made(seed, n=25, n_classes=3, n_functions=8):
    """A problem in which half of the functions score one class, and half score all."""
    rng = default_rng(seed)
    dense = rng.normal(size=(n_functions, n, n_classes))
    for t in range(n_functions // 2):
        dense[t, :, np.arange(n_classes) != t % n_classes] = 0.0
    blocks = [
        ScoreBlock(own, c, dense[own][:, :, c])
        for c in range(n_classes)
        for own in [np.flatnonzero(np.abs(dense[:, :, c]).any(axis=1))]
    ]
    targets = rng.dirichlet(np.full(n_classes, 0.5), n)
    offset, prices = rng.normal(size=n_classes), rng.uniform(0.2, 2.0, n_functions)
    return dense, PricedCrossEntropy(blocks, offset, targets), prices


def objective(weights, dense, problem, prices, C):
    scores = problem.offset + np.tensordot(weights, dense, 1)
    losses = logsumexp(scores, axis=1) - (problem.targets * scores).sum(axis=1)
    return float(prices @ weights + C * losses.mean())


@given(seed=st.integers(0, 10**6), log_C=st.floats(-1.0, 3.0))
def test_solution_agrees_with_another_solver_and_the_bound_is_below_all_weights(seed, log_C):
    dense, problem, prices = made(seed)
    C = float(np.exp(log_C))
    solution = problem.solve(C, prices, np.zeros(8), 1e-5)
    arguments = (dense, problem, prices, C)
    assert solution.objective == pytest.approx(objective(solution.weights, *arguments))
    assert solution.gap <= 1e-5
    other = minimize(
        objective, np.full(8, 0.1), arguments, method="SLSQP", bounds=[(0, None)] * 8,
        options={"ftol": 1e-10, "maxiter": 300},
    )  # fmt: skip
    assert solution.bound <= other.fun * (1 + 1e-7)
    assert solution.objective <= other.fun * (1 + 1e-4)


@given(seed=st.integers(0, 10**6))
def test_bound_is_valid_at_any_weights_and_edges_are_slopes(seed):
    dense, problem, prices = made(seed)
    best = problem.solve(8.0, prices, np.zeros(8), 1e-7).objective
    weights = default_rng(seed).exponential(size=8)
    at = problem._at(weights, 8.0, prices).solution
    assert at.bound <= best * (1 + 1e-6) <= at.objective * (1 + 2e-6)
    slopes = approx_fprime(weights, objective, 1e-6, dense, problem, np.zeros(8), 1.0)
    assert problem.edges(weights) == pytest.approx(-slopes, abs=1e-4)
