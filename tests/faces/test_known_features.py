"""Warnings of tokens of which nothing was in training."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from structboost import StructBoostTagger
from structboost.text import TokenFeatures

LETTERS = np.random.default_rng(0).integers(0, 4, 120)
EYE = np.eye(8)
TAGS = [np.isin(LETTERS[i : i + 4], [0, 2]).astype(int) for i in range(0, 120, 4)]
WORDS = np.array(["the", "old", "cat", "sat"])


def dicts(make):
    """Sequences of the tokens that a function makes of letters."""
    return [[make(letter) for letter in LETTERS[i : i + 4]] for i in range(0, 120, 4)]


def tables(columns):
    """Sequences of sparse rows, of which each has a one in a column."""
    return [sparse.csr_array(EYE[columns[i : i + 4]]) for i in range(0, 120, 4)]


def name(letter):
    return {"c": str(letter)}


# What is known, and what is not.
STRANGE = {
    "a trailing blank": (dicts(name), dicts(lambda k: {"c": f"{k} "})),
    "a number for a string": (dicts(name), dicts(lambda k: {"c": int(k)})),
    "another name of a number": (
        dicts(lambda k: {"size": k + 0.5}), dicts(lambda k: {"Size": k + 0.5})
    ),
    "another name of a vector": (
        dicts(lambda k: {"v": EYE[k] + 0.5}), dicts(lambda k: {"w": EYE[k] + 0.5})
    ),
    "no feature": (dicts(name), dicts(lambda k: {})),
    "features without TokenFeatures": (
        TokenFeatures().fit_transform(dicts(lambda k: {"word": WORDS[k]})),
        dicts(lambda k: {"word": WORDS[k]}),
    ),
    "a bias beside another word": (
        dicts(lambda k: {"bias": 1.0, "c": str(k)}), dicts(lambda k: {"bias": 1.0, "d": str(k)})
    ),
    "another vocabulary": (tables(LETTERS), tables(LETTERS + 4)),
    "other columns of arrays": (
        np.split(EYE[LETTERS].astype(object), 30), np.split(EYE[LETTERS + 4], 30)
    ),
    "zeros": (tables(LETTERS), [0 * table for table in tables(LETTERS)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "weak_learner"), [*((case, "auto") for case in STRANGE), ("no feature", "tree")]
)
def test_tokens_of_which_nothing_was_in_training_are_warned_of(case, weak_learner, reloaded):
    known, strange = STRANGE[case]
    tagger = StructBoostTagger(weak_learner=weak_learner, max_iter=5).fit(known, TAGS)
    loaded = reloaded(tagger)
    for call in (tagger.predict, loaded.predict_marginals):
        with pytest.warns(UserWarning, match=r"120 of the 120 tokens of X .* such as X\[0\]\[0\]"):
            call(strange)
    with warnings.catch_warnings(action="error"):
        # A tenth of known tokens is no other form.
        for tokens in (known, known[:1], [*known[:3], *strange[3:]]):
            tagger.predict(tokens)


@pytest.mark.filterwarnings("error")
def test_tokens_that_are_bare_in_training_or_have_known_vectors_are_nothing_strange():
    bare = StructBoostTagger(C=1.0).fit(dicts(lambda k: {"is_last": bool(k == 3)}), TAGS)
    bare.predict([[{"is_last": False}] * 3])
    bare.predict([[{}] * 3])
    X = dicts(lambda k: {"c": str(k), "v": EYE[k] + 0.5})
    of_vectors = StructBoostTagger(C=1.0).fit(X, TAGS)
    of_vectors.predict(dicts(lambda k: {"c": f"{k} ", "v": EYE[k] + 0.5}))
