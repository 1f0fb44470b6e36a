"""Tests of the default methods of a task, called from overrides."""

import numpy as np
import pytest

from structboost import StructBoost, Task
from structboost.contract.separation import separate_by_argmax
from structboost.errors import TaskError


class Signs(Task):
    """Two outputs for each number, listed."""

    def __init__(self):
        self.n_features_of_truth = self.n_listings = 0

    def parts(self, x):
        return np.array([[x, 1.0]])

    def joint_feature(self, x, y):
        self.n_features_of_truth += 1
        return np.array([[float(y)]])

    def loss(self, y, y_pred):
        return float(y != y_pred)

    def outputs(self, x):
        self.n_listings += 1
        return [-1, 1]


class SignsThroughSearch(Signs):
    def separate(self, X, Y, scores):
        return separate_by_argmax(self, X, Y, scores)


X = [float(v) for v in np.random.default_rng(0).normal(size=30)]
Y = [1 if x > 0.2 else -1 for x in X]


@pytest.mark.parametrize("formulation", ["one_slack", "m_slack", "log"])
def test_a_method_that_calls_the_default_needs_no_more_calls(formulation):
    trainers = [
        StructBoost(of(), C=20.0, formulation=formulation, max_rounds=20, tol=1e-3).fit(X, Y)
        for of in (Signs, SignsThroughSearch)
    ]
    plain, through_super = (trainer.task for trainer in trainers)
    # Overridden batch forms are compared with other methods on two examples before training.
    assert 0 <= through_super.n_features_of_truth - plain.n_features_of_truth <= 80
    assert 0 <= through_super.n_listings - plain.n_listings <= 30
    assert trainers[0].objective_ == trainers[1].objective_
    assert trainers[0].history_[-1]["gap"] == trainers[1].history_[-1]["gap"]


def test_batch_predictions_use_an_overridden_predict():
    class Always(Signs):
        def predict(self, x, scores):
            return 1

    trainer = StructBoost(Always(), C=20.0, max_rounds=5).fit(X, Y)
    assert trainer.predict(X) == [1] * len(X)


@pytest.mark.parametrize("method", ["codes", "gains"])
def test_a_missing_method_of_a_task_is_named(method):
    with pytest.raises(TaskError, match=rf"Signs has no {method}\(Y\), which this formulation"):
        getattr(Signs(), method)(Y)
