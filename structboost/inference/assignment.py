"""Matchings of highest score, by scipy's assignment solver (Crouse's Jonker-Volgenant)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from structboost._typing import FloatArray, IntArray


def best_matching(scores: FloatArray, *, only_positive: bool) -> IntArray:
    """Partner of each row, -1 for none, such that the sum of the scores is largest.

    Parameters
    ----------
    scores : ndarray, shape (n_left, n_right)
        Score of each pair.
    only_positive : bool
        Whether rows and columns may stay alone, which scores 0; otherwise the smaller side is
        matched whole.

    Returns
    -------
    partners : ndarray of int64, shape (n_left,)
        Column of each row, -1 for none.
    """
    partners = np.full(len(scores), -1, np.int64)
    # Staying alone scores 0: so does a pair of negative score that is taken apart afterwards.
    left, right = linear_sum_assignment(
        np.maximum(scores, 0.0) if only_positive else scores, maximize=True
    )
    kept = scores[left, right] > 0 if only_positive else slice(None)
    partners[left[kept]] = right[kept]
    return partners


def best_candidates(scores: FloatArray, pairs: IntArray, shape: tuple[int, int]) -> IntArray:
    """The same over candidate pairs; members may stay alone.

    Each connected component of the candidates with a positive score is a problem of its own.

    Parameters
    ----------
    scores : ndarray, shape (n_pairs,)
        Score of each pair.
    pairs : ndarray of int64, shape (n_pairs, 2)
        The candidates, each once: row and column.
    shape : (int, int)
        Sizes of the two sets.

    Returns
    -------
    partners : ndarray of int64, shape (n_left,)
        Column of each row, -1 for none.
    """
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
    for own in np.split(order, borders):
        rows, row = np.unique(left[own], return_inverse=True)
        columns, column = np.unique(right[own], return_inverse=True)
        block = np.zeros((len(rows), len(columns)))
        block[row, column] = scores[useful[own]]
        found = best_matching(block, only_positive=True)
        matched = np.flatnonzero(found >= 0)
        partners[rows[matched]] = columns[found[matched]]
    return partners
