"""The connection between trainer and shards, when others connect to it or listen in its place."""

import os
import pickle
import socket
import struct
import threading

import numpy as np
import pytest

from structboost.engines import direct_connection, worker
from structboost.engines.base import Batch, Call, Layout, ShardAtWork
from structboost.engines.direct_connection import (
    ConnectionBrokenError,
    DirectConnection,
    Endpoint,
    listen,
)

_BATCH = Batch(1, [Call("times", (3,))], Layout([(0, 1)], 1))


class ShardOfOnes:
    """Responds with a large array."""

    def run(self, calls):
        return np.ones(10_000) * calls[-1][1][0]


@pytest.fixture
def ended():
    return threading.Event()


@pytest.fixture
def endpoint(ended):
    worker._PLACED["ones"] = {0: ShardAtWork(ShardOfOnes(), 0)}
    yield listen("ones", "127.0.0.1", ended.set)
    worker.release("ones")


def within_a_minute(action):
    """What an action returns or raises, in a thread, so that one that hangs fails."""
    results = []

    def run():
        try:
            results.append((action(), None))
        except Exception as error:
            results.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert results, "it hangs"
    found, error = results[0]
    if error is not None:
        raise error
    return found


def response_for_the_trainer(endpoint):
    connection = DirectConnection(endpoint)
    try:
        connection.ask([0], _BATCH)
        return connection.response(lambda: True).sums[0].value
    finally:
        connection.close()


class Touches:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def hang_up_at_once(stranger, _):
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stranger.close()


def send(data):
    def attack(stranger, _):
        stranger.recv(100)
        stranger.sendall(data)
        # Dropped, or not yet.
        stranger.settimeout(0.2)
        try:
            stranger.recv(100)
        except OSError:
            pass
        stranger.close()

    return attack


def send_a_pickle(stranger, path):
    data = pickle.dumps(Touches(path))
    send(struct.pack("!i", len(data)) + data)(stranger, path)


def send_back_what_comes(stranger, _):
    number = stranger.recv(100)
    stranger.sendall(number + number)
    assert stranger.recv(100) == b""


def show_another_key(stranger, _):
    host, port = stranger.getpeername()
    with pytest.raises(ConnectionBrokenError):
        DirectConnection(Endpoint(host, port, b"x"))


ATTACKS = {
    "hold": lambda stranger, _: None,
    "garbage": send(bytes(range(256)) * 16),
    "http": send(b"GET / HTTP/1.0\r\n\r\n"),
    "long": send(struct.pack("!i", 1000) + b"a" * 1000),
    "negative": send(struct.pack("!i", -5)),
    "short": send(struct.pack("!i", 5) + b"hello"),
    "reset": hang_up_at_once,
    "end": lambda stranger, _: stranger.close(),
    "wrong key": show_another_key,
    "pickle": send_a_pickle,
    "reflect": send_back_what_comes,
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_trainer_receives_replies_after_strangers_connected(attack, endpoint, ended, tmp_path):
    with socket.create_connection((endpoint.host, endpoint.port), timeout=60) as stranger:
        attack(stranger, tmp_path / "made")
        assert not ended.is_set()
        assert np.array_equal(
            within_a_minute(lambda: response_for_the_trainer(endpoint)), np.full(10_000, 3.0)
        )
    assert ended.wait(60)
    assert not (tmp_path / "made").exists()


def test_trainer_receives_replies_among_many_silent_peers(endpoint, monkeypatch):
    monkeypatch.setattr(direct_connection, "_MOST_UNPROVED", 5)
    silent = [
        socket.create_connection((endpoint.host, endpoint.port), timeout=60) for _ in range(20)
    ]
    try:
        assert within_a_minute(lambda: response_for_the_trainer(endpoint))[0] == 3.0
        # Dropped perhaps before the other end has said anything; who is kept times out here.
        assert len(b"".join(iter(lambda: silent[0].recv(100), b""))) <= 32
    finally:
        for stranger in silent:
            stranger.close()


def test_peer_without_a_proof_is_dropped_after_a_while(monkeypatch):
    monkeypatch.setattr(direct_connection, "_PROOF_SECONDS", 0.01)
    endpoint = listen("none", "127.0.0.1")
    with socket.create_connection((endpoint.host, endpoint.port), timeout=60) as stranger:
        assert stranger.recv(100)
        assert stranger.recv(100) == b""


def test_a_process_ends_when_no_trainer_ever_comes(ended, monkeypatch):
    monkeypatch.setattr(direct_connection, "_LISTEN_SECONDS", 0.01)
    listen("none", "127.0.0.1", ended.set)
    assert ended.wait(60)


def say_nothing(process):
    process.recv(1000)


def say_anything(process):
    process.sendall(bytes(range(256)))


def return_the_proof(process):
    process.sendall(bytes(32))
    said = process.recv(64, socket.MSG_WAITALL)
    process.sendall(said[32:])


@pytest.mark.slow
@pytest.mark.parametrize(
    "impostor", [say_nothing, say_anything, return_the_proof, socket.socket.close]
)
def test_trainer_refuses_a_process_without_the_key(impostor, monkeypatch):
    monkeypatch.setattr(direct_connection, "_PROOF_SECONDS", 1.0)
    opened = []

    def serve():
        opened.append(server.accept()[0])
        impostor(opened[0])

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        endpoint = Endpoint("127.0.0.1", server.getsockname()[1], b"k" * 32)
        with pytest.raises(ConnectionBrokenError):
            within_a_minute(lambda: DirectConnection(endpoint))
        for connection in opened:
            connection.close()
