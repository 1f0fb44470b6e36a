"""Checkpoints of every face: other outputs are refused, and more rounds go on."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from structboost.errors import CheckpointError
from tests.helpers.four_faces import FOUR, Y, examples

OTHER = np.where(np.arange(150) == 7, Y == 0, Y).astype(int)


PARAMETERS = (
    {},
    {"objective": "hinge", "C": 5.0, "weak_learner": ["linear", "stump"]},
    {"objective": "hinge", "C": 5.0, "weak_learner": "tree"},
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
    assert 1 <= first.n_iter_ <= 3
    assert more.n_iter_ >= first.n_iter_
    before = first.n_iter_ - 1
    assert more.history_[:before] == first.history_[:before]
    whole = fitted(face, Y, max_iter=12, **parameters)
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
