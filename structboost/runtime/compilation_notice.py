"""Listener to numba's compilations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from numba.core import event

from structboost._typing import override


class Notice(event.Listener):
    """Listener that calls ``say`` once, after ``patience`` seconds of compilation.

    Parameters
    ----------
    say : callable
    patience : float
    """

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
