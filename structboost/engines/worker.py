"""Functions that an engine calls in a process with shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structboost.engines.base import Batch, Response, ShardAtWork, Source, response_of
from structboost.engines.failure import Failure
from structboost.runtime.blas_threads import one_blas_thread
from structboost.runtime.freed_memory import keep_freed_memory

# Shards of each run that this process holds.
_PLACED: dict[str, dict[int, ShardAtWork]] = {}


def place(
    run: str,
    i: int,
    source: Source | Failure,
    calls: Sequence[tuple[str, tuple[Any, ...]]],
    batch: int,
) -> Failure | None:
    """Make shard ``i`` of a run, in its state before the last call of a batch.

    Returns
    -------
    failure : Failure or None
        Exception, raised here or where the source was made.
    """
    if isinstance(source, Failure):
        return source
    keep_freed_memory()
    try:
        _PLACED.setdefault(run, {})[i] = ShardAtWork.made(source, calls, batch)
    except Exception as error:
        return Failure.of(error)
    return None


def respond(run: str, shards: Sequence[int], batch: Batch) -> Response:
    """Return the reply of shards of a run to a batch, with their error as a value."""
    try:
        # The kernels run on one thread, and threads of the linear algebra would only slow each
        # other.
        with one_blas_thread():
            return response_of(_PLACED.get(run, {}), shards, batch)
    except Exception as error:
        return Response({}, [], [], Failure.of(error))


def held(run: str) -> list[int]:
    """List the shards of a run that are here."""
    return list(_PLACED.get(run, {}))


def release(run: str) -> None:
    """Drop the shards of a run."""
    _PLACED.pop(run, None)
