"""The scikit-learn faces."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.utils import compute_class_weight

from structboost import (
    BinnedTable,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
)
from structboost.learners import TreeFamily
from structboost.objectives import StageWiseLikelihood
from tests.helpers.refusals import refused

X, y = load_iris(return_X_y=True)


@pytest.mark.slow
def test_stage_wise_trees_are_the_default():
    default = StructBoostClassifier(max_iter=20).fit(X, y)
    trees = partial(
        TreeFamily, depth=5, max_features=default.max_features_, confident=True, row_fraction=0.5,
        random_state=0,
    )  # fmt: skip
    same = StructBoostClassifier(
        C=float("inf"), objective=StageWiseLikelihood(), weak_learner=trees, columns_per_channel=1,
        max_iter=20,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_array_equal(default.decision_function(X), same.decision_function(X))
    other = StructBoostClassifier(max_iter=20, random_state=1).fit(X, y)
    assert (other.decision_function(X) != default.decision_function(X)).any()
    assert default.C_ == np.inf
    assert not hasattr(default, "C_path_")


def test_weights_that_leave_one_class_are_refused():
    refused(
        "times class_weight leaves samples of class 0 only",
        StructBoostClassifier(class_weight={0: 1, 1: 0}).fit,
        [[0.0], [1.0]],
        [0, 1],
    )


@pytest.mark.parametrize(
    "parameters", [{}, {"objective": "l1_log_loss", "C": 50.0}, {"class_weight": "balanced"}]
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_early_stopping_watches_the_likelihood(parameters, n_classes):
    made = default_rng(0).normal(size=(400, 3))
    label = np.digitize(made[:, 0] + made[:, 1] * made[:, 2], [0, 1][: n_classes - 1])
    label = np.array(["a", "b", "c"])[label]
    model = StructBoostClassifier(max_iter=8, **parameters)
    model.fit(made[:200], label[:200], eval_set=(made[200:], label[200:]))
    if model.temperature_ is not None:  # it is fitted after the rounds that are watched
        model.link_ = model.link_.sharpened(1 / model.temperature_)
    # Held-out classes weigh as those of training.
    classes, places = np.unique(label, return_inverse=True)
    by_class = compute_class_weight(model.class_weight, classes=classes, y=label[:200])
    weights = by_class[places[200:]]
    expected = log_loss(label[200:], model.predict_proba(made[200:]), sample_weight=weights)
    assert min(model.validation_losses_) == pytest.approx(expected)


def test_the_defaults_learn_from_few_distinct_rows():
    rng = default_rng(0)
    made = rng.integers(0, 2, (2000, 1))
    label = rng.random(2000) < np.where(made[:, 0] == 0, 0.2, 0.7)
    shares = [label[made[:, 0] == value].mean() for value in (0, 1)]
    for seed in range(3):
        model = StructBoostClassifier(random_state=seed).fit(made, label)
        assert model.predict_proba([[0], [1]])[:, 1] == pytest.approx(shares, abs=0.02)
        ranker = StructBoostRanker(random_state=seed).fit([[0], [1]], [0, 1])
        assert np.diff(ranker.predict([[0], [1]])) > 0


def test_the_default_refuses_a_table_on_disk_with_a_remedy(tmp_path):
    table = BinnedTable.from_array(tmp_path / "table", X)
    refused(
        "X is a BinnedTable, on which objective='log_loss'", StructBoostClassifier().fit, table, y
    )


def test_a_ranker_respects_queries():
    # Within a query relevance follows the feature, over all items it follows the query's offset.
    qid = np.repeat(np.arange(20), 10)
    within = default_rng(0).normal(size=200)
    made = np.column_stack((within, 5.0 * qid))
    relevance = np.digitize(within, [-0.5, 0.5]) + 10 * (19 - qid)
    ranker = StructBoostRanker("hinge", C=50).fit(made, relevance, qid=qid)
    assert ranker.score(made, relevance, qid=qid) > 0.99
    assert ranker.feature_importances_[0] == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["one_slack", "m_slack"])
def test_weights_of_items_and_queries_are_those_of_their_copies(formulation):
    rng = default_rng(0)
    made, qid = rng.normal(size=(48, 3)), np.repeat(np.arange(6), 8)
    relevance = np.digitize(made[:, 0] * np.where(qid % 2, 1, -1) + 0.3 * made[:, 1], [-0.4, 0.4])
    ranker = StructBoostRanker("hinge", C=30, tol=1e-6, formulation=formulation)

    def optimum(rows, queries=None, weights=None):
        fit = ranker.fit(made[rows], relevance[rows], qid=queries, sample_weight=weights)
        return fit.objective_

    whole, times = np.arange(48), rng.integers(0, 3, 48)
    copied = optimum(np.repeat(whole, times))
    assert optimum(whole, weights=times) == pytest.approx(copied, rel=1e-5)
    twice = optimum(np.append(whole, whole[:24]), np.append(qid, qid[:24] + 6))
    weights = np.where(np.arange(6) < 3, 2.0, 1.0)
    for each in (weights, weights[qid]):
        assert optimum(whole, qid, each) == pytest.approx(twice, rel=1e-5)
    assert optimum(whole, qid) != pytest.approx(twice, rel=1e-3)


def test_slack_indices_without_examples_refuse_weights():
    class Silent(RankingTask):
        def separate_slacks(self, X, Y, scores, limit):
            return replace(super().separate_slacks(X, Y, scores, limit), examples=None)

    made = default_rng(0).normal(size=(48, 3))
    relevance = np.digitize(made[:, 0], [-0.4, 0.4])
    trainer = StructBoost(Silent(), C=5, formulation="m_slack", max_rounds=3)
    assert trainer.fit([made, made], [relevance, relevance]).history_
    refused(
        r"Separation\.examples",
        trainer.fit,
        [made, made],
        [relevance, relevance],
        sample_weight=[1, 2],
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"qid": [1, 2, 3]}, r"qid is \[1, 2, 3\], of shape \(3,\)"),
        ({"qid": [1, np.nan, *[2] * 148]}, r"qid\[1\] is nan; give every entry a group"),
        ({"qid": np.array(["a", 1, *[2] * 148], object)}, "qid mixes strings and numbers"),
        ({"qid": "abc"}, "^qid is "),
        ({"group": np.zeros((150, 2), int)}, "^group is "),
        ({"sample_weight": [1, 2, 3]}, r"sample_weight has shape \(3,\)"),
        ({"y": np.zeros(len(X))}, "one level of relevance"),
    ],
)
def test_bad_queries_are_named(parameters, message):
    refused(message, StructBoostRanker().fit, X, **{"y": y, **parameters})


def test_examples_that_are_alone_in_their_class_choose_no_C():
    few = "each of the 2 examples is the only one of its class; give more examples, or give C"
    refused(few, StructBoostClassifier("hinge", weak_learner="stump").fit, X[:2], [0, 1])


def test_scores_of_a_ranker_weigh_queries_and_items_like_repetitions():
    rng = default_rng(0)
    X, y, qid = rng.normal(size=(60, 3)), rng.integers(0, 3, size=60), np.repeat(np.arange(6), 10)
    ranker = StructBoostRanker(max_iter=5).fit(X, y + (X[:, 0] > 1), qid=qid)
    weights = np.array([0.0, 3.0, 1.0, 0.0, 2.0, 1.0])
    scores = [ranker.score(X[qid == q], y[qid == q]) for q in range(6)]
    found = ranker.score(X, y, sample_weight=weights, group=[10] * 6)
    assert found == pytest.approx(np.average(scores, weights=weights))
    times = rng.integers(0, 3, size=60)
    repeated = [np.repeat(column, times, axis=0) for column in (X, y, qid)]
    weights = [times[qid == q].mean() for q in range(6)]
    found = ranker.score(X, y, qid, sample_weight=times)
    assert found == pytest.approx(ranker.score(*repeated, sample_weight=weights))
    assert found != pytest.approx(ranker.score(X, y, qid))
    refused(
        "one level of relevance", ranker.score, X, y, qid, sample_weight=np.where(y == 1, 1.0, 0.0)
    )


@pytest.mark.parametrize("parameters", [{}, {"early_stopping": True, "validation_fraction": 0.3}])
def test_a_query_that_the_loss_does_not_take_is_named_by_its_id(parameters):
    rng = default_rng(0)
    X, queries = rng.normal(size=(100, 2)), np.repeat([*"abcdefghij"], 10)
    binary = np.where(np.arange(100) % 10, rng.integers(0, 2, 100), 0)
    ranker = StructBoostRanker(
        objective="hinge", loss="map", C=1.0, max_iter=1, random_state=0, **parameters
    ).fit(X, binary, qid=queries)
    for index in (0, 4, 9):
        y = binary + 2 * (np.arange(100) == 10 * index)
        for call in (ranker.score, clone(ranker).fit):
            refused(f"The query '{'aej'[index // 4]}'.* has 3 levels", call, X, y, qid=queries)
