"""The same model and history from a Dask cluster, from collections too."""

import os
import threading

import dask
import distributed
import numpy as np
import pandas as pd
import pytest
from dask import array, dataframe

from structboost import MulticlassTask, StructBoost
from structboost.errors import EngineError, InterruptedFitWarning
from structboost.runtime import blocks
from structboost.training import checkpoint
from structboost.training import dask as dask_engine
from tests.contract.test_task_errors import FussyTask, OddChainError, check_note, fussy_chains
from tests.helpers.refusals import refused
from tests.training.test_engines import (
    ERRORS_LIKE_LOSSES,
    ChainTask,
    WrongTask,
    classes,
    problem,
    raise_error,
    what_was_learned,
)

# The cluster alone takes seconds.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("client")]
PARAMETERS = {"C": 10.0, "tol": 1e-4, "max_rounds": 4}


@pytest.fixture(scope="module")
def client():
    # One that is missing 15 seconds after a loss, be it for a later one, would be given up.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    # Workers import the tests' tasks by name.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (os.getcwd(), os.environ.get("PYTHONPATH")))
    )
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 32)


def serial(task, X, Y, *, from_bins=False, **changes):
    fitted = StructBoost(task, engine="serial", **{**PARAMETERS, **changes}).fit(X, Y)
    return what_was_learned(fitted, from_bins=from_bins)


def on_cluster(task, X, Y, **changes):
    fitted = StructBoost(task, **{"engine": "dask", **PARAMETERS, **changes}).fit(X, Y)
    # A collection's features are on the workers only.
    return what_was_learned(fitted, from_bins=hasattr(X, "__dask_graph__"))


@pytest.mark.parametrize("name", ["multiclass", "ranking", "chain"])
def test_a_cluster_learns_the_same_bits_as_one(name):
    task, X, Y = problem(name)
    assert on_cluster(task, X, Y) == serial(task, X, Y)


def test_arrays_are_not_gathered():
    X, y = classes(400)
    expected = serial(MulticlassTask(3), X, y, from_bins=True)
    spread_X, spread_y = array.from_array(X, chunks=(77, 3)), array.from_array(y, chunks=150)
    assert on_cluster(MulticlassTask(3), spread_X, spread_y) == expected
    assert on_cluster(MulticlassTask(3), spread_X, y) == expected
    union = {"weak_learner": ["linear", "stump"]}
    found = on_cluster(MulticlassTask(3), spread_X, spread_y, **union)
    assert found == serial(MulticlassTask(3), X, y, from_bins=True, **union)
    # Chunks of unknown length.
    known = array.from_array(np.ones(400, bool), chunks=100)
    assert on_cluster(MulticlassTask(3), spread_X[known], spread_y[known]) == expected
    frame = dataframe.from_dask_array(spread_X, columns=list("abcd"))
    assert on_cluster(MulticlassTask(3), frame.to_dask_array(lengths=True), spread_y) == expected
    refused(
        r"give an array, such as X\.to_dask_array", on_cluster, MulticlassTask(3), frame, spread_y
    )


def test_ctrl_c_on_a_cluster_leaves_a_model(monkeypatch):
    task, X, Y = problem("multiclass")
    left = iter(range(15))
    replies = dask_engine.DaskWorkers.replies

    def interrupted(workers, messages):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return replies(workers, messages)

    trainer = StructBoost(task, engine="dask", **PARAMETERS)
    with monkeypatch.context() as patch:
        patch.setattr(dask_engine.DaskWorkers, "replies", interrupted)
        with pytest.warns(InterruptedFitWarning):
            trainer.fit(X, Y)
    assert trainer.interrupted_
    assert len(trainer.predict(X[:3])) == 3
    assert on_cluster(task, X, Y) == serial(task, X, Y)


@pytest.mark.parametrize(
    "error", [*ERRORS_LIKE_LOSSES[:2], RuntimeError("no comm to the Actor")], ids=repr
)
def test_an_error_of_the_task_is_not_taken_for_the_loss_of_a_worker(error):
    with pytest.raises(type(error), match=str(error)) as caught:
        StructBoost(WrongTask(raise_error, error), C=1.0, engine="dask").fit(
            np.eye(100), [1, -1] * 50
        )
    assert type(caught.value) is type(error)
    assert "Raised by the task's separate for example 0, X[0]." in caught.value.__notes__


def test_errors_name_the_example_among_all_of_a_cluster():
    with pytest.raises(OddChainError) as caught:
        on_cluster(FussyTask("argmax"), *fussy_chains())
    check_note(caught.value, "argmax", 60)


def torn_file(x):
    raise OSError("comm.parquet is torn")


def test_error_of_loading_a_partition_reaches_the_trainer():
    """Chunks of known size, so that they are first loaded where the shards are made."""
    X, y = classes(100)
    spread = array.from_array(X, chunks=(25, 4)).map_blocks(torn_file, dtype=float)
    with pytest.raises(OSError, match=r"comm\.parquet is torn"):
        on_cluster(MulticlassTask(3), spread, y)


def test_fit_whose_worker_died_resumes_from_its_checkpoint(client, tmp_path, monkeypatch):
    X, y = classes(400)
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    path = tmp_path / "run.npz"

    def kill(record, trainer):
        if record["round"] == 2:
            os.kill(next(iter(client.run(os.getpid).values())), 9)

    with pytest.raises(EngineError, match=r"was lost; .* checkpoint='run.npz' resumes"):
        on_cluster(MulticlassTask(3), X, y, checkpoint=path, callbacks=[kill])
    resumed = on_cluster(MulticlassTask(3), X, y, checkpoint=path)
    assert resumed == serial(MulticlassTask(3), X, y)


def test_a_client_that_is_lost_ends_the_fit_at_once():
    with distributed.Client(processes=False, n_workers=1, dashboard_address=None) as lost:
        with pytest.raises(EngineError, match="client was lost"):
            on_cluster(MulticlassTask(3), *classes(400), callbacks=[lambda *_: lost.close()])


def test_run_waits_for_a_cluster_without_workers():
    X, y = classes(100)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster),
    ):
        late = threading.Timer(1.0, cluster.scale, args=[1])
        late.start()
        assert on_cluster(MulticlassTask(3), X, y) == serial(MulticlassTask(3), X, y)
        late.join()


def shaken(x):
    return x + np.random.default_rng().normal(size=x.shape)


def test_data_that_change_whenever_they_are_computed_are_refused():
    X, y = classes(100)
    spread = array.from_array(X, chunks=(25, 4)).map_blocks(shaken, dtype=float)
    refused(r"other values in row 0 .*persist", on_cluster, MulticlassTask(3), spread, y)
    on_cluster(MulticlassTask(3), spread.persist(), y)
    nullable = dataframe.from_pandas(pd.DataFrame(X).convert_dtypes(), npartitions=3)
    on_cluster(MulticlassTask(3), nullable.to_dask_array(lengths=True), y)


X60, Y60 = classes(60)


def holed(value):
    return np.where(np.arange(240).reshape(60, 4) == 30, value, X60)


@pytest.mark.parametrize(
    ("task", "X", "Y", "changes", "message"),
    [
        (MulticlassTask(3), X60, Y60, {"engine": "threads"}, "use engine='dask'"),
        (MulticlassTask(3), X60, Y60[1:], {}, "60 examples and Y 59"),
        (ChainTask(), X60, Y60, {}, "one part per example"),
        (MulticlassTask(3), X60, Y60, {"weak_learner": "tree"}, "weak_learner='stump'"),
        (MulticlassTask(3), holed(np.inf), Y60, {}, "infinite"),
        (
            MulticlassTask(3), holed(np.nan), Y60, {"weak_learner": "linear"},
            "weak_learner='linear' cannot take",
        ),
    ],
)  # fmt: skip
def test_bad_dask_collections_raise_errors(task, X, Y, changes, message):
    refused(message, on_cluster, task, array.from_array(X, chunks=(20, 4)), Y, **changes)
