"""Ctrl-C while something is learned: noted at once, raised between two steps.

Python raises KeyboardInterrupt between any two instructions of the main thread: in the midst of an
update of several arrays, in a library's callback that cannot pass it on, or in the clean-up after
the first.  Inside :func:`deferred_interrupts` the first Ctrl-C only sets a flag, which
:func:`raise_if_interrupted` looks at where all is consistent.  Where nobody looked at it for some
time, as in a long argmax of a task, and at the second Ctrl-C, it is raised wherever the main thread
stands; what is kept then must be a snapshot.  Only the end of a compilation is waited for: LLVM
calls Python, which would ignore the exception, and the Ctrl-C would be lost.
"""

from __future__ import annotations

import _thread
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from structboost.exceptions import InterruptedFitWarning
from structboost.runtime.compilation import is_compiling

# Seconds after which a Ctrl-C that nobody looked at is raised wherever the main thread stands.
GRACE = 2.0
# Seconds between two looks at whether a compilation has ended.
_COMPILING = 0.05


class _Deferral:
    """The Ctrl-C of one block; without ``grace`` only a second one is raised at once."""

    def __init__(self, grace: float | None) -> None:
        self.is_pending = False
        self._grace = grace
        self._was_pressed = False
        self._is_over = False
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def press(self, *_: object) -> None:
        """Handle SIGINT; runs in the main thread."""
        self.is_pending = True
        if self._is_over:
            return
        if self._was_pressed and not is_compiling():
            self.is_pending = False
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt
        seconds = _COMPILING if self._was_pressed else self._grace
        self._was_pressed = True
        if seconds is not None:
            self._timer = threading.Timer(seconds, self._press_again)
            self._timer.daemon = True
            self._timer.start()

    def raise_if_pending(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed and not yet raised."""
        if self.is_pending:
            self.is_pending = False
            raise KeyboardInterrupt

    def end(self) -> None:
        """Put the handler back; a Ctrl-C that comes meanwhile is only noted."""
        with self._lock:
            self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _press_again(self) -> None:
        with self._lock:
            if not self.is_pending or self._is_over:
                return
            if hasattr(signal, "pthread_kill"):
                # A real signal, which also ends the waiting for a lock.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                _thread.interrupt_main()


_current: _Deferral | None = None


@contextmanager
def deferred_interrupts(grace: float | None = GRACE) -> Iterator[None]:
    """A block or function in which Ctrl-C waits for :func:`raise_if_interrupted`, or its end.

    Nothing is changed in other threads than the main one, inside another such block, and where
    SIGINT has a handler of the user's.

    Parameters
    ----------
    grace : float or None
        Seconds after which Ctrl-C is raised all the same; None: only the second one is.
    """
    global _current  # noqa: PLW0603 the process has one handler of SIGINT
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    deferral = _Deferral(grace)
    try:
        _current = deferral
        signal.signal(signal.SIGINT, deferral.press)
        yield
    finally:
        deferral.end()
        _current = None
        deferral.raise_if_pending()


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed: to be called where all is consistent."""
    if _current is not None and threading.current_thread() is threading.main_thread():
        _current.raise_if_pending()


Trainer = TypeVar("Trainer", bound=Any)


def uninterrupted(fit: Callable[[], Trainer]) -> Trainer:
    """What ``fit`` trains as a step on the way to another model: Ctrl-C ends the whole.

    Nothing is kept then, so the trainer must not say that its model is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        trainer = fit()
    if trainer.interrupted_:
        raise KeyboardInterrupt
    return trainer
