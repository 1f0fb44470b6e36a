"""Sums of duals in the leaves of the trees of a round, and the confident responses they give."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.runtime.compiled import compiled

# A confident response is this factor times the fraction of the weight in its leaf: it fits a byte.
SURE = 127
_TINY = float(np.finfo(np.float64).tiny)


@compiled
def sum_leaves(
    leaf_of: NDArray[np.int16], duals: FloatArray, is_drawn: NDArray[np.bool_], sums: FloatArray
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
