"""Matchings of highest score, by scipy's assignment solver (Crouse's Jonker-Volgenant)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import real_array, refuse, whole_array
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
        Partner of each left member, -1 for none.  Of equally good matchings always the same.

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
        Partner of each left member, -1 for none.  Of equally good matchings always the same.

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
    table = np.maximum(scores, 0.0) if only_positive else scores
    left, right = linear_sum_assignment(table, maximize=True)
    partners = np.full(len(scores), -1, np.int64)
    partners[left] = np.where(only_positive & (table[left, right] <= 0.0), -1, right)
    return partners


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
