"""Files keep parameters and what was chosen, and those of other models are refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from structboost import (
    MulticlassTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructBoostTagger,
    StructuredSVM,
    StructuredSVMClassifier,
    load_model,
)
from structboost.decisions import Choose
from structboost.errors import ModelFileError
from structboost.faces.base import plain_parameters, restored_parameters
from tests.helpers.refusals import refused
from tests.helpers.travel import ROUTES, travel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = (X[:, 0] + 0.3 * RNG.normal(size=120) > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [{"weak_learner": "linear"}, {"objective": "hinge", "early_stopping": True, "max_iter": 30}],
    ids=str,
)
def test_loaded_model_has_its_choice_and_the_reason_of_its_end(parameters, tmp_path):
    model = StructBoostClassifier(random_state=0, **parameters).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = StructBoostClassifier.load(tmp_path / "model")
    names = (
        "C_", "C_path_", "C_path_end_", "validation_losses_", "max_features_", "learning_rate_",
        "temperature_", "ending_", "n_iter_", "minimised_", "learner_",
    )  # fmt: skip
    for name in names:
        assert getattr(loaded, name, None) == getattr(model, name, None), name
    assert model.ending_
    assert repr(loaded).partition("#")[2] == repr(model).partition("#")[2]


def test_linear_fits_store_their_passes_and_the_reason_of_their_end():
    for parameters in ({"objective": "svm"}, {"weak_learner": "linear"}):
        model = StructBoostClassifier(C=10.0, **parameters).fit(X, Y)
        assert model.n_iter_ == len(model.history_)
        assert model.ending_ == "gap"


@pytest.mark.slow
@pytest.mark.parametrize("face", [StructBoostClassifier, StructBoostTagger])
def test_a_scorer_may_print_the_estimator(face):
    shown = []

    def scorer(estimator, X, y):
        shown.append(repr(estimator))
        return estimator.score(X, y)

    data = (X, Y) if face is StructBoostClassifier else (np.split(X, 20), np.split(Y, 20))
    face(objective="svm", scoring=scorer).fit(*data)
    assert all("objective=" in text for text in shown)


class Holder(BaseEstimator):
    """An estimator with one parameter."""

    def __init__(self, value=None):
        self.value = value


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NESTED = st.recursive(
    SCALARS,
    lambda some: (
        st.lists(some)
        | st.lists(some).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text(), st.integers()), some)
    ),
    max_leaves=8,
)


@given(NESTED)
def test_nested_parameters_return_from_json_as_they_were(value):
    plain = json.loads(json.dumps(plain_parameters({"value": value})))
    restored = restored_parameters(plain)["value"]
    assert restored == value
    assert repr(restored) == repr(value)


def test_arrays_and_sets_are_lists_in_files_and_objects_are_left_out():
    for value, wanted in (
        (np.eye(2, dtype=int), [[1, 0], [0, 1]]),
        (np.float32(0.5), 0.5),
        ([(np.str_("a"), np.int64(2))], [("a", 2)]),
        ({"b", "a"}, ["a", "b"]),
    ):
        restored = restored_parameters(plain_parameters({"value": value}))["value"]
        assert restored == wanted
        assert type(restored) is type(wanted)
    for value in (np.random.RandomState(0), [print], {"a": object()}, np.datetime64("2020-01-01")):
        assert plain_parameters({"value": value}) == {}


@pytest.mark.parametrize("value", [{"tuple": 3}, {"dict": 3}, {}, {"dict": [], "tuple": []}])
def test_damaged_parameters_are_refused(value):
    refused("a parameter is ", restored_parameters, {"value": [value]})


@pytest.mark.slow
def test_boosted_starts_are_not_written(tmp_path):
    x, costs = travel(12)
    model = PredictThenOptimize(ROUTES, C=1.0, start="boosted", tol=0.2).fit(x, costs)
    refused("fit it with start='least_squares', or pickle it", model.save, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_problem_of_the_other_sense_is_refused(tmp_path):
    x, costs = travel(12)
    PredictThenOptimize(Choose(ROUTES.n_items, 2, maximize=True), C=1.0, tol=0.2).fit(
        x, costs
    ).save(tmp_path / "m")
    PredictThenOptimize.load(tmp_path / "m", Choose(ROUTES.n_items, 2, maximize=True))
    refused(
        "predicts values, and the problem has maximize=False",
        PredictThenOptimize.load,
        tmp_path / "m",
        Choose(ROUTES.n_items, 2),
    )
    refused(
        "12 items, and the problem has 3",
        PredictThenOptimize.load,
        tmp_path / "m",
        Choose(3, 2, maximize=True),
    )


def test_files_of_other_models_are_named(tmp_path):
    svm = StructuredSVM(MulticlassTask(2), tol=0.1)
    svm.fit(X, Y).save(tmp_path / "svm")
    assert StructuredSVM.load(tmp_path / "svm", MulticlassTask(2)).tol == 0.1
    refused("has the kinds", StructuredSVM.load, tmp_path / "svm", MulticlassTask(4))
    refused("task is None; give", StructuredSVM.load, tmp_path / "svm")
    np.savez(tmp_path / "objects.npz", header=np.array([{}]))
    refused("it holds Python objects", load_model, tmp_path / "objects.npz")
    refused("no archive", load_model, __file__)
    with pytest.raises(ModelFileError, match="load it with that class"):
        StructuredSVMClassifier.load(tmp_path / "svm")
    assert load_model(tmp_path / "svm").metadata["trainer"] == "StructuredSVM"
    StructBoostClassifier("hinge", C=5, max_iter=2).fit(X, Y).save(tmp_path / "boosted")
    with pytest.raises(ModelFileError, match="'structboost-model', not a"):
        PredictThenOptimize.load(tmp_path / "boosted", ROUTES)
    for trainer, name in ((StructuredSVM, "boosted"), (StructBoost, "svm")):
        with pytest.raises(ModelFileError, match=rf"not written by {trainer.__name__}\.save"):
            trainer.load(tmp_path / name, MulticlassTask(2))
