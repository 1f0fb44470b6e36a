"""Training on several engines: rounds in turns, tables on disk, workers that are killed."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ours.races import race, side_by_side
from benchmarks.runner.limits import Report, peak_memory, reset_peak_memory
from benchmarks.runner.protocol import timed
from benchmarks.runner.units import Result
from structboost import BinnedTable, MulticlassTask, StructBoost, Task
from structboost.engines.base import Workers

# The first rounds, in which new processes load compiled kernels and traffic is counted, are not
# timed.
WARM_UP_ROUNDS, RACE_ROUNDS = 10, 20
C = 1000.0
# Which engines take turns. A cluster that waits is not at rest, so each has a race of its own with
# the serial engine.
POOLS = (("serial", 1), ("threads", 2), ("processes", 1), ("processes", 2))
CLUSTERS = ((("serial", 1), ("dask", 1)), (("serial", 1), ("dask", 2)))
# The ceiling: two trainings on half of the rows that know nothing of each other, and one of them
# alone.
ALONE, SIDE_BY_SIDE = ("half the rows alone", 1), ("half the rows twice", 2)
KILL_ROUNDS = 30
COME_BACK_SECONDS = 60
N_FEATURES, N_CLASSES = 50, 4
_BATCH_ROWS = 1 << 17

Engine = tuple[str, int]
Examples = Callable[[], tuple[np.ndarray, np.ndarray]]


class PythonTask(MulticlassTask):
    """Classes whose argmax is Python, one example at a time, as in a user's first task."""

    separate = Task.separate


def batches(n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Made rows and their classes, batch by batch, the same each time; most features are noise."""
    centres = np.random.RandomState(0).normal(scale=0.7, size=(N_CLASSES, 8))
    for number, first in enumerate(range(0, n_rows, _BATCH_ROWS)):
        rng = np.random.default_rng([1, number])
        n = min(_BATCH_ROWS, n_rows - first)
        X = rng.standard_normal((n, N_FEATURES), dtype=np.float32)
        y = rng.integers(N_CLASSES, size=n)
        X[:, :8] += centres[y]
        yield X, y


def made(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """All made rows at once."""
    parts = list(batches(n_rows))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def made_trainer(task: MulticlassTask, **changes: Any) -> StructBoost:
    """A trainer that goes on to the last round."""
    parameters = {"C": C, "tol": 1e-9, "max_rounds": 10, "columns_per_channel": 1, **changes}
    return StructBoost(task, **parameters)


def run_race(
    engines: Sequence[Engine], examples: Examples, kind_of_task: type[MulticlassTask]
) -> Result:
    """Seconds of every round on each of some engines, what moves in it, and what was learned."""
    X, y = examples()
    task = kind_of_task(int(y.max()) + 1)
    # Compiles, and starts what is started once.
    made_trainer(task, max_rounds=2).fit(X[:2000], y[:2000])
    has_cluster = engines[-1][0] == "dask"
    halves = [] if has_cluster else [ALONE, SIDE_BY_SIDE]
    n_rounds = WARM_UP_ROUNDS + RACE_ROUNDS
    with cluster(*engines[-1]) as client, Traffic() as traffic:
        half = partial(_fit_half, examples, kind_of_task)
        trainings = [partial(_fit, task, X, y, client, traffic, engine) for engine in engines]
        trainings += [partial(side_by_side, half, n, n_rounds) for _, n in halves]
        seconds, facts = race(trainings, n_rounds)
    return {
        "engines": [
            {
                **{"engine": engine, "workers": workers},
                **{"seconds": of_rounds[WARM_UP_ROUNDS:].tolist(), **fact},
                "start_seconds": float(of_rounds[:WARM_UP_ROUNDS].sum()),
            }
            for (engine, workers), of_rounds, fact in zip(
                [*engines, *halves], seconds, facts, strict=True
            )
        ]
    }


def _fit(
    task: MulticlassTask,
    X: np.ndarray,
    y: np.ndarray,
    client: Any,
    traffic: Traffic,
    engine: Engine,
    after_round: Callable[[], None],
) -> Result:
    """Train on an engine; what moves in a round, and what was learned."""
    moved: list[float] = []

    def at_round(record: Mapping[str, Any], trainer: Any) -> None:
        if record["round"] == WARM_UP_ROUNDS:
            moved.extend(n / WARM_UP_ROUNDS for n in traffic.stop())
        after_round()

    name, n_jobs = engine
    # Each worker gets the calls and sends one sum.
    traffic.start(n_jobs if name in ("processes", "dask") else 1)
    own = {"engine": name, "n_jobs": n_jobs, "callbacks": [at_round]}
    with client.as_current() if client else nullcontext():
        trainer = made_trainer(task, max_rounds=WARM_UP_ROUNDS + RACE_ROUNDS, **own).fit(X, y)
    counts = dict(zip(("passes", "sent_bytes", "received_bytes"), moved, strict=True))
    return {**counts, "objective": trainer.objective_.hex()}


def _fit_half(
    examples: Examples, kind_of_task: type[MulticlassTask], after_round: Callable[[], None]
) -> None:
    """Train on half of the rows, as one of two that know nothing of each other."""
    X, y = examples()
    n = len(y) // 2
    own = {"max_rounds": WARM_UP_ROUNDS + RACE_ROUNDS, "callbacks": [lambda *_: after_round()]}
    made_trainer(kind_of_task(int(y.max()) + 1), **own).fit(X[:n], y[:n])


@contextmanager
def cluster(engine: str, workers: int) -> Iterator[Any]:
    """The client of a Dask cluster on this machine, if the engine is Dask."""
    if engine != "dask":
        yield None
        return
    import dask
    from distributed import Client, LocalCluster

    # Dask gives up a worker that is missing 15 seconds after a loss, even after a later one.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    one_each = {"n_workers": workers, "threads_per_worker": 1}
    with (
        LocalCluster(**one_each, dashboard_address=":0", silence_logs=50) as local,
        Client(local) as client,
    ):
        yield client


class Traffic:
    """Counts passes over the shards, and pickled bytes out and back, in threads that ask for it."""

    def __init__(self) -> None:
        self._here = threading.local()

    def __enter__(self) -> Traffic:
        self._sum = plain_sum = Workers.sum

        def counted(workers: Any, calls: Any) -> Any:
            found = plain_sum(workers, calls)
            counts = getattr(self._here, "counts", None)
            if counts is not None:
                sizes = [self._here.n_workers * len(pickle.dumps(one)) for one in (calls, found)]
                counts += np.array([1, *sizes])
            return found

        Workers.sum = counted  # type: ignore[method-assign]
        return self

    def start(self, n_workers: int) -> None:
        """Count in this thread."""
        self._here.counts, self._here.n_workers = np.zeros(3, int), n_workers

    def stop(self) -> np.ndarray:
        """Count no more; passes, and bytes sent and received."""
        counts, self._here.counts = self._here.counts, None
        return counts

    def __exit__(self, *error: object) -> None:
        Workers.sum = self._sum  # type: ignore[method-assign]


def train_from_disk(report: Report, engine: str, workers: int, n_rows: int) -> Result:
    """Bin batches into a table on disk and train on it; peak memory of both together."""
    made_trainer(MulticlassTask(N_CLASSES), max_rounds=2).fit(*made(2000))
    report({})
    reset_peak_memory()
    y = np.concatenate([labels for _, labels in batches(n_rows)])
    trainer = made_trainer(MulticlassTask(N_CLASSES), engine=engine, n_jobs=workers)
    with tempfile.TemporaryDirectory() as folder:
        rows = (X for X, _ in batches(n_rows))
        path = Path(folder) / "table"
        binned, binning_seconds = timed(BinnedTable.from_batches, path, rows, n_rows)
        trainer.fit(binned, y)
    history = trainer.history_
    # The first round starts things up.
    seconds = (history[-1]["seconds"] - history[0]["seconds"]) / (len(history) - 1)
    return {
        "binning_seconds": binning_seconds,
        "round_seconds": seconds,
        "passes": history[-1]["oracle_calls"] / len(history),
        "peak_bytes": peak_memory(),
        "objective": trainer.objective_.hex(),
    }


def survive(X: np.ndarray, y: np.ndarray, n_kills: int) -> Result:
    """Kill a worker again and again, at any moment of a fit, and compare with one process."""
    parameters = {"C": C, "tol": 1e-3, "max_rounds": KILL_ROUNDS}
    task = MulticlassTask(int(y.max()) + 1)
    alone = StructBoost(task, engine="serial", **parameters).fit(X, y)
    with cluster("dask", 2) as client:
        killer = _Killer(client, n_kills)
        killer.start()
        fits = lost = 0
        while killer.is_alive() or not fits:
            trainer = StructBoost(task, engine="dask", **parameters).fit(X, y)
            fits += 1
            lost += not _same(trainer, alone)
    if killer.kills < n_kills:
        raise RuntimeError(
            f"{killer.kills} workers were killed, and one did not come back within "
            f"{COME_BACK_SECONDS} seconds."
        )
    return {"kills": killer.kills, "fits": fits, "lost": lost, "rounds": len(alone.history_)}


class _Killer(threading.Thread):
    """Kills one of the workers every second or two, when both are up."""

    def __init__(self, client: Any, n_kills: int) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self._client, self._n_kills = client, n_kills

    def run(self) -> None:
        rng = np.random.default_rng(0)
        while self.kills < self._n_kills:
            time.sleep(rng.uniform(1.0, 2.0))
            pids = self._await_both()
            if pids is None:
                return
            os.kill(pids[rng.integers(2)], signal.SIGKILL)
            self.kills += 1

    def _await_both(self) -> list[int] | None:
        """Process ids of both workers, seen twice in a row.

        A worker that dies before its nanny has noted its start is not restarted.
        """
        before: list[int] = []
        for _ in range(COME_BACK_SECONDS * 5):
            try:
                pids = sorted(self._client.run(os.getpid).values())
            except Exception:  # one is just dying
                pids = []
            if len(pids) == 2 and pids == before:
                return pids
            before = pids
            time.sleep(0.2)
        return None


def _same(one: Any, other: Any) -> bool:
    """Whether two trainers learned the same, bit by bit."""
    histories = [
        [{k: v for k, v in r.items() if k != "seconds"} for r in t.history_] for t in (one, other)
    ]
    weights = np.array_equal(one.model_.weights, other.model_.weights)
    return histories[0] == histories[1] and weights and one.objective_ == other.objective_
