"""Matchings of highest score, by scipy's assignment solver (Crouse's Jonker-Volgenant).

Of equally good matchings, the search returns the first one in the order of the partners of the left
members, where no partner comes before partner 0.  It exchanges pairs of the solver's matching for
others that are in some best matching (complementary slackness).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import real_array, refuse, whole_array
from structboost.runtime.compiled import compiled
from structboost.validation import checked_flag


def linear_assignment(scores: ArrayLike, *, unmatched: bool = False) -> IntArray:
    """Match the members of two sets so that the sum of the scores of the pairs is largest.

    Parameters
    ----------
    scores : array-like, shape (n_left, n_right)
        Score of each pair; minus infinity forbids it.
    unmatched : bool
        Whether members may stay alone: then a pair is matched only if its score is above 0.
        Otherwise the smaller set is matched whole.

    Returns
    -------
    partners : ndarray of int64, shape (n_left,)
        Partner of each left member, -1 for none.  Of equally good matchings the first one, compared
        from left member 0 on, where -1 comes before 0.

    Raises
    ------
    ValueError
        If no matching avoids the forbidden pairs.

    Notes
    -----
    Exact, in ``O(n^3)`` for sets of n members.  Crouse, On implementing 2D rectangular assignment
    algorithms, IEEE Transactions on Aerospace and Electronic Systems 2016.

    Examples
    --------
    >>> from structboost.inference import linear_assignment
    >>> linear_assignment([[2.0, 1.0], [1.5, -3.0]]).tolist()
    [1, 0]
    >>> linear_assignment([[2.0, 0.1], [1.5, -3.0]], unmatched=True).tolist()
    [0, -1]
    """
    table = real_array(scores, "scores", ("n_left", "n_right"), forbids=True, empty=True)
    try:
        return best_matching(table, only_positive=checked_flag(unmatched, "unmatched"))
    except ValueError:
        raise ValueError(
            "scores forbid every matching by minus infinity; forbid less, or take unmatched=True."
        ) from None


def sparse_assignment(scores: ArrayLike, pairs: ArrayLike, shape: tuple[int, int]) -> IntArray:
    """Match the members of two sets that may stay alone, where only some pairs are possible.

    Parameters
    ----------
    scores : array-like, shape (n_pairs,)
        Score of each pair; a pair is matched only if its score is above 0.
    pairs : array-like of int, shape (n_pairs, 2)
        Possible pairs, each once: left member and right member.
    shape : (int, int)
        Sizes of the two sets.

    Returns
    -------
    partners : ndarray of int64, shape (n_left,)
        Partner of each left member, -1 for none.  Of equally good matchings the first one, compared
        from left member 0 on, where -1 comes before 0.

    Notes
    -----
    Exact.  Each connected component of the pairs of positive score is solved
    alone, as :func:`linear_assignment` does.

    Examples
    --------
    >>> from structboost.inference import sparse_assignment
    >>> sparse_assignment([2.0, 1.0, 1.5], [[0, 0], [0, 1], [1, 0]], (2, 2)).tolist()
    [1, 0]
    """
    sizes = whole_array(shape, "shape", (2,))
    table = candidate_pairs(pairs, (int(sizes[0]), int(sizes[1])))
    values = real_array(scores, "scores", (len(table),))
    return best_candidates(values, table, (int(sizes[0]), int(sizes[1])))


def candidate_pairs(pairs: ArrayLike, shape: tuple[int, int]) -> IntArray:
    """Check pairs of members of sets of these sizes, each of which comes once."""
    table = whole_array(pairs, "pairs", ("n_pairs", 2))
    refuse(table, (table >= shape).any(axis=1), "pairs", f"members of sets of sizes {shape}")
    if len(np.unique(table[:, 0] * shape[1] + table[:, 1])) < len(table):
        raise ValueError("pairs has a pair twice; give each pair once.")
    return table


def best_matching(scores: FloatArray, *, only_positive: bool) -> IntArray:
    """Match as :func:`linear_assignment` does, whose ``unmatched`` is ``only_positive``."""
    # Staying alone scores 0: so does a pair of negative score that is taken apart afterwards.
    table = np.maximum(scores, 0.0) if only_positive else np.asarray(scores, np.float64)
    left, right = linear_sum_assignment(table, maximize=True)
    partners = np.full(len(scores), -1, np.int64)
    partners[left] = right
    if table.size:
        _take_first(np.ascontiguousarray(table), only_positive, partners)
    return partners


@compiled
def _take_first(table: FloatArray, only_positive: bool, partners: IntArray) -> None:
    """Replace a best matching of the whole smaller set by the first of those that are equally good.

    With ``only_positive`` members may stay alone: scores are not negative, and a pair that scores 0
    is none and leaves the matching.
    """
    n_left, n_right = table.shape
    n = max(n_left, n_right)
    # With members that score 0 with all others, the sets have one size.
    gain = np.zeros((n, n))
    gain[:n_left, :n_right] = table
    column, owner = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for i in range(n_left):
        if partners[i] >= 0:
            column[i], owner[partners[i]] = partners[i], i
    free = 0
    for i in range(n):
        if column[i] < 0:
            while owner[free] >= 0:
                free += 1
            column[i], owner[free] = free, i
    largest = 0.0
    for i in range(n_left):
        for j in range(n_right):
            if table[i, j] > -np.inf:
                largest = max(largest, abs(table[i, j]))
    slip = 1e-12 * largest
    # Prices of the columns, at which no row gains by another one.
    price = np.zeros(n)
    for _ in range(n):
        changed = False
        for i in range(n):
            base = price[column[i]] - gain[i, column[i]]
            for j in range(n):
                if base + gain[i, j] > price[j] + slip:
                    price[j] = base + gain[i, j]
                    changed = True
        if not changed:
            break
    before, queue = np.empty(n, np.int64), np.empty(n, np.int64)
    is_seen = np.empty(n, np.bool_)
    for i in range(n_left):
        is_seen[:] = False
        end, now = -1, _rank(table, only_positive, i, column[i])
        # First the columns of rank 0, then those before the one that the row has.
        for step in range(n + now if now else 0):
            j = step if step < n else step - n
            is_alone = _rank(table, only_positive, i, j) == 0
            if is_seen[j] or owner[j] == i or is_alone != (step < n):
                continue
            if not _is_tight(gain, price, column, i, j, slip):
                continue
            # Rows before i keep their ranks; the others may move, to end in the column of i.
            queue[0], is_seen[j], before[j] = j, True, -1
            first, last = 0, 1
            while first < last and end < 0:
                c = queue[first]
                first += 1
                k = owner[c]
                fixed = _rank(table, only_positive, k, c) if k < i else -1
                for d in range(n):
                    if is_seen[d] or not _is_tight(gain, price, column, k, d, slip):
                        continue
                    if fixed >= 0 and _rank(table, only_positive, k, d) != fixed:
                        continue
                    is_seen[d], before[d] = True, c
                    if d == column[i]:
                        end = d
                        break
                    queue[last] = d
                    last += 1
            if end >= 0:
                break
        if end >= 0:
            d = end
            while before[d] >= 0:
                c = before[d]
                owner[d] = owner[c]
                column[owner[c]] = d
                d = c
            owner[d], column[i] = i, d
    for i in range(n_left):
        partners[i] = _rank(table, only_positive, i, column[i]) - 1


@compiled
def _rank(table: FloatArray, only_positive: bool, i: int, j: int) -> int:
    """Return the place of column ``j`` in the order of row ``i``, 0 where the row stays alone."""
    n_left, n_right = table.shape
    if i >= n_left or j >= n_right or (only_positive and table[i, j] <= 0.0):
        return 0
    return j + 1


@compiled
def _is_tight(
    gain: FloatArray, price: FloatArray, column: IntArray, i: int, j: int, slip: float
) -> bool:
    """Return whether row ``i`` with column ``j`` is in some best matching."""
    match = column[i]
    return bool(price[match] - gain[i, match] + gain[i, j] >= price[j] - 2.0 * slip)


def best_candidates(scores: FloatArray, pairs: IntArray, shape: tuple[int, int]) -> IntArray:
    """Match as :func:`sparse_assignment` does."""
    n_left, n_right = shape
    partners = np.full(n_left, -1, np.int64)
    useful = np.flatnonzero(scores > 0)
    left, right = pairs[useful, 0], pairs[useful, 1]
    alone = (np.bincount(left, minlength=n_left)[left] == 1) & (
        np.bincount(right, minlength=n_right)[right] == 1
    )
    partners[left[alone]] = right[alone]
    useful, left, right = useful[~alone], left[~alone], right[~alone]
    if not len(useful):
        return partners
    n = n_left + n_right
    graph = coo_array((np.ones(len(useful)), (left, n_left + right)), shape=(n, n))
    component = connected_components(graph, directed=False)[1][left]
    order = np.argsort(component, kind="stable")
    borders = np.flatnonzero(np.diff(component[order])) + 1
    for block_pairs in np.split(order, borders):
        rows, row = np.unique(left[block_pairs], return_inverse=True)
        columns, column = np.unique(right[block_pairs], return_inverse=True)
        block = np.zeros((len(rows), len(columns)))
        block[row, column] = scores[useful[block_pairs]]
        chosen = best_matching(block, only_positive=True)
        matched = np.flatnonzero(chosen >= 0)
        partners[rows[matched]] = columns[chosen[matched]]
    return partners
