"""Leaves of the trees of a round, filled by only those rows that the trees were grown on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.runtime.compiled import compiled


@compiled
def drawn_leaf_sums(
    numbers: NDArray[np.int16],
    duals: FloatArray,
    is_drawn: NDArray[np.bool_],
    weights: FloatArray,
    masses: FloatArray,
) -> None:
    """Sum the duals of the drawn rows, and their absolute values, in the leaves of trees.

    Parameters
    ----------
    numbers : ndarray of int16, shape (n_trees, n_rows)
        Leaf of each row in the tree of each channel.
    duals : ndarray, shape (n_rows, n_trees)
    is_drawn : ndarray of bool, shape (n_rows,)
    weights, masses : ndarray, shape (n_trees, n_leaves)
        Filled.
    """
    for t in range(len(numbers)):
        for k in range(weights.shape[1]):
            weights[t, k] = masses[t, k] = 0.0
        for i in range(numbers.shape[1]):
            if is_drawn[i]:
                dual = duals[i, t]
                weights[t, numbers[t, i]] += dual
                masses[t, numbers[t, i]] += abs(dual)
