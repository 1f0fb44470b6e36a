"""Notices while numba compiles, which appear once per process, without any progress bar, too."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from tqdm.auto import tqdm

from structboost._typing import override


class _Notice(event.Listener):
    """Listener that calls ``say`` once, after ``patience`` seconds of compilation."""

    def __init__(self, say: Callable[[], None], patience: float) -> None:
        self._say, self._patience = say, patience
        self._is_said = False
        self._depth, self._began, self._seconds = 0, 0.0, 0.0

    @override
    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1
        waited = self._seconds + time.perf_counter() - self._began
        if waited > self._patience and not self._is_said:
            self._is_said = True
            self._say()

    @override
    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._began


def when_compiling(say: Callable[[], None], patience: float = 1.0) -> None:
    """Call ``say`` once, when numba has compiled for some seconds.

    A single function for one more type of an array compiles faster, without a call.
    """
    register: Any = event.register
    register("numba:compile", _Notice(say, patience))


@cache
def announce_compilation() -> None:
    """Print once why the first use takes long."""
    text = "structboost compiles its inner loops, once per installation: up to a minute"
    when_compiling(lambda: tqdm.write(text, file=sys.stderr))


def is_compiling() -> bool:
    """Whether this thread compiles a function, or loads it from the cache."""
    lock: Any = global_compiler_lock
    return bool(lock.is_locked())
