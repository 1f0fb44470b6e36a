"""Sparse binary features, against all of them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from structboost.learners import ActiveFeatureFamily, active_features
from structboost.learners.active_feature import ActiveFeatureTable


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([(-1.0, 1.0), (0.0, 1.0)]), st.integers(1, 3))
def test_pricing_equals_all_features(seed, response, per_channel):
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers(1, 10), rng.integers(1, 6), rng.integers(1, 4)
    table = rng.random((n, d)) < 0.4
    duals = rng.normal(size=(n, k))
    family = ActiveFeatureFamily(active_features(table), response)
    found = family.price(duals, per_channel)
    ones = [table[:, f].astype(float) for f in range(d) if table[:, f].any()]
    turned = [-one for one in ones] if response[0] < 0 else [1 - one for one in ones]
    constants = [np.ones(n), -np.ones(n)] if response[0] < 0 else [np.ones(n)]
    edges = np.zeros((0, k))
    if ones:
        edges = np.maximum(np.array(ones) @ duals, np.array(turned) @ duals)
    edges = np.vstack((edges, (np.array(constants) @ duals).max(axis=0)))
    for channel in range(k):
        own = [c.edge for c in found if c.channel == channel]
        assert own == pytest.approx(np.sort(edges[:, channel])[::-1][:per_channel])
    learners = [c.learner for c in found]
    answers = family.responses(learners).toarray()
    assert np.allclose([answers[i] @ duals[:, c.channel] for i, c in enumerate(found)],
                       [c.edge for c in found])  # fmt: skip
    rows = family.table(learners)
    assert np.array_equal(rows.responses(active_features(table)), answers)
    best = max(found, key=lambda c: c.edge)
    refined = family.refine(best.learner, duals)
    assert refined[best.channel].edge == pytest.approx(best.edge)
    # New rows, with features that training did not have.
    new = rng.random((4, d + 3)) < 0.5
    expected = [
        np.where(new[:, f.feature] | (f.feature < 0), f.present, f.absent) for f in learners
    ]
    assert np.array_equal(rows.responses(active_features(new)), expected)


def test_rows_of_active_features():
    table = sparse.csr_array(np.array([[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]]))
    assert active_features(table).tolist() == [[1, 3, -1], [-1, -1, -1], [0, 1, 2]]
    assert active_features(table, 2).tolist() == [[1, 3], [-1, -1], [0, 1]]
    assert active_features(sparse.csr_array((2, 3))).tolist() == [[-1], [-1]]
    with pytest.raises(ValueError, match=r"X\[1, 0\] is 2"):
        active_features([[0, 1], [2, 0]])


def test_memory_of_responses_grows_with_the_learners_not_their_square():
    n = 200_000
    feature = np.append(np.arange(n), [-1, 3, 3])
    table = ActiveFeatureTable(feature, np.where(feature < 0, 1.0, 0.0), np.ones(n + 3))
    found = table.responses(np.array([[3, 7, -1]]))
    assert np.flatnonzero(found[:, 0]).tolist() == [3, 7, n, n + 1, n + 2]
