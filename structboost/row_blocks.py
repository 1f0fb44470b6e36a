"""Fixed blocks of rows and of examples: every sum over them is one over blocks, in their order.

A block's share of what a pass reads and writes fits in a core's cache, so that passes take the same time a row whatever
the number of rows; and since the blocks are fixed, sums do not depend on who adds up which of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK_ROWS = 8192


@njit(cache=True, nogil=True)
def block_starts(rows: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Where each block of rows begins in the ascending ``rows``, and their number."""
    n_blocks = max(1, (n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS)
    return np.searchsorted(rows, np.arange(n_blocks + 1) * BLOCK_ROWS)


def example_blocks(offsets: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """First example of each block, and the number of examples.

    A block holds whole examples, and a new one begins with the first example whose rows of any kind begin in another
    block of rows.

    Parameters
    ----------
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        First row of each example, by kind (:class:`structboost.task.StackedParts`).
    """
    n_examples = len(next(iter(offsets.values()))) - 1
    block = np.zeros(n_examples, np.int64)
    for first_rows in offsets.values():
        block += first_rows[:-1] // BLOCK_ROWS
    return np.array([0, *(np.flatnonzero(np.diff(block)) + 1), n_examples], np.int64)
