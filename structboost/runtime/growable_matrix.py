"""Matrix to which rows are appended."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIRST_ROOM = 16


class GrowingMatrix:
    """C-contiguous matrix whose capacity doubles, so that appending rarely copies.

    Without a ``dtype`` the first rows determine it.
    """

    def __init__(self, n_columns: int, dtype: Any = None) -> None:
        self._fixed = dtype is not None
        self._room: NDArray[Any] = np.empty((0, n_columns), np.int8 if dtype is None else dtype)
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def rows(self) -> NDArray[Any]:
        """View of the rows, which is stale after the next change."""
        return self._room[: self._n_rows]

    def append(self, new: NDArray[Any]) -> int:
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

    def append_columns(self, new: NDArray[Any]) -> None:
        """Append columns, shape (n_rows, n_new)."""
        n_old = self._room.shape[1]
        room = np.empty((len(self._room), n_old + new.shape[1]), self._room.dtype)
        room[: self._n_rows, :n_old] = self.rows
        room[: self._n_rows, n_old:] = new
        self._room = room

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the rows without a ``mask``."""
        self._room = self.rows[mask]
        self._n_rows = len(self._room)

    def keep_columns(self, columns: NDArray[Any]) -> None:
        """Select the columns of a mask, or of indices in their new order."""
        self._room = np.ascontiguousarray(self.rows[:, columns])
