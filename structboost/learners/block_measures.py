"""Compact measures on the parts of one block, since a cut can be as large as the data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.measures import SparseFeature
from structboost.runtime.compiled import compiled

_MAX_LEVELS = 16


class BlockMeasure(NamedTuple):
    """Sparse measure on the parts of one kind in a block, with entries grouped by channel.

    Parameters
    ----------
    parts : ndarray of uint16
        Rows of the block.
    codes : ndarray of uint8
        Entry e has the value ``levels[codes[e]]``.  If values are few, as with examples of equal
        weight, an entry takes three bytes.  Else empty, and ``levels`` holds all values.
    levels : ndarray of float64
    indptr : ndarray of int64, shape (n_channels + 1,)
        Entries of channel c are ``indptr[c]:indptr[c + 1]``.
    """

    parts: NDArray[np.uint16]
    codes: NDArray[np.uint8]
    levels: FloatArray
    indptr: IntArray


def block_measure(
    measure: SparseFeature, n_channels: int, outputs: IntArray, weights: FloatArray
) -> BlockMeasure:
    """Group the entries of one block by channel, in their order, without zeros.

    The parts of ``measure`` count from the first row of the block.  Entries ``outputs[k]:outputs[k
    + 1]`` are those of output k, whose values ``weights[k]`` multiplies.
    """
    # Python allocates, because numba compiles each kind of allocation anew.
    indptr = np.zeros(n_channels + 1, np.int64)
    _count_entries(measure.channels, measure.values, outputs, weights, indptr)
    parts, values = np.empty(indptr[-1], np.uint16), np.empty(indptr[-1])
    _group_by_channel(*measure, outputs, weights, indptr[:-1].copy(), parts, values)
    codes, levels = np.empty(len(values), np.uint8), np.full(_MAX_LEVELS, np.nan)
    n_levels = _find_levels(values, codes, levels)
    if n_levels < 0:
        return BlockMeasure(parts, codes[:0].copy(), values, indptr)
    return BlockMeasure(parts, codes, levels[:n_levels].copy(), indptr)


@compiled
def add_measure(
    parts: NDArray[np.uint16],
    codes: NDArray[np.uint8],
    levels: FloatArray,
    indptr: IntArray,
    weight: float,
    out: FloatArray,
) -> None:
    """Add ``weight * value`` of the entries of a measure to ``out[part, channel]``."""
    values = entry_values(codes, levels)
    for c in range(len(indptr) - 1):
        for e in range(indptr[c], indptr[c + 1]):
            out[parts[e], c] += weight * values[e]


@compiled
def entry_values(codes: NDArray[np.uint8], levels: FloatArray) -> FloatArray:
    """Values of all entries."""
    if len(codes) == 0:
        return levels
    values = np.empty(len(codes))
    for e in range(len(codes)):
        values[e] = levels[codes[e]]
    return values


@compiled
def _count_entries(
    channels: IntArray, values: FloatArray, outputs: IntArray, weights: FloatArray, indptr: IntArray
) -> None:
    """Add where the entries of each channel that are not 0 will begin to zeros."""
    for k in range(len(weights)):
        if weights[k] != 0.0:
            for e in range(outputs[k], outputs[k + 1]):
                if values[e] != 0.0:
                    indptr[channels[e] + 1] += 1
    for c in range(len(indptr) - 1):
        indptr[c + 1] += indptr[c]


@compiled
def _group_by_channel(
    parts: IntArray,
    channels: IntArray,
    values: FloatArray,
    outputs: IntArray,
    weights: FloatArray,
    end: IntArray,
    grouped_parts: NDArray[np.uint16],
    grouped_values: FloatArray,
) -> None:
    """Sort the entries by channel, and multiply those of output k by ``weights[k]``.

    ``end`` are the first places of the channels, which are moved.
    """
    for k in range(len(weights)):
        if weights[k] != 0.0:
            for e in range(outputs[k], outputs[k + 1]):
                if values[e] != 0.0:
                    at = end[channels[e]]
                    grouped_parts[at] = parts[e]
                    grouped_values[at] = weights[k] * values[e]
                    end[channels[e]] += 1


@compiled
def _find_levels(values: FloatArray, codes: NDArray[np.uint8], levels: FloatArray) -> int:
    """Fill the code of each value and the distinct values, and return their number.

    It is -1 if they are too many.
    """
    n_levels = 0
    for e in range(len(values)):
        # Mostly two values take turns, in an order that no branch can foretell.
        at = 1 if values[e] == levels[1] else 0
        if levels[at] != values[e]:
            at = 0
            while at < n_levels and levels[at] != values[e]:
                at += 1
            if at == _MAX_LEVELS:
                return -1
            if at == n_levels:
                levels[at] = values[e]
                n_levels += 1
        codes[e] = at
    return n_levels
