"""Forms of sequences and tags: equal values give equal results, others are refused with a remedy.

Every form goes through fit, predict, predict_marginals and score.
"""

from __future__ import annotations

import enum
import warnings
from collections import UserList, deque
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from structboost import StructBoostTagger
from structboost.faces import tokens

NAMES = ["a", "b", "c"]
METHODS = ["fit", "predict", "predict_marginals", "score"]


def arrays(n=12):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 4, size=(4, 3)).astype(np.float64) for _ in range(n)]
    return X, [["A" if row[0] > 1 else "B" for row in x] for x in X]


X, Y = arrays()
W = [
    [{"word": "abc"[int(row[0]) % 3], "size": row[1], "is": bool(row[2] > 1)} for row in x]
    for x in X
]


def linear():
    return StructBoostTagger(weak_learner="linear", C=50.0)


@pytest.fixture(scope="module")
def trained():
    return linear().fit(X, Y)


@pytest.fixture(scope="module")
def trained_on_dicts():
    return linear().fit(W, Y)


def read_only(x):
    x = x.copy()
    x.setflags(write=False)
    return x


def frame(x):
    return pd.DataFrame(x, columns=NAMES)


def arrow(x):
    return pa.table({name: x[:, k] for k, name in enumerate(NAMES)})


TOKENS = {
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(map(tuple, x)),
    "float16": lambda x: x.astype(np.float16),
    "longdouble": lambda x: x.astype(np.longdouble),
    "big-endian": lambda x: x.astype(">f8"),
    "unsigned": lambda x: x.astype(np.uint64),
    "Fortran": np.asfortranarray,
    "read-only": read_only,
    "object": lambda x: x.astype(object),
    "Decimal": lambda x: [[Decimal(value) for value in row] for row in x.tolist()],
    "memoryview": memoryview,
    "masked": lambda x: np.ma.array(x, mask=False),
    "rows as series": lambda x: [pd.Series(row) for row in x],
    "csr": sparse.csr_matrix,
    "coo": sparse.coo_array,
    "lil": sparse.lil_matrix,
    "frame": frame,
    "whole frame": lambda x: frame(x).astype("Int64"),
    "Arrow frame": lambda x: frame(x).astype("double[pyarrow]"),
    "polars": lambda x: pl.DataFrame(x, schema=NAMES),
    "Arrow": arrow,
    "Arrow batch": lambda x: arrow(x).to_batches()[0],
}
CONTAINERS = {
    "tuple": tuple,
    "deque": deque,
    "user list": UserList,
    "three dimensions": np.array,
    "array of objects": lambda X: np.array([*X, None], object)[:-1],
    "series": lambda X: pd.Series(list(X), index=range(3, 15)),
    "values of a dict": lambda X: dict(enumerate(X)).values(),
}


def assert_same(trained, given, y=Y):
    """``given()`` makes sequences equal to those that the tagger was trained on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has names of features")
        found = linear().fit(given(), y)
        np.testing.assert_allclose(found.transitions_, trained.transitions_, atol=1e-3)
        wanted = trained.predict(X)
        assert found.predict(given()) == wanted
        assert trained.predict(given()) == wanted
        assert trained.score(given(), Y) == trained.score(X, Y)
        assert trained.predict_marginals(given()) == trained.predict_marginals(X)


@pytest.mark.parametrize("form", TOKENS)
def test_forms_of_equal_tokens_give_equal_results(trained, form):
    assert_same(trained, lambda: [TOKENS[form](x) for x in X])


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_of_equal_sequences_give_equal_results(trained, container):
    assert_same(trained, lambda: CONTAINERS[container](X))


REFUSED = {
    "one array": X[0],
    "one sparse matrix": sparse.csr_matrix(X[0]),
    "one frame": frame(X[0]),
    "one polars frame": pl.DataFrame(X[0], schema=NAMES),
    "one Arrow table": arrow(X[0]),
    "dict": dict(enumerate(X)),
    "set": {1, 2},
    "string": "abc",
    "bytes": b"abc",
    "None": None,
    "number": 3,
    "iterator": iter(X),
    "mapped": map(np.array, X),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("container", REFUSED)
def test_other_containers_are_refused_with_those_that_are_taken(trained, container, method):
    with pytest.raises(TypeError, match=r"X is (.|\n)*; give a list of sequences, each of them"):
        call(trained, method, REFUSED[container])


SEQUENCES = {
    "string": ("abc", r"X\[1\] is 'abc'; give"),
    "bytes": (b"abc", r"X\[1\] is b'abc'; give"),
    "strings": (["a", "b"], r"X\[1\] is \['a', 'b'\]; give"),
    "dict": ({"a": 1}, r"X\[1\] is .*, a token .*; give \[X\]"),
    "set": ({1, 2}, r"X\[1\] is .*; give"),
    "None": (None, r"X\[1\] is None; give"),
    "iterator": (iter(X[0]), r"X\[1\] is .*; give"),
    "number": (1.0, r"X\[1\] is 1\.0; give"),
    "text": (X[0].astype(str), r"X\[1\] is .*; give"),
    "text as objects": (X[0].astype(str).astype(object), r"X\[1\] is .*; give"),
    "complex": (X[0] + 1j, r"X\[1\] is .*; give"),
    "dates": (X[0].astype("M8[D]"), r"X\[1\] is .*; give"),
    "ragged": ([[1, 2, 3], [1]], r"X\[1\] is .* differ in length; give"),
    "three dimensions": (np.zeros((2, 2, 2)), r"X\[1\] has shape \(2, 2, 2\); give"),
    "large": ([[2**60, 0, 1]] * 4, r"X\[1\] holds .*beyond 2\*\*53"),
    "too large": ([[10**400, 0, 1]] * 4, r"X\[1\] holds .*beyond 2\*\*53"),
    "masked": (np.ma.array(X[0], mask=X[0] > 1), r"X\[1\] has masked values; impute"),
    "NaN": (np.full((4, 3), np.nan), r"X\[1\] has NaN or infinite features for token 0"),
    "null": (
        pl.DataFrame(X[0], schema=NAMES).with_columns(a=pl.lit(None, pl.Float64)),
        r"X\[1\] has NaN or",
    ),
    "lazy": (pl.DataFrame(X[0], schema=NAMES).lazy(), r"X\[1\] is a LazyFrame.*X\[1\]\.collect"),
    "twice": (pd.DataFrame(X[0], columns=["a", "a", "b"]), r"X\[1\] has 2 columns named 'a'"),
    "dicts": ([{"a": 1}] * 4, r"X\[1\] has dicts or columns of text as tokens, and X\[0\]"),
}


@pytest.mark.filterwarnings("ignore:X has names of features")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_sequence_of_no_form_is_named_with_a_remedy(trained, sequence, method):
    x, message = SEQUENCES[sequence]
    with pytest.raises(ValueError, match=message):
        call(trained, method, [X[0], x, *X[2:]])


def call(trained, method, given):
    if method == "fit":
        linear().fit(given, Y)
    elif method == "score":
        trained.score(given, Y)
    else:
        getattr(trained, method)(given)


@pytest.mark.parametrize(
    "empty",
    [[], (), np.zeros((0, 3)), np.zeros(0), sparse.csr_matrix((0, 3)), frame(X[0]).iloc[:0]],
    ids=["list", "tuple", "array", "flat array", "sparse", "frame"],
)
@pytest.mark.filterwarnings("ignore:X has n")
def test_an_empty_sequence_has_no_tags_in_any_form(trained, empty):
    assert linear().fit([*X, empty], [*Y, []]).predict(X) == trained.predict(X)
    assert trained.predict([empty, X[0]]) == [[], *trained.predict(X[:1])]
    assert trained.predict_marginals([empty])[0] == []
    assert trained.score([*X, empty], [*Y, []]) == trained.score(X, Y)


# -- frames ---------------------------------------------------------------------------------------


FRAMES = {
    "pandas": pd.DataFrame,
    "categories": lambda x: pd.DataFrame(x).astype({"word": "category"}),
    "nullable": lambda x: pd.DataFrame(x).convert_dtypes(),
    "polars": pl.DataFrame,
    "Arrow": pa.Table.from_pylist,
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FRAMES)
def test_a_frame_with_text_equals_dicts(trained_on_dicts, form, tmp_path):
    given = [FRAMES[form](x) for x in W]
    tagger = linear().fit(given, Y)
    assert tagger.feature_names_ == trained_on_dicts.feature_names_
    np.testing.assert_array_equal(tagger.transitions_, trained_on_dicts.transitions_)
    wanted = trained_on_dicts.predict_marginals(W)
    tagger.save(tmp_path / "model")
    for own in (tagger, StructBoostTagger.load(tmp_path / "model")):
        assert own.predict_marginals(given) == wanted
        assert own.predict_marginals([pd.DataFrame(x)[["size", "is", "word"]] for x in W]) == wanted
        assert own.predict_marginals(W) == wanted
        with pytest.raises(ValueError, match=r"X\[0\] lacks the columns \['is'\]"):
            own.predict([pd.DataFrame(x).drop(columns="is") for x in W])
        with pytest.raises(ValueError, match=r"X\[0\] has the columns \['more'\] besides"):
            own.predict([pd.DataFrame(x).assign(more=1) for x in W])
    assert trained_on_dicts.predict_marginals(given) == wanted


def test_columns_of_numbers_are_found_by_name(trained, tmp_path):
    tagger = linear().fit([frame(x) for x in X], Y)
    assert tagger.feature_names_in_.tolist() == NAMES
    tagger.save(tmp_path / "model")
    loaded = StructBoostTagger.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == NAMES
    turned = [pl.DataFrame(x, schema=NAMES).select("c", "a", "b") for x in X]
    for own in (tagger, loaded):
        assert own.predict(turned) == trained.predict(X)
        assert own.score(turned, Y) == trained.score(X, Y)
        with pytest.raises(ValueError, match=r"X\[1\] lacks the columns \['c'\]"):
            own.predict([frame(X[0]), frame(X[1])[["a", "b"]]])
        with pytest.raises(ValueError, match=r"X\[1\] has the columns \['z'\] besides"):
            own.predict_marginals([frame(X[0]), frame(X[1]).assign(z=1.0)])
        with pytest.warns(UserWarning, match="X has no names of features"):
            assert own.predict(X) == trained.predict(X)
    with pytest.warns(UserWarning, match="X has names of features"):
        trained.predict(turned)
    with pytest.raises(ValueError, match=r"X\[2\] lacks the columns"):
        linear().fit([frame(X[0]), frame(X[1]), frame(X[2])[["a", "b"]]], Y[:3])


def test_a_frame_whose_columns_have_no_names_is_an_array(trained):
    assert trained.predict([pd.DataFrame(x) for x in X]) == trained.predict(X)


# -- values of dicts ------------------------------------------------------------------------------


class Colour(str, enum.Enum):  # noqa: UP042, the format of a StrEnum is its value
    RED = "red"


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        ((np.True_, np.False_), (True, False)),
        ((1, 0), (True, False)),
        ((1.0, np.float16(0)), (True, False)),
        ((np.str_("x"), "y"), ("x", "y")),
        ((Colour.RED, "blue"), ("red", "blue")),
        ((np.float16(2.5), np.float32(3)), (2.5, 3.0)),
        ((Decimal("2.5"), np.int8(3)), (2.5, 3)),
        ((("x", "y"), {"z"}), (["x", "y"], ["z"])),
        ((np.array(["x", "y"]), frozenset("z")), (["x", "y"], ["z"])),
        ((np.array(2.5), 3), (2.5, 3.0)),
        (([0.5, 2.0], [1.5, 0.0]), (np.array([0.5, 2.0]), np.array([1.5, 0.0]))),
    ],
)
def test_equal_values_of_a_feature_give_equal_models(values, plain):
    fits = []
    for pair in (values, plain):
        tokens = [[{"a": pair[int(row[0] > 1)], "b": "x"} for row in x] for x in X]
        fits.append((linear().fit(tokens, Y), tokens))
    (first, given), (second, other) = fits
    assert first.feature_names_ == second.feature_names_
    np.testing.assert_array_equal(first.transitions_, second.transitions_)
    wanted = second.predict_marginals(other)
    assert first.predict_marginals(given) == first.predict_marginals(other) == wanted


def test_nested_dicts_and_vectors_have_names_of_their_parts():
    tokens = [
        [
            {"word": {"self": "abc"[int(row[0]) % 3], "vector": row[1:]}, "tags": ["x", "y"]}
            for row in x
        ]
        for x in X
    ]
    tagger = linear().fit(tokens, Y)
    vector = [f"word:vector[{k}]" for k in range(2)]
    words = [f"word:self={word}" for word in "abc"]
    assert tagger.feature_names_ == sorted([*vector, *words, "tags=x", "tags=y"])
    assert tagger.score(tokens, Y) > 0.8
    assert tagger.predict(tokens[:1]) == tagger.predict(tokens)[:1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [None, np.nan, np.inf, pd.NA, b"x", 1j, 2**60, object()])
@pytest.mark.parametrize("name", ["size", "unknown"])
def test_a_value_without_meaning_is_named_even_for_an_unknown_name(
    trained_on_dicts, value, name, method
):
    given = [list(x) for x in W]
    given[2][1] = {**given[2][1], name: value}
    with pytest.raises((TypeError, ValueError), match=r"X\[2\]\[1\] "):
        call(trained_on_dicts, method, given)


def test_a_number_where_training_had_zeros_and_ones_is_named():
    binary = [[{"word": token["word"]} for token in x] for x in W]
    tagger = linear().fit(binary, Y)
    binary[3][2] = {"word=a": 2.5}
    with pytest.raises(ValueError, match=r"X\[3\] has the value 2.5 for feature 'word=a' of token"):
        tagger.predict(binary)


def test_sparse_tokens_that_would_be_an_enormous_table_are_refused():
    rows = sparse.csr_array((np.ones(4), np.arange(4), np.arange(5)), (4, 10**9))
    given = [rows] * 12
    with pytest.raises(ValueError, match="a dense table of 48 tokens and 1000000000 features, 357"):
        StructBoostTagger(weak_learner="tree").fit(given, Y)


def test_numbers_that_would_be_an_enormous_table_are_refused(monkeypatch):
    monkeypatch.setattr(tokens, "_LARGEST_TABLE", 8 * 48 * 3)
    rows = sparse.csr_array((np.ones(4), np.arange(4), np.arange(5)), (4, 10**9))
    numbers = rows.copy()
    numbers.data = 2.0 * numbers.data
    with pytest.raises(ValueError, match=r"features of other values than 0 and 1, such as 0, 1, 2"):
        linear().fit([rows] * 2 + [numbers] + [rows] * 9, Y)


# -- tags -----------------------------------------------------------------------------------------


TAGS = {
    "tuples": tuple,
    "array": np.array,
    "objects": lambda y: np.array(y, object),
    "numpy strings": lambda y: list(map(np.str_, y)),
    "series": lambda y: pd.Series(y, index=range(4, 8)),
    "string series": lambda y: pd.Series(y, dtype="string"),
    "categorical": pd.Categorical,
    "category series": lambda y: pd.Series(y, dtype="category"),
    "index": pd.Index,
    "polars": pl.Series,
    "polars categories": lambda y: pl.Series(y, dtype=pl.Categorical),
    "Arrow": pa.array,
    "Arrow chunks": lambda y: pa.chunked_array([y]),
}


@pytest.mark.parametrize("form", TAGS)
def test_forms_of_equal_tags_give_equal_results(trained, form):
    tagger = linear().fit(X, [TAGS[form](y) for y in Y])
    assert tagger.classes_.tolist() == ["A", "B"]
    assert tagger.predict(X) == trained.predict(X)
    assert {type(tag) for tags in tagger.predict(X) for tag in tags} == {str}
    assert tagger.score(X, [TAGS[form](y) for y in Y]) == trained.score(X, Y)


@pytest.mark.parametrize(
    "container",
    [np.array, deque, lambda Y: pd.Series(Y, index=range(5, 17)), pl.Series, pa.array],
)
def test_containers_of_equal_tags_give_equal_results(trained, container):
    assert linear().fit(X, container(Y)).predict(X) == trained.predict(X)
    assert trained.score(X, container(Y)) == trained.score(X, Y)


@pytest.mark.parametrize(
    "tags",
    [
        (True, False), (np.True_, np.False_), (1, 2), (np.int8(1), np.int8(-1)), (1.5, 2.0),
        (np.float16(0.5), np.float16(1)), (np.uint64(3), np.uint64(4)), ("", "B"),
    ],
)  # fmt: skip
def test_tags_keep_their_type_in_predictions_and_files(trained, tags, tmp_path):
    pair = dict(zip("AB", tags, strict=True))
    tagger = linear().fit(X, [[pair[tag] for tag in y] for y in Y])
    found = tagger.predict(X)
    assert found == [[pair[tag] for tag in y] for y in trained.predict(X)]
    plain = {type(getattr(tag, "tolist", lambda tag=tag: tag)()) for tag in tags}
    assert {type(tag) for y in found for tag in y} == plain
    tagger.save(tmp_path / "model")
    assert StructBoostTagger.load(tmp_path / "model").predict(X) == found


@pytest.mark.parametrize(
    "unknown",
    [
        lambda y: [None, *y], lambda y: [np.nan, *y], lambda y: [np.float32("nan"), *y],
        lambda y: [pd.NA, *y], lambda y: pd.Series([None, *y], dtype="string"),
        lambda y: pd.Series([None, *y], dtype="category"), lambda y: pl.Series([None, *y]),
        lambda y: pa.array([None, *y]),
    ],
)  # fmt: skip
def test_a_missing_tag_is_unknown_in_every_form(trained, unknown):
    own = [unknown(y[1:]) for y in Y]
    wanted = linear().fit(X, [[None, *y[1:]] for y in Y])
    found = linear().fit(X, own)
    assert found.predict_marginals(X) == wanted.predict_marginals(X)
    assert found.score(X, own) == wanted.score(X, [[None, *y[1:]] for y in Y])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (dict(enumerate(Y)), r"y is .*; give a list that has a list of tags"),
        ("A" * 12, r"y is .*; give a list that has a list of tags"),
        (None, r"y is None; give a list"),
        (iter(Y), r"y is <list_iterator.*; give a list"),
        ([*Y[:-1], iter(Y[0])], r"y\[11\] is <list_iterator.*; give a tag for each of the 4"),
        (pd.DataFrame(np.array(Y)), r"y is a table of shape \(12, 4\); give a list"),
        (Y[:-1], "12 sequences and y 11"),
        (["ABAB"] * 12, r"y\[0\] is 'ABAB'; give a tag for each of the 4 tokens"),
        (["A", "B"] * 6, r"y\[0\] is 'A'; give a tag for each"),
        ([*Y[:-1], ["A", "B"]], r"y\[11\] is \['A', 'B'\]; give a tag for each of the 4"),
        ([*Y[:-1], dict(enumerate(Y[0]))], r"y\[11\] is .*; give a tag for each of the 4"),
        ([*Y[:-1], set(Y[0])], r"y\[11\] is .*; give a tag for each of the 4"),
        (np.array(Y)[:, :, None], r"y\[0\] is .*; give a tag for each of the 4"),
        ([*Y[:-1], ["A", "B", b"A", "B"]], r"y\[11\]\[2\] is b'A'; give one string or number"),
        ([*Y[:-1], [1, 2, Decimal(1), 2]], r"y\[11\]\[2\] is Decimal\('1'\); give one string"),
        ([*Y[:-1], [1, 2, 2**60, 2]], r"y\[11\]\[2\] holds 1152.*beyond 2\*\*53"),
    ],
)
def test_tags_of_no_form_are_named_in_fit_and_score(trained, y, message):
    for method in (linear().fit, trained.score):
        with pytest.raises((TypeError, ValueError), match=message):
            method(X, y)


def test_tags_that_numpy_merges_are_refused():
    with pytest.raises(ValueError, match="differ only in a null character"):
        linear().fit(X, [["A" if tag == "A" else "A\0" for tag in y] for y in Y])
