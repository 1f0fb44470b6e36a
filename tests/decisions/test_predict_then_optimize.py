"""PredictThenOptimize: regret, scikit-learn's ways, solves spared with the same certificate."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

from structboost import PredictThenOptimize
from structboost.decisions import (
    Choose,
    DecisionInput,
    Knapsack,
    ShortestPath,
)
from structboost.decisions.training import normalized_regret
from structboost.errors import TaskError
from tests.helpers.scikit_learn import check_battery
from tests.helpers.travel import ROUTES, travel


def test_a_fitted_model_prints_what_was_minimised_and_how_well():
    x, costs = travel(30)
    model = PredictThenOptimize(ROUTES, C=5.0, random_state=0)
    assert "#" not in repr(model)
    model.fit(x, costs)
    gap = f"{100 * model.history_[-1]['gap']:.2g}"
    words = rf"# minimised the SPO\+ loss over linear, \d+ rounds?, C = 5, gap {gap} %"
    assert re.search(words, repr(model))


@pytest.mark.slow
def test_decisions_are_better_than_those_of_least_squares():
    x, costs = travel(80)
    held_x, held = travel(400, seed=1)
    model = PredictThenOptimize(ROUTES, random_state=0).fit(x, costs)
    best = ROUTES.solve_all(held)
    two_stage = ROUTES.solve_all(LinearRegression().fit(x, costs).predict(held_x))
    assert -model.score(held_x, held) < 0.9 * normalized_regret(held, two_stage, best)
    # Five parts held out, five best settings.
    assert len(model.history_) == 25
    assert "# mean of 25 fits that minimised the SPO+ loss" in repr(model)
    assert model.C_ == min(model.path_, key=lambda entry: entry["regret"])["C"]
    decided = model.predict(held_x)
    np.testing.assert_array_equal(decided, ROUTES.solve_all(model.predict_costs(held_x)))
    assert -model.score(held_x, held) == pytest.approx(
        ((decided - best) * held).sum() / (best * held).sum()
    )


def test_predicted_routes_have_no_cycles_even_at_costs_below_0(monkeypatch):
    problem = ShortestPath([(0, 1), (1, 2), (2, 1), (1, 3), (0, 3)], 0, 3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2))
    model = PredictThenOptimize(problem, C=1.0).fit(x, rng.uniform(1, 2, size=(12, 5)))
    below = np.array([[-1.0, -1.1, -1.0, -1.2, -0.9]])
    monkeypatch.setattr(model, "predict_costs", lambda X: below)
    assert problem.solve_all(below).tolist() == [[1, 1, 1, 1, 0]]
    assert model.predict(x[:1]).tolist() == [[1, 0, 0, 1, 0]]


def test_scores_weigh_instances_like_repetitions():
    x, costs = travel(40)
    model = PredictThenOptimize(ROUTES, C=1.0).fit(x, costs)
    times = np.arange(40) % 3
    weighted = model.score(x, costs, sample_weight=times)
    repeated = model.score(np.repeat(x, times, axis=0), np.repeat(costs, times, axis=0))
    assert weighted == pytest.approx(repeated)
    assert weighted != pytest.approx(model.score(x, costs))
    with pytest.raises(ValueError, match="sample_weight has 3 entries"):
        model.score(x, costs, sample_weight=times[:3])


@pytest.mark.slow
def test_best_decisions_that_cost_nothing_are_learned_and_scored_by_the_mean_regret():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    free = np.argmax(x, axis=1)  # one of three items costs nothing
    costs = np.where(np.arange(3) == free[:, None], 0.0, 1 + 0.1 * rng.random((120, 3)))
    model = PredictThenOptimize(Choose(3, 1), random_state=0).fit(x[:80], costs[:80])
    regret = (model.predict(x[80:]) * costs[80:]).sum(axis=1)
    assert -model.score(x[80:], costs[80:]) == pytest.approx(regret.mean())
    times = np.arange(40) % 3
    weighted = -model.score(x[80:], costs[80:], sample_weight=times)
    assert weighted == pytest.approx(np.average(regret, weights=times))
    assert regret.mean() < 0.15
    regrets = [entry["regret"] for entry in model.path_]
    assert np.all(np.isfinite(regrets))
    assert len(set(regrets)) > 1


def test_features_of_instance_and_items_predict_better_than_those_of_items():
    rng = np.random.default_rng(0)
    items = rng.normal(size=(40, 6, 2))
    place = rng.normal(size=(40, 2))
    values = 5 + items @ [1.0, -2.0] + place @ rng.normal(size=(2, 6))
    wares = Knapsack([1, 2, 3, 1, 2, 3], 5)
    both = [DecisionInput(a, b) for a, b in zip(place, items, strict=True)]
    of_items = PredictThenOptimize(wares, C=10.0).fit(items, values)
    of_both = PredictThenOptimize(wares, C=10.0).fit(both, values)
    assert -of_both.score(both, values) < 0.5 * -of_items.score(items, values)
    np.testing.assert_allclose(of_both.predict_costs(both), values, rtol=0.5, atol=1.5)


def test_grid_search_over_clones_chooses_the_better_c():
    x, costs = travel(40)
    model = PredictThenOptimize(ROUTES, C=1.0, start="none", random_state=0)
    copy = clone(model)
    assert copy.get_params()["C"] == 1.0
    search = GridSearchCV(model, {"C": [1e-3, 10.0]}, cv=2).fit(x, costs)
    assert search.best_params_["C"] == 10.0
    np.testing.assert_array_equal(
        search.predict(x), model.set_params(C=10.0).fit(x, costs).predict(x)
    )


def invest(costs):
    """One item: take it if it pays."""
    return (costs < 0).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("weak_learner", ["linear", "stump"])
def test_estimator_passes_the_checks_of_scikit_learn(weak_learner):
    check_battery(
        PredictThenOptimize(invest, C=1.0, weak_learner=weak_learner, max_rounds=5),
        37,
        {
            "check_fit_score_takes_y": "the second argument is named costs",
            "check_n_features_in_after_fitting": "gives score an argument named y",
        },
    )


def test_errors_of_fit_and_score_name_the_argument_and_the_instance():
    x, costs = travel(20)
    for message, parameters in {
        "start is 'cold'": {"start": "cold"},
        # A linear function is fitted in this process, whatever the engine.
        "engine is 'foo'": {"C": 1.0, "engine": "foo"},
        "n_jobs is 0": {"C": 1.0, "n_jobs": 0},
        "C is -1": {"C": -1.0},
        r"tol is -0\.1": {"tol": -0.1},
        "tol is None; give a relative gap": {"C": 1.0, "tol": None},
    }.items():
        with pytest.raises((TypeError, ValueError), match=message):
            PredictThenOptimize(ROUTES, **parameters).fit(x, costs)
    model = PredictThenOptimize(ROUTES, C=1.0)
    model.fit(x, costs)
    with pytest.raises(TaskError, match=r"costs of X\[0\] have shape \(11,\); expected \(12,\)"):
        model.score(x, costs[:, 1:])


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_costs_of_any_size_have_the_same_decisions(size):
    x, costs = travel(40)
    model = PredictThenOptimize(ROUTES, C=10.0, random_state=0)
    decided = model.fit(x, costs).predict(x)
    np.testing.assert_array_equal(model.fit(x, size * costs).predict(x), decided)


def fitted_state(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.slow
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"C": 5.0, "spare_solves": True},
        {"C": 5.0, "weak_learner": ["linear", "stump"], "engine": "serial"},
    ],
    ids=["default", "spare_solves", "union"],
)
def test_refit_that_fails_leaves_the_last_model_whole(settings, error):
    left = 10**9

    def solve(costs):
        nonlocal left
        left -= 1
        if left < 0:
            raise error
        return ROUTES.solve(costs)

    x, costs = travel(30)
    model = PredictThenOptimize(solve, random_state=0, tol=0.05, **settings).fit(x, costs)
    state, predicted = fitted_state(model), model.predict_costs(x)
    left = 40
    with pytest.raises(error):
        model.fit(x[:, :2], 1000 * costs)
    assert fitted_state(model) == state
    np.testing.assert_array_equal(model.predict_costs(x), predicted)
    first = PredictThenOptimize(solve, random_state=0, **settings)
    with pytest.raises(error):
        first.fit(x, costs)
    with pytest.raises(NotFittedError):
        first.predict(x)
