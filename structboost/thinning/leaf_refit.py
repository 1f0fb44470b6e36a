"""Leaves of the selected trees fitted anew on held-out rows.

With scores S of the weighted trees, targets q, weights v of the rows that sum to 1, and d the
additions to the leaves and the offsets, the problem is ::

    min_d  sum_i v_i [log sum_c exp(F_ic) - <q_i, F_i>] + ridge/2 |d|^2,
           F_i = S_i + sum of the additions that row i reaches

It is strongly convex, so the squared norm of a gradient over twice the ridge bounds how far a point
is from the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from structboost._typing import FloatArray, IntArray

# Square of an addition, in log-odds, against the mean cross-entropy (docs/decisions.md).
RIDGE = 0.01
_MAX_STEPS = 1000


class LeafAdditions(NamedTuple):
    """Additions to the leaves of some trees, and to the offsets.

    Parameters
    ----------
    trees : dict of int to ndarray, shape (n_leaves, n_classes)
        Additions to the scores of the leaves of each tree.  Leaves beyond the last one have none.
    offset : ndarray, shape (n_classes,)
    gap : float
        Relative gap of the refit; NaN where leaves stayed as they were.
    """

    trees: Mapping[int, FloatArray]
    offset: FloatArray
    gap: float


def refitted_leaves(
    leaves: IntArray,
    scored: NDArray[np.bool_],
    trees: IntArray,
    scores: FloatArray,
    targets: FloatArray,
    row_weights: FloatArray,
    tol: float,
) -> LeafAdditions:
    """Minimise the cross-entropy over additions to the leaves of some trees.

    Parameters
    ----------
    leaves : ndarray of int, shape (n_trees, n_rows)
        Leaf that each row reaches, for all trees.
    scored : ndarray of bool, shape (n_trees, n_classes)
        Classes that each tree scores.
    trees : ndarray of int64, shape (n_selected,)
        Trees whose leaves change.
    scores, targets : ndarray, shape (n_rows, n_classes)
        Scores of the weighted trees, and probabilities of the classes.
    row_weights : ndarray, shape (n_rows,)
    tol : float
        Relative gap at which the search stops.
    """
    n_leaves, row_weights = int(leaves.max()) + 1, row_weights / row_weights.sum()
    # All rows reach the offsets, which come last, as if they were the leaf of a further tree.
    places = np.vstack((leaves[trees], np.zeros_like(leaves[:1])))
    places += np.arange(len(places))[:, None] * n_leaves
    reached, columns = np.unique(places, return_inverse=True)
    indptr = np.arange(0, places.size + 1, len(places))
    entries = np.ones(places.size), columns.reshape(places.shape).T.ravel(), indptr
    by_row = sparse.csr_array(entries, shape=(len(scores), len(reached)))
    by_leaf = by_row.T.tocsr()
    may_change = np.vstack((scored[trees], np.ones_like(scored[:1])))[reached // n_leaves]

    def objective(d: FloatArray) -> tuple[float, FloatArray]:
        moved = scores + by_row @ _filled(may_change, d)
        sums = logsumexp(moved, axis=1)
        value = row_weights @ (sums - (targets * moved).sum(axis=1))
        slopes = row_weights[:, None] * (np.exp(moved - sums[:, None]) - targets)
        return float(value + RIDGE / 2 * (d @ d)), RIDGE * d + (by_leaf @ slopes)[may_change]

    def gap(d: FloatArray) -> float:
        value, gradient = objective(d)
        return float(gradient @ gradient) / (2 * RIDGE) / max(value, 1e-300)

    def stop(intermediate_result: object) -> None:
        if gap(intermediate_result.x) <= tol:  # type: ignore[attr-defined]
            raise StopIteration

    start = np.zeros(may_change.sum())
    options = {"maxiter": _MAX_STEPS, "maxfun": 2 * _MAX_STEPS, "gtol": 0.0, "ftol": 0.0}
    d = minimize(objective, start, jac=True, method="L-BFGS-B", callback=stop, options=options).x
    additions = np.zeros((len(places), n_leaves, scores.shape[1]))
    additions[reached // n_leaves, reached % n_leaves] = _filled(may_change, d)
    of_trees = dict(zip(trees.tolist(), additions[:-1], strict=True))
    return LeafAdditions(of_trees, additions[-1, 0], gap(d))


def added_scores(additions: LeafAdditions, leaves: IntArray) -> FloatArray:
    """Scores that additions give to rows by the leaves that they reach, without the offsets.

    Parameters
    ----------
    additions : LeafAdditions
    leaves : ndarray of int, shape (n_trees, n_rows)

    Returns
    -------
    scores : ndarray, shape (n_rows, n_classes)
    """
    out = np.zeros((leaves.shape[1], len(additions.offset)))
    for tree, values in additions.trees.items():
        out += np.pad(values, ((0, 1), (0, 0)))[np.minimum(leaves[tree], len(values))]
    return out


def _filled(is_set: NDArray[np.bool_], values: FloatArray) -> FloatArray:
    """Array of the values in their places, and of zeros elsewhere."""
    out = np.zeros(is_set.shape)
    out[is_set] = values
    return out
