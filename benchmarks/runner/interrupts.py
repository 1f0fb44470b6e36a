"""Ctrl-C while a unit runs: it is noted, because not everything that is measured passes it on."""

import signal
import socket
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from structboost.exceptions import InterruptedFitWarning

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def uninterrupted(run: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """What a function returns; KeyboardInterrupt if Ctrl-C was pressed while it ran.

    Trainers and trackers keep what they have and return, which is no result, and compiled code
    turns Ctrl-C into a SystemError. The warning of a trainer is an error here: a unit of many fits
    ends with the one that was interrupted. No handler is replaced: the library delays Ctrl-C only
    where it finds Python's own.
    """
    if threading.current_thread() is not threading.main_thread():
        return run(*arguments)
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    # Python writes the number of every signal that it handles there.
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    with reader, writer, warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedFitWarning)
        try:
            result = run(*arguments)
        except Exception:
            if _was_pressed(reader):
                raise KeyboardInterrupt from None
            raise
        finally:
            signal.set_wakeup_fd(previous)
        if _was_pressed(reader):
            raise KeyboardInterrupt
        return result


def _was_pressed(reader: socket.socket) -> bool:
    try:
        return any(number in SIGNALS for number in reader.recv(4096))
    except BlockingIOError:
        return False
