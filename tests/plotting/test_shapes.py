"""Shape plots are the model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from structboost import MultiBoostCWClassifier, ShapeDisplay, StructBoostClassifier

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_shapes_add_up_to_the_scores():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    model = MultiBoostCWClassifier(C=100, max_rounds=30).fit(frame, y)
    display = ShapeDisplay.from_estimator(model)
    X = frame.to_numpy()
    total = np.zeros((len(X), 3))
    for feature in range(4):
        thresholds, values = display.shape(feature)
        total += values[np.searchsorted(thresholds, X[:, feature], side="left")]
    scores = model.decision_function(frame) - model.model_.compile().bias
    np.testing.assert_allclose(total, scores - scores.mean(axis=1, keepdims=True), atol=1e-9)
    assert display.axes_[0].get_xlabel() == frame.columns[np.argmax(display.importances())]
    assert len(display.axes_[0].get_lines()) == 4  # three classes and the zero line


def test_a_taxonomy_is_shown_by_class():
    X, y = load_iris(return_X_y=True)
    model = StructBoostClassifier(C=10, taxonomy=[0, [1, 2]]).fit(X, y)
    display = ShapeDisplay.from_estimator(model)
    assert [line.get_label() for line in display.axes_[0].get_lines()][:3] == ["0", "1", "2"]


def test_chosen_features_and_one_channel(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    display = ShapeDisplay.from_estimator(StructBoostClassifier(C=10).fit(X, y), features=[21, 3])
    assert [axis.get_xlabel() for axis in display.axes_] == ["feature 21", "feature 3"]
    display.figure_.savefig(tmp_path / "shapes.png")
    with pytest.raises(ValueError, match="features is"):
        display.plot(features=[99])
    with pytest.raises(ValueError, match="not fitted"):
        ShapeDisplay.from_estimator(StructBoostClassifier())
