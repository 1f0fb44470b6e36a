"""Paths of the fewest arcs."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from structboost._typing import FloatArray, IntArray


def path_of_fewest_arcs(
    arcs: IntArray, source: int, target: int, used: FloatArray
) -> FloatArray | None:
    """Return a path of the fewest arcs among those in use, or None if there is none.

    ``used`` is nonzero on the arcs that may be taken, and the path is 1 on its arcs.
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
