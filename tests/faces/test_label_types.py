"""Labels keep their names and types, from ``fit`` through files, in every classifier."""

import datetime
import decimal
import enum

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning

from structboost import (
    AdaBoostECCClassifier,
    MultiBoostClassifier,
    ShareBoostClassifier,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructuredSVMClassifier,
)
from tests.helpers.refusals import refused

X = np.random.default_rng(0).normal(size=(40, 2))
IS_FIRST = X[:, 0] > 0
FACES = {
    "boosted": lambda: StructBoostClassifier(max_iter=2),
    "hinge": lambda: StructBoostClassifier("hinge", C=10, max_iter=2),
    "sets": lambda: StructBoostMultiLabelClassifier(max_iter=2),
    "linear": lambda: StructuredSVMClassifier(max_epochs=2),
    "multiboost": lambda: MultiBoostClassifier(max_rounds=2),
    "shareboost": lambda: ShareBoostClassifier(max_rounds=2),
    "ecc": lambda: AdaBoostECCClassifier(max_rounds=2),
}


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def of(first, second):
    return [first if is_first else second for is_first in IS_FIRST]


def objects(first, second):
    out = np.empty(len(IS_FIRST), object)
    out[:] = of(first, second)
    return out


# Labels, and the type of the classes.
TAKEN = {
    "bools": (of(True, False), "|b1"),
    "nullable bools": (pd.Series(of(True, False), dtype="boolean"), "|b1"),
    "bool objects": (objects(True, False), "|b1"),
    "whole numbers": (of(3, -1), "<i8"),
    "small whole numbers": (np.array(of(1, 2), np.int8), "|i1"),
    "whole objects": (objects(1, 2), "<i8"),
    "above 2^53": (of(2**53, 2**53 + 1), "<i8"),
    "above 2^63": (np.array(of(2**63, 2**63 + 1), np.uint64), "<u8"),
    "whole floats": (of(1.0, 2.0), "<f8"),
    "strings": (of("a", "bb"), "<U2"),
    "long strings": (of("a", "b" * 300), "<U300"),
    "strings with a zero at the end": (of("a\0", "a"), "|O"),
    "a column": (np.array(of("a", "bb"))[:, None], "<U2"),
    "strings of pandas": (pd.Series(of("a", "bb"), dtype="string"), "|O"),
    "unused categories": (pd.Categorical(of("a", "b"), categories=["z", "b", "a"]), "|O"),
    "whole categories": (pd.Series(of(1, 2)).astype("category"), "<i8"),
    "strings of numpy 2": (np.array(of("a", "b"), np.dtypes.StringDType()), "|O"),
    "another order of bytes": (np.array(of(1, 2), ">i4"), ">i4"),
}


def same(labels, others):
    assert labels.dtype == others.dtype
    assert [type(label) for label in labels] == [type(label) for label in others]
    assert_array_equal(labels, others)


each_face_of_one_label = pytest.mark.parametrize("face", sorted(set(FACES) - {"sets"}))


@pytest.mark.parametrize(
    ("face", "labels"),
    [
        *(("linear", labels) for labels in TAKEN),
        *((face, labels) for face in FACES for labels in ("nullable bools", "above 2^53")),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_labels_of_each_type_are_predicted_scored_and_saved_with_it(face, labels, reloaded):
    y, dtype = TAKEN[labels]
    fit = FACES[face]().fit(X, y)
    assert fit.classes_.dtype.str == dtype
    assert fit.score(X, y) > 0.8
    loaded = reloaded(fit)
    same(loaded.classes_, fit.classes_)
    same(loaded.predict(X), fit.predict(X))
    assert loaded.score(X, y) == fit.score(X, y)


REFUSED = {
    "NA": (pd.Series(of(1, pd.NA), dtype="Int64"), "give every sample a label"),
    "NaT": (np.array(of("2020", "NaT"), "datetime64[D]"), "give every sample a label"),
    "a column with None": (objects("a", None)[:, None], "None; give every sample a label"),
    "masked": (np.ma.array(of(1, 2), mask=IS_FIRST), "is masked"),
    "mixed objects": (objects(1, "a"), "give only strings or only numbers"),
    "bytes": (of(b"a", b"bb"), "of type bytes"),
    "dates": (of(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)), "of type date"),
    "enumerations": (of(Colour.RED, Colour.BLUE), "of type Colour"),
    "decimals": (of(decimal.Decimal(1), decimal.Decimal(2)), "of type Decimal"),
    "arrays": ([*of(1, 2)[:-1], np.array([1, 0])], r"of type ndarray|lists? of labels"),
    "128 bits of polars": (pl.Series(of(1, 2), dtype=pl.Int128), "cannot be read as an array"),
    "beyond numpy": (of(2**70, 2**70 + 1), "cannot hold .* without rounding"),
    "rounded": (of(2**53 + 1, 0.5), "cannot hold .* without rounding"),
    "rounded in 64 bits": (of(2**63, -1), "cannot hold .* without rounding"),
    "values of a dict": (dict(enumerate(of("a", "b"))).values(), "y is dict_values"),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("labels", REFUSED)
def test_labels_that_no_file_holds_are_refused_by_every_classifier(face, labels):
    y, message = REFUSED[labels]
    refused(message, FACES[face]().fit, X, y)


@each_face_of_one_label
@pytest.mark.parametrize("of_frame", [False, True])
def test_one_hot_labels_are_refused_with_what_to_write(face, of_frame):
    y = np.column_stack((IS_FIRST, ~IS_FIRST)).astype(int)
    y = pd.DataFrame(y, columns=["a", "b"]) if of_frame else y
    refused(r"\(40, 2\).*y\.argmax\(axis=1\).*MultiLabel", FACES[face]().fit, X, y)


FRAME = pd.DataFrame({"wind": X[:, 0] <= 0, "rain": X[:, 0] > 0, "a": X[:, 1] > 0}).astype(int)


def test_the_columns_of_a_frame_are_the_labels(reloaded):
    plain, fit = (FACES["sets"]().fit(X, y) for y in (FRAME.to_numpy(), FRAME))
    assert plain.classes_.tolist() == [0, 1, 2]
    other = FRAME[["a", "wind", "rain"]]
    for model in (fit, reloaded(fit)):
        assert model.classes_.tolist() == ["wind", "rain", "a"]
        assert isinstance(model.predict(X), np.ndarray)
        assert_array_equal(model.predict(X), plain.predict(X))
        assert model.score(X, FRAME) == model.score(X, other) == model.score(X, FRAME.to_numpy())


@pytest.mark.slow
def test_hierarchies_name_the_columns_of_a_frame(reloaded):
    face = StructBoostMultiLabelClassifier(max_iter=2)
    expected = face.set_params(hierarchy={0: [2]}).fit(X, FRAME.to_numpy()).predict(X)
    model = face.set_params(hierarchy={"wind": ["a"]}).fit(X, FRAME)
    assert_array_equal(model.predict(X), expected)
    assert reloaded(model).hierarchy == {"wind": ["a"]}
    refused(
        r"the label 'snow', and y has the columns \['wind', ",
        face.set_params(hierarchy={"snow": ["a"]}).fit,
        X,
        FRAME,
    )


@pytest.mark.parametrize("label", [0, "of the day", (1, 2)])
def test_a_frame_of_one_column_is_its_column_whatever_its_label(label):
    y = pd.Series(np.where(X[:, 0] > 0, "wet", "dry"))
    frame = y.to_frame().set_axis(pd.Index([label], tupleize_cols=False), axis=1)
    with pytest.warns(DataConversionWarning):
        fit = StructBoostClassifier(max_iter=2).fit(X, frame)
    assert list(fit.classes_) == ["dry", "wet"]
    lists = pd.Series([["wet"] if x > 0 else ["calm"] for x in X[:, 0]])
    sets = StructBoostMultiLabelClassifier(max_iter=2).fit(X, lists.to_frame())
    assert list(sets.classes_) == ["calm", "wet"]


def test_frames_whose_columns_are_no_labels_are_named():
    fit = FACES["sets"]().fit(X, FRAME)
    for y, message in (
        (FRAME[["wind", "rain"]], r"lacks the columns \['a'\]; give"),
        (FRAME.rename(columns={"a": "b"}), r"lacks the columns \['a'\] and has \['b'\] besides"),
        (FRAME.assign(b=1), r"y has the columns \['b'\] besides"),
    ):
        refused(message, fit.score, X, y)
    third = np.arange(40)[:, None] == 3
    for y, message in (
        (FRAME.mask(third & [False, True, False], 7), r"y\[3, 'rain'\] is 7"),
        (FRAME.astype("Int64").mask(third & [True, True, True]), r"y\[3, 'wind'\] is"),
        (FRAME.set_axis(["a", "a", "b"], axis=1), "columns of one name"),
        (FRAME.set_axis(["a", 1, "b"], axis=1), "give only strings or only numbers"),
        (FRAME[[]], "y has 0 class or label"),
    ):
        refused(message, FACES["sets"]().fit, X, y)
    unnamed = FACES["sets"]().fit(X, FRAME.to_numpy())
    with pytest.warns(UserWarning, match="fitted without names of labels"):
        assert unnamed.score(X, FRAME) == unnamed.score(X, FRAME.to_numpy())


@pytest.mark.parametrize("face", ["boosted", "hinge", "linear"])
def test_class_weights_name_labels_of_their_type(face):
    for y, heavy in ((of("a", "b"), "a"), (of(1, 2), 2)):
        model = FACES[face]().set_params(random_state=0)
        weights = np.where(np.asarray(y) == heavy, 5.0, 1.0)
        expected = model.fit(X, y, sample_weight=weights).decision_function(X)
        found = model.set_params(class_weight={heavy: 5.0}).fit(X, y).decision_function(X)
        assert_array_equal(found, expected)


@each_face_of_one_label
def test_labels_of_a_score_are_refused_as_in_a_fit(face):
    y = IS_FIRST.astype(float)
    model = FACES[face]().fit(X, y)
    for call in (model.score, FACES[face]().fit):
        refused(r"Unknown label type: continuous.* give a class of", call, X, y + 0.5)
        refused(
            r"^y\[3\] is inf; give every sample a finite number",
            call,
            X,
            np.where(np.arange(40) == 3, np.inf, y),
        )
