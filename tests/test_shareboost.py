"""ShareBoost: gradient against differences, pricing against enumeration, Theorem 2's bound, the face."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from sklearn.datasets import load_digits, load_iris
from sklearn.utils.estimator_checks import check_estimator

from structboost import Logistic, MulticlassTask, ShareBoostClassifier, StructBoost
from structboost.masters.logistic import LogisticMaster
from structboost.weak.feature import FeatureFamily
from structboost.weak.free_sign import FreeSign
from structboost.weak.stump import StumpFamily


def random_master(C, regulariser, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 15)
    master = LogisticMaster(MulticlassTask(3).codes(y), "x", np.full(15, 1 / 15), C, Logistic(regulariser))
    responses = rng.normal(size=(4, 15)).astype(np.float32)
    master.add_responses("x", responses)
    learners, channels = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    master.add_columns({"x": (np.arange(12), learners, channels, np.ones(12))}, 12)
    return master, responses, y


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["frobenius", "l1", "l1_linf"]), st.sampled_from([1.0, 100.0, float("inf")]), st.integers(0, 99))
def test_gradient_against_differences(regulariser, C, seed):
    master, _, _ = random_master(C, regulariser, seed)
    at = np.random.default_rng(seed).normal(size=12)
    # Products are in single precision.
    error = check_grad(
        lambda w: master.value_and_gradient(w)[0], lambda w: master.value_and_gradient(w)[1], at, epsilon=1e-2
    )
    assert error < 0.05 * max(1.0, np.linalg.norm(master.value_and_gradient(at)[1]))


def test_loss_is_that_of_the_paper():
    """(3) with the margin inside, example by example."""
    master, responses, y = random_master(float("inf"), "frobenius")
    w = np.random.default_rng(1).normal(size=12)
    scores = responses.T @ w.reshape(4, 3)
    plain = [np.log(sum(np.exp((c != y[i]) - s[y[i]] + s[c]) for c in range(3))) for i, s in enumerate(scores)]
    assert master.value_and_gradient(w)[0] == pytest.approx(np.mean(plain), rel=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999))
def test_shared_pricing_equals_enumeration(seed):
    """The largest l1 norm (7) over all stumps and constants, and over all features."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(12, 3)).astype(float)
    duals = rng.normal(size=(12, 4))
    family = StumpFamily(X, (-1.0, 1.0))
    stumps = [np.ones(12)] + [np.where(X[:, f] <= t, -1.0, 1.0) for f in range(3) for t in np.unique(X[:, f])]
    best = max(np.abs(h @ duals).sum() for h in stumps)
    learner, edges = family.price_shared(duals, 1)[0]
    assert np.abs(edges).sum() == pytest.approx(best)
    np.testing.assert_allclose(family.responses([learner])[0] @ duals, edges, atol=1e-9)
    linear = FeatureFamily(X)
    learner, edges = linear.price_shared(duals, 1)[0]
    assert np.abs(edges).sum() == pytest.approx(
        np.abs(linear.responses(range_of(linear)) @ duals).sum(axis=1).max(), rel=1e-5
    )


def range_of(family):
    return [family._learner(f) for f in range(family.n_features + 1)]


def test_theorem_2_bound_on_the_greedy_gap():
    """With t rounds, L(W_t) - L(W*) <= (4 |W*|_{inf,1})^2 / (2t)... for any sparse W*: checked on a planted one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 30))
    planted = np.zeros((30, 3))
    planted[[3, 11, 20]] = rng.normal(size=(3, 3)) * 3
    y = (X @ planted).argmax(axis=1)
    trainer = StructBoost(
        MulticlassTask(3), C=float("inf"), tol=0.0, max_rounds=12, weak_learner="feature",
        formulation=Logistic(gradient_tolerance=1e-6), pricing=FreeSign(), columns_per_channel=1,
    ).fit(X, y)  # fmt: skip
    family = FeatureFamily(X)
    responses = family.responses(range_of(family))
    scale = family._scales
    master = LogisticMaster(MulticlassTask(3).codes(y), "x", np.full(400, 1 / 400), float("inf"), Logistic())
    master.add_responses("x", responses)
    learners, channels = np.repeat(np.arange(31), 3), np.tile(np.arange(3), 31)
    master.add_columns({"x": (np.arange(93), learners, channels, np.ones(93))}, 93)
    reference = np.vstack((planted * scale[:, None], (family._centers @ planted)[None]))
    loss = master.value_and_gradient(reference.ravel())[0]
    norm = np.abs(reference).max(axis=1).sum()
    for record in trainer.history_:
        assert record["primal"] - loss <= 4 * norm**2 / record["round"] + 1e-6
    found = {int(f) for f in trainer.model_.members["x"].learners.feature}
    assert {3, 11, 20} <= found


def test_the_path_of_one_run(tmp_path):
    X, y = load_digits(return_X_y=True)
    model = ShareBoostClassifier(max_rounds=30).fit(X[::2], y[::2])
    errors = [np.mean(labels != y[1::2]) for labels in model.staged_predict(X[1::2])]
    assert errors[29] < 0.08 < errors[4]
    used = [np.unique(model.model_.at_stage(s).matrix().any(axis=1), return_counts=True)[1][-1] for s in (4, 14, 29)]
    assert used == [5, 15, 30]
    primals = [record["primal"] for record in model.history_]
    assert all(b <= a + 1e-9 for a, b in pairwise(primals))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(ShareBoostClassifier.load(tmp_path / "model").predict(X), model.predict(X))
    with pytest.raises(TypeError, match="Only stumps compile"):
        model.model_.compile()


@pytest.mark.parametrize("regulariser", ["l1", "l1_linf"])
def test_regularisers_shrink(regulariser):
    X, y = load_iris(return_X_y=True)
    sizes = [
        np.abs(ShareBoostClassifier(C=C, regulariser=regulariser, max_rounds=4).fit(X, y).model_.matrix()).sum()
        for C in (10.0, 1e4)
    ]
    assert sizes[0] < 0.7 * sizes[1]


def test_bad_input_is_named():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="regulariser is 'l3'"):
        ShareBoostClassifier(regulariser="l3").fit(X, y)
    with pytest.raises(ValueError, match="gradient_tolerance is 0"):
        ShareBoostClassifier(gradient_tolerance=0).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("weak_learner", ["feature", "stump"])
def test_the_whole_scikit_learn_battery(weak_learner):
    results = check_estimator(ShareBoostClassifier(max_rounds=10, weak_learner=weak_learner), on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed
    assert sum(r["status"] == "passed" for r in results) >= 62
