"""An argmax that is wrong, and never falls behind itself, is noticed by scores about the truth."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import StructBoost, StructuredSVM
from structboost.contract.exactness import probe_argmax
from structboost.contract.parts import PartKind
from structboost.contract.task import Task
from structboost.errors import TaskError
from structboost.objectives import NormBoundedHinge
from tests.helpers.choose import Choose
from tests.helpers.engine_tasks import ChainTask

TRAINERS = {
    "one_slack": lambda task: StructBoost(task, C=30.0, tol=0.2),
    "m_slack": lambda task: StructBoost(task, formulation="m_slack", C=30.0, tol=0.2),
    "norm_bounded": lambda task: StructBoost(task, formulation=NormBoundedHinge(), C=3.0, tol=0.2),
    "svm": lambda task: StructuredSVM(task, C=10.0, tol=0.2),
}
N_TAGS = 4


class Tokens(Task):
    """Tags of tokens, one by one; the loss is the number of wrong ones, in any unit."""

    kinds = {"token": PartKind(N_TAGS)}
    unit = 1.0
    weight = 1.0
    sign = 1.0
    n_tried = N_TAGS

    def parts(self, x):
        return x

    def joint_feature(self, x, y):
        return np.arange(len(y)), y, np.full(len(y), self.weight)

    def loss(self, y, y_pred):
        return self.unit * float(np.sum(y != y_pred))

    def argmax(self, x, scores, y=None):
        gain = self.weight * scores
        if y is not None:
            gain = gain + self.sign * self.unit * (np.arange(N_TAGS) != y[:, None])
        return gain[:, : self.n_tried].argmax(axis=1)


class SplitLoss(Tokens):
    """The loss by scores of its parts."""

    def loss_scores(self, x, y):
        return self.sign * self.unit / self.weight * (np.arange(N_TAGS) != y[:, None])

    def argmax(self, x, scores):
        return super().argmax(x, scores)


class OneShort(Tokens):
    """Never tries the last tag."""

    n_tried = N_TAGS - 1


class Subtracts(Tokens):
    """Subtracts the loss."""

    sign = -1.0


class DeclaredOneShort(OneShort):
    exact_argmax = False


class DeclaredSubtracts(Subtracts):
    exact_argmax = False


class OneShortSplitLoss(SplitLoss):
    n_tried = N_TAGS - 1


class SubtractsSplitLoss(SplitLoss):
    sign = -1.0


class RefusesNegative(ChainTask):
    """Takes no negative scores of links."""

    def argmax(self, x, scores, y=None):
        assert (scores["link"] >= 0).all()
        return super().argmax(x, scores, y)


@pytest.fixture(scope="module")
def tokens():
    """Few of the sequences have the last tag."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(3, 7, 40)]
    Y = [(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5) for x in X]
    Y[17][1] = N_TAGS - 1
    return X, Y


def offsets_of(task, X):
    return task.stack(X).offsets


@pytest.mark.filterwarnings("ignore::structboost.errors.EmptyModelWarning")
@pytest.mark.parametrize("task", [DeclaredOneShort, DeclaredSubtracts])
@pytest.mark.parametrize("make", TRAINERS.values(), ids=TRAINERS)
def test_a_declared_search_is_not_probed(tokens, make, task):
    fitted = make(task()).fit(*tokens)
    assert not fitted.history_[-1]["certified"]


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("weight", [1e-4, 1.0, 1e4])
def test_units_of_losses_and_joint_features_are_no_matter(tokens, unit, weight, monkeypatch):
    monkeypatch.setattr(Tokens, "unit", unit)
    monkeypatch.setattr(Tokens, "weight", weight)
    X, Y = tokens
    for task in (Tokens(), SplitLoss()):
        probe_argmax(task, X, Y, offsets_of(task, X))
    for task in (OneShort(), Subtracts(), OneShortSplitLoss(), SubtractsSplitLoss()):
        with pytest.raises(TaskError, match="is not exact"):
            probe_argmax(task, X, Y, offsets_of(task, X))


def test_an_only_output_is_the_truth():
    X, Y = [np.ones((1, 2))] * 3, [0] * 3
    task = Choose()
    probe_argmax(task, X, Y, offsets_of(task, X))


def test_scores_that_may_not_be_negative_are_not():
    X = [np.random.default_rng(i).normal(size=(5, 3)) for i in range(20)]
    task = RefusesNegative()
    probe_argmax(task, X, [(x[:, 0] > 0).astype(int) for x in X], offsets_of(task, X))


def test_few_examples_are_searched(tokens, monkeypatch):
    searched = []
    search = Tokens.argmax

    def counted(self, x, scores, y=None):
        searched.append(len(x))
        return search(self, x, scores, y)

    monkeypatch.setattr(Tokens, "argmax", counted)
    X, Y = tokens
    for n, most in ((40, 12), (4000, 32)):
        searched.clear()
        many = X * (n // 40), Y * (n // 40)
        probe_argmax(Tokens(), *many, offsets_of(Tokens(), many[0]))
        assert 0 < len(searched) <= most
