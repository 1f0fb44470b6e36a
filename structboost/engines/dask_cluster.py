"""Shards on the workers of a Dask cluster.

Shards are scattered once.  After that only models are sent, and sums are returned.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from structboost._typing import override
from structboost.engines import worker
from structboost.engines.base import Batch, Engine, Layout, Replay, Response, Workers
from structboost.engines.direct_connection import (
    ConnectionBrokenError,
    DirectConnection,
    Endpoint,
    listen,
)
from structboost.errors import EngineError
from structboost.runtime.blocks import join_siblings
from structboost.runtime.extras import require

require("distributed", "engine='dask'")
from dask.delayed import Delayed
from distributed import Client, KilledWorker, get_client, get_worker
from distributed.comm.core import CommClosedError

_MAX_LOSSES = 20
# Large sums of more workers than this are added up on the workers, this many at a time, because
# planning a task for each takes less time than receiving its sum here.
_FAN = 8
_LARGE_SUM_BYTES = 1 << 20
# Exceptions at the loss of a worker or its connection; errors of the task come as values.  An actor
# whose worker is gone raises RuntimeError.
_LOSSES = (OSError, RuntimeError, CancelledError, ConnectionBrokenError)
# The same where objects of the trainer are pickled, which may raise any other exception.
_CERTAIN_LOSSES = (CommClosedError, CancelledError, ConnectionBrokenError)
# Seconds that a run waits for a worker if none is left.
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 1.0


class _WorkerLost(Exception):
    """Error of a worker that is gone before its reply."""


class ShardHost:
    """Actor on a worker, which receives calls without the scheduler."""

    def respond(self, run: str, shards: Sequence[int], batch: Batch) -> Response:
        """Return the reply of the shards of this process, if there is no direct connection."""
        return worker.respond(run, shards, batch)

    def listen(self, run: str) -> Endpoint | None:
        """Return an endpoint for the trainer, or None if the host has no free port."""
        try:
            return listen(run, get_worker().ip)
        except OSError:
            return None

    def release(self, run: str) -> None:
        """Drop the shards of a run."""
        worker.release(run)


def _join(replies: Sequence[Response], n_blocks: int) -> Response:
    """Join the replies of several workers, and their sums as far as the tree allows."""
    # Joined sums are overwritten, but replies belong to the cluster.
    parts = [part._replace(value=part.value.copy()) for reply in replies for part in reply.sums]
    sums = sorted(parts, key=lambda part: part.first)
    lost = [i for reply in replies for i in reply.lost]
    failure = next((reply.failure for reply in replies if reply.failure is not None), None)
    return Response({}, join_siblings(sums, n_blocks), lost, failure)


@dataclass(frozen=True)
class DaskCluster(Engine):
    """Engine on the workers of the current :class:`distributed.Client`, looked up in ``fit``."""

    @property
    @override
    def n_workers(self) -> int:
        return max(1, len(_addresses(self.client())))

    def client(self) -> Client:
        """Return the current client of the cluster."""
        return _current_client()

    @override
    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        return _DaskWorkers(self.client(), sources, layout, replay)


class _DaskWorkers(Workers):
    """Dask workers, each of which holds neighbouring shards and an actor."""

    def __init__(
        self, client: Client, sources: Sequence[Any], layout: Layout, replay: Replay
    ) -> None:
        super().__init__(layout)
        self._client = client
        self._run = uuid.uuid4().hex
        self._sources = sources
        self._replay = replay
        addresses = self._await_workers()
        self._shards_of = layout.shares(len(addresses))
        self._addresses = addresses[: len(self._shards_of)]
        self._hosts: list[Any] = [None] * len(self._shards_of)
        self._connections: list[DirectConnection | None] = [None] * len(self._shards_of)
        self._unreachable: set[int] = set()
        # Exception at the last loss of a worker.
        self._loss: Exception | None = None
        # Size of the last sum of each method.
        self._sum_bytes: dict[str, int] = {}
        lost = []
        placing = {}
        for k in range(len(self._shards_of)):
            try:
                placing[k] = self._place(k, None)
            except _WorkerLost:
                lost.append(k)
        for k, futures in placing.items():
            try:
                self._wait(k, futures)
            except _WorkerLost:
                lost.append(k)
        for k in lost:
            self._recover(k, None)

    @override
    def responses(self, batch: Batch) -> Sequence[Response]:
        replies: list[Response] = []
        pending = list(range(len(self._shards_of)))
        method = batch.calls[-1].method
        for _ in range(_MAX_LOSSES):
            is_large = (
                batch.layout is not None and self._sum_bytes.get(method, 0) >= _LARGE_SUM_BYTES
            )
            received, lost = (self._ask_by_tree if is_large and len(pending) > _FAN else self._ask)(
                pending, batch
            )
            replies += received
            if not lost or any(reply.failure is not None for reply in received):
                self._sum_bytes[method] = max(
                    (p.value.nbytes for reply in replies for p in reply.sums), default=0
                )
                return replies
            pending = [k for k in pending if lost.intersection(self._shards_of[k])]
            for k in pending:
                if self._addresses[k] not in self._living() or self._is_empty(k):
                    self._recover(k, batch)
        raise EngineError(
            f"Workers of the cluster died {_MAX_LOSSES} times in {method!r}; give them more "
            "memory, or use more of them."
        ) from self._loss

    def _ask(self, places: Sequence[int], batch: Batch) -> tuple[list[Response], set[int]]:
        """Return the replies of some workers, and the shards without one."""
        replies: list[Response] = []
        lost: set[int] = set()
        pending = []

        def lose(k: int, error: Exception) -> None:
            self._loss = error
            self._awaits_end(k)
            self._disconnect(k)
            lost.update(self._shards_of[k])

        for k in places:
            try:
                pending.append((k, self._send(k, batch.of_shards(self._shards_of[k]))))
            except _LOSSES as error:
                lose(k, error)
        for k, reply_of in pending:
            try:
                reply = reply_of()
                replies.append(reply)
                lost.update(reply.lost)
            except _LOSSES as error:
                lose(k, error)
        return replies, lost

    def _send(self, k: int, batch: Batch) -> Callable[[], Response]:
        """Send a batch to worker ``k``, and return a function that waits for the reply."""
        connection = self._connection(k)
        if connection is not None:
            connection.ask(self._shards_of[k], batch)
            return partial(connection.response, lambda: self._addresses[k] in self._living())
        future = self._hosts[k].respond(self._run, self._shards_of[k], batch)
        return future.result  # type: ignore[no-any-return]

    def _connection(self, k: int) -> DirectConnection | None:
        """Return a connection to a worker, unless its ports are shut or all must be encrypted."""
        is_open = not self._addresses[k].startswith("tls") and k not in self._unreachable
        if self._connections[k] is None and is_open:
            endpoint = self._hosts[k].listen(self._run).result()
            try:
                self._connections[k] = None if endpoint is None else DirectConnection(endpoint)
            except ConnectionBrokenError:
                self._unreachable.add(k)
        return self._connections[k]

    def _disconnect(self, k: int) -> None:
        connection, self._connections[k] = self._connections[k], None
        if connection is not None:
            connection.close()

    def _ask_by_tree(self, places: Sequence[int], batch: Batch) -> tuple[list[Response], set[int]]:
        """Request large sums, which the workers add up a few at a time."""
        assert batch.layout is not None
        client, n_blocks = self._client, batch.layout.n_blocks
        level = [
            client.submit(
                worker.respond, self._run, self._shards_of[k], batch.of_shards(self._shards_of[k]),
                workers=[self._addresses[k]], pure=False,
            )
            for k in places
        ]  # fmt: skip
        futures = list(level)
        while len(level) > 1:
            fan = max(2, _FAN)  # tests use few workers
            groups = [level[first : first + fan] for first in range(0, len(level), fan)]
            level = [client.submit(_join, group, n_blocks, pure=False) for group in groups]
            futures += level
        try:
            reply = self._poll(places, level[0])
        except _WorkerLost as error:
            # The batch is sent again: a shard that has processed it only repeats the last call.
            self._loss = error
            client.cancel(futures, force=True)
            return [], {i for k in places for i in self._shards_of[k]}
        # Partial sums remain; only the missing part is computed again.
        return [reply], set(reply.lost)

    def _is_empty(self, k: int) -> bool:
        """Whether worker ``k`` has lost its shards."""
        held = self._client.run(
            worker.held, self._run, workers=[self._addresses[k]], on_error="return"
        )
        shards = held.get(self._addresses[k])
        return not isinstance(shards, list) or not set(self._shards_of[k]) <= set(shards)

    def _awaits_end(self, k: int) -> bool:
        """Whether worker ``k`` is gone, which may take a moment to show."""
        for _ in range(10):
            if self._addresses[k] not in self._living():
                return True
            time.sleep(0.1)
        return False

    def _recover(self, k: int, batch: Batch | None) -> None:
        """Make the shards of worker ``k`` again, on the worker that has the fewest."""
        self._disconnect(k)
        self._unreachable.discard(k)
        for _ in range(_MAX_LOSSES):
            living = self._await_workers()
            burden = {address: 0 for address in living}
            for other, address in enumerate(self._addresses):
                if other != k and address in burden:
                    burden[address] += len(self._shards_of[other])
            self._addresses[k] = min(living, key=lambda address: (burden[address], address))
            try:
                self._wait(k, self._place(k, batch))
                return
            except _WorkerLost as error:
                self._loss = error
        raise EngineError(
            f"Workers of the cluster died {_MAX_LOSSES} times while they received their shards; "
            "give them more memory, or use more of them."
        ) from self._loss

    def _place(self, k: int, batch: Batch | None) -> list[Any]:
        """Return the futures of the actor and the shards of worker ``k``."""
        try:
            return self._submit(k, batch)
        except Exception as error:
            # Scattering to a worker that is gone raises, among others, KeyError.
            if self._awaits_end(k) or isinstance(error, _CERTAIN_LOSSES):
                raise _WorkerLost from error
            raise

    def _submit(self, k: int, batch: Batch | None) -> list[Any]:
        address = [self._addresses[k]]
        host = self._client.submit(ShardHost, actor=True, workers=address, pure=False)
        placed = []
        for i in self._shards_of[k]:
            source = self._sources[i]
            if isinstance(source, Delayed):
                sent = self._client.compute(source, workers=address, allow_other_workers=True)
            else:
                sent = self._client.scatter(source, workers=address, hash=False)
            calls, last = ([], 0) if batch is None else (self._replay(i), batch.number)
            placed.append(
                self._client.submit(
                    worker.place, self._run, i, sent, calls, last, workers=address, pure=False
                )
            )
        return [host, *placed]

    def _wait(self, k: int, futures: Sequence[Any]) -> None:
        """Wait for the actor and the shards of worker ``k``, and raise errors in making them."""
        host, *placed = futures
        for future in placed:
            failure = self._poll([k], future)
            if failure is not None:
                raise failure.error()
        self._hosts[k] = self._poll([k], host)

    def _poll(self, places: Sequence[int], future: Any) -> Any:
        """Return the result of a pinned task, or raise _WorkerLost if its worker dies."""
        while True:
            try:
                return future.result(timeout=_POLL_SECONDS)
            except Exception as error:
                if isinstance(error, KilledWorker):
                    raise EngineError(
                        f"Workers of the cluster died again and again: {error} Give them more "
                        "memory, or use smaller partitions."
                    ) from error
                if not set(self._living()).issuperset(self._addresses[k] for k in places):
                    future.cancel()
                    raise _WorkerLost from error
                if future.status == "error" or not isinstance(error, _LOSSES):
                    raise
                if not isinstance(error, TimeoutError):
                    raise _WorkerLost from error

    def _await_workers(self) -> list[str]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (living := self._living()):
            if time.monotonic() > deadline:
                raise EngineError(
                    f"The cluster has had no worker for {_PATIENCE_SECONDS:.0f} seconds; start "
                    "some."
                )
            time.sleep(0.2)
        return living

    def _living(self) -> list[str]:
        return _addresses(self._client)

    @override
    def close(self) -> None:
        for k in range(len(self._connections)):
            self._disconnect(k)
        for host, address in zip(self._hosts, self._addresses, strict=True):
            if host is not None and address in self._living():
                with suppress(Exception):  # a clean-up must not fail a fit
                    host.release(self._run).result(timeout=5)
        self._hosts = []


def _addresses(client: Client) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError as error:
        raise EngineError(
            "engine='dask' needs a client: create one first, as in "
            "client = distributed.Client(address)."
        ) from error
