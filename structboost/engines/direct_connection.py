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


class ConnectionBrokenError(Exception):
    """The connection broke, or its other end is gone."""


class Endpoint(NamedTuple):
    """Where a worker listens, and the key that it wants to be shown."""

    host: str
    port: int
    key: bytes


def listen(run: str, host: str) -> Endpoint:
    """Answer batches for the shards of a run in a thread of its own, for the first that connects.

    Parameters
    ----------
    run : str
        Run whose shards this process holds (:func:`structboost.engines.worker.place`).
    host : str
        Address of this machine that the trainer can reach.

    Raises
    ------
    OSError
        If the host has no free port.
    """
    key = secrets.token_bytes(32)
    listener = Listener((host, 0), authkey=key)
    threading.Thread(target=_serve, args=(listener, run), name=f"structboost-{run[:8]}", daemon=True).start()
    return Endpoint(host, int(listener.address[1]), key)


def _serve(listener: Listener, run: str) -> None:
    try:
        with listener, listener.accept() as connection:
            while True:
                shards, batch = pickle.loads(connection.recv_bytes())
                connection.send_bytes(_reply(run, shards, batch))
    except (*_BROKEN, AuthenticationError):
        # The trainer has closed it, or was not the one who connected: it asks for another.
        return


def _reply(run: str, shards: Sequence[int], batch: Batch) -> bytes:
    try:
        return pickle.dumps(worker.answer(run, shards, batch), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        try:
            return pickle.dumps(error)
        except Exception:
            return pickle.dumps(EngineError(f"A worker failed: {error!r}"))


class DirectConnection:
    """The trainer's end.

    Parameters
    ----------
    endpoint : Endpoint

    Raises
    ------
    ConnectionBrokenError
        If the worker cannot be reached.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        try:
            self._connection: Connection = Client((endpoint.host, endpoint.port), authkey=endpoint.key)
        except (*_BROKEN, AuthenticationError) as error:
            raise ConnectionBrokenError from error

    def ask(self, shards: Sequence[int], batch: Batch) -> None:
        """Send a batch for shards that the worker holds.

        Raises
        ------
        ConnectionBrokenError
            If the worker is gone.
        """
        try:
            self._connection.send_bytes(pickle.dumps((list(shards), batch), pickle.HIGHEST_PROTOCOL))
        except _BROKEN as error:
            raise ConnectionBrokenError from error

    def answer(self, is_alive: Callable[[], bool]) -> Answer:
        """What the shards say to it.

        Raises
        ------
        ConnectionBrokenError
            If the worker goes before.
        Exception
            Whatever the worker raised.
        """
        try:
            while not self._connection.poll(_POLL_SECONDS):
                if not is_alive():
                    raise ConnectionBrokenError
            reply = self._connection.recv_bytes()
        except _BROKEN as error:
            raise ConnectionBrokenError from error
        found: Any = pickle.loads(reply)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the connection, whatever may still come."""
        self._connection.close()
