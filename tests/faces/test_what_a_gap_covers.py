"""Words that name the weak learners which a gap covers."""

import numpy as np
import pytest

from structboost import BinaryTask, StructBoost, StructBoostClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 2))
Y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=400) > 0, 1, -1)


def test_a_gap_over_every_threshold_covers_all_stumps():
    model = StructBoostClassifier("hinge", C=30.0).fit(X, Y)
    assert model.gap_text_ == "over all learners of their kind"
    assert f"% {model.gap_text_};" in repr(model)


def test_a_gap_over_quantiles_comes_with_that_over_all_stumps():
    model = StructBoostClassifier("hinge", C=30.0, exact=False).fit(X, Y)
    last = model.history_[-1]
    assert last["gap_all"] > last["gap"]
    percent = f"{100 * last['gap_all']:.2g} %"
    assert model.gap_text_ == f"over the learners searched, {percent} over all of their kind"
    assert model.gap_text_ in repr(model)


def test_a_gap_says_that_it_may_not_cover_all_where_nobody_looked():
    trainer = StructBoost(BinaryTask(), C=30.0, weak_learner="pair_tree", tol=0.1).fit(X, Y)
    assert trainer.history_[-1]["gap_all"] is None
    assert trainer.gap_text_ == "over the learners searched, not over all of their kind"


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
def test_a_gap_of_an_early_round_covers_all_stumps_if_all_were_searched(exact):
    settings = {"early_stopping": True, "n_iter_no_change": 3, "random_state": 0, "exact": exact}
    model = StructBoostClassifier("hinge", C=30.0, **settings).fit(X, Y)
    assert model.ending_ == "held_out"
    assert model.gap_text_ == (
        "over all learners of their kind"
        if exact
        else "over the learners searched, not over all of their kind"
    )
    assert f"% {model.gap_text_};" in repr(model)


@pytest.mark.parametrize(
    "settings", [{"objective": "log_loss", "max_iter": 3}, {"objective": "svm"}]
)
def test_fits_without_columns_searched_to_a_bound_cover_nothing(settings):
    assert StructBoostClassifier(**settings).fit(X, Y).gap_text_ == ""


class RoughBinary(BinaryTask):
    """Task whose search is said not to be exact."""

    exact_argmax = False


def test_a_gap_of_a_search_that_is_not_exact_is_called_uncertified():
    sure, rough = (
        StructBoost(task, C=30.0, tol=0.1).fit(X, Y) for task in (BinaryTask(), RoughBinary())
    )
    assert not rough.history_[-1]["certified"]
    assert ", uncertified gap " in repr(rough)
    assert "uncertified" not in repr(sure)
    assert ", gap " in repr(sure)
