"""Trainings that take turns, one round each.

A machine is not equally fast at all times; what takes turns has had the same minutes of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from benchmarks.runner.protocol import timed

# A training calls what it is given after each round, and returns what it has to say at the end.
Training = Callable[[Callable[[], None]], Any]


class Racer(Protocol):
    """Trainings that do a round when they are told to."""

    def round(self) -> None:
        """Do the next round of each; returns when all of them have."""

    def finish(self) -> Any:
        """Do what comes after the last round."""


class ThreadRacer:
    """One training, in a thread that otherwise waits."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._turn, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._result: Any = None
        self._error: BaseException | None = None
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self._result = self._training(self._after_round)
        except BaseException as error:
            self._error = error
        self._has_ended = True
        self._done.release()

    def _after_round(self) -> None:
        self._done.release()
        self._turn.acquire()

    def round(self) -> None:
        if self._has_ended:
            raise RuntimeError("The training ended before its last round.")
        self._turn.release()
        self._done.acquire()
        if self._error is not None:
            raise self._error

    def finish(self) -> Any:
        self.round()
        self._thread.join()
        return self._result


class ProcessRacer:
    """Equal trainings in as many processes, each of which knows nothing of the others."""

    def __init__(self, training: Training, n_processes: int) -> None:
        context = get_context("spawn")
        self._connections = []
        self._processes = []
        for _ in range(n_processes):
            here, there = context.Pipe()
            process = context.Process(target=_train_when_told, args=(training, there), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            self._connections.append(here)

    def round(self) -> None:
        for connection in self._connections:
            connection.send(None)
        for connection in self._connections:
            connection.recv()

    def finish(self) -> dict[str, Any]:
        for connection, process in zip(self._connections, self._processes, strict=True):
            connection.close()
            process.join()
        return {}


def _train_when_told(training: Training, connection: Connection) -> None:
    def after_round() -> None:
        connection.send(None)
        connection.recv()

    try:
        connection.recv()
        training(after_round)
    except (EOFError, OSError):
        return  # nobody waits for more


def seconds_in_turns(racers: Sequence[Racer], n_rounds: int) -> np.ndarray:
    """Seconds of each round of each, shape (n_racers, n_rounds)."""
    rounds = [[timed(racer.round)[1] for racer in racers] for _ in range(n_rounds)]
    return np.array(rounds).T
