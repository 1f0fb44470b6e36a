"""Files keep the parameters of all faces, nested ones with their tuples and keys too."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.faces.base import plain_parameters, restored_parameters
from structboost.faces.columns import Columns
from structboost.files.archive import DamagedFileError
from tests.helpers.damaged_files.kinds import plain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
CLASSES = np.arange(30) % 3
SETS = [[0], [0, 1], [0, 2]] * 10
TOKENS = [[{"word": "a", "size": [1.0, 2.0]}, {"word": "b", "size": [0.0, 1.0]}]] * 4
TAGS = [["x", "y"]] * 4
EDGES = [("upper", 0), ("upper", 1), ("root", "upper"), ("root", 2)]


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
@settings(max_examples=30, deadline=None)
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
    with pytest.raises(DamagedFileError, match="a parameter is "):
        restored_parameters({"value": [value]})


@pytest.mark.parametrize(
    ("model", "X", "y"),
    [
        (
            StructBoostTagger(
                forbidden=[("x", "x")],
                weak_learner={"token": "stump", "vector": "tree"},
                max_iter=2,
            ),
            TOKENS,
            TAGS,
        ),
        (StructBoostClassifier(taxonomy=EDGES, max_iter=2), X, CLASSES),
        (StructBoostMultiLabelClassifier(label_costs={1: (2.0, 3.0)}, max_iter=2), X, SETS),
        (StructBoostRanker(monotonic_cst=(1, 0, 0), max_iter=2), X, CLASSES),
    ],
    ids=lambda value: str(value) if isinstance(value, BaseEstimator) else "",
)
def test_a_loaded_model_has_the_nested_parameters_and_can_be_fitted_again(model, X, y, tmp_path):
    model.set_params(random_state=0).fit(X, y).save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    assert loaded.get_params() == model.get_params()
    expected = plain(model.predict(X))
    for twin in (loaded, loaded.fit(X, y)):
        assert plain(twin.predict(X)) == expected


def test_columns_of_a_model_of_another_width_are_damaged():
    assert Columns.from_plain(Columns(3).to_plain(), 3) == Columns(3)
    with pytest.raises(DamagedFileError):
        Columns.from_plain(Columns(3).to_plain(), 4)
