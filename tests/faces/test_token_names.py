"""Names of dict tokens against DictVectorizer."""

import copy
import pickle
import warnings
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import DictVectorizer

from structboost import StructBoostTagger
from structboost.faces.token_names import TokenNames

TEXT = st.sampled_from(["a", "b", "a=b", "", "é"])
VALUES = st.one_of(
    TEXT, st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.lists(TEXT, max_size=3)
)
TOKENS = st.dictionaries(TEXT, VALUES, max_size=4)
SEQUENCES = st.lists(st.lists(TOKENS, max_size=3), min_size=1, max_size=4)


@pytest.mark.slow
@given(SEQUENCES, SEQUENCES)
@settings(max_examples=200, deadline=None)
def test_names_and_values_are_those_of_a_dict_vectorizer(seen, new):
    if not any(token for x in seen for token in x):
        return
    names, other = TokenNames(), DictVectorizer()
    found = names.learn(seen)
    wanted = other.fit_transform(chain.from_iterable(seen))
    assert names.names == other.feature_names_
    np.testing.assert_array_equal(found.whole().toarray(), wanted.toarray())
    if any(new):
        wanted = other.transform(chain.from_iterable(new)).toarray()
        np.testing.assert_array_equal(names.table(new).whole().toarray(), wanted)
        loaded = TokenNames(names.names)
        np.testing.assert_array_equal(loaded.table(new).whole().toarray(), wanted)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.True_, True),
        (np.False_, False),
        (np.str_("x"), "x"),
        (np.int64(2), 2),
        (np.float32(2), 2),
    ],
)
def test_numpy_scalars_equal_python_values(value, plain):
    found, wanted = TokenNames(), TokenNames()
    table, other = found.learn([[{"a": value}, {"b": 1}]]), wanted.learn([[{"a": plain}, {"b": 1}]])
    assert found.names == wanted.names
    np.testing.assert_array_equal(table.whole().toarray(), other.whole().toarray())


@pytest.mark.parametrize(
    "token",
    [
        {1: 2.0}, {1: "x"}, {1: True}, {b"a": "x"}, {"a": object()}, {"a": {1: "x"}},
        {"a": ["x", 1]}, {"a": [[1]]}, {"a": b"x"}, {"a": {1, 2}}, {"a": iter("x")}, {"a": 1j},
        {"a": 2**53 + 1}, {"a": 10**400}, {"a": np.uint64(2**63)},
    ],
)  # fmt: skip
def test_an_unsupported_token_is_named(token):
    with pytest.raises(TypeError, match=r"X\[1\]\[1\] is \{.*; (give each|write it)"):
        TokenNames().learn([[{"a": 1.0}], [{"a": 1.0}, token]])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda names: pickle.loads(pickle.dumps(names))])
def test_copies_give_the_same_table(copied):
    tokens = [[{"a": "x", "b": True, "c": 2.5}, {"a": "y"}]]
    names = TokenNames()
    assert copied(names).names == []
    wanted = names.learn(tokens)
    assert copied(names).names == names.names
    again = copied(names).table(tokens).whole()
    np.testing.assert_array_equal(again.toarray(), wanted.whole().toarray())


@pytest.mark.slow
def test_tokens_of_many_layouts_are_read_as_each_alone():
    rng = np.random.default_rng(0)
    values = [True, False, "x", "y", 2.5, 1, 0, ["x", "z"]]
    tokens = [
        {str(name): values[rng.integers(8)] for name in rng.choice(6, 3, replace=False)}
        for _ in range(1500)
    ]
    tokens[::3] = [{"0": "x", "1": True}] * 500
    tokens[700:705] = [{"1": True, "0": "y", "2": ["x", "z"]}] * 5
    names, other = TokenNames(), DictVectorizer()
    wanted = other.fit_transform(tokens)
    np.testing.assert_array_equal(names.learn([tokens]).whole().toarray(), wanted.toarray())
    rows = [names.table([[token]]).whole().toarray()[0] for token in tokens]
    np.testing.assert_array_equal(rows, wanted.toarray())
    assert names.table([tokens[::3]]).entries.has_canonical_format


NUMBERS = st.one_of(st.integers(-1, 2), st.floats(-2, 2))
VECTORS = st.one_of(
    st.lists(NUMBERS, min_size=1, max_size=3),
    st.lists(NUMBERS, min_size=2, max_size=2).map(np.array),
    st.lists(NUMBERS, min_size=2, max_size=2).map(tuple),
)
WITH_VECTORS = st.dictionaries(st.sampled_from("abc"), VALUES | VECTORS, max_size=3)


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


def test_longer_vectors_than_those_of_training_warn():
    names = TokenNames()
    names.learn([[{"of word": [1.0, 2.0]}, {"of word": [1.0]}]])
    with pytest.warns(UserWarning, match=r"'of word' of a token has 3 numbers, and had at most 2"):
        names.table([[{"of word": [1.0, 2.0, 3.0]}]])


def test_shorter_vectors_than_those_of_training_warn():
    names = TokenNames()
    names.learn([[{"of word": [1.0, 2.0, 3.0]}]])
    with pytest.warns(UserWarning, match=r"'of word' of a token has 1 number, .* count as 0"):
        table = names.table([[{"of word": [5.0]}]])
    assert table.whole().toarray().tolist() == [[5.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    "copied", [lambda names: names, lambda names: pickle.loads(pickle.dumps(names))]
)
def test_vectors_that_are_as_short_as_one_of_training_do_not_warn(copied):
    names = TokenNames()
    names.learn([[{"v": [1.0, 2.0, 3.0], "w": [1.0]}, {"v": np.array([1.0, 2.0])}]])
    names = copied(names)
    assert names.shortest == {"v": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names.table([[{"v": [5.0, 6.0]}], [{"v": [5.0, 6.0, 7.0], "w": [2.0]}]])
    with pytest.warns(UserWarning, match=r"'v' of a token has 1 number, and had at most 3 .*as 0"):
        names.table([[{"v": [5.0]}]])


TRUE = {"other": True, "v": True}


@pytest.mark.parametrize(
    "tokens",
    [[{"v": value}] for value in (2.0, 1, 0.0, True, np.bool_(True), np.float32(3), np.array(4.0))]
    + [[{"v": 2.0}, {"other": "a"}, {"more": 1.0}], [TRUE], [TRUE, {"b": True}, {"c": True}]],
    ids=str,
)
def test_a_number_where_training_had_a_vector_warns_once(tokens):
    names = TokenNames()
    names.learn([[{"v": [1.0, 2.0], "mixed": [1.0]}, {"mixed": 1.0}]])
    with pytest.warns(UserWarning, match="'v' of a token is a number, and was a vector") as told:
        table = names.table([tokens, [{**tokens[0], "mixed": 1.0}]])
    assert len(told) == 1
    assert table.whole().toarray()[:, names.names.index("mixed")].sum() == 1.0


@pytest.mark.parametrize("value", [5.0, True])
def test_a_vector_where_training_had_a_number_warns(value):
    names = TokenNames()
    names.learn([[{"v": value}]])
    with pytest.warns(UserWarning, match="'v' of a token is a vector, and was a number in train"):
        names.table([[{"v": [1.0, 2.0]}], [{"v": np.ones(2)}]])


@pytest.mark.parametrize("weak_learner", ["auto", "tree"])
def test_files_of_taggers_keep_the_lengths_of_vectors(weak_learner, tmp_path):
    X = [[{"w": "a", "v": [1.0, 2.0]}, {"w": "b", "v": [3.0]}]] * 4
    tagger = StructBoostTagger(weak_learner=weak_learner, max_iter=2).fit(X, [["A", "B"]] * 4)
    tagger.save(tmp_path / "tagger")
    for fitted in (tagger, StructBoostTagger.load(tmp_path / "tagger")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted.predict(X[:1])
        with pytest.warns(UserWarning, match="'v' of a token is a number"):
            fitted.predict([[{"w": "a", "v": 1.0}]])


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_vectors_of_bools_are_zeros_and_ones(form):
    names = TokenNames()
    learned = names.learn([[{"v": form([True, False])}, {"v": form([True, True])}]])
    assert learned.whole().toarray().tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert names.names == ["v[0]", "v[1]"]


@pytest.mark.parametrize("is_learned", [False, True])
def test_masked_vectors_are_refused_and_those_without_a_masked_number_are_read(is_learned):
    names = TokenNames()
    whole = np.ma.masked_array([1.0, 2.0], [False, False])
    assert names.learn([[{"v": whole}]]).whole().toarray().tolist() == [[1.0, 2.0]]
    read = names.table if is_learned else TokenNames().learn
    tokens = [{"v": [1.0, 2.0]}, {"v": np.ma.masked_array([1.0, 9.0], [False, True])}]
    with pytest.raises(
        TypeError, match=r"^X\[0\]\[1\] is .*write v.filled\(number\), or leave 'v'"
    ):
        read([tokens])
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r"write v.fillna\(number\), or leave 'v'"):
        read([[{"v": pd.array([1, None], dtype="Int64")}]])
    with pytest.raises(TypeError, match="the value of 'v' is masked"):
        read([[{"v": np.ma.masked}]])


@pytest.mark.parametrize("value", [1.0, True, 3])
@pytest.mark.parametrize("is_learned", [False, True])
def test_a_vector_beside_a_name_of_one_of_its_numbers_is_refused(value, is_learned):
    names = TokenNames()
    names.learn([[{"v": [1.0, 2.0]}, {"v[1]": value}, {"v": [3.0, 4.0], "v[1]": "text"}]])
    read = names.table if is_learned else TokenNames().learn
    with pytest.raises(TypeError, match=r"^X\[1\]\[0\] .*rename 'v\[1\]'.*the same feature"):
        read([[{"v": [1.0, 2.0]}], [{"v": np.array([1.0, 2.0]), "v[1]": value}]])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* of a token (has|is) .*, and (had at most|was)")
@given(*2 * [st.lists(st.lists(WITH_VECTORS, max_size=3), min_size=1, max_size=4)], st.data())
@settings(max_examples=50, deadline=None)
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
        np.testing.assert_array_equal(other.whole().toarray(), whole)
        entries, values = other.parted(np.flatnonzero(columns))
        np.testing.assert_array_equal(values, whole[:, np.flatnonzero(columns)])
        np.testing.assert_array_equal(entries.toarray(), np.where(columns, 0.0, whole))
        assert entries.has_canonical_format
        assert entries.data.all()


@pytest.mark.parametrize("others", [{}, {"a": "x"}])
def test_a_missing_number_in_a_vector_is_named(others):
    bad = [[{"v": [1.0, 2.0]}], [{**others, "v": np.array([0.5, 1.0])}, {"v": [0.5, np.nan]}]]
    with pytest.raises(ValueError, match=r"X\[1\]\[1\] has the value nan for the feature 'v\[1\]'"):
        TokenNames().learn(bad)


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_an_infinite_number_in_a_vector_is_named(form):
    bad = [[{"v": form([1.0, 2.0])}], [{"v": form([0.5, np.inf])}]]
    with pytest.raises(ValueError, match=r"X\[1\]\[0\] has the value inf for the feature 'v\[1\]'"):
        TokenNames().learn(bad)


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_large_numbers_of_a_vector_are_read_as_those_without_one(form):
    table = TokenNames().learn([[{"v": form([1e16, -2.0])}, {"v": form([1e200, 0.5])}]])
    np.testing.assert_array_equal(table.whole().toarray(), [[1e16, -2.0], [1e200, 0.5]])


def test_a_whole_number_of_a_vector_that_floats_merge_is_named():
    with pytest.raises(
        TypeError, match=r"the value of 'v\[1\]' is 9007199254740993, beyond 2\*\*53"
    ):
        TokenNames().learn([[{"v": [0.5, 2**53 + 1]}]])


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
    assert names._index is not None
    names._places = _ReadByName(names._places)
    table = names.table([[{"a": True, **new}, other]])
    assert table.whole().toarray().tolist() == [[1.0, 0.0], [1.0, float("b" in other)]]
