"""A fit of every face can be resumed, on any engine, and its checkpoint is that of its data."""

import numpy as np
import pytest

from structboost import StructBoostClassifier, StructBoostMultiLabelClassifier
from tests.helpers.damaged_files.archives import put_together, taken_apart
from tests.helpers.four_faces import FOUR, Y, examples
from tests.helpers.refusals import refused
from tests.training.test_engines import classes, what_was_learned

pytestmark = pytest.mark.filterwarnings("ignore")
OTHER = np.where(np.arange(150) == 7, Y == 0, Y).astype(int)
EXAMPLES = classes(240)
HINGE = {"objective": "hinge", "C": 5.0, "tol": 1e-4}
DEFAULTS = [
    *((face, {}) for face in FOUR),
    (StructBoostClassifier, {"class_weight": "balanced"}),
    (StructBoostMultiLabelClassifier, {"loss": "subset"}),
]
HINGES = [
    (face, HINGE | {"weak_learner": learner})
    for face in FOUR
    for learner in ("tree", ["linear", "stump"])
]


def fitted(face, parameters, labels=Y, **more):
    settings = {"max_iter": 7, "random_state": 0, **parameters, **more}
    return face(**settings).fit(*examples(face, labels))


@pytest.mark.slow
@pytest.mark.parametrize(("face", "parameters"), DEFAULTS + HINGES)
def test_a_resumed_fit_equals_one_without_a_checkpoint(face, parameters, tmp_path):
    whole = what_was_learned(fitted(face, parameters))
    path = tmp_path / "run.npz"
    for n_rounds in (1, 4):
        fitted(face, parameters, max_iter=n_rounds, checkpoint=path)
        refused("other data or parameters", fitted, face, parameters, OTHER, checkpoint=path)
    assert what_was_learned(fitted(face, parameters, checkpoint=path)) == whole
    assert what_was_learned(fitted(face, parameters, engine="threads", n_jobs=2)) == whole


@pytest.mark.parametrize(("face", "parameters"), DEFAULTS)
def test_the_default_needs_an_engine_that_it_runs_on(face, parameters):
    refused("take engine='threads'", fitted, face, parameters, engine="processes", n_jobs=2)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [2, 12])
def test_a_resumed_run_keeps_the_best_round(stop, tmp_path):
    def fit(**parameters):
        return StructBoostClassifier(
            early_stopping=True, validation_fraction=0.3, n_iter_no_change=4, random_state=0,
            **{"max_iter": 40, **parameters},
        ).fit(*EXAMPLES)  # fmt: skip

    whole = fit()
    assert 1 < whole.n_iter_ == len(whole.history_) < len(whole.validation_losses_) < 40
    path = tmp_path / "run.npz"
    fit(max_iter=stop, checkpoint=path)
    for resumed in (fit(checkpoint=path), fit(checkpoint=path)):
        assert resumed.validation_losses_ == whole.validation_losses_
        assert what_was_learned(resumed) == what_was_learned(whole)


def test_a_checkpoint_of_a_default_requires_its_seed_and_state(tmp_path):
    path = tmp_path / "run.npz"

    def fit(random_state=0):
        settings = {"max_iter": 3, "max_features": 1.0, "random_state": random_state}
        return StructBoostClassifier(checkpoint=path, **settings).fit(*EXAMPLES)

    fit()
    refused("other data or parameters", fit, 1)
    header, arrays = taken_apart(path.read_bytes())
    arrays["master/scores/x"] = 1.001 * arrays["master/scores/x"]
    path.write_bytes(put_together(header, arrays, sealed=True))
    refused("its objective is not that of its weights", fit)
    refused("a whole number as random_state", fit, np.random.RandomState(0))
