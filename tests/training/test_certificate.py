"""What a record claims: bounds only where they hold, the bound over all stumps, the smallest C."""

import contextlib

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.optimize import linprog
from sklearn.datasets import load_wine, make_classification

from structboost import (
    BinaryTask,
    BinnedTable,
    ConvergenceDisplay,
    MultiBoostCWClassifier,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
)
from structboost.errors import EmptyModelWarning
from structboost.learners import binning
from structboost.training import loop
from tests.helpers.problems import all_stumps, class_margins, full_optimum

SEARCHES = ["lda", "tree", "svm", "perceptron"]


@pytest.fixture(scope="module")
def noisy():
    """More distinct values than bins, labels that follow them with noise."""
    rng = default_rng(0)
    X = rng.normal(size=(400, 2))
    return X, np.where(np.sin(4 * X[:, 0]) + X[:, 1] + 0.7 * rng.normal(size=400) > 0, 1, -1)


@pytest.fixture(scope="module")
def optimum(noisy):
    X, y = noisy
    return full_optimum((all_stumps(X) * y).T, 1, np.arange(400), np.full(400, 60 / 400))


@pytest.mark.slow
@pytest.mark.parametrize("weak_learner", SEARCHES)
def test_families_priced_by_search_have_no_bound(weak_learner):
    X, y = load_wine(return_X_y=True)
    model = StructBoostClassifier(
        objective="hinge", C=20, weak_learner=weak_learner, max_iter=3
    ).fit(X, y)
    assert [(r["bound"], r["gap"], r["certified"], r["bound_all"]) for r in model.history_] == [
        (None, None, False, None)
    ] * 3
    boosted = MultiBoostCWClassifier(C=1e3, weak_learner=weak_learner, max_rounds=2).fit(X, y)
    assert boosted.history_[-1]["gap"] is None
    display = ConvergenceDisplay.from_estimator(model)
    assert len(display.ax_[0].get_lines()) == 1


@pytest.mark.slow
def test_training_by_search_stops_when_the_primal_stalls(monkeypatch):
    monkeypatch.setattr(loop, "_STALL_ROUNDS", 3)
    X, y = load_wine(return_X_y=True)
    settings = {"objective": "hinge", "C": 100, "weak_learner": "tree", "max_iter": 60}
    primals = [r["primal"] for r in StructBoostClassifier(tol=0.05, **settings).fit(X, y).history_]
    stalled = [
        before - now <= 0.05 * now for before, now in zip(primals, primals[3:], strict=False)
    ]
    assert stalled[-1]
    assert not any(stalled[:-1])
    assert StructBoostClassifier(tol=0.0, **settings).fit(X, y).n_iter_ > len(primals)


@pytest.mark.slow
def test_the_bound_over_all_stumps_holds_where_that_of_the_family_fails(noisy, optimum):
    X, y = noisy
    fitted = StructBoost(BinaryTask(), C=60, tol=1e-3, exact=False).fit(X, y)
    last = fitted.history_[-1]
    assert last["certified"]
    assert last["bound"] > optimum * (1 + 1e-4)
    assert 0 < last["bound_all"] <= optimum * (1 + 1e-9)
    assert last["gap_all"] == pytest.approx((last["primal"] - last["bound_all"]) / last["primal"])
    assert all(record["bound_all"] is None for record in fitted.history_[:-1])
    for all_thresholds in ({}, {"exact": True}):
        exact = StructBoost(BinaryTask(), C=60, tol=1e-3, **all_thresholds).fit(X, y).history_[-1]
        assert exact["bound_all"] == exact["bound"] <= optimum * (1 + 1e-9)
        assert exact["primal"] >= optimum * (1 - 1e-9)


@pytest.mark.parametrize(
    "settings", [{"engine": "threads", "n_jobs": 2}, {"formulation": "m_slack"}, {"spread": 0.05}]
)
def test_the_bound_over_all_stumps_holds_for(noisy, optimum, settings):
    X, y = noisy
    last = StructBoost(BinaryTask(), C=60, tol=0.01, exact=False, **settings).fit(X, y).history_[-1]
    assert 0 < last["bound_all"] <= optimum * (1 + 1e-9)


def test_a_table_on_disk_has_no_bound_over_thresholds_it_dropped(noisy, tmp_path, monkeypatch):
    monkeypatch.setattr(binning, "MOST_EXACT_ROWS", 100)
    X, y = noisy
    table = BinnedTable.from_array(tmp_path / "table", X)
    last = StructBoostClassifier("hinge", C=60, tol=0.05).fit(table, y).history_[-1]
    assert last["certified"]
    assert last["bound_all"] is None


def test_a_loosely_solved_master_is_solved_further():
    X, y = make_classification(
        60, 5, n_informative=4, n_redundant=0, n_clusters_per_class=1, flip_y=0.1, random_state=3
    )
    trainer = StructBoost(MulticlassTask(2), C=1000.0, tol=0.02, max_rounds=500).fit(X, y)
    # The round in which columns ran out had a larger gap: that of its master.
    assert trainer.history_[-1]["gap"] <= 0.02


def smallest_C_by_program(X, labels):
    """1 over the value of the game: duals of the empty model against the stump of largest edge."""
    margins, examples = class_margins(all_stumps(X), labels)
    m, (n_wrong, n_columns) = len(X), margins.shape
    A_ub = np.column_stack((margins.T / m, -np.ones(n_columns)))
    A_eq = np.column_stack((np.eye(m)[examples].T, np.zeros(m)))
    costs = np.append(np.zeros(n_wrong), 1.0)
    game = linprog(costs, A_ub=A_ub, b_ub=np.zeros(n_columns), A_eq=A_eq, b_eq=np.ones(m))
    return 1.0 / game.fun


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_the_smallest_C_is_at_most_that_of_a_linear_program(seed):
    rng = default_rng(seed)
    X = rng.normal(size=(30, 2)).round(1)
    labels = np.digitize(X[:, 0] + 0.8 * rng.normal(size=30), [-0.5, 0.5])
    expected = smallest_C_by_program(X, labels)
    for C in (0.5 * expected, 1.2 * expected):
        with contextlib.nullcontext() if C > expected else pytest.warns(EmptyModelWarning):
            fitted = StructBoost(MulticlassTask(3), C=C, tol=1e-4).fit(X, labels)
        assert fitted.model_.weights.any() == (C > expected)
        assert 0.0 < fitted.history_[0]["smallest_C"] <= expected * (1 + 1e-9)


def test_a_path_warns_once_of_all_empty_models():
    X, y = load_wine(return_X_y=True)
    with pytest.warns(EmptyModelWarning) as caught:
        path = StructBoost(MulticlassTask(3), C=1.0).path(X, y, [0.5, 0.2, 20.0, 0.4])
    assert len(caught) == 1
    assert "C is 0.5, 0.2, 0.4" in str(caught[0].message)
    assert str(caught[0].filename) == __file__
    assert path[2].model_.weights.any()
