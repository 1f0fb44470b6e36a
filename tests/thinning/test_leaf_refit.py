"""Leaves fitted anew: the optimum of a dense solver, bounds, and leaves that no row reached."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from structboost.thinning.leaf_refit import RIDGE, LeafAdditions, added_scores, refitted_leaves

N_ROWS, N_TREES, N_LEAVES, N_CLASSES = 30, 4, 3, 3


def problem(seed, has_channels):
    rng = np.random.default_rng(seed)
    leaves = rng.integers(N_LEAVES, size=(N_TREES, N_ROWS))
    scored = np.ones((N_TREES, N_CLASSES), bool)
    if has_channels:
        scored = np.arange(N_TREES)[:, None] % N_CLASSES == np.arange(N_CLASSES)
    trees = np.sort(rng.permutation(N_TREES)[:3])
    scores = rng.normal(size=(N_ROWS, N_CLASSES))
    targets = rng.dirichlet(np.ones(N_CLASSES), N_ROWS)
    return leaves, scored, trees, scores, targets, rng.uniform(0.1, 1.0, N_ROWS)


def dense_objective(leaves, scored, trees, scores, targets, row_weights):
    """Objective over a vector of the additions to all leaves and classes, and of the offsets."""
    shape = (N_TREES, N_LEAVES, N_CLASSES)
    may_change = np.zeros(shape, bool)
    may_change[trees] = scored[trees][:, None]

    def objective(z):
        values = np.where(may_change, z[: np.prod(shape)].reshape(shape), 0.0)
        moved = scores + z[np.prod(shape) :]
        for tree in trees:
            moved = moved + values[tree][leaves[tree]]
        losses = logsumexp(moved, axis=1) - (targets * moved).sum(axis=1)
        return row_weights @ losses / row_weights.sum() + RIDGE / 2 * (z @ z)

    return objective, np.prod(shape) + N_CLASSES


def as_vector(additions):
    values = np.zeros((N_TREES, N_LEAVES, N_CLASSES))
    for tree, own in additions.trees.items():
        values[tree, : len(own)] = own
    return np.concatenate((values.ravel(), additions.offset))


@pytest.mark.slow
@pytest.mark.parametrize("has_channels", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_additions_are_within_their_gap_of_the_optimum_of_a_dense_solver(seed, has_channels):
    parts = problem(seed, has_channels)
    objective, size = dense_objective(*parts)
    best = minimize(objective, np.zeros(size), method="BFGS", options={"gtol": 1e-7}).fun
    for tol in (0.05, 1e-7):
        additions = refitted_leaves(*parts, tol)
        value = objective(as_vector(additions))
        assert additions.gap <= tol
        assert value * (1 - additions.gap) <= best + 1e-9
        assert best - 1e-9 <= value
    assert value == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("has_channels", [True, False])
def test_scores_of_rows_are_the_additions_of_their_leaves(has_channels):
    leaves, scored, *others = problem(5, has_channels)
    additions = refitted_leaves(leaves, scored, *others, 0.01)
    assert set(additions.trees) == set(others[0].tolist())
    vector = as_vector(additions)[:-N_CLASSES].reshape(N_TREES, N_LEAVES, N_CLASSES)
    expected = sum(vector[tree][leaves[tree]] for tree in range(N_TREES))
    assert added_scores(additions, leaves) == pytest.approx(expected)


def test_leaves_that_no_row_reached_have_no_addition():
    additions = LeafAdditions({1: np.array([[0.0, 0.5], [1.0, 2.0]])}, np.zeros(2), 0.0)
    out = added_scores(additions, np.array([[0, 0, 0, 0], [0, 1, 2, 7]]))
    assert out.tolist() == [[0.0, 0.5], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
