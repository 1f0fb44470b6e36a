"""Handling of Ctrl-C during training, which raises between two steps.

Python raises KeyboardInterrupt between any two instructions of the main thread: in the midst of an
update of several arrays, in a library's callback that cannot pass it on, or in the clean-up after
the first.  Inside :func:`deferred_interrupts` the first Ctrl-C only sets a flag, which
:func:`raise_if_interrupted` checks where all is consistent.  If no check follows for some time, as
in a long argmax of a task, and at the second Ctrl-C, the error is raised wherever the main thread
is; a result must then be a snapshot.  Only the end of a compilation is awaited: LLVM calls Python,
which would ignore the exception, and the Ctrl-C would be lost.
"""

from __future__ import annotations

import _thread
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from structboost.errors import InterruptedFitWarning
from structboost.runtime.compiled import is_compiling

# Seconds after which a pending Ctrl-C is raised wherever the main thread is.
GRACE = 2.0
# Seconds between two checks whether a compilation has ended.
_COMPILING = 0.05


class _Deferral:
    """Deferred Ctrl-C of one block, in which without ``grace`` only a second one raises at once."""

    def __init__(self, grace: float | None) -> None:
        self.is_pending = False
        self._grace = grace
        self._was_pressed = False
        self._is_over = False
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def press(self, *_: object) -> None:
        """Handle SIGINT, in the main thread."""
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
        """Restore the handler, while a further Ctrl-C only sets the flag."""
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
    """Defer Ctrl-C in a block or function to :func:`raise_if_interrupted`, or to its end.

    Nothing is changed in other threads than the main one, inside another such block, and where
    SIGINT has a handler of the user's.  After ``grace`` seconds Ctrl-C is raised in any case; with
    None only the second one is.
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
    except SystemError as error:
        # A second Ctrl-C that arrives while numba makes Python objects of a result.
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        deferral.end()
        _current = None
        deferral.raise_if_pending()


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed, at a call where all is consistent."""
    if _current is not None and threading.current_thread() is threading.main_thread():
        _current.raise_if_pending()


Trainer = TypeVar("Trainer", bound=Any)


def uninterrupted(fit: Callable[[], Trainer]) -> Trainer:
    """Train by ``fit`` as a step towards another model, which Ctrl-C ends as a whole.

    There is no partial result: the warning of a trainer or classifier that its model is partial
    becomes KeyboardInterrupt.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = fit()
    is_partial = any(issubclass(one.category, InterruptedFitWarning) for one in caught)
    if is_partial or getattr(trainer, "interrupted_", False):
        raise KeyboardInterrupt
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return trainer
