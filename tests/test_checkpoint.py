"""A run that is broken off goes on, and ends in the same model."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from structboost import Checkpoint, CheckpointError, MulticlassTask, RankingTask, StructBoost
from tests.test_engines import classes, what_was_learned


class Broken(Exception):
    """The run is broken off."""


def broken_after(round_):
    def breaks(record, trainer):
        if record["round"] == round_:
            raise Broken

    return breaks


@pytest.mark.parametrize("name", ["multiclass", "ranking", "tree"])
def test_a_broken_run_ends_in_the_model_of_an_unbroken_one(name, tmp_path):
    X, y = classes(400)
    task = RankingTask() if name == "ranking" else MulticlassTask(3)
    X, y = ([X], [(y == 1).astype(int)]) if name == "ranking" else (X, y)
    parameters = {"C": 10.0, "tol": 1e-4, "max_rounds": 12, "spread": 0.02}
    parameters["weak_learner"] = "tree" if name == "tree" else "stump"
    unbroken = StructBoost(task, **parameters).fit(X, y)
    checkpoint = Checkpoint(tmp_path / "run.npz", rounds=1)
    for stop in (1, 3, 5):
        with pytest.raises(Broken):
            StructBoost(task, checkpoint=checkpoint, callbacks=[broken_after(stop)], **parameters).fit(X, y)
    resumed = StructBoost(task, checkpoint=checkpoint, **parameters).fit(X, y)
    assert what_was_learned(resumed) == what_was_learned(unbroken)
    again = StructBoost(task, checkpoint=checkpoint, **parameters).fit(X, y)
    assert what_was_learned(again) == what_was_learned(unbroken)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_more_rounds_may_be_asked_for(tmp_path):
    X, y = classes(300)
    path = tmp_path / "run.npz"
    StructBoost(MulticlassTask(3), C=10.0, tol=1e-4, max_rounds=3, checkpoint=path).fit(X, y)
    more = StructBoost(MulticlassTask(3), C=10.0, tol=1e-4, max_rounds=8, checkpoint=path).fit(X, y)
    whole = StructBoost(MulticlassTask(3), C=10.0, tol=1e-4, max_rounds=8).fit(X, y)
    assert what_was_learned(more) == what_was_learned(whole)


def test_a_killed_process_is_gone_on_from(tmp_path):
    program = textwrap.dedent(
        """
        import sys, time
        from structboost import Checkpoint, MulticlassTask, StructBoost
        from tests.test_engines import classes

        def slow(record, trainer):
            print(record["round"], flush=True)
            time.sleep(0.2)

        parameters = {"C": 10.0, "tol": 1e-4, "max_rounds": 12, "callbacks": [slow]}
        checkpoint = Checkpoint(sys.argv[1], rounds=1)
        StructBoost(MulticlassTask(3), checkpoint=checkpoint, **parameters).fit(*classes(300))
        """
    )
    path = tmp_path / "run.npz"
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    while process.stdout.readline() != "4\n":
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    rounds = []
    trainer = StructBoost(
        MulticlassTask(3), C=10.0, tol=1e-4, max_rounds=12, checkpoint=path,
        callbacks=[lambda record, _: rounds.append(record["round"])],
    ).fit(*classes(300))  # fmt: skip
    assert 2 <= rounds[0] <= 5
    whole = StructBoost(MulticlassTask(3), C=10.0, tol=1e-4, max_rounds=12).fit(*classes(300))
    assert what_was_learned(trainer) == what_was_learned(whole)


def test_torn_and_foreign_files_are_refused(tmp_path):
    X, y = classes(200)
    path = tmp_path / "run.npz"

    def fit(C=10.0, y=y):
        return StructBoost(MulticlassTask(3), C=C, max_rounds=3, tol=1e-4, checkpoint=path).fit(X, y)

    model = fit()
    with pytest.raises(CheckpointError, match="other data or parameters; remove it"):
        fit(C=3.0)
    with pytest.raises(CheckpointError, match="not those of these data"):
        fit(y=np.roll(y, 1))
    whole = path.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="is torn"):
            fit()
    path.write_bytes(whole[:2000] + bytes(50) + whole[2050:])
    with pytest.raises(CheckpointError):
        fit()
    model.save(path)
    with pytest.raises(CheckpointError, match="no checkpoint of structboost"):
        fit()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formulation": "m_slack"}, "checkpoint needs formulation='one_slack'"),
        ({"weak_learner": "perceptron"}, "checkpoint needs stumps or trees"),
        ({"checkpoint": Checkpoint("run.npz", rounds=0)}, "rounds is 0"),
        ({"checkpoint": Checkpoint("run.npz", seconds=None)}, "neither rounds nor seconds"),
        ({"checkpoint": "no_such_folder/run.npz"}, "folder of the checkpoint"),
    ],
)
def test_checkpoints_that_cannot_be(changes, message):
    X, y = classes(50)
    with pytest.raises(ValueError, match=message):
        StructBoost(MulticlassTask(3), **{"C": 1.0, "checkpoint": "run.npz", **changes}).fit(X, y)
    with pytest.raises(ValueError, match="for fit"):
        StructBoost(MulticlassTask(3), C=1.0, checkpoint="run.npz").path(X, y, [1.0, 2.0])


def test_seconds_between_writings(tmp_path):
    X, y = classes(200)
    path = tmp_path / "run.npz"
    times = []
    StructBoost(
        MulticlassTask(3), C=10.0, tol=1e-6, max_rounds=4, checkpoint=Checkpoint(path, seconds=1e6),
        callbacks=[lambda record, _: times.append(path.exists())],
    ).fit(X, y)  # fmt: skip
    assert not any(times)
    assert path.exists()
    path.unlink()
    StructBoost(
        MulticlassTask(3), C=10.0, tol=1e-6, max_rounds=4, checkpoint=Checkpoint(path, seconds=0.0),
        callbacks=[lambda record, _: times.append(path.exists())],
    ).fit(X, y)  # fmt: skip
    assert times[-1]
    assert time.time() - path.stat().st_mtime < 60
