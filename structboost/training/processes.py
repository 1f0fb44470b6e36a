"""Shards in other processes, of this machine or (:mod:`structboost.training.dask`) of a cluster.

Python cannot run in parallel by threads, so processes are for tasks whose argmax is Python.

An error that arrives as a value (:class:`Failure`) was raised by the task, or by the work on a
shard.  Any other exception during the wait for a reply is the loss of a worker, so an `OSError` of
the task is never taken for one.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import traceback
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import joblib
from loky.backend import get_context

from structboost._typing import override
from structboost.errors import EngineError
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.memory import keep_freed_memory
from structboost.training.engines import Engine, Layout, Workers
from structboost.validation import checked_n_jobs

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
