"""Shards in another process: what an engine has it call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structboost.blas_threads import one_blas_thread
from structboost.engines.base import Answer, Batch, Placed, answer_of
from structboost.engines.freed_memory import keep_freed_memory
from structboost.shards.shard import Shard, ShardSource

# Shards of each run that this process holds.
_PLACED: dict[str, dict[int, Placed]] = {}


def place(run: str, i: int, source: ShardSource, calls: Sequence[tuple[str, tuple[Any, ...]]], batch: int) -> None:
    """Make shard ``i`` of a run and bring it to where it was before the last call of a batch."""
    keep_freed_memory()
    shard = Shard(source)
    shard.run(calls)
    _PLACED.setdefault(run, {})[i] = Placed(shard, batch)


def answer(run: str, shards: Sequence[int], batch: Batch) -> Answer:
    """What shards of a run say to a batch."""
    # The kernels let one thread do everything; those of the linear algebra would only be in each other's way.
    with one_blas_thread():
        return answer_of(_PLACED.get(run, {}), shards, batch)


def held(run: str) -> list[int]:
    """Shards of a run that are here."""
    return list(_PLACED.get(run, {}))


def release(run: str) -> None:
    """Let go of the shards of a run."""
    _PLACED.pop(run, None)
