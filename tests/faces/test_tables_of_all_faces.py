"""Tables in every type and container give all faces the same model, or a clear refusal."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
import pickle
import re
import warnings

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from structboost import CrossFitted, MultiBoostCWClassifier, StructBoostClassifier
from structboost.errors import ConstantPredictionWarning
from structboost.faces.columns import RareCategories, codes_of
from structboost.learners.stump import SparseStumpFamily, StumpFamily
from tests.helpers.table_faces import (
    CLASSIFIERS,
    COLOUR,
    ENCODING,
    FACES,
    SIZE,
    TABLE,
    THREE,
    TWO,
    WIDTH,
    N,
    fitted,
    targets,
)

polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore")

WHOLE = (TABLE * 2).astype(np.int64)
FRAME = pandas.DataFrame(TABLE, columns=["width", "size"])
WHOLE_FRAME = pandas.DataFrame(WHOLE, columns=["width", "size"])
HOLES = np.where(np.arange(N)[:, None] % 5 == [0, 9], np.nan, TABLE)
HOLES_FRAME = pandas.DataFrame(HOLES, columns=["width", "size"])
COLOURED = FRAME.assign(colour=COLOUR)
QUICK = ("StructBoost, hinge", "StructuredSVM", "ShareBoost", "Ranker, svm")


def quickly(names, quick=QUICK):
    """Names of faces, of which all but a few are slow tests."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def objects(convert):
    return np.array([[convert(float(value)) for value in row] for row in TABLE], object)


def strided():
    wide = np.zeros((2 * N, 4))
    wide[::2, ::2] = TABLE
    return wide[::2, ::2]


def read_only():
    table = TABLE.copy()
    table.flags.writeable = False
    return table


def arrow(frame):
    return pyarrow.Table.from_pandas(frame, preserve_index=False)


def numbers():
    """Tables of equal numbers, by name, each beside the plain one."""
    flags = WHOLE > 2
    chunks = pyarrow.concat_tables([arrow(FRAME[:7]), arrow(FRAME[7:])])
    plain = {
        "single": TABLE.astype("f4"), "half": TABLE.astype("f2"), "long": TABLE.astype("g"),
        "big-endian": TABLE.astype(">f8"), "read-only": read_only(), "strided": strided(),
        "Fortran": np.asfortranarray(TABLE), "reversed": TABLE[::-1].copy()[::-1],
        "list": TABLE.tolist(), "tuple": tuple(map(tuple, TABLE.tolist())),
        "list of arrays": list(TABLE), "deque": collections.deque(TABLE.tolist()),
        "objects": TABLE.astype(object), "decimals": objects(decimal.Decimal),
        "fractions": objects(fractions.Fraction), "masked": np.ma.MaskedArray(TABLE),
        "pandas": FRAME, "pandas single": FRAME.astype("f4"), "pandas half": FRAME.astype("f2"),
        "pandas Float64": FRAME.astype("Float64"), "pandas Float32": FRAME.astype("Float32"),
        "pandas Arrow": FRAME.astype("float64[pyarrow]"), "pandas objects": FRAME.astype(object),
        "pandas one sparse": FRAME.assign(size=pandas.arrays.SparseArray(FRAME["size"])),
        "polars": polars.from_pandas(FRAME), "Arrow": arrow(FRAME), "Arrow chunks": chunks,
        "Arrow batch": pyarrow.RecordBatch.from_pandas(FRAME, preserve_index=False),
        "polars decimals": polars.from_pandas(FRAME).cast(polars.Decimal(10, 3)),
    }  # fmt: skip
    whole = {
        "int64": WHOLE, "int32": WHOLE.astype("i4"), "uint8": WHOLE.astype("u1"),
        "uint64": WHOLE.astype("u8"), "whole objects": WHOLE.astype(object),
        "masked whole": np.ma.MaskedArray(WHOLE), "pandas int": WHOLE_FRAME,
        "pandas Int64": WHOLE_FRAME.astype("Int64"), "pandas UInt8": WHOLE_FRAME.astype("UInt8"),
        "pandas Arrow int": WHOLE_FRAME.astype("int64[pyarrow]"),
        "polars int": polars.from_pandas(WHOLE_FRAME), "Arrow int": arrow(WHOLE_FRAME),
    }  # fmt: skip
    truths = {
        "bool": flags, "NumPy bool": [list(row) for row in flags],
        "pandas bool": WHOLE_FRAME > 2, "pandas boolean": (WHOLE_FRAME > 2).astype("boolean"),
        "pandas Arrow bool": (WHOLE_FRAME > 2).astype("bool[pyarrow]"),
        "polars bool": polars.from_pandas(WHOLE_FRAME > 2), "Arrow bool": arrow(WHOLE_FRAME > 2),
    }  # fmt: skip
    holes = HOLES.astype(object)
    holes[np.isnan(HOLES)] = None
    missing = {
        "masked holes": np.ma.MaskedArray(TABLE, mask=np.isnan(HOLES)), "None": holes,
        "NA": np.where(np.isnan(HOLES), pandas.NA, TABLE.astype(object)),
        "list of None": holes.tolist(), "pandas holes": HOLES_FRAME,
        "pandas Float64 holes": HOLES_FRAME.astype("Float64"),
        "pandas Arrow holes": HOLES_FRAME.convert_dtypes(dtype_backend="pyarrow"),
        "polars holes": polars.from_pandas(HOLES_FRAME), "Arrow holes": arrow(HOLES_FRAME),
    }  # fmt: skip
    whole_holes = {
        "masked whole holes": np.ma.MaskedArray(WHOLE, mask=np.isnan(HOLES)),
        "pandas Int64 holes": WHOLE_FRAME.astype("Int64").mask(np.isnan(HOLES_FRAME)),
        "polars int holes": polars.from_pandas(
            WHOLE_FRAME.astype("Int64").mask(np.isnan(HOLES_FRAME))
        ),
    }
    groups = (
        (TABLE, plain), (WHOLE.astype(float), whole), (flags.astype(float), truths),
        (HOLES, missing), (np.where(np.isnan(HOLES), np.nan, WHOLE), whole_holes),
    )  # fmt: skip
    yield from groups


def categories():
    """Frames of the same categories, by name, and the frame of strings."""
    for colour in (COLOUR.astype(object), np.where(np.arange(N) % 6, COLOUR, None)):
        texts = colour.tolist()
        frame = FRAME[["width"]].assign(colour=pandas.Series(texts, dtype=object))
        made = {"width": WIDTH, "colour": texts}
        yield (
            frame,
            {
                "category": frame.astype({"colour": "category"}),
                "ordered": frame.assign(
                    colour=pandas.Categorical(texts, ["red", "blue", "green", "unused"], True)
                ),
                "string": frame.astype({"colour": "string"}),
                "Arrow string": frame.astype({"colour": "string[pyarrow]"}),
                "Arrow type": frame.astype({"colour": pandas.ArrowDtype(pyarrow.string())}),
                "NumPy strings": frame.assign(
                    colour=pandas.Series([one and np.str_(one) for one in texts], dtype=object)
                ),
                "polars": polars.DataFrame(made),
                "polars Categorical": polars.DataFrame(made).cast({"colour": polars.Categorical}),
                "polars Enum": polars.DataFrame(made).cast(
                    {"colour": polars.Enum(["red", "green", "blue"])}
                ),
                "Arrow": pyarrow.table(made),
                "Arrow dictionary": pyarrow.table(
                    made | {"colour": pyarrow.array(texts).dictionary_encode()}
                ),
                "Arrow large": pyarrow.table(
                    made | {"colour": pyarrow.array(texts, pyarrow.large_string())}
                ),
            },
        )


def check_equal(name, groups):
    for expected, tables in groups:
        model = fitted(name, expected)
        scores = model.decision_function(expected)
        for of, table in tables.items():
            np.testing.assert_array_equal(model.decision_function(table), scores, f"predict {of}")
            same = fitted(name, table)
            np.testing.assert_array_equal(same.decision_function(table), scores, f"fit {of}")


@pytest.mark.slow
@pytest.mark.parametrize("name", quickly(FACES, QUICK[:1]))
def test_equal_numbers_give_equal_models_in_every_type(name):
    check_equal(name, numbers())


@pytest.mark.slow
@pytest.mark.parametrize("name", quickly(FACES, QUICK[:1]))
def test_equal_categories_give_equal_models_in_every_type(name):
    check_equal(name, categories())


@pytest.mark.parametrize("name", quickly(FACES))
def test_faces_take_categories_missing_values_and_columns_by_name(name, tmp_path):
    frame = COLOURED.mask(np.random.default_rng(1).random(COLOURED.shape) < 0.1)
    model = fitted(name, frame)
    scores = model.decision_function(frame)
    assert list(model.feature_names_in_) == ["width", "size", "colour"]
    assert model.n_features_in_ == 3
    assert np.isfinite(scores).all()
    turned = frame[["colour", "width", "size"]]
    for table in (turned, polars.from_pandas(turned), arrow(turned), frame.to_numpy()):
        np.testing.assert_array_equal(model.decision_function(table), scores)
    for wrong in (turned.rename(columns={"size": "girth"}), turned[["colour", "size"]]):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(wrong)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.categories_ == model.categories_
    assert loaded.encoded_feature_names_ == model.encoded_feature_names_
    for same in (loaded, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(same.decision_function(turned), scores)
    if hasattr(model, "feature_importances_"):
        assert model.feature_importances_.shape == (3,)
        assert model.feature_importances_.sum() == pytest.approx(1.0)
    if hasattr(model, "staged_predict"):
        np.testing.assert_array_equal(list(model.staged_predict(turned))[-1], model.predict(frame))


@pytest.mark.parametrize("name", quickly(FACES))
def test_contributions_of_encoded_columns_add_up_by_column(name):
    model = fitted(name, COLOURED)
    try:
        values, base = model.contributions(COLOURED)
    except TypeError:
        pytest.skip("trees have no contributions")
    assert values.shape[:2] == (N, 3)
    np.testing.assert_allclose(
        base + values.sum(axis=1), model.decision_function(COLOURED), atol=1e-9
    )


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
    np.testing.assert_array_equal(
        model.decision_function(frame), expected.decision_function(by_hand)
    )
    unseen = by_hand.assign(**dict.fromkeys(by_hand.columns[-3:], 0.0))
    np.testing.assert_array_equal(
        model.decision_function(frame.assign(colour="violet")), expected.decision_function(unseen)
    )


@pytest.mark.parametrize("name", quickly(FACES))
def test_missing_values_in_prediction_alone_are_taken(name):
    model = fitted(name, FRAME)
    scores = model.decision_function(HOLES_FRAME)
    assert np.isfinite(scores).all()
    if name in ENCODING and getattr(model._columns.encoding, "means", None) is not None:
        filled = HOLES_FRAME.fillna(FRAME.mean())
        np.testing.assert_allclose(scores, model.decision_function(filled), atol=1e-12)


@pytest.mark.parametrize("name", quickly(FACES))
def test_parameters_that_change_after_the_fit_do_not_change_how_tables_are_read(name):
    model = fitted(name, COLOURED.assign(width=HOLES[:, 0]))
    scores = model.decision_function(COLOURED)
    if "weak_learner" not in model.get_params():
        pytest.skip("no weak learners")
    for weak_learner in ("stump", "lda"):
        model.set_params(weak_learner=weak_learner, categorical_features=None)
        np.testing.assert_array_equal(model.decision_function(COLOURED), scores)


@pytest.mark.parametrize("name", quickly(FACES))
def test_every_sparse_format_gives_the_same_model(name):
    rows = sparse.csr_array(TABLE)
    model = fitted(name, rows)
    scores = model.decision_function(rows)
    np.testing.assert_allclose(model.decision_function(TABLE), scores, rtol=1e-9, atol=1e-9)
    frame = pandas.DataFrame.sparse.from_spmatrix(rows)
    formats = [rows.asformat(form) for form in ("csc", "coo", "lil", "dok", "bsr", "dia")]
    for table in (*formats, sparse.csr_matrix(TABLE), frame, rows.astype("f4")):
        np.testing.assert_array_equal(fitted(name, table).decision_function(table), scores)
    dense = fitted(name, TABLE)
    np.testing.assert_allclose(
        dense.decision_function(rows), dense.decision_function(TABLE), rtol=1e-9, atol=1e-9
    )


def test_sparse_stumps_return_as_many_candidates_as_dense_ones():
    duals = np.random.default_rng(0).normal(size=(N, 3))
    dense = StumpFamily(TABLE, (-1.0, 1.0), exact=True).price(duals, 1)
    found = SparseStumpFamily(sparse.csr_array(TABLE), (-1.0, 1.0)).price(duals, 1)
    assert [c.channel for c in found] == [c.channel for c in dense]
    np.testing.assert_allclose([c.edge for c in found], [c.edge for c in dense])


@pytest.mark.parametrize("name", quickly(CLASSIFIERS))
def test_classifiers_take_weights_of_samples_and_classes_and_stop_early(name):
    weights = np.random.default_rng(0).integers(1, 4, N)
    model = CLASSIFIERS[name]().fit(COLOURED, THREE, sample_weight=weights)
    for same in (weights.tolist(), pandas.Series(weights, dtype="Int64"), polars.Series(weights)):
        other = CLASSIFIERS[name]().fit(COLOURED, THREE, sample_weight=same)
        np.testing.assert_array_equal(
            other.decision_function(COLOURED), model.decision_function(COLOURED)
        )
    CLASSIFIERS[name](class_weight={0: 1.0, 1: 2.0, 2: 0.5}).fit(COLOURED, THREE)
    if name in ("StructBoost, svm", "StructBoost, linear"):
        with pytest.raises(ValueError, match=r"early_stopping.*hinge|early_stopping.*tree"):
            CLASSIFIERS[name](early_stopping=True).fit(COLOURED, THREE)
    elif name != "StructuredSVM":
        CLASSIFIERS[name](early_stopping=True).fit(COLOURED, THREE)


@pytest.mark.parametrize(
    "weights",
    [
        np.full(N, "1"), np.ma.MaskedArray(np.ones(N), mask=np.arange(N) == 3), np.ones(N) + 1j,
        np.full(N, "2020", "M8[Y]"), {"a": 1.0}, (1.0 for _ in range(N)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["StructuredSVM", "MultiLabel", "Ranker", "ShareBoost"])
def test_weights_that_are_no_numbers_are_refused(name, weights):
    with pytest.raises(ValueError, match="sample_weight is not numeric"):
        FACES[name]().fit(FRAME, targets(name), sample_weight=weights)


MONOTONE = (
    "StructBoost", "StructBoost, hinge", "MultiBoostCW", "MultiBoost", "MultiBoost, hinge",
    "MultiBoostMO", "AdaBoostMO",
)  # fmt: skip


@pytest.mark.parametrize("name", MONOTONE)
def test_faces_with_one_score_keep_directions(name):
    model = fitted(name, COLOURED, TWO, monotonic_cst={"width": -1})
    grid = [model.decision_function(COLOURED.assign(width=v)) for v in np.linspace(-1, 6, 15)]
    assert (np.diff(grid, axis=0) <= 0).all()


@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - {*MONOTONE, "StructuredSVM"}))
def test_faces_without_directions_name_one_that_keeps_them(name):
    with pytest.raises(ValueError, match=r"monotonic_cst.*(StructBoostClassifier|'tree'|'stump')"):
        fitted(name, FRAME, TWO, monotonic_cst={"width": -1})


def bad_tables():
    """Tables that are refused, each with the words of the error."""
    days = datetime.date(2020, 1, 1)
    odd = {
        "None": (None, "X is None"), "text": ("abc", "X is 'abc'"), "bytes": (b"a", "X is b'a'"),
        "number": (3, "X is 3|X has shape"), "dict": ({"a": [1.0]}, "X is a dict.*DataFrame"),
        "UserDict": (collections.UserDict(a=[1.0]), "X is a UserDict.*DataFrame"),
        "dicts": ([{"a": 1.0}] * N, r"X\[0\] is the dict.*DataFrame"),
        "class": (dict, "X is <class"),
        "generator": ((row for row in TABLE), "X is a generator.*list"),
        "zip": (zip(WIDTH, SIZE, strict=True), "X is a zip.*list"), "set": ({1, 2}, "X is {1, 2}"),
        "values": ({"a": 1}.values(), "X is dict_values"),
        "Series": (FRAME["width"], r"X is a Series.*iloc\[\[i\]\].*to_frame"),
        "row": (FRAME.iloc[0], r"X is a Series.*iloc\[\[i\]\]"),
        "polars Series": (polars.Series(WIDTH), "X is a Series"),
        "Arrow array": (pyarrow.chunked_array([WIDTH]), "X is a ChunkedArray"),
        "one row": (TABLE[0], r"X has shape \(2,\).*reshape\(1, -1\)"),
        "one number": (np.array(1.0), r"X has shape \(\)"),
        "three axes": (np.zeros((N, 2, 2)), r"X has shape \(60, 2, 2\)"),
        "no rows": (TABLE[:0], "X has no rows"), "no columns": (TABLE[:, :0], "X has no columns"),
        "empty list": ([], "X has shape"), "empty rows": ([[]] * N, "X has no columns"),
        "frame without columns": (FRAME[[]], "X has no columns"),
        "frame without rows": (FRAME[:0], "X has no rows"),
        "polars without columns": (polars.DataFrame(), "X has no rows"),
        "Arrow without columns": (pyarrow.table({}), "X has no rows"),
        "ragged": ([[1.0, 2.0]] * (N - 1) + [[1.0]], r"X\[59\] has 1 values, and X\[0\] has 2"),
        "nested": ([[1.0, [2.0]]] * N, "X is no table"),
        "texts": (np.full((N, 2), "a"), "Column 0 of X holds <U1.*categorical_features"),
        "texts of numbers": (np.full((N, 2), "1"), "Column 0 of X holds <U1.*astype.float"),
        "mixed": ([["a", 1.0]] * N, "Column 0 of X holds object, such as 'a' in row 0"),
        "bytes inside": (FRAME.assign(b=[b"a"] * N), "Column 'b' of X holds object"),
        "mixed column": (FRAME.assign(b=["a", 1] * (N // 2)), "Column 'b' of X holds"),
        "complex": (TABLE + 1j, "Complex data not supported: X"),
        "complex frame": (FRAME + 1j, "Complex data not supported: Column 'width' of X"),
        "complex sparse": (sparse.csr_array(TABLE + 1j), "Complex data not supported: X"),
        "dates": (np.full((N, 2), "2020", "M8[D]"), "X holds datetime64.*numbers first"),
        "date column": (FRAME.assign(d=pandas.Timestamp("2020")), "Column 'd' of X holds datetime"),
        "date objects": (FRAME.assign(d=[days] * N), "Column 'd' of X holds.*convert it to"),
        "durations": (FRAME.assign(d=pandas.Timedelta(1)), "Column 'd' of X holds timedelta"),
        "polars dates": (polars.DataFrame({"d": [days] * N}), "Column 'd' of X holds Date"),
        "lists": (FRAME.assign(d=[[1, 2]] * N), r"Column 'd' of X holds.*\[1, 2\] in row 0"),
        "infinity": (np.where(TABLE > 3, np.inf, TABLE), "X contains infinity, first in sample"),
        "sparse NaN": (sparse.csr_array(HOLES), "X contains NaN.*sparse"),
        "matrix": (np.matrix(TABLE), "np.matrix is not supported"),
        "structured": (np.zeros(N, [("a", float)]), r"fields \['a'\].*DataFrame"),
        "sparse row": (sparse.coo_array(WIDTH), r"X is a sparse array of shape \(60,\)"),
        "sparse rows": ([sparse.csr_array(TABLE[:1])] * N, r"X\[0\] is a sparse array.*vstack"),
        "rows of pandas": ([FRAME.iloc[i] for i in range(N)], r"X\[0\] is a Series.*DataFrame"),
        "frames": ([FRAME] * N, r"X\[0\] is a DataFrame.*concat"),
        "two of a name": (FRAME.set_axis(["a", "a"], axis=1), "X has 2 columns named 'a'"),
        "two levels": (
            FRAME.set_axis(pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)]), axis=1),
            "X has columns of 2 levels.*join",
        ),
        "mixed names": (FRAME.set_axis(["a", 1], axis=1), "named by text and others, such as 1"),
        "lazy": (polars.DataFrame({"a": WIDTH}).lazy(), r"give X.collect\(\)"),
    }  # fmt: skip
    large = WHOLE + 2**53 * (np.arange(N)[:, None] == 3) + (np.arange(N)[:, None] == 3)
    big = "a whole number beyond 2..53"
    for of, table in {
        "int64": large, "minus": -large, "uint64": large.astype(np.uint64) + np.uint64(2**62),
        "list": [[2**53 + 1, 0.5]] * N, "larger": [[2**70 + 1, 1]] * N, "huge": [[10**400, 1]] * N,
        "pandas": pandas.DataFrame(large), "Int64": pandas.DataFrame(large).astype("Int64"),
        "Arrow type": pandas.DataFrame(large).astype("int64[pyarrow]"),
        "objects": pandas.DataFrame(large).astype(object), "sparse": sparse.csr_array(large),
        "sparse columns": pandas.DataFrame(large).astype(pandas.SparseDtype("int64", 0)),
        "polars": polars.DataFrame({"a": large[:, 0], "b": large[:, 1]}),
        "Arrow": pyarrow.table({"a": [None, *large[1:, 0].tolist()], "b": large[:, 1]}),
        "masked": np.ma.MaskedArray(large, mask=large == 2),
    }.items():  # fmt: skip
        odd[f"large whole numbers, {of}"] = (table, big)
    return odd


def check_refused(of, words, call):
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert re.search(words, str(error.value), re.DOTALL), (of, error.value)


@pytest.mark.parametrize("name", QUICK)
def test_what_is_no_table_is_refused_in_fit(name):
    for of, (table, words) in bad_tables().items():
        check_refused(of, words, lambda table=table: fitted(name, table))


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize(
    "method", ["predict", "decision_function", "predict_proba", "contributions"]
)
def test_what_is_no_table_is_refused_in_every_method(name, method):
    model = fitted(name, TABLE)
    if not hasattr(model, method):
        pytest.skip("no such method")
    for of, (table, words) in bad_tables().items():
        if of in ("no columns", "frame without columns", "empty rows"):
            words = "X has no columns|X has 0 features"
        more = f"{words}|X has . features"
        check_refused(of, more, lambda table=table: getattr(model, method)(table))


@pytest.mark.parametrize("name", quickly(FACES))
def test_whole_numbers_as_labels_of_columns_are_matched(name):
    frame = pandas.DataFrame(TABLE, columns=[7, 3])
    model = fitted(name, frame)
    scores = model.decision_function(frame)
    np.testing.assert_array_equal(model.decision_function(frame[[3, 7]]), scores)
    np.testing.assert_array_equal(model.decision_function(pandas.DataFrame(TABLE)), scores)
    with pytest.raises(ValueError, match=r"X lacks \[3\] and has \[4\]"):
        model.predict(frame.rename(columns={3: 4}))


@pytest.mark.parametrize("name", ["StructBoost, hinge", "StructuredSVM", "ShareBoost"])
def test_columns_of_unseen_categories_warn_with_the_column(name):
    model = fitted(name, COLOURED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
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


@pytest.mark.parametrize("name", FACES)
def test_sparse_rows_of_zeros_warn_if_training_had_none(name, tmp_path):
    table = sparse.csr_array(np.column_stack((TABLE, np.ones(N))))
    other = table.copy()
    # Zeros that are stored are zeros, too.
    other.data[np.repeat(np.arange(N) % 3 == 0, np.diff(other.indptr))] = 0.0
    model = fitted(name, table)
    model.save(tmp_path / "model")
    for one in (model, type(model).load(tmp_path / "model")):
        with pytest.warns(UserWarning, match=rf"X has 20 of {N} rows that are 0 everywhere"):
            one.predict(other)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one.predict(table)
            one.predict(other.toarray())
    used = fitted(name, other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        used.predict(other)


def test_too_many_texts_that_are_numbers_have_the_remedy_for_numbers():
    income = pandas.DataFrame({"income": [*map(str, range(300)), "unknown"]})
    with pytest.warns(UserWarning, match=r"in at most 1 row, count.*give pandas\.to_numeric"):
        StructBoostClassifier(max_iter=1).fit(income, np.arange(301) % 2)


@pytest.mark.parametrize("name", ["StructBoost, hinge", "StructuredSVM", "ShareBoost"])
def test_the_rarest_of_many_categories_count_as_one(name, tmp_path):
    # City k occurs 1 + (k < 254) times.
    city = np.array([f"city {k}" for k in [*range(400), *range(254)]])
    y = np.char.endswith(city, "7").astype(int)
    frame = pandas.DataFrame({"city": city})
    with pytest.warns(UserWarning, match=r"'city' of X has 400 categories; the 254 .*146 others"):
        model = FACES[name]().fit(frame, y)
    *frequent, rare = model.categories_[0]
    assert sorted(frequent) == sorted(f"city {k}" for k in range(254))
    assert isinstance(rare, RareCategories)
    assert sorted(rare) == sorted(f"city {k}" for k in range(254, 400))
    scores = model.decision_function(frame)
    assert len(np.unique(scores[254:400])) == 1
    assert set(codes_of(frame, model.categories_)[0][254:400]) == {254.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame[300:310])
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.categories_ == model.categories_
    np.testing.assert_array_equal(loaded.decision_function(frame), scores)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class_gives_a_model_that_always_predicts_it(name, tmp_path):
    with pytest.warns(ConstantPredictionWarning, match="y has 1 class only, 'only'"):
        model = CLASSIFIERS[name]().fit(COLOURED, ["only"] * N)
    model.save(tmp_path / "model")
    for same in (model, type(model).load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert same.classes_.tolist() == ["only"]
        assert (same.predict(COLOURED) == "only").all()
        assert same.score(COLOURED, ["only"] * N) == 1.0
        np.testing.assert_array_equal(same.decision_function(COLOURED), np.zeros(N))
        if hasattr(same, "predict_proba"):
            np.testing.assert_array_equal(same.predict_proba(COLOURED), np.ones((N, 1)))
        if hasattr(same, "staged_predict"):
            assert all((stage == "only").all() for stage in same.staged_predict(COLOURED))
        assert same.contributions(COLOURED).values.shape[:2] == (N, 3)
        with pytest.raises(ValueError, match="feature names should match"):
            same.predict(FRAME)


def test_a_file_without_a_learner_of_categories_loads(tmp_path):
    frame = FRAME.assign(colour="red")
    model = StructBoostClassifier(objective="hinge", C=5.0, max_iter=3).fit(frame, WIDTH > 2)
    model.save(tmp_path / "model")
    loaded = StructBoostClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


def test_coordinate_descent_takes_stumps_beside_sets_of_categories():
    model = MultiBoostCWClassifier(max_rounds=20).fit(COLOURED, THREE)
    assert model.score(COLOURED, THREE) > 0.9


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


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "polars", "Arrow"])
def test_cross_fitted_frames_are_read_by_name_with_their_categories(library):
    convert = {"pandas": lambda frame: frame, "polars": polars.from_pandas, "Arrow": arrow}[library]
    inner = StructBoostClassifier(max_iter=3, random_state=0)
    crossed = CrossFitted(inner, folds=2, random_state=0)
    crossed.fit(convert(COLOURED), THREE)
    assert list(crossed.feature_names_in_) == ["width", "size", "colour"]
    expected = CrossFitted(inner, folds=2, random_state=0).fit(COLOURED, THREE).transform(COLOURED)
    turned = COLOURED[["colour", "size", "width"]]
    np.testing.assert_array_equal(crossed.transform(convert(turned)), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        crossed.transform(convert(turned.rename(columns={"size": "girth"})))
    with pytest.raises(ValueError, match=r"passthrough is True, and columns \['colour'\]"):
        CrossFitted(inner, folds=2, passthrough=True).fit_transform(convert(COLOURED), THREE)
    with pytest.raises(ValueError, match=r"categorical columns \['colour'\].*LogisticRegression"):
        CrossFitted(LogisticRegression(), folds=2).fit(convert(COLOURED), THREE)
