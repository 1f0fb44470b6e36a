"""A connection of its own from the trainer to a worker of a cluster.

A round makes some ten to thirty passes over the shards, each of which waits for the last.  By the cluster's own ways a
short one takes 3 to 5 ms, mostly in event loops; a plain connection answers in a fraction of one.
"""

from __future__ import annotations

import pickle
import secrets
import threading
from collections.abc import Callable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NamedTuple

from structboost.engines import worker
from structboost.engines.base import Answer, Batch
from structboost.exceptions import EngineError

_POLL_SECONDS = 1.0
_BROKEN = (OSError, EOFError)


class BrokenLineError(Exception):
    """The line broke, or the one at its other end is gone."""


class Number(NamedTuple):
    """Where a worker listens, and the key that it wants to be shown."""

    host: str
    port: int
    key: bytes


def listen(run: str, host: str) -> Number:
    """Answer batches for the shards of a run in a thread of its own, for the first that calls.

    Raises
    ------
    OSError
        If the host has no free port.
    """
    key = secrets.token_bytes(32)
    listener = Listener((host, 0), authkey=key)
    threading.Thread(target=_serve, args=(listener, run), name=f"structboost-{run[:8]}", daemon=True).start()
    return Number(host, int(listener.address[1]), key)


def _serve(listener: Listener, run: str) -> None:
    try:
        with listener, listener.accept() as line:
            while True:
                shards, batch = pickle.loads(line.recv_bytes())
                line.send_bytes(_reply(run, shards, batch))
    except (*_BROKEN, AuthenticationError):
        # The trainer has hung up, or was not the one who called: it asks for another line.
        return


def _reply(run: str, shards: Sequence[int], batch: Batch) -> bytes:
    try:
        return pickle.dumps(worker.answer(run, shards, batch), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        try:
            return pickle.dumps(error)
        except Exception:
            return pickle.dumps(EngineError(f"A worker failed: {error!r}"))


class Line:
    """The trainer's end.

    Parameters
    ----------
    number : Number

    Raises
    ------
    BrokenLineError
        If the worker cannot be reached.
    """

    def __init__(self, number: Number) -> None:
        try:
            self._connection: Connection = Client((number.host, number.port), authkey=number.key)
        except (*_BROKEN, AuthenticationError) as error:
            raise BrokenLineError from error

    def ask(self, shards: Sequence[int], batch: Batch) -> None:
        """Send a batch.

        Raises
        ------
        BrokenLineError
        """
        try:
            self._connection.send_bytes(pickle.dumps((list(shards), batch), pickle.HIGHEST_PROTOCOL))
        except _BROKEN as error:
            raise BrokenLineError from error

    def answer(self, is_alive: Callable[[], bool]) -> Answer:
        """What the shards say to it.

        Raises
        ------
        BrokenLineError
            If the worker goes before.
        Exception
            Whatever the worker raised.
        """
        try:
            while not self._connection.poll(_POLL_SECONDS):
                if not is_alive():
                    raise BrokenLineError
            reply = self._connection.recv_bytes()
        except _BROKEN as error:
            raise BrokenLineError from error
        found: Any = pickle.loads(reply)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    def hang_up(self) -> None:
        """End the connection, whatever may still come."""
        self._connection.close()
