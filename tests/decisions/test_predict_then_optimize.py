"""Predicted costs have less regret, by functions that are chosen on held-out instances."""

from unittest.mock import Mock

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, QuantileRegressor, RidgeCV
from sklearn.model_selection import KFold

from structboost import PredictThenOptimize, StructBoost, StructuredSVM
from structboost.decisions import (
    Choose,
    DecisionInput,
    GridPath,
    Knapsack,
    PredictThenOptimizeTask,
    ShortestPath,
    SolvedBy,
    Tour,
)
from structboost.decisions.inputs import DecisionInputs, FeatureReader
from structboost.decisions.model import Preparation, costs_of
from structboost.decisions.problem import DecisionProblem
from structboost.decisions.training import LinearFits, _Fit, _Part, _slack, smoothed
from structboost.selection.folds import random_folds
from structboost.selection.held_out import HeldOut
from tests.helpers.refusals import refused
from tests.helpers.scikit_learn import check_battery
from tests.helpers.travel import ROUTES, travel


@pytest.mark.slow
def test_decisions_are_better_than_those_of_least_squares():
    x, costs = travel(80)
    held_x, held = travel(400, seed=1)
    model = PredictThenOptimize(ROUTES, random_state=0).fit(x, costs)
    # Five parts held out, five best settings.
    assert len(model.history_) == 25
    assert "# mean of 25 fits that minimised the SPO+ loss" in repr(model)
    assert model.C_ == min(model.path_, key=lambda entry: entry["regret"])["C"]
    decided, best = model.predict(held_x), ROUTES.solve_all(held)
    assert_array_equal(decided, ROUTES.solve_all(model.predict_costs(held_x)))
    two_stage = ROUTES.solve_all(LinearRegression().fit(x, costs).predict(held_x))
    ours, theirs = (((z - best) * held).sum() / (best * held).sum() for z in (decided, two_stage))
    assert -model.score(held_x, held) == pytest.approx(ours)
    assert ours < 0.9 * theirs


def test_predicted_routes_have_no_cycles_even_at_costs_below_0(monkeypatch):
    problem = ShortestPath([(0, 1), (1, 2), (2, 1), (1, 3), (0, 3)], 0, 3)
    rng = default_rng(0)
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


@pytest.mark.slow
def test_best_decisions_that_cost_nothing_are_learned_and_scored_by_the_mean_regret():
    rng = default_rng(0)
    x = rng.normal(size=(120, 3))
    free = np.argmax(x, axis=1)  # one of three items costs nothing
    costs = np.where(np.arange(3) == free[:, None], 0.0, 1 + 0.1 * rng.random((120, 3)))
    model = PredictThenOptimize(Choose(3, 1), random_state=0).fit(x[:80], costs[:80])
    regret = (model.predict(x[80:]) * costs[80:]).sum(axis=1)
    assert -model.score(x[80:], costs[80:]) == pytest.approx(regret.mean())
    times = np.arange(40) % 3
    assert -model.score(x[80:], costs[80:], sample_weight=times) == pytest.approx(
        np.average(regret, weights=times)
    )
    assert regret.mean() < 0.15
    regrets = [entry["regret"] for entry in model.path_]
    assert np.all(np.isfinite(regrets))
    assert len(set(regrets)) > 1


def test_features_of_instance_and_items_predict_better_than_those_of_items():
    rng = default_rng(0)
    items = rng.normal(size=(40, 6, 2))
    place = rng.normal(size=(40, 2))
    values = 5 + items @ [1.0, -2.0] + place @ rng.normal(size=(2, 6))
    wares = Knapsack([1, 2, 3, 1, 2, 3], 5)
    both = [DecisionInput(a, b) for a, b in zip(place, items, strict=True)]
    of_items = PredictThenOptimize(wares, C=10.0).fit(items, values)
    of_both = PredictThenOptimize(wares, C=10.0).fit(both, values)
    assert -of_both.score(both, values) < 0.5 * -of_items.score(items, values)
    assert_allclose(of_both.predict_costs(both), values, rtol=0.5, atol=1.5)


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


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_costs_of_any_size_have_the_same_decisions(size):
    x, costs = travel(40)
    model = PredictThenOptimize(ROUTES, C=10.0, random_state=0)
    decided = model.fit(x, costs).predict(x)
    assert_array_equal(model.fit(x, size * costs).predict(x), decided)


@pytest.fixture
def _few_C(monkeypatch):
    """One C is tried above and one below 1."""
    monkeypatch.setattr("structboost.decisions.training._UPWARDS", (3.0,))
    monkeypatch.setattr("structboost.decisions.training._DOWNWARDS", (0.3,))


@pytest.mark.slow
@pytest.mark.usefixtures("_few_C")
@pytest.mark.parametrize("form", ["instance", "items", "both"])
def test_mean_of_the_fits_is_one_linear_function(form):
    x, costs = travel(30)
    items = 3.0 + costs[:, :, None] * default_rng(0).uniform(0.5, 2.0, size=(*costs.shape, 2))
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
        for setting in fits.settings if setting.C
        for fit in setting.fits
    ]  # fmt: skip
    assert len(each) == 20
    assert_allclose(costs_of(fits.mean(plain), prepared), np.mean(each, axis=0), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("_few_C")
@pytest.mark.parametrize("is_linear", [True, False])
def test_a_union_is_linear_where_that_is_better_on_the_same_folds(is_linear):
    rng = default_rng(0)
    x = rng.normal(size=(60, 2))
    costs = 9 + (x if is_linear else np.sign(x)) @ rng.normal(size=(2, ROUTES.n_items))
    alone = PredictThenOptimize(ROUTES, random_state=0).fit(x, costs)
    model = clone(alone).set_params(
        weak_learner=["linear", "stump"], max_rounds=8, engine="serial"
    ).fit(x, costs)  # fmt: skip
    assert model.path_ == alone.path_
    assert isinstance(model.trainer_, StructuredSVM) == is_linear
    if is_linear:
        assert_array_equal(model.predict_costs(x), alone.predict_costs(x))
    else:
        # Both regrets by hand: of the same instances, in the same unit.
        sizes = (costs * ROUTES.solve_all(costs)).sum(axis=1) / model._model.scale
        held = [rows for _, rows in KFold(5, shuffle=True, random_state=0).split(x)]
        values = [sizes[rows].mean() for rows in held]
        boosted = [np.divide(r["losses"], values).mean() for r in model.trainer_.C_path_]
        assert min(boosted) < min(entry["regret"] for entry in model.path_)
        # Linear functions alone were judged before: boosting asks for no more solves of them.
        assert {r["weak_learner"] for r in model.trainer_.C_path_} == {"linear+stump"}


def test_smaller_c_are_tried_as_long_as_they_are_better(monkeypatch):
    regret_at = {1.0: 0.5, 3.0: 0.6, 10.0: 0.7, 30.0: 0.8, 0.3: 0.4, 0.1: 0.3, 0.03: 0.2}

    def path(self, svm, Cs):
        for C in Cs:
            regret = regret_at.get(C, 0.3)
            yield _Fit(self.preparation, None, HeldOut(regret, regret, False, -regret), np.zeros(2))

    monkeypatch.setattr(_Part, "path", path)
    x, costs = travel(10)
    task = PredictThenOptimizeTask(ROUTES)
    truth = task.best_decisions(x, costs)
    inputs = DecisionInputs(instance=x)
    fits = LinearFits(PredictThenOptimize(ROUTES), task, inputs, truth, ("none",))
    assert [entry["C"] for entry in fits.path] == [1.0, 3.0, 10.0, 30.0, 0.3, 0.1, 0.03, 0.01]
    assert fits.end == (
        "start none: the held-out score at C = 30 was smaller on every fold than at 1, and then "
        "the held-out score at C = 0.01 was smaller on every fold than at 0.03"
    )
    assert fits.chosen[:2] == (0.03, "none")


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


@pytest.mark.usefixtures("_few_C")
def test_held_out_instances_have_no_part_in_the_fits_that_they_judge():
    x, costs = travel(20)
    task = PredictThenOptimizeTask(ROUTES)
    held = np.zeros((20, 1), bool)
    held[next(KFold(5, shuffle=True, random_state=0).split(x))[1]] = True
    predicted = []
    for changed in (held, held & False):
        inputs = DecisionInputs(instance=np.where(changed, 50.0, x))
        truth = task.best_decisions(inputs, np.where(changed, 90.0, costs))
        parameters = PredictThenOptimize(ROUTES, random_state=0)
        fit = LinearFits(parameters, task, inputs, truth, ("least_squares",)).settings[0].fits[0]
        predicted.append(costs_of(fit.svm, fit.preparation.inputs(DecisionInputs(instance=x))))
    assert_array_equal(*predicted)


@pytest.mark.slow
def test_boosted_trees_give_a_start_that_has_not_seen_what_it_predicts():
    rng = default_rng(0)
    x = rng.normal(size=(90, 2))
    costs = 2 + (x[:, :1] > 0) * np.arange(12) + rng.uniform(0, 0.5, size=(90, 12))
    costs[40] += 100.0 * np.arange(12)  # no other instance tells of this
    inputs = DecisionInputs(instance=x)
    preparation, prepared = Preparation.fit(inputs, costs, "boosted")
    seen = preparation.inputs(inputs).items[:, :, -1]
    assert seen[40].max() > 1.5 * prepared.items[40, :, -1].max()
    # Features of items too: one function of all items, then one of each for what is left.
    both = [DecisionInput(a, b[:, None]) for a, b in zip(x, costs, strict=True)]
    _, prepared = Preparation.fit(FeatureReader.fit(both, None)[1], costs, "least_squares")
    predicted = prepared.items[:, :, -1]
    assert np.corrcoef(predicted.ravel(), costs.ravel())[0, 1] == pytest.approx(1.0)
    refused(
        "needs 3 instances; X has 2",
        PredictThenOptimize(ROUTES, C=1.0, start="boosted").fit,
        x[:2],
        costs[:2],
    )


class OutOfLicence(GridPath):
    """Fails at the first instance, as soon as so many calls were for so many instances."""

    def __init__(self, n_instances, n_calls):
        super().__init__(3, 3)
        self.n_instances, self.n_calls = n_instances, n_calls

    def solve_all(self, costs):
        self.n_calls -= len(costs) == self.n_instances
        return DecisionProblem.solve_all(self, costs)

    def solve(self, costs):
        if self.n_calls <= 0:
            raise RuntimeError("the licence has run out")
        return GridPath.solve_all(self, costs[None])[0]


@pytest.mark.parametrize(("part", "seed"), [("train", 2), ("held", 0), ("boosting", 7)])
def test_solver_that_fails_in_the_choice_of_c_names_the_instance_by_its_index(part, seed):
    x, costs = travel(20)
    train, held = next(KFold(5, shuffle=True, random_state=seed).split(x))
    boosting = random_folds(list(x), costs, random_state=seed)[0].rows
    rows = {"train": train, "held": held, "boosting": boosting}[part]
    assert rows[0] > 0
    model = PredictThenOptimize(
        OutOfLicence(len(rows), 1), random_state=seed,
        weak_learner="stump" if part == "boosting" else "linear",
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="licence") as error:
        model.fit(x, costs)
    assert f"X[{rows[0]}]" in error.value.__notes__[0]


def test_a_solver_that_fails_where_solves_are_spared_names_the_instance():
    # A sixteenth of the instances is solved at a time: the first three, then others.
    problem = OutOfLicence(3, 2)
    with pytest.raises(RuntimeError, match="licence") as error:
        PredictThenOptimize(problem, C=100.0, tol=1e-6, spare_solves=True).fit(*travel(40))
    assert "X[3]" in error.value.__notes__[0]


@pytest.mark.slow
@pytest.mark.parametrize("spare_solves", [False, True])
@pytest.mark.parametrize("shape", [(24, 12), (24, ROUTES.n_items, 12)])
def test_without_a_clear_gain_the_model_is_ridge_regression_and_prints_so(shape, spare_solves):
    """Few days for each feature of the instance, of one unit, or of the items, of several."""
    rng = default_rng(0)
    X = rng.normal(size=shape)
    costs = 9 + X @ rng.normal(size=(12, ROUTES.n_items)[: 4 - len(shape)])
    costs += rng.normal(size=costs.shape)
    X *= np.arange(1, 13) ** (len(shape) - 2)
    model = PredictThenOptimize(ROUTES, spare_solves=spare_solves, random_state=0).fit(X, costs)
    assert (model.C_, model.passes_) == (0.0, [])
    # No index has most of the variance of such costs.
    assert "index" not in str(model.path_)
    assert "# two stages by ridge regression; the SPO+ loss was not clearly better" in repr(model)
    rows = X.reshape(-1, 12)
    std = rows.std(axis=0)
    # Penalties are relative to the squares of costs and features, so their unit does not matter.
    rows = rows / (std if len(shape) > 2 else std.mean())
    ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(rows, costs.reshape(len(rows), -1))
    assert_allclose(model.predict_costs(X), ridge.predict(rows).reshape(costs.shape), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gains", "is_two_stages"),
    [([0, 0, 0, 0], True), ([1, 1, 1, -0.8], True), ([1, 1, 1, -0.4], False), ([-1] * 4, True)],
    ids=["tie", "1.2 errors", "1.9 errors", "loss"],
)
def test_a_fit_by_regret_must_beat_two_stages_clearly(gains, is_two_stages, monkeypatch):
    x, costs = travel(4)
    gains = dict(zip(map(tuple, x), gains, strict=True))

    def judged(self, svm):
        lead = [0.0 if svm.C_ == 0 else gains[tuple(row)] for row in x[self._held]]
        regrets = 5.0 - np.array(lead)
        return _Fit(self.preparation, svm, HeldOut(regrets.mean(), 0.0, False), regrets)

    monkeypatch.setattr(_Part, "judged", judged)
    model = PredictThenOptimize(ROUTES, start="least_squares", random_state=0).fit(x, costs)
    assert (model.C_ == 0.0) == is_two_stages
    assert ("two stages" in repr(model)) == is_two_stages
    assert model.path_[-1] == {"C": 0.0, "start": "least_squares", "regret": 5.0}


def stock(n, seed):
    """Costs of 20 sizes of an order, of which demand decides, by four features of the day."""
    rng = default_rng(seed)
    x = rng.normal(size=(n, 4))
    demand = 20 + 6 * x @ [0.6, -0.5, 0.4, 0.3] + 3 * rng.normal(size=n)
    left = np.linspace(3, 37, 20) - demand[:, None]
    return x, np.maximum(left, 0) + np.maximum(-4 * left, 0), demand


@pytest.mark.slow
@pytest.mark.parametrize(("n", "seed"), [(200, 0), (60, 3)])
def test_orders_are_as_good_as_by_quantile_regression(n, seed):
    x, costs, demand = stock(n, seed)
    held_x, held, _ = stock(500, 1)
    model = PredictThenOptimize(Choose(20, 1), random_state=0).fit(x, costs)
    assert "# minimised the SPO+ loss of smoothed costs over one index, C = 1000" in repr(model)
    quantile = QuantileRegressor(quantile=0.8, alpha=0.0).fit(x, demand).predict(held_x)
    nearest = np.abs(np.linspace(3, 37, 20) - quantile[:, None]).argmin(axis=1)
    cost = (model.predict(held_x) * held).sum(axis=1).mean()
    assert cost < 1.05 * held[np.arange(500), nearest].mean()


@pytest.mark.slow
def test_an_index_of_one_feature_does_not_replace_two_stages():
    rng = default_rng(100)
    slopes, x = rng.normal(size=(1, 8)), rng.normal(size=(25, 1))
    costs = 10 + x @ slopes + rng.normal(size=(25, 8))
    model = PredictThenOptimize(Choose(8, 3), random_state=0).fit(x, costs)
    assert "index" in str(model.path_)
    assert model.C_ == 0.0


def test_smoothed_costs_are_means_of_instances_of_a_similar_index():
    rng = default_rng(0)
    index, costs = rng.normal(size=(30, 1)), rng.normal(size=(30, 3))
    weights = np.exp(-2 * 30**0.4 * (index[7, 0] - index[:, 0]) ** 2)
    expected = np.average(costs, axis=0, weights=weights)
    assert_allclose(smoothed(index[7:8], index, costs), [expected])


@pytest.mark.parametrize("weak_learner", ["linear", "stump"])
def test_spared_solves_end_in_the_same_optimum(weak_learner):
    x, costs = travel(60)
    solve = Mock(side_effect=ROUTES.solve)
    plain = PredictThenOptimize(
        ROUTES, C=10.0, weak_learner=weak_learner, start="none", tol=0.01
    ).fit(x, costs)  # fmt: skip
    sparing = clone(plain).set_params(problem=SolvedBy(solve), spare_solves=True).fit(x, costs)
    last = sparing.passes_[-1]
    assert last["gap"] <= 0.01
    # One solve for each truth, then few at a time until the last, which solves all to certify.
    assert solve.call_count == len(x) + last["exact_solves"]
    assert last["certified"]
    assert last["exact_solves"] < len(x) * len(sparing.passes_)
    low, high = plain.history_[-1]["bound"], plain.history_[-1]["primal"]
    assert last["bound"] <= high + 1e-9
    assert low <= last["primal"] + 1e-9
    assert isinstance(sparing.trainer_, StructuredSVM if weak_learner == "linear" else StructBoost)
    assert last["primal"] == pytest.approx(primal_over_all(sparing, x, costs))
    # The largest values are the smallest costs.
    mirrored = clone(sparing).set_params(
        problem=SolvedBy(lambda v: ROUTES.solve(-v), maximize=True)
    ).fit(x, -costs)  # fmt: skip
    assert mirrored.passes_[-1]["primal"] == pytest.approx(last["primal"], rel=0.02)
    assert mirrored.score(x, -costs) == pytest.approx(sparing.score(x, costs), abs=0.01)


def test_decisions_of_less_cost_or_more_value_add_to_the_hinge():
    first, second = np.eye(3)[[[0], [1]]]
    for maximize, added in ((False, [0.0]), (True, [2.0])):
        problem, costs = Choose(3, 1, maximize=maximize), np.array([[1.0, 2.0, 0.0]])
        assert_array_equal(_slack(problem, costs, first, second), added)
        assert_array_equal(_slack(problem, -costs, second, first), added)


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


@pytest.mark.slow
def test_local_search_leaves_few_exact_solves(monkeypatch):
    rng = default_rng(3)
    x = rng.normal(size=(32, 2))
    costs = np.exp(x @ rng.normal(size=(2, 36)) / 2) * rng.uniform(0.7, 1.3, (32, 36))
    solve = Mock(side_effect=Tour(9).solve)
    monkeypatch.setattr(Tour, "solve", solve)

    def last_pass():
        return PredictThenOptimize(
            Tour(9), C=3.0, start="none", tol=0.03, random_state=0, spare_solves=True
        ).fit(x, costs).passes_[-1]  # fmt: skip

    last = last_pass()
    assert solve.call_count == len(x) + last["exact_solves"]
    assert last["certified"]
    assert last["gap"] <= 0.03
    # A search that finds nothing leaves the finding to exact solves.
    monkeypatch.setattr(Tour, "improve_all", lambda self, costs, decisions: decisions)
    assert last["exact_solves"] < last_pass()["exact_solves"]
    assert last["exact_solves"] <= 2 * len(x)


def test_gap_that_few_passes_leave_open_is_a_warning(monkeypatch):
    monkeypatch.setattr("structboost.decisions.training._MOST_SOLVES", 1)
    x, costs = travel(2)
    model = PredictThenOptimize(ROUTES, C=100.0, tol=1e-6, spare_solves=True)
    with pytest.warns(ConvergenceWarning, match="exact solves"):
        model.fit(x, costs)
    # Some of the hinge is not known yet; the recorded primal counts it all the same.
    assert model.passes_[-1]["primal"] == pytest.approx(primal_over_all(model, x, costs))


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
    assert model.fit(x[:1], costs[:1]).predict(x[:1]).shape == costs[:1].shape
    with pytest.warns(ConvergenceWarning, match="exact solves, above tol = 0.01; raise tol or max"):
        model.fit(x, costs)
    last = model.passes_[-1]
    assert last["certified"]
    assert last["gap"] > 0.01
    assert last["exact_solves"] <= 3 * len(x)


@pytest.mark.parametrize("start", ["least_squares", "index"])
def test_a_start_has_no_last_bits_that_processors_decide(start):
    x, costs = travel(40)
    _, prepared = Preparation.fit(DecisionInputs(instance=x), costs, start)
    _, others = Preparation.fit(DecisionInputs(instance=x), costs * (1 + 1e-15), start)
    for kind, table in prepared.tables.items():
        assert_array_equal(table, others.tables[kind])
