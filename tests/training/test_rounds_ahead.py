"""Rounds that compiled code runs ahead, compared with rounds one by one."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import BinaryTask, MulticlassTask, StructBoost
from structboost.learners import TreeFamily
from structboost.objectives import StageWiseLikelihood
from tests.training.test_engines import what_was_learned

OPTIONS = {"depth": 3, "confident": True, "row_fraction": 0.5, "random_state": 0}


class OneByOne(TreeFamily):
    """Trees that only :meth:`price` finds."""

    def growth(self, n_rounds, n_channels):
        return None


def data(n_classes, n_rows=150):
    rng = default_rng(n_classes)
    X = rng.normal(size=(n_rows, 5)).round(1)
    X[:, 4] = rng.integers(0, 6, n_rows)
    score = X[:, 0] + X[:, 1] * X[:, 2] + (X[:, 4] % 2) + rng.normal(size=n_rows)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def fit(family, n_classes=2, callbacks=None, weights=None, X=None, rounds=45, **settings):
    own, y = data(n_classes)
    task = BinaryTask() if n_classes == 2 else MulticlassTask(n_classes)
    trainer = StructBoost(
        task,
        C=np.inf,
        formulation=StageWiseLikelihood(**settings),
        weak_learner=family,
        max_rounds=rounds,
        columns_per_channel=1,
        callbacks=callbacks,
    )
    return trainer.fit(own if X is None else X, 2 * y - 1 if n_classes == 2 else y, weights)


def assert_equal(ahead, one_by_one):
    assert what_was_learned(ahead) == what_was_learned(one_by_one)
    assert ahead.ending_ == one_by_one.ending_


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_features": 0.4, "l2_regularization": 2.0},
        {"row_fraction": 1.0},
        {"min_samples_leaf": 5, "categorical": [4]},
    ],
    ids=str,
)
def test_rounds_ahead_are_those_one_by_one_to_the_last_bit(n_classes, options):
    weights = default_rng(1).random(150)
    fits = [
        fit(partial(family, **OPTIONS | options), n_classes, weights=weights)
        for family in (TreeFamily, OneByOne)
    ]
    assert_equal(*fits)


def test_callback_sees_every_round_of_the_same_model():
    seen = []
    watched = fit(
        partial(TreeFamily, **OPTIONS), callbacks=[lambda record, model: seen.append(record)]
    )
    assert seen == watched.history_
    assert_equal(watched, fit(partial(TreeFamily, **OPTIONS)))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"enough": 0.4}, {"patience": 20, "shrinkage": 1.0}], ids=str)
def test_training_ends_in_the_same_round(settings):
    ahead, other = (
        fit(partial(family, **OPTIONS), 3, rounds=300, **settings)
        for family in (TreeFamily, OneByOne)
    )
    assert ahead.ending_ == ("loss" if "enough" in settings else "held_out")
    assert len(ahead.history_) < 300
    assert_equal(ahead, other)


def test_rounds_without_columns_end_training():
    trainer = fit(partial(TreeFamily, **OPTIONS), X=np.zeros((150, 5)))
    assert trainer.ending_ == "columns"
    assert len(trainer.history_) == 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_trees_that_run_out_end_training_in_the_same_round(seed):
    # Leaves of nearly half of the rows: the last columns are those of rounds before.
    X = default_rng(seed).normal(size=(150, 5)).round(1)
    options = OPTIONS | {"depth": 1, "min_samples_leaf": 73, "row_fraction": 1.0}
    ahead, other = (
        fit(partial(family, **options), 3, rounds=300, X=X) for family in (TreeFamily, OneByOne)
    )
    assert ahead.ending_ == "columns"
    assert_equal(ahead, other)
