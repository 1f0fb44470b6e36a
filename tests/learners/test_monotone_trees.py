"""Trees whose answers rise or fall with features: against all leaves, and on a grid of rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from structboost.learners.binning import BY_SET, N_WORDS
from structboost.learners.tree import Tree, TreeFamily
from tests.helpers.listed_trees import comparable

GRID = np.array(list(product(range(4), repeat=2)), float)


def drawn(seed, depth, **options):
    """Tree of any splits, its leaf at each point of the grid, and which leaves are above which."""
    rng = np.random.default_rng(seed)
    directions = rng.integers(-1, 2, 2)
    family = TreeFamily(GRID, (-1.0, 1.0), depth=depth, directions=directions, **options)
    n_nodes = 2**depth - 1
    features, bins = rng.integers(2, size=n_nodes), rng.integers(-1, 3, size=n_nodes)
    tree = Tree(
        tuple(features.tolist()), (np.inf,) * n_nodes, (1.0,) * (n_nodes + 1), tuple(bins.tolist())
    )
    at = family.leaf_indices(tree)
    return rng, family, tree, at, at[comparable(GRID, directions)].T


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_leaves_are_the_best_of_all_that_keep_the_directions(seed, depth):
    rng, family, tree, at, (low, high) = drawn(seed, depth)
    duals = rng.normal(size=(16, 1))
    (found,) = family.refine(tree, duals)
    every = np.array(list(product((-1, 1), repeat=2**depth)))
    every = every[(every[:, low] <= every[:, high]).all(axis=1)]
    assert found.edge == pytest.approx((every[:, at] @ duals).max())
    leaves = np.array(found.learner.leaves)
    assert (leaves[low] <= leaves[high]).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_confident_leaves_are_the_nearest_that_keep_the_directions(seed, depth):
    rng, family, tree, at, (low, high) = drawn(seed, depth, confident=True)
    wished, masses = rng.normal(size=2**depth), rng.uniform(0.1, 2.0, 2**depth)
    nodes = np.array([tree.features]), np.array([tree.bins]), None
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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans(), st.booleans())
def test_answers_keep_the_directions_on_a_grid_with_what_is_missing_and_categories(
    seed, depth, has_missing, has_categories, confident
):
    rng = np.random.default_rng(seed)
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


# Bins of a feature: four values, one behind all, and what is missing.
BINS = (0, 1, 2, 3, 99, None)


def leaf_of(point, columns, of_columns, bins, sets):
    """Leaf that a point of bins reaches, by walking down."""
    node = 0
    while node < len(bins):
        column, bin_ = columns[node], bins[node]
        value = point[of_columns.feature[column]]
        if bin_ == BY_SET:
            goes_left = value is not None and value < 64 and int(sets[node, 0]) >> value & 1
        else:
            goes_left = bin_ < 0 or (of_columns.is_low[column] if value is None else value <= bin_)
        node = 2 * node + (1 if goes_left else 2)
    return node - len(bins)


def may_follow(first, second, direction):
    """Whether the second bin of a feature is not before the first."""
    if first == second or None in (first, second) or 99 in (first, second):
        return first == second
    return direction * (second - first) > 0


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_leaves_are_compared_where_a_point_of_one_is_above_one_of_the_other(seed, depth):
    rng = np.random.default_rng(seed)
    X = np.array(list(product((0, 1, 2, 3, np.nan), repeat=3)))
    directions = np.append(rng.integers(-1, 2, 2), 0)
    family = TreeFamily(X, (-1.0, 1.0), depth=depth, categorical=[2], directions=directions)
    of_columns, n_nodes = family.binned.bins, 2**depth - 1
    columns = rng.integers(family.binned.n_columns, size=n_nodes)
    is_category = of_columns.feature[columns] == 2
    sets = np.zeros((n_nodes, N_WORDS), np.uint64)
    sets[:, 0] = rng.integers(1, 16, n_nodes)
    n_splits = of_columns.n_bins[columns] - 1
    bins = np.where(is_category, BY_SET, rng.integers(-1, n_splits))

    (pairs,) = family._directions._pairs((columns[None], bins[None], sets[None]))
    found = {tuple(pair) for pair in pairs}
    points = list(product(BINS, repeat=3))
    leaves = [leaf_of(point, columns, of_columns, bins, sets) for point in points]
    expected = {
        (i, j)
        for (p, i), (q, j) in product(zip(points, leaves, strict=True), repeat=2)
        if i != j and all(map(may_follow, p, q, directions))
    }
    reached = set(leaves)
    assert {(i, j) for i, j in found if {i, j} <= reached} == expected
