"""What an engine must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import EngineError
from structboost.row_blocks import NodeSum, join_siblings, share_of_block
from structboost.shards.shard import Shard


class Call(NamedTuple):
    """A method of every shard with its arguments.

    Parameters
    ----------
    method : str
    arguments : tuple
        The same for all shards.
    own : dict of int to object, optional
        A last argument, by shard.
    """

    method: str
    arguments: tuple[Any, ...]
    own: Mapping[int, Any] | None = None

    def of_shard(self, i: int) -> tuple[str, tuple[Any, ...]]:
        """Method and arguments for shard ``i``."""
        return self.method, self.arguments if self.own is None else (*self.arguments, self.own[i])

    def of_shards(self, shards: Sequence[int]) -> Call:
        """The same for some shards only."""
        return self if self.own is None else self._replace(own={i: self.own[i] for i in shards})


@dataclass(frozen=True)
class Layout:
    """The shards as nodes of the tree of blocks.

    Parameters
    ----------
    nodes : list of (int, int)
        First block and number of blocks of each shard.
    n_blocks : int
        Of all shards.
    """

    nodes: Sequence[tuple[int, int]]
    n_blocks: int

    def join(self, shards: Sequence[int], values: Sequence[NDArray[np.float64]]) -> list[NodeSum]:
        """Sums of neighbouring shards, joined as far as the tree allows."""
        return join_siblings(
            [NodeSum(*self.nodes[i], value) for i, value in zip(shards, values, strict=True)], self.n_blocks
        )

    def shares(self, n_workers: int) -> list[list[int]]:
        """Shards of each worker: runs of neighbours of about as many blocks."""
        owner = share_of_block(np.array([first for first, _ in self.nodes]), self.n_blocks, n_workers)
        shares = [np.flatnonzero(owner == worker).tolist() for worker in range(n_workers)]
        return [share for share in shares if share]


class Batch(NamedTuple):
    """Calls that are made together; the last one is answered.

    Parameters
    ----------
    number : int
        A shard that has had the batch already only repeats the last call, which may be repeated.
    calls : sequence of Call
    layout : Layout or None
        Given where the answers of the shards are to be summed.
    """

    number: int
    calls: Sequence[Call]
    layout: Layout | None

    def of_shards(self, shards: Sequence[int]) -> Batch:
        """What some shards need of it."""
        return self._replace(calls=[call.of_shards(shards) for call in self.calls])


class Answer(NamedTuple):
    """What comes back: results by shard, or their sums joined; of shards that are lost neither."""

    results: dict[int, Any]
    sums: list[NodeSum]
    lost: list[int]


class Placed:
    """A shard at work, and the last batch that it has had.

    Parameters
    ----------
    shard : Shard
    batch : int
    """

    def __init__(self, shard: Shard, batch: int) -> None:
        self.shard = shard
        self.batch = batch
        # A batch that nobody waits for any more, its connection broken, may still be at work.
        self._turn = Lock()

    def answer(self, i: int, batch: Batch) -> Any:
        """Result of the last call, shard ``i`` being brought to it first.

        Raises
        ------
        EngineError
            If the shard has had a later batch.
        """
        with self._turn:
            if batch.number < self.batch:
                raise EngineError(f"Shard {i} has had batch {self.batch}, and is asked for {batch.number}.")
            first = -1 if self.batch == batch.number else 0
            result = self.shard.run([call.of_shard(i) for call in batch.calls[first:]])
            self.batch = batch.number
            return result


def answer_of(placed: Mapping[int, Placed], shards: Sequence[int], batch: Batch) -> Answer:
    """What shards say to a batch; nothing if any is not there, since all of them will be asked again."""
    if not set(shards) <= set(placed):
        return Answer({}, [], list(shards))
    results = {i: placed[i].answer(i, batch) for i in shards}
    if batch.layout is None:
        return Answer(results, [], [])
    return Answer({}, batch.layout.join(list(results), list(results.values())), [])


# Calls that bring shard i, newly made, to where the lost one was.
Replay = Callable[[int], Sequence[tuple[str, tuple[Any, ...]]]]


class Workers(ABC):
    """Shards at work; they stay where they were placed until :meth:`close`.

    A shard that was lost with its process is made again from its source and the trainer's replay, and the last call is
    made on it: the result is the same.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._n_batches = 0

    def run(self, calls: Sequence[Call]) -> list[Any]:
        """Make calls on every shard, in their order; returns what the last one returned, shard by shard."""
        results: dict[int, Any] = {}
        for answer in self._answers(self._batch(calls, None)):
            results |= answer.results
        return [results[i] for i in range(len(self.layout.nodes))]

    def sum(self, calls: Sequence[Call]) -> NDArray[np.float64]:
        """The same, and the results summed over all blocks along their tree."""
        sums = [part for answer in self._answers(self._batch(calls, self.layout)) for part in answer.sums]
        joined = join_siblings(sorted(sums, key=lambda part: part.first), self.layout.n_blocks)
        if [part.n_blocks for part in joined] != [self.layout.n_blocks]:
            raise EngineError(
                f"The sum of {calls[-1].method!r} is over other blocks than the training set's {self.layout.n_blocks}: "
                f"{[(part.first, part.n_blocks) for part in joined]}."
            )
        return joined[0].value

    def _batch(self, calls: Sequence[Call], layout: Layout | None) -> Batch:
        self._n_batches += 1
        return Batch(self._n_batches, calls, layout)

    @abstractmethod
    def _answers(self, batch: Batch) -> Sequence[Answer]:
        """Answers that cover all shards."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the shards and of what computes on them."""


class Engine(ABC):
    """How shards are spread: plain parameters of the trainer.

    Attributes
    ----------
    shards_a_worker : int
        At least so many for each worker where there are several; one where each has its share and keeps it.
    """

    shards_a_worker: ClassVar[int] = 1

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many compute at a time, from 1."""

    @abstractmethod
    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        """Make the shards."""
