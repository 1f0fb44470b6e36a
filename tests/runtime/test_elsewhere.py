"""Names of other libraries, in constructors, ``set_params``, ``fit`` and as attributes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from structboost import PredictThenOptimize, StructBoost, StructBoostClassifier, StructBoostRanker
from structboost.estimators import __all__ as ESTIMATORS
from structboost.runtime.elsewhere import hint

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


def test_advice_on_a_parameter_that_a_class_lacks_is_not_given():
    with pytest.raises(TypeError, match="'early_stopping_rounds'; it takes problem"):
        PredictThenOptimize(None, early_stopping_rounds=3)
    with pytest.raises(TypeError, match="'num_leaves'; it takes task"):
        StructBoost(None, num_leaves=31)


@pytest.mark.parametrize(
    ("name", "message"), [("booster_", "model_ is the fitted model"), ("n_classes_", "classes_")]
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


def test_no_name_of_the_table_is_a_parameter_or_attribute_of_ours():
    import structboost
    from structboost.runtime import elsewhere

    for face in ESTIMATORS:
        cls = getattr(structboost, face)
        names = {*elsewhere._ADVICE, *elsewhere._SAME} - {"loss"}
        assert not names & {*dir(cls)}, face


def test_hint_lists_the_names_where_nothing_is_close():
    assert hint("colour", ["C", "tol"]) == "it takes C, tol."


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
