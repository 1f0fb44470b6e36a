"""ShareBoost: gradient against differences, pricing against enumeration, Theorem 2's bound, the
face."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from sklearn.datasets import load_digits

from structboost import MulticlassTask, ShareBoostClassifier, SparsityPathDisplay, StructBoost
from structboost.learners.feature import FeatureFamily
from structboost.learners.patch import PatchFamily, Pooling
from structboost.learners.pricing import FreeSign
from structboost.learners.stump import StumpFamily
from structboost.learners.terms import Terms
from structboost.objectives import Logistic
from structboost.objectives.logistic import LogisticMaster
from tests.helpers.problems import all_stumps, problem_of


def add_to(master, responses):
    """Give each response a column on each of three classes."""
    first = master.add_responses("x", responses)
    learners = np.repeat(first + np.arange(len(responses)), 3)
    n = len(learners)
    columns = len(master.weights) + np.arange(n)
    master.add_columns({"x": Terms(columns, learners, np.arange(n) % 3, np.ones(n))}, n)


def random_master(C, seed=0):
    rng = default_rng(seed)
    y = rng.integers(0, 3, 15)
    master = LogisticMaster(problem_of(MulticlassTask(3), y), C, Logistic())
    responses = rng.normal(size=(4, 15)).astype(np.float32)
    add_to(master, responses)
    return master, responses, y


@given(st.sampled_from([1.0, 100.0, float("inf")]), st.integers(0, 99))
def test_gradient_equals_finite_differences(C, seed):
    master, _, _ = random_master(C, seed)
    at = default_rng(seed).normal(size=12)
    # Products are in single precision.
    error = check_grad(
        lambda w: master.value_and_gradient(w)[0],
        lambda w: master.value_and_gradient(w)[1],
        at,
        epsilon=1e-2,
    )
    assert error < 0.03 * max(1.0, np.linalg.norm(master.value_and_gradient(at)[1]))


def test_loss_equals_that_of_the_paper():
    """(3) with the margin inside, example by example."""
    master, responses, y = random_master(7.0)
    w = default_rng(1).normal(size=(4, 3))
    plain = [
        np.log(sum(np.exp((c != y[i]) - s[y[i]] + s[c]) for c in range(3)))
        for i, s in enumerate(responses.T @ w)
    ]
    expected = np.mean(plain) + (w**2).sum() / 7.0
    assert master.value_and_gradient(w.ravel())[0] == pytest.approx(expected, rel=1e-5)


@given(st.integers(0, 999))
def test_shared_pricing_equals_enumeration(seed):
    """The largest l1 norm (7) over all stumps and constants, and over all features."""
    rng = default_rng(seed)
    X = rng.integers(0, 4, size=(12, 3)).astype(float)
    duals = rng.normal(size=(12, 4))
    family = StumpFamily(X, (-1.0, 1.0))
    best = np.abs(all_stumps(X) @ duals).sum(axis=1).max()
    ((learner, edges),) = family.price_groups(duals, 1)[0]
    assert np.abs(edges).sum() == pytest.approx(best)
    assert_allclose(family.responses([learner])[0] @ duals, edges, atol=1e-9)
    linear = FeatureFamily(X)
    ((learner, edges),) = linear.price_groups(duals, 1)[0]
    assert np.abs(edges).sum() == pytest.approx(
        np.abs(linear.responses(range_of(linear)) @ duals).sum(axis=1).max(), rel=1e-5
    )


def range_of(family):
    return [family._learner(f) for f in range(family.n_features + 1)]


def test_one_run_gives_the_models_of_the_whole_path():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = load_digits(return_X_y=True)
    model = ShareBoostClassifier(max_rounds=12).fit(X[::2], y[::2])
    errors = [np.mean(labels != y[1::2]) for labels in model.staged_predict(X[1::2])]
    assert errors[11] < 0.2 < errors[4]
    used = [model.model_.at_stage(s).matrix().any(axis=1).sum() for s in (4, 11)]
    assert used == [5, 12]
    # Compiled, the features are one linear function of each class.
    slow = model.model_.members["x"].learners.responses(X).T @ model.model_.matrix()
    assert_allclose(model.model_.compile().raw_scores(X), slow, atol=1e-10)
    display = SparsityPathDisplay.from_estimator(model, X[1::2], y[1::2], name="features")
    assert (np.diff(display.n_learners) >= 0).all()
    assert display.n_learners[-1] in (11, 12)
    assert_allclose(display.line_.get_ydata(), np.multiply(100, errors))
    assert_array_equal(display.line_.get_xdata(), display.n_learners)


def test_the_rule_takes_the_largest_gradient_of_what_it_has_not_taken():
    rng = default_rng(0)
    X = rng.normal(size=(80, 9))
    family, duals = FeatureFamily(X), rng.normal(size=(80, 3))
    best = family.price_groups(duals, 3)
    rule = FreeSign()
    for ((learner, edges),) in best[:2]:
        columns, largest = rule.columns(family, duals, 1, 0.0)
        assert largest == pytest.approx(np.abs(edges).sum())
        assert [c.terms[0].learner for c in columns] == [learner] * 3
    assert rule.columns(family, duals, 1, 1e9)[0] == []
    rule.restart()
    assert rule.columns(family, duals, 1, 0.0)[0][0].terms[0].learner == best[0][0][0]


def test_pooled_templates_equal_a_loop_over_windows():
    rng = default_rng(0)
    images = rng.integers(0, 256, size=(50, 9, 11)).astype(np.uint8)
    pooling = Pooling(9, 11, 3, 2, 1)
    templates = rng.normal(size=(4, 9)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(images.astype(float), (3, 3), axis=(1, 2))
    responses = np.einsum("irckl,tkl->tirc", windows, templates.reshape(4, 3, 3))
    rows, columns = pooling.spans()
    assert (rows, columns) == ([(0, 5), (3, 7)], [(0, 5), (3, 9)])
    found = pooling.responses(images.reshape(50, -1), templates)
    for cell, (down, across) in enumerate(product(rows, columns)):
        expected = responses[:, :, slice(*down), slice(*across)].max(axis=(2, 3))
        assert_allclose(found[:, cell], expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("n_priced", [15, 1000])
def test_templates_are_priced_on_the_images_of_the_largest_duals(n_priced):
    rng = default_rng(0)
    images = rng.integers(0, 256, size=(60, 36)).astype(np.uint8)
    duals = rng.normal(size=(60, 2)) * (rng.random((60, 1)) < 0.5)
    rows = np.argsort(-np.abs(duals).sum(axis=1))[:n_priced]
    family = PatchFamily(
        images, image_shape=(6, 6), side=3, grid=2, overlap=1, n_candidates=6, n_priced=n_priced
    )

    def priced(learners):
        return family.responses(learners)[:, rows].astype(float) @ duals[rows]

    found = family.price(duals, 4)
    assert [c.edge for c in found] == sorted((c.edge for c in found), reverse=True)
    expected = priced([c.learner for c in found])[range(8), [c.channel for c in found]]
    assert_allclose([c.edge for c in found], expected, rtol=1e-4)
    assert len({(c.learner, c.channel) for c in found}) == 8
    # Templates times cells, and the constant.
    groups = family.price_groups(duals, 25)
    norms = [sum(np.abs(e).sum() for _, e in group) for group in groups]
    assert norms == sorted(norms, reverse=True)
    learners, edges = zip(*(of for group in groups for of in group), strict=True)
    assert len(learners) == 25
    constant = np.array([not learner.template for learner in learners])
    expected = np.where(constant[:, None], duals.sum(axis=0), priced(learners))
    assert_allclose(edges, expected, rtol=1e-3, atol=1e-3)
    last = next(learner for learner in learners if learner.cell == 3)
    shares = family.table([last]).feature_shares(36)
    # The last cell begins a position before half of the four, and its templates end at the border.
    seen = np.pad(np.full((5, 5), 1 / 25), ((1, 0), (1, 0)))
    assert_allclose(shares, [seen.ravel()])


@pytest.mark.slow
def test_patches_learn_digits():
    X, y = load_digits(return_X_y=True)
    family = partial(PatchFamily, image_shape=(8, 8), side=3, grid=3, overlap=1, n_candidates=10)
    model = ShareBoostClassifier(max_rounds=10, weak_learner=family, C=1e3).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.95
    table = model.model_.members["x"].learners
    assert set(np.bincount(table.template[table.template >= 0])) == {9}
    assert_allclose(np.linalg.norm(table.templates, axis=1), 1.0, rtol=1e-5)


@pytest.mark.slow
def test_theorem_2_bound_on_the_greedy_gap():
    """After t rounds L(W_t) - L(W*) <= 4 |W*|_{inf,1}^2 / t for any W*, with the paper's constant.

    Of a planted W* and all its multiples the one that bounds most: a large one alone would bound
    nothing.
    """
    rng = default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 120))
    planted = np.zeros((120, 3))
    planted[[3, 11, 20]] = rng.normal(size=(3, 3)) * 3
    y = (X @ planted + rng.gumbel(size=(400, 3))).argmax(axis=1)
    trainer = StructBoost(
        MulticlassTask(3), C=float("inf"), tol=0.0, max_rounds=60, weak_learner="feature",
        formulation=Logistic(gradient_tolerance=1e-6), pricing=FreeSign(), columns_per_channel=1,
    ).fit(X, y)  # fmt: skip
    family = FeatureFamily(X)
    responses = family.responses(range_of(family))
    scale = family._scales
    master = LogisticMaster(problem_of(MulticlassTask(3), y), float("inf"), Logistic())
    master.add_responses("x", responses)
    learners, channels = np.repeat(np.arange(121), 3), np.tile(np.arange(3), 121)
    master.add_columns({"x": Terms(np.arange(363), learners, channels, np.ones(363))}, 363)
    reference = np.vstack((planted * scale[:, None], (family._centers @ planted)[None]))
    norm = np.abs(reference).max(axis=1).sum()
    shares = np.linspace(0.0, 1.0, 201)
    losses = np.array([master.value_and_gradient(share * reference.ravel())[0] for share in shares])
    bounds = [
        (losses + 4 * (shares * norm) ** 2 / record["round"]).min() for record in trainer.history_
    ]
    assert bounds[-1] < losses[0] - 0.02  # who does nothing fails
    assert all(
        r["primal"] <= bound + 1e-6 for r, bound in zip(trainer.history_, bounds, strict=True)
    )
    found = {int(f) for f in trainer.model_.members["x"].learners.feature}
    assert {3, 11, 20} <= found
