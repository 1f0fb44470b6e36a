"""Engines, which compute on the shards of a training set.

Calls of a run, in this order::

    engine.n_workers                               before the shards are cut
    workers = engine.start(sources, layout)        each shard is ``source.shard()``
    repeat  workers.run(method, ...)     =  [r_0, r_1, ...]    results of the shards
            workers.sum(method, ...)     =  r_0 + r_1 + ...    along the tree of blocks
            workers.tell(method, ...)                          perhaps with the next of these
    workers.close()

Shards may be in other processes, of this machine or (:mod:`structboost.training.dask`) of a
cluster.  Python cannot run in parallel by threads, so processes are for tasks whose argmax is
Python.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import cloudpickle
import joblib
from loky.backend import get_context

from structboost._typing import override
from structboost.errors import EngineError, usable, warn_user
from structboost.training.hosts import (
    Call,
    Failure,
    Host,
    Layout,
    RemoteWorkers,
    Workers,
    telling_of_losses,
)
from structboost.validation import checked_choice, checked_n_jobs, shown

_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

EngineName = Literal["serial", "threads", "processes", "dask"]


@dataclass(frozen=True)
class Engine:
    """Where the shards of a fit are, and how many workers there are.

    Parameters
    ----------
    name : {"serial", "threads", "processes", "dask"}
        Threads run in parallel where compiled code releases the interpreter's lock.
    n_jobs : int or None
        Number of threads or processes; None means 1 or that of ``joblib.parallel_config``, -1 all
        cores.
    """

    name: EngineName
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        checked_choice(self.name, "engine", EngineName)
        checked_n_jobs(self.n_jobs)

    @property
    def in_process(self) -> bool:
        """Whether the workers are threads of this process."""
        return self.name in ("serial", "threads")

    @property
    def n_workers(self) -> int:
        """Number of workers that compute at a time, from 1."""
        if self.name == "dask":
            from structboost.training.dask import current_addresses  # needs Dask

            return max(1, len(current_addresses()))
        if self.name == "processes":
            return int(joblib.effective_n_jobs(self.n_jobs))
        # Threads may be started where processes may not, such as in a process of a pool.
        with joblib.parallel_config(backend="threading"):
            return 1 if self.name == "serial" else int(joblib.effective_n_jobs(self.n_jobs))

    def check_takes(self, X: Any) -> None:
        """Raise ValueError if inputs are on a cluster, and the workers are not."""
        if hasattr(X, "__dask_graph__") and self.name != "dask":
            raise ValueError(
                f"X is a Dask {type(X).__name__}, which engine={self.name!r} cannot train on; use "
                "engine='dask'."
            )

    def start(self, sources: Sequence[Any], layout: Layout) -> Workers:
        """Make the shards.

        Parameters
        ----------
        sources : sequence
            Plain data of which each shard is made, by its method ``shard()``; it can be sent to a
            worker.
        layout : Layout
            How examples are divided into blocks and shards.
        """
        if self.name == "dask":
            from structboost.training.dask import DaskWorkers

            return DaskWorkers(sources, layout)
        workers = _LocalWorkers if self.in_process else _ProcessWorkers
        return workers(sources, layout, self.n_workers)


class _LocalWorkers(Workers):
    def __init__(self, sources: Sequence[Any], layout: Layout, n_threads: int) -> None:
        super().__init__(layout)
        n_threads = min(n_threads, len(sources))
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        place = map if self._pool is None else self._pool.map
        self._shards = list(place(lambda source: source.shard(), sources))

    @override
    def run(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        ends = [()] * len(self._shards) if each is None else [(argument,) for argument in each]
        calls = [getattr(shard, method) for shard in self._shards]
        if self._pool is not None:
            return list(self._pool.map(lambda call, last: call(*arguments, *last), calls, ends))
        results = []
        for call, last in zip(calls, ends, strict=True):
            results.append(call(*arguments, *last))
        return results

    @override
    def close(self) -> None:
        if self._pool is not None:
            # After Ctrl-C a thread may still be in an argmax, whose result is not awaited.
            self._pool.shutdown(wait=False, cancel_futures=True)


def engine_of(engine: EngineName | Engine, n_jobs: int | None) -> Engine:
    """Return the engine itself, or the engine of a name with ``n_jobs`` workers."""
    checked_n_jobs(n_jobs)
    return engine if isinstance(engine, Engine) else Engine(engine, n_jobs)


def warn_of_idle_jobs(
    n_jobs: int | None, engine: EngineName | Engine, about: str, *, shares_work: bool
) -> None:
    """Warn that a fit, which ``about`` describes, does not use the workers that were set.

    UserWarning if ``n_jobs`` means several, and the engine or the fit works alone.
    """
    if n_jobs is None or Engine("threads", n_jobs).n_workers == 1:
        return
    if isinstance(engine, Engine) or engine == "serial":
        warn_user(
            f"n_jobs is {n_jobs}, which engine={shown(engine)} does not read; leave n_jobs out, or "
            "write engine='threads'.",
            UserWarning,
        )
    elif not shares_work:
        warn_user(
            f"n_jobs is {n_jobs}, and {about} trains on one core. Several cores are used by "
            "objective='hinge' (formulation='one_slack' of trainers), wherever stumps are "
            "searched, and where trees predict more than 8,192 rows.",
            UserWarning,
        )


class _ProcessWorkers(RemoteWorkers):
    """Processes, each at the other end of a pipe, with which it ends."""

    def __init__(self, sources: Sequence[Any], layout: Layout, n_workers: int) -> None:
        super().__init__(layout, n_workers)
        self._processes = []
        self._connections = []
        context = get_context("loky")
        try:
            for _ in self.shards_of:
                here, there = context.Pipe()
                self._connections.append(here)
                with there:
                    process = context.Process(target=_serve, args=(there,), env=_ENVIRONMENT)
                    # It flushes the streams, which may be missing or closed.
                    out, err = usable(sys.stdout), usable(sys.stderr)
                    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                        process.start()
                self._processes.append(process)
            with _telling_of_deaths():
                for connection, shards in zip(self._connections, self.shards_of, strict=True):
                    # Classes of a script are sent by value.
                    connection.send(cloudpickle.dumps([sources[i] for i in shards]))
        except BaseException:
            self.close()
            raise

    @override
    def replies(self, messages: Sequence[Sequence[Call]]) -> list[Any]:
        with _telling_of_deaths():
            for connection, message in zip(self._connections, messages, strict=True):
                connection.send(message)
            return [connection.recv() for connection in self._connections]

    @override
    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
            process.join()


_telling_of_deaths = partial(
    telling_of_losses,
    (EOFError, OSError),
    "A process of engine 'processes' died; its memory may not be enough: use fewer processes, or "
    "engine='threads'.",
)


def _serve(connection: Any) -> None:
    """Respond to the trainer until it closes the connection, or is gone."""
    # A terminal sends Ctrl-C to all processes, but the trainer decides what it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError), connection:
        pickled = connection.recv()
        try:
            sources = pickle.loads(pickled)
        except Exception as error:
            sources = [
                Failure.of(
                    EngineError(
                        "A process of engine 'processes' could not unpickle its examples or the "
                        f"task ({error!r}); make their classes importable there, or use "
                        "engine='threads'."
                    )
                )
            ]
        host = Host(*sources)
        while True:
            connection.send(host.respond(connection.recv()))
