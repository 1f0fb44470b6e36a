"""Missing values: every split may send them to either side, in training and afterwards."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from structboost import (
    AdaBoostMHClassifier,
    BinaryTask,
    BinnedTable,
    MulticlassTask,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
)
from structboost.learners.binning import MAX_BINS, bin_codes, bin_thresholds
from structboost.learners.linear import SVMFamily
from structboost.learners.stump import StumpFamily


def test_bins_of_a_feature_with_holes_fit_a_byte():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    assert not bin_thresholds(X).is_low.any()
    X[::7, 1] = np.nan
    bins = bin_thresholds(X)
    assert bins.n_features == 2
    assert bins.n_bins.tolist() == [MAX_BINS, MAX_BINS, MAX_BINS - 1]
    codes = bin_codes(X, bins)
    assert codes.dtype == np.uint8
    assert (codes[1, ::7] == MAX_BINS - 1).all()
    assert (codes[2, ::7] == 0).all()
    np.testing.assert_array_equal(codes[1][~np.isnan(X[:, 1])], codes[2][~np.isnan(X[:, 1])])


def labelled(n=240):
    """Classes that depend on what is missing as well as on values."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] > 0) + (X[:, 1] > 0.5)
    X[rng.random(n) < 0.3, 2] = np.nan
    X[rng.random((n, 3)) < 0.1] = np.nan
    return X, np.where(np.isnan(X[:, 2]), (y + 1) % 3, y)


def test_engines_and_a_table_on_disk_keep_holes_and_the_certificate(tmp_path):
    X, y = labelled()
    hinge = {"objective": "hinge", "C": 20.0, "max_iter": 8}
    expected = StructBoostClassifier(**hinge).fit(X, y)
    BinnedTable.from_array(tmp_path / "table", X)
    on_disk = StructBoostClassifier(**hinge).fit(BinnedTable.open(tmp_path / "table"), y)
    processes = StructBoostClassifier(engine="processes", n_jobs=2, **hinge).fit(X, y)
    for found in (on_disk, processes):
        np.testing.assert_allclose(
            found.decision_function(X), expected.decision_function(X), atol=1e-9
        )
    assert expected.history_[-1]["certified"]
    assert expected.history_[-1]["bound"] <= expected.objective_


@pytest.mark.parametrize(
    "model",
    [
        StructBoostClassifier(max_iter=40),
        StructBoostClassifier(objective="hinge", C=50.0, max_iter=40),
        AdaBoostMHClassifier(max_rounds=40),
        StructBoostRanker(max_iter=20),
        StructBoostRanker(objective="hinge", C=50.0, max_iter=20),
        StructBoostMultiLabelClassifier(objective="hinge", C=50.0, max_iter=20),
    ],
)
def test_estimators_learn_from_what_is_missing_and_keep_it_in_files(model, tmp_path):
    X, y = labelled()
    if isinstance(model, StructBoostRanker):
        y = y == 2
    is_sets = isinstance(model, StructBoostMultiLabelClassifier)
    model.fit(X, np.eye(3, dtype=int)[y] if is_sets else y)
    assert model.__sklearn_tags__().input_tags.allow_nan
    if is_sets:
        assert (model.predict(X) == np.eye(3)[y]).mean() > 0.8
    else:
        assert model.score(X, y) > 0.8
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.model_.members["x"].learners.missing_left is not None
    assert model.feature_importances_.shape == (3,)


def test_contributions_of_what_is_missing_add_up_to_the_scores():
    X, y = labelled()
    model = StructBoostClassifier(objective="hinge", C=20.0, max_iter=10).fit(X, y)
    values, base = model.contributions(X)
    np.testing.assert_allclose(base + values.sum(axis=1), model.decision_function(X), atol=1e-9)


def test_what_is_missing_at_prediction_only_is_larger_than_all_numbers():
    X, y = labelled()
    X = np.nan_to_num(X)
    for options in ({}, {"objective": "hinge", "C": 20.0}):
        model = StructBoostClassifier(max_iter=10, **options).fit(X, y)
        holed, large = X[:20].copy(), X[:20].copy()
        holed[:, 1], large[:, 1] = np.nan, 1e6
        np.testing.assert_array_equal(
            model.decision_function(holed), model.decision_function(large)
        )


def test_families_that_take_no_holes_name_the_sample_and_the_remedy():
    X, y = labelled()
    X = np.where(np.arange(len(X))[:, None] == 4, np.nan, np.nan_to_num(X))
    with pytest.raises(ValueError, match=r"X\[4\] has NaN features, which weak_learner='feature'"):
        StructBoost(MulticlassTask(3), C=1.0, weak_learner="feature").fit(X, y)
    with pytest.raises(ValueError, match="weak_learner='linear' cannot take"):
        StructBoost(BinaryTask(), C=1.0, weak_learner=["linear", "stump"]).fit(
            X, np.where(y > 0, 1, -1)
        )
    with pytest.raises(ValueError, match=r"X\[0\] has NaN features"):
        StructBoost(RankingTask(), C=1.0, weak_learner="lda").fit([X], [y])
    classifier = StructBoostClassifier(objective="hinge", weak_learner=partial(SVMFamily))
    assert not classifier.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="X contains NaN, first in sample 4, feature 0"):
        classifier.fit(X, y)


def test_stumps_of_a_channel_are_on_different_features():
    X, y = labelled()
    family = StumpFamily(X, (-1.0, 1.0))
    found = family.price(np.eye(3)[y] - 1 / 3, 3)
    features = [
        (c.channel, family.bins.feature[c.learner.feature]) for c in found if c.learner.bin >= 0
    ]
    assert len(set(features)) == len(features) == 9
