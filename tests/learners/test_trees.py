"""Trees: their growth against a plain search, and their compiled form against walking down."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from structboost import MulticlassTask, StructBoost
from structboost.learners.binning import flags_of
from structboost.learners.tree import TreeFamily
from structboost.learners.tree_table import TreeTable
from structboost.objectives import OneSlack
from structboost.runtime.blocks import BLOCK_ROWS
from tests.helpers.refusals import refused


def plain_tree(codes, n_bins, duals, depth, min_rows, ridge):
    """Features and bins of the nodes, and rows of nodes and leaves: every split tried on them."""

    def impurity(rows):
        size = np.abs(duals[rows]).sum()
        return size - duals[rows].sum() ** 2 / (size + ridge + 1e-300)

    n_nodes = 2**depth - 1
    features, bins = np.zeros(n_nodes, int), np.full(n_nodes, -1)
    rows_of = {0: np.flatnonzero(duals)}
    for node in range(n_nodes):
        rows = rows_of[node]
        best = impurity(rows)
        margin = 1e-9 * best + 1e-12
        for f, n in enumerate(n_bins):
            for b in range(n - 1):
                is_left = codes[f, rows] <= b
                sides = rows[is_left], rows[~is_left]
                value = sum(map(impurity, sides))
                if value < best - margin and min(map(len, sides)) >= min_rows:
                    best, features[node], bins[node] = value, f, b
        is_left = (bins[node] < 0) | (codes[features[node], rows] <= bins[node])
        rows_of[2 * node + 1], rows_of[2 * node + 2] = rows[is_left], rows[~is_left]
    return tuple(features.tolist()), tuple(bins.tolist()), rows_of


def check_growth(X, duals, depth, min_rows=1, l2=0.0, *, confident=False):
    """Compare trees with plain ones, by gains of ``s^2 / (w + l2)`` as boosting with hessians."""
    family = TreeFamily(
        X, (-1.0, 1.0), depth=depth, min_samples_leaf=min_rows, l2_regularization=l2,
        confident=confident,
    )  # fmt: skip
    found = family.price(duals, 1)
    assert sorted(c.channel for c in found) == list(range(duals.shape[1]))
    for tree, channel, edge in found:
        own = duals[:, channel]
        ridge = l2 * np.abs(own).sum() / len(np.unique(X, axis=0))
        features, bins, rows_of = plain_tree(
            family.binned.codes, family.binned.bins.n_bins, own, depth, min_rows, ridge
        )
        assert (tree.features, tree.bins) == (features, bins)
        # The answers are those of the rows' leaves.
        assert family.responses([tree])[0] @ own == pytest.approx(edge)
        if not confident:
            leaves = range(len(bins), 2 * len(bins) + 1)
            weights = np.array([own[rows_of[leaf]].sum() for leaf in leaves])
            assert edge == pytest.approx(np.abs(weights).sum())
            assert_array_equal(tree.leaves, np.where(weights > 1e-12, 1.0, -1.0))
    return family


@given(st.integers(0, 9999), st.integers(1, 4), st.integers(1, 3), st.floats(0.0, 0.9))
def test_every_split_is_the_best_one(seed, depth, n_channels, share_of_zeros):
    """Dense and sparse features, a constant one, rows without a dual."""
    rng = default_rng(seed)
    X = rng.integers(0, 9, size=(80, 4)).astype(float)
    X[rng.random(X.shape) < share_of_zeros] = 3.0
    X[:, 2] = 1.0
    duals = rng.normal(size=(80, n_channels)) * (rng.random((80, 1)) < 0.8)
    check_growth(X, duals, depth)


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 9999), st.sampled_from([0.03, 0.2]), st.booleans())
def test_sparse_columns_that_are_passed_over_have_no_better_split(seed, share, is_signal):
    """Many columns with few entries, between dense ones, with the common value at any place."""
    rng = default_rng(seed)
    X = rng.integers(-2, 3, size=(90, 80)) * (rng.random((90, 80)) < share).astype(float)
    X[:, [0, 40, 41]] = rng.integers(0, 9, size=(90, 3))
    X[:, 50:] = np.abs(X[:, 50:])
    duals = rng.normal(size=(90, 2)) + 2.0 * is_signal * np.sign(X[:, [60, 1]])
    check_growth(X, duals, 3)


def test_splits_are_the_best_over_several_blocks_of_rows():
    """The commonest bin differs from block to block, or is common in one of them only."""
    rng = default_rng(0)
    n = 2 * BLOCK_ROWS + 100
    in_second = np.arange(n) >= BLOCK_ROWS
    X = rng.integers(0, 5, size=(n, 4)).astype(float)
    common = rng.random(n) < 0.95
    X[common, 0] = 2.0
    X[common, 1] = np.where(in_second, 1.0, 3.0)[common]
    X[common & in_second, 2] = 0.0
    # Small children, which are counted from the sparse form and from the dense one.
    duals = rng.normal(size=(n, 2)) + 0.3 * (X[:, :2] == 4) - 0.2 * (X[:, 2:] == 1)
    check_growth(X, duals, 3)


@given(
    st.integers(0, 9999),
    st.integers(1, 5),
    st.sampled_from([np.float32, np.float64, np.uint8]),
    st.sampled_from([1, 5, 6, 64, 150]),
)
def test_the_compiled_form_adds_up_what_the_trees_answer(seed, depth, dtype, n_rows):
    """Thresholds at values of the rows and beside them, sets, nodes without a split, channels."""
    rng = default_rng(seed)
    n_nodes, n_trees = 2**depth - 1, 7
    X = (rng.integers(-99, 600, (n_rows, 4)) / 2).astype(dtype)
    threshold = rng.choice([0.0, 1e-9, -1e-9, 0.5, np.inf], (n_trees, n_nodes))
    threshold += rng.choice(X.ravel(), threshold.shape)
    leaf = rng.choice([-1.0, 1.0], (n_trees, n_nodes + 1))
    sets = rng.integers(0, 2**64, (n_trees, n_nodes, 4), np.uint64)
    sets[::2, ::2] = 0
    trees = TreeTable(rng.integers(0, 4, threshold.shape), threshold, leaf, sets=sets)
    weights = rng.integers(-3, 4, size=(n_trees, 3)) / 8.0
    plain = np.zeros((n_rows, 3))
    for p, row in enumerate(X):
        for t in range(n_trees):
            k = 0
            while k < n_nodes:
                value = float(row[trees.feature[t, k]])
                inside = flags_of(sets[t, k])[int(value) if value in range(255) else 255]
                k = 2 * k + 2 - (inside if sets[t, k].any() else value <= threshold[t, k])
            plain[p] += leaf[t, k - n_nodes] * weights[t]
    assert_array_equal(trees.scorer(weights, 4).raw_scores(X), plain)


def test_trees_grow_on_rows_drawn_anew_in_each_round():
    rng = default_rng(0)
    X, duals = rng.integers(0, 99, size=(400, 3)) * 1.0, rng.normal(size=(400, 2))

    def family(fraction=0.5, seed=0, rows=X):
        return TreeFamily(rows, (-1.0, 1.0), row_fraction=fraction, random_state=seed)

    drawn, resumed, varied, whole = family(), family(), TreeFamily(X, (-1, 1)), family(1.0, None)
    first = drawn.price(duals, 1)
    assert first == family().price(duals, 1) != family(seed=1).price(duals, 1)
    assert drawn.price(duals, 1) != first
    # Where a run that is resumed would stand.
    resumed.skip_rounds(2)
    assert resumed.price(duals, 1) == drawn.price(duals, 1) != first
    # About half of the rows count, and all get an answer.
    share = sum(c.edge for c in first) / sum(c.edge for c in whole.price(duals, 1))
    assert 0.9 < share < 1.4
    assert (np.abs(drawn.responses([first[0].learner])) == 1).all()
    # Rows in another order, each of them once or twice with half of its weight.
    rows = default_rng(1).permutation(np.append(np.arange(400), np.arange(100)))
    halved = duals[rows] / np.bincount(rows)[rows, None]
    found = family(rows=X[rows]).price(halved, 1)
    assert [c.learner for c in found] == [c.learner for c in first]
    # A master with a ridge asks for half of the rows where nothing was said.
    for learners in (varied, whole):
        learners.resample(None)
    assert varied.price(duals, 1) == first
    assert whole.price(duals, 1) == whole.price(duals, 1)
    can_resume = [f.can_resume for f in (drawn, varied, whole, family(seed=None))]
    assert can_resume == [True, True, True, False]


@pytest.mark.slow
def test_trees_share_the_weight_unless_told_otherwise():
    X, y = load_iris(return_X_y=True)

    def fitted(formulation, weak_learner="tree"):
        trainer = StructBoost(
            MulticlassTask(3), C=30.0, formulation=formulation, weak_learner=weak_learner,
            max_rounds=25,
        ).fit(X, y)  # fmt: skip
        return trainer.objective_, trainer.model_.weights @ trainer.model_.weights

    assert fitted("one_slack") == fitted(OneSlack(ridge=1.0))
    union = ["stump", "tree"]
    assert fitted("one_slack", union) == fitted(OneSlack(ridge=1.0), union)
    # Much of the weight on few trees, or little on many.
    assert fitted("one_slack")[1] < 0.5 * fitted(OneSlack(ridge=0))[1]
    refused("stabilize=True", fitted, OneSlack(stabilize=False, ridge=1))


@given(st.integers(0, 9999), st.integers(1, 25), st.sampled_from([0.0, 0.7, 20.0]), st.booleans())
def test_splits_are_the_best_that_leave_enough_rows(seed, min_rows, l2, has_zeros):
    """Leaves are shares of the weight of all rows, whichever the tree was grown on."""
    rng = default_rng(seed)
    X = rng.integers(0, 9, size=(120, 4)).astype(float)
    duals = rng.normal(size=(120, 2)) + 0.5 * (X[:, :2] > 4)
    if has_zeros:
        duals[rng.random(duals.shape) < 0.3] = 0.0
    family = check_growth(X, duals, 3, min_rows, l2, confident=True)
    drawn = TreeFamily(
        X, (-1, 1), depth=2, l2_regularization=l2, row_fraction=0.5, random_state=1, confident=True
    )
    for grown in (family, drawn):
        for tree, channel, edge in grown.price(duals, 1):
            d, at = duals[:, channel], grown.leaf_indices(tree)
            of_row = np.abs(d).sum() / len(np.unique(X, axis=0))
            for leaf, answer in enumerate(tree.leaves):
                own = d[at == leaf]
                mass = np.abs(own).sum() + (1 + l2) * of_row
                assert answer == pytest.approx(np.rint(127 * own.sum() / mass))
            answers = grown.responses([tree])[0]
            assert answers.dtype == np.int8
            assert_array_equal(grown.table([tree]).responses(X)[0], answers)
            assert edge == pytest.approx(answers @ d)
            assert grown.restored(tree) == tree


def test_sides_of_a_set_have_enough_rows():
    """Ten categories: the best set has four rows, the best of at least 15 has more."""
    at = np.arange(148)
    X = np.where(at < 4, 0.0, 1.0 + at % 9)[:, None]
    duals = np.where(at < 4, 30.0, (-1.0) ** (at // 9))[:, None]
    for min_rows, n_left in ((1, 4), (15, 20)):
        family = TreeFamily(X, (-1.0, 1.0), depth=1, categorical=(0,), min_samples_leaf=min_rows)
        sizes = np.bincount(family.leaf_indices(family.price(duals, 1)[0].learner))
        assert sizes.min() == n_left


def test_each_node_splits_one_of_the_features_drawn_for_it():
    rng = default_rng(0)
    X = rng.normal(size=(600, 6))
    X[rng.random(600) < 0.2, 0] = np.nan
    duals = rng.normal(size=(600, 1)) + 2.0 * np.sign(X[:, 5:])

    def family(max_features=0.5, row_fraction=0.5, **others):
        options = {"row_fraction": row_fraction, "random_state": 3, "max_features": max_features}
        return TreeFamily(X, (-1.0, 1.0), depth=4, **(options | others))

    drawn, same, resumed = family(), family(), family()
    rounds = [drawn.price(duals, 1) for _ in range(40)]
    assert rounds == [same.price(duals, 1) for _ in range(40)]
    assert rounds[0] != rounds[1]
    resumed.skip_rounds(39)
    assert resumed.price(duals, 1) == rounds[39]
    assert family(random_state=4).price(duals, 1) != rounds[0]
    # The feature that the answer depends on is at hand in half of the roots.
    roots = [found[0].learner.features[0] for found in rounds]
    assert 10 <= roots.count(drawn.binned.bins.n_columns - 1) <= 30
    # One feature of six: all of them come, and nodes of a tree differ.
    narrow = family(0.01)
    trees = [narrow.price(duals, 1)[0].learner for _ in range(30)]
    features = [narrow.binned.bins.feature[list(t.features)] for t in trees]
    assert set(np.concatenate(features)) == set(range(6))
    assert len(set(features[0])) > 1
    # All rows, and the features drawn.
    whole = family(row_fraction=1.0)
    assert whole.price(duals, 1) != whole.price(duals, 1)
    assert not family(row_fraction=1.0, random_state=None).can_resume
    assert family().identity != family(0.6).identity != family(0.6, random_state=4).identity


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_samples_leaf", 0), ("min_samples_leaf", 2.0), ("l2_regularization", -1),
        ("max_features", 0), ("max_features", 1.5), ("max_features", "sqrt"), ("row_fraction", 2),
        ("depth", 0),
    ],
)  # fmt: skip
def test_limits_out_of_range_are_refused(name, value):
    refused(rf"{name} is {value!r}", TreeFamily, np.eye(3), (-1.0, 1.0), **{name: value})
    refused("confident", TreeFamily, np.eye(3), (0, 1), confident=True)
