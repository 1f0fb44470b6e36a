"""Trainings that take turns, one round each.

A machine is not equally fast at all times; what takes turns has had the same minutes of it.
"""

import threading
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.runner.protocol import timed

# A training calls what it is given after each round, and returns what it has to say at the end.
Training = Callable[[Callable[[], None]], Any]


def race(trainings: Sequence[Training], n_rounds: int) -> tuple[np.ndarray, list[Any]]:
    """Seconds of each round of each, shape (n_trainings, n_rounds), and what they say."""
    racers = [Racer(training) for training in trainings]
    seconds = [[timed(racer.round)[1] for racer in racers] for _ in range(n_rounds)]
    return np.array(seconds).T, [racer.finish() for racer in racers]


class Racer:
    """A training in a thread that waits unless it is told to do a round."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._turn, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self._result = self._training(self._after_round)
        except BaseException as error:
            self._error = error
        self._done.release()

    def _after_round(self) -> None:
        self._done.release()
        self._turn.acquire()

    def round(self) -> None:
        """Do the next round, or what comes after the last one."""
        self._thread.join(0)
        if not self._thread.is_alive():
            raise RuntimeError("The training ended before its last round.")
        self._turn.release()
        self._done.acquire()
        if self._error is not None:
            raise self._error

    def finish(self) -> Any:
        self.round()
        self._thread.join()
        return self._result


def side_by_side(
    training: Training, n_processes: int, n_rounds: int, after_round: Callable[[], None]
) -> dict[str, Any]:
    """Equal trainings in as many processes, each of which knows nothing of the others."""
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in range(n_processes)]
    own = [(training, there) for _, there in pipes]
    processes = [context.Process(target=_train_when_told, args=a, daemon=True) for a in own]
    for process, (_, there) in zip(processes, pipes, strict=True):
        process.start()
        there.close()
    for _ in range(n_rounds):
        for here, _ in pipes:
            here.send(None)
        for here, _ in pipes:
            here.recv()
        after_round()
    for process, (here, _) in zip(processes, pipes, strict=True):
        here.close()
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
