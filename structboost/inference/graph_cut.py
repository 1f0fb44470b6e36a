"""Minimum cuts, which give the labelling of two labels of least energy.

The only module that imports PyMaxflow, which the base does not need: without it, maximum flows come
from scipy.  It checks its arguments, as PyMaxflow does not: a NaN among the capacities hangs it, a
negative one gives a wrong result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import node_pairs, not_negative, real_array
from structboost.runtime.extras import is_installed

# Bits of the largest whole flow.  Capacities have one more, and scipy adds both in 32 bits.
_BITS = 29
# A cut is taken once it is above the flow by at most this part of the flow's bound.
_SLIP = 2.0**-44
_MOST_ROUNDS = 6


def min_cut_labels(
    node_energies: ArrayLike, edges: ArrayLike, forward: ArrayLike, backward: ArrayLike
) -> NDArray[np.bool_]:
    """Find the labels of least energy for two labels, by a minimum cut.

    Labels ``y`` have the energy ``sum_p E_p(y_p) + sum_pq [f_pq (1 - y_p) y_q + b_pq y_p (1 -
    y_q)]``.

    Parameters
    ----------
    node_energies : array-like, shape (n_nodes, 2)
        Energy of each label of each node.
    edges : array-like of int, shape (n_edges, 2)
        Pairs (p, q) of different nodes; the same pair may come again, its capacities add up.
    forward, backward : array-like, shape (n_edges,)
        Energy where p has label 0 and q label 1, and the other way round; not negative.

    Returns
    -------
    labels : ndarray of bool, shape (n_nodes,)
        Whether each node has label 1.  Among equally good labels always the same.

    Notes
    -----
    Exact, as the energy is submodular when no capacity is negative (StructBoost, (24)).  Kolmogorov
    and Zabih, What energy functions can be minimized via graph cuts?, PAMI 2004.

    With PyMaxflow (extra ``vision``), the time is that of the maximum flow of Boykov and
    Kolmogorov, near linear on graphs of images.  Without it, Dinic's maximum flows of scipy take
    about 15 times as long.  They are of whole numbers: capacities are rounded down to 29 bits, and
    what is left of them is rounded again, more finely, until the cut is above the flow by at most
    ``2**-44`` of ``sum_p |E_p(0) - E_p(1)|``.

    Examples
    --------
    >>> from structboost.inference import min_cut_labels
    >>> energies = [[0.0, 2.0], [1.0, 0.0], [1.5, 0.0]]
    >>> min_cut_labels(energies, [[0, 1], [1, 2]], [1.0, 1.0], [1.0, 1.0]).tolist()
    [False, True, True]
    """
    energies = real_array(node_energies, "node_energies", ("n_nodes", 2))
    n = len(energies)
    pairs = node_pairs(edges, "edges", n)
    there, back = (
        not_negative(value, name, (len(pairs),))
        for value, name in ((forward, "forward"), (backward, "backward"))
    )
    if n == 0:
        return np.zeros(0, np.bool_)
    # Only the difference counts, and capacities must not be negative: the smaller energy is taken
    # off both.
    costs = energies - energies.min(axis=1, keepdims=True)
    search = _cut_by_pymaxflow if is_installed("maxflow") else _cut_by_scipy
    return search(costs, pairs, there, back)


# The name that the segmentation imports.
least_energy_labels = min_cut_labels


def _cut_by_pymaxflow(
    costs: FloatArray, pairs: IntArray, there: FloatArray, back: FloatArray
) -> NDArray[np.bool_]:
    import maxflow

    graph: Any = maxflow.Graph[float](len(costs), max(len(pairs), 1))
    nodes = graph.add_nodes(len(costs))
    # A node in the sink's part has label 1: then the edge from the source, of capacity E(1), is
    # cut.
    graph.add_grid_tedges(nodes, costs[:, 1], costs[:, 0])
    if len(pairs):
        graph.add_edges(nodes[pairs[:, 0]], nodes[pairs[:, 1]], there, back)
    graph.maxflow()
    return np.asarray(graph.get_grid_segments(nodes), np.bool_)


def _cut_by_scipy(
    costs: FloatArray, pairs: IntArray, there: FloatArray, back: FloatArray
) -> NDArray[np.bool_]:
    """Cut by whole flows through what earlier ones leave of the capacities.

    After each flow, no more than the distance of its cut and all flows so far can still flow.
    Capacities are cut off at twice that, which no flow fills, so the next flow has a finer unit.
    """
    n = len(costs)
    nodes, source, sink = np.arange(n), np.full(n, n), np.full(n, n + 1)
    tails = np.concatenate((pairs[:, 0], pairs[:, 1], source, nodes))
    heads = np.concatenate((pairs[:, 1], pairs[:, 0], nodes, sink))
    capacities = np.concatenate((there, back, costs[:, 1], costs[:, 0]))
    left = coo_array((capacities, (tails, heads)), (n + 2, n + 2)).tocsr()
    most = float(costs.sum(axis=0).min() or costs.max())
    slip = _SLIP * float(costs.sum())
    for _ in range(_MOST_ROUNDS):
        # A power of two is the unit: whole capacities stay exact.
        unit = int(np.frexp(most)[1]) - _BITS
        whole = np.ldexp(np.minimum(left.data, 2.0 * most), -unit).astype(np.int32)
        graph = csr_array((whole, left.indices, left.indptr), left.shape)
        flow = maximum_flow(graph, n, n + 1).flow
        ways = (graph - flow).T.tocsr()  # from the sink to all nodes that still reach it
        ways.eliminate_zeros()
        is_one = np.zeros(n + 2, np.bool_)
        is_one[breadth_first_order(ways, n + 1, return_predecessors=False)] = True
        left = left - csr_array((np.ldexp(flow.data, unit), flow.indices, flow.indptr), flow.shape)
        is_cut = np.repeat(~is_one, np.diff(left.indptr)) & is_one[left.indices]
        most = float(left.data[is_cut].sum())
        if most <= slip:
            break
    return is_one[:n]
