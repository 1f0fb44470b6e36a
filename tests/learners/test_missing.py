"""Missing values go to either side of a split, and zeros of sparse tables are values."""

from functools import partial

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from structboost import (
    BinaryTask,
    BinnedTable,
    MulticlassTask,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
)
from structboost.learners.binning import MAX_BINS, bin_codes, bin_thresholds
from structboost.learners.linear import SVMFamily
from structboost.learners.stump import StumpFamily
from tests.helpers.refusals import refused


def test_bins_of_a_feature_with_holes_fit_a_byte():
    X = default_rng(0).normal(size=(3000, 2))
    assert not bin_thresholds(X).is_low.any()
    X[::7, 1] = np.nan
    bins = bin_thresholds(X)
    assert bins.n_features == 2
    assert bins.n_bins.tolist() == [MAX_BINS, MAX_BINS, MAX_BINS - 1]
    codes = bin_codes(X, bins)
    assert codes.dtype == np.uint8
    assert (codes[1, ::7] == MAX_BINS - 1).all()
    assert (codes[2, ::7] == 0).all()
    assert_array_equal(codes[1][~np.isnan(X[:, 1])], codes[2][~np.isnan(X[:, 1])])


def labelled(n=240):
    """Classes that depend on what is missing as well as on values."""
    rng = default_rng(5)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] > 0) + (X[:, 1] > 0.5)
    X[rng.random(n) < 0.3, 2] = np.nan
    X[rng.random((n, 3)) < 0.1] = np.nan
    return X, np.where(np.isnan(X[:, 2]), (y + 1) % 3, y)


def test_tables_on_disk_keep_holes_and_the_certificate(tmp_path):
    X, y = labelled()
    hinge = {"objective": "hinge", "C": 20.0, "max_iter": 8}
    expected = StructBoostClassifier(**hinge).fit(X, y)
    BinnedTable.from_array(tmp_path / "table", X)
    on_disk = StructBoostClassifier(**hinge).fit(BinnedTable.open(tmp_path / "table"), y)
    assert_allclose(on_disk.decision_function(X), expected.decision_function(X), atol=1e-9)
    assert expected.history_[-1]["certified"]


def test_what_is_missing_at_prediction_only_is_larger_than_all_numbers():
    X, y = labelled()
    X = np.nan_to_num(X)
    for options in ({}, {"objective": "hinge", "C": 20.0}):
        model = StructBoostClassifier(max_iter=10, **options).fit(X, y)
        holed, large = X[:20].copy(), X[:20].copy()
        holed[:, 1], large[:, 1] = np.nan, 1e6
        assert_array_equal(model.decision_function(holed), model.decision_function(large))


def test_families_that_take_no_holes_name_the_sample_and_the_remedy():
    X, y = labelled()
    X = np.where(np.arange(len(X))[:, None] == 4, np.nan, np.nan_to_num(X))
    of_feature = r"X\[4\] has NaN features, which weak_learner='feature'"
    of_linear = "weak_learner='linear' cannot take"
    for task, family, message, *examples in (
        (MulticlassTask(3), "feature", of_feature, X, y),
        (BinaryTask(), ["linear", "stump"], of_linear, X, np.where(y > 0, 1, -1)),
        (RankingTask(), "lda", r"X\[0\] has NaN features", [X], [y]),
    ):
        refused(message, StructBoost(task, C=1.0, weak_learner=family).fit, *examples)
    classifier = StructBoostClassifier("hinge", weak_learner=partial(SVMFamily))
    assert not classifier.__sklearn_tags__().input_tags.allow_nan
    refused("X contains NaN, first in sample 4", classifier.fit, X, y)


def test_stumps_of_a_channel_are_on_different_features():
    X, y = labelled()
    family = StumpFamily(X, (-1.0, 1.0))
    found = family.price(np.eye(3)[y] - 1 / 3, 3)
    features = [
        (c.channel, family.bins.feature[c.learner.feature]) for c in found if c.learner.bin >= 0
    ]
    assert len(set(features)) == len(features) == 9


def test_what_a_sparse_table_cannot_have_is_named():
    X = np.tile(np.eye(4), (9, 1))
    y, rows = X[:, 0], sparse.csr_array(X)
    refused(
        "X is sparse, with which monotonic_cst",
        StructBoostClassifier(monotonic_cst=[0] * 4).fit,
        rows,
        y,
    )
    refused(
        r"X is sparse, and columns \[1\] of the training set",
        StructBoostClassifier(max_iter=2, categorical_features=[1]).fit(X, y).predict,
        rows,
    )
    for kind in (sparse.csr_array, sparse.csc_array):
        for bad, message in ((np.nan, "NaN"), (np.inf, "infinity")):
            rows.data[3] = bad
            where = f"contains {message}, first in sample 3"
            refused(where, StructBoostClassifier().fit, kind(rows), y)
