"""Sums of duals in the leaves of the trees of a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.runtime.compiled import compiled

_TINY = np.finfo(np.float64).tiny


def fill_leaves(
    leaf_of: NDArray[np.int16],
    duals: FloatArray,
    is_drawn: NDArray[np.bool_] | None,
    fraction: float,
    of_leaves: FloatArray,
) -> None:
    """Sum the duals, and their absolute values (masses), in the leaves of new trees.

    Without ``is_drawn`` all rows count in full.  In honest leaves, which need it, only rows that
    are not drawn do.  The others count by how right their responses are on the former, compared
    with how right they are on themselves.  Then all sizes are scaled to the sum they had.

    Parameters
    ----------
    leaf_of : ndarray of int16, shape (n_trees, n_rows)
        Leaf of each row in the tree of each channel.
    duals : ndarray, shape (n_rows, n_trees)
    is_drawn : ndarray of bool, shape (n_rows,), optional
    fraction : float
        Fraction of the mass of a tree that is added to that of each leaf.
    of_leaves : ndarray, shape (3, n_trees, n_leaves)
        Filled with sums of the duals, masses, and the former over the latter.
    """
    weights, masses, ratios = of_leaves
    if is_drawn is None:
        add_to_leaves(leaf_of, duals, np.ones(len(duals), np.bool_), weights, masses)
    else:
        add_to_leaves(leaf_of, duals, ~is_drawn, weights, masses)
        own_weights, own_masses = np.empty((2, *weights.shape))
        add_to_leaves(leaf_of, duals, is_drawn, own_weights, own_masses)
        _add_drawn(own_weights, own_masses, weights, masses)
    masses += _totals(fraction * masses)
    np.maximum(masses, _TINY, out=masses)
    np.divide(weights, masses, out=ratios)


def _totals(values: FloatArray) -> FloatArray:
    """Sum each row from left to right, on every processor, shape (n_rows, 1)."""
    return np.asarray(np.cumsum(values, axis=1)[:, -1:])


def _add_drawn(
    own_weights: FloatArray, own_masses: FloatArray, weights: FloatArray, masses: FloatArray
) -> None:
    """Add the sums of the drawn rows to those of the others, as far as they agree."""
    of_drawn, others = _totals(own_masses), _totals(masses)
    with np.errstate(all="ignore"):
        responses = np.where(own_masses > 0.0, own_weights / own_masses, 0.0)
        on_own = _totals(responses * own_weights / of_drawn)
        on_others = _totals(np.where(others > 0.0, responses * weights / others, 0.0))
        agreement = np.where(on_own > 0.0, np.clip(on_others / on_own, 0.0, 1.0), 0.0)
        agreement = np.where(others > 0.0, agreement, 1.0)
        scale = np.where(of_drawn > 0.0, (of_drawn + others) / (agreement * of_drawn + others), 1.0)
    weights[:] = scale * (weights + agreement * own_weights)
    masses[:] = scale * (masses + agreement * own_masses)


@compiled
def add_to_leaves(
    leaf_of: NDArray[np.int16],
    duals: FloatArray,
    is_counted: NDArray[np.bool_],
    weights: FloatArray,
    masses: FloatArray,
) -> None:
    """Sum the duals of the counted rows, and their absolute values, in the leaves of trees.

    Fills ``weights`` and ``masses``.  ``leaf_of`` has the leaf of each row in the tree of each
    channel.
    """
    for t in range(len(leaf_of)):
        for k in range(weights.shape[1]):
            weights[t, k] = masses[t, k] = 0.0
        for i in range(leaf_of.shape[1]):
            if is_counted[i]:
                dual = duals[i, t]
                weights[t, leaf_of[t, i]] += dual
                masses[t, leaf_of[t, i]] += abs(dual)
