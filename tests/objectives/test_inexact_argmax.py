"""Wrong searches are noticed: behind outputs of before, by scores about the truth, by overrides."""

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import MulticlassTask, StructBoost, StructuredSVM
from structboost.contract.probes import probe_argmax
from structboost.contract.separation import Separation
from structboost.objectives import NormBoundedHinge
from structboost.objectives.m_slack import MSlackMaster
from tests.contract.test_lying_tasks import N_TAGS, SplitLoss, Tags
from tests.helpers.choose import Choose
from tests.helpers.engine_tasks import ChainTask
from tests.helpers.refusals import refused
from tests.helpers.task_problems import task_problems

PROBLEMS = task_problems(8)
PROVED = [name for name, problem in PROBLEMS.items() if problem.task.separates_in_batches]
FORMULATIONS = ("one_slack", "m_slack", NormBoundedHinge())


class GreedyChain(ChainTask):
    """Chooses label after label; never looks ahead."""

    def argmax(self, x, scores, y=None):
        gain = scores["token"] + (0 if y is None else (np.arange(2) != y[:, None]) / len(y))
        labels = [int(gain[0].argmax())]
        for t in range(1, len(gain)):
            cost = scores["link"][t - 1, 0] * (np.arange(2) != labels[-1])
            labels.append(int((gain[t] - cost).argmax()))
        return labels


class LosslessInBatches(ChainTask):
    """Forgets the loss in a batch form that it declares to be exact, so no outputs are kept."""

    separates_in_batches = True

    def separate(self, X, Y, scores):
        found = [self.argmax(x, scores.example(i)) for i, x in enumerate(X)]
        return Separation.from_outputs(self, X, Y, found, scores.offsets)


def changed(make, **attributes):
    """A task with other attributes."""
    task = make()
    vars(task).update(attributes)
    return task


class Rounded(Choose):
    """Choose with a loss in other units, in single precision."""

    unit = 1.0

    def loss(self, y, y_pred):
        return self.unit * super().loss(y, y_pred)

    def argmax(self, x, scores, y=None):
        added = 0 if y is None else self.unit * abs(np.arange(len(x)) - y)
        return int(np.argmax((scores[:, 0] + added).astype(np.float32)))


@pytest.fixture(scope="module")
def chains():
    rng = default_rng(1)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(4, 9, 40)]
    return X, [(x[:, 0] + np.roll(x[:, 0], 1) + x[:, 1] > 0).astype(int) for x in X]


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
def test_an_inexact_argmax_ends_the_fit(chains, formulation):
    trainer = StructBoost(GreedyChain(), formulation=formulation, C=30.0, max_rounds=60)
    refused(r"argmax of X\[\d+\] is not exact: it found .* earlier", trainer.fit, *chains)


@pytest.mark.parametrize(
    ("formulation", "by_blocks", "message"),
    [
        ("one_slack", True, "make a risk"),
        ("m_slack", True, r"of X\[\d+\]"),
        ("m_slack", False, "make a risk"),
    ],
    ids=["cuts", "blocks", "program"],
)
def test_an_inexact_batch_form_ends_the_fit(chains, formulation, by_blocks, message, monkeypatch):
    if not by_blocks:
        monkeypatch.setattr(MSlackMaster, "_can_step", lambda *_: False)
    trainer = StructBoost(LosslessInBatches(), formulation=formulation, C=30.0, max_rounds=60)
    refused(message, trainer.fit, *chains)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_rounding_is_no_slip(scale, unit):
    task = changed(Rounded, unit=unit)
    rng = default_rng(0)
    X = [scale * rng.normal(size=(5, 2)) for _ in range(20)]
    Y = [int(x[:, 0].argmax()) for x in X]
    for formulation in FORMULATIONS[:2]:
        trainer = StructBoost(task, formulation=formulation, C=50.0, max_rounds=15).fit(X, Y)
        assert trainer.history_[-1]["certified"]
    StructuredSVM(task, C=100.0 * unit / scale**2, max_epochs=5, tol=0.5).fit(X, Y)


class RefusesNegative(ChainTask):
    """Takes no negative scores of links."""

    def argmax(self, x, scores, y=None):
        assert (scores["link"] >= 0).all()
        return super().argmax(x, scores, y)


@pytest.fixture(scope="module")
def tokens():
    """One of the sequences has the last tag."""
    rng = default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(3, 7, 40)]
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    Y[17][1] = N_TAGS - 1
    return X, Y


def offsets_of(task, X):
    return task.stack(X).offsets


@pytest.mark.filterwarnings("ignore::structboost.errors.EmptyModelWarning")
@pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
def test_a_declared_search_is_not_probed(tokens, formulation):
    task = changed(Tags, n_tried=N_TAGS - 1, exact_argmax=False)
    trainer = StructBoost(task, formulation=formulation, C=3.0, tol=0.2)
    assert not trainer.fit(*tokens).history_[-1]["certified"]


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("weight", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("make", [Tags, SplitLoss])
def test_units_of_losses_and_joint_features_are_no_matter(tokens, unit, weight, make):
    X, Y = tokens
    units = {"unit": unit, "weight": weight}
    task = changed(make, **units)
    probe_argmax(task, X, Y, offsets_of(task, X))
    # One never tries the last tag, the other subtracts the loss.
    for wrong in ({"n_tried": N_TAGS - 1}, {"factor": -1.0}):
        task = changed(make, **units, **wrong)
        refused("is not exact", probe_argmax, task, X, Y, offsets_of(task, X))


def test_an_only_output_is_the_truth():
    X, Y = [np.ones((1, 2))] * 3, [0] * 3
    task = Choose()
    probe_argmax(task, X, Y, offsets_of(task, X))


def test_scores_that_may_not_be_negative_are_not():
    X = [default_rng(i).normal(size=(5, 3)) for i in range(20)]
    task = RefusesNegative()
    probe_argmax(task, X, [(x[:, 0] > 0).astype(int) for x in X], offsets_of(task, X))


def test_few_examples_are_searched(tokens, monkeypatch):
    searched = []
    search = Tags.argmax

    def counted(self, x, scores, y=None):
        searched.append(len(x))
        return search(self, x, scores, y)

    monkeypatch.setattr(Tags, "argmax", counted)
    X, Y = tokens
    for n, most in ((40, 12), (4000, 32)):
        searched.clear()
        many = X * (n // 40), Y * (n // 40)
        probe_argmax(Tags(), *many, offsets_of(Tags(), many[0]))
        assert 0 < len(searched) <= most


@pytest.mark.parametrize("method", ["argmax_batch", "separate", "loss"])
@pytest.mark.parametrize("name", PROVED)
def test_a_subclass_of_a_proved_task_that_overrides_a_search_is_not_proved(name, method):
    task = PROBLEMS[name].task
    override = {method: lambda self, *arguments: None}
    mixin = type("Mixin", (), override)
    for bases, members in (((mixin, type(task)), {}), ((type(task),), override)):
        lying = object.__new__(type("Lying", bases, members))
        lying.__dict__.update(vars(task))
        assert not lying.separates_in_batches


def test_a_subclass_is_proved_if_it_declares_it():
    class Declared(MulticlassTask):
        separates_in_batches = True

    assert Declared.separates_in_batches
    assert not type("Named", (MulticlassTask,), {}).separates_in_batches
