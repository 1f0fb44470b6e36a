"""Tables as they come: categories, names, directions."""

import datetime

import numpy as np
import pandas
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from sklearn.base import clone

from structboost import StructBoostClassifier, StructBoostRanker
from structboost.learners.linear import SVMFamily
from tests.helpers.refusals import refused

COLOURS = np.array(["red", "green", "blue", "violet"])


def columns(n=160, seed=0):
    """A colour, a number and a size, and a class that the first two decide."""
    rng = default_rng(seed)
    colour, size = COLOURS[rng.integers(4, size=n)], rng.integers(3, size=n)
    length = rng.normal(size=n)
    y = np.where(np.isin(colour, ("red", "blue")), length > 0.3, length < -0.3)
    return {"colour": colour, "length": length, "size": size.astype(float)}, y.astype(int)


@pytest.mark.parametrize("parameters", [{}, {"objective": "hinge", "C": 50.0}])
def test_columns_of_text_are_those_of_their_codes(parameters):
    made, y = columns()
    codes = np.unique(made["colour"], return_inverse=True)[1]
    table = np.column_stack((codes, made["length"], made["size"]))
    expected = StructBoostClassifier(max_iter=20, **parameters, categorical_features=[0])
    expected.fit(table, y)
    frame = pandas.DataFrame(made)
    model = StructBoostClassifier(max_iter=20, **parameters).fit(frame, y)
    scores = model.decision_function(frame)
    assert_array_equal(scores, expected.decision_function(table))
    assert model.score(frame, y) > 0.85


def test_running_text_is_told_from_categories():
    rng = np.random.default_rng(0)
    words = rng.choice(["good", "bad", "film", "story", "the"], (60, 6))
    frame = pandas.DataFrame({"said": [" ".join(row) for row in words], "size": range(60)})
    with pytest.warns(UserWarning, match=r"Column 'said' of X holds texts.*TfidfVectorizer"):
        StructBoostClassifier(max_iter=1).fit(frame, words[:, 0] == "good")


def test_unknown_categories_count_as_missing():
    made, y = columns()
    made["colour"] = np.where(np.arange(len(y)) % 9 == 0, None, made["colour"].astype(object))
    frame = pandas.DataFrame(made)
    model = StructBoostClassifier("hinge", C=50.0, max_iter=20).fit(frame, y)
    strange = frame.assign(colour=frame.colour.fillna("grey"))
    assert_array_equal(model.decision_function(strange), model.decision_function(frame))


def test_categorical_features_may_be_names_indices_or_a_mask():
    made, y = columns()
    frame = pandas.DataFrame(made)
    by_name = StructBoostClassifier(max_iter=5, categorical_features=["colour", "size"])
    assert by_name.fit(frame, y).categories_[2] == [0.0, 1.0, 2.0]
    table = frame[["length", "size"]].to_numpy()
    for given in ([1], [False, True]):
        model = StructBoostClassifier(max_iter=5, categorical_features=given).fit(table, y)
        assert model.categories_ == {1: [0.0, 1.0, 2.0]}
    for given, said in ((["hue"], "names 'hue'"), ([7], "column indices from 0 to 2")):
        refused(said, StructBoostClassifier(categorical_features=given).fit, frame, y)
    refused(
        r"Column 'colour' of X holds .*encode it as numbers",
        StructBoostClassifier(categorical_features=None).fit,
        frame,
        y,
    )
    refused(
        r"which weak_learner=.*SVMFamily.* cannot take",
        StructBoostClassifier("hinge", weak_learner=SVMFamily).fit,
        frame,
        y,
    )


def steps(model, name, frame):
    """Scores along one feature, the others as in the first rows."""
    rows = frame.iloc[:10]
    grid = np.linspace(-3, 3, 31)
    return np.array([model.decision_function(rows.assign(**{name: value})) for value in grid])


@pytest.mark.slow
@pytest.mark.parametrize("weak_learner", ["stump", "tree", None])
@pytest.mark.parametrize("estimator", [StructBoostClassifier, StructBoostRanker])
def test_scores_are_monotonic_in_constrained_features(estimator, weak_learner):
    rng = default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(150, 3)), columns=list("abc"))
    y = (frame.a + np.sin(4 * frame.a) - frame.b + frame.c**2 > 1).astype(int)
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    options = {"max_iter": 15}
    if weak_learner:
        options |= {"objective": "hinge", "C": 100.0, "weak_learner": weak_learner}
    free = estimator(**options).fit(frame, y)
    assert (np.diff(steps(free, "a", frame), axis=0) < 0).any()
    model = estimator(**options, monotonic_cst={"a": 1, "b": -1}).fit(frame, y)
    assert (np.diff(steps(model, "a", frame), axis=0) >= 0).all()
    assert (np.diff(steps(model, "b", frame), axis=0) <= 0).all()
    assert (np.diff(steps(model, "c", frame), axis=0) > 0).any()
    if weak_learner == "stump":
        assert model.history_[-1]["bound"] <= model.objective_
    listed = estimator(**options, monotonic_cst=[1, -1, 0]).fit(frame, y)
    assert_array_equal(listed.decision_function(frame), model.decision_function(frame))


def test_impossible_directions_are_refused():
    made, y = columns()
    frame, numbers = pandas.DataFrame(made), pandas.DataFrame(made)[["length", "size"]]
    for given, X, said in (
        ([1], numbers, "give -1, 0 or 1 for each of the 2 features"),
        ({"width": 1}, numbers, "names 'width'"),
        ([1, 0, 0], frame, "feature 0 a direction, which is categorical"),
    ):
        refused(said, StructBoostClassifier(monotonic_cst=given).fit, X, y)
    refused(
        "one score for two classes or for a ranker",
        StructBoostClassifier(monotonic_cst=[1, 0]).fit,
        numbers,
        np.arange(len(y)) % 3,
    )
    refused(
        "needs stumps or trees, and weak_learner is 'svm'",
        StructBoostClassifier("hinge", monotonic_cst=[1, 0], weak_learner="svm").fit,
        numbers,
        y,
    )


def test_categories_may_be_objects_with_any_missing_value():
    made, y = columns()
    colours = made["colour"].astype(object)
    colours[:4] = pandas.NA, pandas.NaT, None, np.nan
    frame = pandas.DataFrame({**made, "colour": colours})
    model = StructBoostClassifier(max_iter=10, categorical_features=["colour"]).fit(frame, y)
    assert model.categories_ == {0: ["blue", "green", "red", "violet"]}
    table = np.column_stack((colours, made["length"], made["size"])).astype(object)
    same = clone(model).set_params(categorical_features=[0]).fit(table, y)
    assert_array_equal(same.decision_function(table), model.decision_function(frame))
    frame.loc[5, "colour"] = 7.5
    frame.loc[6, "colour"] = datetime.date(2020, 1, 1)
    refused("Column 'colour' of X has categories of types that have", clone(model).fit, frame, y)


def test_categories_that_a_file_cannot_hold_are_named(tmp_path):
    made, y = columns()
    frame = pandas.DataFrame(made).assign(part=pandas.cut(made["length"], 3))
    model = StructBoostClassifier(max_iter=5).fit(frame, y)
    refused(r"Column 3 of X has the category Interval.*joblib.dump", model.save, tmp_path / "m")
    assert not list(tmp_path.iterdir())
