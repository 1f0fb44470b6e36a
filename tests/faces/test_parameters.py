"""Parameters are declared and described once, and every estimator shows all of its own."""

import inspect
import pydoc

import numpy as np
import pytest
from sklearn.base import clone

import structboost.faces
from structboost import MultiBoostMOClassifier, StructBoost, StructBoostClassifier
from structboost.faces import recipe
from structboost.faces.base import estimator
from structboost.runtime.called_class import parameters_of

FACES = [getattr(structboost.faces, name) for name in structboost.faces.__all__]
# PredictThenOptimize and CrossFitted wrap a problem or an estimator: they need one to be made.
WRAPPED = {"problem", "estimator"}
ESTIMATORS = [face for face in FACES if not WRAPPED & set(inspect.signature(face).parameters)]


@pytest.mark.parametrize("face", ESTIMATORS)
def test_defaults_come_from_the_nearest_class_and_clones_keep_parameters(face):
    names = parameters_of(face)
    for parameter in names:
        assert getattr(face, parameter.name) is parameter.default
    marks = {parameter.name: parameter.name for parameter in names}
    twin = face(**marks)
    assert all(getattr(twin, name) is mark for name, mark in marks.items())
    assert vars(clone(twin)) == vars(twin)


def test_a_class_may_override_the_description_of_a_parameter():
    @estimator()
    class Quiet(StructBoostClassifier):
        """A face of a user.

        Parameters
        ----------
        C : float
            Larger by default.
        patience : int
            Of its own.
        """

        patience: int = 3
        C: float = 7.0

    text = inspect.getdoc(Quiet)
    assert "    Larger by default." in text
    assert "max_iter : int" in text
    assert text.count("C : float") == 1
    assert Quiet().C == 7.0
    assert list(inspect.signature(Quiet).parameters)[:3] == ["objective", "patience", "C"]
    with pytest.raises(TypeError, match="Quiet has no parameter 'temper'"):
        Quiet(temper=1)
    with pytest.raises(KeyError, match="temper"):

        @estimator()
        class Undescribed(Quiet):
            """A parameter without a description."""

            temper: int = 1


def test_only_the_final_run_shows_its_progress(monkeypatch):
    shown = []

    class Watched(StructBoost):
        def fit(self, *arguments, **named):
            shown.append(self.verbose)
            return super().fit(*arguments, **named)

    monkeypatch.setattr(recipe, "StructBoost", Watched)
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.tile([0, 1, 2], 10)
    MultiBoostMOClassifier(max_rounds=3, verbose=1).fit(X, y)
    assert shown == [0, 1]


def heads_of(section):
    return [line.split(" : ")[0] for line in section.splitlines() if line[:1].strip()]


@pytest.mark.slow
@pytest.mark.parametrize("face", ESTIMATORS)
def test_signature_docstring_and_parameters_agree(face):
    signature = inspect.signature(face)
    names = list(signature.parameters)
    assert set(face().get_params()) == set(names) - {"parameters"}
    by_position = [n for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_position == ["objective"] * ("objective" in names)
    _, described = inspect.getdoc(face).split("Parameters\n----------\n")
    described, attributes = described.split("\nAttributes\n----------\n")
    attributes = attributes.split("\nSee Also\n--------\n")[0]
    heads, fitted = heads_of(described), heads_of(attributes)
    assert [head.removeprefix("**") for head in heads] == names
    assert all(name in described for name in face._flat_names)
    assert all(name.endswith("_") for name in fitted)
    assert len(set(fitted)) == len(fitted)
    assert {"history_", "objective_", "n_iter_"} <= set(fitted)
    # An entry is a head with a type, and a sentence.
    for entry in described.split("\n" + heads[0])[0], attributes:
        assert " : " in entry
        assert entry.rstrip().endswith(".")
    rendered = pydoc.plain(pydoc.render_doc(face))
    assert all(f"{name}:" in rendered for name in face().get_params())
