"""Orders of items: argmaxes against all orders, losses against scikit-learn, pairs one by one."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from structboost import RankingTask
from structboost.contract import StackedParts
from structboost.inference.ranking import violated_pair_weights, weigh_pairs


def value(loss, y, scores):
    """The measure of untied scores, by scikit-learn where it has it."""
    name, _, k = loss.partition("@")
    if name == "map":
        return average_precision_score(y, scores)
    if name == "capped_recall":
        return y[np.argsort(-scores)[: int(k)]].sum() / min(int(k), y.sum())
    return ndcg_score([np.exp2(y) - 1.0], [scores], k=int(k) if k else None)


MEASURES = ["map", "capped_recall@2", "capped_recall@9", "ndcg", "ndcg@1", "ndcg@2", "ndcg@4"]


@pytest.mark.slow
@settings(max_examples=80, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(MEASURES))
def test_searches_of_orders_equal_enumeration(seed, loss):
    rng = default_rng(seed)
    n, n_grades = int(rng.integers(2, 6)), int(rng.integers(2, 5)) if "ndcg" in loss else 2
    y = rng.integers(0, n_grades, size=n)
    y[0], y[1] = 0, n_grades - 1
    if n_grades > 2:
        y += rng.integers(2)  # the lowest grade may gain something, too
    scores = (8 * rng.normal(scale=0.7, size=n)).round() / 8
    task = RankingTask(loss)
    stack = StackedParts({"x": scores[:, None]}, {"x": np.array([0, n])})
    pairs = [(i, j) for i in range(n) for j in range(n) if y[i] > y[j]]
    best, all_lost, tied = -np.inf, [], np.digitize(scores, [0.0])
    for order in permutations(range(n)):
        ranks = np.array(order, float)
        swapped = sum(scores[i] - scores[j] for i, j in pairs if ranks[i] < ranks[j])
        lost = 1 - value(loss, y, ranks)
        best = max(best, lost - swapped / len(pairs))
        assert task.loss(y, ranks) == pytest.approx(lost)
        if (np.diff(tied[np.argsort(-ranks)]) <= 0).all():
            all_lost.append(lost)
    separation = task.separate([None], [y], stack)
    assert separation.violations(stack)[0] == pytest.approx(best)
    output = task.argmax(None, scores[:, None], y)
    gain = (task.joint_feature(None, output) - task.joint_feature(None, y))[:, 0] @ scores
    assert task.loss(y, output) + gain == pytest.approx(best)
    assert task.separate_slacks([None], [y], stack, 10).losses == separation.losses
    assert task.loss(y, y) == 0
    # Tied scores have the mean loss of all their orders, as in scikit-learn's NDCG.
    assert task.loss(y, tied) == pytest.approx(np.mean(all_lost))


@settings(derandomize=True)
@given(st.integers(0, 10_000))
def test_tied_pairs_count_half_in_the_loss(seed):
    rng = default_rng(seed)
    y = rng.permutation(np.arange(12) < rng.integers(1, 12)).astype(int)
    scores = rng.integers(0, 3, size=12).astype(float)
    assert RankingTask().loss(y, scores) == pytest.approx(1 - roc_auc_score(y, scores))
    assert RankingTask().loss(y, 0 * scores) == pytest.approx(0.5)


def augmented_values(found, scores):
    """loss - <difference, scores> of every output."""
    out = found.losses.copy()
    difference, indptr = found.differences["x"], found.indptr["x"]
    owner = np.repeat(np.arange(len(out)), np.diff(indptr))
    np.subtract.at(out, owner, difference.values * scores[difference.parts, difference.channels])
    return out


@settings(max_examples=40, derandomize=True)
@given(st.integers(0, 10_000))
def test_ranking_separation_is_the_best_over_all_orders_and_all_pairs(seed):
    rng = default_rng(seed)
    sizes = rng.integers(1, 5, size=rng.integers(1, 4))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    X = [np.zeros((s, 1)) for s in sizes]
    Y = [rng.integers(-1, 2, size=s) for s in sizes]
    # In eighths: differences are exact, pairs just at the margin too.
    scores = (8 * rng.normal(size=(offsets[-1], 1))).round() / 8
    stacked = StackedParts({"x": scores}, {"x": offsets})
    task = RankingTask()
    values = augmented_values(task.separate(X, Y, stacked), scores)
    slacks = task.separate_slacks(X, Y, stacked, 10_000)
    by_slack = augmented_values(slacks, scores)
    assert (by_slack > 0).all()
    for q, y in enumerate(Y):
        own = scores[offsets[q] : offsets[q + 1], 0]
        pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
        hinge = sum(max(0.0, 1 - (own[i] - own[j])) for i, j in pairs) / max(1, len(pairs))
        assert values[q] == pytest.approx(hinge)
        # Over all subsets of swapped pairs, the structured form (9).
        brute = max(
            sum(c * (1 - (own[i] - own[j])) for c, (i, j) in zip(chosen, pairs, strict=True))
            for chosen in product((0, 1), repeat=len(pairs))
        ) / max(1, len(pairs))
        assert values[q] == pytest.approx(brute)
        output = task.argmax(X[q], own[:, None], y)
        gain = float(
            task.joint_feature(X[q], output)[:, 0] @ own - task.joint_feature(X[q], y)[:, 0] @ own
        )
        assert task.loss(y, output) + gain == pytest.approx(hinge)
        assert task.loss(y, y) == 0
    total = sum(values) / len(Y)
    assert float(slacks.weights @ by_slack) == pytest.approx(total)


@settings(max_examples=40, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0]), st.booleans())
def test_weights_of_violated_pairs_equal_those_of_all_pairs(seed, margin, weighted):
    rng = default_rng(seed)
    n = rng.integers(1, 12)
    scores, levels = rng.normal(size=n).round(1), rng.integers(0, 4, size=n)
    weights = rng.integers(1, 5, size=n) / 4 if weighted else np.ones(n)
    signed, violated = violated_pair_weights(scores, levels, 4, weights, margin)
    pairs = np.outer(weights, weights) * (levels[:, None] > levels)
    taken = pairs * (scores[:, None] - scores < margin)
    expected, total = taken.sum(axis=1) - taken.sum(axis=0), taken.sum()
    # Quarters: sums are exact.
    assert np.array_equal(signed, expected)
    assert violated == total
    assert weigh_pairs(levels, 4, weights) == pairs.sum()
