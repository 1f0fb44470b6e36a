"""Paths of the fewest arcs."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from structboost._typing import FloatArray, IntArray


def path_of_fewest_arcs(
    arcs: IntArray, source: int, target: int, used: FloatArray
) -> FloatArray | None:
    """Return a path of the fewest arcs among those in use.

    Parameters
    ----------
    arcs : ndarray of int64, shape (n_arcs, 2)
        Tail and head of each arc: nodes, counted from 0.
    source, target : int
        Where the path begins and ends.
    used : ndarray, shape (n_arcs,)
        Nonzero on the arcs that may be taken.

    Returns
    -------
    path : ndarray, shape (n_arcs,), or None
        1 on the arcs of the path; None if there is none.
    """
    rows = np.flatnonzero(used)
    arc_at = dict(zip(map(tuple, arcs[rows].tolist()), rows, strict=True))
    n_nodes = max(int(arcs.max()), source, target) + 1
    graph = csr_array((np.ones(len(rows)), tuple(arcs[rows].T)), (n_nodes, n_nodes))
    reached, before = breadth_first_order(graph, source)
    if target not in reached:
        return None
    path, node = np.zeros(len(arcs)), target
    while node != source:
        path[arc_at[int(before[node]), node]] = 1.0
        node = int(before[node])
    return path
