"""Training on the decisions known so far, where solves are spared."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structboost import PredictThenOptimize, StructBoost, StructuredSVM
from structboost.decisions import (
    SolvedBy,
    Tour,
)
from structboost.errors import TaskError
from tests.helpers.travel import ROUTES, travel


@pytest.mark.parametrize("weak_learner", ["linear", "stump"])
def test_spared_solves_end_in_the_same_optimum(weak_learner):
    x, costs = travel(60)
    n_solves = 0

    def solve(c):
        nonlocal n_solves
        n_solves += 1
        return ROUTES.solve(c)

    settings = {"C": 10.0, "weak_learner": weak_learner, "start": "none", "tol": 0.01}
    plain = PredictThenOptimize(ROUTES, **settings).fit(x, costs)
    sparing = PredictThenOptimize(SolvedBy(solve), spare_solves=True, **settings).fit(x, costs)
    last = sparing.passes_[-1]
    assert last["gap"] <= 0.01
    # One solve for each truth, then few at a time until the last, which solves all to certify.
    assert n_solves == len(x) + last["exact_solves"]
    assert last["certified"]
    assert last["exact_solves"] < len(x) * len(sparing.passes_)
    low, high = plain.history_[-1]["bound"], plain.history_[-1]["primal"]
    assert last["bound"] <= high + 1e-9
    assert low <= last["primal"] + 1e-9
    assert isinstance(sparing.trainer_, StructuredSVM if weak_learner == "linear" else StructBoost)
    assert last["primal"] == pytest.approx(primal_over_all(sparing, x, costs))


def primal_over_all(model, x, costs):
    """The objective over all decisions, from the weights and the predicted costs."""
    trainer = model.trainer_
    predicted, truth = model.predict_costs(x) / model._model.scale, costs / model._model.scale
    best, worst = ROUTES.solve_all(truth), ROUTES.solve_all(2 * predicted - truth)
    hinge = ((truth - 2 * predicted) * worst + (2 * predicted - truth) * best).sum(axis=1)
    if isinstance(trainer, StructBoost):
        return trainer.model_.weights.sum() + model.C_ * hinge.mean()
    weights = trainer.w_.values() if isinstance(trainer.w_, dict) else [trainer.w_]
    return 0.5 * sum(np.sum(w**2) for w in weights) + model.C_ * hinge.mean()


def test_c_is_chosen_on_known_decisions_where_solves_are_spared():
    x, costs = travel(20)
    model = PredictThenOptimize(ROUTES, start="none", tol=0.05, spare_solves=True)
    model.fit(x, costs)
    assert model.path_
    assert model.passes_[-1]["certified"]


@pytest.mark.slow
def test_local_search_leaves_few_exact_solves(monkeypatch):
    problem = Tour(9)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(32, 2))
    costs = np.exp(x @ rng.normal(size=(2, problem.n_items)) / 2)
    costs *= rng.uniform(0.7, 1.3, costs.shape)
    settings = {"C": 3.0, "start": "none", "tol": 0.03, "random_state": 0}
    n_solves = 0
    solve = Tour.solve

    def counted(self, c):
        nonlocal n_solves
        n_solves += 1
        return solve(self, c)

    monkeypatch.setattr(Tour, "solve", counted)
    by_search = PredictThenOptimize(problem, spare_solves=True, **settings).fit(x, costs)
    last = by_search.passes_[-1]
    assert n_solves == len(x) + last["exact_solves"]
    assert last["certified"]
    assert last["gap"] <= 0.03
    plain = PredictThenOptimize(problem, **settings).fit(x, costs)
    assert last["bound"] <= plain.history_[-1]["primal"] + 1e-9
    assert plain.history_[-1]["bound"] <= last["primal"] + 1e-9
    # A search that finds nothing leaves the finding to exact solves.
    monkeypatch.setattr(Tour, "improve_all", lambda self, costs, decisions: decisions)
    by_solves = PredictThenOptimize(problem, spare_solves=True, **settings).fit(x, costs)
    assert last["exact_solves"] < by_solves.passes_[-1]["exact_solves"]
    assert last["exact_solves"] <= 2 * len(x)


def test_gap_that_few_passes_leave_open_is_a_warning(monkeypatch):
    monkeypatch.setattr("structboost.decisions.training._MOST_SOLVES", 1)
    x, costs = travel(2)
    model = PredictThenOptimize(ROUTES, C=100.0, tol=1e-6, spare_solves=True)
    with pytest.warns(ConvergenceWarning, match="exact solves"):
        model.fit(x, costs)
    # Some of the hinge is not known yet; the recorded primal counts it all the same.
    assert model.passes_[-1]["primal"] == pytest.approx(primal_over_all(model, x, costs))


def test_solver_that_is_not_exact_is_refused_where_solves_are_spared():
    x, costs = travel(40)

    def of_smallest_size(c):
        return ROUTES.solve(np.abs(c))

    model = PredictThenOptimize(of_smallest_size, C=10.0, spare_solves=True, random_state=0)
    with pytest.raises(TaskError, match=r"solver is not exact: .* X\[\d+\] leads to"):
        model.fit(x, costs)


def test_interrupted_fit_on_known_decisions_ends_the_whole(monkeypatch):
    fit = StructuredSVM.fit

    def interrupted(self, X, Y):
        fit(self, X, Y).interrupted_ = True
        return self

    monkeypatch.setattr(StructuredSVM, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        PredictThenOptimize(ROUTES, C=5.0, spare_solves=True).fit(*travel(20))


def test_spared_solves_end_where_the_trainer_gives_up():
    x, costs = travel(40)
    model = PredictThenOptimize(
        ROUTES, C=100.0, weak_learner="stump", max_rounds=2, spare_solves=True
    )
    with pytest.warns(ConvergenceWarning, match="exact solves, above tol = 0.01; raise tol or max"):
        model.fit(x, costs)
    last = model.passes_[-1]
    assert last["certified"]
    assert last["gap"] > 0.01
    assert last["exact_solves"] <= 3 * len(x)
