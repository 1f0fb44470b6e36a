"""Forms of sequences and tags: equal values give equal results, others are refused with a remedy.

Every form goes through fit, predict, predict_marginals and score.
"""

import enum
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from structboost import StructBoostTagger
from tests.helpers.refusals import refused


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


@pytest.mark.parametrize(
    "parameters", [{"weak_learner": "linear"}, {"objective": "hinge"}, {"objective": "svm"}]
)
@pytest.mark.filterwarnings("ignore:X has n")
def test_an_empty_sequence_has_no_tags_in_any_form(parameters):
    empty = [[], (), np.zeros((0, 3)), np.zeros(0), sparse.csr_matrix((0, 3))]
    tagger = StructBoostTagger(C=30, max_iter=20, **parameters)
    expected, score = tagger.fit(X, Y).predict(X), tagger.score(X, Y)
    for x in empty:
        assert tagger.predict([x, X[0]]) == [[], expected[0]]
        assert tagger.predict_marginals([x]) == [[]]
    none = [[]] * len(empty)
    assert tagger.fit([*X, *empty], [*Y, *none]).predict(X) == expected
    assert tagger.score([*X, *empty], [*Y, *none]) == score


def test_tokens_of_another_form_than_in_training_are_refused(trained):
    refused("X has dicts as tokens; the tagger was trained on arrays", trained.predict, W)
    for form in (np.asarray, sparse.csr_array):
        refused(
            "X has arrays as tokens; the tagger was trained on d",
            linear().fit(W, Y).predict,
            [form(x) for x in X],
        )


# -- values of dicts ------------------------------------------------------------------------------


class Colour(str, enum.Enum):  # noqa: UP042, the format of a StrEnum is its value
    RED = "red"


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        ((np.True_, np.False_), (True, False)),
        ((1, np.float16(0)), (True, False)),
        ((np.str_("x"), "y"), ("x", "y")),
        ((Colour.RED, "blue"), ("red", "blue")),
        ((np.float16(2.5), np.float32(3)), (2.5, 3.0)),
        ((Decimal("2.5"), np.int8(3)), (2.5, 3)),
        ((("x", "y"), {"z"}), (["x", "y"], ["z"])),
        ((np.array(["x", "y"]), frozenset("z")), (["x", "y"], ["z"])),
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


def test_lists_of_names_are_dicts_of_true_features():
    X = [[["w=a", "cap"], ["w=b"], []], [("w=b",), ("w=a", "cap")]] * 9
    of_dicts = [[dict.fromkeys(token, True) for token in x] for x in X]
    fits = [
        StructBoostTagger(C=1.0).fit(x, [["N", "O", "O"], ["O", "N"]] * 9) for x in (X, of_dicts)
    ]
    assert fits[0].predict_marginals(X[:2]) == fits[1].predict_marginals(of_dicts[:2])
    assert len(fits[0].predict([X[0], [[]]])[1]) == 1  # a token without names
    refused(r"X\[0\] is .*give \(n_tokens", StructBoostTagger().fit, [[["a"], [1]]], [["N", "O"]])


def test_nested_dicts_and_vectors_have_names_of_their_parts():
    tokens = [
        [{"word": {"self": "abc"[int(row[0]) % 3], "v": row[1:]}, "t": ["x", "y"]} for row in x]
        for x in X
    ]
    tagger = linear().fit(tokens, Y)
    words = ["word:self=a", "word:self=b", "word:self=c"]
    assert tagger.feature_names_ == ["t=x", "t=y", *words, "word:v[0]", "word:v[1]"]
    assert tagger.score(tokens, Y) > 0.8
    assert tagger.predict(tokens[:1]) == tagger.predict(tokens)[:1]


def test_a_number_where_training_had_zeros_and_ones_is_named():
    binary = [[{"word": token["word"]} for token in x] for x in W]
    tagger = linear().fit(binary, Y)
    binary[3][2] = {"word=a": 2.5}
    refused(r"X\[3\]\[2\] has the value 2.5 for feature 'word=a'", tagger.predict, binary)


# -- tags -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tags",
    [
        (True, False), (np.True_, np.False_), (1, 2), (np.int8(1), np.int8(-1)),
        (np.float16(0.5), np.float16(1)), ("", "B"),
    ],
)  # fmt: skip
def test_tags_keep_their_type_in_predictions_and_files(trained, tags, reloaded):
    plain = dict(zip("AB", np.array(tags).tolist(), strict=True))
    pair = dict(zip("AB", tags, strict=True))
    tagger = linear().fit(X, [[pair[tag] for tag in y] for y in Y])
    for model in (tagger, reloaded(tagger)):
        found = model.predict(X)
        assert found == [[plain[tag] for tag in y] for y in trained.predict(X)]
        assert {type(tag) for y in found for tag in y} == {*map(type, plain.values())}


@pytest.mark.parametrize(
    "unknown",
    [
        lambda y: [np.nan, *y], lambda y: [np.float32("nan"), *y],
        lambda y: [pd.NA, *y], lambda y: pd.Series([None, *y], dtype="string"),
        lambda y: pl.Series([None, *y]),
        lambda y: pa.array([None, *y]),
    ],
)  # fmt: skip
def test_a_missing_tag_is_unknown_in_every_form(trained, unknown):
    own = [unknown(y[1:]) for y in Y]
    wanted = linear().fit(X, [[None, *y[1:]] for y in Y])
    found = linear().fit(X, own)
    assert found.predict_marginals(X) == wanted.predict_marginals(X)
    assert found.score(X, own) == wanted.score(X, [[None, *y[1:]] for y in Y])
