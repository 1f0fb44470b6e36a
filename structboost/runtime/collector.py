"""Pause of the garbage collector while many objects are made that stay."""

from __future__ import annotations

import gc
import threading


class CollectorPause:
    """Pause of the collector, which may be entered again, in several threads.

    Imports and compilation make many objects that stay, and the collector visits them over and
    over.  It goes on at the last end, if it was on before.

    Examples
    --------
    >>> import gc
    >>> with collector_pause:
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._is_ours = False

    def __enter__(self) -> None:
        """Pause the collector."""
        with self._lock:
            self._depth += 1
            if self._depth == 1 and gc.isenabled():
                self._is_ours = True
                gc.disable()

    def __exit__(self, *error: object) -> None:
        """Let the collector go on, at the last end."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._is_ours:
                self._is_ours = False
                gc.enable()


collector_pause = CollectorPause()
