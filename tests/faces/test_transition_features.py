"""Scores of pairs of tags that depend on features of the token."""

import re

import numpy as np
import pytest
from scipy import sparse

from structboost import StructBoostTagger


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


def test_they_learn_what_a_score_of_the_pair_alone_cannot():
    (X, y), (new, tags) = sentences(), sentences(60, seed=1)
    # A scorer predicts from rows that were read before.
    with_go = StructBoostTagger(transition_features=["go"], scoring="accuracy", random_state=0)
    with_go.fit(X, y)
    without = StructBoostTagger(random_state=0).fit(X, y)
    assert with_go.score(new, tags) > 0.97
    assert max(entry["score"] for entry in with_go.C_path_) > 0.7
    assert without.score(new, tags) < 0.8
    steps = dict(zip(with_go.transition_columns_, with_go.transition_weights_, strict=True))
    assert sorted(steps) == [with_go.feature_names_.index(name) for name in ("go=no", "go=on")]
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


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ("go", {}, "give a list, ['go']"),
        (b"go", {}, "give a list of names"),
        ([], {}, "is empty; leave it out"),
        (["go", 1], {}, "give a list of names"),
        (["gone"], {}, "names 'gone', which no token has"),
        (["g"], {}, "'g', which no token has; give names of en"),
        (["f"], {}, "such as ['first']"),
        (["v"], {}, "names 'v', whose values are vectors"),
        ([99], {}, "give indices from 0 to"),
        (lambda name: False, {}, "true for no feature"),
        (["n"], {}, "'n', whose values are numbers"),
        (["go"], {"transitions": "seen"}, "transitions='all'"),
        (["go"], {"weak_learner": "tree"}, "leave it out"),
        (["go"], {"objective": "hinge"}, "leave it out"),
    ],
)
def test_what_cannot_be_trained_is_refused(columns, settings, message):
    X, y = sentences(5)
    X[0][0] |= {"n": 1.5, "v": [1.0, 2.0]}
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        StructBoostTagger(transition_features=columns, **settings).fit(X, y)


@pytest.mark.parametrize(
    ("columns", "form", "message"),
    [([0], np.eye, "give tokens such as"), (["go"], sparse.eye_array, "give indices of columns")],
)
def test_arrays_have_no_transition_features_and_sparse_arrays_no_names(columns, form, message):
    with pytest.raises(ValueError, match=message):
        StructBoostTagger(transition_features=columns).fit([form(2)] * 2, [["a", "b"]] * 2)


@pytest.mark.parametrize("form", [list, tuple, set, np.array])
@pytest.mark.parametrize("wanted", [["go"], [0, 1]])
def test_lists_of_names_or_indices_are_in_the_file(form, wanted, tmp_path):
    X, y = sentences(20)
    tagger = StructBoostTagger(transition_features=form(wanted), C=5.0).fit(X, y)
    tagger.save(tmp_path / "tagger")
    loaded = StructBoostTagger.load(tmp_path / "tagger")
    assert list(loaded.transition_features) == wanted
    np.testing.assert_array_equal(loaded.fit(X, y).transition_weights_, tagger.transition_weights_)
