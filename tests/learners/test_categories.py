"""Sets of categories: searched exactly by stumps, along the best order by trees, and kept."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from structboost.errors import TaskError
from structboost.learners.binning import flags_of
from structboost.learners.stump import CategoryFamily
from structboost.learners.tree import TreeFamily
from structboost.learners.tree_growth import fill_leaf_indices


def table(seed, n, n_categories):
    """A feature of categories with some missing, a number, and another of categories."""
    rng = default_rng(seed)
    X = rng.integers(0, n_categories, size=(n, 3)).astype(float)
    X[:, 1] = np.round(rng.normal(size=n), 2)
    X[rng.random(n) < 0.15, 0] = np.nan
    return X


def grown(X, y, **options):
    """The tree of one split for labels, and the side of each row."""
    family = TreeFamily(X, (-1.0, 1.0), depth=1, **options)
    tree = family.price(y[:, None], 1)[0].learner
    return tree, family.leaf_indices(tree)


def all_sets(column):
    """Membership of the rows in every set of the values that occur, what is missing being one."""
    _, codes = np.unique(column, return_inverse=True)
    for members in product([False, True], repeat=codes.max() + 1):
        yield np.array(members)[codes]


@given(st.integers(0, 9999), st.integers(12, 60), st.integers(2, 5))
def test_a_split_by_a_set_has_the_least_impurity_of_all_sets(seed, n, n_categories):
    """Without smoothing to speak of, the best run of the order is the best set (Breiman, 4.2.2)."""
    X = table(seed, n, n_categories)[:, :1]
    y = default_rng(seed + 1).choice([-1.0, 1.0], size=n)
    # Weights of many rows: the smoothing is by ten rows of average weight.
    X, y = np.repeat(X, 400, axis=0), np.repeat(y, 400)
    sides = grown(X, y, categorical=(0,))[1]

    def impurity(inside):
        return sum(
            (y[side] > 0).sum() * (y[side] < 0).sum() / max(1, side.sum())
            for side in (inside, ~inside)
        )

    best = min(impurity(inside) for inside in all_sets(X[:, 0]))
    assert impurity(sides == 0) == pytest.approx(best, rel=1e-9)


@settings(max_examples=150)
@given(st.integers(0, 9999), st.integers(3, 40), st.sampled_from([0.0, 0.7, 1.0, 3.0]))
def test_a_set_must_gain_a_mean_row_weight_for_each_category_from_the_third_on(seed, k, price):
    """The feature that a node splits is that of the larger gain, less the price of its set."""
    rng = default_rng(seed)
    X = np.column_stack((np.arange(60) % k, rng.integers(0, 2, 60))).astype(float)
    y = rng.choice([-1.0, 1.0], size=60)

    def gain(column, categorical):
        sides = grown(X[:, [column]], y, categorical=categorical, category_penalty=0.0)[1]
        parts = [y[sides == side] for side in np.unique(sides)]
        return sum(part.sum() ** 2 / len(part) for part in parts) - y.sum() ** 2 / len(y)

    tree = grown(X, y, categorical=(0,), category_penalty=price)[0]
    of_set, of_number = gain(0, (0,)), gain(1, ())
    difference = of_set - price * (k - 2) - of_number
    if abs(difference) > 0.01 and of_number > 0.01:
        assert (tree.features[0] == 0) == (difference > 0)


@pytest.mark.parametrize("family", [CategoryFamily, partial(TreeFamily, depth=3)])
def test_what_is_no_category_of_training_counts_as_missing(family):
    X = table(0, 500, 200)
    made = family(X, (-1.0, 1.0), categorical=(0, 2))
    duals = default_rng(1).normal(size=(len(X), 3))
    of_table = made.table([c.learner for c in made.price(duals, 2)])
    strange, missing = X.copy(), X.copy()
    strange[:, 0], missing[:, 0] = 250.0, np.nan
    np.testing.assert_array_equal(of_table.responses(strange), of_table.responses(missing))


@pytest.mark.parametrize("depth", [1, 3, 5, 7, 8])
@pytest.mark.parametrize("with_sets", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_leaves_of_rows_are_those_of_a_walk(depth, with_sets, kind):
    rng = default_rng(depth)
    n_nodes, n_rows = 2**depth - 1, 2500
    codes = rng.integers(0, 200, (4, n_rows)).astype(kind)
    features, bins = rng.integers(0, 4, (2, n_nodes)), rng.integers(-1, 199, (2, n_nodes))
    words = rng.integers(0, 2**63, (2, n_nodes, 4)).astype(np.uint64)
    if with_sets:
        bins[rng.random((2, n_nodes)) < 0.4] = -2
    found = np.empty((2, n_rows), np.int16)
    fill_leaf_indices(codes, features, bins, words if with_sets else None, found)
    inside = flags_of(words)
    for tree in range(2):
        nodes = np.zeros(n_rows, np.int64)
        for _ in range(depth):
            bin_ = bins[tree, nodes]
            code = codes[features[tree, nodes], np.arange(n_rows)].astype(np.int64)
            is_right = np.where(bin_ == -2, ~inside[tree, nodes, code], (bin_ >= 0) & (code > bin_))
            nodes = 2 * nodes + 1 + is_right
        np.testing.assert_array_equal(found[tree], nodes - n_nodes)


@pytest.mark.parametrize("bad", [-1.0, 0.5, 255.0])
def test_numbers_that_are_no_categories_are_named(bad):
    X = table(0, 30, 3)
    X[3, 2] = bad
    with pytest.raises(TaskError, match="Feature 2 is categorical and holds values such as"):
        TreeFamily(X, (-1.0, 1.0), categorical=(2,))
