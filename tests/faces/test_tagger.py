"""StructBoostTagger: forms of input, tags of any kind, files."""

from __future__ import annotations

import re
import warnings
from itertools import chain, pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils import get_tags

from structboost import StructBoostClassifier, StructBoostTagger
from structboost.contract import StackedParts
from structboost.errors import ConstantPredictionWarning, ModelFileError
from structboost.inference import viterbi
from structboost.objectives import OneSlack

WORDS = {"N": ["dog", "cat", "saw"], "V": ["saw", "ran", "bit"], "D": ["the", "a"]}
FOLLOWS = {None: "DN", "D": "N", "N": "VV", "V": "DN"}


def sentences(n, seed=0):
    """Words and their kinds; ``saw`` is a noun or a verb by what stands before it."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags, words = [None], []
        for _ in range(rng.integers(2, 8)):
            tags.append(str(rng.choice(list(FOLLOWS[tags[-1]]))))
            words.append(str(rng.choice(WORDS[tags[-1]])))
        X.append([{"word": word, "last": word[-1]} for word in words])
        y.append(tags[1:])
    return X, y


def forms(X):
    """The same tokens as sparse matrices and as arrays."""
    vectorizer = DictVectorizer().fit([token for x in X for token in x])
    matrices = [vectorizer.transform(x) for x in X]
    return matrices, [matrix.toarray() for matrix in matrices]


def test_dicts_sparse_matrices_and_arrays_give_one_model():
    X, y = sentences(60)
    fits = [
        StructBoostTagger(objective="hinge", C=30, tol=1e-4, max_iter=60).fit(tokens, y)
        for tokens in (X, *forms(X))
    ]
    assert fits[0].objective_ == fits[1].objective_
    # Stumps on 0/1 features span the same functions; a constant may stand apart.
    assert fits[2].score(forms(X)[1], y) == pytest.approx(fits[0].score(X, y), abs=0.01)
    assert [fit.history_[-1]["certified"] for fit in fits] == [True] * 3
    new, tags = sentences(40, seed=1)
    assert fits[0].score(new, tags) > 0.95
    found = fits[0].predict(new)
    assert fits[0].score(new, found) == 1.0
    assert isinstance(found[0], list)
    assert isinstance(found[0][0], str)
    assert fits[0].classes_.tolist() == ["D", "N", "V"]
    assert fits[0].transitions_[1, 2] > fits[0].transitions_[1, 0]
    shares = dict(zip(fits[0].feature_names_, fits[0].feature_importances_, strict=True))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["last=e"] + shares["word=the"] > 0
    assert fits[2].feature_importances_.shape == (len(shares),)


def test_the_likelihood_gives_calibrated_probabilities_of_tags():
    X, y = sentences(150)
    tagger = StructBoostTagger(C=300, tol=1e-2, objective="l1_log_loss", max_iter=60).fit(X, y)
    assert tagger.history_[-1]["certified"]
    new, tags = sentences(150, seed=1)
    found = tagger.predict_marginals(new)
    assert [len(tokens) for tokens in found] == [len(tokens) for tokens in new]
    probabilities = np.array([list(token.values()) for tokens in found for token in tokens])
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    # As often right as it says: the noise of 700 tokens is below .03.
    of_truth = [
        token[tag]
        for p, t in zip(found, tags, strict=True)
        for token, tag in zip(p, t, strict=True)
    ]
    best = [max(token, key=token.get) for tokens in found for token in tokens]
    right = np.mean(np.array(best) == np.concatenate(tags))
    assert probabilities.max(axis=1).mean() == pytest.approx(right, abs=0.05)
    assert np.mean(of_truth) > 0.8


def test_one_linear_function_of_sparse_tokens_stays_sparse(tmp_path):
    X, y = sentences(60)
    settings = {"objective": "svm", "C": 30, "tol": 1e-3, "random_state": 0}
    tagger = StructBoostTagger(**settings).fit(X, y)
    assert tagger.model_.members["token"].family == "active_feature"
    new, tags = sentences(40, seed=1)
    new[0] = [{"word": "unseen", "last": "n"}, *new[0][1:]]
    found = tagger.predict(new)
    assert tagger.score(new, tags) > 0.95
    # The model's own weights and scores give the objective that training reported.
    rows, _, lengths = tagger._reader.read(X)
    numbers = [np.searchsorted(tagger.classes_, tags) for tags in y]
    starts, n = np.cumsum([0, *lengths]), np.arange(61)
    token = tagger.model_.scorer("token").raw_scores(rows)
    step = np.repeat(tagger.transitions_.reshape(1, -1), 60, axis=0)
    scores = StackedParts({"token": token, "step": step}, {"token": starts, "step": n})
    hinges = tagger.task_.separate(X, numbers, scores).violations(scores)
    squares = (tagger.model_.matrix("token") ** 2).sum() + (tagger.transitions_**2).sum()
    assert 0.5 * squares + 30 * hinges.mean() == pytest.approx(tagger.objective_)
    tagger.save(tmp_path / "linear.sbm")
    assert StructBoostTagger.load(tmp_path / "linear.sbm").predict(new) == found
    shares = tagger.feature_importances_
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"objective": "svm", "C": 30},
        {"objective": "hinge", "C": 30, "max_iter": 20, "tol": 0.1},
        {"objective": "l1_log_loss", "C": 30, "tol": 0.1},
        {"weak_learner": "stump", "max_iter": 20},
    ],
    ids=str,
)
def test_weights_of_features_add_up_to_the_scores_of_tags(parameters, tmp_path):
    X, y = sentences(60)
    StructBoostTagger(**parameters).fit(X, y).save(tmp_path / "tagger")
    tagger = StructBoostTagger.load(tmp_path / "tagger")
    weights, scorer = tagger.feature_weights_, tagger.model_.scorer("token")
    assert weights.shape == (len(tagger.feature_names_), 3)
    rows, _, _ = tagger._reader.read([[*X[0], {}]])
    scores = scorer.raw_scores(rows)
    for token, row in zip(X[0], scores, strict=False):
        names = [f"{name}={value}" for name, value in token.items()]
        at = [tagger.feature_names_.index(name) for name in names]
        np.testing.assert_allclose(scores[-1] + weights[at].sum(axis=0), row, atol=1e-9)


def with_vectors(n, seed=0):
    """Sentences whose words have a vector, and tokens a number."""
    X, y = sentences(n, seed)
    vectors = {}
    for x in X:
        for t, token in enumerate(x):
            rng = np.random.default_rng(sum(map(ord, token["word"])))
            token |= {
                "vector": vectors.setdefault(token["word"], rng.normal(size=4)),
                "place": 2.5 * t,
            }
    return X, y


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"transitions": "seen", "l1_ratio": 0.1},
        {"objective": "svm", "C": 30},
        {"objective": "hinge", "C": 30, "max_iter": 5, "weak_learner": "linear"},
    ],
    ids=str,
)
def test_vectors_beside_names_add_their_linear_function(parameters, tmp_path):
    X, y = with_vectors(60)
    fitted = StructBoostTagger(**parameters).fit(X, y)
    fitted.save(tmp_path / "tagger")
    tagger = StructBoostTagger.load(tmp_path / "tagger")
    names = tagger.feature_names_
    new, tags = with_vectors(20, seed=1)
    assert tagger.score(new, tags) > 0.95
    assert tagger.predict_marginals(new) == fitted.predict_marginals(new)
    table = np.zeros((sum(map(len, new)), len(names)))
    for row, token in zip(table, chain.from_iterable(new), strict=True):
        features = {f"vector[{k}]": value for k, value in enumerate(token["vector"])}
        features |= {"place": token["place"]}
        features |= {f"{name}={v}": 1.0 for name, v in token.items() if isinstance(v, str)}
        for name, value in features.items():
            if name in names:
                row[names.index(name)] = value
    ends = np.cumsum([len(x) for x in new])[:-1]
    of_tags = np.split(table @ tagger.feature_weights_ + tagger.intercept_, ends)
    sums = [viterbi(own, tagger.transitions_) for own in of_tags]
    assert tagger.predict(new) == [tagger.classes_[own].tolist() for own in sums]
    assert {m.family for m in tagger.model_.members.values()} >= {"active_feature", "linear"}
    # A token without some names is read one by one.
    alone = [
        [{k: v for k, v in token.items() if k != "last" or t} for t, token in enumerate(x)]
        for x in new
    ]
    assert tagger.predict(alone) == [tagger.predict([x])[0] for x in alone]
    importances = tagger.feature_importances_
    assert importances.sum() == pytest.approx(1)
    assert importances[names.index("place")] > 0


def rings(n, seed=0):
    """Tokens whose tag follows from a word, and from whether a point is in a ring."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words, points = rng.integers(30, size=6), rng.normal(size=(6, 2))
        sizes = (points**2).sum(axis=1)
        votes = 2.0 * (words % 3 - 1) + np.where((sizes > 0.5) & (sizes < 2.0), 2.0, -2.0)
        X.append([{"w": str(w), "at": point} for w, point in zip(words, points, strict=True)])
        y.append(np.where(votes + rng.normal(size=6) > 0, "in", "out").tolist())
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize(
    "weak_learner",
    [
        {"token": "linear", "vector": ["linear", "tree"]},
        {"token": "linear", "vector": "tree"},
        {"token": "stump", "vector": "tree"},
    ],
    ids=str,
)
def test_trees_on_vectors_and_names_of_one_model_add_up(weak_learner, tmp_path):
    X, y = rings(100)
    new, tags = rings(150, seed=1)
    y[3][2] = None
    linear = StructBoostTagger(random_state=0).fit(X, y)
    tagger = StructBoostTagger(random_state=0, weak_learner=weak_learner).fit(X, y)
    assert tagger.score(new, tags) > linear.score(new, tags) + 0.06
    tagger.save(tmp_path / "tagger")
    loaded = StructBoostTagger.load(tmp_path / "tagger")
    assert loaded.predict_marginals(new) == tagger.predict_marginals(new)
    # The weak learners give the scores that the tags were chosen by.
    rows, vectors, lengths = tagger._reader.read(new)
    scores = tagger.model_.scorer("token").raw_scores(rows)
    vector = tagger.model_.members["vector"]
    scores = scores + vector.learners.responses(vectors).T @ tagger.model_.matrix("vector")
    own = np.split(scores, np.cumsum(lengths)[:-1])
    best = [tagger.classes_[viterbi(of, tagger.transitions_)].tolist() for of in own]
    assert best == tagger.predict(new)
    assert tagger.feature_importances_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("weak_learner", "objective", "message"),
    [
        ({"token": "tree", "vector": "tree"}, "log_loss", "'token', which is 'linear' or 'stump'"),
        ({"token": "linear", "vector": "pair"}, "log_loss", "one linear function for each tag"),
        ({"token": "linear", "vector": "tree"}, "svm", "one linear function for each tag"),
    ],
)
def test_weak_learners_that_do_not_fit_names_or_vectors_are_refused(
    weak_learner, objective, message
):
    X, y = rings(9)
    with pytest.raises(ValueError, match=message):
        StructBoostTagger(objective=objective, weak_learner=weak_learner).fit(X, y)
    with pytest.raises(ValueError, match="no numbers beside names"):
        StructBoostTagger(objective=objective, weak_learner=weak_learner).fit(*sentences(9))


def test_kinds_named_as_a_feature_are_refused():
    weak_learner = {"token": "linear", "where": "tree"}
    with pytest.raises(ValueError, match="the kind of all numbers, whatever their names"):
        StructBoostTagger(weak_learner=weak_learner).fit(*rings(9))


def test_weights_of_features_are_missing_where_trees_or_numbers_have_none():
    X, y = sentences(30)
    arrays = forms(X)[1]
    for tagger, tokens in (
        (StructBoostTagger(weak_learner="tree", max_iter=3), X),
        (StructBoostTagger(max_iter=3), [x + 0.5 for x in arrays]),
    ):
        with pytest.raises(AttributeError, match="feature_weights_ and intercept_ are missing"):
            tagger.fit(tokens, y).feature_weights_  # noqa: B018
    with pytest.raises(NotFittedError):
        StructBoostTagger().feature_weights_  # noqa: B018


def test_c_is_chosen_on_whole_sequences():
    X, y = sentences(60)
    tagger = StructBoostTagger(objective="hinge", max_iter=10, tol=0.05).fit(X, y)
    assert tagger.C_ in [record["C"] for record in tagger.C_path_]
    assert tagger.score(X, y) > 0.9


@pytest.mark.slow
def test_the_default_learns_interactions_that_stumps_cannot(tmp_path):
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(80):
        x = rng.normal(size=(rng.integers(1, 9), 3))
        X.append(x)
        y.append(np.where(x[:, 0] * x[:, 1] > 0, "same", "other"))
    tagger = StructBoostTagger(max_iter=40).fit(X[:60], y[:60])
    assert tagger.C_ == np.inf
    assert tagger.history_[-1]["bound"] is None
    assert tagger.score(X[60:], y[60:]) > 0.85
    assert (
        StructBoostTagger(objective="hinge", C=30).fit(X[:60], y[:60]).score(X[60:], y[60:]) < 0.75
    )
    tagger.save(tmp_path / "model")
    loaded = StructBoostTagger.load(tmp_path / "model")
    assert loaded.predict(X[60:]) == tagger.predict(X[60:])
    likely = [of for x in loaded.predict_marginals(X[60:]) for of in x]
    own = [of[tag] for of, tag in zip(likely, np.concatenate(y[60:]), strict=True)]
    assert -np.mean(np.log(own)) < 0.5 * np.log(2)


def test_new_words_and_fuller_rows_are_predicted():
    X, y = sentences(40)
    tagger = StructBoostTagger(objective="hinge", C=30, max_iter=10).fit(X, y)
    new = [[{"word": "the", "last": "e", "new": "x", "other": True}, {"word": "zebra"}]]
    assert tagger.predict(new)[0][0] == "D"
    matrices, _ = forms(X)
    tagger.fit(matrices, y)
    full = sparse.csr_array(np.ones((2, matrices[0].shape[1])))
    assert len(tagger.predict([full])[0]) == 2
    with pytest.raises(ValueError, match="has 3 features per token"):
        tagger.predict([sparse.csr_array((2, 3))])
    with pytest.raises(ValueError, match="trained on arrays"):
        tagger.predict(X)


def test_values_other_than_zero_and_one_stay():
    rng = np.random.default_rng(0)
    X = [[{"size": float(v), "bias": True} for v in rng.normal(size=5)] for _ in range(30)]
    y = [[int(token["size"] > 0.5) for token in x] for x in X]
    tagger = StructBoostTagger(objective="hinge", C=30, max_iter=10).fit(X, y)
    assert tagger.score(X, y) > 0.95
    assert tagger.classes_.tolist() == [0, 1]


def test_unknown_tags_and_forbidden_pairs_are_respected(tmp_path):
    X, y = sentences(60)
    rng = np.random.default_rng(1)
    partial = [[tag if rng.random() < 0.7 else None for tag in tags] for tags in y]
    forbidden = [("D", "D"), ("D", "V"), (None, "V")]
    tagger = StructBoostTagger(objective="hinge", C=30, max_iter=10, forbidden=forbidden)
    tagger.fit(X, partial, sample_weight=rng.random(60))
    new, tags = sentences(40, seed=2)
    assert tagger.score(new, tags) > 0.85
    assert 0 < tagger.score(X, partial) <= 1
    # Even where all words are verbs.
    found = tagger.predict([[{"word": "ran", "last": "n"}] * 3, [{"word": "the"}] * 4])
    pairs = {pair for tags in found for pair in zip([None, *tags], tags, strict=False)}
    assert not pairs & set(forbidden)
    tagger.save(tmp_path / "model")
    loaded = StructBoostTagger.load(tmp_path / "model")
    assert loaded.predict(new) == tagger.predict(new)
    assert loaded.forbidden == forbidden
    assert loaded.get_params()["C"] == 30


@pytest.mark.slow
def test_early_stopping_works_with_other_families(tmp_path):
    X, y = sentences(60)
    _, arrays = forms(X)
    for weak_learner, tokens in (("tree", X), ("stump", X), ("stump", arrays)):
        tagger = StructBoostTagger(
            objective="hinge",
            C=30,
            max_iter=8,
            weak_learner=weak_learner,
            early_stopping=True,
            random_state=0,
        ).fit(tokens, y)
        assert tagger.score(tokens, y) > 0.9
        assert len(tagger.validation_losses_) <= 8
        tagger.save(tmp_path / "model")
        assert StructBoostTagger.load(tmp_path / "model").predict(tokens) == tagger.predict(tokens)
    with pytest.raises(ModelFileError, match="StructBoostTagger model"):
        StructBoostClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], [], "X is empty"),
        ([[], []], [[], []], "X has no tokens"),
        ([[{"a": 1}]], [], "1 sequences and y 0"),
        ([[{"a": 1}]], [["x", "y"]], r"y\[0\] is .*each of the 1 tokens"),
        ([[{"a": 1}]], ["x"], r"y\[0\] is 'x'"),
        ([[{"a": 1}, {"a": 1}]], [[None, np.nan]], "y has no known tag"),
        ([["a", "dog"]], [["x", "y"]], r"X\[0\] is \['a', 'dog'\]; give .* or a dict of features"),
        ([[["w=a", "b"], ["w=c", "d"]]], [["x", "y"]], r"X\[0\] is .* or a dict of features"),
        ([[["w=a"], ["w=c", "d"]]], [["x", "y"]], r"X\[0\] is .* whose tokens differ in length"),
        (
            [[{"a": 1}], [{"a": 1}, {"b": np.nan}]],
            [["x"], ["x", "y"]],
            r"X\[1\]\[1\] has the value nan for the feature 'b'",
        ),
        ([[{"a": 1}, {"a": 1}]], [["x", 2]], r"y\[0\]\[1\] is 2, .* no order"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], [[0, 1]] * 2, r"X\[1\] has shape \(2, 3\)"),
        ([np.zeros(2)], [[0, 1]], r"X\[0\] has shape \(2,\)"),
    ],
)
def test_wrong_input_is_named(X, y, message):
    with pytest.raises(ValueError, match=message):
        StructBoostTagger().fit(X, y)


@pytest.mark.parametrize("token", [{1: 2.0}, {"a": object()}, {"a": {"b": b"x"}}, {"a": b"x"}])
def test_unsupported_features_of_a_token_are_named(token):
    with pytest.raises(TypeError, match=r"X\[1\]\[1\] is \{.*; give each feature a string"):
        StructBoostTagger().fit([[{"a": 1}], [{"a": 1}, token]], [["x"], ["y", "x"]])


@pytest.mark.parametrize("tag", [("D", 1), ["D"], np.ones(1), {"D"}])
def test_an_invalid_tag_is_named(tag):
    with pytest.raises(ValueError, match=r"y\[1\]\[0\] is .*; give one string or number a token"):
        StructBoostTagger().fit([[{"a": 1}], [{"a": 1}, {"a": 2}]], [["D"], [tag, "N"]])


@pytest.mark.parametrize("pair", ["DN", ("D",), 3])
def test_an_invalid_pair_of_tags_is_named(pair):
    with pytest.raises(ValueError, match=r"forbidden has .*; give pairs \(tag, next tag\)"):
        StructBoostTagger(forbidden=[pair]).fit([[{"a": 1}, {"a": 2}]], [["D", "N"]])


def test_forbidden_pairs_must_be_a_list():
    with pytest.raises(TypeError, match=r"forbidden is 3; give a list of pairs \(tag, next tag\)"):
        StructBoostTagger(forbidden=3).fit([[{"a": 1}, {"a": 2}]], [["D", "N"]])


def test_forbidden_tags_that_do_not_occur_are_named():
    X, y = [[{"a": 1}, {"a": 2}]] * 2, [["D", "N"]] * 2
    tagger = StructBoostTagger(objective="hinge", forbidden=[("N", "D"), ("d", None)], C=10.0)
    with pytest.warns(UserWarning, match=r"forbidden has 'd', .* tags of y are \['D', 'N'\]"):
        tagger.fit(X, y)
    assert tagger.predict(X) == y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StructBoostTagger(objective="hinge", forbidden=[("N", "D"), ("D", None)], C=10.0).fit(X, y)


@pytest.mark.parametrize("pair", [("D", "N"), (None, "D"), ("N", None)])
def test_true_tags_that_are_forbidden_are_named(pair):
    X = [[{"a": 1}], [{"a": 1}, {"a": 2}]]
    tagger = StructBoostTagger(objective="hinge", forbidden=[pair], C=10.0)
    with pytest.raises(ValueError, match=rf"y\[1\] has the pair {re.escape(str(pair))}"):
        tagger.fit(X, [[None], ["D", "N"]])
    # Where the tag beside it is not known, nothing is wrong.
    tagger.fit(X[1:] * 2, [["D", None], [None, "N"]] if pair[0] and pair[1] else [["N", "D"]] * 2)


def test_sequences_may_be_dense_and_sparse_and_tags_nan():
    X, y = sentences(30)
    matrices, arrays = forms(X)
    mixed = StructBoostTagger(objective="hinge", C=30, max_iter=5).fit(
        arrays[:15] + matrices[15:], y
    )
    assert mixed.predict(arrays) == StructBoostTagger(objective="hinge", C=30, max_iter=5).fit(
        arrays, y
    ).predict(arrays)
    numbers = [["DNV".index(tag) for tag in tags] for tags in y]
    unknown = [[None, *tags[1:]] for tags in numbers]
    nan = [[np.nan, *tags[1:]] for tags in numbers]
    found = [
        StructBoostTagger(objective="hinge", C=30, max_iter=5).fit(arrays, own).predict(arrays)
        for own in (unknown, nan)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "parameters",
    [{"objective": "hinge"}, {"objective": "l1_log_loss"}, {"objective": "svm", "tol": 0.5}],
)
def test_a_sequence_may_be_empty(parameters):
    X, y = sentences(20)
    tagger = StructBoostTagger(C=30, max_iter=20, **parameters).fit([*X, []], [*y, []])
    assert tagger.predict([[]]) == [[]]
    assert tagger.predict([[], X[0]])[1] == tagger.predict(X[:1])[0]
    assert tagger.predict_marginals([[]]) == [[]]


def test_indices_of_active_features_are_not_read_as_features():
    X, y = sentences(10)
    with pytest.raises(ValueError, match="'active_feature' takes numbers of active features"):
        StructBoostTagger(objective="hinge", weak_learner="active_feature", C=10.0).fit(
            forms(X)[1], y
        )


def test_tags_of_scikit_learn_declare_inputs_that_are_not_tables():
    assert not get_tags(StructBoostTagger()).input_tags.two_d_array


@pytest.mark.parametrize(
    "parameters",
    [{}, {"objective": "hinge", "C": 30.0}, {"objective": "l1_log_loss", "C": 30.0}],
)
def test_all_sequences_may_have_one_token(parameters):
    X = np.random.default_rng(0).normal(size=(40, 1, 2))
    y = [["a" if x[0, 0] > 0 else "b"] for x in X]
    tagger = StructBoostTagger(max_iter=10, **parameters).fit(X, y)
    assert tagger.score(X, y) > 0.9


def test_stored_zeros_are_equal_to_missing_entries():
    X, y = sentences(20)
    # As features of words are often written: a dict has an entry for what is not so.
    told = [[{**token, "is the": "the" in token.values()} for token in x] for x in X]
    tagger = StructBoostTagger(objective="hinge", C=30, max_iter=5).fit(told, y)
    assert tagger.model_.members["token"].family == "active_feature"
    for form in (sparse.csr_array, sparse.csr_matrix):
        plain = [form(rng.integers(2, size=(4, 3)).astype(float)) for rng in rngs(10)]
        stored = [form(np.where(x.toarray() > 0, 1.0, 2.0)) for x in plain]
        for x in stored:
            x.data[x.data == 2] = 0
        tags = [x.toarray()[:, 0].astype(int).tolist() for x in plain]
        found = [
            StructBoostTagger(objective="hinge", C=30, max_iter=5).fit(own, tags)
            for own in (plain, stored)
        ]
        assert found[0].predict(plain) == found[1].predict(stored) == found[0].predict(stored)


def rngs(n):
    return [np.random.default_rng(seed) for seed in range(n)]


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_missing_features_are_named_with_sequence_and_token(as_given):
    X = list(np.random.default_rng(0).normal(size=(6, 3, 2)))
    y = [["a", "b", "a"]] * 6
    tagger = StructBoostTagger(objective="hinge", C=10.0, max_iter=2).fit(X, y)
    X[4][1, 0] = np.nan
    given = [as_given(x) for x in X]
    # Sequences without tags do not count.
    with pytest.raises(ValueError, match=r"X\[4\] has NaN or infinite features for token 1"):
        StructBoostTagger(objective="hinge", C=10.0).fit(given, [[None] * 3, *y[1:]])
    with pytest.raises(ValueError, match=r"X\[4\] has NaN or infinite features for token 1"):
        tagger.predict(given)


def test_forbidden_tags_of_numpy_types_are_saved(tmp_path):
    X = [np.array([[0.0], [1.0]])] * 4
    tags = np.array([1, 2])
    tagger = StructBoostTagger(objective="hinge", C=10.0, forbidden=[(tags[1], tags[0])]).fit(
        X, [tags] * 4
    )
    tagger.save(tmp_path / "model")
    loaded = StructBoostTagger.load(tmp_path / "model")
    assert loaded.predict(X) == tagger.predict(X) == [[1, 2]] * 4
    assert loaded.forbidden == [(2, 1)]


def test_weights_that_leave_no_known_tag_are_refused():
    X = [np.ones((2, 1))] * 3
    with pytest.raises(ValueError, match="sample_weight leaves no sequence that has a known tag"):
        StructBoostTagger().fit(X, [[None, None], [1, 2], [2, 1]], sample_weight=[1, 0, 0])


def test_an_unfitted_tagger_raises_an_error():
    for call in ("predict", "predict_marginals"):
        with pytest.raises(NotFittedError):
            getattr(StructBoostTagger(), call)([np.ones((2, 1))])
    with pytest.raises(NotFittedError):
        StructBoostTagger().score([np.ones((2, 1))], [["a", "b"]])


def test_a_refused_refit_leaves_the_tagger_as_it_was():
    X, y = [np.eye(2)] * 6, [["A", "B"]] * 6
    tagger = StructBoostTagger(max_iter=5).fit(X, y)
    before = tagger.predict(X), tagger.classes_.tolist()
    for inputs, tags in (([np.empty((2, 0))] * 6, y), (X, [[None, None]] * 6), (X, [["C"]] * 6)):
        with pytest.raises(ValueError, match=r"give"):
            tagger.fit(inputs, tags)
        assert (tagger.predict(X), tagger.classes_.tolist()) == before


def test_tokens_without_features_are_refused():
    with pytest.raises(ValueError, match="tokens without features"):
        StructBoostTagger().fit([[{}, {}]] * 6, [["A", "B"]] * 6)


def test_transitions_of_seen_pairs_give_no_weight_to_others(tmp_path):
    X, y = sentences(60)
    tagger = StructBoostTagger(transitions="seen", C=60.0, weak_learner="linear").fit(X, y)
    seen = {pair for tags in y for pair in pairwise(tags)}
    for i, before in enumerate(tagger.classes_):
        for k, after in enumerate(tagger.classes_):
            assert (tagger.transitions_[i, k] != 0) == ((before, after) in seen)
    new, tags = sentences(40, seed=1)
    assert tagger.score(new, tags) > 0.95
    tagger.save(tmp_path / "model")
    loaded = StructBoostTagger.load(tmp_path / "model")
    assert loaded.transitions == "seen"
    assert loaded.predict_marginals(new) == tagger.predict_marginals(new)
    assert StructBoostTagger(transitions="seen").fit(X, y).score(new, tags) > 0.95


@pytest.mark.parametrize(
    "parameters",
    [{"objective": "hinge", "C": 10.0}, {"weak_learner": "tree"}, {"transitions": "some"}],
)
def test_transitions_that_no_objective_reads_are_refused(parameters):
    X, y = sentences(10)
    with pytest.raises(ValueError, match="transitions is"):
        StructBoostTagger(**{"transitions": "seen", **parameters}).fit(X, y)
    with pytest.raises(ValueError, match="transitions is 'seen', which only"):
        StructBoostTagger(transitions="seen").fit(forms(X)[1], y)


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
def test_one_tag_gives_a_constant_model_with_a_warning(parameters, of_dicts, tmp_path):
    X = [[{"a": "b"}, {"a": "c"}], [{"a": "d"}]] if of_dicts else [np.eye(2), np.ones((1, 2))]
    tagger = StructBoostTagger(**parameters)
    with pytest.warns(ConstantPredictionWarning, match="y has 1 tag only, 'O'"):
        tagger.fit(X, [["O", None], ["O"]])
    tagger.save(tmp_path / "tagger")
    for model in (tagger, StructBoostTagger.load(tmp_path / "tagger")):
        assert model.predict(X) == [["O", "O"], ["O"]]
        assert model.predict_marginals(X[1:]) == [[{"O": 1.0}]]
        assert model.score(X, [["O", "B"], ["O"]]) == pytest.approx(2 / 3)
        np.testing.assert_array_equal(model.transitions_, [[0.0]])


def test_a_tagger_of_one_tag_minimises_nothing():
    with pytest.warns(ConstantPredictionWarning):
        tagger = StructBoostTagger().fit([[{"a": "x"}, {"a": "y"}]] * 3, [["O", "O"]] * 3)
    assert "# minimised nothing; ended because y has one class or tag" in repr(tagger)
    assert tagger.feature_weights_.tolist() == [[0.0]] * 2
    assert tagger.intercept_.tolist() == [0.0]
