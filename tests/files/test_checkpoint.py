"""A run that is broken off goes on, and ends in the same model."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

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
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multiclass", "ranking", "sparse", *PARAMETERS])
def test_resumed_run_ends_in_the_model_of_an_unbroken_run(name, tmp_path):
    X, y = classes(400)
    task = RankingTask() if name == "ranking" else MulticlassTask(3)
    X, y = ([X], [(y == 1).astype(int)]) if name == "ranking" else (X, y)
    if name.startswith("sparse"):
        X = SparseRows(sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)))
    parameters = {"C": 10.0, "tol": 1e-4, "max_rounds": 12, "spread": 0.02}
    parameters |= PARAMETERS.get(name, {})
    unbroken = StructBoost(task, **parameters).fit(X, y)
    path = tmp_path / "run.npz"
    for stop in (1, 3, parameters["max_rounds"] - 7):
        with pytest.raises(Broken):
            StructBoost(task, checkpoint=path, callbacks=[broken_after(stop)], **parameters).fit(
                X, y
            )
    resumed = StructBoost(task, checkpoint=path, **parameters).fit(X, y)
    assert what_was_learned(resumed) == what_was_learned(unbroken)
    again = StructBoost(task, checkpoint=path, **parameters).fit(X, y)
    assert what_was_learned(again) == what_was_learned(unbroken)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_resumed_run_drops_idle_columns_at_the_same_round(monkeypatch, tmp_path):
    """Columns and cuts go after some rounds without a weight, which are counted across a break."""
    monkeypatch.setattr(RestrictedMaster, "max_idle_rounds", 3)
    monkeypatch.setattr(OneSlackMaster, "max_idle", 3)
    dropped = []

    def note(owner, name):
        method = getattr(owner, name)

        def keep(self, kept):
            dropped.append((name, (~kept).any()))
            return method(self, kept)

        monkeypatch.setattr(owner, name, keep)

    note(OneSlackMaster, "keep_columns")
    note(CutPool, "keep")
    X, y = classes(300)
    parameters = {"C": 10.0, "tol": 1e-6, "max_rounds": 10}
    unbroken = StructBoost(MulticlassTask(3), **parameters).fit(X, y)
    assert {name for name, some in dropped if some} == {"keep_columns", "keep"}
    for stop in (3, 5):
        parameters["checkpoint"] = tmp_path / f"{stop}.npz"
        with pytest.raises(Broken):
            StructBoost(MulticlassTask(3), callbacks=[broken_after(stop)], **parameters).fit(X, y)
        resumed = StructBoost(MulticlassTask(3), **parameters).fit(X, y)
        assert what_was_learned(resumed) == what_was_learned(unbroken)


def test_foreign_checkpoints_are_refused(tmp_path):
    X, y = classes(200)
    path = tmp_path / "run.npz"
    trainer = StructBoost(MulticlassTask(3), C=10.0, max_rounds=3, tol=1e-4, checkpoint=path)
    model = trainer.fit(X, y)
    for other, labels in ((clone(trainer).set_params(C=3.0), y), (trainer, np.roll(y, 1))):
        with pytest.raises(CheckpointError, match="other data or parameters; remove it"):
            other.fit(X, labels)
    model.save(path)
    with pytest.raises(CheckpointError, match="not a checkpoint of structboost"):
        trainer.fit(X, y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formulation": "m_slack"}, "which MSlack .* take formulation='one_slack'"),
        ({"weak_learner": "perceptron"}, "which PerceptronFamily .* stumps or trees"),
        ({"formulation": OneSlack(stabilize=False)}, "which OneSlack .* take .*one_slack"),
        ({"pricing": CodeWord(lambda: np.ones(3))}, "which CodeWord .* take pricing='own'"),
    ],
)
def test_bad_checkpoint_parameters_raise_errors(changes, message):
    X, y = classes(50)
    trainer = StructBoost(MulticlassTask(3), C=1.0, checkpoint="run.npz")
    refused(
        f"checkpoint needs can_resume, {message}", clone(trainer).set_params(**changes).fit, X, y
    )
    refused("for fit", trainer.path, X, y, [1.0, 2.0])


@pytest.mark.parametrize("seconds", [1e6, 0.0])
def test_checkpoint_is_written_after_some_seconds_and_at_the_end(seconds, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", seconds)
    X, y = classes(200)
    path, times = tmp_path / "run.npz", []
    StructBoost(
        MulticlassTask(3), C=10.0, tol=1e-6, max_rounds=4, checkpoint=path,
        callbacks=[lambda record, _: times.append(path.exists())],
    ).fit(X, y)  # fmt: skip
    assert times[-1] == (seconds == 0)
    assert path.exists()
    refused("checkpoint is 3", StructBoost(MulticlassTask(3), C=1.0, checkpoint=3).fit, X, y)


@pytest.mark.parametrize("weak_learner", ["stump", "tree", "linear", ["stump", "linear"]])
def test_a_checkpoint_of_other_features_is_refused(weak_learner, tmp_path):
    X, y = classes(200)
    X = np.column_stack((X, np.zeros(len(X))))
    trainer = StructBoost(
        MulticlassTask(3), C=10.0, max_rounds=3, tol=1e-4, weak_learner=weak_learner,
        checkpoint=tmp_path / "run.npz",
    ).fit(X, y)  # fmt: skip
    # No column uses the last feature, which is constant.
    for other in (np.column_stack((X[:, :-1], y)), np.roll(X, 1, axis=1)):
        with pytest.raises(CheckpointError, match="other data or parameters"):
            trainer.fit(other, y)
    trainer.fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "table"])
def test_run_resumes_with_another_engine_and_from_a_table(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    X, y = classes(400)

    def fit(X, max_rounds, **more):
        trainer = StructBoost(MulticlassTask(3), C=10.0, tol=1e-4, max_rounds=max_rounds, **more)
        return trainer.fit(X, y)

    resumes, whole = {"checkpoint": tmp_path / "run.npz"}, fit(X, 4)
    fit(X, 2, **resumes)
    if engine == "table":
        more = fit(BinnedTable.from_array(tmp_path / "table", X), 4, **resumes)
    else:
        more = fit(X, 4, engine=engine, n_jobs=2, **resumes)
    from_bins = engine == "table"
    assert what_was_learned(more, from_bins=from_bins) == what_was_learned(
        whole, from_bins=from_bins
    )


def test_fewer_rounds_than_a_checkpoint_holds_are_refused(tmp_path):
    X, y = classes(200)
    trainer = StructBoost(
        MulticlassTask(3), C=10.0, tol=1e-6, max_rounds=4, checkpoint=tmp_path / "run.npz"
    ).fit(X, y)
    message = r"holds 4 rounds, but max_rounds is 3; give max_rounds=4 or more"
    with pytest.raises(CheckpointError, match=message):
        trainer.set_params(max_rounds=3).fit(X, y)
    assert len(trainer.set_params(max_rounds=4).fit(X, y).history_) == 4


def test_random_orders_whose_state_is_not_known_are_refused(tmp_path):
    trainer = StructBoost(
        MulticlassTask(3), C=10.0, max_rounds=2, formulation=Exponential(),
        random_state=np.random.RandomState(np.random.PCG64(0)), checkpoint=tmp_path / "run.npz",
    )  # fmt: skip
    refused("bits are of PCG64; give a whole number as random_state", trainer.fit, *classes(60))
