"""A run that is broken off goes on, and ends in the same model."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from structboost import BinnedTable, MulticlassTask, RankingTask, StructBoost
from structboost.errors import CheckpointError
from structboost.learners.pricing import CodeWord
from structboost.objectives import Exponential
from structboost.objectives.hinge import OneSlack, OneSlackMaster
from structboost.objectives.master import RestrictedMaster
from structboost.runtime import blocks
from structboost.solvers.bundle import CutPool
from structboost.training import checkpoint
from structboost.validation import SparseRows
from tests.helpers.refusals import refused
from tests.training.test_engines import classes, what_was_learned


@pytest.fixture(autouse=True)
def _each_round_is_written(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.npz"


def trainer(path=None, task=None, **changed):
    settings = {"C": 10.0, "tol": 1e-4, "max_rounds": 3, "checkpoint": path}
    return StructBoost(task or MulticlassTask(3), **settings | changed)


class Broken(Exception):
    """The run is broken off."""


def broken_after(round_):
    def breaks(record, trainer):
        if record["round"] == round_:
            raise Broken

    return breaks


PARAMETERS = {
    "tree": {"weak_learner": "tree"},
    "union": {"weak_learner": ["linear", "stump"]},
    "pairs": {"formulation": Exponential(), "random_state": 0, "spread": 0.0, "max_rounds": 24},
    "pairs by lbfgs": {"formulation": Exponential("lbfgs"), "spread": 0.0},
    "sparse pairs": {"formulation": Exponential(tau_max=1), "C": np.inf, "spread": 0.0},
    "ranking": {"task": RankingTask()},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multiclass", "sparse", *PARAMETERS])
def test_resumed_run_ends_in_the_model_of_an_unbroken_run(name, path):
    X, y = classes(400)
    X, y = ([X], [(y == 1).astype(int)]) if name == "ranking" else (X, y)
    if name.startswith("sparse"):
        X = SparseRows(sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)))
    parameters = {"max_rounds": 12, "spread": 0.02} | PARAMETERS.get(name, {})
    unbroken = what_was_learned(trainer(**parameters).fit(X, y))
    for stop in (1, 3, parameters["max_rounds"] - 7):
        with pytest.raises(Broken):
            trainer(path, callbacks=[broken_after(stop)], **parameters).fit(X, y)
    for _ in range(2):
        assert what_was_learned(trainer(path, **parameters).fit(X, y)) == unbroken
    assert [*path.parent.iterdir()] == [path]


def test_resumed_run_drops_idle_columns_at_the_same_round(monkeypatch, tmp_path):
    """Columns and cuts go after some rounds without a weight, which are counted across a break."""
    monkeypatch.setattr(RestrictedMaster, "max_idle_rounds", 3)
    monkeypatch.setattr(OneSlackMaster, "max_idle", 3)
    dropped = set()

    def note(owner, name):
        method = getattr(owner, name)

        def keep(self, kept):
            if not kept.all():
                dropped.add(name)
            return method(self, kept)

        monkeypatch.setattr(owner, name, keep)

    note(OneSlackMaster, "keep_columns")
    note(CutPool, "keep")
    data, parameters = classes(300), {"tol": 1e-6, "max_rounds": 10}
    unbroken = what_was_learned(trainer(**parameters).fit(*data))
    assert dropped == {"keep_columns", "keep"}
    for stop in (3, 5):
        path = tmp_path / f"{stop}.npz"
        with pytest.raises(Broken):
            trainer(path, callbacks=[broken_after(stop)], **parameters).fit(*data)
        assert what_was_learned(trainer(path, **parameters).fit(*data)) == unbroken


def test_foreign_checkpoints_are_refused(path):
    X, y = classes(200)
    model = trainer(path).fit(X, y)
    for other, labels in ((trainer(path, C=3.0), y), (model, np.roll(y, 1))):
        with pytest.raises(CheckpointError, match="other data or parameters; remove it"):
            other.fit(X, labels)
    with pytest.raises(CheckpointError, match="holds 3 rounds, but max_rounds is 2; give max"):
        trainer(path, max_rounds=2).fit(X, y)
    assert len(model.fit(X, y).history_) == 3
    model.save(path)
    with pytest.raises(CheckpointError, match="not a checkpoint of structboost"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"formulation": "m_slack"}, "can_resume, which MSlack .* take formulation='one_slack'"),
        ({"weak_learner": "perceptron"}, "can_resume, which PerceptronFamily .* stumps or trees"),
        ({"formulation": OneSlack(stabilize=False)}, "can_resume, which OneSlack .* .*one_slack"),
        ({"pricing": CodeWord(lambda: np.ones(3))}, "can_resume, which CodeWord .* pricing='own'"),
        ({"checkpoint": 3}, "checkpoint is 3"),
        (
            {
                "formulation": Exponential(),
                "random_state": np.random.RandomState(np.random.PCG64(0)),
            },
            "bits are of PCG64; give a whole number as random_state",
        ),
    ],
)
def test_parameters_that_cannot_be_resumed_are_refused(changed, message, path):
    data = classes(60)
    refused(message, trainer(**{"checkpoint": path} | changed).fit, *data)
    refused("checkpoint is for fit", trainer(path).path, *data, [1.0, 2.0])


@pytest.mark.parametrize("seconds", [1e6, 0.0])
def test_checkpoint_is_written_after_some_seconds_and_at_the_end(seconds, path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", seconds)
    times = []
    trainer(path, callbacks=[lambda record, _: times.append(path.exists())]).fit(*classes(200))
    assert times[-1] == (seconds == 0)
    assert path.exists()


def test_a_model_is_not_lost_where_its_checkpoint_cannot_be_written(path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.ArchiveFormat, "write", full)
    with pytest.warns(UserWarning, match="run.npz was not written.* No space left on device"):
        model = trainer(path).fit(*classes(200))
    assert_array_equal(model.model_.weights, trainer().fit(*classes(200)).model_.weights)


@pytest.mark.parametrize("weak_learner", ["stump", "tree", "linear", ["stump", "linear"]])
def test_a_checkpoint_of_other_features_is_refused(weak_learner, path):
    X, y = classes(200)
    X = np.column_stack((X, np.zeros(len(X))))
    fitted = trainer(path, weak_learner=weak_learner).fit(X, y)
    # No column uses the last feature, which is constant.
    for other in (np.column_stack((X[:, :-1], y)), np.roll(X, 1, axis=1)):
        with pytest.raises(CheckpointError, match="other data or parameters"):
            fitted.fit(other, y)
    fitted.fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("from_bins", [False, True])
def test_run_resumes_with_processes_and_from_a_table(from_bins, path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    X, y = classes(400)
    whole = trainer(max_rounds=4).fit(X, y)
    trainer(path, max_rounds=2).fit(X, y)
    if from_bins:
        X = BinnedTable.from_array(path.parent / "table", X)
    engine = {} if from_bins else {"engine": "processes", "n_jobs": 2}
    found, wanted = (
        what_was_learned(each, from_bins=from_bins)
        for each in (trainer(path, max_rounds=4, **engine).fit(X, y), whole)
    )
    assert found == wanted
