"""Vectors of words against a dense computation, and their use in a pipeline."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_info, threadpool_limits

from structboost import StructBoostTagger
from structboost.errors import ModelFileError
from structboost.text import TokenFeatures, WordVectors, word_vectors
from structboost.text.word_vectors import _neighbours, _positive_information, _reduced

WORDS = [f"w{k}" for k in range(7)]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=8)


def information_by_hand(sentences, vocabulary, window):
    """Positive information of words and contexts, cell by cell."""
    n = len(vocabulary)
    counts = np.zeros((n, 2 * n))
    for sentence in sentences:
        for t, word in enumerate(sentence):
            for u, other in enumerate(sentence):
                if u != t and abs(u - t) <= window and {word, other} <= vocabulary.keys():
                    counts[vocabulary[word], vocabulary[other] + n * (u > t)] += 1
    information = np.zeros_like(counts)
    contexts = [counts[:, c].sum() ** 0.75 for c in range(2 * n)]
    for w in range(n):
        for c in range(2 * n):
            if counts[w, c]:
                ratio = counts[w, c] * sum(contexts) / (counts[w].sum() * contexts[c])
                information[w, c] = max(0.0, math.log(ratio))
    return information


@pytest.mark.slow
@given(TEXTS, st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_the_table_is_the_positive_information_counted_by_hand(sentences, window, min_count):
    flat = [word for sentence in sentences for word in sentence]
    kept = sorted(word for word in set(flat) if flat.count(word) >= min_count)
    assume(kept)
    vectors = WordVectors(window=window, min_count=min_count)
    vectors.vocabulary_ = vocabulary = {word: k for k, word in enumerate(kept)}
    counts = _neighbours(vectors._rows(sentences, window), len(kept), window)
    wanted = information_by_hand(sentences, vocabulary, window)
    assert _positive_information(counts).toarray() == pytest.approx(wanted, abs=1e-12)
    assume(wanted.max() > 1e-9)
    assert vectors.fit(sentences).vocabulary_ == vocabulary


def text(n_sentences, n_words, seed=0):
    """Draw a text of words that often follow each other in their order."""
    random = np.random.default_rng(seed)
    starts = random.integers(n_words, size=n_sentences)
    return [
        [f"w{k}" for k in (start + np.cumsum(random.integers(3, size=6))) % n_words]
        for start in starts
    ]


@pytest.mark.parametrize("n_components", [1, 4, 19, 20, 30])
def test_vectors_are_those_of_a_dense_decomposition(n_components):
    sentences = text(200, 20)
    fitted = WordVectors(n_components, min_count=1, random_state=0).fit(sentences)
    table = information_by_hand(sentences, fitted.vocabulary_, 2)
    U, s, _ = np.linalg.svd(table, full_matrices=False)
    n = min(n_components, 20)
    wanted = (U * np.sqrt(s))[:, :n]
    computed = fitted.vectors_
    assert computed.shape == (20, n_components)
    assert not computed[:, n:].any()
    signs = np.sign((wanted * computed[:, :n]).sum(axis=0))
    assert computed[:, :n] == pytest.approx(wanted * signs, abs=1e-7)
    largest = np.abs(computed[:, :n]).argmax(axis=0)
    assert (computed[largest, np.arange(n)] > 0).all()


def test_components_beyond_the_rank_are_zero():
    sentences = [["a", "x"], ["b", "x"], ["a", "y"], ["b", "y"], ["x", "z"], ["y", "z"]] * 2
    vectors = WordVectors(4, random_state=0, min_count=2).fit(sentences)
    table = information_by_hand(sentences, vectors.vocabulary_, 2)
    rank = np.linalg.matrix_rank(table)
    assert rank < 4
    assert vectors.vectors_[:, :rank].any(axis=0).all()
    assert not vectors.vectors_[:, rank:].any()


def test_the_seed_and_not_the_number_of_threads_determines_vectors_and_classes(monkeypatch):
    sentences = text(2000, 300)
    fits, n_threads_inside = [], set()

    def recorded(*arguments):
        n_threads_inside.update(pool["num_threads"] for pool in threadpool_info())
        return _reduced(*arguments)

    monkeypatch.setattr(word_vectors, "_reduced", recorded)
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            fits.append(WordVectors(30, n_classes=9, random_state=3).fit(sentences))
    # Whether several threads would change the last bits depends on the machine.
    assert n_threads_inside == {1}
    np.testing.assert_array_equal(fits[0].vectors_, fits[1].vectors_)
    np.testing.assert_array_equal(fits[0].word_classes_, fits[1].word_classes_)


def test_words_have_equal_vectors_in_all_forms_of_tokens():
    words = [["Ada", "sleeps", "."], [], ["Bo", "sleeps", "."], ["Ada", "and", "Bo"]]
    dicts = [[{"word": word, "pos": "N"} for word in sentence] for sentence in words]
    own = [[{"form": word, "word": "x"} for word in sentence] for sentence in words]
    features = TokenFeatures(0).fit_transform(words)
    vectors = WordVectors(3, min_count=1, random_state=0).fit(words)
    for X, others in ((dicts, {}), (own, {"word": "form"}), (features, {})):
        of_form = WordVectors(3, min_count=1, random_state=0, **others).fit(X)
        np.testing.assert_array_equal(of_form.vectors_, vectors.vectors_)
        tokens = of_form.transform(X)
        for sentence, before, after in zip(words, X, tokens, strict=True):
            for word, old, token in zip(sentence, before, after, strict=True):
                row = vectors.vectors_[vectors.vocabulary_[word.lower()]]
                np.testing.assert_array_equal(token.pop("vector"), row)
                assert token == old
                assert "vector" not in old
    assert not vectors.transform([["Cy"]])[0][0]["vector"].any()
    before = np.array(vectors.vectors_)
    vectors.transform(words)[0][0]["vector"][:] = 7
    np.testing.assert_array_equal(vectors.vectors_, before)


NAMES, VERBS = ["ada", "bo", "cy", "di"], ["sleeps", "reads", "sees", "runs"]
UNLABELLED = [[name, verb, "."] for name in NAMES for verb in VERBS] * 2
X, Y = [["ada", "sleeps", "."], ["bo", "reads", "."]] * 6, [["B-x", "O", "O"]] * 12


def test_classes_gather_words_with_equal_neighbours():
    vectors = WordVectors(3, n_classes=3, random_state=0).fit(UNLABELLED)
    tokens = vectors.transform([[*NAMES, *VERBS, "."], ["unknown"]])
    classes = [token["word_class"] for token in tokens[0]]
    assert set(map(str, range(3))) == set(classes)
    assert [classes[:4], classes[4:8]] == [[classes[0]] * 4, [classes[4]] * 4]
    assert tokens[1][0]["word_class"] == "none"
    assert vectors.get_feature_names_out(["word"]).tolist() == ["word", "word_class"]


@pytest.mark.parametrize("n_classes", [None, 3])
def test_a_tagger_learns_from_words_of_another_text(n_classes):
    vectors = WordVectors(3, n_classes=n_classes, random_state=0).fit(UNLABELLED)
    features = TokenFeatures(0, prefixes=0, suffixes=0, shape=False, counts=False, word_ngrams=1)
    tagger = StructBoostTagger(C=100.0, weak_learner="linear", random_state=0)
    new = [[verb, name, "."] for verb in ("sees", "runs") for name in ("cy", "di")]
    wanted = [["O", "B-x", "O"]] * 4
    pipeline = make_pipeline(features, FrozenEstimator(vectors), tagger).fit(X, Y)
    assert pipeline.predict(new) == wanted
    assert make_pipeline(features, tagger).fit(X, Y).predict(new) != wanted


@pytest.mark.parametrize("n_classes", [None, 2])
def test_saved_vectors_are_equal(tmp_path, n_classes):
    vectors = WordVectors(2, n_classes=n_classes, name="v", random_state=0).fit(UNLABELLED)
    vectors.save(tmp_path / "vectors")
    loaded = WordVectors.load(tmp_path / "vectors")
    assert loaded.get_params() == vectors.get_params()
    assert loaded.vocabulary_ == vectors.vocabulary_
    assert repr(loaded.transform(X)) == repr(vectors.transform(X))
    content = (tmp_path / "vectors").read_bytes()
    (tmp_path / "vectors").write_bytes(content[:-40])
    with pytest.raises(ModelFileError, match="is damaged"):
        WordVectors.load(tmp_path / "vectors")


@pytest.mark.parametrize(
    ("settings", "sentences", "match"),
    [
        ({"n_components": 0}, UNLABELLED, "n_components is 0"),
        ({"window": 1.5}, UNLABELLED, "window is 1.5"),
        ({"min_count": None}, UNLABELLED, "min_count is None"),
        ({"n_classes": 0}, UNLABELLED, "n_classes is 0"),
        ({"n_classes": 99}, UNLABELLED, "X has 9 words that occur at least 3 times"),
        ({"name": 3}, UNLABELLED, "name is 3"),
        ({}, [["Ada", "sleeps"]], "X has 0 words that occur at least 3 times"),
        ({}, [["Ada"]] * 4, "X has no words that their neighbours tell apart"),
        ({}, [["Ada", 3]], r"X\[0\]\[1\] is 3; give words or dicts"),
        ({}, [[{"form": "Ada"}]], r"X\[0\]\[0\] is .*; give it a string 'word\[0\]' or 'word'"),
    ],
)
def test_unusable_parameters_and_sentences_raise(settings, sentences, match):
    with pytest.raises((TypeError, ValueError), match=match):
        WordVectors(**settings).fit(sentences)


def test_a_name_that_tokens_have_already_is_refused():
    first, second = (WordVectors(2, window=k, random_state=0) for k in (1, 2))
    tokens = first.fit_transform(UNLABELLED)
    with pytest.raises(ValueError, match=r"X\[0\]\[0\] has a feature 'vector' already; give"):
        second.fit(UNLABELLED).transform(tokens)
    both = second.set_params(name="second").fit(UNLABELLED).transform(tokens)
    assert both[0][0].keys() == {"word", "vector", "second"}


@pytest.mark.parametrize("n_classes", [None, 2])
def test_parameters_set_after_fit_do_not_change_the_vectors(n_classes, tmp_path):
    X = [["a", "b", "c"], ["b", "a", "d"]] * 5
    vectors = WordVectors(2, n_classes=n_classes, random_state=0).fit(X)
    wanted, names = repr(vectors.transform(X)), vectors.get_feature_names_out().tolist()
    other = {"n_components": 3, "n_classes": 3 if n_classes is None else None}
    vectors.set_params(**other, name="other", word="pos", window=1)
    assert repr(vectors.transform(X)) == wanted
    assert vectors.get_feature_names_out().tolist() == names
    vectors.save(tmp_path / "vectors")
    loaded = WordVectors.load(tmp_path / "vectors")
    assert repr(loaded.transform(X)) == wanted
    assert loaded.n_components == 2
