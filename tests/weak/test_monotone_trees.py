"""Trees whose answers rise or fall with features: against all leaves, and on a grid of rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from structboost.weak.tree import Tree, TreeFamily

GRID = np.array(list(product(range(4), repeat=2)), float)


def rises(answers, directions):
    """Whether answers on the grid, each of shape (4, 4), keep the directions."""
    return all(
        (direction * np.diff(answers, axis=f) >= 0).all() for f, direction in enumerate(directions)
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_leaves_are_the_best_of_all_that_keep_the_directions(seed, depth):
    rng = np.random.default_rng(seed)
    directions = rng.integers(-1, 2, 2)
    family = TreeFamily(GRID, (-1.0, 1.0), depth=depth, directions=directions)
    # A tree of any splits: its leaves are then the best ones for other duals.
    n_nodes = 2**depth - 1
    features, bins = rng.integers(2, size=n_nodes), rng.integers(-1, 3, size=n_nodes)
    tree = Tree(
        tuple(features.tolist()), (np.inf,) * n_nodes, (1.0,) * (n_nodes + 1), tuple(bins.tolist())
    )
    duals = rng.normal(size=(16, 1))
    (found,) = family.refine(tree, duals)
    at = family.leaf_numbers(tree)
    best = max(
        np.array(leaves)[at] @ duals[:, 0]
        for leaves in product((-1, 1), repeat=n_nodes + 1)
        if rises(np.array(leaves)[at].reshape(4, 4), directions)
    )
    assert found.edge == pytest.approx(best)
    assert rises(np.array(found.learner.leaves)[at].reshape(4, 4), directions)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_confident_leaves_are_the_nearest_that_keep_the_directions(seed, depth):
    rng = np.random.default_rng(seed)
    directions = rng.integers(-1, 2, 2)
    family = TreeFamily(GRID, (-1.0, 1.0), depth=depth, directions=directions, confident=True)
    n_nodes = 2**depth - 1
    nodes = rng.integers(2, size=n_nodes), rng.integers(-1, 3, size=n_nodes), [0] * n_nodes
    wished, masses = rng.normal(size=n_nodes + 1), rng.uniform(0.1, 2.0, n_nodes + 1)
    found = family._directions.nearest_leaves(*nodes, wished, masses)
    tree = Tree(tuple(nodes[0]), (np.inf,) * n_nodes, tuple(found), tuple(nodes[1]))
    at = family.leaf_numbers(tree)
    reached = np.unique(at)
    assert rises(np.round(found[at], 9).reshape(4, 4), directions)
    grid = at.reshape(4, 4)
    pairs = [
        (low, high)[::direction]
        for f, direction in enumerate(directions)
        if direction
        for step in range(1, 4)
        for low, high in zip(
            np.moveaxis(grid, f, 0)[:-step].ravel(),
            np.moveaxis(grid, f, 0)[step:].ravel(),
            strict=True,
        )
    ]
    nearest = minimize(
        lambda v: masses[reached] @ (v[reached] - wished[reached]) ** 2,
        np.zeros(n_nodes + 1),
        constraints=[{"type": "ineq", "fun": lambda v, p=p: v[p[1]] - v[p[0]]} for p in set(pairs)],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    np.testing.assert_allclose(found[reached], nearest.x[reached], atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans())
def test_answers_keep_the_directions_on_a_grid_with_what_is_missing(
    seed, depth, has_missing, confident
):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(60, 3)).astype(float)
    if has_missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    directions = rng.integers(-1, 2, 3)
    duals = rng.normal(size=(60, 1)) + np.nan_to_num(X[:, :1]) - 2
    options = {"directions": directions.tolist(), "confident": confident}
    family = TreeFamily(X, (-1.0, 1.0), depth=depth, **options)
    (candidate,) = family.price(duals, 1)
    if not confident:
        (refined,) = family.refine(candidate.learner, duals)
        assert refined == candidate
    assert family.responses([candidate.learner])[0] @ duals[:, 0] == pytest.approx(candidate.edge)
    values = [*range(5), np.nan] if has_missing else range(5)
    grid = np.array(list(product(values, repeat=3)))
    answers = family.table([candidate.learner]).responses(grid)[0].reshape([len(values)] * 3)
    for f, direction in enumerate(directions):
        known = np.moveaxis(answers, f, 0)[:5]
        assert (direction * np.diff(known, axis=0) >= 0).all()


def test_a_split_of_what_is_missing_is_free():
    """The answer is high where the feature is missing or large, whatever the direction."""
    X = np.array([[0.0], [1.0], [np.nan], [np.nan]])
    for direction in (1, -1):
        family = TreeFamily(X, (-1.0, 1.0), depth=2, directions=[direction])
        for of_missing in (1.0, -1.0):
            duals = np.array([[-direction], [direction], [of_missing], [of_missing]], float)
            (candidate,) = family.price(duals, 1)
            assert candidate.edge == pytest.approx(4.0)
