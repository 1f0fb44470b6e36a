"""Names of other libraries, in constructors, ``set_params``, ``fit`` and as attributes."""

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
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
)
from structboost.faces import __all__ as ESTIMATORS
from structboost.runtime.called_class import parameters_of
from structboost.runtime.documentation import Documented

X = np.random.default_rng(0).normal(size=(120, 3))
Y = X[:, 0] > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("num_boost_round", "did you mean 'max_iter'"),
        ("min_data_in_leaf", "did you mean 'min_samples_leaf'"),
        ("feature_fraction", "did you mean 'max_features'"),
        ("cat_features", "did you mean 'categorical_features'"),
        ("num_leaves", "max_depth=5 has up to 32 leaves"),
        ("early_stopping_rounds", "early_stopping=True, n_iter_no_change"),
        ("importance_type", "permutation_importance"),
        ("subsample", "draws half of the rows"),
    ],
)
def test_parameters_of_other_libraries_are_answered_by_what_to_write(name, message):
    with pytest.raises(
        TypeError, match=f"StructBoostClassifier has no parameter '{name}'.*{message}"
    ):
        StructBoostClassifier(**{name: 1})
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}' for .*{message}"):
        StructBoostClassifier().set_params(**{name: 1})


@pytest.mark.parametrize("face", [StructBoostClassifier(), StructBoostRanker()])
def test_arguments_of_fit_of_other_libraries_are_answered_by_what_to_write(face):
    with pytest.raises(TypeError, match=r"has no argument 'eval_set'.*early_stopping=True"):
        face.fit(X, Y, eval_set=[(X, Y)])
    with pytest.raises(TypeError, match="'sample_weights'; did you mean 'sample_weight'"):
        StructBoostClassifier().fit(X, Y, sample_weights=Y)


def all_faces():
    """Classes of all estimators and trainers, by name."""
    packages = ["structboost", *(f"structboost.{name}" for name in structboost._PACKAGES)]
    for package in map(import_module, packages):
        for name in package.__all__:
            if isinstance(cls := getattr(package, name), type) and issubclass(cls, Documented):
                yield name, cls


FACES = dict(sorted(all_faces()))  # workers of the tests must agree on the order
# Arguments of other libraries, by the method that has them there.
ARGUMENTS = {
    "fit": (
        "eval_metric", "eval_set", "early_stopping_rounds", "categorical_feature", "cat_features",
        "verbose", "X_dev", "y_dev", "feature_name", "init_model", "callbacks",
    ),
    "predict": ("pred_contrib", "num_iteration", "raw_score", "output_margin", "iteration_range"),
    "predict_proba": ("num_iteration", "ntree_end"),
}  # fmt: skip
# Text that is expected, by argument, and the parameter or method of a class that it is about.
EXPECTED = {
    "eval_metric": ("scoring", "scoring=... is a parameter"),
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
    for method, arguments in ARGUMENTS.items():
        call = inspect.getattr_static(cls, method, None)
        if call is None:
            continue
        function = getattr(call, "fn", call)  # of available_if
        for argument in set(arguments) - {*inspect.signature(function).parameters}:
            needed, text = EXPECTED.get(argument, ("", ""))
            text = text if needed in dir(cls) or needed in parameters_of_face(cls) else ""
            message = f"{method} of {name} has no argument '{argument}'; .*{text}"
            with pytest.raises(TypeError, match=message):
                function(face, **{argument: None})


def test_calls_without_a_required_argument_name_the_class_of_the_user():
    with pytest.raises(TypeError, match=r"^fit of StructBoostClassifier: missing .*'y'; it takes"):
        StructBoostClassifier().fit(X)
    with pytest.raises(TypeError, match=r"^predict of StructBoostRanker: too many positional"):
        StructBoostRanker().predict(X, Y, 3)


def parameters_of_face(cls):
    return [p.name for p in parameters_of(cls)]


@pytest.mark.parametrize("name", FACES)
def test_errors_inside_a_method_stay_as_they_are(name):
    def predict(self, X):
        raise TypeError("X is odd")

    cls = type(name, (FACES[name],), {"predict": predict})
    with pytest.raises(TypeError, match=r"^X is odd$"):
        object.__new__(cls).predict(X)


def test_advice_on_a_parameter_that_a_class_lacks_is_not_given():
    with pytest.raises(TypeError, match="'early_stopping_rounds'; it takes problem"):
        PredictThenOptimize(None, early_stopping_rounds=3)
    with pytest.raises(TypeError, match="'num_leaves'; it takes task"):
        StructBoost(None, num_leaves=31)


@pytest.mark.parametrize(
    ("name", "message"),
    [("booster_", "model_ is the fitted model"), ("n_classes_", "classes_"), ("gap_", "history_")],
)
def test_attributes_of_other_libraries_are_answered_by_what_to_write(name, message):
    with pytest.raises(AttributeError, match=f"StructBoostClassifier has no {name}; .*{message}"):
        getattr(StructBoostClassifier(), name)
    assert not hasattr(StructBoostClassifier(), name)


def test_errors_of_properties_and_unknown_attributes_stay_as_they_were():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        StructBoostClassifier().feature_importances_  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        StructBoostClassifier().nonsense  # noqa: B018
    for copied in (clone, copy.deepcopy, lambda face: pickle.loads(pickle.dumps(face))):
        assert copied(StructBoostClassifier(max_depth=2)).max_depth == 2


def test_no_name_of_the_table_is_one_of_a_face_that_gets_advice_on_it():
    from structboost.runtime import elsewhere

    for face in ESTIMATORS:
        cls = getattr(structboost, face)
        advised = {
            name
            for name, (needed, _) in elsewhere._ADVICE_ON.items()
            if not needed or hasattr(cls, needed)
        }
        names = advised | {*elsewhere._TARGETS} - {"loss"}
        assert not names & {*dir(cls)}, face


def test_fit_with_early_stopping_names_its_rounds_and_losses():
    face = StructBoostClassifier(max_iter=30, early_stopping=True, random_state=0).fit(X, Y)
    assert face.best_iteration_ == face.n_iter_
    result = face.evals_result_
    assert result["training"]["objective"] == [record["primal"] for record in face.history_]
    assert result["held_out"]["loss"] == face.validation_losses_[: len(face.history_)]


def test_fit_without_early_stopping_has_no_best_iteration_and_no_held_out_loss():
    face = StructBoostClassifier(objective="hinge", C=1.0, max_iter=3, tol=0.5).fit(X, Y)
    assert set(face.evals_result_) == {"training"}
    with pytest.raises(AttributeError, match="early_stopping=True; n_iter_ has"):
        face.best_iteration_  # noqa: B018
