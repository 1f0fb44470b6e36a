"""Shards in another process: what an engine has it call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from structboost.blas_threads import one_blas_thread
from structboost.engines.base import Answer, Batch, Placed, answer_of
from structboost.engines.freed_memory import keep_freed_memory
from structboost.shards.shard import Shard, ShardSource


@dataclass(frozen=True)
class _Held:
    """Shards of a run.

    They take a batch at a time: one that nobody waits for any more, its connection broken, may still be at work.
    """

    placed: dict[int, Placed] = field(default_factory=dict)
    turn: Lock = field(default_factory=Lock)


# What this process holds of each run.
_HELD: dict[str, _Held] = {}


def place(run: str, i: int, source: ShardSource, calls: Sequence[tuple[str, tuple[Any, ...]]], batch: int) -> None:
    """Make shard ``i`` of a run and bring it to where it was before the last call of a batch."""
    keep_freed_memory()
    shard = Shard(source)
    shard.run(calls)
    _HELD.setdefault(run, _Held()).placed[i] = Placed(shard, batch)


def answer(run: str, shards: Sequence[int], batch: Batch) -> Answer:
    """What shards of a run say to a batch."""
    here = _HELD.get(run, _Held())
    # The kernels let one thread do everything; those of the linear algebra would only be in each other's way.
    with here.turn, one_blas_thread():
        return answer_of(here.placed, shards, batch)


def held(run: str) -> list[int]:
    """Shards of a run that are here."""
    return list(_HELD.get(run, _Held()).placed)


def release(run: str) -> None:
    """Let go of the shards of a run."""
    _HELD.pop(run, None)
