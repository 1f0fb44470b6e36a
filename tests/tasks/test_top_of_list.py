"""Average precision and NDCG: the argmax against all orders, the values against scikit-learn."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from structboost import RankingTask, StructBoost, StructBoostRanker, StructuredSVM, check_task
from structboost.contract import StackedParts
from structboost.errors import TaskError
from structboost.tasks.ranking import WeightedRelevance


def value(loss, y, scores):
    """The measure of untied scores, by scikit-learn where it has it."""
    name, _, k = loss.partition("@")
    if name == "map":
        return average_precision_score(y, scores)
    if name == "precision":
        return y[np.argsort(-scores)[: int(k)]].sum() / min(int(k), y.sum())
    return ndcg_score([np.exp2(y) - 1.0], [scores], k=int(k) if k else None)


MEASURES = ["map", "precision@2", "precision@9", "ndcg", "ndcg@1", "ndcg@2", "ndcg@4"]


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(MEASURES))
def test_searches_of_orders_equal_enumeration(seed, loss):
    rng = np.random.default_rng(seed)
    n, n_grades = int(rng.integers(2, 6)), int(rng.integers(2, 5)) if "ndcg" in loss else 2
    y = rng.integers(0, n_grades, size=n)
    y[0], y[1] = 0, n_grades - 1
    if n_grades > 2:
        y += rng.integers(2)  # the lowest grade may gain something, too
    scores = (8 * rng.normal(scale=0.7, size=n)).round() / 8
    task = RankingTask(loss)
    stack = StackedParts({"x": scores[:, None]}, {"x": np.array([0, n])})
    pairs = [(i, j) for i in range(n) for j in range(n) if y[i] > y[j]]
    best = -np.inf
    for order in permutations(range(n)):
        ranks = np.array(order, float)
        swapped = sum(scores[i] - scores[j] for i, j in pairs if ranks[i] < ranks[j])
        best = max(best, 1 - value(loss, y, ranks) - swapped / len(pairs))
        assert task.loss(y, ranks) == pytest.approx(1 - value(loss, y, ranks))
    separation = task.separate([None], [y], stack)
    assert separation.violations(stack)[0] == pytest.approx(best)
    output = task.argmax(None, scores[:, None], y)
    gain = (task.joint_feature(None, output) - task.joint_feature(None, y))[:, 0] @ scores
    assert task.loss(y, output) + gain == pytest.approx(best)
    assert task.separate_slacks([None], [y], stack, 10).losses == separation.losses
    assert task.loss(y, y) == 0
    best_and_worst = [value(loss, y, sign * y + 0.01 * np.arange(n)) for sign in (1, -1)]
    assert task.loss(y, np.zeros(n)) == pytest.approx(1 - np.mean(best_and_worst))


@pytest.mark.parametrize("loss", ["map", "ndcg", "precision@2", "ndcg@3"])
def test_the_ranking_task_passes_check_task(loss):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (1, 2, 4, 6)]
    Y = [[1], [0, 1], [1, 1, 0, 0], [0, 1, 0, 0, 0, 1]]
    if loss.startswith("ndcg"):
        Y[3] = [0, 1, 3, 0, 2, 1]
    check_task(RankingTask(loss), X, [np.array(y) for y in Y], comparable_outputs=False)


def queries(rng, n_queries):
    """One feature tells the best items well, the other orders all items a little."""
    X = rng.normal(size=(12 * n_queries, 3))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=len(X)) > 1).astype(int)
    return X, y, np.repeat(np.arange(n_queries), 12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["map", "ndcg"])
def test_the_ranker_minimises_the_loss_it_is_given(loss, tmp_path):
    X, y, qid = queries(np.random.default_rng(1), 30)
    ranker = StructBoostRanker(objective="hinge", C=30, loss=loss, max_iter=8).fit(X, y, qid=qid)
    task, scores = RankingTask(loss), ranker.predict(X)
    mean_loss = np.mean([task.loss(y[qid == q], scores[qid == q]) for q in range(30)])
    # The hinge is above the loss, and the model is better than chance.
    assert mean_loss <= (ranker.objective_ - ranker.model_.weights.sum()) / 30 + 1e-9
    assert ranker.score(X, y, qid=qid) > 0.75
    assert ranker.history_[-1]["certified"]
    ranker.save(tmp_path / "model")
    assert StructBoostRanker.load(tmp_path / "model").task_.loss_name == loss
    by_group = StructBoostRanker(objective="hinge", C=30, loss=loss, max_iter=8).fit(
        X, y, group=[12] * 30
    )
    assert by_group.objective_ == ranker.objective_


def test_wrong_relevance_and_groups_are_named():
    scores = StackedParts({"x": np.zeros((3, 1))}, {"x": np.array([0, 3])})
    with pytest.raises(TaskError, match=r"Y\[0\] has 3 levels; loss='map' takes two"):
        RankingTask("map").separate([None], [[0, 1, 2]], scores)
    long = StackedParts({"x": np.zeros((3001, 1))}, {"x": np.array([0, 3001])})
    with pytest.raises(TaskError, match=r"Y\[0\] has 3001 items; loss='ndcg@5' takes at most 3000"):
        RankingTask("ndcg@5").separate([None], [np.arange(3001)], long)
    with pytest.raises(ValueError, match="loss is 'auc'"):
        RankingTask("auc")
    X, y = np.zeros((3, 1)), [0, 1, 0]
    with pytest.raises(ValueError, match="add up to the 3 samples"):
        StructBoostRanker(objective="hinge", C=1).fit(X, y, group=[1, 1])
    with pytest.raises(ValueError, match="give one of them"):
        StructBoostRanker(objective="hinge", C=1).fit(X, y, qid=[0, 0, 0], group=[3])
    with pytest.raises(TaskError, match="weighs queries only"):
        StructBoostRanker(objective="hinge", C=1, loss="map").fit(X, y, sample_weight=[1, 2, 3])


@pytest.mark.parametrize("loss", ["pairs", "map", "ndcg", "ndcg@2", "precision@2"])
@pytest.mark.parametrize("n_entries", [2, 4, 6])
def test_relevance_of_another_length_than_its_query_is_named(loss, n_entries):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(2)]
    Y = [[0, 1, 0], np.arange(n_entries) % 2]
    message = rf"Y\[1\] has {n_entries} entries for 3 items"
    for trainer in (
        StructBoost(RankingTask(loss), C=5.0, max_rounds=2),
        StructBoost(RankingTask(loss), C=5.0, max_rounds=2, formulation="m_slack"),
        StructuredSVM(RankingTask(loss)),
    ):
        with pytest.raises(TaskError, match=message):
            trainer.fit(X, Y)
    with pytest.raises(TaskError, match=f"{n_entries} entries for 3 items"):
        RankingTask(loss).loss(Y[1], np.zeros(3))


def test_weights_of_another_length_than_relevance_are_named():
    scores = StackedParts({"x": np.zeros((3, 1))}, {"x": np.array([0, 3])})
    with pytest.raises(TaskError, match=r"Y\[0\] has 2 weights for 3 items"):
        RankingTask().separate([None], [WeightedRelevance([0, 1, 0], np.ones(2))], scores)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_tied_pairs_count_half_in_the_loss(seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(12) < rng.integers(1, 12)).astype(int)
    scores = rng.integers(0, 3, size=12).astype(float)
    assert RankingTask().loss(y, scores) == pytest.approx(1 - roc_auc_score(y, scores))
    assert RankingTask().loss(y, 0 * scores) == pytest.approx(0.5)


@pytest.mark.parametrize("loss", ["auc", "map@3", "precision@", "precision@0", "ndcg@x", None])
def test_an_unknown_ranking_loss_is_refused(loss):
    with pytest.raises(ValueError, match="choose one of 'pairs', 'map', 'ndcg', or 'precision@10'"):
        RankingTask(loss)
