"""Tables as they come: categories, names, directions."""

from __future__ import annotations

import datetime
from functools import partial

import narwhals
import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from structboost import StructBoostClassifier, StructBoostMultiLabelClassifier, StructBoostRanker
from structboost.learners.linear import SVMFamily

polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
COLOURS = np.array(["red", "green", "blue", "violet"])


def columns(n=160, seed=0):
    """A colour, a number and a size, and a class that the first two decide."""
    rng = np.random.default_rng(seed)
    colour, size = COLOURS[rng.integers(4, size=n)], rng.integers(3, size=n)
    length = rng.normal(size=n)
    y = np.where(np.isin(colour, ("red", "blue")), length > 0.3, length < -0.3)
    return {"colour": colour, "length": length, "size": size.astype(float)}, y.astype(int)


def frames():
    made, _ = columns()
    frame = pandas.DataFrame(made)
    return {
        "pandas category": frame.astype({"colour": "category"}),
        "pandas strings": frame,
        "polars strings": polars.DataFrame(made),
        "polars Categorical": polars.DataFrame(made).cast({"colour": polars.Categorical}),
        "Arrow": pyarrow.table(made),
        "Arrow dictionary": pyarrow.table(
            made | {"colour": pyarrow.array(made["colour"]).dictionary_encode()}
        ),
    }


def names_are_known(frame):
    """Whether scikit-learn finds the names of columns: 1.6 does not in frames of polars 2."""
    numbers = frame[["length", "size"]] if hasattr(frame, "iloc") else frame.select(["length"])
    return hasattr(StandardScaler().fit(numbers), "feature_names_in_")


def test_an_arrow_batch_equals_its_table():
    made, y = columns()
    batch, table = pyarrow.RecordBatch.from_pydict(made), pyarrow.table(made)
    model = StructBoostClassifier(max_iter=5).fit(batch, y)
    assert model.categories_ == {0: ["blue", "green", "red", "violet"]}
    np.testing.assert_array_equal(model.decision_function(batch), model.decision_function(table))


@pytest.mark.parametrize("parameters", [{}, {"objective": "hinge", "C": 50.0}])
@pytest.mark.parametrize("kind", frames())
def test_frames_of_all_libraries_give_the_same_model_and_keep_names(kind, parameters):
    if not names_are_known(frames()[kind]):
        pytest.skip("this scikit-learn does not know the names of columns of this library")
    made, y = columns()
    codes = np.column_stack(
        (np.unique(made["colour"], return_inverse=True)[1], *list(made.values())[1:])
    )
    expected = StructBoostClassifier(max_iter=20, **parameters, categorical_features=[0])
    expected.fit(codes, y)
    model = StructBoostClassifier(max_iter=20, **parameters).fit(frames()[kind], y)
    assert model.feature_names_in_.tolist() == ["colour", "length", "size"]
    assert model.categories_ == {0: ["blue", "green", "red", "violet"]}
    np.testing.assert_array_equal(
        model.decision_function(frames()[kind]), expected.decision_function(codes)
    )
    assert model.score(frames()[kind], y) > 0.85
    assert model.feature_importances_.shape == (3,)


@pytest.mark.filterwarnings("error")
def test_narwhals_frames_cause_no_warning():
    made, y = columns()
    for native in (polars.DataFrame(made), polars.DataFrame(made).drop("colour")):
        if not names_are_known(native):
            pytest.skip("this scikit-learn does not know the names of columns of this library")
        expected = StructBoostClassifier(max_iter=5).fit(native, y)
        frame = narwhals.from_native(native)
        model = StructBoostClassifier(max_iter=5).fit(frame, y)
        assert list(model.feature_names_in_) == native.columns
        scores = model.decision_function(frame)
        np.testing.assert_array_equal(scores, expected.decision_function(native))


def test_models_of_categories_are_saved_and_explained(tmp_path):
    frame, (_, y) = frames()["pandas strings"], columns()
    for parameters in ({}, {"objective": "hinge", "C": 50.0}):
        model = clone(StructBoostClassifier(max_iter=10, **parameters)).fit(frame, y)
        model.save(tmp_path / "model")
        loaded = StructBoostClassifier.load(tmp_path / "model")
        assert loaded.categories_ == model.categories_
        np.testing.assert_array_equal(
            loaded.decision_function(frame), model.decision_function(frame)
        )
    values, base = model.contributions(frame)
    np.testing.assert_allclose(base + values.sum(axis=1), model.decision_function(frame), atol=1e-9)


def test_unknown_categories_count_as_missing():
    made, y = columns()
    made["colour"] = np.where(np.arange(len(y)) % 9 == 0, None, made["colour"].astype(object))
    frame = pandas.DataFrame(made)
    model = StructBoostClassifier(objective="hinge", C=50.0, max_iter=20).fit(frame, y)
    strange = frame.assign(colour=frame.colour.fillna("grey"))
    np.testing.assert_array_equal(model.decision_function(strange), model.decision_function(frame))


def test_categorical_features_may_be_names_indices_or_a_mask():
    made, y = columns()
    frame = pandas.DataFrame(made)
    by_name = StructBoostClassifier(max_iter=5, categorical_features=["colour", "size"])
    assert by_name.fit(frame, y).categories_[2] == [0.0, 1.0, 2.0]
    table = frame[["length", "size"]].to_numpy()
    for given in ([1], [False, True]):
        model = StructBoostClassifier(max_iter=5, categorical_features=given).fit(table, y)
        assert model.categories_ == {1: [0.0, 1.0, 2.0]}
    for given, said in (
        (["hue"], "names 'hue'"),
        ([7], "column indices from 0 to 2"),
        ("all", "is 'all'"),
    ):
        with pytest.raises(ValueError, match=said):
            StructBoostClassifier(categorical_features=given).fit(frame, y)
    with pytest.raises(ValueError, match=r"Column 'colour' of X holds .*encode it as numbers"):
        StructBoostClassifier(categorical_features=None).fit(frame, y)
    own = partial(SVMFamily)
    with pytest.raises(ValueError, match=r"which weak_learner=.*SVMFamily.* cannot take"):
        StructBoostClassifier(objective="hinge", weak_learner=own).fit(frame, y)


def test_rankers_and_sets_of_labels_take_categories():
    made, y = columns()
    frame = pandas.DataFrame(made)
    assert StructBoostRanker(max_iter=20).fit(frame, y).score(frame, y) > 0.9
    sets = np.column_stack((y, 1 - y))
    model = StructBoostMultiLabelClassifier(objective="hinge", C=50.0, max_iter=20).fit(frame, sets)
    assert (model.predict(frame) == sets).mean() > 0.85


def steps(model, name, frame):
    """Scores along one feature, the others as in the first rows."""
    rows = frame.iloc[:10]
    grid = np.linspace(-3, 3, 61)
    return np.array([model.decision_function(rows.assign(**{name: value})) for value in grid])


@pytest.mark.slow
@pytest.mark.parametrize("weak_learner", ["stump", "tree", None])
@pytest.mark.parametrize("estimator", [StructBoostClassifier, StructBoostRanker])
def test_scores_are_monotonic_in_constrained_features(estimator, weak_learner):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    y = (frame.a + np.sin(4 * frame.a) - frame.b + frame.c**2 > 1).astype(int)
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    options = {"max_iter": 30}
    if weak_learner:
        options |= {"objective": "hinge", "C": 100.0, "weak_learner": weak_learner}
    free = estimator(**options).fit(frame, y)
    assert (np.diff(steps(free, "a", frame), axis=0) < 0).any()
    for given in ({"a": 1, "b": -1}, [1, -1, 0]):
        model = estimator(**options, monotonic_cst=given).fit(frame, y)
        assert (np.diff(steps(model, "a", frame), axis=0) >= 0).all()
        assert (np.diff(steps(model, "b", frame), axis=0) <= 0).all()
        assert (np.diff(steps(model, "c", frame), axis=0) > 0).any()
        if weak_learner == "stump":
            assert model.history_[-1]["bound"] <= model.objective_
        assert model.score(frame, y) > 0.8


def test_impossible_directions_are_refused():
    made, y = columns()
    frame, numbers = pandas.DataFrame(made), pandas.DataFrame(made)[["length", "size"]]
    for given, X, said in (
        ([1], numbers, "give -1, 0 or 1 for each of the 2 features"),
        ({"width": 1}, numbers, "names 'width'"),
        ([1, 0, 0], frame, "feature 0 a direction, which is categorical"),
    ):
        with pytest.raises(ValueError, match=said):
            StructBoostClassifier(monotonic_cst=given).fit(X, y)
    with pytest.raises(ValueError, match="one score for two classes or for a ranker"):
        StructBoostClassifier(monotonic_cst=[1, 0]).fit(numbers, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="needs stumps or trees, and weak_learner is 'svm'"):
        StructBoostClassifier(objective="hinge", monotonic_cst=[1, 0], weak_learner="svm").fit(
            numbers, y
        )


def test_columns_of_one_name_are_refused():
    frame = pandas.DataFrame(np.ones((4, 3)), columns=["a", "b", "a"])
    with pytest.raises(
        ValueError, match="X has 2 columns named 'a'; give each column another name"
    ):
        StructBoostClassifier().fit(frame, [0, 1, 0, 1])


def test_columns_are_checked_before_their_categories():
    frame, (_, y) = frames()["pandas strings"], columns()
    model = StructBoostClassifier(max_iter=5).fit(frame, y)
    with pytest.raises(ValueError, match=r"X lacks \['size'\]\."):
        model.predict(frame[["colour", "length"]])
    np.testing.assert_array_equal(
        model.predict(frame[["length", "colour", "size"]]), model.predict(frame)
    )
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"):
        model.predict(np.zeros((4, 2)))


@pytest.mark.parametrize("library", [polars.DataFrame, pyarrow.table])
def test_columns_of_dates_and_lists_are_refused_in_every_library(library):
    days = [datetime.date(2020, 1, 1 + i) for i in range(4)]
    for column, message in (
        (days, "holds Date; convert it"),
        ([[1, 2]] * 4, r"holds List.*encode"),
    ):
        with pytest.raises(ValueError, match=f"Column 'when' of X {message}"):
            StructBoostClassifier().fit(library({"a": [1, 2, 3, 4], "when": column}), [0, 1, 0, 1])


def test_lazy_frames_and_single_columns_are_refused():
    made, y = columns()
    with pytest.raises(ValueError, match=r"X is a LazyFrame.*give X.collect\(\)"):
        StructBoostClassifier().fit(polars.DataFrame(made).lazy(), y)
    with pytest.raises(ValueError, match=r"2-dimensional|2D"):
        StructBoostClassifier().fit(pandas.Series(made["length"]), y)


def test_categories_may_be_objects_with_any_missing_value():
    made, y = columns()
    colours = made["colour"].astype(object)
    colours[:4] = pandas.NA, pandas.NaT, None, np.nan
    frame = pandas.DataFrame({**made, "colour": colours})
    model = StructBoostClassifier(max_iter=10, categorical_features=["colour"]).fit(frame, y)
    assert model.categories_ == {0: ["blue", "green", "red", "violet"]}
    table = np.column_stack((colours, made["length"], made["size"])).astype(object)
    same = clone(model).set_params(categorical_features=[0]).fit(table, y)
    np.testing.assert_array_equal(same.decision_function(table), model.decision_function(frame))
    frame.loc[5, "colour"] = 7.5
    frame.loc[6, "colour"] = datetime.date(2020, 1, 1)
    with pytest.raises(ValueError, match="Column 'colour' of X has categories of types that have"):
        clone(model).fit(frame, y)


def test_categories_that_a_file_cannot_hold_are_named(tmp_path):
    frame, (_, y) = frames()["pandas strings"], columns()
    frame["part"] = pandas.cut(frame["length"], 3)
    model = StructBoostClassifier(max_iter=5).fit(frame, y)
    with pytest.raises(TypeError, match=r"Column 3 of X has the category Interval.*joblib.dump"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_fit_on_other_columns_that_fails_leaves_the_model_as_it_was():
    frame, (_, y) = frames()["pandas strings"], columns()
    model = StructBoostClassifier(max_iter=5).fit(frame, y)
    expected = model.decision_function(frame)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((4, 3), np.inf), [0, 1, 1, 1])
    np.testing.assert_array_equal(model.decision_function(frame), expected)


@pytest.mark.parametrize("dtype", ["float64", "Float64", "float64[pyarrow]"])
def test_missing_and_infinite_numbers_of_nullable_columns_are_named(dtype):
    column = pandas.Series([1.0, 2.0, None, 4.0], dtype=dtype)
    frame, y = pandas.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": column}), [0, 1, 0, 1]
    own = partial(SVMFamily)
    with pytest.raises(ValueError, match="X contains NaN, first in sample 2, feature 1"):
        StructBoostClassifier(objective="hinge", weak_learner=own, C=1.0).fit(frame, y)
    frame["a"] = [1.0, 2.0, 3.0, np.inf]
    with pytest.raises(ValueError, match="X contains infinity, first in sample 3, feature 0"):
        StructBoostClassifier().fit(frame, y)
