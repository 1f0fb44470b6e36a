"""Names of dict tokens against DictVectorizer."""

import copy
import pickle
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.feature_extraction import DictVectorizer

from structboost import StructBoostTagger
from structboost.faces.token_names import TokenNames
from tests.helpers.refusals import refused

TEXT = st.sampled_from(["a", "b", "a=b", "", "é"])
VALUES = st.one_of(
    TEXT, st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.lists(TEXT, max_size=3)
)
TOKENS = st.dictionaries(TEXT, VALUES, max_size=4)
SEQUENCES = st.lists(st.lists(TOKENS, max_size=3), min_size=1, max_size=4)


@pytest.mark.slow
@given(SEQUENCES, SEQUENCES)
@settings(max_examples=200)
def test_names_and_values_are_those_of_a_dict_vectorizer(seen, new):
    if not any(token for x in seen for token in x):
        return
    names, other = TokenNames(), DictVectorizer()
    found = names.learn(seen)
    wanted = other.fit_transform(chain.from_iterable(seen))
    assert names.names == other.feature_names_
    assert_array_equal(found.whole().toarray(), wanted.toarray())
    if any(new):
        wanted = other.transform(chain.from_iterable(new)).toarray()
        assert_array_equal(names.table(new).whole().toarray(), wanted)
        loaded = TokenNames(names.names)
        assert_array_equal(loaded.table(new).whole().toarray(), wanted)


@pytest.mark.parametrize("copied", [copy.copy, lambda names: pickle.loads(pickle.dumps(names))])
@pytest.mark.parametrize(
    ("learned", "value"),
    [
        *(([1.0, 2.0], value) for value in ([1.0, 2.0, 3.0], [5.0], 2.0, 0, np.float32(3))),
        (5.0, [1.0, 2.0]),
    ],
)
def test_numbers_in_another_form_than_in_training_are_refused(learned, value, copied):
    names = TokenNames()
    names.learn([[{"v": learned}]])
    for read in (copied(names).table, TokenNames().learn):
        refused(
            r"^X\[\d\]\[0\] has .* for the feature 'v', and an",
            read,
            [[{"v": learned}], [{"v": value}]],
        )
    refused(
        r"^X\[0\]\[0\] has .* for the feature 'v', and an", copied(names).table, [[{"v": value}]]
    )


def test_a_name_of_a_number_of_a_vector_is_refused():
    tokens = [[{"v": np.ones(2), "v[0]": 2.0}]]
    refused(r"a feature 'v\[0\]' and a vector with this number", TokenNames().learn, tokens)


def test_names_that_fewer_tokens_have_are_left_out():
    X = [[{"a": True, "v": [1.0, 0.0], "f": False}, {"a": True, "b": "c", "f": np.False_}]]
    tagger = StructBoostTagger(C=1.0, min_freq=2).fit(X, [list("xy")])
    assert tagger.feature_names_ == ["a", "f"]
    assert tagger.rare_names_ == ["b=c", "v[0]", "v[1]"]
    assert TokenNames().learn(X, 2).whole().toarray().tolist() == [[1, 0], [1, 0]]
    arrays = [np.eye(2)]
    refused("min_freq is 2, which .* arrays .* does not read", tagger.fit, arrays, [list("xy")])


@pytest.mark.slow
def test_tokens_of_many_layouts_are_read_as_each_alone():
    rng = np.random.default_rng(0)
    values = [True, False, "x", "y", 2.5, 1, 0, ["x", "z"]]
    tokens = [
        {str(name): values[rng.integers(8)] for name in rng.choice(6, 3, replace=False)}
        for _ in range(600)
    ]
    tokens[::3] = [{"0": "x", "1": True}] * 200
    names, other = TokenNames(), DictVectorizer()
    wanted = other.fit_transform(tokens).toarray()
    assert_array_equal(names.learn([tokens]).whole().toarray(), wanted)
    rows = [names.table([[token]]).whole().toarray()[0] for token in tokens]
    assert_array_equal(rows, wanted)


NUMBERS = st.one_of(st.integers(-1, 2), st.floats(-2, 2))
VECTORS = st.one_of(
    st.lists(NUMBERS, min_size=2, max_size=2),
    st.lists(NUMBERS, min_size=2, max_size=2).map(np.array),
    st.lists(NUMBERS, min_size=2, max_size=2).map(tuple),
)
WITH_VECTORS = st.fixed_dictionaries({}, optional={"a": VALUES, "b": VECTORS, "c": VECTORS})


def written_out(token):
    """A token without vectors, whose numbers have names of their own."""
    out = {}
    for name, value in token.items():
        is_list = isinstance(value, list | tuple | np.ndarray)
        if is_list and len(value) and not isinstance(value[0], str):
            out |= {f"{name}[{k}]": float(number) for k, number in enumerate(value)}
        else:
            out[name] = value
    return out


@pytest.mark.slow
@given(*2 * [st.lists(st.lists(WITH_VECTORS, max_size=3), min_size=1, max_size=4)], st.data())
@settings(max_examples=50)
def test_vectors_are_numbers_with_an_index_in_their_names(seen, new, data):
    plain, of_vectors = TokenNames(), TokenNames()
    wanted, table = plain.learn([[written_out(t) for t in x] for x in seen]), of_vectors.learn(seen)
    assert plain.names == of_vectors.names
    tables = [(wanted, table)]
    tables.append((plain.table([[written_out(t) for t in x] for x in new]), of_vectors.table(new)))
    columns = data.draw(
        st.lists(st.booleans(), min_size=len(plain.names), max_size=len(plain.names))
    )
    for expected, other in tables:
        whole = expected.whole().toarray()
        assert_array_equal(other.whole().toarray(), whole)
        entries, values = other.parted(np.flatnonzero(columns))
        assert_array_equal(values, whole[:, np.flatnonzero(columns)])
        assert_array_equal(entries.toarray(), np.where(columns, 0.0, whole))
        assert entries.has_canonical_format
        assert entries.data.all()


class _ReadByName(dict):
    """Names that may be looked up, but not gone through: there may be a million."""

    def __iter__(self):
        raise AssertionError("all names are read")

    keys = items = values = __iter__


@pytest.mark.parametrize("new", [{"new": True}, {"new": "x"}, {"new": 2.0}, {"new": [1.0]}])
@pytest.mark.parametrize("other", [{"a": True}, {"a": True, "b": True}])
def test_tokens_with_new_names_do_not_read_all_learned_names(new, other):
    names = TokenNames()
    names.learn([[{"a": True, "b": True}, {"b": True}]])
    names._codes.places = _ReadByName(names._codes.places)
    table = names.table([[{"a": True, **new}, other]])
    assert table.whole().toarray().tolist() == [[1.0, 0.0], [1.0, float("b" in other)]]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_an_infinite_number_of_a_vector_is_named(bad):
    refused(
        rf"X\[1\]\[0\] has \[0.5, {bad}\] for the feature 'v'",
        TokenNames().learn,
        [[{"v": [0.5, 1.0]}], [{"v": [0.5, bad]}]],
    )
