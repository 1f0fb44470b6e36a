"""Every engine gives the same model and history, however many workers compute."""

import os
import platform
import signal
import time
from multiprocessing import get_context

import joblib
import numpy as np
import psutil
import pytest
from loky import ProcessPoolExecutor
from numpy.random import default_rng

from structboost import BinaryTask, MulticlassTask, RankingTask, StructBoost
from structboost.errors import EngineError
from structboost.objectives import OneSlack
from structboost.runtime import blocks
from structboost.runtime.memory import keep_freed_memory
from structboost.training import Engine, checkpoint, engines, hosts
from tests.helpers.engine_tasks import (
    CannotBeTaken,
    ChainTask,
    HomeMadeError,
    InterruptedTask,
    KillsItsTaker,
    WrongTask,
    kill,
    raise_error,
    raise_home_made,
    raise_two_causes,
    raise_what_no_pickle_brings_home,
)

PARAMETERS = {"C": 10.0, "tol": 1e-4, "max_rounds": 4}


def classes(n, seed=0):
    rng = default_rng(seed)
    X, y = rng.normal(size=(n, 4)), rng.integers(3, size=n)
    X[:, 0] += y
    X[:, 1] = np.maximum(X[:, 1] - y, 0.0)  # a common bin
    return X, y


def problem(name):
    X, y = classes(400)
    if name == "ranking":
        return RankingTask(), [X], [(y == 1).astype(int)]
    if name != "chain":
        return MulticlassTask(3), X, y
    rng = default_rng(1)
    inputs = [rng.normal(size=(rng.integers(2, 9), 3)) for _ in range(90)]
    return ChainTask(), inputs, [(x[:, 0] + 0.5 * x[:, 1] > 0).astype(int) for x in inputs]


def what_was_learned(trainer, *, from_bins=False):
    """Everything but the time; from bins alone, no bound over dropped thresholds is known."""
    left_out = {"seconds", "bound_all", "gap_all"} if from_bins else {"seconds"}
    history = [
        {k: v for k, v in record.items() if k not in left_out} for record in trainer.history_
    ]
    model = trainer.model_
    tables = {
        kind: {k: a.tobytes() for k, a in m.learners.to_arrays().items()}
        for kind, m in model.members.items()
    }
    temperature = getattr(trainer, "temperature_", None)
    found = history, trainer.objective_, model.weights.tobytes(), model.stages.tobytes(), tables
    return *found, temperature


EYE = np.eye(4)


def on_processes(task, X=EYE, y=(1, -1, 1, -1), **settings):
    """Fit in one process by default, which is gone afterwards."""
    settings = {"C": 1.0, "engine": "processes", "n_jobs": 1, **settings}
    try:
        return StructBoost(task, **settings).fit(X, y)
    finally:
        assert not loky_processes()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("multiclass", {}),
        ("ranking", {}),
        ("chain", {}),
        ("multiclass", {"weak_learner": ["linear", "stump"]}),
        ("multiclass", {"weak_learner": "tree"}),
        ("multiclass", {"weak_learner": "linear", "pricing": "best"}),
        ("multiclass", {"pricing": "best"}),
        ("multiclass", {"exact": True, "spread": 0.1}),
        ("multiclass", {"formulation": OneSlack(stabilize=False)}),
    ],
)
@pytest.mark.usefixtures("small_blocks")
def test_threads_and_processes_learn_the_same_bits_as_one(name, changes):
    task, X, Y = problem(name)
    parameters = {**PARAMETERS, **changes}
    serial = StructBoost(task, engine="serial", **parameters).fit(X, Y)
    jobs = [3] if changes else [2, 8]
    several = [Engine("threads", n) for n in jobs] + [Engine("processes", 2)] * (not changes)
    for engine in several:
        other = StructBoost(task, engine=engine, **parameters).fit(X, Y)
        assert what_was_learned(other) == what_was_learned(serial), engine


OF_OTHER_TESTS = set()


@pytest.fixture(autouse=True)
def _processes_of_other_tests_do_not_count():
    """Pools of joblib wait for work of the next test."""
    OF_OTHER_TESTS.update(loky_processes())


def loky_processes():
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "LokyProcess" in " ".join(child.cmdline()) and child not in OF_OTHER_TESTS
    ]


@pytest.mark.slow
def test_processes_start_where_there_are_no_streams(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    on_processes(*problem("multiclass"), **PARAMETERS)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_fit_whose_process_died_resumes_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    task, X, Y = problem("multiclass")
    settings = {**PARAMETERS, "n_jobs": 2, "checkpoint": tmp_path / "run.npz"}

    def kill(record, trainer):
        if record["round"] == 3:
            victim = loky_processes()[-1]
            victim.kill()
            victim.wait(10)

    unbroken = StructBoost(task, engine="serial", **PARAMETERS).fit(X, Y)
    with pytest.raises(EngineError, match=r"died; .* checkpoint='run.npz' resumes"):
        on_processes(task, X, Y, callbacks=[kill], **settings)
    resumed = on_processes(task, X, Y, **settings)
    assert what_was_learned(resumed) == what_was_learned(unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["spawned", "received its shards", "in a cut"])
def test_a_process_that_dies_raises_an_error_and_leaves_none(moment, monkeypatch, tmp_path):
    task = WrongTask(kill) if moment == "in a cut" else KillsItsTaker(tmp_path)
    if moment == "spawned":
        monkeypatch.setitem(engines._ENVIRONMENT, "PYTHONHOME", str(tmp_path))
    with pytest.raises(EngineError, match="died; its memory may not be enough"):
        on_processes(task, y=[1, 0, 1, 0])


# What the loss of a process or of a connection also shows as.
ERRORS_LIKE_LOSSES = [
    ConnectionResetError("comm closed by my own server"),
    TimeoutError("my licence server is silent"),
    EOFError("my file is torn"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "kind", "message"),
    [
        (CannotBeTaken(), "EngineError", "could not unpickle its examples or the task .*make th"),
        *(
            (WrongTask(raise_error, error), type(error).__name__, str(error))
            for error in [ValueError("no such output"), *ERRORS_LIKE_LOSSES]
        ),
        (WrongTask(raise_home_made), "HomeMadeError", "made at home"),
        # Its constructor takes other arguments than it keeps.
        (WrongTask(raise_two_causes), "TwoCausesError", "one and another"),
        # It cannot be pickled.
        (
            WrongTask(raise_what_no_pickle_brings_home),
            "EngineError",
            r"ValueError\('locked', <unlocked",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_of_the_task_reaches_the_trainer_with_its_place(task, kind, message, monkeypatch):
    # As in a user's script, whose classes no other process can import.
    monkeypatch.setattr(HomeMadeError, "__module__", "__main__")
    with pytest.raises(Exception, match=message) as caught:
        on_processes(task)
    assert type(caught.value).__name__ == kind
    place = {"HomeMadeError": "in raise_home_made", "TwoCausesError": "in raise_two_causes"}.get(
        kind, ""
    )
    assert place in caught.value.__notes__[0]
    assert kind != "TwoCausesError" or caught.value.one == "one"


@pytest.mark.slow
def test_processes_leave_ctrl_c_to_the_trainer():
    X, y = classes(300)
    pids = []

    def look(record, trainer):
        pids.append([process.pid for process in loky_processes()])

    parameters = {**PARAMETERS, "max_rounds": 3}
    other = on_processes(InterruptedTask(3), X, y, callbacks=[look], **parameters)
    alone = StructBoost(MulticlassTask(3), **parameters).fit(X, y)
    assert what_was_learned(other) == what_was_learned(alone)
    assert pids[0] == pids[-1]


def _fit_until_killed(connection, moment):
    def kill(*_):
        connection.send([process.pid for process in loky_processes()])
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "start":
        hosts.Layout.__getstate__ = kill
    on_processes(MulticlassTask(3), *classes(300), callbacks=[kill])


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
@pytest.mark.parametrize("moment", ["start", "round"])
def test_processes_end_with_a_trainer_that_is_killed(moment):
    context = get_context("spawn")
    here, there = context.Pipe()
    trainer = context.Process(target=_fit_until_killed, args=(there, moment))
    trainer.start()
    (pid,) = here.recv()
    trainer.join()
    assert trainer.exitcode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while is_at_work(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_at_work(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def page_faults_of_arrays():
    """Page faults of a megabyte taken and freed, before and after."""
    import resource  # not on Windows

    counts = []
    for prepare in (lambda: None, keep_freed_memory):
        prepare()
        np.ones(1 << 17)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(10):
            np.ones(1 << 17)
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return counts


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the C library of GNU is told")
def test_freed_memory_stays_in_the_process():
    # As Dask starts its workers.
    with ProcessPoolExecutor(max_workers=1, env={"MALLOC_TRIM_THRESHOLD_": "65536"}) as pool:
        given_back, kept = pool.submit(page_faults_of_arrays).result()
    assert given_back >= 10 * (1 << 20) // os.sysconf("SC_PAGESIZE")
    assert kept < given_back / 10


def test_dask_engine_without_a_client_raises_an_error():
    with pytest.raises(EngineError, match="needs a client"):
        StructBoost(MulticlassTask(3), C=1.0, engine="dask").fit(*classes(60))


@pytest.mark.parametrize("formulation", ["m_slack", "exponential"])
def test_formulations_that_need_one_process_refuse_several(formulation):
    with pytest.raises(ValueError, match="supports threads only"):
        on_processes(BinaryTask(), formulation=formulation)


def _threads_in_a_process():
    return Engine("threads", 2).n_workers


@pytest.mark.slow
def test_the_number_of_threads_comes_from_joblib_in_processes_too():
    with joblib.parallel_config(n_jobs=2):
        assert Engine("threads").n_workers == 2
    assert Engine("threads").n_workers == 1
    assert Engine("threads", 3).n_workers == 3
    # Those of this pool are daemons, which may have no processes of their own.
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(_threads_in_a_process) == 2
