"""Sizes beyond memory, reuse of freed memory, matrices that grow, pauses of the collector."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from typing import Any

import numpy as np

from structboost._typing import AnyArray, BoolArray

# Parameters of mallopt in the C library of GNU.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 32 << 20
_MOST_KEPT = 64 << 20
_FIRST_ROOM = 16  # rows of a growing matrix


def check_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Raise MemoryError, with a remedy, if something needs more bytes than the machine has."""
    if n_bytes > physical_memory():
        raise MemoryError(
            f"{what} take {n_bytes / 1e9:.3g} GB, and this machine has "
            f"{physical_memory() / 1e9:.3g} GB; {remedy}."
        )


def physical_memory() -> float:
    """Return the bytes of memory, infinite if the system does not report them."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def keep_freed_memory() -> None:
    """Make the process keep freed memory for blocks of up to 32 MB.

    A pass allocates a few hundred kilobytes again and again.  The C library of GNU reuses them, but
    not where ``MALLOC_TRIM_THRESHOLD_`` is set, as in Dask's workers, where most of a pass may be
    page faults.  At most 64 MB at the end of a heap stay allocated.  With other C libraries nothing
    is changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
    mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)


class GrowingMatrix:
    """C-contiguous matrix whose capacity doubles, so that appending rarely copies.

    Without a ``dtype`` the first rows determine it.
    """

    def __init__(self, n_columns: int, dtype: Any = None) -> None:
        self._fixed = dtype is not None
        self._room: AnyArray = np.empty((0, n_columns), np.int8 if dtype is None else dtype)
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def rows(self) -> AnyArray:
        """View of the rows, which is stale after the next change."""
        return self._room[: self._n_rows]

    def append(self, new: AnyArray) -> int:
        """Append rows and return the index of the first."""
        first, needed = self._n_rows, self._n_rows + len(new)
        dtype = self._room.dtype if self._fixed else new.dtype
        self._fixed = True
        if needed > len(self._room):
            room = np.empty(
                (max(needed, 2 * len(self._room), _FIRST_ROOM), self._room.shape[1]), dtype
            )
            room[:first] = self.rows
            self._room = room
        self._room[first:needed] = new
        self._n_rows = needed
        return first

    def append_columns(self, new: AnyArray) -> None:
        """Append columns, shape (n_rows, n_new)."""
        n_old = self._room.shape[1]
        room = np.empty((len(self._room), n_old + new.shape[1]), self._room.dtype)
        room[: self._n_rows, :n_old] = self.rows
        room[: self._n_rows, n_old:] = new
        self._room = room

    def keep(self, mask: BoolArray) -> None:
        """Drop the rows without a ``mask``."""
        self._room = self.rows[mask]
        self._n_rows = len(self._room)

    def keep_columns(self, columns: AnyArray) -> None:
        """Select the columns of a mask, or of indices in their new order."""
        self._room = np.ascontiguousarray(self.rows[:, columns])


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
