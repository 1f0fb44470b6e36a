"""A direct connection from the trainer to a process that holds shards, here or on a cluster.

A round makes some ten to thirty passes over the shards, and each waits for the one before.  A call
through a pool or Dask costs 1.4 to 11 ms, mostly in queues and event loops; a plain connection
costs a third of a millisecond to one.  Large arrays are sent as they lie in memory, without copies.

Anybody may connect to a port.  Both ends therefore first prove that they know the key, which
reached the trainer through the pool or the cluster: each signs the random numbers of both.  Until
then messages have a fixed size and a time limit, and nothing is unpickled.  One thread listens to
all connections, so that a silent stranger delays nobody.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing.connection import wait
from typing import Any, NamedTuple

import numpy as np

from structboost.engines import worker
from structboost.engines.base import Answer, Batch

_POLL_SECONDS = 1.0
_PAUSE_SECONDS = 0.01
_BROKEN = (OSError, EOFError)
# Arrays from this size on are not copied into the message.
_LARGE_BYTES = 1 << 14
# Some systems send no more at a time than an int counts.
_PIECE_BYTES = 1 << 30
# Random numbers and signatures (SHA-256) are this long.
_PROOF_BYTES = 32
# How long either end waits for the other's proof; the other may be busy.
_PROOF_SECONDS = 20.0
# Most connections without a proof; one more, and the oldest is dropped.
_MOST_UNPROVED = 64
# A trainer that has not connected by then never will.
_LISTEN_SECONDS = 600.0


class ConnectionBrokenError(Exception):
    """The connection broke, or its other end is gone."""


class Endpoint(NamedTuple):
    """Where a process listens, and the key that it asks for."""

    host: str
    port: int
    key: bytes


class _Messages:
    """Objects over a connection, the large arrays in them straight from and into memory.

    Parameters
    ----------
    connection : socket.socket
        It is closed with this.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
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
        sizes = [len(data), *(array.nbytes for array in arrays)]
        head = struct.pack(f"!Q{len(sizes)}Q", len(sizes), *sizes)
        if len(data) < _LARGE_BYTES:
            head, data = head + data, b""
        for piece in (memoryview(head), memoryview(data), *arrays):
            for first in range(0, len(piece), _PIECE_BYTES):
                self._socket.sendall(piece[first : first + _PIECE_BYTES])

    def receive(self) -> Any:
        (n_sizes,) = struct.unpack("!Q", _received(self._socket, 8))
        sizes = struct.unpack(f"!{n_sizes}Q", _received(self._socket, 8 * n_sizes))
        data, *arrays = [_received(self._socket, size) for size in sizes]
        return pickle.loads(data, buffers=arrays)

    def poll(self, seconds: float) -> bool:
        if self._socket.fileno() < 0:
            raise OSError("The connection is closed.")
        return bool(wait([self._socket], seconds))

    def close(self) -> None:
        self._socket.close()


def _received(connection: socket.socket, size: int, until: float | None = None) -> memoryview:
    """So many bytes, and by a time where one is given.

    Raises
    ------
    OSError, EOFError
        If they do not come.
    """
    data = np.empty(size, np.uint8).data
    left = data
    while left:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 1e-3))
        n_bytes = connection.recv_into(left[:_PIECE_BYTES])
        if n_bytes == 0:
            raise EOFError
        left = left[n_bytes:]
    return data


def _proof(key: bytes, of: bytes, *numbers: bytes) -> bytes:
    """Signature of one end under the random numbers of both; that of the other end is another."""
    return hmac.digest(key, of + b"".join(numbers), "sha256")


def listen(run: str, host: str, at_end: Callable[[], None] = lambda: None) -> Endpoint:
    """Answer batches for the shards of a run, in a thread, to the first peer that knows the key.

    Parameters
    ----------
    run : str
        Run whose shards this process holds (:func:`structboost.engines.worker.place`).
    host : str
        Address of this machine that the trainer can reach; only this one is listened at.
    at_end : callable, optional
        Called when the trainer closes the connection, is gone, or never comes.

    Raises
    ------
    OSError
        If the host has no free port.
    """
    key = secrets.token_bytes(_PROOF_BYTES)
    server = socket.create_server((host, 0), backlog=_MOST_UNPROVED)
    threading.Thread(
        target=_serve, args=(server, key, run, at_end), name=f"structboost-{run[:8]}", daemon=True
    ).start()
    return Endpoint(host, int(server.getsockname()[1]), key)


def _serve(server: socket.socket, key: bytes, run: str, at_end: Callable[[], None]) -> None:
    try:
        with server:
            trainer = _Door(server, key).trainer()
        with closing(_Messages(trainer)) as messages:
            while True:
                messages.send(worker.answer(run, *messages.receive()))
    except _BROKEN:
        # The trainer has closed it, or is gone.
        pass
    finally:
        at_end()


class _Unproved:
    """Somebody who has connected, and what was heard so far."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.until = time.monotonic() + _PROOF_SECONDS
        self.number = secrets.token_bytes(_PROOF_BYTES)
        self.heard = b""


class _Door:
    """Lets the trainer in, and drops everybody else.

    Parameters
    ----------
    server : socket.socket
        Listening.
    key : bytes
    """

    def __init__(self, server: socket.socket, key: bytes) -> None:
        self._server = server
        self._key = key
        # By number of the descriptor; the first who came is the first here.
        self._unproved: dict[int, _Unproved] = {}
        self._selector = selectors.DefaultSelector()
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ)

    def trainer(self) -> socket.socket:
        """The connection of the first who proves that he knows the key.

        Raises
        ------
        TimeoutError
            If nobody does.
        """
        until = time.monotonic() + _LISTEN_SECONDS
        try:
            while time.monotonic() < until:
                for ready, _ in self._selector.select(_POLL_SECONDS):
                    if ready.fileobj is self._server:
                        self._accept()
                    # Whoever was dropped a moment ago is not there any more.
                    elif ready.fd in self._unproved and self._is_proved(ready.fd):
                        return self._taken_out(ready.fd)
                self._drop_the_late()
            raise TimeoutError
        finally:
            for number in list(self._unproved):
                self._taken_out(number).close()
            self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._server.accept()
        except OSError:
            time.sleep(_PAUSE_SECONDS)  # gone again, or there is no descriptor to be had
            return
        connection.setblocking(False)
        new = _Unproved(connection)
        self._unproved[connection.fileno()] = new
        self._selector.register(connection, selectors.EVENT_READ)
        try:
            connection.sendall(new.number)
        except OSError:
            self._taken_out(connection.fileno()).close()
        if len(self._unproved) > _MOST_UNPROVED:
            self._taken_out(next(iter(self._unproved))).close()

    def _is_proved(self, number: int) -> bool:
        """Hear more of somebody; who is wrong, or hangs up, is dropped."""
        other = self._unproved[number]
        try:
            new = other.connection.recv(2 * _PROOF_BYTES - len(other.heard))
            other.heard += new
            if new and len(other.heard) < 2 * _PROOF_BYTES:
                return False
            theirs, proof = other.heard[:_PROOF_BYTES], other.heard[_PROOF_BYTES:]
            if hmac.compare_digest(proof, _proof(self._key, b"trainer", other.number, theirs)):
                other.connection.sendall(_proof(self._key, b"process", other.number, theirs))
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass
        self._taken_out(number).close()
        return False

    def _drop_the_late(self) -> None:
        now = time.monotonic()
        for number in [number for number, other in self._unproved.items() if other.until < now]:
            self._taken_out(number).close()

    def _taken_out(self, number: int) -> socket.socket:
        connection = self._unproved.pop(number).connection
        self._selector.unregister(connection)
        return connection


def _connected(endpoint: Endpoint) -> socket.socket:
    """A connection to a process, which has shown that it knows the key.

    Raises
    ------
    OSError, EOFError
        If nobody is there, nothing comes in time, or it is another.
    """
    until = time.monotonic() + _PROOF_SECONDS
    connection = socket.create_connection((endpoint.host, endpoint.port), _PROOF_SECONDS)
    try:
        theirs = bytes(_received(connection, _PROOF_BYTES, until))
        number = secrets.token_bytes(_PROOF_BYTES)
        connection.sendall(number + _proof(endpoint.key, b"trainer", theirs, number))
        proof = bytes(_received(connection, _PROOF_BYTES, until))
        if not hmac.compare_digest(proof, _proof(endpoint.key, b"process", theirs, number)):
            raise ConnectionError("What listens there does not know the key.")
    except BaseException:
        connection.close()
        raise
    return connection


class DirectConnection:
    """The trainer's end.

    Parameters
    ----------
    endpoint : Endpoint

    Raises
    ------
    ConnectionBrokenError
        If the process cannot be reached, or does not answer in time.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        try:
            self._messages = _Messages(_connected(endpoint))
        except _BROKEN as error:
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
            # An interrupt came between; what is left of the answer would be taken for that to this
            # batch.
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
        """
        try:
            while not self._messages.poll(_POLL_SECONDS):
                if not is_alive():
                    raise ConnectionBrokenError
            found = self._messages.receive()
        except _BROKEN as error:
            raise ConnectionBrokenError from error
        self._is_asked = False
        return found  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the connection, whatever may still come."""
        self._messages.close()
