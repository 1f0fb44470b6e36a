"""What rounds left out: held-out scores by their definition, and the temperature they ask for."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import make_classification

from structboost import BinaryTask, MulticlassTask, StructBoost
from structboost.files import DamagedFileError
from structboost.learners import TreeFamily
from structboost.objectives import StageWiseLikelihood
from structboost.objectives.held_out import fitted_temperature, saved_temperature

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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_scores_are_sums_over_the_rounds_that_left_a_row_out(n_classes):
    X, labels = examples(n_classes)
    n_rounds = 6
    trainer, loop = learned(X, labels, n_rounds)
    # The same draws and duals again, from the scores of each stage.
    family = TREES(X, (-1, 1))
    code = np.array([[-0.5], [0.5]]) if n_classes == 2 else np.eye(n_classes)
    sums, counts = np.zeros((code.shape[1], len(X))), np.zeros(len(X))
    scores = sums.copy()
    models = list(trainer.staged_models())
    for model in models:
        of_classes = 2 * (code @ scores)
        chances = np.exp(of_classes - logsumexp(of_classes, axis=0))
        duals = 2 * (code[labels].T - code.T @ chances).T / len(X)
        priced = family.price(duals, 1)
        is_out = family.left_out()
        for candidate in priced:
            k, leaf = candidate.channel, family.leaf_indices(candidate.learner)
            answers = np.zeros(len(X))
            of_row = np.abs(duals[~is_out, k]).sum() / (0.5 * len(X))
            for number in range(8):
                own = ~is_out & (leaf == number)
                mass = np.abs(duals[own, k]).sum() + of_row
                answers[is_out & (leaf == number)] = 127 * duals[own, k].sum() / mass
            # Its step, from what it changes on all rows.
            response = family.responses([candidate.learner])[0].astype(float)
            change = model.scores(X).T[k] - scores[k]
            sums[k] += (change @ response) / (response @ response) * answers
        counts += is_out
        scores = model.scores(X).T
    np.testing.assert_allclose(loop.weighted._sums["x"], sums, atol=1e-9)
    np.testing.assert_array_equal(loop.weighted._counts["x"], counts)


def test_where_no_rows_are_left_out_there_is_no_temperature():
    X, labels = examples(2, 40)
    few = learned(X, labels, 4)[0]
    every_row = learned(*examples(2), 4, family=partial(TREES, row_fraction=None))[0]
    assert few.temperature_ is None
    assert every_row.temperature_ is None


@pytest.mark.parametrize("sure", [0.3, 1.0, 4.0])
def test_the_temperature_fitted_is_that_of_the_draw(sure):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3))
    chances = np.exp(sure * scores - logsumexp(sure * scores, axis=1)[:, None])
    labels = (rng.random(4000)[:, None] > chances.cumsum(axis=1)).sum(axis=1)

    def loss(factor):
        own = factor * scores
        return float(np.mean(logsumexp(own, axis=1) - own[np.arange(4000), labels]))

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


def test_a_temperature_in_a_file_is_a_number_above_0():
    assert saved_temperature({}) is None
    assert saved_temperature({"temperature": 0.5}) == 0.5
    for wrong in (0.0, -1.0, float("inf"), "1", 1):
        with pytest.raises(DamagedFileError, match="its temperature is"):
            saved_temperature({"temperature": wrong})


def test_patience_is_a_number_of_rounds():
    with pytest.raises(ValueError, match="patience"):
        StageWiseLikelihood(patience=0).check()
