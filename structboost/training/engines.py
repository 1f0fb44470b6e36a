"""Engines, which compute on the shards of a training set.

Shards are nodes of the tree of blocks (:class:`Layout`).  Calls of a run, in this order::

    engine.n_workers                               before the shards are cut
    workers = engine.start(sources, layout)        each shard is ``source.shard()``
    repeat  workers.run(method, ...)     =  [r_0, r_1, ...]    results of the shards
            workers.sum(method, ...)     =  r_0 + r_1 + ...    along the tree of blocks
            workers.tell(method, ...)                          perhaps with the next of these
    workers.close()

:mod:`structboost.training.processes` has the engines whose shards are in other processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import joblib
import numpy as np

from structboost._typing import FloatArray, override
from structboost.errors import warn_user
from structboost.runtime.blocks import share_of_block, sum_of_nodes
from structboost.runtime.described import Described
from structboost.runtime.registry import Registry
from structboost.validation import checked_n_jobs, shown


@dataclass(frozen=True)
class Layout:
    """The shards as nodes of the tree of blocks.

    Parameters
    ----------
    nodes : list of (int, int)
        First block and number of blocks of each shard.
    n_blocks : int
        Number of blocks of all shards.
    """

    nodes: Sequence[tuple[int, int]]
    n_blocks: int

    def sum(self, values: Sequence[FloatArray]) -> FloatArray:
        """Sum the values of all shards along the tree, which overwrites some of them."""
        return sum_of_nodes(dict(zip(self.nodes, values, strict=True)), 0, self.n_blocks)

    def shares(self, n_workers: int) -> list[list[int]]:
        """Return the shards of each worker, neighbours with about equally many blocks each."""
        owner = share_of_block(
            np.array([first for first, _ in self.nodes]), self.n_blocks, n_workers
        )
        parts = [np.flatnonzero(owner == worker).tolist() for worker in range(n_workers)]
        return [part for part in parts if part]


class Workers(Described, ABC):
    """Shards at work, which stay where they were placed until :meth:`close`.

    Parameters
    ----------
    layout : Layout
        How examples are divided into blocks and shards.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @abstractmethod
    def run(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of every shard, and return the results by shard.

        Parameters
        ----------
        method : str
            Name of the method.
        *arguments
            Arguments that are the same for all shards.
        each : sequence, optional
            A further, last argument of each shard.
        """

    def sum(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> FloatArray:
        """Call a method likewise, and sum the results over all blocks."""
        return self.layout.sum(self.run(method, *arguments, each=each))

    def tell(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> None:
        """Call a method without a result, which may wait for the next call that has one."""
        self.run(method, *arguments, each=each)

    @abstractmethod
    def close(self) -> None:
        """Release the shards and their workers."""


class Engine(Described, ABC):
    """Place of shards, a parameter of the trainer that is plain data.

    Attributes
    ----------
    shards_a_worker : int
        Least number of shards per worker where there are several workers; 1 where each worker
        keeps its share.
    in_process : bool
        Whether the workers are threads of the trainer's process.
    takes_collections : bool
        Whether sources may be Dask's delayed values.
    """

    shards_a_worker: ClassVar[int] = 1
    in_process: ClassVar[bool] = False
    takes_collections: ClassVar[bool] = False

    @classmethod
    def by_name(cls, n_jobs: int | None) -> Engine:
        """The engine that ``StructBoost(engine=name, n_jobs=n_jobs)`` asks for.

        Parameters
        ----------
        n_jobs : int or None
            Number of threads or processes.

        Returns
        -------
        engine : Engine
            A new engine; engines without such a number ignore it.
        """
        return cls()

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Number of workers that compute at a time, from 1."""

    @abstractmethod
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


@dataclass(frozen=True)
class Threads(Engine):
    """Engine that processes shards by threads of this process.

    They run in parallel where compiled code releases the interpreter's lock.

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
    def start(self, sources: Sequence[Any], layout: Layout) -> Workers:
        return _LocalWorkers(sources, layout, self.n_workers)


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


_ENGINES = Registry(
    "engine",
    {
        "serial": "structboost.training.engines:Threads",
        "threads": "structboost.training.engines:Threads",
        "processes": "structboost.training.processes:Processes",
        "dask": "structboost.training.dask:DaskCluster",
    },
)


def engine_of(engine: str | Engine, n_jobs: int | None) -> Engine:
    """Return the engine itself, or the engine of a name with ``n_jobs`` workers."""
    checked_n_jobs(n_jobs)
    if isinstance(engine, Engine):
        return engine
    named: Engine = _ENGINES[engine].by_name(1 if engine == "serial" else n_jobs)
    return named


def warn_of_idle_jobs(
    n_jobs: int | None, engine: str | Engine, about: str, *, shares_work: bool
) -> None:
    """Warn that a fit, which ``about`` describes, does not use the workers that were set.

    UserWarning if ``n_jobs`` means several, and the engine or the fit works alone.
    """
    if n_jobs is None or Threads(n_jobs).n_workers == 1:
        return
    if isinstance(engine, Engine) or engine == "serial":
        warn_user(
            f"n_jobs is {n_jobs}, which engine={shown(engine)} does not read; leave n_jobs out, or "
            "write engine='threads'.",
            UserWarning,
        )
    elif not shares_work:
        warn_user(
            f"n_jobs is {n_jobs}, and {about} works on one core; leave n_jobs out. Several cores "
            "are used by objective='hinge' (formulation='one_slack' of trainers), and wherever "
            "stumps are searched.",
            UserWarning,
        )
