"""The histogram kernel that prices stumps, for any number of channels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.learners.base import ROUNDING
from structboost.learners.binning import BinnedFeatures
from structboost.runtime.blocks import add_to_tree, close_tree, tree_depth, tree_sum
from structboost.runtime.compiled import compiled

# Most numbers in the histograms that are filled together: a quarter of a megabyte.
_GROUP_ENTRIES = 1 << 15


def histograms(binned: BinnedFeatures, duals: FloatArray, first: int, last: int) -> FloatArray:
    """Sum the duals of each bin and channel, over blocks of rows along their tree.

    Only features ``first <= f < last`` count.  Their histograms are one below the other, and the
    totals over all rows follow: shape (sum of n_bins + 1, n_channels).
    """
    duals = np.ascontiguousarray(duals, np.float64)
    n_bins = binned.bins.n_bins
    rows = np.flatnonzero(duals.any(axis=1))
    starts = rows.searchsorted(binned.blocks)
    block_totals = np.zeros((len(starts) - 1, duals.shape[1]))
    _add_block_totals(rows, starts, duals, block_totals)
    ends = [0, *n_bins[first:last].cumsum().tolist()]
    out = np.empty((ends[-1] + 1, duals.shape[1]))
    # Columns whose histograms fit in the cache together.
    group_of = (np.array(ends[1:]) - 1) * duals.shape[1] // _GROUP_ENTRIES
    bounds = [*np.flatnonzero(np.diff(group_of, prepend=-1)).tolist(), last - first]
    largest = max((ends[b] - ends[a] for a, b in pairwise(bounds)), default=0)
    rooms = np.empty((tree_depth(len(block_totals)) + 1, largest, duals.shape[1]))
    rare = (*binned.rare,)
    for a, b in pairwise(bounds):
        _fill_histograms(
            (binned.codes, n_bins, binned.blocks), rare, (rows, starts), duals, block_totals,
            first + a, first + b, (rooms[:-1], rooms[-1]), out[ends[a] : ends[b]],
        )  # fmt: skip
    out[-1] = tree_sum(block_totals)
    return out


@compiled
def best_splits(
    histograms: FloatArray,
    n_bins: IntArray,
    totals: FloatArray,
    low: float,
    high: float,
    edges: FloatArray,
    bins: IntArray,
    flipped: BoolArray,
) -> None:
    """Best stump of each feature and channel, by prefix sums.

    A stump responds with ``high`` right of its threshold and ``low`` left of it, and a flipped one
    the other way round.  Its edge on channel c is the sum over rows of ``duals[row, c] * answer``.

    Parameters
    ----------
    histograms : ndarray, shape (sum of n_bins, n_channels)
    n_bins : ndarray, shape (n_features,)
        Bins of each feature; a stump may split after bin b for b < n_bins - 1.
    totals : ndarray, shape (n_channels,)
    edges, bins, flipped : ndarray, shape (n_features, n_channels)
        Filled; edge -inf where a feature has one bin.
    """
    n_channels = len(totals)
    left = np.zeros(n_channels)
    at = 0
    for f in range(len(n_bins)):
        for c in range(n_channels):
            left[c] = 0.0
            edges[f, c] = -np.inf
            bins[f, c] = 0
            flipped[f, c] = False
        for b in range(n_bins[f] - 1):
            for c in range(n_channels):
                left[c] += histograms[at + b, c]
                right = totals[c] - left[c]
                straight = low * left[c] + high * right
                turned = high * left[c] + low * right
                edge = max(straight, turned)
                if edge > edges[f, c] * (1.0 + ROUNDING):
                    edges[f, c] = edge
                    bins[f, c] = b
                    flipped[f, c] = turned > straight
        at += n_bins[f]


@compiled
def best_shared_splits(
    histograms: FloatArray,
    n_bins: IntArray,
    totals: FloatArray,
    low: float,
    high: float,
    norms: FloatArray,
    bins: IntArray,
) -> None:
    """Stump of each feature with the largest l1 norm of edges over the channels.

    Parameters
    ----------
    histograms, n_bins, totals, low, high
        As in :func:`best_splits`.
    norms : ndarray, shape (n_features,)
        Filled; -inf where a feature has one bin.
    bins : ndarray of int64, shape (n_features,)
        The bin after which it splits.
    """
    n_channels = len(totals)
    left = np.zeros(n_channels)
    at = 0
    for f in range(len(n_bins)):
        for c in range(n_channels):
            left[c] = 0.0
        norms[f] = -np.inf
        bins[f] = 0
        for b in range(n_bins[f] - 1):
            norm = 0.0
            for c in range(n_channels):
                left[c] += histograms[at + b, c]
                norm += abs(low * left[c] + high * (totals[c] - left[c]))
            if norm > norms[f] * (1.0 + ROUNDING):
                norms[f] = norm
                bins[f] = b
        at += n_bins[f]


@compiled
def _add_block_totals(
    rows: IntArray, starts: IntArray, duals: FloatArray, totals: FloatArray
) -> None:
    for block in range(len(totals)):
        for i in range(starts[block], starts[block + 1]):
            for c in range(duals.shape[1]):
                totals[block, c] += duals[rows[i], c]


@compiled
def _fill_histograms(
    binned: tuple[AnyArray, IntArray, IntArray],
    rare: tuple[IntArray, IntArray, NDArray[np.uint16], AnyArray],
    rows_by_block: tuple[IntArray, IntArray],
    duals: FloatArray,
    block_totals: FloatArray,
    first: int,
    last: int,
    space: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Fill ``out`` with the histograms of the features ``first <= f < last``.

    ``binned`` are the codes, the number of bins of each feature and the first row of each block;
    ``rare`` is the sparse form of :class:`BinnedFeatures`.  ``rows_by_block`` are the rows whose
    duals are not zero, and where those of each block begin.  ``space`` is room for sums along the
    tree of blocks.
    """
    codes, n_bins, blocks = binned
    common, rare_indptr, rare_rows, rare_codes = rare
    rows, starts = rows_by_block
    open_sums, partial = space
    n_blocks, n_channels = block_totals.shape
    n_features = len(n_bins)
    for block in range(n_blocks):
        # The first of two neighbours waits for the second in its place in the tree.
        waits = block % 2 == 0
        sums = open_sums[0] if waits else partial
        start = 0
        for f in range(first, last):
            code, histogram = codes[f], sums[start : start + n_bins[f]]
            start += n_bins[f]
            for b in range(len(histogram)):
                for c in range(n_channels):
                    histogram[b, c] = 0.0
            begin = rare_indptr[block * n_features + f]
            end = rare_indptr[block * n_features + f + 1]
            usual = common[block, f]
            # A feature is read by its sparse form where that is shorter.
            if usual >= 0 and end - begin < starts[block + 1] - starts[block]:
                for e in range(begin, end):
                    bin_ = rare_codes[e]
                    row = blocks[block] + rare_rows[e]
                    for c in range(n_channels):
                        histogram[bin_, c] += duals[row, c]
                # The common bin gets the rest.
                for c in range(n_channels):
                    others = 0.0
                    for b in range(len(histogram)):
                        others += histogram[b, c]
                    histogram[usual, c] = block_totals[block, c] - others
            else:
                for i in range(starts[block], starts[block + 1]):
                    row = rows[i]
                    bin_ = code[row]
                    for c in range(n_channels):
                        histogram[bin_, c] += duals[row, c]
        if not waits:
            add_to_tree(open_sums, block, partial, len(out))
    close_tree(open_sums, n_blocks, out)
