"""Choice of C and of the start of decisions, on held-out instances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor, RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from structboost import PredictThenOptimize, StructuredSVM
from structboost.decisions import (
    Choose,
    DecisionInput,
    GridPath,
    PredictThenOptimizeTask,
)
from structboost.decisions.inputs import DecisionInputs, FeatureReader
from structboost.decisions.model import Preparation, costs_of
from structboost.decisions.problem import DecisionProblem
from structboost.decisions.training import LinearFits, _Fit, _Part, smoothed
from structboost.selection.folds import random_folds
from structboost.selection.held_out import HeldOut
from tests.helpers.travel import ROUTES, travel


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
        if setting.C
    ]
    assert len(each) == 20
    monkeypatch.setattr("structboost.decisions.training._CLEARLY", -99.0)
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

    def path(self, svm, Cs):
        for C in Cs:
            regret = regret_at.get(C, 0.3)
            held_out = HeldOut(regret, regret, False, -regret)
            yield _Fit(self.preparation, None, held_out, np.zeros(2))

    monkeypatch.setattr(_Part, "path", path)
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


def rows_of_first_fold(part, seed):
    x, costs = travel(20)
    if part == "boosting":
        return random_folds(list(x), costs, random_state=seed)[0].rows
    train, held = next(KFold(5, shuffle=True, random_state=seed).split(x))
    return train if part == "train" else held


@pytest.mark.parametrize(("part", "seed"), [("train", 2), ("held", 0), ("boosting", 7)])
def test_solver_that_fails_in_the_choice_of_c_names_the_instance_by_its_index(part, seed):
    rows = rows_of_first_fold(part, seed)
    assert rows[0] > 0
    model = PredictThenOptimize(
        OutOfLicence(3, 3, len(rows), 1), random_state=seed,
        weak_learner="stump" if part == "boosting" else "linear",
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="licence") as error:
        model.fit(*travel(20))
    assert f"X[{rows[0]}]" in error.value.__notes__[0]


def test_a_solver_that_fails_where_solves_are_spared_names_the_instance():
    # A sixteenth of the instances is solved at a time: the first three, then others.
    problem = OutOfLicence(3, 3, 3, 2)
    with pytest.raises(RuntimeError, match="licence") as error:
        PredictThenOptimize(problem, C=100.0, tol=1e-6, spare_solves=True).fit(*travel(40))
    assert "X[3]" in error.value.__notes__[0]


def few_days(kind, seed=0, n=24, n_features=12):
    """Few days for each feature: costs of items, and features of the instance or of the items."""
    rng = np.random.default_rng(seed)
    shape = (n, n_features) if kind == "instance" else (n, ROUTES.n_items, n_features)
    X = rng.normal(size=shape)
    weights = rng.normal(size=(n_features, ROUTES.n_items) if kind == "instance" else n_features)
    costs = X @ weights
    return X, 9 + costs + rng.normal(size=costs.shape)


@pytest.mark.parametrize("spare_solves", [False, True])
@pytest.mark.parametrize("kind", ["instance", "items"])
def test_without_a_clear_gain_the_model_is_ridge_regression_and_prints_so(
    kind, spare_solves, tmp_path
):
    X, costs = few_days(kind)
    model = PredictThenOptimize(ROUTES, spare_solves=spare_solves, random_state=0).fit(X, costs)
    assert (model.C_, model.passes_) == (0.0, [])
    assert "# two stages by ridge regression; the SPO+ loss was not clearly better" in repr(model)
    rows = X.reshape(-1, X.shape[-1])
    targets = costs if kind == "instance" else costs.ravel()
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    # Penalties are relative to the costs' squares, so their unit does not matter.
    expected = ridge.fit(rows, targets).predict(rows).reshape(costs.shape)
    np.testing.assert_allclose(model.predict_costs(X), expected, rtol=1e-9)
    model.save(tmp_path / "m")
    loaded = PredictThenOptimize.load(tmp_path / "m", ROUTES)
    np.testing.assert_array_equal(loaded.predict_costs(X), model.predict_costs(X))
    assert repr(loaded) == repr(model)


@pytest.mark.parametrize(
    ("gains", "is_two_stages"),
    [([0, 0, 0, 0], True), ([1, -1, 1, 0], True), ([1, 1.1, 0.9, 1], False), ([-1] * 4, True)],
    ids=["tie", "noise", "clear", "loss"],
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
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    demand = 20 + 6 * x @ [0.6, -0.5, 0.4, 0.3] + 3 * rng.normal(size=n)
    left = np.linspace(3, 37, 20) - demand[:, None]
    return x, np.maximum(left, 0) + np.maximum(-4 * left, 0), demand


@pytest.mark.slow
def test_orders_are_as_good_as_by_quantile_regression():
    x, costs, demand = stock(200, 0)
    held_x, held, _ = stock(500, 1)
    model = PredictThenOptimize(Choose(20, 1), random_state=0).fit(x, costs)
    assert "# minimised the SPO+ loss of smoothed costs over one index, C = 1000" in repr(model)
    quantile = QuantileRegressor(quantile=0.8, alpha=0.0).fit(x, demand).predict(held_x)
    nearest = np.abs(np.linspace(3, 37, 20) - quantile[:, None]).argmin(axis=1)
    by_quantile = held[np.arange(500), nearest].mean()
    assert (model.predict(held_x) * held).sum(axis=1).mean() < 1.05 * by_quantile


def test_smoothed_costs_are_means_of_instances_of_a_similar_index():
    rng = np.random.default_rng(0)
    index, costs = rng.normal(size=(30, 1)), rng.normal(size=(30, 3))
    weights = np.exp(-2 * 30**0.4 * (index[7, 0] - index[:, 0]) ** 2)
    expected = np.average(costs, axis=0, weights=weights)
    np.testing.assert_allclose(smoothed(index[7:8], index, costs), [expected])
