"""Labellings of least energy by minimum cuts.

Two labels take one cut, and each move of alpha-expansion over more labels takes one.  This is the
only module that imports PyMaxflow, which the base does not need: without it, maximum flows come
from scipy.  It checks its arguments, as PyMaxflow does not: a NaN among the capacities hangs it, a
negative one gives a wrong result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from structboost._typing import BoolArray, FloatArray, IntArray
from structboost.inference.arguments import node_pairs, not_negative, real_array, whole_array
from structboost.runtime.compiled import compiled
from structboost.runtime.registry import is_installed

# Bits of the largest whole flow.  Capacities have one more, and scipy adds both in 32 bits.
_BITS = 29
# A cut is taken once it is above the flow by at most this part of the flow's bound.
_SLIP = 2.0**-44
_MOST_ROUNDS = 6


def min_cut_labels(
    node_energies: ArrayLike, edges: ArrayLike, forward: ArrayLike, backward: ArrayLike
) -> BoolArray:
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
    pairs = node_pairs(edges, "edges", len(energies))
    shape = (len(pairs),)
    there, back = not_negative(forward, "forward", shape), not_negative(backward, "backward", shape)
    return least_energy_labels(energies, pairs, there, back)


def least_energy_labels(
    energies: FloatArray, pairs: IntArray, there: FloatArray, back: FloatArray
) -> BoolArray:
    """Find labels as :func:`min_cut_labels` does, without a check."""
    if not len(energies):
        return np.zeros(0, np.bool_)
    # Only the difference counts, and capacities must not be negative: the smaller energy is taken
    # off both.
    costs = energies - energies.min(axis=1, keepdims=True)
    search = _cut_by_pymaxflow if is_installed("maxflow") else _cut_by_scipy
    return search(costs, pairs, there, back)


def _cut_by_pymaxflow(
    costs: FloatArray, pairs: IntArray, there: FloatArray, back: FloatArray
) -> BoolArray:
    import maxflow

    graph = maxflow.Graph[float](len(costs), max(len(pairs), 1))
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
) -> BoolArray:
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


# A move is taken if it saves more than this, relatively: rounding must not make it go round in
# circles.
_SAVING = 1e-10
_MAX_SWEEPS = 20


def alpha_expansion_labels(
    node_energies: ArrayLike, edges: ArrayLike, weights: ArrayLike, graphs: ArrayLike | None = None
) -> IntArray:
    """Find labels of low energy in a Potts model, by alpha-expansion.

    Labels ``y`` have the energy ``sum_p E_p(y_p) + sum_pq w_pq [y_p != y_q]``.  Neither an
    expansion of one label nor a single label for all nodes improves the result.

    Parameters
    ----------
    node_energies : array-like, shape (n_nodes, n_labels)
        Energy of each label of each node.
    edges : array-like of int, shape (n_edges, 2)
        Pairs of different nodes; there may be none.
    weights : array-like, shape (n_edges,)
        Energy of an edge whose ends have different labels; not negative, or the model is no metric.
    graphs : array-like of int, shape (n_nodes,), optional
        Index of the graph of each node, where ``edges`` join several graphs that are not connected:
        all are searched at once.

    Returns
    -------
    labels : ndarray of int64, shape (n_nodes,)
        Label of each node, the best of four descents: from the best single label and from the
        cheapest label of each node, with the labels expanded in either order.  One descent alone
        ends more than 2 % above the least energy on some small graphs.

    Notes
    -----
    Exact for two labels; the energy is at most twice the least one otherwise.  A sweep makes a
    minimum cut for each label, and few sweeps are needed.  Boykov, Veksler and Zabih, Fast
    approximate energy minimization via graph cuts, PAMI 2001.

    Examples
    --------
    >>> from structboost.inference import alpha_expansion_labels
    >>> energies = [[0.0, 2.0, 2.0], [1.0, 0.8, 1.0], [2.0, 2.0, 0.0]]
    >>> alpha_expansion_labels(energies, [[0, 1], [1, 2]], [0.5, 0.6]).tolist()
    [0, 2, 2]
    """
    energies = real_array(node_energies, "node_energies", ("n_nodes", "n_labels"))
    n, n_labels = energies.shape
    pairs = node_pairs(edges, "edges", n)
    costs = not_negative(weights, "weights", (len(pairs),))
    owners = np.zeros(n, np.int64) if graphs is None else whole_array(graphs, "graphs", (n,))
    if n == 0:
        return np.zeros(0, np.int64)
    if n_labels == 2:
        return least_energy_labels(energies, pairs, costs, costs).astype(np.int64)
    moves = _Moves(energies, pairs, costs, owners)
    totals = np.zeros((moves.n_graphs, n_labels))
    np.add.at(totals, owners, energies)
    best: IntArray = np.argmin(totals, axis=1)[owners]  # the best label for each graph as a whole
    least = moves.by_graph(best)
    for start in (best, np.argmin(energies, axis=1)):
        for order in (range(n_labels), range(n_labels - 1, -1, -1)):
            labels = moves.descend(start, order)
            reached = moves.by_graph(labels)
            best = np.where((reached < least)[owners], labels, best)
            least = np.minimum(least, reached)
    return best


def expanded_once(
    energies: FloatArray, edges: IntArray, weights: FloatArray, labels: IntArray
) -> IntArray:
    """Improve labels by one expansion of each label in turn, or by the cut of two labels."""
    if energies.shape[1] == 2:
        return least_energy_labels(energies, edges, weights, weights).astype(np.int64)
    moves = _Moves(energies, edges, weights, np.zeros(len(energies), np.int64))
    labels, reached = labels.astype(np.int64), moves.by_graph(labels)
    for alpha in range(energies.shape[1]):
        moves.expand(labels, reached, alpha, np.ones(1, np.bool_))
    return labels


class _Moves:
    """Expansion moves on one or more graphs."""

    def __init__(
        self, energies: FloatArray, edges: IntArray, weights: FloatArray, graphs: IntArray
    ) -> None:
        self.energies, self.edges, self.weights, self.graphs = energies, edges, weights, graphs
        self.n_graphs = int(graphs.max()) + 1
        n = len(energies)
        # Most that a node could save by a change of its label: every one of its edges.
        first, second = (np.bincount(end, weights, n) for end in edges.T)
        self.reach = first + second

    def by_graph(self, labels: IntArray) -> FloatArray:
        """Compute the energy of each graph."""
        of_nodes = self.energies[np.arange(len(labels)), labels]
        cut = labels[self.edges[:, 0]] != labels[self.edges[:, 1]]
        paid = np.bincount(self.graphs[self.edges[cut, 0]], self.weights[cut], self.n_graphs)
        return np.asarray(np.bincount(self.graphs, of_nodes, self.n_graphs) + paid, np.float64)

    def descend(self, start: IntArray, order: Sequence[int]) -> IntArray:
        """Expand the labels in turn until no move improves."""
        labels, energies = start.copy(), self.by_graph(start)
        # A graph that no other label has changed since a label was expanded gains nothing by
        # expanding it again.
        pending = np.ones((len(order), self.n_graphs), np.bool_)
        for move in range(_MAX_SWEEPS * len(order)):
            alpha = order[move % len(order)]
            if pending[alpha].any():
                changed = self.expand(labels, energies, alpha, pending[alpha])
                pending[:, changed] = True
                pending[alpha] = False
            elif not pending.any():
                break
        return labels

    def expand(
        self, labels: IntArray, energies: FloatArray, alpha: int, graphs: BoolArray
    ) -> BoolArray:
        """Expand ``alpha`` in some graphs, in place, and return which of them gained."""
        # A node for which alpha costs more than all its edges could save keeps its label in the
        # best move.
        costs = self.energies[:, alpha] - self.energies[np.arange(len(labels)), labels]
        nodes = np.flatnonzero((labels != alpha) & graphs[self.graphs] & (costs < self.reach))
        if not len(nodes):
            return np.zeros(self.n_graphs, np.bool_)
        places = np.full(len(labels), -1)
        places[nodes] = np.arange(len(nodes))
        model = self.energies, self.edges, self.weights
        takes = least_energy_labels(*_move_graph(model, labels, alpha, nodes, places))
        moved = labels.copy()
        moved[nodes[takes]] = alpha
        reached = self.by_graph(moved)
        gained = energies - reached > _SAVING * (1.0 + np.abs(energies))
        labels[:] = np.where(gained[self.graphs], moved, labels)
        energies[:] = np.where(gained, reached, energies)
        return gained


@compiled
def _move_graph(
    model: tuple[FloatArray, IntArray, FloatArray],
    labels: IntArray,
    alpha: int,
    nodes: IntArray,
    places: IntArray,
) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
    """Write the expansion as arguments of a minimum cut of the nodes that may move.

    With x = 1 for a node that takes alpha, an edge between two such nodes pays [y_p != y_q] at (0,
    0), nothing at (1, 1), its whole weight at (0, 1) and (1, 0).  Where y_p != y_q that is a cost w
    of (0, 0) and (0, 1), paid by p's terminal edge, and of (1, 0), which stays an edge.  Nodes that
    stay as they are make their neighbours pay.
    """
    energies, edges, weights = model
    terminal = np.empty((len(nodes), 2))
    for i in range(len(nodes)):
        terminal[i, 0] = energies[nodes[i], labels[nodes[i]]]
        terminal[i, 1] = energies[nodes[i], alpha]
    inner = np.empty(edges.shape, np.int64)
    forward, backward = np.empty(len(edges)), np.empty(len(edges))
    count = 0
    for e in range(len(edges)):
        p, q = edges[e]
        i, j = places[p], places[q]
        if i < 0 and j < 0:
            continue
        first, differ = i if i >= 0 else j, labels[p] != labels[q]
        if differ:
            terminal[first, 0] += weights[e]
        if i >= 0 and j >= 0:
            inner[count] = i, j
            forward[count] = 0.0 if differ else weights[e]
            backward[count] = weights[e]
            count += 1
        elif labels[p if i < 0 else q] != alpha:
            terminal[first, 1] += weights[e]
    return terminal, inner[:count], forward[:count], backward[:count]
