"""Errors of all faces name the argument, the example or column, and the remedy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import structboost
from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVMClassifier,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(float)
CODED = ("AdaBoostMOClassifier", "AdaBoostMHClassifier", "MultiBoostClassifier")
FACES = (
    StructBoostClassifier, StructBoostRanker, StructBoostMultiLabelClassifier,
    StructuredSVMClassifier, *(getattr(structboost, name) for name in CODED),
)  # fmt: skip


@pytest.mark.parametrize("face", [StructBoostClassifier, StructuredSVMClassifier])
def test_weights_of_classes_that_are_all_zero_are_named(face):
    with pytest.raises(ValueError, match=r"class_weight is {0: 0, 1: 0}"):
        face(class_weight={0: 0, 1: 0}).fit(X, Y)


@pytest.mark.parametrize("face", [one for one in FACES if "Classifier" in one.__name__])
def test_labels_of_a_score_are_refused_as_in_a_fit(face):
    if face is StructBoostMultiLabelClassifier:
        pytest.skip("sets of labels")
    model = face().fit(X, Y)
    for call in (model.score, face().fit):
        with pytest.raises(ValueError, match=r"Unknown label type: continuous.* give a class of"):
            call(X, np.where(Y, 1.5, -0.5))
        with pytest.raises(ValueError, match=r"^y\[3\] is inf; give every sample a finite number"):
            call(X, np.where(np.arange(40) == 3, np.inf, Y))


def test_rows_without_names_are_read_in_the_order_of_names_with_a_warning():
    X, y = [[{"a": 1.0, "b": 2.0}, {"a": 0.5}]] * 4, [["x", "y"]] * 4
    tagger = StructBoostTagger(objective="svm", C=1.0).fit(X, y)
    rows = np.array([[1.0, 2.0], [0.5, 0.0]])
    assert tagger.feature_names_ == ["a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = tagger.predict(X[:1])
    for form in (np.asarray, sparse.csr_array):
        with pytest.warns(UserWarning, match="trained on dicts; .* order of feature_names_"):
            predicted = tagger.predict([form(rows)])
        assert predicted == expected
