"""A connection of its own from the trainer to a process that holds shards, here or on a worker of a cluster.

A round makes some ten to thirty passes over the shards, each of which waits for the last.  By the ways of a pool or a
cluster asking takes 1.4 to 11 ms, mostly in queues and event loops, by a plain connection a third of one to one.
Large arrays go by as they lie in memory, without a copy on either side.
"""

from __future__ import annotations

import pickle
import secrets
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from structboost.engines import worker
from structboost.engines.base import Answer, Batch
from structboost.exceptions import EngineError

_POLL_SECONDS = 1.0
_BROKEN = (OSError, EOFError)
# Arrays from this size on are not copied into the message.
_LARGE_BYTES = 1 << 14
# Some systems take no more at a time than an int counts.
_PIECE_BYTES = 1 << 30


class ConnectionBrokenError(Exception):
    """The connection broke, or its other end is gone."""


class Endpoint(NamedTuple):
    """Where a process listens, and the key that it wants to be shown."""

    host: str
    port: int
    key: bytes


class _Messages:
    """Objects over a connection, the large arrays in them straight from and into memory.

    Parameters
    ----------
    connection : multiprocessing.connection.Connection
        Over TCP; it is closed with this.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._socket = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        # A default timeout would let neither of the two wait.
        self._socket.settimeout(None)
        # A message ends with less than a packet, for which nothing need be waited.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Any) -> None:
        arrays: list[memoryview] = []

        def is_copied(buffer: pickle.PickleBuffer) -> bool:
            array = buffer.raw()
            if array.nbytes < _LARGE_BYTES:
                return True
            arrays.append(array)
            return False

        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=is_copied)
        self._connection.send_bytes(pickle.dumps(([array.nbytes for array in arrays], data)))
        for array in arrays:
            for first in range(0, len(array), _PIECE_BYTES):
                self._socket.sendall(array[first : first + _PIECE_BYTES])

    def receive(self) -> Any:
        sizes, data = pickle.loads(self._connection.recv_bytes())
        return pickle.loads(data, buffers=[self._array(size) for size in sizes])

    def poll(self, seconds: float) -> bool:
        return self._connection.poll(seconds)

    def _array(self, size: int) -> memoryview:
        array = np.empty(size, np.uint8).data
        left = array
        while left:
            n_bytes = self._socket.recv_into(left[:_PIECE_BYTES])
            if n_bytes == 0:
                raise EOFError
            left = left[n_bytes:]
        return array

    def close(self) -> None:
        self._socket.close()
        self._connection.close()


def listen(run: str, host: str, at_end: Callable[[], None] = lambda: None) -> Endpoint:
    """Answer batches for the shards of a run in a thread of its own, for the first that connects.

    Parameters
    ----------
    run : str
        Run whose shards this process holds (:func:`structboost.engines.worker.place`).
    host : str
        Address of this machine that the trainer can reach.
    at_end : callable, optional
        Called when the trainer closes the connection, or is gone.

    Raises
    ------
    OSError
        If the host has no free port.
    """
    key = secrets.token_bytes(32)
    listener = Listener((host, 0), authkey=key)
    arguments = listener, run, at_end
    threading.Thread(target=_serve, args=arguments, name=f"structboost-{run[:8]}", daemon=True).start()
    return Endpoint(host, int(listener.address[1]), key)


def _serve(listener: Listener, run: str, at_end: Callable[[], None]) -> None:
    try:
        with listener, closing(_Messages(_first_with_the_key(listener))) as messages:
            while True:
                messages.send(_reply(run, *messages.receive()))
    except _BROKEN:
        # The trainer has closed it, or is gone.
        at_end()


def _first_with_the_key(listener: Listener) -> Connection:
    while True:
        try:
            return listener.accept()
        except (AuthenticationError, EOFError, ConnectionError):
            continue  # a stranger


class _Failure(NamedTuple):
    """An error, pickled by value where its class is not one that can be imported."""

    pickled: bytes


def _reply(run: str, shards: Sequence[int], batch: Batch) -> Answer | _Failure:
    try:
        return worker.answer(run, shards, batch)
    except Exception as error:
        note = "".join(("In the process of the shard:\n", *traceback.format_exception(error)))
        error.add_note(note)
        try:
            pickled = cloudpickle.dumps(error)
            pickle.loads(pickled)
        except Exception:  # as of a class that takes other arguments than it keeps
            plain = EngineError(f"A worker failed: {error!r}")
            plain.add_note(note)
            pickled = pickle.dumps(plain)
        return _Failure(pickled)


class DirectConnection:
    """The trainer's end.

    Parameters
    ----------
    endpoint : Endpoint

    Raises
    ------
    ConnectionBrokenError
        If the process cannot be reached.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        try:
            self._messages = _Messages(Client((endpoint.host, endpoint.port), authkey=endpoint.key))
        except (*_BROKEN, AuthenticationError) as error:
            raise ConnectionBrokenError from error
        self._is_asked = False

    def ask(self, shards: Sequence[int], batch: Batch) -> None:
        """Send a batch for shards that the process holds.

        Raises
        ------
        ConnectionBrokenError
            If the process is gone, or has not been heard out.
        """
        if self._is_asked:
            # An interrupt came between; what is left of the answer would be taken for that to this batch.
            raise ConnectionBrokenError
        self._is_asked = True
        try:
            self._messages.send((list(shards), batch))
        except _BROKEN as error:
            raise ConnectionBrokenError from error

    def answer(self, is_alive: Callable[[], bool]) -> Answer:
        """What the shards say to it.

        Raises
        ------
        ConnectionBrokenError
            If the process goes before.
        Exception
            Whatever the process raised.
        """
        try:
            while not self._messages.poll(_POLL_SECONDS):
                if not is_alive():
                    raise ConnectionBrokenError
            found = self._messages.receive()
        except _BROKEN as error:
            raise ConnectionBrokenError from error
        self._is_asked = False
        if isinstance(found, _Failure):
            raise pickle.loads(found.pickled)
        return found  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the connection, whatever may still come."""
        self._messages.close()
