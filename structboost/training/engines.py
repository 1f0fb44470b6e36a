"""Engines, which compute on the shards of a training set.

Shards are nodes of the tree of blocks (:class:`Layout`).  Calls of a run, in this order::

    engine.n_workers                               before the shards are cut
    workers = engine.start(sources, layout)        each shard is ``source.shard()``
    repeat  workers.run(method, ...)     =  [r_0, r_1, ...]    results of the shards
            workers.sum(method, ...)     =  r_0 + r_1 + ...    along the tree of blocks
            workers.tell(method, ...)                          perhaps with the next of these
    workers.close()

Shards may be in other processes, of this machine or (:mod:`structboost.training.dask`) of a
cluster.  Python cannot run in parallel by threads, so processes are for tasks whose argmax is
Python.

An error that arrives as a value (:class:`Failure`) was raised by the task, or by the work on a
shard.  Any other exception during the wait for a reply is the loss of a worker, so an `OSError` of
the task is never taken for one.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cloudpickle
import joblib
import numpy as np
from loky.backend import get_context

from structboost._typing import FloatArray, override
from structboost.errors import EngineError, warn_user
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.blocks import share_of_block, sum_of_nodes
from structboost.runtime.called_class import Described
from structboost.runtime.memory import keep_freed_memory
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
        "processes": "structboost.training.engines:Processes",
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


_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Remedy of every loss.
RESUMES = "A fit with checkpoint='run.npz' resumes after the last round that it wrote."


class Failure(NamedTuple):
    """Error as plain data.

    Parameters
    ----------
    pickled : bytes
        Class, arguments and attributes of the error, by value where its class cannot be imported.
    shown : str
        Text of the error.
    notes : list of str
        Notes of the error, the first of which has the place where it was raised.
    """

    pickled: bytes
    shown: str
    notes: list[str]

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Build the plain data of an error."""
        where = "".join(("In the process of the shard:\n", *traceback.format_exception(error)))
        pickled = b""
        with contextlib.suppress(Exception):
            pickled = cloudpickle.dumps((type(error), error.args, vars(error)))
        return cls(pickled, repr(error), [where, *getattr(error, "__notes__", [])])

    def error(self) -> Exception:
        """Return the error, or an :class:`EngineError` if it cannot be made here."""
        try:
            kind, arguments, state = pickle.loads(self.pickled)
            try:
                error = kind(*arguments)
            except Exception:  # the error does not keep the arguments of its constructor
                error = kind.__new__(kind, *arguments)
                error.args = arguments
            vars(error).update(state)
        except Exception:  # for example of a module that only the worker has
            error = EngineError(f"A worker failed: {self.shown}")
        # The instances of a class may refuse to be changed.
        with contextlib.suppress(Exception):
            error.__notes__ = list(self.notes)
        return error  # type: ignore[no-any-return]


# Name of a method, its arguments, and the last argument of each shard, if they differ.
Call = tuple[str, tuple[Any, ...], Sequence[Any] | None]
# Results of the shards of a host, or an error.
Reply = list[Any] | Failure


class Host:
    """Neighbouring shards of one worker.

    Parameters
    ----------
    *sources : Shard or Failure
        What the shards are made of, or the error of making that.
    """

    def __init__(self, *sources: Any) -> None:
        keep_freed_memory()
        self._failure = next((of for of in sources if isinstance(of, Failure)), None)
        if self._failure is None:
            try:
                self._shards = [source.shard() for source in sources]
            except Exception as error:
                self._failure = Failure.of(error)

    def respond(self, calls: Sequence[Call]) -> Reply:
        """Make calls on all shards here in turn, and return what the last one gives."""
        if self._failure is not None:
            return self._failure
        results = []
        try:
            # The kernels run on one thread, and threads of the linear algebra would only slow each
            # other.
            with one_blas_thread():
                for place, shard in enumerate(self._shards):
                    for method, arguments, each in calls:
                        last = () if each is None else (each[place],)
                        result = getattr(shard, method)(*arguments, *last)
                    results.append(result)
            return results
        except Exception as error:
            return Failure.of(error)


class RemoteWorkers(Workers):
    """Workers that are other processes, each with a :class:`Host`.

    Attributes
    ----------
    shards_of : list of list of int
        Shards of each worker, one after the other.
    """

    def __init__(self, layout: Layout, n_workers: int) -> None:
        super().__init__(layout)
        self.shards_of = layout.shares(n_workers)
        # Calls without a result are sent with the next one that has a result.
        self._ahead: list[Call] = []

    @override
    def run(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        calls, self._ahead = [*self._ahead, (method, arguments, each)], []
        replies = self.replies(
            [
                [
                    (method, arguments, None if each is None else [each[i] for i in shards])
                    for method, arguments, each in calls
                ]
                for shards in self.shards_of
            ]
        )
        for reply in replies:
            if isinstance(reply, Failure):
                raise reply.error()
        return [result for reply in replies for result in reply]

    @override
    def tell(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> None:
        self._ahead.append((method, arguments, each))

    @abstractmethod
    def replies(self, messages: Sequence[Sequence[Call]]) -> list[Any]:
        """Send each worker its calls, and return their replies.

        Raises
        ------
        EngineError
            If a worker was lost.
        """


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
    def start(self, sources: Sequence[Any], layout: Layout) -> Workers:
        return _ProcessWorkers(sources, layout, self.n_workers)


class _ProcessWorkers(RemoteWorkers):
    """Processes, each at the other end of a pipe, with which it ends."""

    def __init__(self, sources: Sequence[Any], layout: Layout, n_workers: int) -> None:
        super().__init__(layout, n_workers)
        self._processes: list[Any] = []
        self._connections: list[Any] = []
        context = get_context("loky")
        try:
            for _ in self.shards_of:
                here, there = context.Pipe()
                self._connections.append(here)
                with there:
                    process = context.Process(target=_serve, args=(there,), env=_ENVIRONMENT)
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


@contextlib.contextmanager
def _telling_of_deaths() -> Any:
    """Turn errors of a connection into an error that names the remedies."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise EngineError(
            "A process of engine 'processes' died; its memory may not be enough: use fewer "
            f"processes, or engine='threads'. {RESUMES}"
        ) from error


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
