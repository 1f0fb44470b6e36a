"""Trees on sparse tables: the same bins, and the same models, as on the same table dense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from structboost import StructBoostClassifier, StructBoostMultiLabelClassifier, StructBoostRanker
from structboost.errors import TaskError
from structboost.learners import TreeFamily, binning
from structboost.learners.binning import bin_features


def table(seed, n_rows=240, n_columns=10, share=0.4):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < share)
    return values, rng


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 9999), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([1, 7, 400]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_bins_of_a_sparse_table_are_those_of_the_dense_one(
    seed, share, n_rows, is_rounded, has_gaps
):
    values, rng = table(seed, n_rows, 4, share)
    if is_rounded:
        values = values.round()
    if has_gaps:
        values[rng.random(values.shape) < 0.2] = np.nan
    dense, thin = bin_features(values), bin_features(sparse.csr_array(values))
    np.testing.assert_array_equal(dense.codes, thin.codes)
    np.testing.assert_array_equal(dense.bins.values, thin.bins.values)
    np.testing.assert_array_equal(dense.bins.indptr, thin.bins.indptr)
    np.testing.assert_array_equal(dense.bins.thinned, thin.bins.thinned)


def test_entries_that_are_stored_twice_or_as_zeros_change_nothing():
    twice = sparse.coo_array(([1.0, 2.0, 0.0, -1.0], ([0, 0, 1, 2], [0, 0, 0, 0])), (5, 1))
    found = bin_features(sparse.csr_array(twice))
    np.testing.assert_array_equal(found.codes, bin_features(twice.toarray()).codes)


@pytest.mark.slow
def test_classifiers_rankers_and_label_sets_learn_the_same_from_sparse_and_from_dense():
    values, _ = table(0)
    scores = values[:, 0] * values[:, 1] + np.sin(2 * values[:, 2]) + 0.5 * values[:, 3]
    labels = np.digitize(scores, [-0.3, 0.4])
    sets = np.column_stack((scores > 0, values[:, 3] > 0)).astype(int)
    queries = np.repeat(np.arange(24), 10)
    fits = [
        (StructBoostClassifier(max_iter=30), (labels,)),
        (StructBoostMultiLabelClassifier(max_iter=30), (sets,)),
        (StructBoostRanker(max_iter=30), (labels, queries)),
    ]
    for model, targets in fits:
        dense = model.fit(values, *targets)
        of_dense = dense.decision_function(values)
        n_rounds, chosen = dense.n_iter_, dense.max_features_
        thin = model.fit(sparse.csr_array(values), *targets)
        assert thin.learner_ == "tree"
        assert (thin.n_iter_, thin.max_features_) == (n_rounds, chosen)
        np.testing.assert_allclose(thin.decision_function(sparse.csr_array(values)), of_dense,
                                   atol=1e-6)  # fmt: skip
        np.testing.assert_allclose(thin.decision_function(values), of_dense, atol=1e-6)


def test_a_sparse_table_whose_bins_take_too_much_room_is_refused(monkeypatch):
    monkeypatch.setattr(binning, "MOST_CODES", 100)
    values, _ = table(1)
    with pytest.raises(TaskError, match="take weak_learner='stump'"):
        TreeFamily(sparse.csr_array(values), (-1, 1))
