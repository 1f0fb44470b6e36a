"""Sparse binary features as rows of their indices."""

import numpy as np
import pytest
from scipy import sparse

from structboost.learners import ActiveFeatureFamily, active_features
from structboost.learners.feature import ActiveFeatureTable


def test_new_rows_may_have_features_that_training_did_not():
    rng = np.random.default_rng(0)
    family = ActiveFeatureFamily(active_features(rng.random((9, 4)) < 0.4))
    learners = [c.learner for c in family.price(rng.normal(size=(9, 3)), 5)]
    new = rng.random((4, 7)) < 0.5
    expected = [f.sign * (new[:, f.feature] | (f.feature < 0)) for f in learners]
    table = family.table(learners)
    assert np.array_equal(table.responses(active_features(new)), expected)
    scores = table.scorer(np.eye(len(learners)), 4).raw_scores(active_features(new))
    assert np.array_equal(scores.T, expected)


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
    table = ActiveFeatureTable(feature, np.ones(n + 3))
    found = table.responses(np.array([[3, 7, -1]]))
    assert np.flatnonzero(found[:, 0]).tolist() == [3, 7, n, n + 1, n + 2]
