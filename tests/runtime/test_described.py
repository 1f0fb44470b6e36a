"""Every public object says what it is, also what callbacks get."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import structboost
from structboost import (
    MultiBoostMOClassifier,
    ShareBoostClassifier,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    tasks,
)
from structboost.decisions import GridPath, Knapsack
from structboost.objectives import Formulation
from structboost.runtime.called_class import Described

PACKAGES = [
    structboost,
    *(
        importlib.import_module(f"structboost.{name}")
        for name in (
            "contract", "decisions", "errors", "files", "inference", "objectives",
            "segmentation", "selection", "tasks", "tracking", "learners", "training",
        )
    ),
]  # fmt: skip
CLASSES = {
    value
    for package in PACKAGES
    for name in dir(package)
    if not name.startswith("_")
    and inspect.isclass(value := getattr(package, name))
    and value.__module__.startswith("structboost")
}
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)


def test_no_public_class_has_the_repr_of_an_address():
    bare = [
        cls.__name__
        for cls in CLASSES
        # Protocols are never instances, and others describe what they hold.
        if cls.__repr__ is object.__repr__ and not getattr(cls, "_is_protocol", False)
    ]
    assert not bare


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (tasks.MulticlassTask(3), "MulticlassTask(n_classes=3)"),
        (tasks.BinaryTask(), "BinaryTask()"),
        (tasks.RankingTask("ndcg"), "RankingTask(loss='ndcg')"),
        (tasks.RankingTask(), "RankingTask()"),
        (tasks.MultiLabelTask(3, "f1", pairs=True), "pairs=True"),
        (tasks.CodedTask([[1, -1], [-1, 1]]), "CodedTask(code=<array of shape (2, 2)>)"),
        (tasks.TaxonomyTask({"a": [0, 1], 2: None}), "TaxonomyTask(n_classes=3)"),
        (tasks.ChainTask(3), "ChainTask(n_tags=3)"),
        (GridPath(3, 4), "GridPath(n_rows=3, n_columns=4)"),
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


def faces():
    rounds = {"max_rounds": 2}
    return [
        (StructBoostClassifier(max_iter=2), X, Y),
        (StructBoostClassifier(objective="hinge", C=10, max_iter=2), X, Y),
        (StructBoostClassifier(max_iter=2, early_stopping=True, random_state=0), X, Y),
        (StructBoostRanker(max_iter=2), X, Y),
        (StructBoostMultiLabelClassifier(max_iter=2), X, np.eye(2, dtype=int)[Y]),
        (StructBoostTagger(max_iter=2), [X[:30], X[30:]], [Y[:30], Y[30:]]),
        (MultiBoostMOClassifier(**rounds), X, Y),
        (ShareBoostClassifier(**rounds), X, Y),
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("face", "inputs", "y"), faces(), ids=lambda value: type(value).__name__)
def test_callbacks_may_print_what_they_get_and_others_are_refused(face, inputs, y, capsys):
    face.set_params(callbacks=[print]).fit(inputs, y)
    lines = capsys.readouterr().out.splitlines()
    assert "{'round': 1, " in lines[0]
    assert "StructBoost(" in lines[0]
    assert lines[0].endswith("# after round 1")

    def takes_three(record, trainer, more):
        raise AssertionError

    def broken(record, trainer, more=None):
        raise TypeError("an error of the callback")

    for callbacks, message in (
        ([lambda record: True], r"^callbacks\[0\] is .* cannot be called as callback\(record, tr"),
        ([print, takes_three], r"^callbacks\[1\] is .* cannot be called .* Give"),
        ([broken], r"^an error of the callback$"),
    ):
        with pytest.raises(TypeError, match=message):
            face.set_params(callbacks=callbacks).fit(inputs, y)
