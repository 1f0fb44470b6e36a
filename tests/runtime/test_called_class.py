"""Public objects say what they are, and wrong calls name the class and a remedy."""

import copy
import inspect
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import structboost
from structboost import (
    BinaryTask,
    ChainTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostTagger,
    StructuredSVM,
    tasks,
)
from structboost.contract.task import Capability
from structboost.decisions import Knapsack
from structboost.objectives import Formulation
from structboost.runtime import called_class
from structboost.runtime.called_class import Described, parameters_of
from tests.helpers.refusals import refused


def public_classes():
    """Classes of ours that are there for users, by name."""
    packages = ["structboost", *(f"structboost.{name}" for name in structboost._PACKAGES)]
    for module in map(import_module, packages):
        for value in map(partial(getattr, module), module.__all__):
            is_ours = inspect.isclass(value) and value.__module__.startswith("structboost")
            if is_ours and not getattr(value, "_is_protocol", False):
                yield value.__name__, value


PUBLIC = dict(sorted(public_classes()))  # workers of the tests must agree on the order
CLASSES = {
    name: value
    for name, value in PUBLIC.items()
    if not inspect.isabstract(value) and not issubclass(value, Exception)
}
FACES = {name: cls for name, cls in CLASSES.items() if hasattr(cls, "set_params")}
FACES = {name: FACES[name] for name in sorted(FACES.keys() - structboost.objectives.__all__)}


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_keyword_names_the_class_that_was_called(name):
    refused(rf"\b{name}\b.*not_a_parameter", CLASSES[name], not_a_parameter=1)


class Inherits(ChainTask):
    """Task without a constructor of its own."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StructBoost(BinaryTask(), C=1.0, max_round=2), "StructBoost .*'max_rounds'"),
        (lambda: StructBoost(BinaryTask(), max_iter=2), "StructBoost .*mean 'max_rounds'"),
        (lambda: BinaryTask(colour=1), "BinaryTask has no parameter 'colour'; it takes none"),
        (lambda: StructBoost(BinaryTask(), 10.0), "StructBoost: too many positional .*task, C"),
        (lambda: BinaryTask(2), "BinaryTask: too many positional arguments; it takes nothing"),
        (lambda: Inherits(2, n_tags=3), "Inherits: multiple values for argument 'n_tags'"),
        (lambda: StructBoostTagger(epsilon=1e-3), "'epsilon'; tol=... is the gap"),
    ],
)
def test_a_wrong_argument_names_the_class_and_a_remedy(call, message):
    refused(f"^.*{message}", call)


def test_signatures_and_copies_are_those_without_the_check():
    assert list(inspect.signature(ChainTask).parameters) == [
        "n_tags", "vectors", "forbidden"
    ]  # fmt: skip
    assert list(inspect.signature(StructBoost).parameters)[:2] == ["task", "C"]
    assert copy.copy(StructBoost(ChainTask(3), C=2.0)).task.n_tags == 3


def test_a_task_class_is_told_from_its_instance():
    message = r"task is <class .*BinaryTask'>; give an instance .* such as BinaryTask\(\.\.\.\)"
    for trainer in (StructBoost(BinaryTask, C=1.0), StructuredSVM(BinaryTask)):
        refused(message, trainer.fit, [[1.0], [2.0]], [1, -1])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("max_iters", "did you mean 'max_iter'"),
        ("num_boost_round", "did you mean 'max_iter'"),
        ("min_data_in_leaf", "did you mean 'min_samples_leaf'"),
        ("cat_features", "did you mean 'categorical_features'"),
        ("num_leaves", "max_depth=5 has up to 32 leaves"),
        ("early_stopping_rounds", "early_stopping=True, n_iter_no_change"),
        ("importance_type", "permutation_importance"),
    ],
)
def test_parameters_of_other_libraries_are_answered_by_what_to_write(name, message):
    refused(
        f"StructBoostClassifier has no parameter '{name}'.*{message}",
        StructBoostClassifier,
        **{name: 1},
    )
    refused(
        f"Invalid parameter '{name}' for .*{message}",
        StructBoostClassifier().set_params,
        **{name: 1},
    )


def test_no_name_of_the_table_is_a_parameter_of_a_face_that_gets_advice_on_it():
    for name, cls in FACES.items():
        names = {parameter.name for parameter in parameters_of(cls)}
        advised = {k for k, (needed, _) in called_class._ADVICE_ON.items() if needed in names}
        assert not (advised | {*called_class._TARGETS} - {"loss"}) & names, name


PAIRS = np.random.default_rng(0).normal(size=(60, 2))
SIDES = (PAIRS[:, 0] > 0).astype(int)


def test_no_public_class_has_the_repr_of_an_address():
    # Capabilities are never instances, and others describe what they hold.
    bare = {name for name, value in PUBLIC.items() if value.__repr__ is object.__repr__}
    assert all(Capability in PUBLIC[name].__bases__ for name in bare), bare


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (tasks.MulticlassTask(3), "MulticlassTask(n_classes=3)"),
        (tasks.BinaryTask(), "BinaryTask()"),
        (tasks.RankingTask("ndcg"), "RankingTask(loss='ndcg')"),
        (tasks.MultiLabelTask(3, "f1", pairs=True), "pairs=True"),
        (tasks.CodedTask([[1, -1], [-1, 1]]), "CodedTask(code=<array of shape (2, 2)>)"),
        (tasks.TaxonomyTask({"a": [0, 1], 2: None}), "TaxonomyTask(n_classes=3)"),
        (Knapsack([1.0, 2.0], 2.0), "Knapsack(weights=<array of shape (1, 2)>, "),
    ],
)
def test_an_object_is_written_as_the_call_that_made_it(value, text):
    assert text in repr(value)


def test_classes_of_users_are_written_as_their_calls_and_what_fails_is_left_out():
    class Mine(Formulation):
        def __init__(self, width, depth=3, *more, lost=None):
            self.width, self._depth = width, depth

        @property
        def lost(self):
            raise AssertionError("a property is not computed")

    assert repr(Mine(2)) == "Mine(width=2)"
    assert repr(Mine(np.ones((2, 3)), 4)) == "Mine(width=<array of shape (2, 3)>, depth=4)"
    assert len(repr(Mine(list(range(1000))))) < 90
    assert repr(Mine(len)) == "Mine(width=<len>)"
    assert repr(Described()) == "Described()"


def takes_three(record, trainer, more):
    raise AssertionError


def broken(record, trainer, more=None):
    raise TypeError("an error of the callback")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("face", "inputs", "y"),
    [
        (StructBoostClassifier(max_iter=2), PAIRS, SIDES),
        (StructBoostClassifier("hinge", C=10, max_iter=2), PAIRS, SIDES),
        (StructBoostMultiLabelClassifier(max_iter=2), PAIRS, np.eye(2, dtype=int)[SIDES]),
        (StructBoostTagger(max_iter=2), [PAIRS[:30], PAIRS[30:]], [SIDES[:30], SIDES[30:]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_callbacks_may_print_what_they_get_and_others_are_refused(face, inputs, y, capsys):
    face.set_params(callbacks=[print]).fit(inputs, y)
    lines = capsys.readouterr().out.splitlines()
    assert "{'round': 1, " in lines[0]
    assert "StructBoost(" in lines[0]
    assert lines[0].endswith("# after round 1")
    for callbacks, message in (
        ([lambda record: True], r"^callbacks\[0\] is .* cannot be called as callback\(record, tr"),
        ([print, takes_three], r"^callbacks\[1\] is .* cannot be called .* Give"),
        ([broken], r"^an error of the callback$"),
    ):
        refused(message, face.set_params(callbacks=callbacks).fit, inputs, y)
