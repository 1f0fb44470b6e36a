"""Kernels that grow trees by the splits of :mod:`structboost.learners.tree_splits`.

Below the root only the rows of the smaller child are counted; its sibling has the difference to the
parent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.learners.category_sets import is_in_set
from structboost.learners.tree_histograms import (
    MASK,
    ROWS_AT_ONCE,
    SHIFT,
    CountedTable,
    count,
    pack,
)
from structboost.learners.tree_splits import split_of_node
from structboost.runtime.compiled import compiled

Room = tuple[IntArray, IntArray, NDArray[np.int32], IntArray, IntArray]


def work_arrays(depth: int, table: CountedTable) -> Room:
    """Allocate what :func:`grow` works in.

    Compiled code that allocates takes a tenth of a second more to compile, for each type of array.

    Returns
    -------
    histograms : ndarray of int64, shape (depth, n_entries)
        Histograms on the way to a leaf.
    weights : ndarray of int64, shape (2, n_rows)
        Packed weights, and zeros.
    row_indices : ndarray of int32, shape (2, n_rows)
    todo : ndarray of int64, shape (depth + 1, 5)
        Nodes to split: index, place of the histogram, first and last row, weight.
    at_once : ndarray of int64
        Weights of neighbouring rows.
    """
    n_rows, n_bins = len(table.by_row), table.columns[:, 1]
    is_sparse = table.columns[:, 2] >= 0
    return (
        np.empty((depth, int(np.where(is_sparse, 1, n_bins).sum())), np.int64),
        np.zeros((2, n_rows), np.int64),
        np.empty((2, n_rows), np.int32),
        np.empty((depth + 1, 5), np.int64),
        np.empty(ROWS_AT_ONCE, np.int64),
    )


@compiled
def grow(
    table: tuple[Any, ...],
    columns: tuple[NDArray[np.bool_], NDArray[np.int8]],
    duals: FloatArray,
    is_drawn: NDArray[np.bool_],
    room: Room,
    nodes: tuple[IntArray, IntArray],
    sets: NDArray[np.uint64] | None,
    counts: IntArray | None,
    limits: tuple[int, float, float],
    draw: tuple[int, int, IntArray, NDArray[np.bool_]],
) -> None:
    """Grow a tree for each channel, with splits of least Gini impurity.

    Parameters
    ----------
    table : CountedTable, as a plain tuple
    columns : (ndarray of bool, ndarray of int8), shape (n_columns,)
        Flags of categorical columns, and directions, as for :func:`split_of_node`.
    duals : ndarray, shape (n_channels, n_rows)
    is_drawn : ndarray of bool, shape (n_rows,)
        Rows that the trees are grown on.
    room : tuple of ndarrays
        Work arrays of :func:`work_arrays`.
    nodes : (ndarray of int64, ndarray of int64), shape (n_channels, 2^depth - 1)
        Filled with features and bins, where bin -1 is no split and bin -2 a split by a set.
    sets : ndarray of uint64, shape (n_channels, 2^depth - 1, n_words), optional
        Filled with the bins that go left at nodes that split by a set.  None without categories,
        which avoids the compilation of the code for sets.
    counts : ndarray of int64, shape (most bins of a column,), optional
        Work array for the rows of each bin, or None if one row is enough for a leaf.
    limits : (int, float, float)
        Fewest rows of a leaf, the fraction of a channel's absolute weight that is added to each
        side of a split, and the price of a category.
    draw : (int, int, ndarray of int64, ndarray of bool)
        Seed, number of features that a node may split, feature of each column, and a work array
        for the columns that a node may split, which are all at first.
    """
    codes, of_columns, by_row, dense, sparse = table
    histograms, weights, row_indices, todo, at_once = room
    features, bins = nodes
    min_rows, fraction, price = limits
    n_nodes = features.shape[1]
    rows, other = row_indices[0], row_indices[1]
    draws, is_open = draw[1] <= draw[2][-1], draw[3]
    # Weights of a channel, and those of a node whose rows are counted, zero elsewhere.
    packed, masked = weights[0], weights[1]
    left_set = None
    if sets is not None:
        left_set = np.zeros(sets.shape[2], np.uint64)
    for c in range(len(features)):
        n, total, largest = pack(duals[c], is_drawn, packed, rows)
        count((by_row, dense), sparse, packed, rows[:n], histograms[0], at_once)
        ridge = fraction * ((total >> SHIFT) + (total & MASK))
        features[c] = 0
        bins[c] = -1
        n_todo = _push(todo, 0, (0, 0, n, total), 0)
        while n_todo:
            n_todo -= 1
            node, place = todo[n_todo, 0], todo[n_todo, 1]
            begin, end, total = todo[n_todo, 2], todo[n_todo, 3], todo[n_todo, 4]
            if draws:
                _draw_columns(draw, c * n_nodes + node)
            f, b, left_total = split_of_node(
                (codes, of_columns), histograms[place], (columns[0], columns[1], is_open),
                (total, ridge), left_set, rows[begin:end], (packed, masked), sparse, counts,
                (min_rows, largest, price),
            )  # fmt: skip
            if b == -1:
                continue
            features[c, node], bins[c, node] = f, b
            if sets is not None and left_set is not None:
                for w in range(sets.shape[2]):
                    sets[c, node, w] = left_set[w]
            left = 2 * node + 1
            if left >= n_nodes:
                continue
            middle = _rows_parted(codes[f], b, left_set, rows, other, begin, end)
            smaller = left, begin, middle, left_total
            larger = left + 1, middle, end, total - left_total
            if middle - begin > end - middle:
                smaller, larger = larger, smaller
            may_smaller, may_larger = _may_split(smaller, min_rows), _may_split(larger, min_rows)
            if may_smaller or may_larger:
                of_smaller, of_child = rows[smaller[1] : smaller[2]], histograms[place + 1]
                count((by_row, dense), sparse, packed, of_smaller, of_child, at_once)
            # The larger child takes the place of its parent, and comes last: the smaller one uses
            # no place but those below its own.
            if may_larger:
                for k in range(histograms.shape[1]):
                    histograms[place, k] -= histograms[place + 1, k]
                n_todo = _push(todo, n_todo, larger, place)
            if may_smaller:
                n_todo = _push(todo, n_todo, smaller, place + 1)


@compiled(no_cpython_wrapper=True)
def _push(todo: IntArray, n_todo: int, node: tuple[int, int, int, int], place: int) -> int:
    """Append a node, by index, first and last row and weight, and the place of its histogram."""
    todo[n_todo, 0], todo[n_todo, 1] = node[0], place
    todo[n_todo, 2], todo[n_todo, 3], todo[n_todo, 4] = node[1], node[2], node[3]
    return n_todo + 1


@compiled(no_cpython_wrapper=True)
def _may_split(node: tuple[int, int, int, int], min_rows: int) -> bool:
    """Whether a node has weight of both signs, and enough rows."""
    n_rows, total = node[2] - node[1], node[3]
    return bool(total >> SHIFT > 0 and total & MASK > 0 and n_rows >= 2 * min_rows)


@compiled(no_cpython_wrapper=True)
def _draw_columns(draw: tuple[int, int, IntArray, NDArray[np.bool_]], node: int) -> None:
    """Open the columns of ``draw`` features, drawn anew for each node."""
    seed, n_drawn, feature_of, is_open = draw
    n_left = feature_of[-1] + 1
    state = np.uint64(seed) + np.uint64(node) * np.uint64(0xBF58476D1CE4E5B9)
    is_drawn = False
    for j in range(len(feature_of)):
        if j == 0 or feature_of[j] != feature_of[j - 1]:
            # The features that are still to come share the places that are still free.
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state ^ (state >> np.uint64(30))
            z *= np.uint64(0xBF58476D1CE4E5B9)
            z ^= z >> np.uint64(27)
            z *= np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            is_drawn = np.int64(z >> np.uint64(33)) % n_left < n_drawn
            n_drawn -= is_drawn
            n_left -= 1
        is_open[j] = is_drawn


@compiled(no_cpython_wrapper=True)
def _rows_parted(
    code: NDArray[Any],
    bin_: int,
    left_set: NDArray[np.uint64] | None,
    rows: NDArray[np.int32],
    other: NDArray[np.int32],
    begin: int,
    end: int,
) -> int:
    """Move the rows left of a split before the others, and return the index of the next row."""
    n_left, n_right = begin, 0
    for j in range(begin, end):
        row = rows[j]
        is_right = code[row] > bin_
        if left_set is not None and bin_ == -2:
            is_right = not is_in_set(left_set, np.int64(code[row]))
        rows[n_left] = row
        other[n_right] = row
        n_left += 1 - is_right
        n_right += is_right
    for j in range(n_right):
        rows[n_left + j] = other[j]
    return n_left


# Rows that are sent down a tree together, and the largest index of a node that a byte holds.
_ROWS_DOWN, _LARGEST_BYTE = 1024, 255


@compiled
def fill_leaf_indices(
    codes: NDArray[Any],
    features: IntArray,
    bins: IntArray,
    sets: NDArray[np.uint64] | None,
    out: NDArray[np.int16],
) -> None:
    """Leaf of every row in each tree, counted from the left, shape (n_trees, n_rows).

    Each node in turn sends its rows on, in a pass over all rows of a block.  A processor does that
    for many rows at once, where to walk down row by row waits for every single node.
    """
    n_nodes = features.shape[1]
    if 2 * n_nodes > _LARGEST_BYTE:
        _walk_down(codes, features, bins, sets, out)
        return
    node_of, is_inside = np.empty(_ROWS_DOWN, np.uint8), np.empty(256, np.bool_)
    for t in range(len(features)):
        for first in range(0, codes.shape[1], _ROWS_DOWN):
            n = min(_ROWS_DOWN, codes.shape[1] - first)
            node_of[:] = 0
            for k in range(n_nodes):
                code, b = codes[features[t, k], first : first + n], bins[t, k]
                here, left, right = np.uint8(k), np.uint8(2 * k + 1), np.uint8(2 * k + 2)
                if sets is not None and b == -2:
                    for word in range(256):
                        is_inside[word] = word < 64 * sets.shape[2] and is_in_set(sets[t, k], word)
                    for i in range(n):
                        if node_of[i] == here:
                            node_of[i] = left if is_inside[code[i]] else right
                elif b < 0:
                    for i in range(n):
                        node_of[i] = left if node_of[i] == here else node_of[i]
                else:
                    # A bin of the type of the codes lets one instruction compare many rows.
                    limit = codes.dtype.type(b)
                    for i in range(n):
                        below = right if code[i] > limit else left
                        node_of[i] = below if node_of[i] == here else node_of[i]
            for i in range(n):
                out[t, first + i] = node_of[i] - n_nodes


@compiled(no_cpython_wrapper=True)
def _walk_down(
    codes: NDArray[Any],
    features: IntArray,
    bins: IntArray,
    sets: NDArray[np.uint64] | None,
    out: NDArray[np.int16],
) -> None:
    """Fill ``out`` as :func:`fill_leaf_indices` does, row by row."""
    n_nodes = features.shape[1]
    for t in range(len(features)):
        for i in range(codes.shape[1]):
            k = 0
            while k < n_nodes:
                b = bins[t, k]
                is_right = b >= 0 and codes[features[t, k], i] > b
                if sets is not None and b == -2:
                    is_right = not is_in_set(sets[t, k], np.int64(codes[features[t, k], i]))
                k = 2 * k + 1 + is_right
            out[t, i] = k - n_nodes
