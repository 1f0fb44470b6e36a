"""Constructors that refuse an argument name the class that was called."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
from sklearn.base import clone

import structboost
from structboost import (
    BinaryTask,
    ChainTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostTagger,
    StructuredSVM,
    decisions,
    learners,
    objectives,
    tasks,
    training,
)

TOKENS, TAGS = [[{"word": "a"}, {"word": "b"}]] * 4, [["A", "B"]] * 4
MODULES = (structboost, objectives, learners, tasks, training, decisions)


def public_classes():
    found = {}
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            is_ours = inspect.isclass(value) and value.__module__.startswith("structboost")
            is_plain = not (inspect.isabstract(value) or getattr(value, "_is_protocol", False))
            if is_ours and is_plain:
                found[value.__name__] = value
    return found


CLASSES = public_classes()


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_keyword_names_the_class_that_was_called(name):
    with pytest.raises(TypeError, match=rf"\b{name}\b.*not_a_parameter"):
        CLASSES[name](not_a_parameter=1)


class Inherits(ChainTask):
    """Task without a constructor of its own."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: StructBoost(BinaryTask(), C=1.0, max_round=2),
            "^StructBoost has no parameter 'max_round'; did you mean 'max_rounds'",
        ),
        (
            lambda: StructBoost(BinaryTask(), max_iter=2),
            "^StructBoost has no parameter 'max_iter'; did you mean 'max_rounds'",
        ),
        (
            lambda: StructuredSVM(BinaryTask(), max_iter=2),
            "^StructuredSVM has no parameter 'max_iter'; did you mean 'max_epochs'",
        ),
        (
            lambda: StructBoostClassifier(max_iters=2),
            "^StructBoostClassifier has no parameter 'max_iters'; did you mean 'max_iter'",
        ),
        (
            lambda: StructBoostClassifier(n_estimators=2),
            "^StructBoostClassifier has no parameter 'n_estimators'; did you mean 'max_iter'",
        ),
        (lambda: Inherits(2, steps=True), "^Inherits has no parameter 'steps'"),
        (lambda: BinaryTask(colour=1), "^BinaryTask has no parameter 'colour'; it takes none"),
        (
            lambda: StructBoost(BinaryTask(), 10.0),
            "^StructBoost takes only task by position, and got 2 values; .* such as C=",
        ),
        (lambda: BinaryTask(2), "^BinaryTask takes nothing by position, and got 1 values"),
        (
            lambda: StructBoost.load("model"),
            "^load of StructBoost: missing a required argument: 'task'; it takes path, task",
        ),
        (
            lambda: StructBoostTagger().fit(TOKENS, TAGS, TOKENS, TAGS),
            "got sequences as sample_weight; .* leave X_dev, y_dev out",
        ),
        (
            lambda: StructBoostTagger(epsilon=1e-3),
            "^StructBoostTagger has no parameter 'epsilon'; tol=... is the gap",
        ),
        (lambda: Inherits(2, n_tags=3), "^Inherits got n_tags by position and by name"),
    ],
)
def test_a_wrong_argument_names_the_class_and_a_remedy(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_signatures_copies_and_pickles_are_those_without_the_check():
    assert list(inspect.signature(ChainTask).parameters) == [
        "n_tags", "step_features", "vectors", "forbidden"
    ]  # fmt: skip
    assert list(inspect.signature(StructBoost).parameters)[:2] == ["task", "C"]
    trainer = StructBoost(ChainTask(3), C=2.0)
    for twin in (copy.copy(trainer), copy.deepcopy(trainer), clone(trainer)):
        assert twin.get_params()["C"] == 2.0
    assert pickle.loads(pickle.dumps(trainer)).task.n_tags == 3


def test_a_task_class_is_told_from_its_instance():
    message = r"task is <class .*BinaryTask'>; give an instance .* such as BinaryTask\(\.\.\.\)"
    for trainer in (StructBoost(BinaryTask, C=1.0), StructuredSVM(BinaryTask)):
        with pytest.raises(TypeError, match=message):
            trainer.fit([[1.0], [2.0]], [1, -1])


def test_a_missing_argument_is_named_with_what_to_write():
    with pytest.raises(
        TypeError, match=r"^StructBoost needs C; write StructBoost\(task, C=\.\.\.\)"
    ):
        StructBoost(BinaryTask())
    with pytest.raises(TypeError, match=r"write StructBoost\(task=\.\.\., C=\.\.\.\)"):
        StructBoost(tol=0.1)
