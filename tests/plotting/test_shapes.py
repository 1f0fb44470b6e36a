"""Shape plots are the model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from structboost import MultiBoostCWClassifier, ShapeDisplay, StructBoostClassifier
from structboost.faces.tables import later_table

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.mark.slow
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
    model = StructBoostClassifier(objective="hinge", C=10, taxonomy={0: None, "a": [1, 2]}).fit(
        X, y
    )
    display = ShapeDisplay.from_estimator(model)
    assert [line.get_label() for line in display.axes_[0].get_lines()][:3] == ["0", "1", "2"]


def test_shape_display_draws_chosen_features_of_one_channel(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    display = ShapeDisplay.from_estimator(
        StructBoostClassifier(objective="hinge", C=10).fit(X, y), features=[21, 3]
    )
    assert [axis.get_xlabel() for axis in display.axes_] == ["feature 21", "feature 3"]
    display.figure_.savefig(tmp_path / "shapes.png")
    with pytest.raises(ValueError, match="features is"):
        display.plot(features=[99])
    with pytest.raises(ValueError, match="not fitted"):
        ShapeDisplay.from_estimator(StructBoostClassifier())


def test_slopes_and_steps_add_up_to_the_scores():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3)) + 100.0
    y = (X @ [1.0, 1.0, 1.0] > 300.0).astype(int) + (X[:, 2] > 101.0)
    model = StructBoostClassifier(
        objective="hinge", C=30, tol=0.05, weak_learner=["linear", "stump"]
    ).fit(X, y)
    display = ShapeDisplay.from_estimator(model)
    assert display.slope(0).any()
    assert sum(len(display.shape(f)[0]) for f in range(3)) > 0
    total, drawn, inside = np.zeros((150, 3)), np.zeros((150, 3)), np.ones(150, bool)
    for feature in range(3):
        x = X[:, feature]
        thresholds, values = display.shape(feature)
        steps = values[np.searchsorted(thresholds, x, side="left")]
        total += steps + np.outer(x, display.slope(feature))
        at, corners = display.curve(feature)
        inside &= (at[0] < x) & (x < at[-1])
        # Between the corners the curve is straight.
        for channel in range(3):
            drawn[:, channel] += np.interp(x, at, corners[:, channel])
    assert inside.mean() > 0.8
    scores = model.decision_function(X)
    for sums, rows in ((total, slice(None)), (drawn, inside)):
        constant = (scores - scores.mean(axis=1, keepdims=True) - sums)[rows]
        np.testing.assert_allclose(constant, np.tile(constant[0], (len(constant), 1)), atol=1e-7)
    assert (display.importances() > 0).any()
    with pytest.raises(TypeError, match="give the result of Ensemble"):
        ShapeDisplay(model)


def test_holes_and_categories_are_drawn_beside_the_numbers():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"colour": rng.choice(["red", "blue", "grey"], size=200), "size": rng.normal(size=200)}
    )
    y = (frame.colour == "red") ^ (frame["size"] > 0.5)
    frame.loc[rng.random(200) < 0.2, "size"] = np.nan
    frame.loc[:9, "colour"] = None
    model = StructBoostClassifier(objective="hinge", C=50.0, max_iter=20).fit(frame, y)
    display = ShapeDisplay.from_estimator(model)
    colours, sizes = sorted(display.axes_, key=lambda axis: axis.get_xlabel())
    assert [label.get_text() for label in colours.get_xticklabels()] == [
        "blue", "grey", "red", "missing",
    ]  # fmt: skip
    assert np.abs(sizes.get_xlim()).max() < 10
    rows = later_table(model, frame)
    expected = model.model_.members["x"].learners.responses(rows).T @ model.model_.matrix()
    np.testing.assert_allclose(model.model_.compile().raw_scores(rows), expected)
