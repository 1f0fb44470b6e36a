"""Trees whose answers rise or fall with features: against all leaves, and on a grid of rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_answers_keep_the_directions_on_a_grid_with_what_is_missing(seed, depth, has_missing):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(60, 3)).astype(float)
    if has_missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    directions = rng.integers(-1, 2, 3)
    duals = rng.normal(size=(60, 1)) + np.nan_to_num(X[:, :1]) - 2
    family = TreeFamily(X, (-1.0, 1.0), depth=depth, directions=directions.tolist())
    (candidate,) = family.price(duals, 1)
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
