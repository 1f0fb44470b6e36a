"""The exponential master: plain definitions, two solvers, and the estimators of MultiBoost."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp
from sklearn.datasets import load_iris

from structboost import (
    MultiBoostClassifier,
    MultiBoostCWClassifier,
    MulticlassTask,
    RankingTask,
    StructBoost,
)
from structboost.errors import EmptyModelWarning
from structboost.learners.terms import Terms
from structboost.objectives import Exponential
from structboost.objectives.exponential import LARGEST_WEIGHT, ExponentialMaster, closed_form
from tests.helpers.problems import all_stumps, class_margins, problem_of
from tests.helpers.refusals import refused

INFINITE = float("inf")


def made(n=60, n_classes=3, seed=0):
    """A table that is learnt well but not perfectly, and its labels."""
    rng = default_rng(seed)
    y = np.arange(n) % n_classes
    X = np.round(rng.normal(size=(n, 4)) + y[:, None] * rng.normal(size=(n_classes, 4))[y] * 0.3, 1)
    return X, y


def start(y, C, formulation, responses, channels):
    """A master with a column for each response and its channel, and its margins pair by pair.

    Margins are delta h_i(y) of (7), which a unit of a column's weight adds.
    """
    n, n_classes = len(channels), max(y) + 1
    master = ExponentialMaster(problem_of(MulticlassTask(n_classes), y), C, formulation)
    columns = np.arange(n)
    first = master.add_responses("x", responses.astype(np.int8))
    master.add_columns({"x": Terms(columns, first + columns, channels, np.ones(n))}, n)
    margins, _ = class_margins(responses, y, n_classes)
    return master, margins[:, channels * n + columns]


def optimum(margins, C, *starts):
    """The least objective by another solver, which begins at each of ``starts``."""

    def scaled(w):
        pairs = np.exp(-margins @ np.clip(w, 0, 30)) / len(margins)
        return w.sum() / C + pairs.sum(), 1 / C - pairs @ margins

    options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 100_000, "maxfun": 200_000}
    bounds = [(0, None)] * margins.shape[1]
    return C * min(
        minimize(scaled, w, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun
        for w in starts
    )


@settings(max_examples=100)
@given(
    st.floats(0.0, 5.0), st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.floats(1e-3, 1e5),
)  # fmt: skip
def test_closed_form_minimises_one_weight(weight, positive, negative, C):
    """(12), whatever the current weight: the sums (21) are taken at it."""
    new = closed_form(weight, positive, negative, 0.5 / C, INFINITE)

    def objective(w):
        change = np.clip(w - weight, -300, 300)
        return w + C * (positive * np.exp(-change) + negative * np.exp(change))

    best = minimize_scalar(
        objective, bounds=(0.0, weight + 20.0), method="bounded", options={"xatol": 1e-10}
    )
    assert objective(new) <= best.fun * (1 + 1e-9) + 1e-9
    assert new >= 0


def test_closed_form_without_errors():
    """V- = 0: log(C V+ / p) with C finite, the documented largest weight with C infinite."""
    assert closed_form(0.0, 0.3, 0.0, 0.5 / 1e4, INFINITE) == pytest.approx(np.log(1e4 * 0.3))
    assert closed_form(0.0, 0.3, 0.0, 0.0, LARGEST_WEIGHT) == LARGEST_WEIGHT
    assert closed_form(0.0, 0.3, 0.1, 0.0, LARGEST_WEIGHT) == pytest.approx(0.5 * np.log(3.0))
    assert closed_form(0.7, 0.0, 0.1, 0.0, LARGEST_WEIGHT) == 0.0


@pytest.mark.slow
@given(st.integers(0, 1000), st.sampled_from([3.0, 50.0, 1e4]))
def test_both_solvers_reach_an_independent_optimum(seed, C):
    rng = default_rng(seed)
    y, responses = rng.integers(0, 3, 25), rng.choice([-1, 1], size=(12, 25))
    y[0], channels = 2, rng.integers(0, 3, 12)
    masters = []
    for solver in ("fcd", "lbfgs"):
        formulation = Exponential(solver, 100_000, 1e-6)
        master, margins = start(y, C, formulation, responses, channels)
        master.solve(0.0, np.arange(12))
        objective = master.weights.sum() + C * np.exp(-margins @ master.weights).mean()
        assert master.primal == pytest.approx(objective, rel=1e-9)
        masters.append(master)
    best = optimum(margins, C, np.full(12, 0.1), master.weights)
    assert [master.primal for master in masters] == pytest.approx([best] * 2, rel=1e-6)
    # KKT conditions (14) hold where coordinate descent stopped (two columns that are nearly one
    # take it many sweeps).
    assert masters[0].violations().max() <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("C", [INFINITE, 1e200])
def test_updates_are_right_where_pair_weights_are_below_all_doubles(C):
    """Columns with one error each on separable data: margins grow until pair weights underflow."""
    n = 30
    y, channels = np.arange(n) % 3, np.arange(n) % 3
    responses = np.where((y == channels[:, None]) ^ np.eye(n, dtype=bool), 1, -1)
    master, margins = start(y, C, Exponential("fcd", 1), responses, channels)
    log_rho = -np.log(len(margins))
    half_price = -np.inf if np.isinf(C) else np.log(0.5 / C)
    smallest = []
    for step in range(12 * n):
        column = step * 7 % n
        logs = log_rho - margins @ master.weights
        plus, minus = (logsumexp(logs[margins[:, column] == sign]) for sign in (1, -1))
        below = np.logaddexp(0.5 * np.logaddexp(plus + minus, 2 * half_price), half_price)
        expected = np.clip(
            master.weights[column] + plus - below, 0.0, LARGEST_WEIGHT if np.isinf(C) else np.inf
        )
        master.solve(0.0, np.array([column]))
        assert master.weights[column] == pytest.approx(expected, rel=1e-6, abs=1e-6)
        logs = log_rho - margins @ master.weights
        assert master.risk == pytest.approx(np.exp(logsumexp(logs)), rel=1e-6)
        smallest.append(-logs.max())
    assert max(smallest) > 400


def test_infinite_C_caps_weights_alike():
    """A column without errors gets the largest weight by either solver, and nothing overflows."""
    y, responses = np.array([0, 0, 1, 1]), np.array([[1, 1, -1, -1]])
    for solver in ("fcd", "lbfgs"):
        formulation = Exponential(solver, 5, 1e-12)
        master, _ = start(y, INFINITE, formulation, responses, np.array([0]))
        master.solve(0.0, np.array([0]))
        assert master.weights[0] == LARGEST_WEIGHT
        assert master.bound(1.0) is None


@pytest.mark.slow
@pytest.mark.parametrize("C", [10.0, 1000.0])
def test_bound_is_below_the_optimum_over_all_stumps(C):
    """Every stump in one program, solved without our code, lies between bound and primal."""
    X, y = made()
    trainer = StructBoost(
        MulticlassTask(3), C=C, tol=0.0, max_rounds=200,
        formulation=Exponential(tau_max=20, epsilon=1e-8), columns_per_channel=1,
    ).fit(X, y)  # fmt: skip
    margins, _ = class_margins(all_stumps(X), y)
    best = optimum(margins, C, np.zeros(margins.shape[1]))
    assert max(r["bound"] for r in trainer.history_) <= best * (1 + 1e-9)
    assert trainer.objective_ == pytest.approx(best, rel=1e-4)
    assert trainer.history_[-1]["gap"] < 2e-3
    assert all(r["certified"] for r in trainer.history_)
    primals = [r["primal"] for r in trainer.history_]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(primals))


def test_stage_wise_is_the_printed_update():
    """CW-1 round by round: best stump of each class for the same weights, then (13) by class."""
    X, y = made(40)
    model = MultiBoostCWClassifier(C=INFINITE, tau_max=1, max_rounds=6).fit(X, y)
    mu, stumps = np.ones((40, 3)), all_stumps(X)
    mu[np.arange(40), y] = 0.0
    scores = np.zeros((40, 3))
    for stage in range(6):
        duals = -mu
        duals[np.arange(40), y] = mu.sum(axis=1)
        chosen = [stumps[np.argmax(stumps @ duals[:, c])] for c in range(3)]
        for c, h in enumerate(chosen):
            signed = h[:, None] * ((y == c)[:, None].astype(float) - (np.arange(3) == c)[None, :])
            signed[np.arange(40), y] = 0.0
            w = 0.5 * np.log(mu[signed > 0].sum() / mu[signed < 0].sum())
            scores[:, c] += w * h
            mu *= np.exp(-w * signed)
        np.testing.assert_allclose(
            model.model_.at_stage(stage).scores(X), scores, rtol=1e-9, atol=1e-9
        )
    assert model.objective_ == pytest.approx(mu.sum() / (2 * 40))


@pytest.mark.parametrize(
    "estimator",
    [
        MultiBoostCWClassifier(C=100, max_rounds=20),
        MultiBoostCWClassifier(C=100, max_rounds=20, solver="lbfgs"),
        MultiBoostClassifier(C=100, max_rounds=20, solver="lbfgs"),
        MultiBoostClassifier(C=100, max_rounds=20),
        MultiBoostClassifier(C=100, max_rounds=20, loss="hinge"),
    ],
)
def test_objective_is_that_of_the_model(estimator):
    X, y = load_iris(return_X_y=True)
    weights = default_rng(0).integers(1, 4, len(y)).astype(float)
    estimator.fit(X, y, sample_weight=weights)
    scores = estimator.decision_function(X)
    if getattr(estimator, "loss", "exponential") == "exponential":
        losses = np.exp(scores - scores[np.arange(len(y)), y][:, None]).sum(axis=1) - 1.0
        objective = estimator.model_.weights.sum() + 50.0 * np.average(losses, weights=weights)
        assert objective == pytest.approx(estimator.objective_, rel=1e-9)
    assert estimator.score(X, y) > 0.95


@pytest.mark.parametrize("solver", ["fcd", "lbfgs"])
def test_an_empty_model_is_certified_and_says_which_C_is_large_enough(solver):
    X, y = made()
    trainer = StructBoost(MulticlassTask(3), C=0.5, formulation=Exponential(solver=solver))
    with pytest.warns(EmptyModelWarning, match="take one well above"):
        trainer.fit(X, y)
    assert not trainer.model_.weights.any()
    assert trainer.objective_ == pytest.approx(0.5)
    assert trainer.history_[-1]["certified"]


def test_bad_input_is_named():
    X, y = made()
    refused("C is inf", MultiBoostClassifier(C=INFINITE, loss="hinge").fit, X, y)
    refused(
        r"RankingTask has no codes",
        StructBoost(RankingTask(), C=1.0, formulation=Exponential()).fit,
        [X],
        [y],
    )
