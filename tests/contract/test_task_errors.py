"""Tests that an error of a task names the example and the method on every engine."""

import pickle
from functools import partial

import numpy as np
import pytest

from structboost import BinaryTask, MulticlassTask, StructBoost, StructuredSVM, check_task
from structboost.contract.parts import stack_parts
from structboost.contract.separation import separate_by_argmax
from structboost.errors import ExampleNote, TaskError, count_examples_from, note_examples
from structboost.runtime import blocks
from structboost.training.hosts import Failure
from tests.helpers.choose import Choose
from tests.helpers.listed_outputs import Listed
from tests.helpers.refusals import refused
from tests.training.test_engines import ChainTask, problem


class OddChainError(LookupError):
    """User-defined error."""

    def __init__(self, n_tokens, *, where):
        super().__init__(f"{n_tokens} tokens in {where}")
        self.n_tokens = n_tokens


def fussy(name):
    """Make a method that refuses 12 tokens, of one example or of several."""

    def method(self, x, *others):
        for chain in x if name in ("stack", "separate", "separate_slacks") else [x]:
            if name == self.method and len(chain) == 12:
                raise OddChainError(12, where=name)
        if name.startswith("separate"):
            return separate_by_argmax(self, x, *others[:2])
        return getattr(ChainTask, "argmax" if name == "predict" else name)(self, x, *others)

    return method


class FussyTask(ChainTask):
    """Chain task, one method of which refuses 12 tokens."""

    def __init__(self, method):
        super().__init__()
        self.method = method

    parts, joint_feature, loss, argmax = map(fussy, ("parts", "joint_feature", "loss", "argmax"))


class FussyInBatchesTask(FussyTask):
    stack, separate, separate_slacks = map(fussy, ("stack", "separate", "separate_slacks"))


class FussyPredictionTask(FussyTask):
    predict = fussy("predict")


def fussy_chains():
    """Sequences, of which index 60 has 12 tokens."""
    _, X, Y = problem("chain")
    X[60], Y[60] = np.ones((12, 3)), np.zeros(12, int)
    return X, Y


@pytest.fixture
def chains(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 32)
    return fussy_chains()


def check_note(error, method, number):
    assert error.n_tokens == 12
    assert str(error) == f"12 tokens in {method}"
    (note,) = [note for note in error.__notes__ if isinstance(note, ExampleNote)]
    assert note == f"Raised by the task's {method} for example {number}, X[{number}]."
    assert error.__notes__[-1] is note


BATCHES = ("stack", "separate")
TRAINERS = {
    "serial": (StructBoost, {}, ("parts", "joint_feature", "loss", "argmax", *BATCHES)),
    "threads": (StructBoost, {"engine": "threads", "n_jobs": 2}, ("parts", "argmax", *BATCHES)),
    "processes": (StructBoost, {"engine": "processes", "n_jobs": 2}, ("argmax", "separate")),
    "m_slack": (StructBoost, {"formulation": "m_slack"}, ("loss", "separate_slacks")),
    "linear": (StructuredSVM, {}, BATCHES),
}
SLOW = {"processes": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(k, marks=SLOW.get(k, ())) for k in TRAINERS])
def test_an_error_in_fit_names_example_and_method(name, chains):
    make, options, methods = TRAINERS[name]
    for method in methods:
        task = (FussyInBatchesTask if method.startswith("s") else FussyTask)(method)
        with pytest.raises(OddChainError) as caught:
            make(task, C=1.0, **options).fit(*chains)
        check_note(caught.value, method, 60)


@pytest.mark.parametrize("make", [StructBoost, StructuredSVM])
def test_an_error_in_predict_and_score_names_example_and_method(make, chains):
    X, Y = chains
    trainer = make(FussyPredictionTask("nothing"), C=1.0, tol=0.5).fit(X[:40], Y[:40])
    for method in ("parts", "predict", "loss"):
        trainer.task.method = method
        with pytest.raises(OddChainError) as caught:
            trainer.score(X, Y)
        check_note(caught.value, method, 60)
    trainer.task = FussyTask("argmax")
    with pytest.raises(OddChainError) as caught:
        trainer.predict(X[58:])
    check_note(caught.value, "argmax", 2)


class OnlyTogetherTask(BinaryTask):
    """Task that fails for many examples, but for no single one."""

    def separate(self, X, Y, scores):
        if len(Y) > 1:
            raise ZeroDivisionError
        return super().separate(X, Y, scores)


def test_an_error_of_no_single_example_names_all_examples(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 4)
    with pytest.raises(ZeroDivisionError) as caught:
        StructBoost(OnlyTogetherTask(), C=1.0).fit(np.eye(6), [1, -1] * 3)
    assert caught.value.__notes__ == [
        "Raised by the task's separate for one of the examples 0 to 3."
    ]


def test_a_result_that_is_not_an_array_names_the_example():
    kinds = ChainTask().kinds
    parts = [
        ChainTask().parts(np.ones((3, 2))),
        {"token": [[1.0], [1.0, 2.0]], "link": np.ones((1, 2))},
    ]
    error = refused("inhomogeneous", stack_parts, kinds, parts)
    assert error.__notes__ == ["Raised by the task's parts for example 1, X[1]."]


@pytest.mark.parametrize(
    "copy",
    [lambda error: pickle.loads(pickle.dumps(error)), lambda error: Failure.of(error).error()],
)
def test_notes_and_indices_survive_copying(copy):
    error = TaskError("Y[{sample}] is odd; leave it out.", 3)
    error.add_note("seen by a friend")
    note_examples(error, "loss", 5, 5)  # it names its example already
    travelled = copy(error)
    count_examples_from(travelled, 100)
    assert str(travelled) == "Y[103] is odd; leave it out."
    assert travelled.__notes__[-1] == "seen by a friend"
    plain = KeyError("odd")
    note_examples(plain, "loss", 5, 5)
    travelled = copy(plain)
    count_examples_from(travelled, 100)
    assert travelled.__notes__[-1] == "Raised by the task's loss for example 105, X[105]."


class FrozenError(Exception):
    """Error that takes no notes."""

    def __setattr__(self, name, value):
        if name == "__notes__":
            raise AttributeError(name)
        super().__setattr__(name, value)


def test_an_error_that_takes_no_notes_is_unchanged(chains):
    task = FussyTask("nothing")
    task.loss = raise_frozen
    with pytest.raises(FrozenError, match="as it is"):
        StructBoost(task, C=1.0).fit(*chains)


def raise_frozen(y, y_pred):
    raise FrozenError("as it is")


def test_unknown_labels_are_told_which_are_taken():
    fit = StructBoost(MulticlassTask(2), C=1.0).fit
    remedy = r"Y\[0\] is 'a'; this MulticlassTask takes the labels 0\.\.1\. Number other labels"
    refused(remedy, fit, np.eye(3), ["a", "b", "a"])
    refused(r"Y has shape \(3, 1\)", fit, np.eye(3), [[0], [1], [1]])


def test_labels_may_be_objects():
    X, Y = np.eye(4), np.array([0, 1, 0, 1], object)
    assert StructBoost(MulticlassTask(2), C=10.0).fit(X, Y).predict(X) == [0, 1, 0, 1]


@pytest.mark.parametrize("make", [StructBoost, StructuredSVM])
def test_too_few_outputs_and_dicts_of_inputs_raise_errors(make):
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(3, 2)) for _ in range(8)], [0, 2, 1, 0, 1, 0, 1, 2]
    refused(
        "not a sequence; give a list of inputs", make(Listed(), C=10.0).fit, dict(enumerate(X)), Y
    )
    refused(
        "X has 8 examples and Y 3; they must be equally many",
        make(Listed(), C=10.0).fit(X, Y).score,
        X,
        Y[:3],
    )


def test_an_argmax_without_a_truth_argument_raises_an_error():
    class WithoutTruth(Choose):
        def argmax(self, x, scores):
            return int(np.argmax(scores[:, 0]))

    X, Y = [np.eye(3)[:, :2]] * 4, [0, 1, 0, 1]
    for run in (StructBoost(WithoutTruth(), C=10.0).fit, partial(check_task, WithoutTruth())):
        refused(r"argmax takes no true output.*define loss_scores", run, X, Y)


def test_an_error_of_the_argmax_without_the_loss_names_its_example():
    class FailsAlone(ChainTask):
        def argmax(self, x, scores, y=None):
            if y is None and x[0, 0] > 0:
                raise LookupError(int(x[0, 0]))
            return super().argmax(x, scores, y)

    _, X, Y = problem("chain")
    for i, x in enumerate(X):
        x[0, 0] = i
    with pytest.raises(LookupError) as caught:
        StructBoost(FailsAlone(), C=1.0).fit(X, Y)
    (note,) = caught.value.__notes__
    assert note.first == note.last == caught.value.args[0]
