"""Stage-wise likelihood of classes: where it ends, and what it is measured against."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from structboost import BinaryTask, StructBoost, StructBoostClassifier
from structboost.objectives import (
    StageWiseLikelihood,
    StageWiseRandomField,
    StageWiseRanking,
    stage_wise_likelihood,
)


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


@pytest.mark.parametrize(
    "formulation", [StageWiseLikelihood, StageWiseRandomField, StageWiseRanking]
)
def test_parameters_out_of_range_are_refused(formulation):
    wrong = {"shrinkage": 0.0, "largest_step": -1.0, "enough": -1e-3}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            formulation(**{name: value}).check()


def test_a_column_that_is_chosen_again_steps_on():
    """Three stumps for forty rounds: their answers are asked for anew in most of them."""
    rng = np.random.default_rng(0)
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
    X, y = make_classification(
        300, n_informative=4, n_classes=n_classes, flip_y=0.3, random_state=0
    )
    whole = StructBoostClassifier(max_iter=30).fit(X, y)
    monkeypatch.setattr(stage_wise_likelihood, "_EXAMPLES_AT_ONCE", 7)
    pieces = StructBoostClassifier(max_iter=30).fit(X, y)
    assert whole.temperature_ != 1.0
    assert pieces.temperature_ == whole.temperature_
    assert pieces.history_[-1]["held_out_loss"] == whole.history_[-1]["held_out_loss"]
