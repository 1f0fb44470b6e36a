"""Bins of features: where their thresholds are, and which value is in which."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from scipy import sparse

from structboost import StructBoostClassifier
from structboost.learners import binning as binning_module
from structboost.learners.binning import (
    MAX_BINS,
    BinsOfOneTable,
    bin_codes,
    bin_features,
    bin_thresholds,
)
from tests.helpers.refusals import refused


def column(seed, n, ties):
    """Values with many, few or no ties, some of which are far more frequent than others."""
    rng = default_rng(seed)
    if ties == "none":
        return rng.normal(size=n)
    if ties == "some":
        return np.round(rng.normal(size=n), 2)
    return np.floor(rng.exponential(scale=40.0, size=n)) * rng.choice([-0.25, 1.0], size=n)


def quantile_thresholds(values):
    """The documented rule: a threshold lies above the smallest value that reaches its quantile."""
    ordered = np.sort(values)
    distinct = np.unique(values)
    found = set()
    for k in range(1, MAX_BINS):
        reached = ordered[-(-k * len(values) // MAX_BINS) - 1]
        above = distinct[distinct > reached]
        lower, upper = (reached, above[0]) if len(above) else (distinct[-2], distinct[-1])
        found.add(lower + 0.5 * (upper - lower))
    return sorted(found)


@settings(max_examples=60)
@given(st.integers(0, 9999), st.integers(1, 3000), st.sampled_from(["none", "some", "many"]))
@example(0, 256, "none")
@example(0, 257, "none")
@example(0, 512, "none")
def test_thresholds_are_the_quantiles_as_documented(seed, n, ties):
    values = column(seed, n, ties)
    distinct = np.unique(values)
    middles = distinct[:-1] + 0.5 * np.diff(distinct)
    few = len(distinct) <= MAX_BINS
    bins = bin_thresholds(values[:, None])
    assert_array_equal(bins.values, middles if few else quantile_thresholds(values))
    assert_array_equal(bin_thresholds(values[:, None], exact=True).values, middles)
    if not few:
        # Bins of about equal count: none beyond its share by more than the ties of one value.
        counts = np.bincount(bin_codes(values[:, None], bins)[0])
        most_ties = np.unique(values, return_counts=True)[1].max()
        assert counts.min() > 0
        assert counts.max() < n / MAX_BINS + most_ties + 1


@given(
    st.integers(0, 9999),
    st.lists(st.sampled_from(["none", "some", "many"]), max_size=4),
    st.booleans(),
)
def test_codes_are_on_the_sides_of_the_thresholds_that_the_values_are(seed, ties, exact):
    n = 700
    features = np.column_stack(
        [column(seed + f, n, kind) for f, kind in enumerate(ties)] or [np.zeros((n, 0))]
    )
    binned = bin_features(features, exact=exact)
    assert binned.codes.shape == (len(ties), n)
    assert binned.n_rows == n
    assert binned.bins.n_columns == len(ties)
    for f in range(len(ties)):
        thresholds = binned.bins.values[binned.bins.indptr[f] : binned.bins.indptr[f + 1]]
        assert binned.bins.n_bins[f] == len(thresholds) + 1
        at_most = binned.codes[f][:, None] <= np.arange(len(thresholds))
        assert_array_equal(at_most, features[:, f, None] <= thresholds)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_between_neighbouring_floats_the_threshold_is_the_lower_one(sign):
    """The middle of two is rounded, up or down: of four in a row, some each way."""
    values = [1.0]
    for _ in range(3):
        values.append(np.nextafter(values[-1], 2.0))
    values = np.sort(sign * np.array(values))
    binned = bin_features(values[:, None])
    assert (values[:-1] <= binned.bins.values).all()
    assert (binned.bins.values < values[1:]).all()
    assert binned.codes.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_values_are_named(bad):
    features = np.zeros((5, 3))
    features[3, 1] = bad
    refused("Feature 1 of part 3 is infinite", bin_thresholds, features)
    refused(
        "Feature 1 of part 3 is infinite", bin_codes, features, bin_thresholds(np.zeros((5, 3)))
    )


def test_bins_of_one_table_are_kept_until_another_table_or_another_option():
    binning = BinsOfOneTable()
    table, other = default_rng(0).normal(size=(2, 30, 3))
    first = binning(table, max_bins=8)
    assert binning(table, max_bins=8) is first
    assert binning(table, max_bins=4).bins.n_bins.max() == 4
    assert binning(other, max_bins=4) is not binning(table, max_bins=4)
    assert_array_equal(binning(table, max_bins=8).codes, first.codes)
    binning.forget()
    assert binning(table, max_bins=8) is not first


def test_the_trial_of_features_and_the_fit_bin_one_table(monkeypatch):
    tables = []

    def counting(features, **options):
        tables.append(features)
        return bin_features(features, **options)

    monkeypatch.setattr(binning_module, "bin_features", counting)
    X = default_rng(0).normal(size=(100, 4))
    model = StructBoostClassifier(max_iter=3).fit(X, X[:, 0] > 0)
    assert len(tables) == 1
    assert not hasattr(model, "_binning")
    X[:] = -X  # a table that changed between two fits is binned anew
    again = model.fit(X, X[:, 0] > 0)
    assert len(tables) == 2
    assert again.score(X, X[:, 0] > 0) > 0.95


# -- sparse tables ------------------------------------------------------------------------------


@given(
    st.integers(0, 9999), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([1, 7, 400]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_bins_of_a_sparse_table_are_those_of_the_dense_one(
    seed, share, n_rows, is_rounded, has_gaps
):
    rng = default_rng(seed)
    values = rng.normal(size=(n_rows, 4)).round(0 if is_rounded else 9)
    values *= rng.random(values.shape) < share
    if has_gaps:
        values[rng.random(values.shape) < 0.2] = np.nan
    # Some entries are stored in two parts, and some as zeros.
    rows, columns = np.indices(values.shape).reshape(2, -1)
    halves = np.tile(0.5 * values.ravel(), 2), (np.tile(rows, 2), np.tile(columns, 2))
    dense = bin_features(values)
    for form in (sparse.csr_array(values), sparse.csr_array(sparse.coo_array(halves))):
        thin = bin_features(form)
        assert_array_equal(dense.codes, thin.codes)
        for name in ("values", "indptr", "thinned"):
            assert_array_equal(getattr(dense.bins, name), getattr(thin.bins, name))


def test_a_sparse_table_of_too_many_codes_is_refused(monkeypatch):
    monkeypatch.setattr(binning_module, "MOST_CODES", 100)
    refused("take weak_learner='stump'", bin_features, sparse.csr_array(np.eye(20)))
