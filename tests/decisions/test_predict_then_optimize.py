"""PredictThenOptimize: regret, scikit-learn's ways, solves spared with the same certificate."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold

from structboost import PredictThenOptimize, PredictThenOptimizeTask, StructBoost, StructuredSVM
from structboost.decisions import (
    Choose,
    DecisionInput,
    GridPath,
    Knapsack,
    ShortestPath,
    SolvedBy,
    Tour,
)
from structboost.decisions.inputs import FeatureReader
from structboost.decisions.instances import DecisionInputs
from structboost.decisions.model import Preparation, costs_of
from structboost.decisions.problem import DecisionProblem
from structboost.decisions.training import LinearFits, _Fit, _Part, normalized_regret
from structboost.exceptions import TaskError
from structboost.selection.folds import random_folds
from structboost.selection.held_out import HeldOut
from tests.helpers.scikit_learn import check_battery

ROUTES = GridPath(3, 3)


def travel(n=120, seed=0, degree=6):
    """PyEPO's costs, far from linear in the features."""
    rng = np.random.default_rng(seed)
    B = np.random.default_rng(99).integers(0, 2, size=(ROUTES.n_items, 3))
    x = rng.normal(size=(n, 3))
    costs = ((x @ B.T / np.sqrt(3) + 3) ** degree + 1) / 3.5**degree
    return x, costs * rng.uniform(0.8, 1.2, costs.shape)


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
@pytest.mark.parametrize("form", ["instance", "items", "both"])
def test_mean_of_the_fits_is_one_linear_function(form, monkeypatch, tmp_path):
    monkeypatch.setattr("structboost.decisions.training._UPWARDS", (3.0,))
    monkeypatch.setattr("structboost.decisions.training._DOWNWARDS", (0.3,))
    rng = np.random.default_rng(0)
    x, costs = travel(30)
    items = 3.0 + costs[:, :, None] * rng.uniform(0.5, 2.0, size=(*costs.shape, 2))
    both = [DecisionInput(a, b) for a, b in zip(5 + 2 * x, items, strict=True)]
    X = {"instance": 5 + 2 * x, "items": items, "both": both}[form]
    inputs = FeatureReader.fit(X, None)[1]
    task = PredictThenOptimizeTask(ROUTES, inputs.features, n_items=ROUTES.n_items)
    truth = task.best_decisions(inputs, costs)
    parameters = PredictThenOptimize(ROUTES, tol=0.05, random_state=0)
    fits = LinearFits(parameters, task, inputs, truth, ("none", "least_squares"))
    plain, prepared = Preparation.fit(inputs, costs)
    each = [
        costs_of(fit.svm, fit.preparation.inputs(inputs))
        for setting in fits.settings
        for fit in setting.fits
    ]
    assert len(each) == 20
    predicted = costs_of(fits.mean(plain), prepared)
    np.testing.assert_allclose(predicted, np.mean(each, axis=0), rtol=1e-9)
    model = PredictThenOptimize(ROUTES).fit(X, costs)
    model.save(tmp_path / "m")
    loaded = PredictThenOptimize.load(tmp_path / "m", ROUTES)
    np.testing.assert_array_equal(loaded.predict_costs(X), model.predict_costs(X))
    assert loaded.path_end_ == model.path_end_


@pytest.mark.slow
@pytest.mark.parametrize("is_linear", [True, False])
def test_a_union_is_linear_where_that_is_better_on_the_same_folds(is_linear, monkeypatch, tmp_path):
    monkeypatch.setattr("structboost.decisions.training._UPWARDS", (3.0,))
    monkeypatch.setattr("structboost.decisions.training._DOWNWARDS", (0.3,))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    costs = 9 + (x if is_linear else np.sign(x)) @ rng.normal(size=(2, ROUTES.n_items))
    model = PredictThenOptimize(
        ROUTES, weak_learner=["linear", "stump"], random_state=0, max_rounds=8, engine="serial"
    ).fit(x, costs)
    alone = PredictThenOptimize(ROUTES, random_state=0).fit(x, costs)
    assert model.path_ == alone.path_
    assert isinstance(model.trainer_, StructuredSVM) == is_linear
    if is_linear:
        np.testing.assert_array_equal(model.predict_costs(x), alone.predict_costs(x))
    else:
        # Both regrets by hand: of the same instances, in the same unit.
        best = ROUTES.solve_all(costs)
        held = [rows for _, rows in KFold(5, shuffle=True, random_state=0).split(x)]
        values = [
            (costs[rows] * best[rows]).sum(axis=1).mean() / model._model.scale for rows in held
        ]
        boosted = [np.divide(r["losses"], values).mean() for r in model.trainer_.C_path_]
        assert min(boosted) < min(entry["regret"] for entry in model.path_)
        # Linear functions alone were judged before: boosting asks for no more solves of them.
        tried = {record["weak_learner"] for record in model.trainer_.C_path_}
        assert tried == {"linear+stump"}
    model.save(tmp_path / "m")
    loaded = PredictThenOptimize.load(tmp_path / "m", ROUTES)
    np.testing.assert_array_equal(loaded.predict_costs(x), model.predict_costs(x))


def test_smaller_c_are_tried_as_long_as_they_are_better(monkeypatch):
    regret_at = {1.0: 0.5, 3.0: 0.6, 10.0: 0.7, 30.0: 0.8, 0.3: 0.4, 0.1: 0.3, 0.03: 0.2}

    def fit(self, C):
        regret = regret_at.get(C, 0.3)
        return _Fit(self.preparation, None, HeldOut(regret, regret, False, -regret))

    monkeypatch.setattr(_Part, "fit", fit)
    x, costs = travel(10)
    task = PredictThenOptimizeTask(ROUTES)
    truth = task.best_decisions(x, costs)
    inputs = DecisionInputs(instance=x)
    fits = LinearFits(PredictThenOptimize(ROUTES), task, inputs, truth, ("none",))
    tried = [entry["C"] for entry in fits.path]
    assert tried == [1.0, 3.0, 10.0, 30.0, 0.3, 0.1, 0.03, 0.01]
    assert fits.end == (
        "start none: the held-out score at C = 30 was smaller on every fold than at 1, and then "
        "the held-out score at C = 0.01 was smaller on every fold than at 0.03"
    )
    assert fits.best[:2] == (0.03, "none")


class Impatient(GridPath):
    """Ctrl-C, once, in the second pass over sixteen instances."""

    n_passes = 0

    def solve_all(self, costs):
        self.n_passes += len(costs) == 16
        if self.n_passes == 2 and len(costs) == 16:
            raise KeyboardInterrupt
        return super().solve_all(costs)


def test_ctrl_c_ends_the_choice_of_c():
    x, costs = travel(20)
    problem = Impatient(3, 3)
    with pytest.raises(KeyboardInterrupt):
        PredictThenOptimize(problem, random_state=0).fit(x, costs)
    assert problem.n_passes == 2


def test_held_out_instances_have_no_part_in_the_fits_that_they_judge(monkeypatch):
    monkeypatch.setattr("structboost.decisions.training._UPWARDS", (1.0,))
    monkeypatch.setattr("structboost.decisions.training._DOWNWARDS", ())
    x, costs = travel(20)
    task = PredictThenOptimizeTask(ROUTES)

    def predicted_by_first_fit(changed):
        inputs = DecisionInputs(instance=np.where(changed[:, None], 50.0, x))
        truth = task.best_decisions(inputs, np.where(changed[:, None], 90.0, costs))
        parameters = PredictThenOptimize(ROUTES, random_state=0)
        fit = LinearFits(parameters, task, inputs, truth, ("least_squares",)).settings[0].fits[0]
        return costs_of(fit.svm, fit.preparation.inputs(DecisionInputs(instance=x)))

    held = np.zeros(20, bool)
    held[next(KFold(5, shuffle=True, random_state=0).split(x))[1]] = True
    np.testing.assert_array_equal(
        predicted_by_first_fit(held), predicted_by_first_fit(np.zeros(20, bool))
    )


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


def test_few_solves_are_needed_for_the_gap_of_many():
    x, costs = travel(100)
    settings = {"C": 10.0, "start": "none", "tol": 0.05, "random_state": 0}
    plain = PredictThenOptimize(ROUTES, **settings).fit(x, costs)
    sparing = PredictThenOptimize(ROUTES, spare_solves=True, **settings).fit(x, costs)
    assert sparing.passes_[-1]["gap"] <= 0.05
    assert 2 * sparing.passes_[-1]["exact_solves"] < len(x) * len(plain.history_)


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


@pytest.mark.slow
def test_boosted_trees_give_a_start_that_has_not_seen_what_it_predicts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2))
    costs = 2 + (x[:, :1] > 0) * np.arange(12) + rng.uniform(0, 0.5, size=(90, 12))
    costs[40] += 100.0 * np.arange(12)  # no other instance tells of this
    inputs = DecisionInputs(instance=x)
    preparation, prepared = Preparation.fit(inputs, costs, "boosted")
    seen = preparation.inputs(inputs).items[:, :, -1]
    assert seen[40].max() > 1.5 * prepared.items[40, :, -1].max()
    model = PredictThenOptimize(ROUTES, C=1.0, start="boosted", engine="serial")
    # Features of items too: one function of all items, then one of each for what is left.
    both = [DecisionInput(a, b[:, None]) for a, b in zip(x, costs, strict=True)]
    _, prepared = Preparation.fit(FeatureReader.fit(both, None)[1], costs, "least_squares")
    predicted = prepared.items[:, :, -1]
    assert np.corrcoef(predicted.ravel(), costs.ravel())[0, 1] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="needs 3 instances; X has 2"):
        model.fit(x[:2], costs[:2])


def test_gap_that_few_passes_leave_open_is_a_warning(monkeypatch):
    monkeypatch.setattr("structboost.decisions.known_decisions._MOST_SOLVES", 1)
    x, costs = travel(2)
    model = PredictThenOptimize(ROUTES, C=100.0, tol=1e-6, spare_solves=True)
    with pytest.warns(ConvergenceWarning, match="exact solves"):
        model.fit(x, costs)
    # Some of the hinge is not known yet; the recorded primal counts it all the same.
    assert model.passes_[-1]["primal"] == pytest.approx(primal_over_all(model, x, costs))


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
    model = PredictThenOptimize(ROUTES, C=1.0)
    bad_costs, bad_x = costs.copy(), x.copy()
    bad_costs[4, 1], bad_x[5, 0] = np.inf, -np.inf
    with pytest.raises(TaskError, match=r"costs of X\[4\] have inf for item 1"):
        model.fit(x, bad_costs)
    with pytest.raises(TaskError, match=r"X\[5\] has -inf in feature 0"):
        model.fit(bad_x, costs)
    with pytest.raises(ValueError, match="a row of costs"):
        model.fit(x, costs[:3])
    with pytest.raises(ValueError, match="start is 'cold'"):
        PredictThenOptimize(ROUTES, start="cold").fit(x, costs)
    # A linear function is fitted in this process, whatever the engine.
    with pytest.raises(ValueError, match="engine is 'foo'"):
        PredictThenOptimize(ROUTES, C=1.0, engine="foo").fit(x, costs)
    with pytest.raises(ValueError, match="n_jobs is 0"):
        PredictThenOptimize(ROUTES, C=1.0, n_jobs=0).fit(x, costs)
    with pytest.raises(ValueError, match="C is -1"):
        PredictThenOptimize(ROUTES, C=-1.0).fit(x, costs)
    # With a choice of C and without one.
    for C in ("auto", 1.0):
        with pytest.raises(ValueError, match=r"tol is -0\.1"):
            PredictThenOptimize(ROUTES, C=C, tol=-0.1).fit(x, costs)
        with pytest.raises(TypeError, match="tol is None; give a relative gap"):
            PredictThenOptimize(ROUTES, C=C, tol=None).fit(x, costs)
    with pytest.raises(ValueError, match=r"4 features, but .* expecting 3 features"):
        model.fit(x, costs).predict(np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"X\[19\] has a problem of its own"):
        model.fit([*map(DecisionInput, x[:-1]), DecisionInput(x[19], problem=ROUTES)], costs)
    with pytest.raises(ValueError, match=r"X\[19\].instance is None, and X\[0\].instance has"):
        model.fit([*map(DecisionInput, x[:-1]), DecisionInput(items=np.ones((6, 2)))], costs)
    with pytest.raises(ValueError, match=r"features of 2 items, and costs has \d+ columns"):
        model.fit(np.ones((20, 2, 3)), costs)
    with pytest.raises(ValueError, match=r"costs of X\[0\] have"):
        model.fit(x, [["a"]] * 20)
    model.fit(x, costs)
    with pytest.raises(TaskError, match=r"costs of X\[4\] have inf for item 1"):
        model.score(x, bad_costs)
    with pytest.raises(TaskError, match=r"costs of X\[0\] have shape \(11,\); expected \(12,\)"):
        model.score(x, costs[:, 1:])


class OutOfLicence(GridPath):
    """Fails at the first instance, as soon as so many calls were for so many instances."""

    def __init__(self, n_rows, n_columns, n_instances, n_calls):
        super().__init__(n_rows, n_columns)
        self.n_instances, self.n_calls = n_instances, n_calls

    def solve_all(self, costs):
        self.n_calls -= len(costs) == self.n_instances
        return DecisionProblem.solve_all(self, costs)

    def solve(self, costs):
        if self.n_calls <= 0:
            raise RuntimeError("the licence has run out")
        return GridPath.solve_all(self, costs[None])[0]


@pytest.mark.parametrize(("part", "seed"), [("train", 2), ("held", 0)])
def test_solver_that_fails_in_the_choice_of_c_names_the_instance_by_its_index(part, seed):
    x, costs = travel(20)
    train, held = next(KFold(5, shuffle=True, random_state=seed).split(x))
    rows = {"train": train, "held": held}[part]
    assert rows[0] > 0
    problem = OutOfLicence(3, 3, len(rows), 1)
    with pytest.raises(RuntimeError, match="licence") as error:
        PredictThenOptimize(problem, random_state=seed).fit(x, costs)
    assert f"X[{rows[0]}]" in error.value.__notes__[0]


def test_solver_that_fails_in_the_choice_of_c_of_boosting_names_the_instance_by_its_index():
    x, costs = travel(20)
    rows = random_folds(list(x), costs, random_state=7)[0].rows
    assert rows[0] > 0
    problem = OutOfLicence(3, 3, len(rows), 1)
    with pytest.raises(RuntimeError, match="licence") as error:
        PredictThenOptimize(problem, weak_learner="stump", random_state=7).fit(x, costs)
    assert f"X[{rows[0]}]" in error.value.__notes__[0]


def test_a_solver_that_fails_where_solves_are_spared_names_the_instance():
    x, costs = travel(40)
    # A sixteenth of the instances is solved at a time: the first three, then others.
    problem = OutOfLicence(3, 3, 3, 2)
    with pytest.raises(RuntimeError, match="licence") as error:
        PredictThenOptimize(problem, C=100.0, tol=1e-6, spare_solves=True).fit(x, costs)
    assert "X[3]" in error.value.__notes__[0]


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_costs_of_any_size_have_the_same_decisions(size):
    x, costs = travel(40)
    model = PredictThenOptimize(ROUTES, C=10.0, random_state=0)
    decided = model.fit(x, costs).predict(x)
    np.testing.assert_array_equal(model.fit(x, size * costs).predict(x), decided)


def test_solver_that_is_not_exact_is_refused_where_solves_are_spared():
    x, costs = travel(40)

    def of_smallest_size(c):
        return ROUTES.solve(np.abs(c))

    model = PredictThenOptimize(of_smallest_size, C=10.0, spare_solves=True, random_state=0)
    with pytest.raises(TaskError, match=r"solver is not exact: .* X\[\d+\] leads to"):
        model.fit(x, costs)


def test_order_of_arrays_in_memory_makes_no_difference():
    x, costs = travel(40)
    model = PredictThenOptimize(ROUTES, C=10.0, random_state=0)
    predicted = model.fit(x, costs).predict_costs(x)
    turned = model.fit(np.asfortranarray(x), np.asfortranarray(costs)).predict_costs(x)
    np.testing.assert_array_equal(turned, predicted)


def fitted_state(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


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


def tables(library):
    rng = np.random.default_rng(0)
    columns = dict(zip(("wind", "rain", "load"), rng.normal(size=(3, 60)), strict=True))
    costs = np.column_stack((columns["wind"], -columns["wind"], columns["rain"]))
    return pytest.importorskip(library).DataFrame(columns), costs


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_frames_are_found_by_name_in_any_order(library, tmp_path):
    X, costs = tables(library)
    model = PredictThenOptimize(Choose(3, 1), C=5.0, random_state=0).fit(X, costs)
    assert model.feature_names_in_.tolist() == ["wind", "rain", "load"]
    model.save(tmp_path / "m")
    loaded = PredictThenOptimize.load(tmp_path / "m", Choose(3, 1))
    assert loaded.feature_names_in_.tolist() == ["wind", "rain", "load"]
    other = X[["rain", "load", "wind"]]
    for one in (model, loaded):
        np.testing.assert_array_equal(one.predict_costs(other), model.predict_costs(X))
        with pytest.raises(ValueError, match=r"X lacks \['wind'\] and has \['typo'\]"):
            one.predict(X.rename(**renamed(library)))
        with pytest.warns(UserWarning, match="does not have valid feature names, but"):
            unnamed = one.predict_costs(X.to_numpy())
        np.testing.assert_array_equal(unnamed, model.predict_costs(X))
    with pytest.warns(UserWarning, match="has feature names, but .* without feature names"):
        model.fit(X.to_numpy(), costs).predict(X)
    assert not hasattr(model, "feature_names_in_")


def renamed(library):
    names = {"wind": "typo"}
    return {"columns": names} if library == "pandas" else {"mapping": names}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_frames_in_inputs_are_found_by_name_in_any_order(library):
    pd = pytest.importorskip("pandas")
    frame = pytest.importorskip(library).DataFrame
    rng = np.random.default_rng(0)
    items, place = rng.normal(size=(30, 4, 2)), rng.normal(size=(30, 2))
    values = 5 + items @ [1.0, -2.0] + place @ rng.normal(size=(2, 4))
    model = PredictThenOptimize(Choose(4, 2), C=5.0, random_state=0)

    def inputs(of_instance, of_items):
        return [
            DecisionInput(
                pd.Series(a, index=["x", "y"])[of_instance],
                frame({"size": b[:, 0], "age": b[:, 1]})[of_items],
            )
            for a, b in zip(place, items, strict=True)
        ]

    X = inputs(["x", "y"], ["size", "age"])
    predicted = model.fit(X, values).predict_costs(X)
    assert model.feature_names_in_.tolist() == ["x", "y", "size", "age"]
    other = inputs(["y", "x"], ["age", "size"])
    np.testing.assert_array_equal(model.predict_costs(other), predicted)
    other[7] = DecisionInput(other[7].instance, frame({"size": [1.0] * 4, "old": [1.0] * 4}))
    with pytest.raises(ValueError, match=r"X\[7\].items lacks \['age'\] and has \['old'\]"):
        model.predict(other)
    # A list of frames has features of items.
    frames = [x.items for x in X]
    of_items = PredictThenOptimize(Choose(4, 2), C=5.0, random_state=0).fit(frames, values)
    assert of_items.feature_names_in_.tolist() == ["size", "age"]
    np.testing.assert_array_equal(
        of_items.predict_costs(frames),
        PredictThenOptimize(Choose(4, 2), C=5.0, random_state=0)
        .fit(items, values)
        .predict_costs(items),
    )


def test_features_of_other_kinds_than_in_training_are_refused():
    x, costs = travel(20)
    items = np.ones((20, ROUTES.n_items, 3))
    model = PredictThenOptimize(ROUTES, C=1.0, start="none").fit(x, costs)
    with pytest.raises(ValueError, match=r"X has features of the items, and .* of the instance"):
        model.predict(items)
