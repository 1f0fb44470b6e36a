"""Batch argmaxes and pricing against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import RankingTask
from structboost.contract import StackedParts
from structboost.inference import violated_pairs
from structboost.inference.ranking import violated_pair_weights, weigh_pairs
from structboost.learners.stump import StumpFamily

seeds = st.integers(0, 10_000)
few = settings(max_examples=40, deadline=None, derandomize=True)


def augmented_values(found, scores):
    """loss - <difference, scores> of every output."""
    out = found.losses.copy()
    difference, indptr = found.differences["x"], found.indptr["x"]
    owner = np.repeat(np.arange(len(out)), np.diff(indptr))
    np.subtract.at(out, owner, difference.values * scores[difference.parts, difference.channels])
    return out


@few
@given(seeds)
def test_ranking_separation_is_the_best_over_all_orders_and_all_pairs(seed):
    rng = np.random.default_rng(seed)
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
            for chosen in itertools.product((0, 1), repeat=len(pairs))
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


@few
@given(seeds, st.sampled_from([0.0, 1.0]), st.booleans())
def test_weights_of_violated_pairs_equal_those_of_all_pairs(seed, margin, weighted):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 12)
    scores, levels = rng.normal(size=n).round(1), rng.integers(0, 4, size=n)
    weights = rng.integers(1, 5, size=n) / 4 if weighted else np.ones(n)
    signed, violated = violated_pair_weights(scores, levels, 4, weights, margin)
    expected = np.zeros(n)
    total = every = 0.0
    for i in range(n):
        for j in range(n):
            if levels[i] > levels[j]:
                every += weights[i] * weights[j]
                if scores[i] - scores[j] < margin:
                    expected[i] += weights[i] * weights[j]
                    expected[j] -= weights[i] * weights[j]
                    total += weights[i] * weights[j]
    # Quarters: sums are exact.
    assert np.array_equal(signed, expected)
    assert violated == total
    if margin == 1 and not weighted:
        counts, n_violated = violated_pairs(scores, levels)
        assert np.array_equal(counts, expected)
        assert n_violated == total
    assert weigh_pairs(levels, 4, weights) == every


@few
@given(seeds, st.sampled_from([(-1.0, 1.0), (0.0, 1.0)]))
def test_pricing_finds_the_best_of_all_stumps(seed, response):
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers(1, 12), rng.integers(1, 4), rng.integers(1, 4)
    features = rng.normal(size=(n, d)).round(1)
    duals = rng.normal(size=(n, k)) * (rng.random((n, 1)) < 0.7)
    family = StumpFamily(features, response)
    found = family.price(duals, 2)
    low, high = response
    answers = [np.full(n, low), np.full(n, high)]
    for f in range(d):
        for value in np.unique(features[:, f])[:-1]:
            answers += [
                np.where(features[:, f] <= value, a, b) for a, b in ((low, high), (high, low))
            ]
    best = (np.array(answers) @ duals).max(axis=0)
    for channel in range(k):
        own = max(c.edge for c in found if c.channel == channel)
        assert own == pytest.approx(best[channel], rel=2e-6, abs=1e-12)
    learners = [c.learner for c in found]
    on_training = family.responses(learners)
    assert np.array_equal(on_training, family.table(learners).responses(features))
    edges = np.array([on_training[i] @ duals[:, c.channel] for i, c in enumerate(found)])
    assert np.allclose(edges, [c.edge for c in found], rtol=2e-6)
