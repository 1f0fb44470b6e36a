"""Reports hold all that they show, and shape plots are the model."""

import base64
import io
import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import confusion_matrix

from structboost import (
    ContributionsDisplay,
    MulticlassTask,
    ShapeDisplay,
    SparsityPathDisplay,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVMClassifier,
    save_report,
)
from structboost.faces.tables import later_table
from tests.helpers.refusals import refused

pytestmark = pytest.mark.slow

X, Y = load_iris(return_X_y=True)
HOSTILE = ["<script>alert(1)</script>", "a & b", "x$^2$", '"']


def page_of(path, *arguments, **more):
    """Tree of the report of a model, and its text."""
    save_report(path / "r.html", *arguments, **more)
    text = (path / "r.html").read_text(encoding="utf-8")
    closed = re.sub("<((?:meta|img) [^>]*)>", r"<\1/>", text.partition("\n")[2])
    return ElementTree.fromstring(closed), text


def headings(page):
    return [element.text for element in page.iter("h2")]


def cells(page):
    return [element.text for element in page.iter() if element.tag in ("td", "th")]


def test_a_report_of_a_classifier_shows_model_score_and_pictures(tmp_path):
    frame = pd.DataFrame(X, columns=HOSTILE)
    names = np.array(["<i>setosa", "versi&color", "virginica"])[Y]
    model = StructBoostClassifier("hinge", weak_learner="stump", max_iter=8).fit(
        frame[::2], names[::2]
    )
    page, text = page_of(tmp_path, model, frame[1::2], names[1::2], title="Irises <&>")
    assert not plt.get_fignums()
    assert headings(page) == [
        "Model", "Score", "Precision and recall", "Confusion", "Importances", "Shapes",
        "Convergence", "Choice of C", "Parameters",
    ]  # fmt: skip
    # Names are text: no tag comes from them, and nothing is fetched.
    assert {element.tag for element in page.iter()} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td",
        "p", "b", "img", "pre",
    }  # fmt: skip
    assert not re.search(r"https?://|<script", text)
    assert "Irises &lt;&amp;&gt;" in text
    assert "<i>setosa" in cells(page)
    place = cells(page).index("true \\ predicted")
    shown = [cell for cell in cells(page)[place + 4 :] if cell.isdigit()]
    counts = confusion_matrix(names[1::2], model.predict(frame[1::2]))
    assert shown == [str(count) for count in counts.ravel()]
    assert f"{model.score(frame[1::2], names[1::2]):.4g}" in text
    assert f"{model.history_[-1]['bound']:.4g}" in cells(page)
    assert "Relative gap (certified)" in cells(page)
    images = [*page.iter("img")]
    assert len(images) == 4
    for image in images:
        assert image.get("alt")
        kind, content = image.get("src").split(",")
        assert kind == "data:image/png;base64"
        picture = Image.open(io.BytesIO(base64.b64decode(content))).convert("L")
        assert min(picture.size) > 100
        assert np.ptp(np.asarray(picture)) > 100


@pytest.mark.filterwarnings("ignore:The model is empty")
def test_report_omits_sections_that_a_model_lacks(tmp_path):
    qid = np.repeat(np.arange(15), 10)
    shuffled = default_rng(0).permutation(150)
    data = X[shuffled], Y[shuffled]
    trees = StructBoostRanker(max_iter=2).fit(*data, qid=qid)
    page, text = page_of(tmp_path, trees, *data, qid=qid)
    assert headings(page) == ["Model", "Score", "Importances", "Convergence", "Parameters"]
    assert f"<b>{trees.score(*data, qid=qid):.4g}</b>" in text
    empty = StructBoostClassifier("hinge", C=1e-3, max_iter=2).fit(X, Y)
    trainer = StructBoost(MulticlassTask(3), C=20, max_rounds=3).fit(X, Y)
    for arguments, sections in (
        ([StructuredSVMClassifier(tol=0.5).fit(X, Y)], ["Shapes"]),
        ([empty], []),
        ([trainer, X, Y], ["Score", "Shapes"]),
    ):
        page, _ = page_of(tmp_path, *arguments)
        assert headings(page) == ["Model", *sections, "Convergence", "Parameters"]


def test_report_names_objective_learners_and_C(tmp_path):
    hinge = StructBoostRanker("hinge", C=20, tol=0.3).fit(X, Y)
    # What the parameters say later was not minimised.
    hinge.set_params(objective="pairwise", C="auto")
    boosted = StructBoostClassifier(max_iter=2, learning_rate=0.25).fit(X, Y)
    for model, expected in (
        (boosted, {"Minimised": "log_loss", "Weak learners": "tree", "Learning rate": "0.25"}),
        (hinge, {"Minimised": "hinge", "Weak learners": "stump", "C": "20"}),
        (StructuredSVMClassifier(tol=0.5, C=3).fit(X, Y), {"Weak learners": "linear", "C": "3"}),
    ):
        shown = cells(page_of(tmp_path, model)[0])
        names = ("Minimised", "Weak learners", "C", "Learning rate")
        assert {name: shown[shown.index(name) + 1] for name in names if name in shown} == expected


def test_a_report_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / "r.html"
    path.write_text("old")
    model = StructBoostClassifier(max_iter=2)
    refused("not fitted yet", save_report, path, model)
    model.fit(X, Y)
    refused(r"estimator is '.*r.html'; give a fitted estimator", save_report, model, str(path))
    refused("X and y go together", save_report, path, model, X)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_reports_of_label_sets_and_tags_have_a_row_for_each_label(tmp_path):
    lists = [["high"] * int(x[0] > 5.8) + ["wide"] * int(x[1] > 3.0) for x in X]
    sets = StructBoostMultiLabelClassifier(max_iter=2).fit(X, lists)
    sequences = [X[::10], X[5::30], X[::20]]
    tags = [np.where(x[:, 0] > 5.8, "high", "low").tolist() for x in sequences]
    tagger = StructBoostTagger(max_iter=2).fit(sequences, tags)
    for estimator, inputs, y, names in (
        (sets, X, lists, ["high", "wide"]),
        (sets, X, [[*labels, "new"] for labels in lists], ["wide", "(not in training)"]),
        (tagger, sequences, tags, ["high", "low"]),
    ):
        _, text = page_of(tmp_path, estimator, inputs, y)
        assert "Precision and recall" in text
        assert all(f"<th>{name}</th>" in text for name in names)
    assert "Confusion" in text


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
    values, _ = model.contributions(frame, frame[::5])
    display = ContributionsDisplay.from_estimator(model, frame, frame[::5], features=3)
    drawn = np.array([[bar.get_width() for bar in bars] for bars in display.ax_.containers])
    sizes = np.abs(values).mean(axis=0)
    assert_allclose(drawn.T, sizes[np.argsort(sizes.sum(axis=1))[1:]])
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["0", "1", "2"]
    two = model.fit(frame, Y > 1)
    assert ContributionsDisplay.from_estimator(two, frame, frame).ax_.get_legend() is None
    refused("is not fitted yet", ContributionsDisplay.from_estimator, StructBoostRanker(), X)
    plt.close("all")
