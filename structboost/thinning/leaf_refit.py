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
    trees : dict of int to ndarray, shape (n_leaves,) or (n_leaves, n_classes)
        Additions to the scores of the leaves of each tree.  Leaves beyond the last one have none.
    offset : ndarray, shape (n_classes,)
    gap : float
        Relative gap of the refit; NaN where leaves stayed as they were.
    """

    trees: Mapping[int, FloatArray]
    offset: FloatArray
    gap: float


class _Block(NamedTuple):
    """Reached leaves of the trees that score the same classes.

    ``reached`` has a row for each row and a column for each leaf.  ``of_trees`` are the tree and
    the index in it of each leaf.
    """

    channels: IntArray
    reached: sparse.csr_array
    of_trees: tuple[IntArray, IntArray]


def refitted_leaves(
    leaves: IntArray,
    channels: IntArray | None,
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
    channels : ndarray of int64, shape (n_trees,), or None
        Class that each tree scores; None where each scores all.
    trees : ndarray of int64, shape (n_selected,)
        Trees whose leaves change.
    scores, targets : ndarray, shape (n_rows, n_classes)
        Scores of the weighted trees, and probabilities of the classes.
    row_weights : ndarray, shape (n_rows,)
    tol : float
        Relative gap at which the search stops.
    """
    n_classes = scores.shape[1]
    blocks = _blocks(leaves, channels, trees, n_classes)
    sizes = [block.reached.shape[1] * len(block.channels) for block in blocks]
    ends = np.cumsum(sizes)
    row_weights = row_weights / row_weights.sum()
    transposed = [block.reached.T.tocsr() for block in blocks]

    def parts(d: FloatArray) -> list[FloatArray]:
        of_blocks = np.split(d[: ends[-1]], ends[:-1])
        return [
            part.reshape(-1, len(block.channels))
            for part, block in zip(of_blocks, blocks, strict=True)
        ]

    def objective(d: FloatArray) -> tuple[float, FloatArray]:
        moved = scores + d[ends[-1] :]
        for block, part in zip(blocks, parts(d), strict=True):
            moved[:, block.channels] += block.reached @ part
        sums = logsumexp(moved, axis=1)
        value = row_weights @ (sums - (targets * moved).sum(axis=1))
        slopes = row_weights[:, None] * (np.exp(moved - sums[:, None]) - targets)
        gradient = RIDGE * d
        for block, reached, part in zip(blocks, transposed, parts(gradient), strict=True):
            part += reached @ slopes[:, block.channels]
        gradient[ends[-1] :] += slopes.sum(axis=0)
        return float(value + RIDGE / 2 * (d @ d)), gradient

    def gap(d: FloatArray) -> float:
        value, gradient = objective(d)
        return float(gradient @ gradient) / (2 * RIDGE) / max(value, 1e-300)

    def stop(intermediate_result: object) -> None:
        if gap(intermediate_result.x) <= tol:  # type: ignore[attr-defined]
            raise StopIteration

    start = np.zeros(ends[-1] + n_classes)
    options = {"maxiter": _MAX_STEPS, "maxfun": 2 * _MAX_STEPS, "gtol": 0.0, "ftol": 0.0}
    d = minimize(objective, start, jac=True, method="L-BFGS-B", callback=stop, options=options).x
    additions: dict[int, FloatArray] = {}
    for block, part in zip(blocks, parts(d), strict=True):
        of_trees, indices = block.of_trees
        for tree in np.unique(of_trees).tolist():
            of_tree = of_trees == tree
            values = np.zeros((int(indices[of_tree].max()) + 1, part.shape[1]))
            values[indices[of_tree]] = part[of_tree]
            additions[tree] = values if channels is None else values[:, 0]
    return LeafAdditions(additions, d[ends[-1] :], gap(d))


def added_scores(
    additions: LeafAdditions, leaves: IntArray, channels: IntArray | None
) -> FloatArray:
    """Scores that additions give to rows by the leaves that they reach, without the offsets.

    Parameters
    ----------
    additions : LeafAdditions
    leaves : ndarray of int, shape (n_trees, n_rows)
    channels : ndarray of int64, shape (n_trees,), or None

    Returns
    -------
    scores : ndarray, shape (n_rows, n_classes)
    """
    out = np.zeros((leaves.shape[1], len(additions.offset)))
    for tree, values in additions.trees.items():
        is_known = leaves[tree] < len(values)
        added = values[np.where(is_known, leaves[tree], 0)]
        if channels is None:
            out += np.where(is_known[:, None], added, 0.0)
        else:
            out[:, channels[tree]] += np.where(is_known, added, 0.0)
    return out


def _blocks(
    leaves: IntArray, channels: IntArray | None, trees: IntArray, n_classes: int
) -> list[_Block]:
    every = np.arange(n_classes)
    if channels is None:
        return [_block(leaves, trees, every)]
    return [
        _block(leaves, trees[channels[trees] == channel], every[channel : channel + 1])
        for channel in np.unique(channels[trees])
    ]


def _block(leaves: IntArray, trees: IntArray, channels: IntArray) -> _Block:
    of_trees = leaves[trees]
    n_leaves = int(of_trees.max()) + 1
    places = np.arange(len(trees))[:, None] * n_leaves + of_trees
    reached, columns = np.unique(places, return_inverse=True)
    n_rows = of_trees.shape[1]
    matrix = sparse.csr_array(
        (
            np.ones(of_trees.size),
            columns.reshape(of_trees.shape).T.ravel(),
            np.arange(0, of_trees.size + 1, len(trees)),
        ),
        shape=(n_rows, len(reached)),
    )
    return _Block(channels, matrix, (trees[reached // n_leaves], reached % n_leaves))
