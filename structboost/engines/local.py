"""Shards in this process, one after the other or by threads.

Threads run side by side where compiled code releases the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import joblib

from structboost.engines.base import (
    Answer,
    Batch,
    Engine,
    Layout,
    Replay,
    ShardAtWork,
    Workers,
    answer_of,
)


@dataclass(frozen=True)
class Threads(Engine):
    """Shards in this process, worked on by threads.

    Parameters
    ----------
    n_jobs : int or None
        Threads; None: 1, or what ``joblib.parallel_config`` says; -1: all cores.
    """

    # A thread that is ahead takes the next.
    shards_a_worker: ClassVar[int] = 4
    in_process: ClassVar[bool] = True
    n_jobs: int | None = None

    @classmethod
    def by_name(cls, n_jobs: int | None) -> Threads:
        """``n_jobs`` threads."""
        return cls(n_jobs)

    @property
    def n_workers(self) -> int:
        """Number of threads."""
        # Threads may also be started where processes may not: in a process of a pool.
        with joblib.parallel_config(backend="threading"):
            return int(joblib.effective_n_jobs(self.n_jobs))

    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        """Nothing is lost here, and nothing replayed."""
        return _LocalWorkers(sources, layout, self.n_workers)


@dataclass(frozen=True)
class Serial(Threads):
    """Shards in this process, one after the other.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads; leave it at 1, which is what ``engine="serial"`` means.
    """

    n_jobs: int | None = 1

    @classmethod
    def by_name(cls, n_jobs: int | None) -> Serial:
        """One thread, whatever ``n_jobs``."""
        return cls()


class _LocalWorkers(Workers):
    def __init__(self, sources: Sequence[Any], layout: Layout, n_threads: int) -> None:
        super().__init__(layout)
        n_threads = min(n_threads, len(sources))
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        place = map if self._pool is None else self._pool.map
        self._placed = dict(enumerate(place(ShardAtWork.made, sources)))

    def answers(self, batch: Batch) -> Sequence[Answer]:
        if self._pool is None:
            return [answer_of(self._placed, list(self._placed), batch)]
        return list(self._pool.map(lambda i: answer_of(self._placed, [i], batch), self._placed))

    def close(self) -> None:
        if self._pool is not None:
            # After Ctrl-C a thread may still be in an argmax; nobody waits for its answer.
            self._pool.shutdown(wait=False, cancel_futures=True)
