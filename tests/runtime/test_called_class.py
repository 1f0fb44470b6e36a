"""Calls with a wrong argument name the class that was called, and what to write.

That holds for names of other libraries, in constructors, ``set_params``, methods and as attributes.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import structboost
from structboost import (
    BinaryTask,
    ChainTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
)
from structboost.runtime import called_class
from structboost.runtime.called_class import parameters_of

X = np.random.default_rng(0).normal(size=(120, 3))
Y = X[:, 0] > 0


def public_classes():
    packages = ["structboost", *(f"structboost.{name}" for name in structboost._PACKAGES)]
    for module in map(import_module, packages):
        for name in module.__all__:
            value = getattr(module, name)
            is_ours = inspect.isclass(value) and value.__module__.startswith("structboost")
            is_plain = not (inspect.isabstract(value) or getattr(value, "_is_protocol", False))
            if is_ours and is_plain and not issubclass(value, Exception):
                yield value.__name__, value


CLASSES = dict(sorted(public_classes()))  # workers of the tests must agree on the order
FACES = {name: cls for name, cls in CLASSES.items() if hasattr(cls, "set_params")}
FACES = {name: FACES[name] for name in sorted(FACES.keys() - structboost.objectives.__all__)}


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_keyword_names_the_class_that_was_called(name):
    with pytest.raises(TypeError, match=rf"\b{name}\b.*not_a_parameter"):
        CLASSES[name](not_a_parameter=1)


class Inherits(ChainTask):
    """Task without a constructor of its own."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StructBoost(BinaryTask(), C=1.0, max_round=2), "StructBoost .*'max_rounds'"),
        (lambda: StructBoost(BinaryTask(), max_iter=2), "StructBoost .*mean 'max_rounds'"),
        (lambda: StructuredSVM(BinaryTask(), max_iter=2), "StructuredSVM .*mean 'max_epochs'"),
        (lambda: Inherits(2, steps=True), "Inherits has no parameter 'steps'"),
        (lambda: BinaryTask(colour=1), "BinaryTask has no parameter 'colour'; it takes none"),
        (lambda: StructBoost(BinaryTask(), 10.0), "StructBoost: too many positional .*task, C"),
        (lambda: BinaryTask(2), "BinaryTask: too many positional arguments; it takes nothing"),
        (lambda: Inherits(2, n_tags=3), "Inherits: multiple values for argument 'n_tags'"),
        (lambda: StructBoost.load("model"), "load of StructBoost: missing .*'task'; .* path, task"),
        (lambda: StructBoostTagger(epsilon=1e-3), "'epsilon'; tol=... is the gap"),
        (
            lambda: PredictThenOptimize(None, early_stopping_rounds=3),
            "'early_stopping_rounds'; it takes problem",
        ),
        (lambda: StructBoost(None, num_leaves=31), "'num_leaves'; it takes task"),
        (lambda: StructBoostClassifier().fit(X), "fit of StructBoostClassifier: missing .*'y'"),
        (
            lambda: StructBoostRanker().predict(X, Y, 3),
            "predict of StructBoostRanker: too many positional",
        ),
    ],
)
def test_a_wrong_argument_names_the_class_and_a_remedy(call, message):
    with pytest.raises(TypeError, match=f"^.*{message}"):
        call()


def test_signatures_copies_and_pickles_are_those_without_the_check():
    assert list(inspect.signature(ChainTask).parameters) == [
        "n_tags", "step_features", "vectors", "forbidden"
    ]  # fmt: skip
    assert list(inspect.signature(StructBoost).parameters)[:2] == ["task", "C"]
    trainer = StructBoost(ChainTask(3), C=2.0)
    copies = copy.copy, copy.deepcopy, clone, lambda face: pickle.loads(pickle.dumps(face))
    for copied in copies:
        assert copied(trainer).get_params()["C"] == 2.0
        assert copied(trainer).task.n_tags == 3


def test_a_task_class_is_told_from_its_instance():
    message = r"task is <class .*BinaryTask'>; give an instance .* such as BinaryTask\(\.\.\.\)"
    for trainer in (StructBoost(BinaryTask, C=1.0), StructuredSVM(BinaryTask)):
        with pytest.raises(TypeError, match=message):
            trainer.fit([[1.0], [2.0]], [1, -1])


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
    with pytest.raises(
        TypeError, match=f"StructBoostClassifier has no parameter '{name}'.*{message}"
    ):
        StructBoostClassifier(**{name: 1})
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}' for .*{message}"):
        StructBoostClassifier().set_params(**{name: 1})


# Arguments of other libraries, by the method that has them there.
ARGUMENTS = {
    "fit": (
        "eval_metric", "eval_set", "early_stopping_rounds", "categorical_feature", "cat_features",
        "verbose", "X_dev", "y_dev", "feature_name", "init_model", "callbacks", "sample_weights",
    ),
    "predict": ("pred_contrib", "num_iteration", "raw_score", "output_margin", "iteration_range"),
    "predict_proba": ("num_iteration", "ntree_end"),
}  # fmt: skip
# Text that is expected, by argument, and the parameter or method of a class that it is about.
EXPECTED = {
    "eval_metric": ("scoring", "scoring=... is a parameter"),
    "eval_set": ("early_stopping", "early_stopping=True"),
    "categorical_feature": ("categorical_features", "categorical_features=... is a parameter"),
    "early_stopping_rounds": ("n_iter_no_change", "n_iter_no_change=..."),
    "X_dev": ("scheme", "C='auto'"),
    "pred_contrib": ("contributions", r"contributions\(X\)"),
    "num_iteration": ("staged_predict", r"staged_predict\(X\)"),
    "raw_score": ("decision_function", r"decision_function\(X\)"),
}


@pytest.mark.parametrize("name", FACES)
def test_arguments_of_other_libraries_name_the_class_of_the_user(name):
    cls = FACES[name]
    face = object.__new__(cls)  # no call gets as far as its parameters
    parameters = [parameter.name for parameter in parameters_of(cls)]
    for method, arguments in ARGUMENTS.items():
        call = inspect.getattr_static(cls, method, None)
        if call is None:
            continue
        function = getattr(call, "fn", call)  # of available_if
        for argument in set(arguments) - {*inspect.signature(function).parameters}:
            needed, text = EXPECTED.get(argument, ("", ""))
            text = text if callable(getattr(cls, needed, 0)) or needed in parameters else ""
            message = f"{method} of {name} has no argument '{argument}'; .*{text}"
            with pytest.raises(TypeError, match=message):
                function(face, **{argument: None})

    def predict(self, X):
        raise TypeError("X is odd")

    # Errors inside of a method stay as they are.
    with pytest.raises(TypeError, match=r"^X is odd$"):
        object.__new__(type(name, (cls,), {"predict": predict})).predict(X)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("booster_", "has no booster_; .*model_ is the fitted model"),
        ("n_classes_", "has no n_classes_; .*classes_"),
        ("gap_", "has no gap_; .*history_"),
        ("nonsense", "has no attribute 'nonsense'"),
    ],
)
def test_attributes_of_other_libraries_are_answered_by_what_to_write(name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(StructBoostClassifier(), name)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        StructBoostClassifier().feature_importances_  # noqa: B018


def test_no_name_of_the_table_is_one_of_a_face_that_gets_advice_on_it():
    for name in structboost.faces.__all__:
        cls = getattr(structboost, name)
        advised = {
            other
            for other, (needed, _) in called_class._ADVICE_ON.items()
            if not needed or hasattr(cls, needed)
        }
        assert not (advised | {*called_class._TARGETS} - {"loss"}) & {*dir(cls)}, name


def test_fit_names_its_rounds_and_the_losses_of_early_stopping():
    face = StructBoostClassifier(max_iter=30, early_stopping=True, random_state=0).fit(X, Y)
    assert face.best_iteration_ == face.n_iter_
    result = face.evals_result_
    assert result["training"]["objective"] == [record["primal"] for record in face.history_]
    assert result["held_out"]["loss"] == face.validation_losses_[: len(face.history_)]
    face = StructBoostClassifier(objective="hinge", C=1.0, max_iter=3, tol=0.5).fit(X, Y)
    assert set(face.evals_result_) == {"training"}
    with pytest.raises(AttributeError, match="early_stopping=True; n_iter_ has"):
        face.best_iteration_  # noqa: B018
