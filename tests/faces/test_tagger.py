"""StructBoostTagger: scores against an enumeration, tags of any kind, files."""

import re
import warnings
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils import get_tags

from structboost import StructBoostTagger
from structboost.errors import ConstantPredictionWarning
from structboost.objectives import OneSlack
from tests.helpers.refusals import refused

WORDS = {"N": ["dog", "cat", "saw"], "V": ["saw", "ran", "bit"], "D": ["the", "a"]}
FOLLOWS = {None: "DN", "D": "N", "N": "VV", "V": "DN"}
HINGE = {"objective": "hinge", "C": 30}


def sentences(n, seed=0):
    """Words and their kinds; ``saw`` is a noun or a verb by what stands before it."""
    rng = default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags, words = [None], []
        for _ in range(rng.integers(2, 8)):
            tags.append(str(rng.choice(list(FOLLOWS[tags[-1]]))))
            words.append(str(rng.choice(WORDS[tags[-1]])))
        X.append([{"word": word, "last": word[-1]} for word in words])
        y.append(tags[1:])
    return X, y


def with_vectors(n, seed=0):
    """Sentences whose words have a vector, and tokens a number."""
    X, y = sentences(n, seed)
    for x in X:
        for t, token in enumerate(x):
            rng = default_rng(sum(map(ord, token["word"])))
            token |= {"vector": rng.normal(size=4), "place": 2.5 * t}
    return X, y


def forms(X):
    """The same tokens as sparse matrices and as arrays."""
    vectorizer = DictVectorizer().fit([token for x in X for token in x])
    matrices = [vectorizer.transform(x) for x in X]
    return matrices, [matrix.toarray() for matrix in matrices]


def test_dicts_sparse_matrices_and_arrays_give_one_model():
    X, y = sentences(60)
    fits = [
        StructBoostTagger(**HINGE, tol=1e-4, max_iter=60).fit(tokens, y)
        for tokens in (X, *forms(X))
    ]
    assert fits[0].objective_ == fits[1].objective_
    # Stumps on 0/1 features span the same functions; a constant may stand apart.
    assert fits[2].score(forms(X)[1], y) == pytest.approx(fits[0].score(X, y), abs=0.01)
    assert fits[2].feature_importances_.shape == (len(fits[0].feature_names_),)
    assert fits[2].feature_importances_.sum() == pytest.approx(1)


def scores_of_all_tags(tagger, x):
    """Score of every list of tags of a sentence, from the public weights by name."""
    names, n_tags = tagger.feature_names_, len(tagger.classes_)
    rows = np.zeros((len(x), len(names)))
    for row, token in zip(rows, x, strict=True):
        for name, value in token.items():
            features = {f"{name}={value}": 1.0} if isinstance(value, str) else {name: value}
            if isinstance(value, np.ndarray):
                features = {f"{name}[{k}]": number for k, number in enumerate(value)}
            for feature in features.keys() & set(names):
                row[names.index(feature)] = features[feature]
    tokens = rows @ tagger.feature_weights_ + tagger.intercept_
    return {
        tags: sum(tokens[t, k] for t, k in enumerate(tags))
        + sum(tagger.transitions_[pair] for pair in pairwise(tags))
        for tags in product(range(n_tags), repeat=len(x))
    }


@pytest.mark.parametrize(
    ("made", "parameters"),
    [
        (sentences, {}),
        (sentences, {"objective": "svm", "C": 30, "tol": 1e-3}),
        (sentences, {**HINGE, "max_iter": 20, "tol": 0.1}),
        (sentences, {"objective": "l1_log_loss", "C": 30, "tol": 0.1}),
        (sentences, {"weak_learner": "stump", "max_iter": 20}),
        (with_vectors, {}),
        (with_vectors, {"objective": "svm", "C": 30}),
        (with_vectors, {**HINGE, "max_iter": 5, "weak_learner": "linear"}),
    ],
    ids=lambda case: getattr(case, "__name__", str(case)),
)
def test_tags_and_probabilities_are_those_of_all_tags_by_the_public_weights(
    made, parameters, reloaded
):
    fitted = StructBoostTagger(random_state=0, **parameters).fit(*made(60))
    tagger = reloaded(fitted)
    new, tags = made(40, seed=1)
    assert tagger.score(new, tags) > 0.9
    new = [*(x[:5] for x in new[:8]), [{"word": "unseen"}, {"word": "zebra", "last": "n"}]]
    marginals = tagger.predict_marginals(new)
    assert marginals == fitted.predict_marginals(new)
    for x, found, of_tokens in zip(new, tagger.predict(new), marginals, strict=True):
        scores = scores_of_all_tags(tagger, x)
        assert found == tagger.classes_[list(max(scores, key=scores.get))].tolist()
        values = np.array(list(scores.values())) * (tagger.temperature_ or 1.0)
        p = np.exp(values - np.logaddexp.reduce(values))
        for t, token in enumerate(of_tokens):
            at = np.array(list(scores))[:, t]
            np.testing.assert_allclose(
                list(token.values()), np.bincount(at, p, minlength=3), atol=1e-6
            )
    assert tagger.feature_importances_.sum() == pytest.approx(1)


def test_weights_of_features_are_missing_where_trees_or_numbers_have_none():
    X, y = sentences(30)
    for tagger, tokens in (
        (StructBoostTagger(weak_learner="tree", max_iter=3), X),
        (StructBoostTagger(max_iter=3), [x + 0.5 for x in forms(X)[1]]),
    ):
        with pytest.raises(AttributeError, match="feature_weights_ and intercept_ are missing"):
            tagger.fit(tokens, y).feature_weights_  # noqa: B018
    with pytest.raises(NotFittedError):
        StructBoostTagger().feature_weights_  # noqa: B018


@pytest.mark.parametrize("parameters", [{**HINGE, "max_iter": 10}, {}])
def test_unknown_tags_and_forbidden_pairs_are_respected(parameters, reloaded):
    X, y = sentences(60)
    rng = default_rng(1)
    partial = [[tag if rng.random() < 0.7 else None for tag in tags] for tags in y]
    forbidden = [("D", "D"), ("D", "V"), (None, "V")]
    tagger = StructBoostTagger(**parameters, forbidden=forbidden)
    tagger.fit(X, partial, sample_weight=rng.random(60))
    new, tags = sentences(40, seed=2)
    assert tagger.score(new, tags) > 0.85
    assert 0 < tagger.score(X, partial) <= 1
    # Even where all words are verbs.
    found = tagger.predict([[{"word": "ran", "last": "n"}] * 3, [{"word": "the"}] * 4])
    pairs = {pair for tags in found for pair in zip([None, *tags], tags, strict=False)}
    assert not pairs & set(forbidden)
    loaded = reloaded(tagger)
    assert loaded.predict(new) == tagger.predict(new)
    assert loaded.forbidden == forbidden


NAMED, TWO_TAGS = [[{"a": 1}, {"a": 2}]], [["D", "N"]]


@pytest.mark.parametrize(
    ("parameters", "X", "y", "message"),
    [
        ({}, [[], []], [[], []], "X has no tokens"),
        ({}, NAMED, [[None, np.nan]], "y has no known tag"),
        ({}, [[{}, {}]] * 6, TWO_TAGS * 6, "no tokens with features"),
        ({"forbidden": ["DN"]}, NAMED, TWO_TAGS, "forbidden has 'DN'; give pairs"),
        ({"forbidden": [("D",)]}, NAMED, TWO_TAGS, "forbidden has ('D',); give pairs"),
        (
            {"weak_learner": "active_feature", **HINGE}, forms(sentences(9)[0])[1], sentences(9)[1],
            "'active_feature'",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_named(parameters, X, y, message):
    refused(re.escape(message), StructBoostTagger(**parameters).fit, X, y)


def test_forbidden_tags_that_do_not_occur_are_named():
    X, y = NAMED * 2, TWO_TAGS * 2
    tagger = StructBoostTagger(**HINGE, forbidden=[("N", "D"), ("d", None)])
    with pytest.warns(
        UserWarning, match=r"forbidden has pairs with a tag .* tags of y are \['D', 'N'\]"
    ):
        tagger.fit(X, y)
    assert tagger.predict(X) == y
    with warnings.catch_warnings(action="error"):
        StructBoostTagger(**HINGE, forbidden=[("N", "D"), ("D", None)]).fit(X, y)


@pytest.mark.parametrize("pair", [("D", "N"), (None, "D"), ("N", None)])
def test_true_tags_that_are_forbidden_are_named(pair):
    X = [[{"a": 1}], *NAMED]
    tagger = StructBoostTagger(**HINGE, forbidden=[pair])
    refused(rf"y\[1\] has the pair {re.escape(str(pair))}", tagger.fit, X, [[None], ["D", "N"]])
    # Where the tag beside it is not known, nothing is wrong.
    tagger.fit(X[1:] * 2, [["D", None], [None, "N"]] if pair[0] and pair[1] else [["N", "D"]] * 2)


def test_tags_of_scikit_learn_declare_inputs_that_are_not_tables():
    assert not get_tags(StructBoostTagger()).input_tags.two_d_array


@pytest.mark.parametrize("parameters", [{}, HINGE, {"objective": "l1_log_loss", "C": 30.0}])
def test_all_sequences_may_have_one_token(parameters):
    X = default_rng(0).normal(size=(40, 1, 2))
    y = [["a" if x[0, 0] > 0 else "b"] for x in X]
    assert StructBoostTagger(max_iter=10, **parameters).fit(X, y).score(X, y) > 0.9


def test_stored_zeros_are_equal_to_missing_entries():
    # As features of words are often written: a dict has an entry for what is not so.
    X = [[{"is": bool(k % 2), "not": not k % 2} for k in range(4)]] * 5
    tagger = StructBoostTagger(**HINGE, max_iter=5).fit(X, [[0, 1, 0, 1]] * 5)
    assert tagger.model_.members["token"].family == "active_feature"
    dense = default_rng(0).integers(2, size=(10, 4, 3))
    plain, places = [*map(sparse.csr_array, 1.0 * dense)], np.indices((4, 3)).reshape(2, -1)
    stored = [sparse.csr_array((1.0 * x.ravel(), places)) for x in dense]
    assert stored[0].nnz == 12
    tags = dense[:, :, 0].tolist()
    found = [StructBoostTagger(**HINGE, max_iter=5).fit(X, tags) for X in (plain, stored)]
    assert found[0].predict(plain) == found[1].predict(stored) == found[0].predict(stored)


def test_forbidden_tags_of_numpy_types_are_saved(reloaded):
    X, tags = [np.array([[0.0], [1.0]])] * 4, np.array([1, 2])
    tagger = StructBoostTagger(**HINGE, forbidden=[(tags[1], tags[0])]).fit(X, [tags] * 4)
    loaded = reloaded(tagger)
    assert loaded.predict(X) == tagger.predict(X) == [[1, 2]] * 4
    assert loaded.forbidden == [(2, 1)]


def test_weights_that_leave_no_known_tag_are_refused():
    X = [np.ones((2, 1))] * 3
    refused(
        "sample_weight leaves no sequence that has a known tag",
        StructBoostTagger().fit,
        X,
        [[None, None], [1, 2], [2, 1]],
        sample_weight=[1, 0, 0],
    )


def test_many_sequences_and_tags_are_predicted_as_each_one_alone(monkeypatch):
    X, y = sentences(40)
    tagger = StructBoostTagger(weak_learner="linear", C=40.0).fit(X, y)
    alone = [tagger.predict_marginals([x])[0] for x in X]
    for most in (1, 30, 1 << 22):
        monkeypatch.setattr("structboost.faces.tag_prediction._MOST_SCORES", most)
        assert tagger.predict_marginals(X) == alone
        assert tagger.predict(X) == [tagger.predict([x])[0] for x in X]


@pytest.mark.parametrize(
    "parameters", [{}, {"objective": "hinge"}, {"objective": OneSlack()}, {"scheme": "auto"}]
)
@pytest.mark.parametrize("of_dicts", [False, True])
def test_one_tag_gives_a_constant_model_with_a_warning(parameters, of_dicts, reloaded):
    X = [[{"a": "b"}, {"a": "c"}], [{"a": "d"}]] if of_dicts else [np.eye(2), np.ones((1, 2))]
    tagger = StructBoostTagger(**parameters)
    with pytest.warns(ConstantPredictionWarning, match="y has 1 tag only, 'O'"):
        tagger.fit(X, [["O", None], ["O"]])
    assert not of_dicts or not tagger.feature_weights_.any()
    for model in (tagger, reloaded(tagger)):
        assert model.predict(X) == [["O", "O"], ["O"]]
        assert model.predict_marginals(X[1:]) == [[{"O": 1.0}]]
        assert model.score(X, [["O", "B"], ["O"]]) == pytest.approx(2 / 3)
        np.testing.assert_array_equal(model.transitions_, [[0.0]])


def sticky_chain(n_sequences, seed):
    """Sequences of vectors whose tags mostly stay, and are seen through noise."""
    random = default_rng(seed)
    X, Y = [], []
    for _ in range(n_sequences):
        tags = [int(random.integers(3))]
        for _ in range(random.integers(4, 14)):
            tags.append(tags[-1] if random.random() < 0.8 else int(random.integers(3)))
        rows = random.normal(size=(len(tags), 5))
        rows[np.arange(len(tags)), np.array(tags) - 1] += 1.2 * (np.array(tags) > 0)
        X.append(rows)
        Y.append(tags)
    return X, Y


@pytest.mark.slow
def test_rounds_that_overfit_are_dropped():
    X, Y = sticky_chain(60, 0)
    X_test, Y_test = sticky_chain(300, 1)
    model = StructBoostTagger(random_state=0).fit(X, Y)
    losses = {of["round"]: of["held_out_loss"] for of in model.history_ if "held_out_loss" in of}
    losses = {n: loss for n, loss in losses.items() if loss is not None}
    assert model.n_iter_ == 2 * min(losses, key=losses.get)
    assert (model.ending_, model.learner_, model.C_) == (
        "held_out", "tree, stump", np.inf,
    )  # fmt: skip
    assert len(model.history_) == model.model_.n_stages == model.n_iter_
    few = StructBoostTagger(max_iter=50, random_state=0).fit(X, Y)
    assert few.n_iter_ == 50
    assert model.score(X_test, Y_test) > few.score(X_test, Y_test) - 0.02
    marginals = model.predict_marginals(X_test)
    losses_of_tags = [-np.log(p[i][t]) for p, y in zip(marginals, Y_test, strict=True)
                      for i, t in enumerate(y)]  # fmt: skip
    # All 120 rounds have .73, CRFsuite .5.
    assert np.mean(losses_of_tags) < 0.66
