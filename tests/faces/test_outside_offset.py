"""Shift of the score of O, which is tried on held-out sequences."""

from unittest.mock import patch

import numpy as np
import pytest

from structboost import StructBoostTagger
from structboost.contract.parts import StackedParts
from structboost.faces import tagger
from structboost.faces.tag_prediction import chosen_offset
from structboost.selection import Fold
from structboost.tasks import ChainTask
from structboost.text import TwoStageTagger

CLASSES = np.array(["B-x", "O"])


def held_out(best, n, n_better, weights=None):
    """A fold of which each third token is a chunk, and ``n_better`` sequences need a shift.

    No shift changes the tags of the others.
    """
    true = np.tile([0, 1, 1], 8)
    # The true tag is ahead by .2 after the shift.
    ahead = np.tile(np.where(true == 0, 0.2, -0.2) - best, (n, 1))
    ahead[n_better:] = np.where(true == 0, 9.0, -9.0)
    # Chunks of some tokens are clear, so that F1 is above the least one anyway.
    ahead[:, :9:3] += 5.0
    rows = np.column_stack((ahead.ravel(), np.zeros(ahead.size)))
    offsets = {"token": np.arange(n + 1) * len(true), "step": np.arange(n + 1)}
    scores = StackedParts({"token": rows, "step": np.zeros((n, 4))}, offsets)
    X = [np.zeros((len(true), 1))] * n
    return Fold([X[0]], [true], None, X, [true] * n, weights), scores


@pytest.mark.parametrize(
    ("best", "n_better", "weights", "chosen"),
    [
        *((best, 40, None, best) for best in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5)),
        # One sequence brings the gain, none, or those without weight.
        *((best, 1, None, best) for best in (-1.0, 1.0)),
        *((best, 0, None, 0.0) for best in (-1.0, 1.0)),
        (1.0, 30, np.arange(40) >= 30, 0.0),
    ],
)
def test_the_shift_of_the_largest_f1_is_taken(best, n_better, weights, chosen):
    held = held_out(best, 40, n_better, weights)
    assert chosen_offset(ChainTask(2), CLASSES, [held]) == chosen


def test_nothing_is_shifted_below_an_f1_of_a_tenth():
    fold, scores = held_out(1.0, 40, 40)
    rows = np.minimum(scores.rows["token"], -0.8)
    rows[:, 1] = 0.0
    scores = StackedParts({**scores.rows, "token": rows}, scores.offsets)
    assert chosen_offset(ChainTask(2), CLASSES, [(fold, scores)]) == 0.0


def test_folds_are_read_until_enough_chunks_are_held_out():
    read = []

    def folds():
        for k in range(5):
            read.append(k)
            yield held_out(0.5, 40, 40)

    # 40 sequences have 320 true chunks, and 120 predicted ones before a shift.
    assert chosen_offset(ChainTask(2), CLASSES, folds()) == 0.5
    assert read == [0, 1, 2, 3]


def chunks(n=60, seed=0):
    """Sentences of words that are chunks more or less often."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = rng.integers(0, 10, 6)
        tags = np.where(rng.random(6) < words / 18, np.where(words % 2, "B-x", "B-y"), "O")
        X.append([{"word": f"w{word}"} for word in words])
        y.append(tags.tolist())
    return X, y


FITS = [
    {},
    {"C": 20.0},
    {"objective": "hinge", "C": 5.0, "max_iter": 5},
    {"objective": "svm", "C": 5.0},
    {"objective": "l1_log_loss", "C": 5.0, "max_iter": 5},
    {"weak_learner": "tree", "max_iter": 5},
]


@pytest.mark.parametrize("parameters", FITS)
def test_a_given_shift_is_that_of_predictions_with_every_objective(parameters, reloaded):
    X, y = chunks()
    new, _ = chunks(seed=1)
    plain = StructBoostTagger(random_state=0, outside_offset=0, **parameters).fit(X, y)
    assert plain.outside_offset_ == 0.0
    model = StructBoostTagger(random_state=0, outside_offset=0.7, **parameters).fit(X, y)
    assert "outside_offset 0.7" in repr(model)
    loaded = reloaded(model)
    assert (loaded.outside_offset, loaded.outside_offset_) == (0.7, 0.7)
    plain.outside_offset_ = 0.7
    assert model.predict(new) == loaded.predict(new) == plain.predict(new)


@pytest.mark.parametrize("parameters", [*FITS[2:], None])
def test_tags_without_a_scheme_or_without_one_likelihood_are_not_shifted(parameters):
    X, y = chunks(30)
    if parameters is None:
        y = [[tag.replace("-", "") for tag in tags] for tags in y]
    assert StructBoostTagger(random_state=0, **parameters or {}).fit(X, y).outside_offset_ == 0.0


@pytest.mark.slow
def test_a_given_c_does_not_keep_the_shift_from_being_chosen():
    X, y = chunks(300)
    chosen = StructBoostTagger(random_state=0, tol=0.1).fit(X, y)
    assert chosen.outside_offset_ != 0.0
    given = StructBoostTagger(random_state=0, tol=0.1, C=chosen.C_).fit(X, y)
    assert given.outside_offset_ == chosen.outside_offset_
    assert f"outside_offset {given.outside_offset_:.3g}" in repr(given)
    assert not hasattr(given, "C_path_")
    assert given.temperature_ is None


def test_groups_are_held_out_as_a_whole_where_c_is_given(monkeypatch):
    X, y = chunks()
    groups = np.repeat(np.arange(6), 10)
    held = []
    monkeypatch.setattr(tagger, "chosen_offset", lambda *given: held.extend(given[-1]) or 0.0)
    StructBoostTagger(C=30.0, random_state=0).fit(X, y, groups=groups)
    assert len(held) == 5
    for fold, _ in held:
        assert not set(groups[fold.rows]) & set(groups[fold.held_rows])


@pytest.mark.parametrize("groups", [None, "one"])
def test_a_given_c_needs_nothing_that_can_be_held_out(groups):
    X, y = chunks(1 if groups is None else 10)
    y[0][:3] = ["O", "B-x", "B-y"]
    of_groups = None if groups is None else np.zeros(len(X), int)
    assert StructBoostTagger(C=3.0).fit(X, y, groups=of_groups).outside_offset_ == 0.0


def test_a_shift_needs_the_tag_o():
    X, y = chunks(10)
    y = [["A" if tag == "O" else tag for tag in tags] for tags in y]
    assert StructBoostTagger(C=3.0, outside_offset=0.0).fit(X, y).outside_offset_ == 0.0
    with pytest.raises(ValueError, match="y has no tag 'O'"):
        StructBoostTagger(C=3.0, outside_offset=0.5).fit(X, y)


@pytest.mark.slow
def test_taggers_of_folds_whose_tags_nobody_reads_choose_no_shift():
    with patch.object(tagger, "chosen_offset", wraps=chosen_offset) as choose:
        TwoStageTagger(StructBoostTagger(random_state=0), word="word", folds=2).fit(*chunks())
    assert choose.call_count == 2
