"""Sets of categories, stored as bits of integers, that a split of a feature sends left.

Tables read such a split by a column of its own, 0 where the feature is in the set and 1 elsewhere,
which splits at a half: the compiled forms of trees need no sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled

# Numbers of 64 bits that hold a set of bins, and most categories of a feature: one bin is missing.
N_WORDS = 4
MOST_CATEGORIES = 64 * N_WORDS - 1
# Between "in the set" and "not in the set".
HALF = 0.5
# The bin of a node that splits by a set.
BY_SET = -2


@compiled
def is_in_set(words: NDArray[np.uint64], code: Any) -> bool:
    """Whether a bin is in a set."""
    return bool((words[code >> 6] >> np.uint64(code & 63)) & np.uint64(1) != 0)


def words_of(sets: tuple[int, ...]) -> NDArray[np.uint64]:
    """Convert sets from integers of any size to words, shape (n_sets, N_WORDS)."""
    parts = [[s >> 64 * w & (2**64 - 1) for w in range(N_WORDS)] for s in sets]
    return np.array(parts, np.uint64).reshape(-1, N_WORDS)


def number_of(words: NDArray[np.uint64]) -> int:
    """Convert a set to one integer."""
    return sum(int(word) << 64 * w for w, word in enumerate(words))


def flags_of(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Convert sets to flags of bins, shape (n_sets, 64 * N_WORDS)."""
    bits = words[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    return np.asarray(bits != 0).reshape(*words.shape[:-1], 64 * N_WORDS)


def number_of_flags(flags: NDArray[np.bool_]) -> int:
    """Convert a set from flags of its first bins to one integer."""
    return sum(1 << bin_ for bin_ in np.flatnonzero(flags).tolist())


def for_all_categories(
    words: NDArray[np.uint64], n_bins: IntArray
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Extend sets to all bins from the last one on, which is missing, by the flag of that bin.

    Returns the words, shape (..., N_WORDS), and whether missing values are inside, shape (...).
    """
    last = n_bins[..., None] - 1
    word = np.take_along_axis(words, last >> 6, axis=-1)
    inside = (word >> (last & 63).astype(np.uint64) & np.uint64(1)) != 0
    # Bits below the last bin in each word; a shift by 64 is none, so all bits of a word are apart.
    n_below = np.clip(last - 64 * np.arange(N_WORDS), 0, 64)
    every = np.uint64(2**64 - 1)
    ones = (np.uint64(1) << np.minimum(n_below, 63).astype(np.uint64)) - np.uint64(1)
    below = np.where(n_below == 64, every, ones)
    return (words & below) | np.where(inside, ~below, np.uint64(0)), np.asarray(inside[..., 0])


@dataclass(frozen=True)
class SetColumns:
    """Columns that flag the rows whose feature is outside of a set.

    Parameters
    ----------
    feature : ndarray of int64, shape (n_columns,)
    outside : ndarray of float64, shape (n_columns, 64 * N_WORDS + 1)
        By category, with missing values last.
    """

    feature: IntArray
    outside: FloatArray

    @classmethod
    def of_nodes(
        cls, feature: IntArray, words: NDArray[np.uint64], missing_left: NDArray[np.uint8]
    ) -> tuple[SetColumns, IntArray]:
        """Find the distinct columns of nodes, and the index of each node's column."""
        keys = np.column_stack((feature.astype(np.uint64), words, missing_left.astype(np.uint64)))
        distinct, place = np.unique(keys, axis=0, return_inverse=True)
        inside = np.column_stack((flags_of(distinct[:, 1:-1]), distinct[:, -1] > 0))
        outside = np.asarray(1.0 - inside, np.float64)
        return cls(distinct[:, 0].astype(np.int64), outside), place.reshape(-1)

    def hstack(self, rows: NDArray[Any]) -> FloatArray:
        """Append these columns to the rows, where all but categories count as missing."""
        out = np.empty((len(rows), rows.shape[1] + len(self.feature)))
        out[:, : rows.shape[1]] = rows
        codes: dict[int, NDArray[np.intp]] = {}
        missing = self.outside.shape[1] - 1
        for k, f in enumerate(self.feature.tolist()):
            if f not in codes:
                column = rows[:, f].astype(np.float64)
                is_code = (column >= 0) & (column < missing) & (column == np.floor(column))
                codes[f] = np.where(is_code, column, missing).astype(np.intp)
            out[:, rows.shape[1] + k] = self.outside[k][codes[f]]
        return out
