"""Hinge masters end at the same optimum in whatever unit the losses are."""

import numpy as np
import pytest

from structboost import MulticlassTask, PartKind, StructBoost, Task
from structboost.objectives import OneSlack

FORMULATIONS = {
    "one_slack": {},
    "printed": {"formulation": OneSlack(stabilize=False)},
    "m_slack": {"formulation": "m_slack"},
}


class InBatches(MulticlassTask):
    """Classes whose losses are in another unit, by the compiled search."""

    def __init__(self, unit):
        super().__init__(3)
        self.losses = unit * self.losses


class OneByOne(Task):
    """Task that searches one example at a time."""

    kinds = {"x": PartKind(3)}

    def __init__(self, unit):
        self.unit = unit

    def parts(self, x):
        return x[None]

    def joint_feature(self, x, y):
        return [0], [y], [1.0]

    def loss(self, y, y_pred):
        return self.unit * (y != y_pred)

    def argmax(self, x, scores, y=None):
        of_loss = 0.0 if y is None else self.unit * (np.arange(3) != y)
        return int((scores[0] + of_loss).argmax())


@pytest.fixture(scope="module")
def examples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(26, 2))
    Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.6)
    return X, np.where(rng.random(26) < 0.1, rng.integers(0, 3, 26), Y)


@pytest.mark.parametrize("tol", [0.01, 1e-4])
@pytest.mark.parametrize("settings", FORMULATIONS.values(), ids=FORMULATIONS)
@pytest.mark.parametrize("make", [InBatches, OneByOne])
def test_a_fit_ends_at_the_same_optimum_in_any_unit(examples, make, settings, tol):
    for unit in (1.0, 1e-12, 1e-9, 1e-6, 1e-3, 1e3, 1e9, 1e12):
        last = StructBoost(make(unit), C=20.0, tol=tol, **settings).fit(*examples).history_[-1]
        # The optimum of these examples is 5.
        assert last["certified"]
        assert last["gap"] <= tol
        assert last["bound"] / unit <= 5.0 * (1 + 1e-6)
        assert last["primal"] / unit >= 5.0 * (1 - 1e-6)
        assert last["oracle_calls"] < 200
