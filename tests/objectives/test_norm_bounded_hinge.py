"""The hinge form of MultiBoost.MO and .ECC over whole families, and its estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from structboost import MultiBoostECCClassifier, MultiBoostMOClassifier, MulticlassTask, StructBoost
from structboost.learners.pricing import BestCode, SharedOverChannels
from structboost.objectives.norm_bounded import NormBoundedHinge
from structboost.tasks import CodedTask
from tests.helpers.problems import all_stumps
from tests.objectives.hinge_problems import TASKS, full_program, margins_of

FACES = [
    MultiBoostMOClassifier(loss="hinge", theta=0.5, max_rounds=15),
    MultiBoostECCClassifier(loss="hinge", theta=1.0, max_rounds=10),
]
RULES = {"coded": SharedOverChannels, "multiclass": BestCode}


@pytest.mark.parametrize("name", TASKS)
def test_the_gap_closes_and_bounds_hold_over_the_family(name):
    y = np.arange(36) % 3
    X = np.round(np.random.default_rng(3).normal(size=(36, 2)) + 0.8 * np.eye(3)[y][:, :2], 0)
    trainer = StructBoost(
        TASKS[name], C=1.2, tol=1e-4, max_rounds=400, formulation=NormBoundedHinge(),
        pricing=RULES[name](), columns_per_channel=1,
    ).fit(X, y)  # fmt: skip
    last = trainer.history_[-1]
    assert last["gap"] <= 1e-4
    assert last["certified"]
    assert 0 < last["primal"] < 36
    assert trainer.model_.weights.sum() <= 1.2 * (1 + 1e-12)
    primals = [record["primal"] for record in trainer.history_]
    assert primals == sorted(primals, reverse=True)
    # All columns that the rule could make: a stump for each bit, or a stump with any code.
    stumps, task = all_stumps(X), TASKS[name]
    if name == "coded":
        # A sum over bits, one stump each under a common weight: relaxed, the bits are free of one
        # another, except for their weight, which is the same.
        columns = np.concatenate([stumps[:, :, None] * bit for bit in np.eye(3)])
        norms = np.kron(np.eye(3), np.ones(len(stumps)))
    else:
        codes = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
        columns = np.array([stump[:, None] * code for stump in stumps for code in codes])
        norms = np.ones((1, len(columns)))
    delta = (np.arange(3) != y[:, None]).astype(float)
    margins = margins_of(task, columns, y)
    optimum = full_program(margins, delta, np.full(36, 1 / 36), 1.2, norms)
    assert max(record["bound"] for record in trainer.history_) <= optimum * (1 + 1e-5)
    assert last["primal"] >= optimum * (1 - 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES, ids=lambda face: type(face).__name__)
def test_the_objective_of_a_face_is_the_sum_of_its_losses(face):
    X, y = load_iris(return_X_y=True)
    face = clone(face).set_params(max_rounds=40).fit(X[::2], y[::2])
    assert face.score(X[1::2], y[1::2]) > 0.85
    assert face.model_.weights.sum() <= face.theta_ * (1 + 1e-12)
    scores = face.model_.scores(X[::2])
    by_class = face.task_.class_scores(scores) if isinstance(face.task_, CodedTask) else scores
    rows = np.arange(len(scores))
    losses = (by_class + (np.arange(3) != y[::2, None])).max(axis=1) - by_class[rows, y[::2]]
    assert face.objective_ == pytest.approx(losses.sum(), rel=1e-6, abs=1e-6)


def test_a_bad_bound_is_named():
    trainer = StructBoost(MulticlassTask(2), C=float("inf"), formulation=NormBoundedHinge())
    with pytest.raises(ValueError, match="C is inf"):
        trainer.fit(np.eye(2), [0, 1])
