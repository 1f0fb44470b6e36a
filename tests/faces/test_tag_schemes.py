"""Taggers whose predictions follow a scheme of chunks."""

import numpy as np
import pytest

from structboost import StructBoostTagger
from structboost.tasks.chunk_tags import observed_pairs, scheme_of

RNG = np.random.default_rng(0)
KINDS = [RNG.choice(["O", "x", "y"], size=6, p=[0.6, 0.2, 0.2]) for _ in range(60)]


def tagged(kinds):
    before = ["O", *kinds[:-1]]
    return [
        "O" if k == "O" else f"{'I' if k == b else 'B'}-{k}"
        for k, b in zip(kinds, before, strict=True)
    ]


Y = [tagged(kinds) for kinds in KINDS]
X = [[{"tag": tag, "length": 1} for tag in tags] for tags in Y]
# Tokens that look like tags in an order that breaks every scheme.
NEW = [[{"tag": tag, "length": 1} for tag in RNG.permutation(tags)] for tags in Y]


@pytest.mark.slow
@pytest.mark.parametrize("weak_learner", ["auto", "tree"])
@pytest.mark.parametrize("scheme", ["auto", "iob2"])
def test_predictions_follow_the_scheme(scheme, weak_learner, reloaded):
    settings = {} if weak_learner == "auto" else {"weak_learner": "tree", "max_iter": 5}
    tagger = StructBoostTagger(scheme=scheme, random_state=0, **settings).fit(X, Y)
    predicted = tagger.predict(NEW)
    assert tagger.scheme_ == scheme_of(observed_pairs(predicted)) == "iob2"
    assert any(tag[0] == "I" for tags in predicted for tag in tags)
    loaded = reloaded(tagger)
    assert loaded.scheme_ == "iob2"
    assert loaded.scheme == scheme
    assert loaded.predict(NEW) == predicted
    assert loaded.predict_marginals(NEW[:3]) == tagger.predict_marginals(NEW[:3])


def test_marginals_of_forbidden_first_tags_are_zero():
    tagger = StructBoostTagger(scheme="iob2", random_state=0).fit(X, Y)
    assert all(of[0]["I-x"] == 0.0 for of in tagger.predict_marginals(NEW))


def test_without_a_scheme_nothing_is_forbidden():
    tagger = StructBoostTagger(random_state=0).fit(X, Y)
    assert tagger.scheme_ is None
    assert np.isfinite(tagger.task_.penalties[0]).all()
    assert scheme_of(observed_pairs(tagger.predict(NEW))) is None


@pytest.mark.parametrize("tags", [["B-x", "I-x", "O"], ["I-x", "B-x", "O"], ["NOUN", "DET", "O"]])
def test_no_scheme_is_taken_where_training_breaks_all(tags):
    y = [[tags[k] for k in RNG.integers(0, 3, 6)] for _ in KINDS]
    assert StructBoostTagger(scheme="auto", random_state=0).fit(X, y).scheme_ is None


def test_unknown_tags_break_no_scheme():
    holed = [[None, *y[1:]] for y in Y]
    tagger = StructBoostTagger(scheme="iob2", random_state=0).fit(X, holed)
    assert scheme_of(observed_pairs(tagger.predict(NEW))) == "iob2"


@pytest.mark.parametrize(
    ("scheme", "y", "match"),
    [
        ("iob3", Y, "scheme is 'iob3'; choose one of 'auto', 'iob2'"),
        (2, Y, "scheme is 2; choose one of"),
        ("iob2", [["NOUN"] * 6, *Y[1:]], "scheme is 'iob2', which does not have the tag 'NOUN'"),
        ("iob1", Y, r"y\[\d+\] has the pair \(.*'B-.'\), which is forbidden"),
    ],
)
def test_an_unusable_scheme_raises_with_a_remedy(scheme, y, match):
    with pytest.raises(ValueError, match=match):
        StructBoostTagger(scheme=scheme).fit(X, y)
