"""Features of tokens and their two-stage tagger are those of loops over templates and tokens."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from structboost import StructBoostTagger
from structboost.errors import ConstantPredictionWarning, ModelFileError
from structboost.text import ChunkScorer, TokenFeatures, TwoStageTagger, chunk_scores
from structboost.text.token_features import counted, shape_of
from structboost.text.two_stage_tagger import fractions, nearby_means, read_tokens, with_tags
from tests.helpers.damaged_files.archives import crafted, header_of
from tests.helpers.refusals import refused

pytestmark = pytest.mark.slow

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
        if -1 <= k <= 1:
            token[f"shape[{k}]"] = shape_of(word)
        if word.istitle():
            token[f"is_title[{k}]"] = True
        if word.isupper():
            token[f"is_upper[{k}]"] = True
    if any(c.isdigit() for c in words[t]):
        token["has_digit[0]"] = True
    if words[t].isdigit():
        token["is_digit[0]"] = True
    for m in range(1, 1 + len(words[t])):
        if m <= 4:
            token[f"prefix[{m}]"] = lower[t][:m]
            token[f"suffix[{m}]"] = lower[t][len(words[t]) - m :]
    for a in (-1, 0):
        token[f"word[{a}:{a + 2}]"] = f"{at(lower, a)}|{at(lower, a + 1)}"
    column = [value for _, value in sentence]
    for m in range(1, 4):
        for a in range(-f.window, f.window + 2 - m):
            name = f"pos[{a}]" if m == 1 else f"pos[{a}:{a + m}]"
            token[name] = "|".join(at(column, k) for k in range(a, a + m))
    for i, j in [(0, -1), (0, 0), (0, 1), (-1, 0), (1, 0)] if f.column_pairs else []:
        if abs(i + j) <= f.window:
            token[f"word[{i}]+pos[{j}]"] = f"{at(lower, i)}|{at(column, j)}"
    return token


@given(SENTENCES, st.data())
@settings(max_examples=150)
def test_features_are_those_of_templates_written_out(sentences, data):
    features = TokenFeatures(
        data.draw(st.integers(0, 3)), counts=False, column_pairs=data.draw(st.booleans()),
        columns=["pos"],
    )  # fmt: skip
    X = [[{"word": word, "pos": pos} for word, pos in sentence] for sentence in sentences]
    out = features.fit_transform(X)
    assert out == [[by_hand(s, t, features) for t in range(len(s))] for s in sentences]


def bin_of(bounds, value):
    return str(sum(bound <= value for bound in bounds))


@given(SENTENCES, SENTENCES)
@settings(max_examples=100)
def test_counts_are_those_of_a_loop_over_the_other_tokens(training, later):
    training, later = ([[word for word, _ in s] for s in text] for text in (training, later))
    features = TokenFeatures(1).fit(training)
    plain = TokenFeatures(1, counts=False).fit(training)
    assume(counted({}, later) != counted({}, training))
    for before, X in (([], training), (training, later)):
        text = [(i, t, word) for i, s in enumerate([*before, *X]) for t, word in enumerate(s)]
        with_counts, without = features.transform(X), plain.transform(X)
        for i, sentence in enumerate(X):
            for t in range(len(sentence)):
                wanted = dict(without[i][t])
                for k in range(max(-1, -t), min(2, len(sentence) - t)):
                    own = i + len(before), t + k
                    word = sentence[t + k].lower()
                    others = [at for at in text if at[2].lower() == word and at[:2] != own]
                    inside = [other[0].isupper() for _, s, other in others if s > 0]
                    wanted[f"count[{k}]"] = bin_of((1, 2, 4, 8, 32), len(others))
                    wanted[f"capitals[{k}]"] = (
                        bin_of((0.05, 0.35, 0.65, 0.95), np.mean(inside)) if inside else "none"
                    )
                shape = shape_of(sentence[t][0])
                place = "inside" if t else "first"
                wanted["case[0]"] = f"{wanted['capitals[0]']}|{shape}|{place}"
                assert with_counts[i][t] == wanted
    assert features.transform(training[::-1]) == features.transform(training)[::-1]


def test_text_is_counted_whatever_words_a_file_names(tmp_path):
    TokenFeatures().fit([["Ada"]]).save(tmp_path / "file")
    crafted(tmp_path / "file", header_of("bo", "words", 0))
    token = TokenFeatures.load(tmp_path / "file").transform([["Ada"]])[0][0]
    assert token["count[0]"] == "0"


def test_columns_are_those_of_training():
    X = [[{"word": "Ada", "pos": "N", "id": 3}]]
    assert TokenFeatures().fit(X).columns_ == ["pos", "id"]
    named = TokenFeatures(word="form").fit_transform([[{"form": "Ada"}]])
    assert named == TokenFeatures().fit_transform([["Ada"]])
    features = TokenFeatures(columns=["pos"], window=0).fit(X)
    assert "id[0]" not in features.transform(X)[0][0]
    for token in ({"word": "Ada"}, "Ada", {"word": "Ada", "pos": [1.0]}):
        refused(r"^X\[0\]\[0\] is .*, without .* column 'pos' of", features.transform, [[token]])


X = [["Ada", "sleeps"], ["Bo", "reads", "Cy"], ["dogs", "see", "Di"]] * 6
Y = [["B-x", "O"], ["B-x", "O", "B-x"], ["O", "O", "B-x"]] * 6


def test_a_pipeline_is_searched():
    pipeline = make_pipeline(TokenFeatures(), StructBoostTagger(random_state=0))
    search = GridSearchCV(pipeline, {"tokenfeatures__window": [0, 1]}, scoring=ChunkScorer(), cv=2)
    assert search.fit(X, Y).best_estimator_.predict(X) == Y


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_as_output_of_other_transformers_leave_tokens_alone(library):
    with config_context(transform_output=library):
        features = TokenFeatures().fit_transform(X)
        assert make_pipeline(TokenFeatures(), StructBoostTagger()).fit(X, Y).score(X, Y) == 1.0
    assert features == TokenFeatures().fit_transform(X)


LETTERS = st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=1, max_size=6)


@given(LETTERS, st.integers(1, 3), st.booleans(), st.integers(0, 1000))
@settings(max_examples=150)
def test_means_are_those_of_loops_over_sentences_and_tokens(sentences, radius, has_documents, seed):
    rng = default_rng(seed)
    _, words, lengths = read_tokens([[{"word": w} for w in s] for s in sentences], "word")
    documents = rng.integers(0, 3, len(sentences)) if has_documents else None
    probabilities = rng.random((len(words), 2))
    tokens = [(i, word) for i, sentence in enumerate(sentences) for word in sentence]

    def is_near(i, j):
        return documents[i] == documents[j] if has_documents else abs(i - j) <= radius

    wanted = np.full((len(words), 2), np.nan)
    for t, (i, word) in enumerate(tokens):
        near = [j != i and other == word and is_near(i, j) for j, other in tokens]
        if any(near):
            wanted[t] = probabilities[near].mean(axis=0)
    means = nearby_means(words, lengths, probabilities, documents, radius)
    assert_allclose(means, wanted, atol=1e-8)


def test_likely_tags_become_features_by_the_lower_bounds_of_their_bins():
    means = np.array([[0.09, 0.91], [0.1, 0.25], [np.nan, np.nan]])
    X = [[{"w": "a"}, {"w": "b"}], [], [{"w": "c"}]]
    assert with_tags(X, "nearby", means, ["B", "O"]) == [
        [{"w": "a", "nearby:O": "0.75"}, {"w": "b", "nearby:B": "0.1", "nearby:O": "0.25"}],
        [],
        [{"w": "c"}],
    ]
    assert X[0][0] == {"w": "a"}


def test_fractions_of_words_without_weight_but_for_rounding_are_unknown():
    weights = np.array([[0.3, 0.1], [0.1 + 0.2 - 0.3, 0.0], [0.0, 2.0]])
    found = fractions(weights, np.array([0, 1, 2, 2, -1]))
    assert_allclose(found, [[0.75, 0.25], [np.nan] * 2, [0, 1], [0, 1], [np.nan] * 2])


LOG: list = []


class Recorder(StructBoostTagger):
    """Tagger that keeps its training sentences, and tags only names with a title."""

    def fit(self, X, y, sample_weight=None):
        LOG.append((X, y, sample_weight))
        self.classes_ = np.array(["B-x", "O"])
        self.seen_ = {token["word[0]"] for tokens in X for token in tokens}
        return self

    def predict_marginals(self, X):
        return [
            [{"B-x": p, "O": 1 - p} for p in (0.6 if "title" in token else 0.3 for token in tokens)]
            for tokens in X
        ]


def test_first_stages_of_folds_see_other_runs_of_sentences():
    LOG.clear()
    X = [[{"word[0]": str(i)}] for i in range(7)]
    y = [["O"]] * 7
    TwoStageTagger(Recorder(C=1.0), folds=3).fit(X, y, sample_weight=[1, 1, 1, 1, 1, 1, 0])
    trained = [[x[0]["word[0]"] for x in X] for X, _, _ in LOG]
    assert trained == [
        list("0123456"),
        list("345"),
        list("01256")[:4],
        list("01234"),
        list("0123456"),
    ]


def test_documents_are_in_one_fold_and_alone_are_nearby():
    LOG.clear()
    X = [[{"word[0]": "a", "title": True}], [{"word[0]": "a"}], [{"word[0]": "a"}]]
    documents = ["d2", "d1", "d2"]
    TwoStageTagger(Recorder(C=1.0), folds=2).fit(X, [["O"]] * 3, documents=documents)
    assert [len(X) for X, _, _ in LOG] == [3, 1, 2, 3]
    tokens = [tokens[0] for tokens in LOG[-1][0]]
    assert [token.get("nearby:B-x") for token in tokens] == ["0.25", None, "0.5"]


def test_tags_of_a_word_in_other_folds_are_features_and_in_prediction_all():
    LOG.clear()
    X = [[{"word[0]": word}] for word in "abac"]
    y = [["B-x"], ["O"], ["O"], [None]]
    tagger = TwoStageTagger(Recorder(C=1.0), folds=2).fit(X, y, sample_weight=[3, 1, 1, 1])
    both, other = {"lexicon:B-x": "0.75", "lexicon:O": "0.25"}, {"lexicon:O": "0.75"}
    for inputs, lexicon in (
        (LOG[-1][0], [other, {}, {"lexicon:B-x": "0.75"}, {}]),
        (tagger._inputs([[{"word[0]": w}] for w in "abc"], None), [both, other, {}]),
    ):
        for (token,), wanted in zip(inputs, lexicon, strict=True):
            assert {name: token[name] for name in token if name.startswith("lex")} == wanted


NAMES = [f"N{i}" for i in range(24)]


def corpus(seed):
    """Sentences in which a name has a hint of its kind once, and then none."""
    rng = default_rng(seed)
    X, y = [], []
    for _ in range(40):
        names = rng.choice(NAMES, 3, replace=False)
        kinds = rng.choice(["x", "y"], 3)
        for hint in (True, True, False, False):
            for name, kind in zip(names, kinds, strict=True):
                X.append([("mr" if kind == "x" else "in") if hint else "the", str(name), "is"])
                y.append(["O", f"B-{kind}", "O"])
    return X, y, np.repeat(np.arange(40), 12)


@pytest.fixture(scope="module")
def trained():
    X, y, documents = corpus(0)
    features = TokenFeatures()
    tagger = TwoStageTagger(StructBoostTagger(random_state=0), folds=3)
    return features, tagger.fit(features.fit_transform(X), y, documents=documents)


def test_a_name_is_tagged_as_elsewhere_in_its_document(trained):
    features, tagger = trained
    X, y, documents = corpus(1)
    tokens = features.transform(X)
    alone = chunk_scores(y, tagger.first_.predict(tokens)).total.f1
    both = chunk_scores(y, tagger.predict(tokens, documents=documents)).total.f1
    assert both > 0.95 > alone + 0.1
    assert tagger.score(tokens, y, documents=documents) > tagger.first_.score(tokens, y)
    marginals = tagger.predict_marginals(tokens, documents)
    assert sum(marginals[0][0].values()) == pytest.approx(1)


def test_a_sentence_alone_is_tagged(trained):
    features, tagger = trained
    assert tagger.predict(features.transform([["mr", "Zoe", "is"]])) == [["O", "B-x", "O"]]


def test_a_file_of_another_kind_is_refused(trained, tmp_path):
    trained[1].first_.save(tmp_path / "tagger")
    with pytest.raises(ModelFileError, match="not a two-stage tagger"):
        TwoStageTagger.load(tmp_path / "tagger")


def test_a_pipeline_passes_documents(trained):
    _, tagger = trained
    X, y, documents = corpus(0)
    features = TokenFeatures()
    pipeline = make_pipeline(features, clone(tagger))
    pipeline.fit(X, y, twostagetagger__documents=documents)
    tokens = features.fit_transform(X)
    predicted = pipeline.predict(X, documents=documents)
    assert predicted == tagger.predict(tokens, documents=documents)


@pytest.mark.parametrize(
    ("folds", "documents", "match"),
    [
        (5, None, "folds is 5; give .* the sequences, 4"),
        (3, [0, 0, 1, 1], "the documents, 2"),
        (2, [0, 1], r"documents has shape \(2,\)"),
        (2, [0, 1, None, 1], r"documents\[2\] is None"),
    ],
)
def test_unusable_folds_and_documents_raise_with_a_remedy(folds, documents, match):
    tagger = TwoStageTagger(Recorder(C=1.0), folds=folds)
    refused(match, tagger.fit, [[{"word[0]": "a"}]] * 4, [["O"]] * 4, documents=documents)


def test_documents_are_held_out_as_a_whole_where_a_stage_chooses(monkeypatch):
    X, y, documents = corpus(0)
    tokens = TokenFeatures().fit_transform(X)
    groups, chosen = [], []
    fit = StructBoostTagger.fit

    def recorded(self, X, y, sample_weight=None, **more):
        groups.append(more.get("groups"))
        chosen.append(self.C is None)
        return fit(self, X, y, sample_weight, **more)

    monkeypatch.setattr(StructBoostTagger, "fit", recorded)
    TwoStageTagger(StructBoostTagger(), folds=2).fit(tokens, y, documents=documents)
    # Taggers of folds have the C of the first stage.
    assert [of is not None for of in groups] == chosen == [True, False, False, True]
    assert len(set(groups[0])) == len(set(documents))
    groups.clear()
    TwoStageTagger(StructBoostTagger(C=3.0), folds=2).fit(tokens, y, documents=documents)
    assert groups == [None] * 4


def test_tokens_without_the_word_are_named():
    refused(
        r"X\[0\]\[0\] has None for the feature 'word\[0\]'",
        TwoStageTagger(Recorder(C=1.0)).fit,
        [[{"word": "a"}]] * 4,
        [["O"]] * 4,
    )


def test_one_tag_is_warned_of_once():
    tokens = TokenFeatures().fit_transform([["a", "b"]] * 4)
    with pytest.warns(ConstantPredictionWarning) as warned:
        TwoStageTagger(folds=2).fit(tokens, [["O", "O"]] * 4)
    assert len(warned) == 1
