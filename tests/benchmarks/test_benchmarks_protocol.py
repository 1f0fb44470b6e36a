"""Splits, candidates, and the methods that go through the protocol, on made data."""

from inspect import signature

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.ours import methods
from benchmarks.ours.methods import certified_gap
from benchmarks.papers import auc, multiclass, unions
from benchmarks.peers.classifiers import AdaBoost, HistGradientBoosting, OneVsAllSVM
from benchmarks.runner import protocol
from benchmarks.runner.datasets import made_table, parts, some_of_each_class, split


def class_tables(n=200):
    X, y = make_classification(n, 6, n_informative=4, n_classes=3, random_state=0)
    return parts(X.astype(np.float32), y, y, repeat=0)


def ranking_tables(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, size=(n, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + rng.normal(scale=3.0, size=n) > 9).astype(np.int64)
    return parts(X, y, y, repeat=0)


def test_split_is_seeded_stratified_and_a_partition():
    y = np.repeat([0, 1, 2, 3], [40, 20, 4, 2])
    train, validation, test = split(y, seed=3)
    assert sorted(np.concatenate([train, validation, test])) == list(range(len(y)))
    assert np.bincount(y[train]).tolist() == [20, 10, 2, 2]
    assert np.bincount(y[validation], minlength=4).tolist() == [10, 5, 1, 0]
    assert np.array_equal(train, split(y, seed=3).train)
    assert not np.array_equal(train, split(y, seed=4).train)


def test_spread_keeps_the_last_candidate():
    candidates = [{"C": C} for C in range(6)]
    assert protocol.spread(candidates, 6) == candidates
    assert [c["C"] for c in protocol.spread(candidates, 2)] == [0, 5]
    assert [c["C"] for c in protocol.spread(candidates, 3)] == [0, 2, 5]
    assert [c["C"] for c in protocol.spread(candidates, 1)] == [5]


def test_protocol_says_what_was_cut():
    assert protocol.Protocol().note is None
    assert "3 of 5 repeats" in protocol.Protocol(3, 6).note


class Recorder(OneVsAllSVM):
    """Two candidates, the second one better."""

    def trials(self, train, validation, candidates, objective):
        return [
            protocol.Trial({"C": 1.0}, 0.5),
            protocol.Trial({"C": 10.0}, 0.2),
            protocol.Trial({"C": 100.0}, 0.2),
        ]


def test_measure_takes_the_first_of_the_best_candidates():
    result = protocol.measure(Recorder(), protocol.ERROR, class_tables(), 3)
    assert result["C"] == 10.0
    assert 0 <= result["value"] < 0.5
    assert result["seconds"] > 0
    assert result["predict_us"] > 0


@pytest.mark.parametrize(
    "method", [OneVsAllSVM(), HistGradientBoosting(), AdaBoost()], ids=lambda m: m.name
)
def test_classifiers_beat_chance(method, monkeypatch):
    fit = signature(HistGradientBoostingClassifier.fit).parameters
    if isinstance(method, HistGradientBoosting) and "X_val" not in fit:
        pytest.skip("this scikit-learn takes no validation part; the benchmarks need 1.7")
    monkeypatch.setattr("benchmarks.peers.classifiers.MAX_ADABOOST_ROUNDS", 20)
    result = protocol.measure(method, protocol.ERROR, class_tables(), 1)
    assert result["value"] < 0.5
    assert len(result["validation"]) == 1


def test_lightgbm_beats_chance():
    pytest.importorskip("lightgbm")
    from benchmarks.peers.classifiers import LightGBMClassifier, LightGBMRanker

    assert protocol.measure(LightGBMClassifier(), protocol.ERROR, class_tables(), 1)["value"] < 0.5
    assert protocol.measure(LightGBMRanker(), protocol.AUC, ranking_tables(), 1)["value"] > 0.6


def test_hinge_trees_grow_as_deep_as_the_best_candidate_says(monkeypatch):
    monkeypatch.setattr(methods, "MAX_ROUNDS", 5)
    union = unions.methods("glass")[4]
    depths = []

    def trial(train, validation, params, objective):
        depths.append(params["depth"])
        return protocol.Trial(params, 0.1 if params["depth"] == 5 else 0.2)

    monkeypatch.setattr(union, "trial", trial, raising=False)
    result = protocol.measure(union, protocol.ERROR, class_tables(), 3)
    assert sorted(set(depths)) == [3, 5]
    assert result["params"]["depth"] == 5
    assert result["value"] < 0.5
    assert result["gap"] is None
    assert [params["alone"] for params in union.candidates] == 6 * [True] + 6 * [False]
    alone = union.fit(class_tables()[0], {"depth": 3, "C": 30.0, "alone": True})
    assert alone.model_.members["x"].family == "tree"
    model = union.fit(class_tables()[0], {"depth": 5, "C": 30.0})
    linear, of_trees = model.model_.members["x"].learners.tables
    assert linear.coefficients.shape[1] == 6
    assert of_trees.leaf.shape[1] == 2**5
    assert union.name == unions.UNION_OF_TREES


@pytest.mark.parametrize("kept", ["linear", "linear+stump"])
def test_a_union_is_fitted_as_the_library_chose_it_on_the_validation_part(kept, monkeypatch):
    def alternatives(weak_learner):
        assert weak_learner == ["linear", "stump"]
        return [kept.split("+")]

    monkeypatch.setattr("structboost.training.boosting.alternatives", alternatives)
    tables = class_tables()
    union = unions.methods("glass")[2]
    result = protocol.measure(union, protocol.ERROR, tables, 6)
    assert result["params"] == {"C": result["C"], "weak_learner": kept.split("+")}
    assert result["value"] < 0.5
    assert result["gap"] <= union.gap
    (trial,) = union.trials(tables.train, tables.validation, union.candidates, protocol.ERROR)
    model = union.fit(tables.train, trial.params)
    assert model.model_.members["x"].family == kept
    wrong = union.output(model, tables.validation.X) != tables.validation.y
    assert result["validation"] == [trial.value] == [np.mean(wrong)]
    ranked = protocol.measure(unions.RANKERS[2], protocol.AUC, ranking_tables(), 6)
    assert ranked["params"]["weak_learner"] == kept.split("+")
    assert ranked["value"] > 0.6


def test_a_linear_ranker_beats_chance():
    result = protocol.measure(unions.RANKERS[0], protocol.AUC, ranking_tables(), 1)
    assert result["value"] > 0.6
    assert result["gap"] <= 0.001


def test_every_grid_has_the_same_size_but_where_trees_alone_are_tried_too():
    of_unions = (*unions.RANKERS, *unions.methods("glass"))
    for method in (*auc.METHODS, *multiclass.methods("glass"), *of_unions):
        times = 2 if method.name == unions.UNION_OF_TREES else 1
        assert len(method.candidates) == times * protocol.CANDIDATES, method.name


@pytest.mark.parametrize("helps", [True, False])
def test_spreading_is_chosen_on_the_validation_part(monkeypatch, helps):
    """Not on the test part, and not where it changes nothing."""
    method = methods.stumps(0.05)
    tables = class_tables()
    spread_models = []

    def output(model, X):
        spread = getattr(model, "spread", 0.0)  # 0 in the stages of a model
        spread_models.append(spread)
        good, bad = (
            (tables[1].y, 2 - tables[1].y)
            if len(X) == len(tables[1].y)
            else (np.zeros(len(X)),) * 2
        )
        return good if (spread > 0) == helps else bad

    monkeypatch.setattr(method, "output", output)
    result = protocol.measure(method, protocol.ERROR, tables, 2)
    assert result["params"].get("spread") == (0.05 if helps else None)
    assert len(result["validation"]) == 3  # two C, and the better one with spread weights
    assert [p["C"] for p in result["path"]] == [method.candidates[k]["C"] for k in (0, -1)]
    assert 0.05 in spread_models
    assert result["gap"] <= 0.05
    assert result["tuned_in_time"]


def test_perceptrons_are_trained_by_structboost_and_prove_nothing():
    method = methods.perceptrons(0.02, 10)
    method.candidates = [{"C": 100.0}]
    result = protocol.measure(method, protocol.ERROR, class_tables(), 1)
    assert result["value"] < 0.4
    assert result["gap"] is None
    assert not result["certified"]
    assert max(map(int, result["by_round"])) == result["rounds"] <= 10
    assert result["by_round"][result["rounds"]] == result["value"]


def test_gaps_are_shown_only_where_they_are_certified():
    assert certified_gap({"gap": 0.01, "certified": True}) == 0.01
    assert certified_gap({"gap": 0.01, "certified": False}) is None
    assert certified_gap({"gap": None, "certified": False}) is None


def test_made_data_and_samples():
    data = made_table(500, 3, 4)
    assert data.X.shape == (500, 3)
    assert data.X.dtype == np.float32
    assert data.content == made_table(500, 3, 4).content
    assert data.content != made_table(500, 3, 4, seed=1).content
    y = np.repeat([0, 1], 50)
    assert np.bincount(y[some_of_each_class(y, 7, seed=0)]).tolist() == [7, 7]
