"""Kernels that grow trees from histograms of binned features.

A histogram holds the positive and the negative weight of every bin.  That of the root is counted
for all channels in one pass (:func:`structboost.weak.histogram.histograms`).  Below it, only the
rows of the smaller child are counted; its sibling has the difference to the parent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled
from structboost.weak.category_sets import is_in_set

# An impurity counts as smaller only by more than rounding, since sums come in several orders: by
# this share of the node's.
_ROUNDING = 1e-10
# Rows of average weight that draw a category to the middle of the order: LightGBM's ``cat_smooth``.
_SMOOTHING = 10.0


@compiled
def grow(
    codes: NDArray[Any],
    n_bins: IntArray,
    blocks: IntArray,
    common: IntArray,
    rare_indptr: IntArray,
    rare_rows: NDArray[np.uint16],
    rare_codes: NDArray[Any],
    duals: FloatArray,
    first: int,
    roots: FloatArray,
    histograms: FloatArray,
    depth: int,
    is_category: NDArray[np.bool_],
    directions: NDArray[np.int8],
    features: IntArray,
    bins: IntArray,
    sets: NDArray[np.uint64] | None,
    room: NDArray[np.uint64] | None,
    weights: FloatArray,
    ridges: FloatArray,
    min_rows: int,
    counts: IntArray | None,
    draw: tuple[int, int, IntArray] | None,
) -> None:
    """Grow the trees of the channels from ``first`` on, each split of least Gini impurity.

    Parameters
    ----------
    codes, n_bins, blocks, common, rare_indptr, rare_rows, rare_codes
        As in :class:`structboost.weak.binning.BinnedFeatures`.
    duals : ndarray, shape (n_rows, n_all_channels)
    roots : ndarray, shape (sum of n_bins + 1, 2 * n_channels)
        Histograms of the positive duals of these channels, then of the negative ones.
    histograms : ndarray, shape (depth, 2 * sum of n_bins)
        Room for histograms on the way to a leaf.
    is_category : ndarray of bool, shape (n_columns,)
    directions : ndarray of int8, shape (n_columns,)
        As :func:`best_split` takes them.
    features, bins : ndarray of int64, shape (n_channels, 2^depth - 1)
        Filled; bin -1: no split; bin -2: a split by a set.
    sets : ndarray of uint64, shape (n_channels, 2^depth - 1, n_words), optional
        Filled: the bins that go left, where a node splits by a set.  Without categories None, which
        spares the compilation of all that is about sets.
    room : ndarray of uint64, shape (n_words,), optional
        Room for a set; None as ``sets`` is.
    weights : ndarray, shape (n_channels, 2^depth)
        Filled: sums of the duals in the leaves.
    ridges : ndarray, shape (n_channels,)
        Absolute weight that is added to each side of a split.
    min_rows : int
        Fewest rows of a leaf.
    counts : ndarray of int64, shape (depth, sum of n_bins), optional
        Room for the rows of each bin, on the way to a leaf; None where one row is enough.
    draw : (int, int, ndarray of int64), optional
        Seed, number of features that a node may split, and feature of each column; None where a
        node may split all.
    """
    n_rows, n_nodes = len(duals), 2**depth - 1
    starts = np.empty(len(n_bins) + 1, np.int64)
    starts[0] = 0
    for f in range(len(n_bins)):
        starts[f + 1] = starts[f] + n_bins[f]
    rows, other = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    # Weight of a row, zero outside of the node whose rows are counted, and the half it belongs to.
    masked, sizes = np.zeros(n_rows), np.empty(n_rows)
    halves = np.empty(n_rows, np.int64)
    # Nodes to split: number, place of the histogram, rows.
    todo = np.empty((depth + 1, 4), np.int64)
    is_open = None
    if draw is not None:
        is_open = np.empty(len(n_bins), np.bool_)
    for c in range(len(features)):
        n = 0
        for i in range(n_rows):
            if duals[i, first + c] != 0.0:
                rows[n] = i
                n += 1
        for b in range(len(roots) - 1):
            histograms[0, 2 * b] = roots[b, c]
            histograms[0, 2 * b + 1] = roots[b, c + len(features)]
        if counts is not None:
            _count_rows(codes, starts, rows[:n], counts[0])
        features[c] = 0
        bins[c] = -1
        weights[c] = 0.0
        todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, 0, 0, n
        n_todo = 1
        while n_todo:
            n_todo -= 1
            node, place = todo[n_todo, 0], todo[n_todo, 1]
            begin, end = todo[n_todo, 2], todo[n_todo, 3]
            positive, negative = 0.0, 0.0
            for j in range(begin, end):
                dual = duals[rows[j], first + c]
                positive += max(dual, 0.0)
                negative += max(-dual, 0.0)
            if node >= n_nodes:
                for j in range(begin, end):
                    weights[c, node - n_nodes] += duals[rows[j], first + c]
                continue
            smoothing = _SMOOTHING / max(1, end - begin)
            of_node = None
            if counts is not None:
                of_node = counts[place]
            if draw is not None and is_open is not None:
                _draw_columns(draw, (first + c) * n_nodes + node, is_open)
            f, b = best_split(
                histograms[place], n_bins, is_category, directions, positive, negative, smoothing,
                room, ridges[c], of_node, (end - begin, min_rows), is_open,
            )  # fmt: skip
            if b == -1:
                # Its leftmost leaf gets all rows.
                while node < n_nodes:
                    node = 2 * node + 1
                for j in range(begin, end):
                    weights[c, node - n_nodes] += duals[rows[j], first + c]
                continue
            features[c, node], bins[c, node] = f, b
            if sets is not None and room is not None:
                for w in range(sets.shape[2]):
                    sets[c, node, w] = room[w]
            middle = _part(codes[f], b, room, rows, other, begin, end)
            left, right = 2 * node + 1, 2 * node + 2
            places = (place, place)
            if left < n_nodes:
                # The larger child takes the place of its parent.
                is_left = middle - begin <= end - middle
                small_begin, small_end = (begin, middle) if is_left else (middle, end)
                places = (place + 1, place) if is_left else (place, place + 1)
                _count(
                    codes, n_bins, starts, blocks, common, rare_indptr, rare_rows, rare_codes,
                    duals[:, first + c], rows[small_begin:small_end], masked, sizes, halves,
                    histograms[place + 1],
                )  # fmt: skip
                _subtract(histograms[place], histograms[place + 1])
                if counts is not None:
                    _count_rows(codes, starts, rows[small_begin:small_end], counts[place + 1])
                    for k in range(counts.shape[1]):
                        counts[place, k] -= counts[place + 1, k]
            # The smaller child comes first: it uses no place but those below its own.
            is_left = places[0] > place
            for turn in range(2):
                if (turn == 1) == is_left:
                    todo[n_todo, 0], todo[n_todo, 1] = left, places[0]
                    todo[n_todo, 2], todo[n_todo, 3] = begin, middle
                else:
                    todo[n_todo, 0], todo[n_todo, 1] = right, places[1]
                    todo[n_todo, 2], todo[n_todo, 3] = middle, end
                n_todo += 1


@compiled
def best_split(
    histogram: FloatArray,
    n_bins: IntArray,
    is_category: NDArray[np.bool_],
    directions: NDArray[np.int8],
    positive: float,
    negative: float,
    smoothing: float,
    left_set: NDArray[np.uint64] | None,
    ridge: float,
    counts: IntArray | None,
    rows: tuple[int, int],
    is_open: NDArray[np.bool_] | None,
) -> tuple[int, int]:
    """Feature and bin of the split of least impurity; bin -1 where none is below the node's.

    The impurity of a side with the weights p and n is ``p n / (p + n)``: Gini's, times the weight,
    halved.  The best set of categories is a run of them in the order of p / (p + n) (Breiman et
    al., 1984, section 4.2.2); there the bin is -2, and ``left_set`` is filled.  ``smoothing`` is
    the share of the node's weight that draws small categories to the middle of that order.  A split
    of a feature with a direction above 0 must not have the larger share of positive weight on the
    left, and one below 0 not on the right; the last split of a column is free of a direction of 2
    or -2 (:class:`structboost.weak.monotone_trees.Directions`).

    Half of ``ridge`` is added to p and half to n, on each side and in the node.  So the impurity
    falls by a fourth of the growth of ``(p - n)^2 / (p + n + ridge)``.  ``rows`` are those of the
    node, and the fewest that a side may have, which ``counts``, the rows of each bin, tell.  Only
    columns that are open are split.
    """
    best_feature, best_bin = 0, -1
    if positive <= 0.0 or negative <= 0.0:
        return best_feature, best_bin
    half = 0.5 * ridge
    impurity = (positive + half) * (negative + half) / (positive + negative + ridge)
    margin = _ROUNDING * impurity
    # What the next split must be below.
    limit = impurity + 0.25 * ridge - margin
    n_rows, min_rows = rows
    at = 0
    for f in range(len(n_bins)):
        if is_open is not None and not is_open[f]:
            at += n_bins[f]
            continue
        left_positive, left_negative = 0.0, 0.0
        if left_set is not None and is_category[f]:
            own = histogram[2 * at : 2 * (at + n_bins[f])]
            own_counts = None
            if counts is not None:
                own_counts = counts[at : at + n_bins[f]]
            found = _best_set(
                own, positive, negative, limit, margin, smoothing, left_set, half, own_counts, rows
            )
            if found < limit:
                limit = found
                best_feature, best_bin = f, -2
            at += n_bins[f]
            continue
        n_left = 0
        for b in range(n_bins[f] - 1):
            left_positive += histogram[2 * (at + b)]
            left_negative += histogram[2 * (at + b) + 1]
            right_positive = max(positive - left_positive, 0.0)
            right_negative = max(negative - left_negative, 0.0)
            if counts is not None:
                n_left += counts[at + b]
                if n_left < min_rows or n_rows - n_left < min_rows:
                    continue
            p, q = left_positive + half, right_positive + half
            n, m = left_negative + half, right_negative + half
            # Multiplied by both weights, which saves two divisions.
            value = p * n * (q + m) + q * m * (p + n)
            if value < limit * ((p + n) * (q + m)):
                if directions[f] != 0 and (abs(directions[f]) == 1 or b < n_bins[f] - 2):
                    falls = left_positive * right_negative - right_positive * left_negative
                    if falls * directions[f] > 0.0:
                        continue
                limit = value / ((p + n) * (q + m)) - margin
                best_feature, best_bin = f, b
        at += n_bins[f]
    return best_feature, best_bin


@compiled
def _best_set(
    histogram: FloatArray,
    positive: float,
    negative: float,
    limit: float,
    margin: float,
    smoothing: float,
    left_set: NDArray[np.uint64],
    half: float,
    counts: IntArray | None,
    rows: tuple[int, int],
) -> float:
    """Put the best set of bins into ``left_set`` if it is below ``limit``; returns the new limit.

    Bins without rows go to the side of more weight.
    """
    n_bins = len(histogram) // 2
    total = positive + negative
    orders, order = np.empty(n_bins), np.empty(n_bins, np.int64)
    for b in range(n_bins):
        p, n = histogram[2 * b], histogram[2 * b + 1]
        orders[b] = np.inf
        if p + n > _ROUNDING * total:
            prior = smoothing * total
            orders[b] = (p + prior * positive / total) / (p + n + prior)
        # Insertion, since numba takes 2 s of every first fit to compile a sort.
        i = b
        while i > 0 and orders[order[i - 1]] > orders[b]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = b
    best, left_weight, n_left = 0, 0.0, 0
    left_positive, left_negative = 0.0, 0.0
    for i in range(n_bins - 1):
        if orders[order[i + 1]] == np.inf:
            break
        left_positive += histogram[2 * order[i]]
        left_negative += histogram[2 * order[i] + 1]
        if counts is not None:
            n_left += counts[order[i]]
            if n_left < rows[1] or rows[0] - n_left < rows[1]:
                continue
        p, n = left_positive + half, left_negative + half
        q = max(positive - left_positive, 0.0) + half
        m = max(negative - left_negative, 0.0) + half
        value = p * n * (q + m) + q * m * (p + n)
        if value < limit * ((p + n) * (q + m)):
            limit = value / ((p + n) * (q + m)) - margin
            best, left_weight = i + 1, left_positive + left_negative
    if best > 0:
        for w in range(len(left_set)):
            left_set[w] = np.uint64(0)
        for i in range(n_bins):
            b = order[i]
            if i < best or (orders[b] == np.inf and 2.0 * left_weight > total):
                left_set[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    return limit


@compiled
def _draw_columns(draw: tuple[int, int, IntArray], node: int, is_open: NDArray[np.bool_]) -> None:
    """Open the columns of as many features as ``draw`` says, drawn anew for each node."""
    seed, n_drawn, feature_of = draw
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


@compiled
def _part(
    code: NDArray[Any],
    bin_: int,
    left_set: NDArray[np.uint64] | None,
    rows: NDArray[np.int32],
    other: NDArray[np.int32],
    begin: int,
    end: int,
) -> int:
    """Put the rows left of a split before the others; returns the place of the first of these."""
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


@compiled
def _count(
    codes: NDArray[Any],
    n_bins: IntArray,
    starts: IntArray,
    blocks: IntArray,
    common: IntArray,
    rare_indptr: IntArray,
    rare_rows: NDArray[np.uint16],
    rare_codes: NDArray[Any],
    duals: FloatArray,
    rows: NDArray[np.int32],
    masked: FloatArray,
    sizes: FloatArray,
    halves: IntArray,
    histogram: FloatArray,
) -> None:
    """Fill the histogram of some rows."""
    n_features, n_blocks = len(n_bins), len(blocks) - 1
    positive, negative = 0.0, 0.0
    for j in range(len(rows)):
        dual = duals[rows[j]]
        masked[rows[j]] = dual
        sizes[j] = abs(dual)
        halves[j] = dual < 0.0
        positive += max(dual, 0.0)
        negative += max(-dual, 0.0)
    for b in range(len(histogram)):
        histogram[b] = 0.0
    for f in range(n_features):
        n_rare = 0
        for block in range(n_blocks):
            of_block = block * n_features + f
            if common[block, f] != common[0, f] or common[block, f] < 0:
                n_rare = len(masked)
            n_rare += rare_indptr[of_block + 1] - rare_indptr[of_block]
        own = histogram[2 * starts[f] : 2 * starts[f + 1]]
        code = codes[f]
        if n_rare >= len(rows):
            for j in range(len(rows)):
                own[2 * np.int64(code[rows[j]]) + halves[j]] += sizes[j]
            continue
        for block in range(n_blocks):
            of_block = block * n_features + f
            for e in range(rare_indptr[of_block], rare_indptr[of_block + 1]):
                dual = masked[blocks[block] + rare_rows[e]]
                own[2 * np.int64(rare_codes[e]) + (dual < 0.0)] += abs(dual)
        # The common bin gets the rest.
        left_positive, left_negative = positive, negative
        for b in range(n_bins[f]):
            left_positive -= own[2 * b]
            left_negative -= own[2 * b + 1]
        own[2 * common[0, f]] = max(left_positive, 0.0)
        own[2 * common[0, f] + 1] = max(left_negative, 0.0)
    for j in range(len(rows)):
        masked[rows[j]] = 0.0


@compiled
def _count_rows(
    codes: NDArray[Any], starts: IntArray, rows: NDArray[np.int32], counts: IntArray
) -> None:
    """Fill the number of rows of each bin."""
    for b in range(len(counts)):
        counts[b] = 0
    for f in range(len(codes)):
        own, code = counts[starts[f] : starts[f + 1]], codes[f]
        for j in range(len(rows)):
            own[np.int64(code[rows[j]])] += 1


@compiled
def _subtract(histogram: FloatArray, other: FloatArray) -> None:
    for b in range(len(histogram)):
        histogram[b] = max(histogram[b] - other[b], 0.0)


@compiled
def leaf_numbers(
    codes: NDArray[Any],
    features: IntArray,
    bins: IntArray,
    sets: NDArray[np.uint64] | None,
    out: NDArray[np.int16],
) -> None:
    """Leaf of every row in each tree, counted from the left, shape (n_trees, n_rows)."""
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


@compiled
def leaf_sums(
    numbers: NDArray[np.int16],
    duals: FloatArray,
    drawn: FloatArray,
    first: int,
    honest: bool,
    weights: FloatArray,
    masses: FloatArray,
) -> None:
    """Sums of the duals, and of their sizes, in the leaves of the channels from ``first`` on.

    In honest leaves rows that are not drawn count in full.  Those drawn count by how right their
    answers are on the others, compared with how right they are on themselves.  Then all sizes are
    scaled to the sum they had.

    Parameters
    ----------
    numbers : ndarray, shape (n_trees, n_rows)
        As :func:`leaf_numbers` gives them.
    duals, drawn : ndarray, shape (n_rows, n_all_channels)
        Duals, and those that the trees were grown on, where rows that were not drawn have zeros.
    weights, masses : ndarray, shape (n_trees, n_leaves)
        Filled.
    """
    n_leaves = weights.shape[1]
    # Of the rows drawn.
    own_weights, own_masses = np.empty(n_leaves), np.empty(n_leaves)
    for t in range(len(numbers)):
        for k in range(n_leaves):
            weights[t, k] = masses[t, k] = own_weights[k] = own_masses[k] = 0.0
        for i in range(numbers.shape[1]):
            k, dual = numbers[t, i], duals[i, first + t]
            if honest and drawn[i, first + t] != 0.0:
                own_weights[k] += dual
                own_masses[k] += abs(dual)
            else:
                weights[t, k] += dual
                masses[t, k] += abs(dual)
        own, others = own_masses.sum(), masses[t].sum()
        if own <= 0.0:
            continue
        on_own, on_others = 0.0, 0.0
        for k in range(n_leaves):
            if own_masses[k] > 0.0:
                answer = own_weights[k] / own_masses[k]
                on_own += answer * own_weights[k] / own
                if others > 0.0:
                    on_others += answer * weights[t, k] / others
        share = 1.0
        if others > 0.0:
            share = min(max(on_others / on_own, 0.0), 1.0) if on_own > 0.0 else 0.0
        scale = (own + others) / (share * own + others)
        for k in range(n_leaves):
            weights[t, k] = scale * (weights[t, k] + share * own_weights[k])
            masses[t, k] = scale * (masses[t, k] + share * own_masses[k])


@compiled
def row_hashes(codes: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each row, the same for equal rows: steps of splitmix64."""
    out = np.zeros(codes.shape[1], np.uint64)
    for f in range(len(codes)):
        for i in range(codes.shape[1]):
            z = (out[i] ^ np.uint64(codes[f, i])) + np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            out[i] = z ^ (z >> np.uint64(31))
    return out
