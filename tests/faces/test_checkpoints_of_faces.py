"""Checkpoints of every face: other outputs are refused, and a chosen C is gone on with."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from structboost import MulticlassTask, StructBoost, StructBoostClassifier
from structboost.errors import CheckpointError
from structboost.selection.folds import random_folds
from tests.helpers.damaged_files.archives import put_together, taken_apart
from tests.helpers.four_faces import FOUR, Y, examples

OTHER = np.where(np.arange(150) == 7, Y == 0, Y).astype(int)


PARAMETERS = (
    {},
    {"objective": "hinge"},
    {"objective": "hinge", "C": 5.0, "weak_learner": ["linear", "stump"]},
    {"objective": "hinge", "weak_learner": "tree"},
)


def fitted(face, classes, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return face(
            random_state=0, tol=1e-4 if "objective" in parameters else 0.01, **parameters
        ).fit(*examples(face, classes))


@pytest.mark.slow
@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("face", FOUR)
def test_a_fit_with_more_rounds_resumes_from_its_checkpoint(face, parameters, tmp_path):
    path = tmp_path / "run.npz"
    first = fitted(face, Y, checkpoint=path, max_iter=3, **parameters)
    more = fitted(face, Y, checkpoint=path, max_iter=12, **parameters)
    assert more.C_ == first.C_
    assert getattr(more, "C_path_", None) == getattr(first, "C_path_", None)
    # A small C that is chosen may need fewer rounds.
    assert 1 <= first.n_iter_ <= 3
    assert more.n_iter_ >= first.n_iter_
    before = first.n_iter_ - 1
    assert more.history_[:before] == first.history_[:before]
    known = dict(parameters)
    if np.isfinite(more.C_):
        known |= {"C": more.C_, "weak_learner": more.learner_.split("+")}
    whole = fitted(face, Y, max_iter=12, **known)
    assert more.objective_ == whole.objective_


@pytest.mark.slow
@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("face", FOUR)
def test_a_checkpoint_of_other_outputs_is_refused(face, parameters, tmp_path):
    path = tmp_path / "run.npz"
    fitted(face, Y, checkpoint=path, max_iter=2, **parameters)
    with pytest.raises(CheckpointError, match="other data or parameters"):
        fitted(face, OTHER, checkpoint=path, max_iter=2, **parameters)
    fitted(face, Y, checkpoint=path, max_iter=3, **parameters)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """Header and arrays of a checkpoint of a chosen C."""
    path = tmp_path_factory.mktemp("chosen") / "run.npz"
    fitted(StructBoostClassifier, Y, checkpoint=path, max_iter=2, objective="hinge")
    return taken_apart(path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [{}, {"place": 9}, {"place": None}, {"best": {"C": -1.0}}, {"best": []}, {"records": 3}],
)
def test_a_checkpoint_with_a_crafted_choice_is_refused(choice, chosen, tmp_path):
    header, arrays = chosen
    crafted = {**header, "choice": header["choice"] | choice if choice else {}}
    (tmp_path / "run.npz").write_bytes(put_together(crafted, arrays, sealed=True))
    with pytest.raises(CheckpointError, match="remove it, or give another path"):
        fitted(
            StructBoostClassifier, Y, checkpoint=tmp_path / "run.npz", max_iter=3, objective="hinge"
        )


@pytest.mark.slow
def test_a_choice_on_other_folds_is_repeated(tmp_path):
    X, y = examples(StructBoostClassifier, Y)
    folds, others = (random_folds(X, y, random_state=seed) for seed in (0, 1))
    trainer = StructBoost(MulticlassTask(3), C="auto", max_rounds=2, checkpoint=tmp_path / "run")
    first, same, again = (clone(trainer).fit(X, y, folds=of) for of in (folds, folds, others))
    # Records tell their seconds.
    assert first.C_path_ == same.C_path_ != again.C_path_
