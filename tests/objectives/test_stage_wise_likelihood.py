"""Stage-wise likelihood of classes: where it ends, what rounds leave out, and the temperature."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.special import logsumexp
from sklearn.datasets import make_classification

from structboost import BinaryTask, MulticlassTask, StructBoost, StructBoostClassifier
from structboost.files.archive import DamagedFileError
from structboost.learners import TreeFamily
from structboost.learners.terms import Terms
from structboost.objectives import StageWiseLikelihood, stage_wise
from structboost.objectives.master import HeldOut, fitted_temperature, saved_temperature
from tests.helpers.problems import problem_of

TREES = partial(TreeFamily, depth=3, confident=True, row_fraction=0.5, random_state=0)


def learned(X, labels, n_rounds, *, family=TREES, **parameters):
    """A trainer, and what the loop had when it ended."""
    n_classes = labels.max() + 1
    task = BinaryTask() if n_classes == 2 else MulticlassTask(n_classes)
    seen = []

    class Watched(StructBoost):
        def _keep(self, loop):
            seen.append(loop)
            super()._keep(loop)

    trainer = Watched(
        task, C=np.inf, formulation=StageWiseLikelihood(**parameters), weak_learner=family,
        columns_per_channel=1, max_rounds=n_rounds,
    )  # fmt: skip
    return trainer.fit(X, 2 * labels - 1 if n_classes == 2 else labels), seen[0]


def examples(n_classes, n_rows=160, **parameters):
    return make_classification(
        n_rows, 8, n_informative=4, n_classes=n_classes, random_state=n_classes, **parameters
    )


def test_rows_left_out_get_the_responses_of_leaves_that_were_fitted_without_them():
    rng = default_rng(0)
    X, duals = rng.normal(size=(160, 4)), rng.normal(size=(160, 2))
    family = TREES(X, (-1, 1))
    for learner, k, _ in family.price(duals, 1):
        is_out, leaves = family.left_out(), family.leaf_indices(learner)
        own, expected = np.where(is_out, 0.0, duals[:, k]), np.zeros(160)
        for leaf in range(8):
            here = leaves == leaf
            mass = np.abs(own[here]).sum() + np.abs(own).sum() / 80
            expected[here & is_out] = 127 * own[here].sum() / mass
        np.testing.assert_allclose(family.held_out_response(learner, k), expected, atol=1e-9)


def mean_loss(scores, labels):
    """The loss of labels as a function of a factor of their scores."""

    def loss(factor):
        own = factor * scores
        return float(np.mean(logsumexp(own, axis=1) - own[np.arange(len(own)), labels]))

    return loss


def test_the_temperature_is_that_of_the_rounds_that_left_each_row_out():
    rng = default_rng(0)
    labels, channels = rng.integers(0, 3, 30), np.arange(3)
    booster = StageWiseLikelihood().start(problem_of(MulticlassTask(3), labels), np.inf)
    sums, counts = np.zeros((3, 30)), np.zeros(30)
    assert booster.temperature() is None
    for first in range(0, 15, 3):
        booster.add_responses("x", rng.integers(-9, 10, (3, 30)).astype(np.int8))
        terms = Terms(channels, first + channels, channels, np.ones(3))
        booster.add_columns({"x": terms}, 3)
        is_out = rng.random(30) < 0.5
        responses = rng.normal(size=(3, 30)) * is_out
        booster.add_held_out("x", HeldOut(is_out, first + channels, channels, responses))
        booster.step(first + channels)
        sums += booster.weights[first:, None] * responses
        counts += is_out
    scores = 2.0 * sums * 5 / np.maximum(counts, 1)
    found = fitted_temperature(mean_loss(scores.T, labels), 30)
    assert booster.temperature() == pytest.approx(found.damped())


def test_where_no_rows_are_left_out_there_is_no_temperature():
    X, labels = examples(2, 40)
    few = learned(X, labels, 4)[0]
    every_row = learned(*examples(2), 4, family=partial(TREES, row_fraction=None))[0]
    assert few.temperature_ is None
    assert every_row.temperature_ is None


@pytest.mark.parametrize("sure", [0.3, 1.0, 4.0])
def test_the_temperature_fitted_is_that_of_the_draw(sure):
    rng = default_rng(0)
    scores = rng.normal(size=(4000, 3))
    chances = np.exp(sure * scores - logsumexp(sure * scores, axis=1)[:, None])
    labels = (rng.random(4000)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    loss = mean_loss(scores, labels)
    found = fitted_temperature(loss, 4000)
    assert found.factor == pytest.approx(sure, rel=0.15)
    assert found.loss == pytest.approx(loss(found.factor))
    near = fitted_temperature(loss, 4000, start=sure * 1.5)
    assert near.factor == pytest.approx(found.factor, rel=0.15)
    assert near.loss == pytest.approx(found.loss, abs=2e-3)


def test_scores_without_a_mistake_do_not_ask_for_certainty():
    few, many = (
        fitted_temperature(lambda factor: float(np.log1p(np.exp(-2 * factor))), n).factor
        for n in (20, 2000)
    )
    assert 1 < few < many < 20


def test_training_ends_where_the_loss_of_rows_left_out_is_over():
    X, labels = examples(3, 300, flip_y=0.4)
    trainer, loop = learned(X, labels, 200, patience=20)
    assert trainer.ending_ == "held_out"
    n_rounds = len(trainer.history_)
    assert n_rounds % 20 == 0
    assert n_rounds - loop.weighted._best_round == 20 < 200 - n_rounds
    longer = learned(X, labels, n_rounds)[0]
    assert longer.ending_ == "max_rounds"
    assert longer.model_.weights.tobytes() == trainer.model_.weights.tobytes()


def test_training_ends_where_the_loss_is_low_enough():
    X = np.arange(40.0)[:, None]
    y = X[:, 0] > 19
    ends = [
        StructBoostClassifier(C=np.inf, objective=StageWiseLikelihood(enough=enough)).fit(X, y)
        for enough in (0.1, 0.01)
    ]
    lengths = [len(model.history_) for model in ends]
    assert lengths[0] < lengths[1] < 200
    for model, enough in zip(ends, (0.1, 0.01), strict=True):
        assert model.objective_ <= enough < max(r["primal"] for r in model.history_)
        assert model.history_[-1]["bound"] is None


def test_a_column_that_is_chosen_again_steps_on():
    """Three stumps for forty rounds: their answers are asked for anew in most of them."""
    rng = default_rng(0)
    X = rng.integers(0, 4, size=(200, 1)).astype(float)
    y = np.where(rng.random(200) < 0.2 + 0.2 * X[:, 0], 1, -1)
    trainer = StructBoost(
        BinaryTask(), C=np.inf, formulation=StageWiseLikelihood(enough=0.0), weak_learner="stump",
        columns_per_channel=1, max_rounds=40,
    ).fit(X, y)  # fmt: skip
    assert len(trainer.model_.weights) < 7 < len(trainer.history_)
    losses = np.logaddexp(0.0, -2.0 * y * trainer.model_.scores(X)[:, 0])
    assert trainer.objective_ == pytest.approx(losses.mean(), rel=1e-9)
    primal = [record["primal"] for record in trainer.history_]
    assert (np.diff(primal) < 0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_losses_in_pieces_give_the_same_temperature(n_classes, monkeypatch):
    X, y = examples(n_classes, 300, flip_y=0.3)
    whole = StructBoostClassifier(max_iter=30).fit(X, y)
    monkeypatch.setattr(stage_wise, "_EXAMPLES_AT_ONCE", 7)
    pieces = StructBoostClassifier(max_iter=30).fit(X, y)
    assert whole.temperature_ != 1.0
    assert pieces.temperature_ == whole.temperature_
    assert pieces.history_[-1]["held_out_loss"] == whole.history_[-1]["held_out_loss"]


def test_a_temperature_in_a_file_is_a_number_above_0():
    assert saved_temperature({}) is None
    assert saved_temperature({"temperature": 0.5}) == 0.5
    for wrong in (0.0, -1.0, float("inf"), "1", 1):
        with pytest.raises(DamagedFileError, match="its temperature is"):
            saved_temperature({"temperature": wrong})
