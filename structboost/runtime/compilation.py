"""Whether numba compiles, and who wants to know of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock


class _Notice(event.Listener):
    """Calls ``say`` once, when numba has compiled for longer than ``patience`` seconds."""

    def __init__(self, say: Callable[[], None], patience: float) -> None:
        self._say, self._patience = say, patience
        self._is_said = False
        self._depth, self._began, self._seconds = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """Compilation of a function begins, maybe within that of another."""
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1
        waited = self._seconds + time.perf_counter() - self._began
        if waited > self._patience and not self._is_said:
            self._is_said = True
            self._say()

    def on_end(self, event: Any) -> None:
        """It is done."""
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._began


def when_compiling(say: Callable[[], None], patience: float = 1.0) -> None:
    """Call ``say`` once, when numba has compiled for some seconds.

    Where only one more type of an array is to be compiled, it is not called.
    """
    register: Any = event.register
    register("numba:compile", _Notice(say, patience))


def is_compiling() -> bool:
    """Whether this thread compiles a function, or loads it from the cache."""
    lock: Any = global_compiler_lock
    return bool(lock.is_locked())
