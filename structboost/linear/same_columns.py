"""Active features that occur in the same parts, merged into one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled

# A random number of 63 bits for each part: sums of equal size are of the same parts.
_LARGEST = 2**62


class SameColumns:
    """Groups of equal columns of zeros and ones.

    A linear function with a Euclidean penalty gives equal columns equal weights.  So m equal
    columns become one of the value ``sqrt(m)``, whose weight has the norm of the m weights.

    Parameters
    ----------
    rows : ndarray of int, shape (n_parts, n_slots)
        Indices of active features, filled up with -1.
    n_features : int

    Attributes
    ----------
    entries : (ndarray of int32, ndarray of int64)
        Groups of all parts, each once per part, and the first entry of each part.
    values : ndarray, shape (n_groups,)
        Value of each group.
    """

    def __init__(self, rows: NDArray[np.integer], n_features: int) -> None:
        hashes = np.random.RandomState(0).randint(1, _LARGEST, len(rows))
        sums, counts = np.zeros(n_features, np.int64), np.zeros(n_features, np.int64)
        _add_hashes(rows, hashes, sums, counts)
        _, first, groups, sizes = np.unique(
            sums, return_index=True, return_inverse=True, return_counts=True
        )
        # Groups in the order of their first features, so that neighbours stay near.
        order = np.argsort(first)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        self._groups: NDArray[np.int32] = place[groups]
        self.values: FloatArray = np.sqrt(sizes[order].astype(np.float64))
        # Of each group one feature is looked at; the others stand at the same parts.
        of_first = np.full(n_features, -1, np.int32)
        of_first[first] = self._groups[first]
        starts = np.zeros(len(rows) + 1, np.int64)
        self.entries = np.empty(int(counts[first].sum()), np.int32), starts
        _list_groups(rows, of_first, *self.entries)

    def spread(self, weights: FloatArray) -> FloatArray:
        """Return the weights of all features from the weights of the groups, by rows."""
        return np.asarray((weights / self.values[:, None])[self._groups])


@compiled
def _add_hashes(
    rows: NDArray[np.integer], hashes: IntArray, sums: IntArray, counts: IntArray
) -> None:
    for p in range(rows.shape[0]):
        for s in range(rows.shape[1]):
            if rows[p, s] >= 0:
                sums[rows[p, s]] += hashes[p]
                counts[rows[p, s]] += 1


@compiled
def _list_groups(
    rows: NDArray[np.integer],
    groups: NDArray[np.int32],
    entries: NDArray[np.int32],
    starts: IntArray,
) -> None:
    """Write the groups of the features of each part, where they are not -1."""
    end = 0
    for p in range(rows.shape[0]):
        for s in range(rows.shape[1]):
            if rows[p, s] >= 0 and groups[rows[p, s]] >= 0:
                entries[end] = groups[rows[p, s]]
                end += 1
        starts[p + 1] = end
