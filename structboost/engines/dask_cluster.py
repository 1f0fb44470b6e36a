"""Shards on the workers of a Dask cluster: scattered once, then only models go out and sums come back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from structboost.engines import worker
from structboost.engines.base import Answer, Call, Engine, Layout, Replay, Workers
from structboost.exceptions import EngineError

try:
    from dask.delayed import Delayed
    from distributed import Client, get_client
except ImportError as error:
    raise ImportError("engine='dask' needs Dask; install structboost[distributed].") from error

_MAX_LOSSES = 20
# How long a run waits for a worker when none is left.
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 1.0


class _WorkerLost(Exception):
    """The worker that was to answer is gone."""


class ShardHost:
    """An actor on a worker: calls go to it directly, not through the scheduler."""

    def answer(self, run: str, calls: dict[int, Any], layout: Layout | None) -> Answer | None:
        """What the shards of this process say; None if it has them no longer."""
        try:
            return worker.answer(run, calls, layout)
        except worker.ShardLost:
            return None

    def release(self, run: str) -> None:
        """Let go of the shards of a run."""
        worker.release(run)


@dataclass(frozen=True)
class DaskCluster(Engine):
    """Shards on the workers of the current :class:`distributed.Client`, asked for when a fit starts."""

    @property
    def n_workers(self) -> int:
        """Workers of the cluster now."""
        return max(1, len(_addresses(_current_client())))

    def start(self, sources: Sequence[Any], layout: Layout, replay: Replay) -> Workers:
        """Place the shards."""
        return _DaskWorkers(_current_client(), sources, layout, replay)


class _DaskWorkers(Workers):
    """Each share of neighbouring shards is with one worker, by the actor there."""

    def __init__(self, client: Client, sources: Sequence[Any], layout: Layout, replay: Replay) -> None:
        super().__init__(layout)
        self._client = client
        self._run = uuid.uuid4().hex
        self._sources = sources
        self._replay = replay
        addresses = self._living()
        self._shares = layout.shares(len(addresses))
        self._addresses = addresses[: len(self._shares)]
        self._hosts: list[Any] = [None] * len(self._shares)
        lost = []
        placing = {}
        for k in range(len(self._shares)):
            try:
                placing[k] = self._place(k, again=False)
            except _WorkerLost:
                lost.append(k)
        for k, futures in placing.items():
            try:
                self._wait(k, futures)
            except _WorkerLost:
                lost.append(k)
        for k in lost:
            self._recover(k)

    def _answers(self, calls: Sequence[Call], layout: Layout | None) -> Sequence[Answer]:
        asked = [self._ask(k, calls, layout) for k in range(len(self._shares))]
        return [self._answer(k, future, calls, layout) for k, future in enumerate(asked)]

    def _ask(self, k: int, calls: Sequence[Call], layout: Layout | None) -> Any:
        """Send calls to the actor of share ``k``."""
        own = {i: [call.of_shard(i) for call in calls] for i in self._shares[k]}
        return self._hosts[k].answer(self._run, own, layout)

    def _answer(self, k: int, future: Any, calls: Sequence[Call], layout: Layout | None) -> Answer:
        """What the actor of share ``k`` says; if its worker died, what one in its place says."""
        for _ in range(_MAX_LOSSES):
            try:
                found = self._result(k, future)
                if found is not None:
                    return found
            except _WorkerLost:
                pass
            self._recover(k)
            # The replay has what went ahead of the last call.
            future = self._ask(k, calls[-1:], layout)
        raise EngineError(
            f"Workers of the cluster died {_MAX_LOSSES} times in {calls[-1].method!r}; give them more memory, or take "
            "more of them."
        )

    def _result(self, k: int, future: Any) -> Answer | None:
        """The result of an actor's call.

        Raises
        ------
        _WorkerLost
            If the call failed and the worker is gone.
        """
        try:
            return future.result()  # type: ignore[no-any-return]
        except Exception as error:
            if self._is_gone(k, error):
                raise _WorkerLost from error
            raise

    def _is_gone(self, k: int, error: Exception) -> bool:
        """Whether a failure is the loss of the worker of share ``k``, which may take a moment to show."""
        if not isinstance(error, OSError):
            return False
        for _ in range(10):
            if self._addresses[k] not in self._living():
                return True
            time.sleep(0.1)
        # Nothing of ours raises it on a worker that lives but for a broken connection: place the shards anew.
        return "Actor" in str(error) or "comm" in str(error).lower()

    def _recover(self, k: int) -> None:
        """Make the shards of share ``k`` again, on the worker that has the fewest."""
        for _ in range(_MAX_LOSSES):
            living = self._await_workers()
            burden = {address: 0 for address in living}
            for share, address in enumerate(self._addresses):
                if share != k and address in burden:
                    burden[address] += len(self._shares[share])
            self._addresses[k] = min(living, key=lambda address: (burden[address], address))
            try:
                self._wait(k, self._place(k, again=True))
                return
            except _WorkerLost:
                continue
        raise EngineError(f"Workers of the cluster died {_MAX_LOSSES} times while shards were placed.")

    def _place(self, k: int, *, again: bool) -> list[Any]:
        """Futures of the actor and the shards of share ``k``.

        Raises
        ------
        _WorkerLost
            If the worker goes while it is sent the sources.
        """
        try:
            return self._submit(k, again=again)
        except Exception as error:
            if self._is_gone(k, error):
                raise _WorkerLost from error
            raise

    def _submit(self, k: int, *, again: bool) -> list[Any]:
        address = [self._addresses[k]]
        host = self._client.submit(ShardHost, actor=True, workers=address, pure=False)
        placed = []
        for i in self._shares[k]:
            source = self._sources[i]
            if isinstance(source, Delayed):
                sent = self._client.compute(source, workers=address, allow_other_workers=True)
            else:
                sent = self._client.scatter(source, workers=address, hash=False)
            calls = self._replay(i) if again else []
            placed.append(self._client.submit(worker.place, self._run, i, sent, calls, workers=address, pure=False))
        return [host, *placed]

    def _wait(self, k: int, futures: Sequence[Any]) -> None:
        """Until the actor and the shards of share ``k`` are there.

        Raises
        ------
        _WorkerLost
            If its worker goes before.
        """
        host, *placed = futures
        for future in placed:
            self._poll(k, future)
        self._hosts[k] = self._poll(k, host)

    def _poll(self, k: int, future: Any) -> Any:
        """Result of a task that only the worker of share ``k`` may run."""
        while True:
            try:
                return future.result(timeout=_POLL_SECONDS)
            except Exception as error:
                if self._addresses[k] not in self._living():
                    future.cancel()
                    raise _WorkerLost from error
                if not isinstance(error, TimeoutError):
                    raise

    def _await_workers(self) -> list[str]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (living := self._living()):
            if time.monotonic() > deadline:
                raise EngineError(f"The cluster has had no worker for {_PATIENCE_SECONDS:.0f} seconds; start some.")
            time.sleep(0.2)
        return living

    def _living(self) -> list[str]:
        return _addresses(self._client)

    def close(self) -> None:
        """Let the workers forget the shards."""
        for host, address in zip(self._hosts, self._addresses, strict=True):
            if host is not None and address in self._living():
                _quietly(lambda host=host: host.release(self._run).result(timeout=5))  # type: ignore[misc]
        self._hosts = []


def _quietly(action: Callable[[], Any]) -> None:
    """What is done for tidiness alone must not fail a fit."""
    try:
        action()
    except Exception:
        return


def _addresses(client: Client) -> list[str]:
    """Workers that are up."""
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError as error:
        raise EngineError(
            "engine='dask' needs a client: make one first, as in client = distributed.Client(address)."
        ) from error
