"""Tables in every type and container give all faces the same model, or a clear refusal."""

import pathlib
import warnings

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from structboost import StructBoostClassifier
from structboost.errors import ConstantPredictionWarning
from structboost.faces.columns import RareCategories, codes_of
from tests.helpers.refusals import refused
from tests.helpers.table_faces import (
    CLASSIFIERS,
    COLOUR,
    ENCODING,
    FACES,
    TABLE,
    TWO,
    WIDTH,
    N,
    fitted,
)

pytestmark = pytest.mark.filterwarnings("ignore")

FRAME = pandas.DataFrame(TABLE, columns=["width", "size"])
HOLES = np.where(np.arange(N)[:, None] % 5 == [0, 9], np.nan, TABLE)
HOLES_FRAME = pandas.DataFrame(HOLES, columns=["width", "size"])
COLOURED = FRAME.assign(colour=COLOUR)
QUICK = ("StructBoost, hinge", "StructuredSVM", "ShareBoost", "Ranker, variant")


def quickly(names):
    """Names of faces, of which all but a few are slow tests."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


def arrow(frame):
    return pyarrow.Table.from_pandas(frame, preserve_index=False)


each_face = pytest.mark.parametrize("name", quickly(FACES))


@each_face
def test_faces_take_categories_missing_values_and_columns_by_name(name, reloaded):
    frame = COLOURED.mask(np.random.default_rng(1).random(COLOURED.shape) < 0.1)
    model = fitted(name, frame)
    scores = model.decision_function(frame)
    assert list(model.feature_names_in_) == ["width", "size", "colour"]
    assert model.n_features_in_ == 3
    assert np.isfinite(scores).all()
    turned = frame[["colour", "width", "size"]]
    loaded = reloaded(model)
    assert loaded.encoded_feature_names_ == model.encoded_feature_names_
    for same in (model, loaded):
        for table in (turned, polars.from_pandas(turned), arrow(turned), frame.to_numpy()):
            assert_array_equal(same.decision_function(table), scores)
        for wrong in (turned.rename(columns={"size": "girth"}), turned[["colour", "size"]]):
            refused("feature names should match", same.predict, wrong)
    if hasattr(model, "feature_importances_"):
        assert model.feature_importances_.shape == (3,)
        assert model.feature_importances_.sum() == pytest.approx(1.0)
    if hasattr(model, "staged_predict"):
        assert_array_equal(list(model.staged_predict(turned))[-1], model.predict(frame))
    try:
        values, base = model.contributions(frame)
    except TypeError:  # trees have none
        return
    assert values.shape[:2] == (N, 3)
    assert_allclose(base + values.sum(axis=1), scores, atol=1e-9)


@pytest.mark.parametrize("name", ENCODING)
def test_an_encoded_table_equals_one_encoded_by_hand(name):
    # A mean of 32 halves is exact, however it is added up.
    frame = COLOURED.assign(width=np.where(np.arange(N) % 15 < 8, WIDTH, np.nan))
    assert frame["width"].count() == 32
    model = fitted(name, frame)
    is_filled = "width is missing" in model.encoded_feature_names_
    by_hand = pandas.DataFrame({"width": frame["width"]})
    if is_filled:
        by_hand["width"] = by_hand["width"].fillna(frame["width"].mean())
        by_hand["width is missing"] = frame["width"].isna().astype(float)
    by_hand["size"] = frame["size"]
    for colour in ("blue", "green", "red"):
        by_hand[f"colour={colour}"] = (COLOUR == colour).astype(float)
    assert list(by_hand.columns) == model.encoded_feature_names_
    expected = fitted(name, by_hand)
    assert_array_equal(model.decision_function(frame), expected.decision_function(by_hand))
    unseen = by_hand.assign(**dict.fromkeys(by_hand.columns[-3:], 0.0))
    assert_array_equal(
        model.decision_function(frame.assign(colour="violet")), expected.decision_function(unseen)
    )


@each_face
def test_missing_values_in_prediction_alone_are_taken(name):
    model = fitted(name, FRAME)
    scores = model.decision_function(HOLES_FRAME)
    assert np.isfinite(scores).all()
    if name in ENCODING and getattr(model._columns.encoding, "means", None) is not None:
        filled = HOLES_FRAME.fillna(FRAME.mean())
        assert_allclose(scores, model.decision_function(filled), atol=1e-12)


MONOTONE = (
    "StructBoost", "StructBoost, hinge", "MultiBoostCW", "MultiBoost", "MultiBoost, variant",
    "MultiBoostMO", "AdaBoostMO",
)  # fmt: skip


@pytest.mark.parametrize("name", MONOTONE)
def test_faces_with_one_score_keep_directions(name):
    model = fitted(name, COLOURED, TWO, monotonic_cst={"width": -1})
    grid = [model.decision_function(COLOURED.assign(width=v)) for v in np.linspace(-1, 6, 15)]
    assert (np.diff(grid, axis=0) <= 0).all()


@pytest.mark.parametrize("name", QUICK)
def test_whole_numbers_as_labels_of_columns_are_matched(name):
    frame = pandas.DataFrame(TABLE, columns=[7, 3])
    model = fitted(name, frame)
    for same in (frame[[3, 7]], pandas.DataFrame(TABLE)):
        assert_array_equal(model.decision_function(same), model.decision_function(frame))
    refused(r"X lacks \[3\] and has \[4\]", model.predict, frame.rename(columns={3: 4}))


@pytest.mark.parametrize("name", ["StructBoost, hinge", "StructuredSVM", "ShareBoost"])
def test_columns_of_unseen_categories_warn_with_the_column(name):
    model = fitted(name, COLOURED)
    with warnings.catch_warnings(action="error"):
        model.predict(COLOURED.assign(colour=np.where(np.arange(N) % 2 == 0, "red", "violet")))
        model.predict(COLOURED.assign(colour=pandas.Series([None] * N, dtype=object)))
    with pytest.warns(UserWarning, match=r"Column 'colour' of X has no value that training had"):
        model.predict(COLOURED.assign(colour="violet"))
    nearly = np.where(np.arange(N) == 0, "red", "violet").astype(object)
    nearly[1:20] = None
    with pytest.warns(UserWarning, match=r"has 40 of 41 values that training did not .*'violet'"):
        model.predict(COLOURED.assign(colour=nearly))
    with pytest.warns(UserWarning, match=r"holds 'GREEN', .*'blue', 'green', 'red'"):
        model.decision_function(COLOURED.assign(colour=np.char.upper(COLOUR)))


@each_face
def test_sparse_rows_of_zeros_warn_if_training_had_none(name, reloaded):
    table = sparse.csr_array(np.column_stack((TABLE, np.ones(N))))
    other = table.copy()
    # Zeros that are stored are zeros, too.
    other.data[np.repeat(np.arange(N) % 3 == 0, np.diff(other.indptr))] = 0.0
    model = fitted(name, table)
    for same in (model, reloaded(model)):
        with pytest.warns(UserWarning, match=rf"X has 20 of {N} rows that are 0 everywhere"):
            same.predict(other)
    used = fitted(name, other)
    with warnings.catch_warnings(action="error"):
        model.predict(table)
        model.predict(other.toarray())
        used.predict(other)


def test_too_many_texts_that_are_numbers_have_the_remedy_for_numbers():
    income = pandas.DataFrame({"income": [*map(str, range(300)), "unknown"]})
    with pytest.warns(UserWarning, match=r"in at most 1 row, count.*give pandas\.to_numeric"):
        StructBoostClassifier(max_iter=1).fit(income, np.arange(301) % 2)


@pytest.mark.parametrize("name", ["StructBoost, hinge", "StructuredSVM"])
def test_the_rarest_of_many_categories_count_as_one(name, reloaded):
    # City k occurs 1 + (k < 254) times.
    city = np.array([f"city {k}" for k in [*range(400), *range(254)]])
    frame = pandas.DataFrame({"city": city})
    with pytest.warns(UserWarning, match=r"'city' of X has 400 categories; the 254 .*146 others"):
        model = FACES[name]().fit(frame, np.char.endswith(city, "7").astype(int))
    *frequent, rare = model.categories_[0]
    assert sorted(frequent) == sorted(city[400:])
    assert isinstance(rare, RareCategories)
    assert sorted(rare) == sorted(city[254:400])
    for same in (model, reloaded(model)):
        assert len(np.unique(same.decision_function(frame)[254:400])) == 1
        assert set(codes_of(frame, same.categories_)[0][254:400]) == {254.0}
    with warnings.catch_warnings(action="error"):
        model.predict(frame[300:310])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class_gives_a_model_that_always_predicts_it(name, reloaded):
    y = ["only"] * N
    with pytest.warns(ConstantPredictionWarning, match="y has 1 class only, 'only'"):
        model = CLASSIFIERS[name]().fit(COLOURED, y)
    for same in (model, reloaded(model)):
        assert same.predict(COLOURED).tolist() == y
        assert not same.decision_function(COLOURED).any()
        assert same.contributions(COLOURED).values.shape[:2] == (N, 3)
        if hasattr(same, "predict_proba"):
            assert (same.predict_proba(COLOURED) == 1.0).all()
        if hasattr(same, "staged_predict"):
            assert all(stage.tolist() == y for stage in same.staged_predict(COLOURED))
        refused("feature names should match", same.predict, FRAME)


def test_a_file_without_a_learner_of_categories_loads(reloaded):
    frame = FRAME.assign(colour="red")
    model = StructBoostClassifier("hinge", C=5.0, max_iter=3).fit(frame, WIDTH > 2)
    assert_array_equal(reloaded(model).predict(frame), model.predict(frame))


# Faces of the rows of the table in the guide.
ROWS = {
    "`StructBoostClassifier`, trees or stumps": ["StructBoost", "StructBoost, hinge"],
    "`StructBoostClassifier`, one linear function": ["StructBoost, svm", "StructBoost, linear"],
    "`MultiBoostClassifier`, `MultiBoostCWClassifier`": ["MultiBoost", "MultiBoostCW"],
    "`MultiBoostMOClassifier`, `AdaBoostMOClassifier`": ["MultiBoostMO", "AdaBoostMO"],
    "`MultiBoostECCClassifier`, `AdaBoostECCClassifier`": ["MultiBoostECC", "AdaBoostECC"],
    "`AdaBoostMHClassifier`": ["AdaBoostMH"],
    "`ShareBoostClassifier`": ["ShareBoost"],
    "`StructuredSVMClassifier`": ["StructuredSVM"],
    "`StructBoostRanker`, trees or stumps": ["Ranker"],
    "`StructBoostMultiLabelClassifier`, trees or stumps": ["MultiLabel", "MultiLabel, hinge"],
}


def works(name, **parameters):
    y = TWO if name in CLASSIFIERS else None
    try:
        fitted(name, FRAME, y, **parameters)
    except (TypeError, ValueError) as error:
        return next(iter(parameters)) not in str(error)
    return True


@pytest.mark.slow
def test_the_table_of_the_guide_says_what_estimators_take():
    guide = pathlib.Path(__file__).parents[2] / "docs" / "tables-as-they-come.md"
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in guide.read_text().splitlines()
        if line.startswith("| `")
    ]
    assert [row[0] for row in rows] == list(ROWS)
    for row, categories_as, missing_as, stops, directed in rows:
        for name in ROWS[row]:
            model = fitted(name, COLOURED.assign(width=HOLES[:, 0]))
            names = model.encoded_feature_names_
            assert ("colour" in names) == (categories_as == "sets"), name
            assert ("width is missing" not in names) == (missing_as == "a side of a split"), name
            assert works(name, early_stopping=True) == (stops == "yes"), name
            assert works(name, monotonic_cst=[1, 0]) == (directed != "no"), name
