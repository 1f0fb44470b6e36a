"""Direct connection from the trainer to a process that holds shards, here or on a cluster.

A round makes some ten to thirty passes over the shards, and each waits for the one before.  A call
through a pool or Dask costs 1.4 to 11 ms, mostly in queues and event loops; a plain connection
costs a third of a millisecond to one.  Large arrays are sent from memory, without copies.

Anybody may connect to a port.  Both ends therefore first prove that they have the key, which
reached the trainer through the pool or the cluster: each signs the random numbers of both.  Until
then messages have a fixed size and a time limit, and nothing is unpickled.  One thread listens to
all connections, so that a silent stranger delays nobody.
"""

from __future__ import annotations

import asyncio
import hmac
import pickle
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from multiprocessing.connection import wait
from typing import Any, NamedTuple

import numpy as np

from structboost.engines import worker
from structboost.engines.base import Batch, Response

_POLL_SECONDS = 1.0
_PAUSE_SECONDS = 0.01
_BROKEN = (OSError, EOFError)
# Arrays from this size on are not copied into the message.
_LARGE_BYTES = 1 << 14
# Some systems send no more bytes at a time than the largest int.
_PIECE_BYTES = 1 << 30
# Length of random numbers and signatures (SHA-256).
_PROOF_BYTES = 32
# Seconds that either end waits for the other's proof, as the other may be busy.
_PROOF_SECONDS = 20.0
# Largest number of connections without a proof; beyond it the oldest is dropped.
_MOST_UNPROVED = 64
# Seconds after which a trainer that has not connected never will.
_LISTEN_SECONDS = 600.0


class ConnectionBrokenError(Exception):
    """Error of a connection that broke, or whose other end is gone."""


class Endpoint(NamedTuple):
    """Address where a process listens, and its key."""

    host: str
    port: int
    key: bytes


class _Messages:
    """Messages over a connection, with large arrays straight from and into memory."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # A default timeout would end the waiting of both.
        self._socket.settimeout(None)
        # The end of a message, less than a packet, is sent at once.
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
        (n_sizes,) = struct.unpack("!Q", _receive_bytes(self._socket, 8))
        sizes = struct.unpack(f"!{n_sizes}Q", _receive_bytes(self._socket, 8 * n_sizes))
        data, *arrays = [_receive_bytes(self._socket, size) for size in sizes]
        return pickle.loads(data, buffers=arrays)

    def poll(self, seconds: float) -> bool:
        if self._socket.fileno() < 0:
            raise OSError("The connection is closed.")
        return bool(wait([self._socket], seconds))

    def close(self) -> None:
        self._socket.close()


def _receive_bytes(connection: socket.socket, size: int, until: float | None = None) -> memoryview:
    """Receive so many bytes, or raise OSError or EOFError if they do not arrive in time."""
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


def _proof(key: bytes, of: bytes, *nonces: bytes) -> bytes:
    """Sign the random numbers of both ends, differently for each end."""
    return hmac.digest(key, of + b"".join(nonces), "sha256")


def listen(run: str, host: str, at_end: Callable[[], None] = lambda: None) -> Endpoint:
    """Process batches for the shards of a run, in a thread, for the first peer with the key.

    Parameters
    ----------
    run : str
        Run whose shards this process holds (:func:`structboost.engines.worker.place`).
    host : str
        Address of this machine that the trainer can reach; others are not listened at.
    at_end : callable, optional
        Called when the trainer closes the connection, is gone, or never comes.

    Raises
    ------
    OSError
        If the host has no free port.
    """
    key = secrets.token_bytes(_PROOF_BYTES)
    server = socket.create_server((host, 0), backlog=_MOST_UNPROVED)
    server.setblocking(False)
    threading.Thread(
        target=_serve, args=(server, key, run, at_end), name=f"structboost-{run[:8]}", daemon=True
    ).start()
    return Endpoint(host, int(server.getsockname()[1]), key)


def _serve(server: socket.socket, key: bytes, run: str, at_end: Callable[[], None]) -> None:
    try:
        with server:
            trainer = asyncio.run(_trainer(server, key))
        with closing(_Messages(trainer)) as messages:
            while True:
                messages.send(worker.respond(run, *messages.receive()))
    except _BROKEN:
        pass  # the trainer has closed the connection, or is gone
    finally:
        at_end()


async def _trainer(server: socket.socket, key: bytes) -> socket.socket:
    """Return the connection of the first peer that proves the key, and drop all others."""
    loop = asyncio.get_running_loop()
    proved: asyncio.Future[socket.socket] = loop.create_future()
    # Peers are in the order of their connections.
    unproved: list[asyncio.Task[None]] = []

    async def hear(stranger: socket.socket) -> None:
        with ExitStack() as dropping, suppress(*_BROKEN):
            dropping.callback(stranger.close)
            await asyncio.wait_for(_check_proof(stranger, key), _PROOF_SECONDS)
            if not proved.done():
                proved.set_result(stranger)
                dropping.pop_all()

    async def admit() -> None:
        while True:
            try:
                stranger, _ = await loop.sock_accept(server)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)  # gone again, or there is no descriptor
                continue
            stranger.setblocking(False)
            unproved[:] = [task for task in unproved if not task.done()]
            unproved.append(loop.create_task(hear(stranger)))
            if len(unproved) > _MOST_UNPROVED:
                unproved.pop(0).cancel()

    admitting = loop.create_task(admit())
    try:
        return await asyncio.wait_for(proved, _LISTEN_SECONDS)
    finally:
        admitting.cancel()


async def _check_proof(stranger: socket.socket, key: bytes) -> None:
    """Exchange proofs, or raise ConnectionError if theirs is wrong."""
    loop = asyncio.get_running_loop()
    nonce, heard = secrets.token_bytes(_PROOF_BYTES), b""
    await loop.sock_sendall(stranger, nonce)
    while len(heard) < 2 * _PROOF_BYTES:
        new = await loop.sock_recv(stranger, 2 * _PROOF_BYTES - len(heard))
        if not new:
            raise EOFError
        heard += new
    theirs, proof = heard[:_PROOF_BYTES], heard[_PROOF_BYTES:]
    if not hmac.compare_digest(proof, _proof(key, b"trainer", nonce, theirs)):
        raise ConnectionError("The peer that connects does not have the key.")
    await loop.sock_sendall(stranger, _proof(key, b"process", nonce, theirs))


def _connect(endpoint: Endpoint) -> socket.socket:
    """Connect to a process, and check its proof of the key."""
    until = time.monotonic() + _PROOF_SECONDS
    connection = socket.create_connection((endpoint.host, endpoint.port), _PROOF_SECONDS)
    try:
        theirs = bytes(_receive_bytes(connection, _PROOF_BYTES, until))
        nonce = secrets.token_bytes(_PROOF_BYTES)
        connection.sendall(nonce + _proof(endpoint.key, b"trainer", theirs, nonce))
        proof = bytes(_receive_bytes(connection, _PROOF_BYTES, until))
        if not hmac.compare_digest(proof, _proof(endpoint.key, b"process", theirs, nonce)):
            raise ConnectionError("The process that listens there does not have the key.")
    except BaseException:
        connection.close()
        raise
    return connection


class DirectConnection:
    """Trainer's end of a connection.

    Raises ConnectionBrokenError if the process cannot be reached in time.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        try:
            self._messages = _Messages(_connect(endpoint))
        except _BROKEN as error:
            raise ConnectionBrokenError from error
        self._is_asked = False

    def ask(self, shards: Sequence[int], batch: Batch) -> None:
        """Send a batch for shards of the process, or raise ConnectionBrokenError if it is gone."""
        if self._is_asked:
            # After an interrupt the rest of the reply would be taken for the reply to this batch.
            raise ConnectionBrokenError
        self._is_asked = True
        try:
            self._messages.send((list(shards), batch))
        except _BROKEN as error:
            raise ConnectionBrokenError from error

    def response(self, is_alive: Callable[[], bool]) -> Response:
        """Receive the reply of the shards, or raise ConnectionBrokenError if the process dies."""
        try:
            while not self._messages.poll(_POLL_SECONDS):
                if not is_alive():
                    raise ConnectionBrokenError
            reply = self._messages.receive()
        except _BROKEN as error:
            raise ConnectionBrokenError from error
        self._is_asked = False
        return reply  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the connection, even if data may still arrive."""
        self._messages.close()
