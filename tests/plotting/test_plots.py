"""Plots of shapes and contributions are the model."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris

from structboost import (
    ContributionsDisplay,
    ShapeDisplay,
    SparsityPathDisplay,
    StructBoostClassifier,
    StructBoostRanker,
)
from structboost.faces.tables import later_table
from tests.helpers.refusals import refused

pytestmark = pytest.mark.slow

X, Y = load_iris(return_X_y=True)
HOSTILE = ["<script>alert(1)</script>", "a & b", "x$^2$", '"']


def test_a_taxonomy_is_shown_by_class():
    model = StructBoostClassifier("hinge", C=10, taxonomy={0: None, "a": [1, 2]}).fit(X, Y)
    display = ShapeDisplay.from_estimator(model)
    assert [line.get_label() for line in display.axes_[0].get_lines()][:3] == ["0", "1", "2"]


def test_heat_maps_of_classes_have_the_mean_0_over_the_classes():
    model = StructBoostClassifier("hinge", C=30, weak_learner="pair_tree", max_iter=9).fit(X, Y)
    display = ShapeDisplay.from_estimator(model, pairs=2)
    assert display.axes_[-1].get_title() in "012"
    for table in display.pairs.values():
        assert_allclose(table.sum(axis=2), 0.0, atol=1e-9)


def test_shape_display_draws_chosen_features_of_one_channel(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    display = ShapeDisplay.from_estimator(
        StructBoostClassifier("hinge", C=10).fit(X, y), features=2
    )
    largest = np.argsort(-display.importances(), kind="stable")[:2]
    assert [axis.get_xlabel() for axis in display.axes_] == [f"feature {f}" for f in largest]
    assert not display.shape(int(np.argmin(display.importances())))[1].any()
    display.figure_.savefig(tmp_path / "shapes.png")
    refused("not fitted", ShapeDisplay.from_estimator, StructBoostClassifier())
    refused("form is", ShapeDisplay, display)
    refused("feature_names", ShapeDisplay, display.form, feature_names=["a"])
    refused("features is 0", display.plot, features=0)
    refused("feature is 99", display.curve, 99)
    refused("inconsistent", SparsityPathDisplay, [1, 2], [1.0])


def test_slopes_and_steps_add_up_to_the_scores():
    X = default_rng(0).normal(size=(150, 3)) + 100.0
    y = (X.sum(axis=1) > 300.0).astype(int) + (X[:, 2] > 101.0)
    model = StructBoostClassifier(
        objective="hinge", C=30, tol=0.05, weak_learner=["linear", "stump"]
    ).fit(X, y)
    display = ShapeDisplay.from_estimator(model)
    assert display.slope(0).any()
    assert sum(len(display.shape(f)[0]) for f in range(3)) > 0
    assert display.axes_[0].get_xlabel() == f"feature {np.argmax(display.importances())}"
    total, drawn, inside = np.zeros((150, 3)), np.zeros((150, 3)), np.ones(150, bool)
    for feature, x in enumerate(X.T):
        thresholds, values = display.shape(feature)
        total += values[np.searchsorted(thresholds, x)] + np.outer(x, display.slope(feature))
        at, corners = display.curve(feature)
        assert display.importances()[feature] == np.ptp(corners, axis=0).max()
        inside &= (at[0] < x) & (x < at[-1])
        # Between the corners the curve is straight.
        drawn += np.column_stack([np.interp(x, at, channel) for channel in corners.T])
    assert inside.mean() > 0.8
    scores = model.decision_function(X)
    for sums, rows in ((total, slice(None)), (drawn, inside)):
        constant = (scores - scores.mean(axis=1, keepdims=True) - sums)[rows]
        assert_allclose(constant - constant[0], 0.0, atol=1e-7)


def test_holes_and_categories_are_drawn_beside_the_numbers():
    rng = default_rng(0)
    frame = pd.DataFrame(
        {"colour": rng.choice(["red", "blue", "grey"], size=200), "size": rng.normal(size=200)}
    )
    y = (frame.colour == "red") ^ (frame["size"] > 0.5)
    frame.loc[rng.random(200) < 0.2, "size"] = np.nan
    frame.loc[:9, "colour"] = None
    model = StructBoostClassifier("hinge", C=50.0, max_iter=20).fit(frame, y)
    display = ShapeDisplay.from_estimator(model)
    colours, sizes = sorted(display.axes_, key=lambda axis: axis.get_xlabel())
    assert [label.get_text() for label in colours.get_xticklabels()] == [
        "blue", "grey", "red", "missing",
    ]  # fmt: skip
    assert np.abs(sizes.get_xlim()).max() < 10
    rows = later_table(model, frame)
    expected = model.model_.members["x"].learners.responses(rows).T @ model.model_.matrix()
    assert_allclose(model.model_.compile().raw_scores(rows), expected)


def test_bars_are_the_mean_sizes_of_contributions():
    frame = pd.DataFrame(X, columns=HOSTILE)
    model = StructBoostClassifier(max_iter=5, random_state=0).fit(frame, Y)
    found = model.contributions(frame, frame[::5])
    values = found.values
    named = ContributionsDisplay(found, feature_names=frame.columns).plot()
    assert {t.get_text() for t in named.ax_.get_yticklabels()} == {*HOSTILE}
    refused("feature_names .* give 4 names", ContributionsDisplay, found, feature_names=["a"])
    display = ContributionsDisplay.from_estimator(model, frame, frame[::5], features=3)
    drawn = np.array([[bar.get_width() for bar in bars] for bars in display.ax_.containers])
    sizes = np.abs(values).mean(axis=0)
    assert_allclose(drawn.T, sizes[np.argsort(sizes.sum(axis=1))[1:]])
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["0", "1", "2"]
    two = model.fit(frame, Y > 1)
    assert ContributionsDisplay.from_estimator(two, frame, frame).ax_.get_legend() is None
    refused("is not fitted yet", ContributionsDisplay.from_estimator, StructBoostRanker(), X)
    plt.close("all")
