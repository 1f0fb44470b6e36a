"""Shards in another process: what an engine has it call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadpoolctl import threadpool_limits

from structboost.engines.base import Answer, Layout, work
from structboost.shards.shard import Shard, ShardSource

# Shards of each run that this process holds.
_SHARDS: dict[str, dict[int, Shard]] = {}


class ShardLost(Exception):
    """The process has not the shards that it is asked for."""


def place(run: str, i: int, source: ShardSource, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> int:
    """Make shard ``i`` of a run and bring it to where it was; returns the bytes of its source's rows."""
    shard = Shard(source)
    shard.run(calls)
    _SHARDS.setdefault(run, {})[i] = shard
    return sum(rows.nbytes for rows in source.rows.values())


def answer(run: str, calls: Mapping[int, Sequence[tuple[str, tuple[Any, ...]]]], layout: Layout | None) -> Answer:
    """Make calls on shards of a run.

    Raises
    ------
    ShardLost
        If one of them is not here: this process has taken the place of the one that held it.
    """
    shards = _SHARDS.get(run, {})
    if not calls.keys() <= shards.keys():
        raise ShardLost
    # The kernels let one thread do everything; those of the linear algebra would only be in each other's way.
    with threadpool_limits(limits=1, user_api="blas"):
        return work(shards, calls, layout)


def release(run: str) -> None:
    """Let go of the shards of a run."""
    _SHARDS.pop(run, None)
