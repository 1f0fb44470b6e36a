"""Huge and tiny features give the model of features of size 1, or an error that says so."""

from __future__ import annotations

from typing import Any

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
from structboost.exceptions import TaskError

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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("model", SQUARING, ids=repr)
def test_features_whose_squares_are_no_numbers_are_refused(model: Any, size: float) -> None:
    with pytest.raises(TaskError, match=r"(features|values) up to .* scale"):
        model.fit(X * size, Y)


@pytest.mark.parametrize("size", SIZES)
def test_sparse_features_whose_squares_are_no_numbers_are_refused(size: float) -> None:
    with pytest.raises(TaskError, match=r"features up to .* scale"):
        StructuredSVMClassifier().fit(sparse.csr_array(X * size), Y)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("weak", ["stump", "tree", "linear"])
def test_other_learners_take_features_of_any_size(weak: str, size: float) -> None:
    model = StructBoostClassifier(
        weak_learner=weak, objective="hinge", C=5.0, max_iter=5, random_state=0
    )
    expected = model.fit(X, Y).predict(X)
    assert np.array_equal(model.fit(X * size, Y).predict(X * size), expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", ["none", "least_squares"])
def test_decisions_take_features_of_any_size(start: str, size: float) -> None:
    model = PredictThenOptimize(Choose(3, 1), C=5.0, start=start, random_state=0)
    expected = model.fit(X, X + 3).predict_costs(X)
    assert np.allclose(model.fit(X * size, X + 3).predict_costs(X * size), expected, atol=1e-3)
