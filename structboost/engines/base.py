"""Contract of engines, and the messages between the trainer and its workers.

Shards are nodes of the tree of blocks (:class:`Layout`).  A call ``m`` with results ``r_i`` of the
shards gives one of::

    workers.run([..., m])  =  [r_0, r_1, ...]
    workers.sum([..., m])  =  r_0 + r_1 + ...   along the tree of blocks, however shards are cut

Calls of a run, in this order::

    engine.n_workers                                    before the shards are cut
    workers = engine.start(sources, layout, replay)     each shard is ``source.shard()``
    repeat  workers.run(calls) or workers.sum(calls)    which call workers.responses(batch)
    workers.close()

Batches are numbered from 1.  A shard that is lost is made again by its source, runs ``replay(i)``,
and then only the last call of the batch, which is safe to repeat.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from structboost._typing import FloatArray
from structboost.engines.failure import Failure
from structboost.errors import EngineError, warn_user
from structboost.runtime.blocks import NodeSum, join_siblings, share_of_block
from structboost.runtime.described import Described
from structboost.validation import warn_of_old_flags


class OnCluster(Protocol):
    """Engine that can make shards of Dask collections."""

    def client(self) -> Any:
        """Client of the cluster that holds the collections."""


class Placeable(Protocol):
    """Interface that engines need from a shard."""

    def run(self, calls: Iterable[tuple[str, tuple[Any, ...]]]) -> Any:
        """Make calls in turn, and return the result of the last one."""


class Source(Protocol):
    """Plain data that a shard is made of, which can be sent to a worker."""

    def shard(self) -> Placeable:
        """Make the shard."""


class Call(NamedTuple):
    """A call of one method on every shard.

    Parameters
    ----------
    method : str
        Name of the method.
    arguments : tuple
        Arguments that are the same for all shards.
    per_shard : dict of int to object, optional
        A further, last argument of each shard.
    """

    method: str
    arguments: tuple[Any, ...]
    per_shard: Mapping[int, Any] | None = None

    def of_shard(self, i: int) -> tuple[str, tuple[Any, ...]]:
        """Method and arguments for shard ``i``."""
        last = () if self.per_shard is None else (self.per_shard[i],)
        return self.method, (*self.arguments, *last)

    def of_shards(self, shards: Sequence[int]) -> Call:
        """The call with the arguments of some shards only."""
        if self.per_shard is None:
            return self
        return self._replace(per_shard={i: self.per_shard[i] for i in shards})


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

    def join(self, shards: Sequence[int], values: Sequence[FloatArray]) -> list[NodeSum]:
        """Sums of neighbouring shards, joined as far as the tree allows."""
        return join_siblings(
            [NodeSum(*self.nodes[i], value) for i, value in zip(shards, values, strict=True)],
            self.n_blocks,
        )

    def shares(self, n_workers: int) -> list[list[int]]:
        """Return the shards of each worker, neighbours with about equally many blocks each."""
        owner = share_of_block(
            np.array([first for first, _ in self.nodes]), self.n_blocks, n_workers
        )
        parts = [np.flatnonzero(owner == worker).tolist() for worker in range(n_workers)]
        return [part for part in parts if part]


class Batch(NamedTuple):
    """Calls that are sent together, of which the last one has responses.

    Parameters
    ----------
    number : int
        Number of the batch.  A shard that has processed it already only repeats the last call,
        which is safe to repeat.
    calls : sequence of Call
        Calls to make in turn.
    layout : Layout or None
        Layout by which to sum the responses of the shards, None to leave them apart.
    """

    number: int
    calls: Sequence[Call]
    layout: Layout | None

    def of_shards(self, shards: Sequence[int]) -> Batch:
        """The batch with the arguments of some shards only."""
        return self._replace(calls=[call.of_shards(shards) for call in self.calls])


class Response(NamedTuple):
    """Response of some shards to a batch.

    Parameters
    ----------
    results : dict of int to object
        Results by shard, if no sum was asked for.
    sums : list of NodeSum
        Sums of the results, joined as far as the tree allows, if a sum was asked for.
    lost : list of int
        Shards that are missing.
    failure : Failure, optional
        Error that was raised instead.
    """

    results: dict[int, Any]
    sums: list[NodeSum]
    lost: list[int]
    failure: Failure | None = None


class ShardAtWork(Described):
    """Shard, and the last batch that it has processed.

    Parameters
    ----------
    shard : Placeable
        The shard itself.
    batch : int
        0 before the first batch.
    """

    def __init__(self, shard: Placeable, batch: int = 0) -> None:
        self.shard = shard
        self.batch = batch
        # A batch whose connection broke may still be running.
        self._turn = Lock()

    @classmethod
    def made(
        cls, source: Source, calls: Sequence[tuple[str, tuple[Any, ...]]] = (), batch: int = 0
    ) -> ShardAtWork:
        """Make a shard, new or in the place of one that was lost.

        Parameters
        ----------
        source : Source
            Plain data of the shard.
        calls : sequence of (str, tuple)
            The trainer's replay, which restores the state of the lost shard.
        batch : int
            Number of the batch in which it was lost; its last call is then repeated.
        """
        shard = source.shard()
        shard.run(calls)
        return cls(shard, batch)

    def respond(self, i: int, batch: Batch) -> Any:
        """Process a batch on shard ``i`` and return the result of its last call.

        Raises
        ------
        EngineError
            If the shard has processed a later batch.
        """
        with self._turn:
            if batch.number < self.batch:
                raise EngineError(
                    f"Shard {i} has processed batch {self.batch} and is asked for {batch.number}."
                )
            first = -1 if self.batch == batch.number else 0
            result = self.shard.run([call.of_shard(i) for call in batch.calls[first:]])
            self.batch = batch.number
            return result

    def answer(self, i: int, batch: Batch) -> Any:
        """Call :meth:`respond`, by its name in version 0.2."""
        warn_user("answer of a shard is named respond now; write respond.", FutureWarning)
        return self.respond(i, batch)


def response_of(placed: Mapping[int, ShardAtWork], shards: Sequence[int], batch: Batch) -> Response:
    """Response of some shards to a batch, or the missing ones if any is missing.

    All of them are asked again in that case.
    """
    if not set(shards) <= set(placed):
        return Response({}, [], list(shards))
    results = {i: placed[i].respond(i, batch) for i in shards}
    if batch.layout is None:
        return Response(results, [], [])
    return Response({}, batch.layout.join(list(results), list(results.values())), [])


class Replay(Protocol):
    """Function that returns the calls to restore the state of a rebuilt shard."""

    def __call__(self, i: int, /) -> Sequence[tuple[str, tuple[Any, ...]]]:
        """Return the methods and arguments to call in turn on shard ``i``."""


class Workers(Described, ABC):
    """Shards at work, which stay where they were placed until :meth:`close`.

    A shard that was lost with its process is made again from its source and the trainer's replay.
    The last call is then repeated on it, with the same result.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "answers" in vars(cls):
            warn_user(f"answers of {cls.__name__} is named responses now.", FutureWarning)
            cls.responses = vars(cls)["answers"]  # type: ignore[method-assign]

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._n_batches = 0

    def run(self, calls: Sequence[Call]) -> list[Any]:
        """Make calls on every shard in turn, and return the results of the last one, by shard."""
        results: dict[int, Any] = {}
        for response in self._checked_responses(calls, None):
            results |= response.results
        return [results[i] for i in range(len(self.layout.nodes))]

    def sum(self, calls: Sequence[Call]) -> FloatArray:
        """Make calls likewise, and sum the results of the last one over all blocks."""
        sums = [
            part
            for response in self._checked_responses(calls, self.layout)
            for part in response.sums
        ]
        joined = join_siblings(sorted(sums, key=lambda part: part.first), self.layout.n_blocks)
        if [part.n_blocks for part in joined] != [self.layout.n_blocks]:
            raise EngineError(
                f"The sum of {calls[-1].method!r} is over other blocks than the training set's "
                f"{self.layout.n_blocks}: {[(part.first, part.n_blocks) for part in joined]}."
            )
        return joined[0].value

    def _checked_responses(
        self, calls: Sequence[Call], layout: Layout | None
    ) -> Sequence[Response]:
        """Responses to the next batch, of which a failure is raised."""
        self._n_batches += 1
        responses = self.responses(Batch(self._n_batches, calls, layout))
        for response in responses:
            if response.failure is not None:
                raise response.failure.error()
        return responses

    @abstractmethod
    def responses(self, batch: Batch) -> Sequence[Response]:
        """Send a batch to all shards.

        Parameters
        ----------
        batch : Batch
            Its number is one more than that of the last batch.

        Returns
        -------
        responses : sequence of Response
            They cover all shards, each once, unless one is a failure.
        """

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
    """

    shards_a_worker: ClassVar[int] = 1
    in_process: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        warn_of_old_flags(cls, {"takes_dask": "define client(), which returns the Dask client"})

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
    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        """Make the shards.

        Parameters
        ----------
        sources : sequence of Source
            What each shard is made of.
        layout : Layout
            How examples are divided into blocks and shards.
        replay : callable
            ``replay(i)`` returns the calls that restore the state of shard ``i``.
        """
