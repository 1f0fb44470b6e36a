"""Kernels that grow trees by the splits of least Gini impurity.

Below the root only the rows of the smaller child are counted; its sibling has the difference to the
parent.

Splits are searched in the histogram of a node.  The bins of a sparse column are counted only where
the weight outside of its common bin may be enough for a better split than the best one so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    LeafArray,
    ShortArray,
    SignArray,
    WordArray,
)
from structboost.learners.binning import is_in_set
from structboost.learners.histogram import (
    MASK,
    ROWS_AT_ONCE,
    SHIFT,
    CountedTable,
    count,
    count_rows,
    count_sparse,
    pack,
)
from structboost.runtime.compiled import compiled

# An impurity counts as smaller only by more than rounding: by this fraction of the node's.
ROUNDING = 1e-10
# Sparse columns that are passed over together.
COLUMNS_AT_ONCE = 32
# Rows of average weight that draw a category to the middle of the order: LightGBM's ``cat_smooth``.
_SMOOTHING = 10.0


@compiled(no_cpython_wrapper=True)
def split_of_node(
    codes: tuple[AnyArray, IntArray],
    histogram: IntArray,
    columns: tuple[BoolArray, SignArray, BoolArray],
    node: tuple[int, float],
    left_set: WordArray | None,
    rows: ShortArray,
    weights: tuple[IntArray, IntArray],
    sparse: tuple[Any, ...] | None,
    counts: IntArray | None,
    limits: tuple[int, int, float],
) -> tuple[int, int, int]:
    """Find the feature and bin of the split of least impurity, and the weight on its left.

    The bin is -1 if no impurity is below that of the node.  The impurity of a side with the
    weights p and n is ``p n / (p + n)``: Gini's, times the weight, halved.  The best set of
    categories is a run of them in the order of p / (p + n) (Breiman et al., 1984, section 4.2.2);
    there the bin is -2, and ``left_set`` is filled.  A split of a feature with a direction above 0
    must not have the larger fraction of positive weight on the left, and one below 0 not on the
    right; the last split of a column is free of a direction of 2 or -2
    (:class:`structboost.learners.tree.Directions`).

    ``node`` is the weight of the node, and the ridge.  Half of that is added to p and half to n, on
    each side and in the node.  So the impurity falls by a fourth of the growth of
    ``(p - n)^2 / (p + n + ridge)``.  Only columns that are open are split.

    Sparse columns whose bins other than the common one have too little weight are passed over
    (:func:`_needed_weights`).

    ``codes`` are ``codes`` and ``columns`` of the :class:`CountedTable`, and ``weights`` those of
    all rows, and zeros.  ``limits`` are the fewest ``rows`` of a side, the largest weight of a row,
    and the price of a category (:func:`_best_set`).  The rows of a column are counted, with
    ``counts`` as room, where they are too light to be enough for certain.
    """
    of_rows, of_columns = codes
    is_category, directions, is_open = columns
    total, ridge = node
    best_feature, best_bin, best_left = 0, -1, 0
    positive, negative = float(total >> SHIFT), float(total & MASK)
    if positive <= 0.0 or negative <= 0.0:
        return best_feature, best_bin, best_left
    half = 0.5 * ridge
    impurity = (positive + half) * (negative + half) / (positive + negative + ridge)
    margin = ROUNDING * impurity
    # What the next split must be below.
    limit = impurity + 0.25 * ridge - margin
    min_rows, largest, price = limits
    # Sides of less weight may have too few rows.
    enough = float(min_rows) * largest
    # Sparse columns are passed over by what is needed to get below this limit.
    cap, is_masked, needed = limit, False, (0, 0)
    if sparse is not None:
        needed = _needed_weights(node, cap)
    next_f = 0
    while next_f < len(directions):
        f = next_f
        next_f += 1
        first, n_bins = of_columns[f, 0], of_columns[f, 1]
        is_sparse = of_columns[f, 2] >= 0
        if sparse is not None:
            if is_sparse:
                if limit < cap:
                    cap = limit
                    needed = _needed_weights(node, cap)
                last = f + COLUMNS_AT_ONCE - 1
                if last < len(directions) and of_columns[last, 2] == of_columns[f, 2] + last - f:
                    if not _any_enough(histogram[first : first + COLUMNS_AT_ONCE], needed):
                        next_f = last + 1
                        continue
                rest = histogram[first]
                if rest == 0 or (rest < needed[0] and (rest & MASK) < needed[1]):
                    continue
        if not is_open[f]:
            continue
        here = histogram[first : first + n_bins]
        if sparse is not None:
            if is_sparse:
                if not is_masked:
                    is_masked = True
                    for j in range(len(rows)):
                        weights[1][rows[j]] = weights[0][rows[j]]
                count_sparse(codes, sparse, f, rows, weights, total, histogram[first])
                here = sparse[6][:n_bins]
        if left_set is not None and is_category[f]:
            if counts is not None:
                count_rows(of_rows[f], rows, counts[:n_bins])
            of_side = (len(rows), min_rows)
            bounds = (limit, margin, half, price)
            least, left = _best_set(here, total, bounds, left_set, counts, of_side)
            if least < limit:
                limit = least
                best_feature, best_bin, best_left = f, -2, left
            continue
        left, is_counted = 0, False
        for b in range(n_bins - 1):
            # An empty bin makes no other split.
            weight = here[b]
            if weight == 0:
                continue
            left += weight
            p, n = float(left >> SHIFT) + half, float(left & MASK) + half
            q, m = positive + ridge - p, negative + ridge - n
            # Multiplied by both weights, which saves two divisions.
            value = p * n * (q + m) + q * m * (p + n)
            if value < limit * ((p + n) * (q + m)):
                if directions[f] != 0 and (abs(directions[f]) == 1 or b < n_bins - 2):
                    falls = (p - half) * (m - half) - (q - half) * (n - half)
                    if falls * directions[f] > 0.0:
                        continue
                if counts is not None and min(p + n, q + m) - ridge < enough:
                    if not is_counted:
                        is_counted = True
                        count_rows(of_rows[f], rows, counts[:n_bins])
                        for k in range(1, n_bins):
                            counts[k] += counts[k - 1]
                    if min(counts[b], len(rows) - counts[b]) < min_rows:
                        continue
                limit = value / ((p + n) * (q + m)) - margin
                best_feature, best_bin, best_left = f, b, left
    if sparse is not None:
        if is_masked:
            for j in range(len(rows)):
                weights[1][rows[j]] = 0
    return best_feature, best_bin, best_left


@compiled(no_cpython_wrapper=True)
def _best_set(
    histogram: IntArray,
    total: int,
    limits: tuple[float, float, float, float],
    left_set: WordArray,
    counts: IntArray | None,
    rows: tuple[int, int],
) -> tuple[float, int]:
    """Put the best set of bins into ``left_set`` if its impurity is below the first of ``limits``.

    Returns the new limit, and the weight of the set.  The other ``limits`` are what impurities must
    differ by, half of the ridge, and the price of a category.  Bins without rows go to the side of
    more weight.

    Where categories mean nothing, the best set of k gains on average (k - 2) mean row weights more
    than a split of two.  The impurity of a set has so much added, times the price.
    """
    limit, margin, half, price = limits
    n_bins = len(histogram)
    positive, negative = float(total >> SHIFT), float(total & MASK)
    prior = _SMOOTHING / max(1, rows[0])
    orders, order = np.empty(n_bins), np.empty(n_bins, np.int64)
    n_occupied = 0
    for b in range(n_bins):
        p, n = float(histogram[b] >> SHIFT), float(histogram[b] & MASK)
        orders[b] = np.inf
        if histogram[b] != 0:
            n_occupied += 1
            orders[b] = (p + prior * positive) / (p + n + prior * (positive + negative))
        # Insertion, since numba takes 2 s of every first fit to compile a sort.
        i = b
        while i > 0 and orders[order[i - 1]] > orders[b]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = b
    paid = 0.0
    if n_occupied > 2:
        paid = 0.25 * price * (n_occupied - 2) * (positive + negative) / max(1, rows[0])
    best, best_left, n_left, left = 0, 0, 0, 0
    for i in range(n_bins - 1):
        if orders[order[i + 1]] == np.inf:
            break
        left += histogram[order[i]]
        if counts is not None:
            n_left += counts[order[i]]
            if n_left < rows[1] or rows[0] - n_left < rows[1]:
                continue
        p, n = float(left >> SHIFT) + half, float(left & MASK) + half
        q, m = positive + 2.0 * half - p, negative + 2.0 * half - n
        value = p * n * (q + m) + q * m * (p + n)
        if value < (limit - paid) * ((p + n) * (q + m)):
            limit = value / ((p + n) * (q + m)) + paid - margin
            best, best_left = i + 1, left
    if best > 0:
        p, n = float(best_left >> SHIFT), float(best_left & MASK)
        takes_empty = 2.0 * (p + n) > positive + negative
        for w in range(len(left_set)):
            left_set[w] = np.uint64(0)
        for i in range(n_bins):
            b = order[i]
            if i < best or (orders[b] == np.inf and takes_empty):
                left_set[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    return limit, best_left


@compiled(no_cpython_wrapper=True)
def _needed_weights(node: tuple[int, float], limit: float) -> tuple[int, int]:
    """Weights outside the common bin that a better split needs, either of which is enough.

    One side of a split has none of the common bin.  If it has the larger fraction of positive
    weight, the impurity would be smaller without its negative weight, and the other way around.
    The positive one is shifted as in a histogram.
    """
    total, ridge = node
    positive, negative = float(total >> SHIFT), float(total & MASK)
    half = 0.5 * ridge
    of_positive = _least_weight(positive, negative, limit, half) << SHIFT
    return of_positive, _least_weight(negative, positive, limit, half)


@compiled(no_cpython_wrapper=True)
def _least_weight(positive: float, negative: float, limit: float, half: float) -> int:
    """Positive weight that one side needs for a split with an impurity below the limit.

    A side without negative weight has the least impurity.  That of the other side is then
    ``a b / (a + b)``, with what is left of the positive weight as a.
    """
    b, other = negative + half, limit - 0.5 * half
    if b <= other:
        return 0
    least = positive + half - other * b / (b - other)
    return int(max(0.0, least - ROUNDING * (positive + negative + half)))


@compiled(no_cpython_wrapper=True)
def _any_enough(weights: IntArray, needed: tuple[int, int]) -> bool:
    """Whether any weight has enough of a sign.

    It is a loop that LLVM makes vector code of: a sum is negative if one of its terms is enough.
    """
    signs = 0
    for i in range(len(weights)):
        signs |= (needed[0] - 1 - weights[i]) | (needed[1] - 1 - (weights[i] & MASK))
    return signs < 0


# A confident response is this factor times the fraction of the weight in its leaf: it fits a byte.
SURE = 127
_TINY = float(np.finfo(np.float64).tiny)


@compiled
def sum_leaves(
    leaf_of: LeafArray, duals: FloatArray, is_drawn: BoolArray, sums: FloatArray
) -> None:
    """Sum the duals, and their absolute values (masses), in the leaves of new trees.

    Parameters
    ----------
    leaf_of : ndarray of int16, shape (n_trees, n_rows)
        Leaf of each row in the tree of each channel.
    duals : ndarray, shape (n_trees, n_rows)
    is_drawn : ndarray of bool, shape (n_rows,)
    sums : ndarray, shape (4, n_trees, n_leaves)
        Filled with sums and masses of all rows, and with those of the drawn rows.
    """
    for t in range(len(leaf_of)):
        for k in range(sums.shape[2]):
            sums[0, t, k] = sums[1, t, k] = sums[2, t, k] = sums[3, t, k] = 0.0
        for i in range(leaf_of.shape[1]):
            k, dual = leaf_of[t, i], duals[t, i]
            sums[0, t, k] += dual
            sums[1, t, k] += abs(dual)
            if is_drawn[i]:
                sums[2, t, k] += dual
                sums[3, t, k] += abs(dual)


@compiled
def confident_leaves(
    sums: FloatArray, fractions: tuple[float, float], responses: FloatArray
) -> None:
    """Divide the sums in leaves by their masses, to which a fraction of that of the tree is added.

    Parameters
    ----------
    sums : ndarray, shape (4, n_trees, n_leaves)
        The result of :func:`sum_leaves`; the masses of all rows become those divided by.
    fractions : (float, float)
        Fraction of the mass of a tree that is added to that of each leaf, for all and for the drawn
        rows.
    responses : ndarray, shape (2, n_trees, n_leaves)
        Filled with quotients of all rows, from -1 to 1, and with responses of the drawn ones.
    """
    for t in range(sums.shape[1]):
        masses = sums[1, t]
        total = 0.0
        for k in range(len(masses)):
            total += fractions[0] * masses[k]
        of_drawn, of_tree = sums[3, t], 0.0
        if len(of_drawn) < 8:
            for k in range(len(of_drawn)):
                of_tree += of_drawn[k]
        else:
            # In the order of numpy, by eight partial sums.
            eight = responses[1, t]
            for k in range(8):
                eight[k] = of_drawn[k]
            for k in range(8, len(of_drawn)):
                eight[k & 7] += of_drawn[k]
            of_tree = (eight[0] + eight[1]) + (eight[2] + eight[3])
            of_tree += (eight[4] + eight[5]) + (eight[6] + eight[7])
        of_row = of_tree * fractions[1]
        for k in range(len(masses)):
            mass, mass_of_drawn = masses[k] + total, of_drawn[k] + of_row
            # Conditions instead of ``max``, which numba compiles as a function for each type.
            masses[k] = mass if mass > _TINY else _TINY
            responses[0, t, k] = sums[0, t, k] / masses[k]
            divisor = mass_of_drawn if mass_of_drawn > _TINY else _TINY
            responses[1, t, k] = SURE * sums[2, t, k] / divisor


Room = tuple[IntArray, IntArray, ShortArray, IntArray, IntArray]


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
    columns: tuple[BoolArray, SignArray],
    duals: FloatArray,
    is_drawn: BoolArray,
    room: Room,
    nodes: tuple[IntArray, IntArray],
    sets: WordArray | None,
    counts: IntArray | None,
    limits: tuple[int, float, float],
    draw: tuple[int, int, IntArray, BoolArray],
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
def _draw_columns(draw: tuple[int, int, IntArray, BoolArray], node: int) -> None:
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
    code: AnyArray,
    bin_: int,
    left_set: WordArray | None,
    rows: ShortArray,
    other: ShortArray,
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
    codes: AnyArray, features: IntArray, bins: IntArray, sets: WordArray | None, out: LeafArray
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
    codes: AnyArray, features: IntArray, bins: IntArray, sets: WordArray | None, out: LeafArray
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
