"""What an engine must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.row_blocks import NodeSum, join_siblings
from structboost.shards.shard import Shard


class Call(NamedTuple):
    """A method of every shard with its arguments.

    Parameters
    ----------
    method : str
    arguments : tuple
        The same for all shards.
    own : sequence, optional
        A last argument, entry i that of shard i.
    """

    method: str
    arguments: tuple[Any, ...]
    own: Sequence[Any] | None = None

    def of_shard(self, i: int) -> tuple[str, tuple[Any, ...]]:
        """Method and arguments for shard ``i``."""
        return self.method, self.arguments if self.own is None else (*self.arguments, self.own[i])


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
        ends = np.cumsum([n for _, n in self.nodes])
        owner = ((ends - 1) * n_workers) // self.n_blocks
        shares = [np.flatnonzero(owner == worker).tolist() for worker in range(n_workers)]
        return [share for share in shares if share]


class Answer(NamedTuple):
    """What a worker sends back: results of its shards, or their sums joined."""

    results: list[Any]
    sums: list[NodeSum]


def work(
    shards: Mapping[int, Shard], calls: Mapping[int, Sequence[tuple[str, tuple[Any, ...]]]], layout: Layout | None
) -> Answer:
    """Make calls on shards; with a layout their last results are summed."""
    results = [shards[i].run(of_shard) for i, of_shard in calls.items()]
    if layout is None:
        return Answer(results, [])
    return Answer([], layout.join(list(calls), results))


# Calls that bring shard i, newly made, to where the lost one was.
Replay = Callable[[int], Sequence[tuple[str, tuple[Any, ...]]]]


class Workers(ABC):
    """Shards at work; they stay where they were placed until :meth:`close`.

    A shard that was lost with its process is made again from its source and the trainer's replay, and the calls are
    made on it: the result is the same.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def run(self, calls: Sequence[Call]) -> list[Any]:
        """Make calls on every shard, in their order; returns what the last one returned, shard by shard."""
        return [result for answer in self._answers(calls, None) for result in answer.results]

    def sum(self, calls: Sequence[Call]) -> NDArray[np.float64]:
        """The same, and the results summed over all blocks along their tree."""
        sums = [part for answer in self._answers(calls, self.layout) for part in answer.sums]
        return join_siblings(sums, self.layout.n_blocks)[0].value

    @abstractmethod
    def _answers(self, calls: Sequence[Call], layout: Layout | None) -> Sequence[Answer]:
        """Answers in the order of the shards."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the shards and of what computes on them."""


class Engine(ABC):
    """How shards are spread: plain parameters of the trainer."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many compute at a time, from 1."""

    @abstractmethod
    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        """Make the shards."""
