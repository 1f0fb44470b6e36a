"""Shards in processes of this machine: for tasks whose argmax is Python, which threads cannot run side by side."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import joblib
from loky import process_executor
from loky.process_executor import ProcessPoolExecutor

from structboost.engines import worker
from structboost.engines.base import Answer, Batch, Engine, Layout, Replay, Workers
from structboost.engines.direct_connection import ConnectionBrokenError, DirectConnection, Endpoint, listen
from structboost.exceptions import EngineError

_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_HOST = "127.0.0.1"
# A process that dies so often in the same call dies of the call.
_MAX_LOSSES = 3


@dataclass(frozen=True)
class Processes(Engine):
    """Shards in processes of this machine.

    Parameters
    ----------
    n_jobs : int or None
        Processes; None: 1, or what ``joblib.parallel_config`` says; -1: all cores.
    """

    n_jobs: int | None = None

    @property
    def n_workers(self) -> int:
        """Number of processes."""
        return int(joblib.effective_n_jobs(self.n_jobs))

    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        """Send each process its shards."""
        return _ProcessWorkers(sources, layout, replay, self.n_workers)


class _ProcessWorkers(Workers):
    """Each share of neighbouring shards is with one process, which has a connection of its own."""

    def __init__(self, sources: Sequence[Any], layout: Layout, replay: Replay, n_workers: int) -> None:
        super().__init__(layout)
        self._run = uuid.uuid4().hex
        self._sources = sources
        self._replay = replay
        self._shares = layout.shares(n_workers)
        # A pool of one process each, so that a call goes to where its shards are.
        self._pools = [_pool() for _ in self._shares]
        self._connections: dict[int, DirectConnection] = {}
        try:
            # All of them start before the first is waited for.
            for k, endpoint in enumerate([self._listening(k) for k in range(len(self._pools))]):
                self._connections[k] = DirectConnection(endpoint.result())
            for future in [future for k in range(len(self._pools)) for future in self._place(k, None)]:
                future.result()
        except ConnectionBrokenError as error:
            self.close()
            raise EngineError(
                f"Processes of engine 'processes' cannot be reached at {_HOST}; if this machine has closed it, take "
                "engine='threads'."
            ) from error
        except BaseException:
            self.close()
            raise

    def _answers(self, batch: Batch) -> Sequence[Answer]:
        asked = [self._ask(k, batch) for k in range(len(self._pools))]
        return [self._answer(k, is_asked, batch) for k, is_asked in enumerate(asked)]

    def _ask(self, k: int, batch: Batch) -> bool:
        """Send a batch to process ``k``, if it is there."""
        shards = self._shares[k]
        try:
            self._connections[k].ask(shards, batch.of_shards(shards))
        except ConnectionBrokenError:
            return False
        return True

    def _answer(self, k: int, is_asked: bool, batch: Batch) -> Answer:
        """What process ``k`` says; if it died, or was replaced, what the next in its place says."""
        for _ in range(_MAX_LOSSES + 1):
            answer = self._heard(k) if is_asked else None
            if answer is not None and not answer.lost:
                return answer
            self._pools[k].shutdown(kill_workers=True)
            self._connections[k].close()
            self._pools[k] = _pool()
            try:
                self._connections[k] = DirectConnection(self._listening(k).result())
                for future in self._place(k, batch):
                    future.result()
            except (BrokenProcessPool, ConnectionBrokenError):
                is_asked = False
                continue
            is_asked = self._ask(k, batch)
        raise EngineError(
            f"A process of engine 'processes' died {_MAX_LOSSES + 1} times in {batch.calls[-1].method!r}; its memory "
            "may not be enough: take fewer processes, or engine='threads'."
        )

    def _heard(self, k: int) -> Answer | None:
        """What process ``k`` says, if it lives to say it."""
        try:
            # When a process of this machine ends, so does its connection (or when the last that it forked does).
            return self._connections[k].answer(is_alive=lambda: True)
        except ConnectionBrokenError:
            return None

    def _place(self, k: int, batch: Batch | None) -> list[Future[Any]]:
        """Make the shards of process ``k``: at first, or again in the midst of a batch."""
        number = 0 if batch is None else batch.number
        return [
            self._pools[k].submit(
                worker.place, self._run, i, self._sources[i], [] if batch is None else self._replay(i), number
            )
            for i in self._shares[k]
        ]

    def _listening(self, k: int) -> Future[Endpoint]:
        """Where process ``k``, which ends with the connection, can be reached."""
        return self._pools[k].submit(listen, self._run, _HOST, _end_process)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.shutdown(kill_workers=True)
        for connection in self._connections.values():
            connection.close()


def _pool() -> Any:
    return ProcessPoolExecutor(max_workers=1, timeout=None, env=_ENVIRONMENT, initializer=_prepare_process)


def _end_process() -> None:
    """Not to be left over when the trainer was killed."""
    os._exit(0)


def _prepare_process() -> None:
    # Processes that grow are replaced by Loky, which takes it for a leak; here it is the training set.
    process_executor._MAX_MEMORY_LEAK_SIZE = float("inf")
    # A terminal sends Ctrl-C to all processes; what it ends is up to the trainer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
