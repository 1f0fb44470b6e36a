"""Fixed blocks of examples and of rows, and sums over them along a fixed tree.

The data of a pass over one block fit into a core's cache, so that the time per row does not depend
on the number of rows.  Blocks are fixed, and so is the order in which their sums are added, so that
threads, processes and machines all get the same bits.

In the tree, the sum of n blocks is the sum of the first h plus the sum of the others, where h is
the largest power of two below n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from structboost._typing import FloatArray, IntArray, KindIndices
from structboost.runtime.compiled import compiled

BLOCK_ROWS = 8192
# Examples per block of a task whose argmax is Python.
PYTHON_EXAMPLES = 256


@dataclass(frozen=True)
class Blocks:
    """Examples and rows of each block.

    Parameters
    ----------
    examples : ndarray of int64, shape (n_blocks + 1,)
        Block b holds the examples ``examples[b]:examples[b + 1]``.  An example that is split over
        several blocks belongs to the first of them.
    rows : dict of str to ndarray of int64, shape (n_blocks + 1,)
        Block b holds the rows ``rows[kind][b]:rows[kind][b + 1]`` of a kind.
    splits_examples : bool
        Whether any example is split.
    """

    examples: IntArray
    rows: KindIndices
    splits_examples: bool

    def __len__(self) -> int:
        return len(self.examples) - 1

    def run(self, first: int, n_blocks: int) -> Blocks:
        """Return the blocks from ``first`` on, with examples and rows counted from 0."""
        of_run = slice(first, first + n_blocks + 1)
        rows = {kind: starts[of_run] - starts[first] for kind, starts in self.rows.items()}
        return Blocks(self.examples[of_run] - self.examples[first], rows, self.splits_examples)


def blocks_of(offsets: KindIndices, most_examples: int | None = None) -> Blocks:
    """Cut examples into blocks of about `BLOCK_ROWS` rows.

    A block begins with the first example whose rows of any kind begin beyond another multiple of
    `BLOCK_ROWS`, and with every ``most_examples``-th.  An example of more rows than that is split
    into separate blocks.  ``offsets`` has the first row of each example, by kind
    (:class:`structboost.contract.StackedParts`).
    """
    sizes = np.array([np.diff(starts) for starts in offsets.values()])
    n_pieces = np.maximum(1, -(-sizes.max(axis=0) // BLOCK_ROWS))
    block = sum(starts[:-1] // BLOCK_ROWS for starts in offsets.values())
    if most_examples is not None:
        block = block + np.arange(sizes.shape[1]) // most_examples
    begins = np.flatnonzero(
        np.diff(block, prepend=-1) | (n_pieces > 1) | np.append(False, n_pieces[:-1] > 1)
    )
    pieces = n_pieces[begins]
    owners = np.repeat(begins, pieces)
    piece = np.arange(len(owners)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    examples = np.append(owners + (piece > 0), sizes.shape[1])
    rows = {}
    for size, (kind, starts) in zip(sizes, offsets.items(), strict=True):
        first = starts[owners] + np.minimum(piece * BLOCK_ROWS, size[owners])
        rows[kind] = np.append(first, starts[-1]).astype(np.int64)
    return Blocks(examples.astype(np.int64), rows, bool((pieces > 1).any()))


def blocks_of_rows(n_rows: int) -> IntArray:
    """Return the first row of each block of a table, and the number of rows at the end."""
    return np.append(np.arange(0, max(n_rows, 1), BLOCK_ROWS), n_rows)


def tree_runs(n_blocks: int, largest: int, n_shares: int = 1) -> list[tuple[int, int]]:
    """Partition the tree into nodes, each (first block, number of blocks).

    No node has more than ``largest`` blocks, and none lies in two of ``n_shares`` parts
    (:func:`share_of_block`).
    """
    runs = []
    ahead = [(0, n_blocks)]
    while ahead:
        first, n = ahead.pop()
        ends = share_of_block(np.array([first, first + n - 1]), n_blocks, n_shares)
        if n <= largest and ends[0] == ends[1]:
            runs.append((first, n))
        else:
            half = _half(n)
            ahead += [(first + half, n - half), (first, half)]
    return runs


def share_of_block(block: IntArray, n_blocks: int, n_shares: int) -> IntArray:
    """Return which of ``n_shares`` parts of about equal size has a block."""
    return block * n_shares // n_blocks


def tree_sum(sums: FloatArray) -> FloatArray:
    """Add up the rows of ``sums``, one per block, along the tree."""
    if len(sums) < 2:
        return np.zeros(sums.shape[1]) if not len(sums) else sums[0].copy()
    half = _half(len(sums))
    return tree_sum(sums[:half]) + tree_sum(sums[half:])


def sum_of_nodes(
    sums: Mapping[tuple[int, int], FloatArray], first: int, n_blocks: int
) -> FloatArray:
    """Sum over the blocks from ``first`` on of the sums of nodes, which :func:`tree_runs` made.

    Some of the sums are overwritten, since those of histograms may be megabytes.
    """
    if (first, n_blocks) in sums:
        return sums[first, n_blocks]
    half = _half(n_blocks)
    total = sum_of_nodes(sums, first, half)
    total += sum_of_nodes(sums, first + half, n_blocks - half)
    return total


def _half(n_blocks: int) -> int:
    """Return the largest power of two below a number of blocks."""
    return 1 << ((n_blocks - 1).bit_length() - 1)


def tree_depth(n_blocks: int) -> int:
    """Return the largest number of open sums of :func:`add_to_tree`."""
    return max(n_blocks, 1).bit_length()


@compiled
def add_to_tree(open_sums: FloatArray, block: int, new: FloatArray, size: int) -> None:
    """Add the sum of the next ``block`` to `tree_depth` open sums, overwriting ``new``.

    Sums are matrices, of which the first ``size`` rows count.
    """
    level = 0
    while (block >> level) & 1:
        for i in range(size):
            for c in range(new.shape[1]):
                new[i, c] += open_sums[level, i, c]
        level += 1
    for i in range(size):
        for c in range(new.shape[1]):
            open_sums[level, i, c] = new[i, c]


@compiled
def close_tree(open_sums: FloatArray, n_blocks: int, total: FloatArray) -> None:
    """Fill ``total`` with the sum over all blocks."""
    is_first = True
    for level in range(len(open_sums)):
        if (n_blocks >> level) & 1:
            for i in range(len(total)):
                for c in range(total.shape[1]):
                    added = open_sums[level, i, c]
                    total[i, c] = added if is_first else total[i, c] + added
            is_first = False
