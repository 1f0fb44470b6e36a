"""What is learned by default stays what it is, whoever writes or computes, and can be resumed."""

import numpy as np
import pytest

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.errors import CheckpointError
from tests.helpers.damaged_files.archives import put_together, taken_apart
from tests.helpers.four_faces import DATA
from tests.training.test_engines import classes, what_was_learned

X, Y = classes(240)


DEFAULTS = {
    "classes": (StructBoostClassifier, {}),
    "weighted classes": (StructBoostClassifier, {"class_weight": "balanced"}),
    "queries": (StructBoostRanker, {}),
    "label sets": (StructBoostMultiLabelClassifier, {}),
    "sets as wholes": (StructBoostMultiLabelClassifier, {"loss": "subset"}),
    "sequences": (StructBoostTagger, {}),
}


@pytest.fixture(params=DEFAULTS)
def default(request):
    face, parameters = DEFAULTS[request.param]
    return lambda **more: face(**{"max_iter": 7, **parameters, **more}).fit(*DATA[face])


@pytest.mark.slow
def test_a_resumed_default_equals_a_run_without_a_checkpoint(default, tmp_path):
    whole = what_was_learned(default())
    path = tmp_path / "run.npz"
    for n_rounds in (1, 4):
        default(max_iter=n_rounds, checkpoint=path)
    assert what_was_learned(default(checkpoint=path)) == whole
    assert what_was_learned(default(engine="threads", n_jobs=2)) == whole


def test_the_default_needs_an_engine_that_it_runs_on(default):
    with pytest.raises(ValueError, match="take engine='threads'"):
        default(engine="processes", n_jobs=2)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [2, 12])
def test_a_resumed_run_keeps_the_best_round(stop, tmp_path):
    def fit(**parameters):
        return StructBoostClassifier(
            early_stopping=True, validation_fraction=0.3, n_iter_no_change=4, random_state=0,
            **{"max_iter": 40, **parameters},
        ).fit(X, Y)  # fmt: skip

    whole = fit()
    assert 1 < whole.n_iter_ == len(whole.history_) < len(whole.validation_losses_) < 40
    path = tmp_path / "run.npz"
    fit(max_iter=stop, checkpoint=path)
    for resumed in (fit(checkpoint=path), fit(checkpoint=path)):
        assert resumed.validation_losses_ == whole.validation_losses_
        assert what_was_learned(resumed) == what_was_learned(whole)


def test_a_checkpoint_of_a_default_requires_its_seed_and_data(tmp_path):
    path = tmp_path / "run.npz"

    def fit(y=Y, random_state=0):
        settings = {"max_iter": 3, "max_features": 1.0, "random_state": random_state}
        return StructBoostClassifier(checkpoint=path, **settings).fit(X, y)

    fit()
    with pytest.raises(CheckpointError, match="other data or parameters"):
        fit(random_state=1)
    with pytest.raises(CheckpointError, match="other data or parameters"):
        fit(y=np.roll(Y, 1))
    header, arrays = taken_apart(path.read_bytes())
    arrays["master/scores/x"] = 1.001 * arrays["master/scores/x"]
    path.write_bytes(put_together(header, arrays, sealed=True))
    with pytest.raises(CheckpointError, match="its objective is not that of its weights"):
        fit()
    with pytest.raises(ValueError, match="a whole number as random_state"):
        fit(random_state=np.random.RandomState(0))
