"""Huge and tiny features give the model of features of size 1, or an error that says so."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from structboost import (
    BinaryTask,
    PredictThenOptimize,
    ShareBoostClassifier,
    StructBoostClassifier,
    StructuredSVM,
    StructuredSVMClassifier,
)
from structboost.decisions import Choose
from tests.helpers.refusals import refused

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.where(X[:, 0] > 0, 1, -1)
SIZES = [2.0**700, 2.0**-700]
SQUARING = [
    StructuredSVM(BinaryTask()),
    StructuredSVMClassifier(),
    ShareBoostClassifier(max_rounds=2),
    *(
        StructBoostClassifier(weak_learner=weak, objective="hinge", C=5.0, max_iter=3)
        for weak in ("perceptron", "svm", "lda", "feature")
    ),
]


each_size = pytest.mark.parametrize("size", SIZES)
dense_and_sparse = pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])


@each_size
@dense_and_sparse
@pytest.mark.parametrize("model", SQUARING, ids=repr)
def test_features_whose_squares_are_no_numbers_are_refused(model, container, size):
    refused(r"(features|values) up to .* scale", model.fit, container(X * size), Y)


def test_sparse_features_whose_likelihood_overflows_are_refused():
    model = StructBoostClassifier("log_loss", weak_learner="linear", C=1.0)
    refused(r"features up to .* scale", model.fit, sparse.csr_array(X * SIZES[0]), Y)


@pytest.mark.parametrize("objective", ["log_loss", "hinge"])
@dense_and_sparse
def test_a_difference_of_two_values_may_overflow(container, objective):
    settings = {"C": 5.0} if objective == "hinge" else {}
    model = StructBoostClassifier(objective, max_iter=3, **settings)
    signs = np.where(X[:, :1] > 0, 1.7e308, -1.7e308)
    with warnings.catch_warnings(action="error"):
        # From the sum by which scikit-learn looks for infinite numbers.
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")
        assert model.fit(container(signs), Y).score(container(signs), Y) == 1


@each_size
@pytest.mark.parametrize("weak", ["stump", "tree"])
def test_other_learners_take_features_of_any_size(weak, size):
    model = StructBoostClassifier(
        weak_learner=weak, objective="hinge", C=5.0, max_iter=5, random_state=0
    )
    expected = model.fit(X, Y).predict(X)
    assert np.array_equal(model.fit(X * size, Y).predict(X * size), expected)


@each_size
@pytest.mark.parametrize("start", ["none", "least_squares"])
def test_decisions_take_features_of_any_size(start, size):
    model = PredictThenOptimize(Choose(3, 1), C=5.0, start=start, random_state=0)
    expected = model.fit(X, X + 3).predict_costs(X)
    assert np.allclose(model.fit(X * size, X + 3).predict_costs(X * size), expected, atol=1e-3)
