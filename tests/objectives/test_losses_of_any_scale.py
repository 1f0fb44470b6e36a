"""Hinge masters end at the same optimum in whatever unit the losses are."""

import numpy as np
import pytest

from structboost import MulticlassTask, StructBoost
from structboost.objectives import OneSlack
from tests.contract.test_lying_tasks import Tags
from tests.helpers.refusals import refused

FORMULATIONS = {
    "one_slack": {},
    "printed": {"formulation": OneSlack(stabilize=False)},
    "m_slack": {"formulation": "m_slack"},
}


def in_batches(unit, X, Y):
    """Classes whose losses are in another unit, by the compiled search."""
    task = MulticlassTask(3)
    task.losses = unit * task.losses
    return task, X, Y


def one_by_one(unit, X, Y):
    """Tags of single tokens, which are searched one by one."""
    task = Tags()
    task.unit = unit
    return task, X[:, None], Y[:, None]


each_formulation = pytest.mark.parametrize("settings", FORMULATIONS.values(), ids=FORMULATIONS)


@pytest.fixture(scope="module")
def examples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(26, 2))
    Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.6)
    return X, np.where(rng.random(26) < 0.1, rng.integers(0, 3, 26), Y)


@pytest.mark.slow
@pytest.mark.parametrize("tol", [0.01, 1e-4])
@each_formulation
@pytest.mark.parametrize("make", [in_batches, one_by_one])
def test_a_fit_ends_at_the_same_optimum_in_any_unit(examples, make, settings, tol):
    for unit in (1.0, 1e-12, 1e-9, 1e-6, 1e-3, 1e3, 1e9, 1e12):
        task, *data = make(unit, *examples)
        last = StructBoost(task, C=20.0, tol=tol, **settings).fit(*data).history_[-1]
        # The optimum of these examples is 5.
        assert last["certified"]
        assert last["gap"] <= tol
        assert last["bound"] / unit <= 5.0 * (1 + 1e-6)
        assert last["primal"] / unit >= 5.0 * (1 - 1e-6)
        assert last["oracle_calls"] < 200


@each_formulation
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
def test_half_of_the_loss_is_too_little_in_any_unit(examples, unit, settings):
    task, *data = one_by_one(unit, *examples)
    task.factor = 0.5
    refused("is not exact", StructBoost(task, C=20.0, tol=1e-4, **settings).fit, *data)
