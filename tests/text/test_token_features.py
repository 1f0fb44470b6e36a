"""Features of tokens against templates written out, and their use in a pipeline."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from structboost import StructBoostTagger
from structboost.errors import ModelFileError
from structboost.text import ChunkScorer, TokenFeatures
from structboost.text.token_features import shape_of

WORDS = st.sampled_from(["Ada", "IBM", "b2B", "2026", "-", "étÉ", "a", "I", "x|y"])
SENTENCES = st.lists(st.lists(st.tuples(WORDS, WORDS), max_size=5), min_size=1, max_size=3)


def by_hand(sentence, t, f):
    """Features of a token, template by template."""
    words, n = [word for word, _ in sentence], len(sentence)

    def at(values, k):
        return "<start>" if t + k < 0 else "<end>" if t + k >= n else values[t + k]

    lower = [word.lower() for word in words]
    token = {}
    for k in range(-f.window, f.window + 1):
        token[f"word[{k}]"] = at(lower, k)
        if not 0 <= t + k < n:
            continue
        word = words[t + k]
        if f.shape and -1 <= k <= 1:
            token[f"shape[{k}]"] = shape_of(word)
        if f.case and word.istitle():
            token[f"is_title[{k}]"] = True
        if f.case and word.isupper():
            token[f"is_upper[{k}]"] = True
    if f.case and any(c.isdigit() for c in words[t]):
        token["has_digit[0]"] = True
    if f.case and words[t].isdigit():
        token["is_digit[0]"] = True
    for m in range(1, 1 + len(words[t])):
        if m <= f.prefixes:
            token[f"prefix[{m}]"] = lower[t][:m]
        if m <= f.suffixes:
            token[f"suffix[{m}]"] = lower[t][len(words[t]) - m :]
    for m in range(2, f.word_ngrams + 1):
        for a in range(1 - m, 1):
            token[f"word[{a}:{a + m}]"] = "|".join(at(lower, k) for k in range(a, a + m))
    column = [value for _, value in sentence]
    for m in range(1, f.column_ngrams + 1):
        for a in range(-f.window, f.window + 2 - m):
            name = f"pos[{a}]" if m == 1 else f"pos[{a}:{a + m}]"
            token[name] = "|".join(at(column, k) for k in range(a, a + m))
    for i, j in [(0, -1), (0, 0), (0, 1), (-1, 0), (1, 0)] if f.column_pairs else []:
        if abs(i + j) <= f.window:
            token[f"word[{i}]+pos[{j}]"] = f"{at(lower, i)}|{at(column, j)}"
    return token


@pytest.mark.slow
@given(SENTENCES, st.data())
@settings(max_examples=150, deadline=None)
def test_features_are_those_of_templates_written_out(sentences, data):
    small = st.integers(0, 3)
    features = TokenFeatures(
        data.draw(small), prefixes=data.draw(small), suffixes=data.draw(small),
        shape=data.draw(st.booleans()), case=data.draw(st.booleans()), counts=False,
        column_pairs=data.draw(st.booleans()),
        word_ngrams=data.draw(st.integers(1, 3)), column_ngrams=data.draw(small), columns=["pos"],
    )  # fmt: skip
    X = [[{"word": word, "pos": pos} for word, pos in sentence] for sentence in sentences]
    out = features.fit_transform(X)
    assert out == [[by_hand(s, t, features) for t in range(len(s))] for s in sentences]
    names = set(features.get_feature_names_out())
    assert all(set(token) <= names for tokens in out for token in tokens)


def test_names_are_different_and_each_of_them_occurs():
    features = TokenFeatures(column_pairs=True)
    X = [[{"word": word, "pos": "N"} for word in ("IBM", "2026", "Ada9a", "reads", "Cyyyy", "OK")]]
    X += [X[0][::-1]]
    tokens = [token for tokens in features.fit_transform(X) for token in tokens]
    names = features.get_feature_names_out().tolist()
    assert len(set(names)) == len(names)
    assert set(names) == {name for token in tokens for name in token}


def bin_of(bounds, value):
    return str(sum(bound <= value for bound in bounds))


@pytest.mark.slow
@given(SENTENCES, SENTENCES)
@settings(max_examples=100, deadline=None)
def test_counts_are_those_of_a_loop_over_the_other_tokens(training, later):
    training, later = ([[word for word, _ in s] for s in text] for text in (training, later))
    features = TokenFeatures(1, word_ngrams=1).fit(training)
    plain = TokenFeatures(1, word_ngrams=1, counts=False).fit(training)
    assume(later != training)
    for text, X in ((training, training), (training + later, later)):
        first = len(text) - len(X)
        for i, (tokens, without) in enumerate(
            zip(features.transform(X), plain.transform(X), strict=True), start=first
        ):
            for t, token in enumerate(tokens):
                wanted = dict(without[t])
                for k in (-1, 0, 1):
                    if not 0 <= t + k < len(tokens):
                        continue
                    word = text[i][t + k]
                    places = [
                        (s, other[s])
                        for j, other in enumerate(text)
                        for s in range(len(other))
                        if other[s].lower() == word.lower() and (j, s) != (i, t + k)
                    ]
                    inside = [other[0].isupper() for s, other in places if s > 0]
                    wanted[f"count[{k}]"] = bin_of((1, 2, 4, 8, 32), len(places))
                    wanted[f"capitals[{k}]"] = (
                        bin_of((0.05, 0.35, 0.65, 0.95), np.mean(inside)) if inside else "none"
                    )
                shape = shape_of(text[i][t][0])
                place = "first" if t == 0 else "inside"
                wanted["case[0]"] = f"{wanted['capitals[0]']}|{shape}|{place}"
                assert token == wanted


def test_saved_features_are_equal(tmp_path):
    training = [[{"word": w, "pos": "N"} for w in ("Ada", "sees", "Anne")]] * 3
    features = TokenFeatures(1, prefixes=2).fit(training)
    features.save(tmp_path / "features")
    loaded = TokenFeatures.load(tmp_path / "features")
    later = [[{"word": w, "pos": "N"} for w in ("Anne", "Bo", "Ada")]]
    for X in (training, later):
        assert loaded.transform(X) == features.transform(X)
    assert loaded.get_params() == features.get_params()
    assert loaded.columns_ == ["pos"]
    content = (tmp_path / "features").read_bytes()
    (tmp_path / "features").write_bytes(content[:-40])
    with pytest.raises(ModelFileError, match="is damaged"):
        TokenFeatures.load(tmp_path / "features")


def test_parameters_set_after_fit_do_not_change_the_features(tmp_path):
    X = [[{"word": w, "pos": "N"} for w in ("Ada", "sees", "Bo")]] * 3
    features = TokenFeatures().fit(X)
    wanted, names = features.transform(X), features.get_feature_names_out().tolist()
    for name, value in {
        **{"window": 1, "prefixes": 0, "suffixes": 1, "shape": False, "case": False},
        **{"counts": False, "word_ngrams": 0, "column_ngrams": 1, "word": "pos"},
    }.items():
        features.set_params(**{name: value})
    assert features.transform(X) == wanted
    assert features.get_feature_names_out().tolist() == names
    features.save(tmp_path / "features")
    assert TokenFeatures.load(tmp_path / "features").transform(X) == wanted


def test_words_and_dicts_of_words_have_equal_features():
    words = [["Ada", "sleeps"], [], ["Bo"]]
    dicts = [[{"word": word} for word in sentence] for sentence in words]
    named = [[{"form": word} for word in sentence] for sentence in words]
    wanted = TokenFeatures().fit_transform(words)
    assert TokenFeatures().fit_transform(dicts) == wanted
    assert TokenFeatures(word="form").fit_transform(named) == wanted
    assert TokenFeatures().fit(words).transform([np.array(s) for s in words]) == wanted
    assert TokenFeatures().fit(words).transform(tuple(map(tuple, words))) == wanted


def test_columns_are_those_of_training():
    X = [[{"word": "Ada", "pos": "N", "id": 3}]]
    assert TokenFeatures().fit(X).columns_ == ["pos", "id"]
    features = TokenFeatures(columns=["pos"], column_ngrams=1, window=0).fit(X)
    assert "pos[0]" in features.get_feature_names_out()
    for token in ({"word": "Ada"}, "Ada", {"word": "Ada", "pos": [1.0]}):
        with pytest.raises(ValueError, match=r"^X\[0\]\[0\] is .*, without .* column 'pos' of"):
            features.transform([[token]])


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (["Ada sleeps"], {}, r"X\[0\] is 'Ada sleeps'; give a list of words"),
        ([{"word": "Ada"}], {}, r"X\[0\] is \{'word': 'Ada'\}; give a list"),
        ([[{"form": "Ada"}]], {}, r"X\[0\]\[0\] is .*; give it a string 'word'"),
        ([["Ada", 3]], {}, r"X\[0\]\[1\] is 3; give words or dicts"),
        ([pd.DataFrame({"word": ["Ada"]})], {}, r"X\[0\] is .*; give a list of words"),
        (None, {}, "X is None"),
        *(([["Ada"]], {name: value}, f"{name} is {value!r}") for name, value in (
            ("window", -1), ("prefixes", 1.5), ("suffixes", True), ("word_ngrams", 0),
            ("shape", "yes"), ("counts", 1), ("columns", "pos"), ("columns", None), ("word", None),
        )),
    ],
)  # fmt: skip
def test_unusable_sentences_and_parameters_raise_with_their_place(X, parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TokenFeatures(**parameters).fit(X)


X = [["Ada", "sleeps"], ["Bo", "reads", "Cy"], ["dogs", "see", "Di"]] * 6
Y = [["B-x", "O"], ["B-x", "O", "B-x"], ["O", "O", "B-x"]] * 6


def test_a_pipeline_is_cloned_pickled_and_searched():
    pipeline = make_pipeline(TokenFeatures(), StructBoostTagger(random_state=0))
    search = GridSearchCV(pipeline, {"tokenfeatures__window": [0, 1]}, scoring=ChunkScorer(), cv=2)
    best = search.fit(X, Y).best_estimator_
    assert clone(best).fit(X, Y).predict(X) == Y
    assert pickle.loads(pickle.dumps(best)).predict(X) == best.predict(X) == Y
    assert clone(TokenFeatures(3, prefixes=1)).get_params()["window"] == 3


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_as_output_of_other_transformers_leave_tokens_alone(library):
    with config_context(transform_output=library):
        features = TokenFeatures().fit_transform(X)
        assert make_pipeline(TokenFeatures(), StructBoostTagger()).fit(X, Y).score(X, Y) == 1.0
    assert features == TokenFeatures().fit_transform(X)
