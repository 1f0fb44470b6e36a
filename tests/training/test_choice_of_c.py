"""C by held-out examples."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris

from structboost import (
    BinnedTable,
    CPathDisplay,
    MatchingTask,
    MulticlassTask,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
)
from structboost.errors import EmptyModelWarning
from structboost.objectives.stage_wise import StageWise
from structboost.selection import Fold, held_out
from structboost.selection.folds import random_folds, split_rows
from structboost.selection.held_out import HeldOut
from structboost.selection.path import FACTOR, Trial, silent
from structboost.training.choice_of_c import ChosenC, _follow, choose_C
from tests.helpers.engine_tasks import PressingTask
from tests.helpers.refusals import refused

X, y = load_iris(return_X_y=True)
QUICK = {"max_rounds": 15, "tol": 0.05}


def chooser(task=None, **settings):
    task = MulticlassTask(3) if task is None else task
    return StructBoost(task, **{"C": "auto", **QUICK, **settings})


def hinge(face=StructBoostClassifier, weak_learner="stump", **settings):
    return face(objective="hinge", max_iter=15, tol=0.05, weak_learner=weak_learner, **settings)


def noisy(n=150):
    """Three classes that depend on the first two of six features, a fifth of them wrong."""
    random = default_rng(0)
    made = random.normal(size=(n, 6)).round(1)
    label = np.digitize(made[:, 0] + made[:, 1] * np.abs(made[:, 1]), [-0.6, 0.6])
    wrong = random.random(n) < 0.2
    return made, np.where(wrong, random.integers(0, 3, n), label)


MADE, LABEL = noisy()


def without_seconds(records):
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 9))
@settings(max_examples=60)
def test_folds_are_stratified_with_single_examples_in_training(strata, seed):
    strata = np.array(strata)
    counts = np.bincount(strata)
    if counts.max() < 2:
        refused("give C as a number", split_rows, strata, seed)
        return
    folds = split_rows(strata, seed)
    held = np.concatenate([out for _, out in folds])
    assert_array_equal(np.sort(held), np.flatnonzero(counts[strata] > 1))
    for train, out in folds:
        assert_array_equal(np.sort(np.r_[train, out]), np.arange(len(strata)))
        shares = np.bincount(strata[out], minlength=len(counts)) - counts / 5
        assert (np.abs(shares[counts > 1]) < 1).all()


def test_many_examples_are_held_out_once_and_those_of_weight_zero_never():
    (fold,) = random_folds(np.arange(2000), np.arange(2000), strata=np.arange(2000) % 2)
    assert len(fold.held_X) == 400
    assert fold.held_X.sum() != np.arange(400).sum()
    assert (fold.held_X % 2).sum() == 200
    weights = np.where(np.arange(30) < 10, 0.0, 1.0)
    for fold in random_folds(np.arange(30), list(range(30)), weights):
        assert sorted([*fold.Y, *fold.held_Y]) == list(range(10, 30))


@pytest.mark.slow
def test_the_path_goes_up_from_the_smallest_c_and_the_best_is_taken():
    trainer = chooser().fit(MADE, LABEL)
    Cs = [record["C"] for record in trainer.C_path_]
    losses = [record["loss"] for record in trainer.C_path_]
    smallest = min(
        chooser(C=50.0, max_rounds=1).fit(fold.X, fold.Y).history_[0]["smallest_C"]
        for fold in random_folds(MADE, LABEL)
    )
    assert Cs[0] / FACTOR < smallest < Cs[0]
    assert losses == [np.mean(record["losses"]) for record in trainer.C_path_]
    best = min((r for r in trainer.C_path_ if r["columns"]), key=lambda r: r["surrogate"])
    assert trainer.C_ == best["C"]
    assert trainer.C_path_end_
    # A fifth of the labels is wrong: large C fit them, and are not walked to.
    assert min(losses) < 0.6 * losses[0]
    assert len(Cs) < 10


def test_c_are_powers_of_the_factor_whatever_the_weights():
    noise = default_rng(0).normal(size=len(LABEL))
    weighted = [chooser().fit(MADE, LABEL, 1.0 + size * noise) for size in (0.0, 0.01)]
    first, other = ([record["C"] for record in trainer.C_path_] for trainer in weighted)
    rungs = np.log(first) / np.log(FACTOR)
    assert_allclose(rungs, rungs.round(), atol=0.002)
    assert_array_equal(np.diff(rungs.round()), 1)
    assert first == other


@pytest.mark.parametrize("smallest", [1.0, 1.0 - 1e-15, 1.0 + 1e-15, 1000.0])
def test_a_path_begins_above_the_smallest_c_whatever_its_last_bits(smallest, monkeypatch):
    fits = Mock(**{"begin.return_value": smallest, "fit.side_effect": KeyboardInterrupt})
    with pytest.raises(KeyboardInterrupt):
        _follow(fits, ChosenC("stump"), silent)
    fits.fit.assert_called_once_with(pytest.approx(smallest * FACTOR, rel=2e-3))


@pytest.mark.slow
def test_the_fit_equals_one_with_the_chosen_c_each_time():
    called = []
    first = chooser(callbacks=[lambda r, t: called.append(t.C)]).fit(MADE, LABEL)
    assert called == [first.C_] * len(first.history_)
    with_C = chooser(C=first.C_).fit(MADE, LABEL)
    assert_array_equal(with_C.model_.scores(MADE), first.model_.scores(MADE))
    assert with_C.C_ == with_C.C == first.C_
    assert not hasattr(with_C, "C_path_")
    for settings_, same in (({"engine": "serial"}, True), ({"random_state": 5}, False)):
        path = without_seconds(chooser(**settings_).fit(MADE, LABEL).C_path_)
        assert (path == without_seconds(first.C_path_)) == same


def sloped():
    """Three classes along one direction of four features: what stumps know by many steps only."""
    random = default_rng(0)
    made = random.normal(size=(90, 4))
    score = made @ random.normal(size=4)
    return made, np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))


@pytest.mark.slow
def test_a_clearly_better_family_replaces_its_union():
    made, label = sloped()
    union = ["linear", "stump"]
    both = chooser(weak_learner=union).fit(made, label)
    alone = [chooser(weak_learner=name).fit(made, label) for name in union]
    names = [record["weak_learner"] for record in both.C_path_]
    assert list(dict.fromkeys(names)) == ["linear+stump", "linear", "stump"]
    of_one_family = [record for record in both.C_path_ if record["weak_learner"] != names[0]]
    paths = [record for trainer in alone for record in trainer.C_path_]
    assert without_seconds(of_one_family) == without_seconds(paths)
    best = min(both.C_path_, key=lambda record: record["surrogate"])
    assert (best["weak_learner"], alone[0].C_) == ("linear", both.C_)
    assert_array_equal(both.model_.scores(made), alone[0].model_.scores(made))
    assert both.history_[-1]["bound"] == alone[0].history_[-1]["bound"]
    assert both.weak_learner == union
    both.fit(made, label, can_split=False)
    assert {record["weak_learner"] for record in both.C_path_} == {"linear+stump"}
    assert both.model_.members["x"].family == "linear+stump"


@pytest.mark.parametrize(
    ("losses", "chosen"),
    [
        ({"both": [0.5, 0.4, 0.45, 0.45], "one": [0.6, 0.39, 0.5, 0.5]}, ("both", 10**0.5)),
        ({"both": [0.5, 0.4, 0.45, 0.45], "one": [0.6, 0.5, 0.38, 0.37, 0.4, 0.4]}, ("one", 31.6)),
        # Without a held-out loss there is nothing to look for.
        ({"both": [0.5, 0.0], "one": []}, ("both", 10**0.5)),
        ({"both": [0.5] * 5, "one": [0.49, 0.4, 0.5, 0.5], "two": [0.395] * 5}, ("one", 3.16)),
    ],
)
def test_other_weak_learners_must_be_clearly_better(losses, chosen, monkeypatch):
    class Told:
        def __init__(self, plan, *others):
            self.weak_learner, self.left = plan.weak_learner, iter(losses[plan.weak_learner])

        def begin(self):
            return 0.5

        def fit(self, C):
            loss = next(self.left)
            measured = [HeldOut(loss, loss, is_constant=False)]
            return Trial(measured, {"weak_learner": self.weak_learner})

    monkeypatch.setattr("structboost.training.choice_of_c._FoldFits", Told)
    found = choose_C(chooser(C=1.0)._plan(), list(losses), [], lambda text: None)
    assert (found.weak_learner, found.C) == (chosen[0], pytest.approx(chosen[1], rel=0.01))
    assert len(found.records) == sum(map(len, losses.values()))


@pytest.mark.slow
def test_a_held_out_example_of_weight_two_is_one_given_twice():
    def losses(rows, weights=None):
        fold = Fold(MADE[:100], LABEL[:100], None, MADE[rows], LABEL[rows], weights)
        return [record["loss"] for record in chooser().fit(MADE, LABEL, folds=[fold]).C_path_]

    held = np.arange(100, 150)
    weighted = losses(held, np.where(held < 120, 2.0, 1.0))
    assert weighted == pytest.approx(losses(np.r_[100:150, 100:120]))
    assert weighted != pytest.approx(losses(held))


@pytest.mark.parametrize("formulation", ["m_slack", "exponential"])
def test_other_formulations_choose_c(formulation):
    trainer = chooser(formulation=formulation)
    assert trainer.fit(X, y).score(X, y) > -0.1
    assert trainer.C_ == trainer.model_.metadata["C"]


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (chooser(formulation=StageWise()), slice(None), "C='auto' needs can_choose_C, which Stag"),
        (chooser(), slice(1), "there is one example; give more"),
        (hinge(), [0, 60], "give C as a number"),
        (hinge(StructBoostRanker), [0, 60], "give C as a number"),
    ],
)
def test_auto_c_is_refused_where_nothing_can_be_held_out(model, rows, message):
    refused(message, model.fit, X[rows], y[rows])


def test_auto_c_is_refused_for_a_table_on_disk(tmp_path):
    refused(
        "X is a BinnedTable; give C as a number",
        hinge().fit,
        BinnedTable.from_array(tmp_path / "table", X),
        y,
    )


def test_a_class_of_one_sample_stays_in_training():
    rows = np.r_[0:30, 50:80, 100]
    model = hinge(class_weight="balanced").fit(X[rows], y[rows])
    assert len(model.classes_) == 3
    assert model.predict(X[[100]]) == 2


def test_uninformative_features_give_an_empty_model():
    trainer = StructBoost(MulticlassTask(2))
    made, label = np.ones((20, 2)), np.arange(20) % 2
    with pytest.warns(EmptyModelWarning, match="No larger C helps"):
        trainer.fit(made, label, folds=[Fold(made, label, None, made[:5], label[:5])])
    assert trainer.C_path_ == []
    assert trainer.C_path_end_ == "no weak learner has an edge"
    refused("no weak learner had an edge", CPathDisplay.from_estimator, trainer)


def test_early_stopping_and_c_share_one_held_out_part():
    data = load_breast_cancer(return_X_y=True)
    model = hinge(early_stopping=True, n_iter_no_change=3, random_state=0).fit(*data)
    assert all(len(record["losses"]) == 1 for record in model.C_path_)
    assert model.n_iter_ == int(np.argmin(model.validation_losses_)) + 1


@pytest.mark.slow
def test_rankers_hold_out_queries_or_items():
    made, label = noisy(200)
    qid = np.repeat(np.arange(20), 10)
    ranker = hinge(StructBoostRanker).fit(made, label, qid=qid)
    assert ranker.score(made, label, qid=qid) > 0.8
    trainer = chooser(RankingTask()).fit(np.split(made, 20), np.split(label, 20))
    assert without_seconds(trainer.C_path_) == without_seconds(ranker.C_path_)
    weights = np.where(np.arange(200) % 3, 1.0, 2.0)
    for relevance in (label, made[:, 0]):
        single = hinge(StructBoostRanker).fit(made, relevance, sample_weight=weights)
        assert single.score(made, relevance) > 0.75
        assert len(single.C_path_[0]["losses"]) == 5


def test_ctrl_c_while_c_is_chosen_leaves_no_model():
    trainer = chooser(PressingTask(at=10))
    with pytest.raises(KeyboardInterrupt, match="before it had a model"):
        trainer.fit(MADE, LABEL)
    assert not hasattr(trainer, "model_")


@pytest.mark.slow
@pytest.mark.parametrize(("scoring", "measure"), [(None, "surrogate"), ("accuracy", "score")])
def test_the_path_display_draws_the_path_of_each_family_of_a_union(scoring, measure):
    pytest.importorskip("matplotlib").use("Agg")
    union = hinge(weak_learner=["stump", "linear"], scoring=scoring).fit(*sloped())
    (axes, *_) = CPathDisplay.from_estimator(union).ax_
    means = {line.get_label().split(",")[0]: line for line in axes.get_lines()}
    named = [name for name in means if name[0] != "_"]
    assert named[:-1] == ["stump+linear", "stump", "linear"]
    for name in named[:-1]:
        path = [record for record in union.C_path_ if record["weak_learner"] == name]
        assert_array_equal(means[name].get_xdata(), [r["C"] for r in path])
        assert_array_equal(means[name].get_ydata(), [r[measure] for r in path])
    assert axes.get_ylabel() == f"held-out {measure}"
    assert scoring or union.model_.members["x"].family == "linear"
    refused("has no C_path_", CPathDisplay.from_estimator, hinge(C=1.0))


def test_c_of_large_matchings_is_chosen_without_a_list_of_permutations(monkeypatch):
    def never(*arguments):
        raise AssertionError("the likelihood of a matching lists all permutations")

    monkeypatch.setattr(held_out, "scaled_log_loss", never)
    random = default_rng(0)
    orders = [random.permutation(8) for _ in range(12)]
    pairs = [
        ((np.eye(8)[order] + 0.3 * random.normal(size=(8, 8)))[:, :, None]) for order in orders
    ]
    trainer = chooser(MatchingTask(), max_rounds=5, tol=0.1)
    assert trainer.fit(pairs, orders, folds=random_folds(pairs, orders)[:1]).C_path_
