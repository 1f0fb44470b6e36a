"""Shards in this process, one after the other or by threads.

Threads run in parallel where compiled code releases the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import joblib

from structboost._typing import override
from structboost.engines.base import (
    Batch,
    Engine,
    Layout,
    Replay,
    Response,
    ShardAtWork,
    Workers,
    response_of,
)
from structboost.validation import checked_n_jobs


@dataclass(frozen=True)
class Threads(Engine):
    """Engine that processes shards by threads of this process.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads; None means 1 or that of ``joblib.parallel_config``, -1 all cores.
    """

    # A thread that is ahead takes the next shard.
    shards_a_worker: ClassVar[int] = 4
    in_process: ClassVar[bool] = True
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        checked_n_jobs(self.n_jobs)

    @classmethod
    @override
    def by_name(cls, n_jobs: int | None) -> Threads:
        return cls(n_jobs)

    @property
    @override
    def n_workers(self) -> int:
        # Threads may be started where processes may not, such as in a process of a pool.
        with joblib.parallel_config(backend="threading"):
            return int(joblib.effective_n_jobs(self.n_jobs))

    @override
    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        return _LocalWorkers(sources, layout, self.n_workers)


@dataclass(frozen=True)
class Serial(Threads):
    """Engine that processes shards one after the other in this process.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, always 1 for ``engine="serial"``.
    """

    n_jobs: int | None = 1

    @classmethod
    @override
    def by_name(cls, n_jobs: int | None) -> Serial:
        return cls()


class _LocalWorkers(Workers):
    def __init__(self, sources: Sequence[Any], layout: Layout, n_threads: int) -> None:
        super().__init__(layout)
        n_threads = min(n_threads, len(sources))
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        place = map if self._pool is None else self._pool.map
        self._placed = dict(enumerate(place(ShardAtWork.made, sources)))

    @override
    def responses(self, batch: Batch) -> Sequence[Response]:
        if self._pool is None:
            return [response_of(self._placed, list(self._placed), batch)]
        return list(self._pool.map(lambda i: response_of(self._placed, [i], batch), self._placed))

    @override
    def close(self) -> None:
        if self._pool is not None:
            # After Ctrl-C a thread may still be in an argmax, whose result is not awaited.
            self._pool.shutdown(wait=False, cancel_futures=True)
