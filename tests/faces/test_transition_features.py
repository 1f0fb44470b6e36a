"""Scores of pairs of tags that depend on features of the token."""

import re
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from structboost import StructBoostTagger, to_onnx


def sentences(n=60, seed=0):
    """Make sentences whose tags stay or go on as a name of the token says."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        moves, tag = rng.integers(0, 2, rng.integers(1, 6)), int(rng.integers(3))
        tokens, tags = [], []
        for t, moves_on in enumerate(moves.tolist()):
            tag = (tag + moves_on) % 3 if t else tag
            first = {"first": f"t{tag}"} if not t else {}
            tokens.append({"go": "on" if moves_on else "no", "w": str(rng.integers(4)), **first})
            tags.append(f"t{tag}")
        X.append(tokens)
        y.append(tags)
    return X, y


def brute(tagger, x):
    """All tags of a sentence with their scores, from the public weights by name."""
    place = {name: k for k, name in enumerate(tagger.feature_names_)}
    of_steps = {int(k): own for k, own in enumerate(tagger.transition_columns_)}
    active = [
        [place[name] for name in (f"{a}={b}" for a, b in token.items()) if name in place]
        for token in x
    ]
    scores = {}
    for y in product(range(3), repeat=len(x)):
        total = 0.0
        for t, tag in enumerate(y):
            total += tagger.intercept_[tag] + tagger.feature_weights_[active[t], tag].sum()
            if t:
                total += tagger.transitions_[y[t - 1], tag]
                for k, column in of_steps.items():
                    total += (column in active[t]) * tagger.transition_weights_[k, y[t - 1], tag]
        scores[y] = total
    return scores


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["log_loss", "svm"])
def test_predictions_and_probabilities_are_those_of_all_tags_one_by_one(objective, tmp_path):
    X, y = sentences()
    settings = {"objective": objective, "C": 60.0, "random_state": 0}
    tagger = StructBoostTagger(transition_features=["go"], **settings).fit(X, y)
    assert tagger.history_[-1]["certified"]
    assert tagger.history_[-1]["gap"] <= tagger.tol
    names = [tagger.feature_names_[k] for k in tagger.transition_columns_]
    assert names == ["go=no", "go=on"]
    new, _ = sentences(12, seed=1)
    new.append([{"go": "on"}, {"go": "never seen"}])
    predicted, marginals = tagger.predict(new), tagger.predict_marginals(new)
    for x, tags, of_tokens in zip(new, predicted, marginals, strict=True):
        scores = brute(tagger, x)
        best = max(scores, key=scores.get)
        assert tags == [f"t{k}" for k in best]
        values = np.array(list(scores.values())) * (tagger.temperature_ or 1.0)
        p = np.exp(values - np.logaddexp.reduce(values))
        for t, token in enumerate(of_tokens):
            for k in range(3):
                wanted = sum(q for q, z in zip(p, scores, strict=True) if z[t] == k)
                assert token[f"t{k}"] == pytest.approx(wanted, abs=1e-9)
    # One by one, and after a file.
    assert [tagger.predict([x])[0] for x in new] == predicted
    tagger.save(tmp_path / "tagger.sbm")
    loaded = StructBoostTagger.load(tmp_path / "tagger.sbm")
    assert loaded.predict_marginals(new) == marginals
    np.testing.assert_array_equal(loaded.transition_weights_, tagger.transition_weights_)
    assert loaded.feature_importances_ == pytest.approx(tagger.feature_importances_)


def test_they_learn_what_a_score_of_the_pair_alone_cannot():
    (X, y), (new, tags) = sentences(), sentences(60, seed=1)
    with_go = StructBoostTagger(transition_features=["go"], random_state=0).fit(X, y)
    without = StructBoostTagger(random_state=0).fit(X, y)
    assert with_go.score(new, tags) > 0.97
    assert without.score(new, tags) < 0.8
    steps = dict(zip(with_go.transition_columns_, with_go.transition_weights_, strict=True))
    on = steps[with_go.feature_names_.index("go=on")]
    assert (on.argmax(axis=1) == (np.arange(3) + 1) % 3).all()
    assert without.transition_weights_.shape == (0, 3, 3)


def test_unknown_tags_sparse_matrices_and_functions_give_the_same_model():
    X, y = sentences(30)
    y[3] = [None, *y[3][1:]]
    settings = {"C": 30.0, "random_state": 0}
    of_names = StructBoostTagger(transition_features=["go"], **settings).fit(X, y)
    of_function = StructBoostTagger(transition_features=re.compile("go=").match, **settings).fit(
        X, y
    )
    names = of_names.feature_names_
    tables = [
        sparse.csr_array(
            [
                [float(name in {f"{a}={b}" for a, b in token.items()}) for name in names]
                for token in x
            ]
        )
        for x in X
    ]
    columns = [names.index("go=on"), names.index("go=no")]
    of_columns = StructBoostTagger(transition_features=columns, **settings).fit(tables, y)
    for other in (of_function, of_columns):
        np.testing.assert_array_equal(other.transition_weights_, of_names.transition_weights_)
    assert of_columns.predict(tables) == of_names.predict(X)


@pytest.mark.slow
def test_numbers_beside_names_and_held_out_sequences_are_read():
    X, y = sentences(40)
    rng = np.random.default_rng(0)
    X = [[{**token, "v": rng.normal(size=2)} for token in x] for x in X]
    tagger = StructBoostTagger(transition_features=["go"], C=40.0, random_state=0).fit(X, y)
    assert set(tagger.model_.members) == {"token", "vector", "step"}
    assert tagger.score(X, y) > 0.9
    # A scorer predicts from rows that were read before.
    settings = {"transition_features": ["go"], "weak_learner": "linear", "random_state": 0}
    scored = StructBoostTagger(scoring="accuracy", **settings).fit(X, y)
    assert scored.score(X, y) > 0.9
    assert max(entry["score"] for entry in scored.C_path_) > 0.7


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"transition_features": "go"}, TypeError, "give a list, ['go']"),
        ({"transition_features": b"go"}, TypeError, "give a list of names"),
        ({"transition_features": []}, ValueError, "is empty; leave it out"),
        ({"transition_features": ["go", 1]}, TypeError, "give a list of names"),
        ({"transition_features": ["gone"]}, ValueError, "names 'gone', which no token has"),
        ({"transition_features": ["g"]}, ValueError, "'g', which no token has; give names of en"),
        ({"transition_features": ["f"]}, ValueError, "such as ['first']"),
        ({"transition_features": ["v"]}, ValueError, "names 'v', whose values are vectors"),
        ({"transition_features": [99]}, ValueError, "give indices from 0 to"),
        ({"transition_features": lambda name: False}, ValueError, "true for no feature"),
        ({"transition_features": ["n"]}, ValueError, "'n', whose values are numbers"),
        ({"transition_features": ["go"], "transitions": "seen"}, ValueError, "transitions='all'"),
        ({"transition_features": ["go"], "weak_learner": "tree"}, ValueError, "leave it out"),
        ({"transition_features": ["go"], "objective": "hinge"}, ValueError, "leave it out"),
    ],
)
def test_what_cannot_be_trained_is_refused(settings, error, message):
    X, y = sentences(5)
    X[0][0] |= {"n": 1.5, "v": [1.0, 2.0]}
    with pytest.raises(error, match=re.escape(message)):
        StructBoostTagger(**settings).fit(X, y)


def test_tokens_that_are_arrays_have_no_transition_features():
    X, y = [np.eye(2), np.eye(2)], [["a", "b"], ["b", "a"]]
    with pytest.raises(ValueError, match="give tokens such as"):
        StructBoostTagger(transition_features=[0]).fit(X, y)


def test_names_of_columns_without_names_are_refused():
    tables = [sparse.csr_array(np.eye(2)), sparse.csr_array(np.eye(2))]
    tagger = StructBoostTagger(transition_features=["go"])
    with pytest.raises(ValueError, match="give indices of columns"):
        tagger.fit(tables, [["a", "b"], ["b", "a"]])


@pytest.mark.parametrize("form", [list, tuple, set, np.array])
@pytest.mark.parametrize("wanted", [["go"], [0, 1]])
def test_lists_of_names_or_indices_are_in_the_file(form, wanted, tmp_path):
    X, y = sentences(20)
    tagger = StructBoostTagger(transition_features=form(wanted), C=5.0).fit(X, y)
    tagger.save(tmp_path / "tagger")
    loaded = StructBoostTagger.load(tmp_path / "tagger")
    assert list(loaded.transition_features) == wanted
    np.testing.assert_array_equal(loaded.fit(X, y).transition_weights_, tagger.transition_weights_)


def test_a_file_for_onnx_is_refused():
    pytest.importorskip("onnx")
    X, y = sentences(20)
    tagger = StructBoostTagger(transition_features=["go"], C=5.0).fit(X, y)
    with pytest.raises(TypeError, match="transition_features was set"):
        to_onnx(tagger)


def test_one_tag_has_no_transitions():
    with pytest.warns(UserWarning, match="tag"):
        tagger = StructBoostTagger(transition_features=["go"]).fit([[{"go": "a"}]], [["x"]])
    assert tagger.predict([[{"go": "a"}, {"go": "b"}]]) == [["x", "x"]]
    assert tagger.transition_weights_.shape == (0, 1, 1)
