"""Trees whose answers rise or fall with features: against all leaves, and on a grid of rows."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import minimize

from structboost.learners.binning import BY_SET
from structboost.learners.tree import Tree, TreeFamily
from tests.helpers.listed_trees import comparable

GRID = np.array(list(product(range(4), repeat=3)), float)


def drawn(seed, depth, **options):
    """Tree of any splits, its leaf at each point of the grid, and which leaves are above which."""
    rng = default_rng(seed)
    directions = [*rng.integers(-1, 2, 2), 0]
    family = TreeFamily(
        GRID, (-1.0, 1.0), depth=depth, directions=directions, categorical=[2], **options
    )
    n_nodes = 2**depth - 1
    features = rng.integers(3, size=n_nodes)
    bins = np.where(features == 2, BY_SET, rng.integers(-1, 3, n_nodes))
    # The last category is in no set, as what training does not know.
    columns = features, bins + np.inf, np.ones(n_nodes + 1), bins
    sets = rng.integers(1, 8, n_nodes) * (bins == BY_SET)
    tree = Tree(*(tuple(column.tolist()) for column in (*columns, sets)))
    at = family.leaf_indices(tree)
    return rng, family, tree, at, at[comparable(GRID, directions)].T


seeds_and_depths = given(st.integers(0, 10**6), st.integers(1, 3))


@settings(max_examples=40)
@seeds_and_depths
def test_leaves_are_the_best_of_all_that_keep_the_directions(seed, depth):
    rng, family, tree, at, (low, high) = drawn(seed, depth)
    duals = rng.normal(size=(64, 1))
    (found,) = family.refine(tree, duals)
    every = np.array(list(product((-1, 1), repeat=2**depth)))
    every = every[(every[:, low] <= every[:, high]).all(axis=1)]
    assert found.edge == pytest.approx((every[:, at] @ duals).max())
    leaves = np.array(found.learner.leaves)
    assert (leaves[low] <= leaves[high]).all()


@seeds_and_depths
def test_confident_leaves_are_the_nearest_that_keep_the_directions(seed, depth):
    rng, family, tree, at, (low, high) = drawn(seed, depth, confident=True)
    wished, masses = rng.normal(size=2**depth), rng.uniform(0.1, 2.0, 2**depth)
    nodes = family._nodes([tree])
    (found,) = family._directions.nearest_leaves(nodes, wished[None], masses[None])
    assert (found[low] <= found[high] + 1e-9).all()
    reached = np.unique(at)
    nearest = minimize(
        lambda v: masses[reached] @ (v[reached] - wished[reached]) ** 2,
        np.zeros(2**depth),
        constraints=[
            {"type": "ineq", "fun": lambda v, i=i, j=j: v[j] - v[i]}
            for i, j in set(zip(low.tolist(), high.tolist(), strict=True))
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    np.testing.assert_allclose(found[reached], nearest.x[reached], atol=1e-4)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans(), st.booleans())
@example(30, 4, True, False, True)  # what is missing goes to the left beside a direction
def test_answers_keep_the_directions_on_a_grid_with_what_is_missing_and_categories(
    seed, depth, has_missing, has_categories, confident
):
    rng = default_rng(seed)
    X = rng.integers(0, 5, size=(60, 3)).astype(float)
    if has_missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    directions = rng.integers(-1, 2, 3)
    directions[2] *= not has_categories
    duals = rng.normal(size=(60, 1)) + np.nan_to_num(X[:, :1]) - 2
    options = {"directions": directions.tolist(), "confident": confident}
    options["categorical"] = [2] if has_categories else []
    family = TreeFamily(X, (-1.0, 1.0), depth=depth, **options)
    (candidate,) = family.price(duals, 1)
    if not confident:
        assert family.refine(candidate.learner, duals) == [candidate]
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
