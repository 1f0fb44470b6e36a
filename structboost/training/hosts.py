"""Shards at work in this process or in others, and the errors that come back from there.

Shards are nodes of the tree of blocks (:class:`Layout`).

An error that arrives as a value (:class:`Failure`) was raised by the task, or by the work on a
shard.  Any other exception during the wait for a reply is the loss of a worker, so an `OSError` of
the task is never taken for one.
"""

from __future__ import annotations

import contextlib
import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from structboost._typing import FloatArray, override
from structboost.errors import EngineError
from structboost.runtime.blocks import share_of_block, sum_of_nodes
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.memory import keep_freed_memory

# Remedy of every loss.
RESUMES = "A fit with checkpoint='run.npz' resumes after the last round that it wrote."


@contextlib.contextmanager
def telling_of_losses(errors: tuple[type[BaseException], ...], text: str) -> Iterator[None]:
    """Turn errors of a connection into an error with a text and the remedy."""
    try:
        yield
    except errors as error:
        raise EngineError(f"{text} {RESUMES}") from error


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


class Workers(ABC):
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

    def sum(self, method: str, *arguments: Any) -> FloatArray:
        """Call a method likewise, and sum the results over all blocks."""
        return self.layout.sum(self.run(method, *arguments))

    def tell(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> None:
        """Call a method without a result, which may wait for the next call that has one."""
        self.run(method, *arguments, each=each)

    @abstractmethod
    def close(self) -> None:
        """Release the shards and their workers."""


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
