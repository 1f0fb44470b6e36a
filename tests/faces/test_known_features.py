"""Warnings of tokens of which nothing was in training."""

import warnings

import numpy as np
import pandas as pd
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


def tables(form, columns):
    """Sequences of rows, of which each has a one in a column."""
    return [form(EYE[columns[i : i + 4]]) for i in range(0, 120, 4)]


def name(letter):
    return {"c": str(letter)}


# What is known, what is not, and what the warning names beside the nearest of training.
STRANGE = {
    "a trailing blank": (dicts(name), dicts(lambda k: {"c": f"{k} "}), "'c=3 '.*'c=3'"),
    "a number for a string": (dicts(name), dicts(lambda k: {"c": int(k)}), "'c'.*'c=3'"),
    "other values": (dicts(name), dicts(lambda k: {"c": f"new {k}"}), "'c=new 3'"),
    "another name of a number": (
        dicts(lambda k: {"size": k + 0.5}), dicts(lambda k: {"Size": k + 0.5}), "'Size'.*'size'"
    ),
    "another name of a vector": (
        dicts(lambda k: {"v": EYE[k] + 0.5}), dicts(lambda k: {"w": EYE[k] + 0.5}), r"'w\[0\]'"
    ),
    "a bias that all tokens have": (
        dicts(lambda k: {"bias": True, "c": str(k)}),
        dicts(lambda k: {"bias": True, "c": f"{k} "}),
        "'c=3 '.*'c=3'",
    ),
    "names": (dicts(lambda k: {f"a{k}": True}), dicts(lambda k: {f"A{k}": True}), "'A3'.*'a3'"),
    "a dict": (dicts(lambda k: {"m": name(k)}), dicts(lambda k: {"n": name(k)}), "'n:c=3'.*'m:c"),
    "no feature": (dicts(name), dicts(lambda k: {}), "no feature"),
    "features without TokenFeatures": (
        TokenFeatures().fit_transform(dicts(lambda k: {"word": WORDS[k]})),
        dicts(lambda k: {"word": WORDS[k]}),
        "'word=sat'.*'word.*=sat'",
    ),
    "columns of text": (
        [pd.DataFrame({"c": list("abcd")})] * 30, [pd.DataFrame({"c": list("ABCD")})] * 30, "'c=a'"
    ),
}  # fmt: skip
for form in (sparse.csr_array, np.asarray):
    known = tables(form, LETTERS)
    STRANGE |= {
        f"another vocabulary, {form.__name__}": (known, tables(form, LETTERS + 4), "column 7"),
        f"zeros, {form.__name__}": (known, [0 * table for table in known], "no feature"),
    }


@pytest.mark.parametrize(
    ("case", "weak_learner"),
    [*((case, "auto") for case in STRANGE), ("names", "tree"), ("zeros, asarray", "tree")],
)
def test_tokens_of_which_nothing_was_in_training_are_warned_of(case, weak_learner, tmp_path):
    known, strange, words = STRANGE[case]
    tagger = StructBoostTagger(weak_learner=weak_learner, max_iter=5).fit(known, TAGS)
    tagger.save(tmp_path / "tagger")
    loaded = StructBoostTagger.load(tmp_path / "tagger")
    told = f"120 of the 120 tokens of X .*{words}"
    for call in (tagger.predict, loaded.predict, tagger.predict_marginals):
        with pytest.warns(UserWarning, match=told):
            call(strange)
    with pytest.warns(UserWarning, match=told):
        tagger.score(strange, TAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A tenth of known tokens is no other form.
        for tokens in (known, known[:1], [*known[:3], *strange[3:]]):
            tagger.predict(tokens)


def test_tokens_that_are_bare_in_training_too_are_nothing_strange():
    X = dicts(lambda k: {"is_last": bool(k == 3)})
    tagger = StructBoostTagger(C=1.0).fit(X, TAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.predict([[{"is_last": False}] * 3])
        tagger.predict([[{}] * 3])
    with pytest.warns(UserWarning, match="'last'"):
        tagger.predict([[{"last": True}] * 3])


def test_tokens_whose_vectors_are_known_are_nothing_strange():
    X = dicts(lambda k: {"c": str(k), "v": EYE[k] + 0.5})
    tagger = StructBoostTagger(C=1.0).fit(X, TAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.predict(dicts(lambda k: {"c": f"{k} ", "v": EYE[k] + 0.5}))
