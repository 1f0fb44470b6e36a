"""Shards in processes of this machine, for tasks whose argmax is Python.

Threads cannot run Python in parallel.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
from loky import process_executor
from loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError

from structboost._typing import override
from structboost.engines import worker
from structboost.engines.base import Batch, Engine, Layout, Replay, Response, Workers
from structboost.engines.direct_connection import (
    ConnectionBrokenError,
    DirectConnection,
    Endpoint,
    listen,
)
from structboost.engines.failure import Failure
from structboost.errors import EngineError
from structboost.validation import checked_n_jobs

_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_HOST = "127.0.0.1"
# A process that dies this often in the same call dies because of it.
_MAX_LOSSES = 3


@dataclass(frozen=True)
class Processes(Engine):
    """Engine that processes shards in several processes of this machine.

    Parameters
    ----------
    n_jobs : int or None
        Number of processes; None means 1 or that of ``joblib.parallel_config``, -1 all cores.
    """

    n_jobs: int | None = None

    def __post_init__(self) -> None:
        checked_n_jobs(self.n_jobs)

    @classmethod
    @override
    def by_name(cls, n_jobs: int | None) -> Processes:
        return cls(n_jobs)

    @property
    @override
    def n_workers(self) -> int:
        return int(joblib.effective_n_jobs(self.n_jobs))

    @override
    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        return _ProcessWorkers(sources, layout, replay, self.n_workers)


class _ProcessWorkers(Workers):
    """Processes, each of which holds neighbouring shards and has a separate connection."""

    def __init__(
        self, sources: Sequence[Any], layout: Layout, replay: Replay, n_workers: int
    ) -> None:
        super().__init__(layout)
        self._run = uuid.uuid4().hex
        self._sources = sources
        self._replay = replay
        self._shards_of = layout.shares(n_workers)
        # A pool of one process each, so that a call goes to the process of its shards.
        self._pools: dict[int, Any] = {}
        self._connections: dict[int, DirectConnection] = {}
        # Futures of processes that are starting.
        self._endpoints: dict[int, Future[Endpoint]] = {}
        self._placing: dict[int, list[Future[Failure | None]]] = {}
        try:
            for k in self._start(range(len(self._shards_of)), None):
                self._replace(k, None)
        except BaseException:
            self.close()
            raise

    @override
    def responses(self, batch: Batch) -> Sequence[Response]:
        are_asked = [self._ask(k, batch) for k in range(len(self._shards_of))]
        return [self._response(k, is_asked, batch) for k, is_asked in enumerate(are_asked)]

    def _ask(self, k: int, batch: Batch) -> bool:
        """Send a batch to process ``k``, and return whether it is alive."""
        shards = self._shards_of[k]
        if k not in self._connections:
            return False  # an interrupt came during its replacement
        try:
            self._connections[k].ask(shards, batch.of_shards(shards))
        except ConnectionBrokenError:
            return False
        return True

    def _response(self, k: int, is_asked: bool, batch: Batch) -> Response:
        """Return the reply of process ``k`` or, if it died, of its replacement."""
        for _ in range(_MAX_LOSSES + 1):
            reply = self._receive(k) if is_asked else None
            if reply is not None and not reply.lost:
                return reply
            self._replace(k, batch)
            is_asked = self._ask(k, batch)
        raise _died(_MAX_LOSSES + 1, f"in {batch.calls[-1].method!r}")

    def _receive(self, k: int) -> Response | None:
        """Return the reply of process ``k``, or None if it died."""
        try:
            # A connection within this machine ends with its process and its forks.
            return self._connections[k].response(is_alive=lambda: True)
        except ConnectionBrokenError:
            return None

    def _replace(self, k: int, batch: Batch | None) -> None:
        """Start another process in place of ``k``, which was lost in a batch or at the start."""
        for _ in range(_MAX_LOSSES):
            self._end(k)
            lost = self._start([k], batch)
            if not lost:
                return
        if isinstance(lost[k], ConnectionBrokenError):
            raise EngineError(
                f"Processes of engine 'processes' cannot be reached at {_HOST}; if this machine "
                "has closed it, use engine='threads'."
            ) from lost[k]
        raise _died(_MAX_LOSSES + 1, "while it received its shards") from lost[k]

    def _start(self, processes: Sequence[int], batch: Batch | None) -> dict[int, Exception]:
        """Start processes, and return those that were lost with their exceptions."""
        lost: dict[int, Exception] = {}
        # All of them begin a step before the first is awaited in the next.
        for step in (self._listen, partial(self._connect, batch=batch), self._await_shards):
            for k in processes:
                if k not in lost:
                    try:
                        step(k)
                    except (TerminatedWorkerError, ConnectionBrokenError) as error:
                        lost[k] = error
                    except BrokenProcessPool as error:
                        raise EngineError(
                            "A process of engine 'processes' could not unpickle its examples or "
                            "the task; make their classes importable there, or use "
                            "engine='threads'."
                        ) from error
        return lost

    def _listen(self, k: int) -> None:
        """Start process ``k``, which listens and ends with the connection."""
        self._pools[k] = _pool()
        self._endpoints[k] = self._pools[k].submit(listen, self._run, _HOST, _end_process)

    def _connect(self, k: int, batch: Batch | None) -> None:
        """Connect to process ``k``, and send the sources of its shards."""
        self._connections[k] = DirectConnection(self._endpoints.pop(k).result())
        self._placing[k] = []
        for i in self._shards_of[k]:
            calls, last = ([], 0) if batch is None else (self._replay(i), batch.number)
            place = partial(worker.place, self._run, i, self._sources[i], calls, last)
            self._placing[k].append(self._pools[k].submit(place))

    def _await_shards(self, k: int) -> None:
        for future in self._placing.pop(k):
            failure = future.result()
            if failure is not None:
                raise failure.error()

    def _end(self, k: int) -> None:
        if k in self._pools:
            self._pools.pop(k).shutdown(kill_workers=True)
        if k in self._connections:
            self._connections.pop(k).close()

    @override
    def close(self) -> None:
        for k in range(len(self._shards_of)):
            self._end(k)


def _died(times: int, when: str) -> EngineError:
    return EngineError(
        f"A process of engine 'processes' died {times} times {when}; its memory may not be enough: "
        "use fewer processes, or engine='threads'."
    )


def _pool() -> Any:
    return ProcessPoolExecutor(
        max_workers=1, timeout=None, env=_ENVIRONMENT, initializer=_prepare_process
    )


def _end_process() -> None:
    """End the process, so that none is left when the trainer is killed."""
    os._exit(0)


def _prepare_process() -> None:
    # Loky replaces processes that grow, as if they leaked; here the training set makes them grow.
    process_executor._MAX_MEMORY_LEAK_SIZE = float("inf")
    # A terminal sends Ctrl-C to all processes, but the trainer decides what it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
