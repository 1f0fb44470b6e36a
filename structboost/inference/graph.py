"""Labels of highest score in graphs whose nodes and edges score.

Graphs without cycles are exact, by dynamic programming, and those of two labels whose edges favour
equal ones, by a minimum cut.  Others are searched by sequential tree-reweighted message passing
(Kolmogorov, PAMI 2006), which also bounds the score of all labellings.

Sums over all labellings, and the probabilities of labels that follow, are sum-product on graphs
without cycles (Pearl 1988).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from structboost._typing import BoolArray, FloatArray, IntArray
from structboost.errors import TooManyOutputsError
from structboost.inference.arguments import check_sum, node_pairs, real_array
from structboost.inference.chain import log_sum_exp, to_fractions
from structboost.inference.superpixel_crf import least_energy_labels
from structboost.runtime.compiled import compiled

# Most sweeps of message passing.  It ends after so many in which the distance between labels and
# bound has not fallen to this fraction: slower ones come near in no number of sweeps worth their
# time.
_SWEEPS = 300
_PATIENCE = 10
_PROGRESS = 0.9
# Labels are the best if the bound is this near, relatively.
_SLIP = 1e-9
# Lets the largest of numbers be found in vector registers; no sum changes.
_NUMBERS = {"nnan", "nsz"}

# Scores of nodes, edges, scores of pairs with a row for each label of their first end and of their
# second end, and edges by node with the first of each node.
_Graphs = tuple[FloatArray, IntArray, FloatArray, IntArray, IntArray]
# Nodes, each behind the one above it; the edge of each node that leads upwards, or -1.
_Forests = tuple[IntArray, IntArray]


@dataclass(frozen=True)
class PairwiseScores:
    """Scores of one or more graphs side by side, nodes and edges of a graph together.

    Parameters
    ----------
    unary : ndarray, shape (n_nodes, n_labels)
        Score of each label of each node.
    edges : ndarray of int64, shape (n_edges, 2)
        Pairs of different nodes of one graph; a pair may come again.
    tables : ndarray, shape (n_edges, n_labels, n_labels)
        Scores of pairs of labels, a row for each label of the first end.
    first_nodes, first_edges : ndarray of int64, shape (n_graphs + 1,)
        First node and first edge of each graph.
    """

    unary: FloatArray
    edges: IntArray
    tables: FloatArray
    first_nodes: IntArray
    first_edges: IntArray

    def values(self, labels: IntArray) -> FloatArray:
        """Compute the score of a labelling, by graph."""
        of_nodes = self.unary[np.arange(len(labels)), labels]
        of_edges = self.tables[np.arange(len(self.edges)), *labels[self.edges].T]
        sums = [
            np.bincount(_owners(firsts), values, len(firsts) - 1)
            for firsts, values in ((self.first_nodes, of_nodes), (self.first_edges, of_edges))
        ]
        return np.asarray(sums[0] + sums[1], np.float64)

    def forests(self) -> tuple[BoolArray, _Forests]:
        """Mark the graphs without cycles, and order their nodes from roots to leaves."""
        n, owners = len(self.unary), _owners(self.first_nodes)
        links = csr_array((np.ones(len(self.edges)), self.edges.T), (n, n))
        component = connected_components(links, directed=False)[1]
        roots = np.unique(component, return_index=True)[1]
        n_roots = np.bincount(owners[roots], minlength=len(self.first_nodes) - 1)
        is_forest = np.diff(self.first_edges) + n_roots == np.diff(self.first_nodes)
        # The node behind the last one is above all roots.
        heads, tails = np.vstack((self.edges, np.column_stack((np.full(len(roots), n), roots)))).T
        links = csr_array((np.ones(len(heads)), (heads, tails)), (n + 1, n + 1))
        order, above = breadth_first_order(links, n, directed=False)
        up = np.full(n, -1)
        for node, other in (self.edges.T, self.edges.T[::-1]):
            rows = np.flatnonzero(above[node] == other)
            up[node[rows]] = rows
        order = order[1:].astype(np.int64)
        return is_forest, (order[is_forest[owners[order]]], up)

    def arrays(self) -> _Graphs:
        """Return scores and edges as compiled code takes them."""
        ends = self.edges.T.ravel()
        order = np.argsort(ends, kind="stable")
        of_node = np.searchsorted(ends[order], np.arange(len(self.unary) + 1))
        sides = np.stack((self.tables, self.tables.transpose(0, 2, 1)))
        return self.unary, self.edges, sides, of_node, order % max(1, len(self.edges))


def _owners(firsts: IntArray) -> IntArray:
    """Return the graph of each node or edge."""
    return np.repeat(np.arange(len(firsts) - 1), np.diff(firsts))


def map_labels(
    node_scores: ArrayLike, edges: ArrayLike, edge_scores: ArrayLike
) -> tuple[IntArray, float]:
    """Find labels of high score in a pairwise graph, and bound the highest (MAP inference).

    Labels ``y`` score ``sum_v node_scores[v, y_v] + sum_e edge_scores[e, y_p, y_q]``, where edge e
    joins the nodes p and q.

    Parameters
    ----------
    node_scores : array-like, shape (n_nodes, n_labels)
        Score of each label of each node.
    edges : array-like of int, shape (n_edges, 2)
        Pairs of different nodes; the same pair may come again.
    edge_scores : array-like, shape (n_edges, n_labels, n_labels)
        Score of each label of the first end (row) beside each label of the second (column).

    Returns
    -------
    labels : ndarray of int64, shape (n_nodes,)
        Label of each node; among equally good labels always the same.
    bound : float
        No labels score more.  It is the score of ``labels`` where they are proved to be best.

    Notes
    -----
    Exact on graphs without cycles, in ``O(n_nodes * n_labels^2)``, and by a minimum cut on those of
    two labels whose edges favour equal ones.  Other graphs: at most 300 sweeps of
    ``O(n_edges * n_labels^2)`` of message passing (Kolmogorov, Convergent tree-reweighted message
    passing, PAMI 2006).

    Examples
    --------
    >>> from structboost.inference import map_labels
    >>> equal = [[1.0, 0.0], [0.0, 1.0]]
    >>> nodes = [[0.0, 1.5], [0.0, 0.5], [1.0, 0.0]]
    >>> labels, bound = map_labels(nodes, [[0, 1], [1, 2]], [equal, equal])
    >>> labels.tolist(), bound
    ([1, 1, 0], 4.0)
    """
    labels, bounds = best_labels(one_graph(node_scores, edges, edge_scores))
    return labels, float(bounds[0])


def one_graph(node_scores: ArrayLike, edges: ArrayLike, edge_scores: ArrayLike) -> PairwiseScores:
    """Check the arguments of :func:`map_labels`, and return them as one graph."""
    unary = real_array(node_scores, "node_scores", ("n_nodes", "n_labels"))
    n, n_labels = unary.shape
    pairs = node_pairs(edges, "edges", n)
    shape = (len(pairs), n_labels, n_labels)
    tables = real_array(edge_scores if len(pairs) else np.zeros(shape), "edge_scores", shape)
    check_sum(unary, "node_scores")
    check_sum(tables, "edge_scores")
    return PairwiseScores(unary, pairs, tables, np.array([0, n]), np.array([0, len(pairs)]))


def best_labels(scores: PairwiseScores) -> tuple[IntArray, FloatArray]:
    """Find labels of high score of all graphs, as :func:`map_labels` does, with their bounds."""
    labels = np.zeros(len(scores.unary), np.int64)
    is_best, forests = scores.forests()
    graphs = scores.arrays()
    _label_forests(graphs, forests, labels)
    if scores.unary.shape[1] == 2:
        _label_by_cuts(scores, labels, is_best)
    bounds = np.full(len(is_best), np.inf)
    _pass_messages(graphs, (scores.first_nodes, scores.first_edges), ~is_best, labels, bounds)
    values = scores.values(labels)
    proved = is_best | (bounds - values <= _SLIP * (1.0 + np.abs(values)))
    return labels, np.where(proved, values, bounds)


def _label_by_cuts(scores: PairwiseScores, labels: IntArray, is_best: BoolArray) -> None:
    """Label and mark the graphs of two labels whose edges favour equal ones.

    Kolmogorov and Zabih, PAMI 2004, section 4.1, for minus the scores.
    """
    tables, owners = scores.tables, _owners(scores.first_edges)
    gains = tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]
    is_cut = ~is_best
    is_cut[owners[gains < 0]] = False
    nodes, rows = is_cut[_owners(scores.first_nodes)], is_cut[owners]
    edges, tables = scores.edges[rows], tables[rows]
    energies = -scores.unary
    np.add.at(energies[:, 1], edges[:, 0], tables[:, 0, 0] - tables[:, 1, 0])
    np.add.at(energies[:, 1], edges[:, 1], tables[:, 1, 0] - tables[:, 1, 1])
    places = np.cumsum(nodes) - 1
    cuts = least_energy_labels(energies[nodes], places[edges], gains[rows], np.zeros(rows.sum()))
    labels[nodes] = cuts
    is_best |= is_cut


@compiled
def _beside(v: int, e: int, graphs: _Graphs) -> tuple[int, FloatArray]:
    """Return the other end of an edge, and its scores with a row for each label of that."""
    edges, sides = graphs[1:3]
    there = int(edges[e, 0] == v)
    return edges[e, there], sides[there, e]


@compiled
def _label_forests(graphs: _Graphs, forests: _Forests, labels: IntArray) -> None:
    """Label the acyclic graphs, by dynamic programming."""
    order, up = forests
    best = graphs[0].copy()
    for v in order[::-1]:
        if up[v] >= 0:
            above, table = _beside(v, up[v], graphs)
            for a in range(len(table)):
                most = -np.inf
                for b in range(len(table)):
                    most = max(most, best[v, b] + table[a, b])
                best[above, a] += most
    for v in order:
        if up[v] >= 0:
            above, table = _beside(v, up[v], graphs)
            for b in range(len(table)):
                best[v, b] += table[labels[above], b]
        labels[v] = np.argmax(best[v])


@compiled(fastmath=_NUMBERS)
def _send(gains: FloatArray, table: FloatArray, out: FloatArray) -> float:
    """Fill ``out[b] = max_a gains[a] + table[a, b]`` less the largest of them, and return that."""
    out[:] = -np.inf
    for a in range(len(gains)):
        for b in range(len(out)):
            out[b] = max(out[b], gains[a] + table[a, b])
    top = out.max()
    for b in range(len(out)):
        out[b] -= top
    return float(top)


@compiled
def _pass_messages(
    graphs: _Graphs,
    firsts: tuple[IntArray, IntArray],
    is_open: BoolArray,
    labels: IntArray,
    bounds: FloatArray,
) -> None:
    """Label the nodes of open graphs, and bound their scores."""
    unary, edges, sides, of_node, incident = graphs
    first_nodes, first_edges = firsts
    n_labels = unary.shape[1]
    # Messages to the first and to the second end of each edge.
    messages = np.zeros((2, len(edges), n_labels))
    belief, gains = np.empty(n_labels), np.empty(n_labels)
    chosen = np.empty_like(labels)
    for g in np.flatnonzero(is_open):
        first, last = first_nodes[g], first_nodes[g + 1]
        best_value, stale, left_before = -np.inf, 0, np.inf
        for _ in range(_SWEEPS):
            bound = 0.0
            for sweep in range(2):
                bound = 0.0
                for k in range(last - first):
                    v = first + k if sweep == 0 else last - 1 - k
                    n_later = 0
                    for a in range(n_labels):
                        belief[a] = unary[v, a]
                    for i in range(of_node[v], of_node[v + 1]):
                        e = incident[i]
                        side = int(edges[e, 1] == v)
                        for a in range(n_labels):
                            belief[a] += messages[side, e, a]
                        n_later += int(edges[e, 1 - side] > v)
                    if sweep == 0:
                        chosen[v] = _chosen(v, graphs, messages, chosen)
                    most = belief.max()
                    bound += most
                    part = 1.0 / max(1, n_later, of_node[v + 1] - of_node[v] - n_later)
                    for i in range(of_node[v], of_node[v + 1]):
                        e = incident[i]
                        side = int(edges[e, 1] == v)
                        if (edges[e, 1 - side] > v) == (sweep == 0):
                            for a in range(n_labels):
                                gains[a] = part * (belief[a] - most) - messages[side, e, a]
                            bound += _send(gains, sides[side, e], messages[1 - side, e])
            value = 0.0
            for v in range(first, last):
                value += unary[v, chosen[v]]
            for e in range(first_edges[g], first_edges[g + 1]):
                value += sides[0, e, chosen[edges[e, 0]], chosen[edges[e, 1]]]
            if value > best_value:
                best_value = value
                labels[first:last] = chosen[first:last]
            bounds[g] = min(bounds[g], bound)
            left = bounds[g] - best_value
            stale += 1
            if left < _PROGRESS * left_before:
                stale, left_before = 0, left
            if left <= _SLIP * (1.0 + abs(best_value)) or stale == _PATIENCE:
                break


@compiled
def _chosen(v: int, graphs: _Graphs, messages: FloatArray, chosen: IntArray) -> int:
    """Choose the best label of a node for the labels before it and messages of the others."""
    unary, edges, _, of_node, incident = graphs
    values = unary[v].copy()
    for i in range(of_node[v], of_node[v + 1]):
        e = incident[i]
        u, table = _beside(v, e, graphs)
        values += messages[int(edges[e, 1] == v), e] if u > v else table[chosen[u]]
    return int(np.argmax(values))


def graph_marginals(
    node_scores: ArrayLike, edges: ArrayLike, edge_scores: ArrayLike
) -> tuple[FloatArray, FloatArray, float]:
    """Compute the probabilities of the labels of a pairwise graph, by sum-product.

    Labels ``y`` have probability ``exp(score(y)) / Z``, with the score and the arguments of
    :func:`map_labels`, and ``Z`` the sum of ``exp(score(y))`` over all labellings.

    Parameters
    ----------
    node_scores : array-like, shape (n_nodes, n_labels)
        Score of each label of each node.
    edges : array-like of int, shape (n_edges, 2)
        Pairs of different nodes.
    edge_scores : array-like, shape (n_edges, n_labels, n_labels)
        Score of each pair of labels of each edge.

    Returns
    -------
    of_nodes : ndarray, shape (n_nodes, n_labels)
        Probability of each label of each node.
    of_edges : ndarray, shape (n_edges, n_labels, n_labels)
        Probability of each pair of labels of each edge.
    log_sum : float
        Logarithm of ``Z``.

    Raises
    ------
    TooManyOutputsError
        If the graph has a cycle.

    Notes
    -----
    Exact, in ``O(n_nodes * n_labels^2)``.  Pearl, Probabilistic reasoning in intelligent systems,
    1988, section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost.inference import graph_marginals
    >>> equal = np.log([[3.0, 1.0], [1.0, 3.0]])
    >>> of_nodes, of_edges, log_sum = graph_marginals(np.zeros((2, 2)), [[0, 1]], [equal])
    >>> of_edges[0].round(3).tolist(), round(float(np.exp(log_sum)), 3)
    ([[0.375, 0.125], [0.125, 0.375]], 8.0)
    """
    (of_nodes, of_edges, log_sums), wrong = label_sums(one_graph(node_scores, edges, edge_scores))
    if wrong >= 0:
        raise TooManyOutputsError("edges form a cycle; leave edges out.")
    return of_nodes, of_edges, float(log_sums[0])


def label_sums(scores: PairwiseScores) -> tuple[tuple[FloatArray, FloatArray, FloatArray], int]:
    """Compute the probabilities of the labels of all graphs, as :func:`graph_marginals` does.

    Returns those of nodes and edges, placed as in ``scores``, and the logarithms of the sums.  Then
    comes the first graph with a cycle, or -1.
    """
    is_forest, forests = scores.forests()
    sums = np.zeros(scores.unary.shape), np.zeros(scores.tables.shape), np.zeros(len(is_forest))
    _sum_labellings(scores.arrays(), forests, _owners(scores.first_nodes), sums)
    return sums, -1 if is_forest.all() else int(np.argmin(is_forest))


@compiled
def _sum_labellings(
    graphs: _Graphs,
    forests: _Forests,
    owners: IntArray,
    sums: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Fill the probabilities and the sums."""
    order, up = forests
    of_nodes, of_edges, log_sums = sums
    # Scores of nodes with all that is below them.
    below = graphs[0].copy()
    for v in order[::-1]:
        if up[v] < 0:
            log_sums[owners[v]] += log_sum_exp(below[v])
            continue
        above, table = _beside(v, up[v], graphs)
        for a in range(len(table)):
            below[above, a] += log_sum_exp(below[v] + table[a])
    for v in order:
        e = up[v]
        if e < 0:
            of_nodes[v] = below[v]
            to_fractions(of_nodes[v])
            continue
        above, table = _beside(v, e, graphs)
        both = below[v] + table
        for a in range(len(both)):
            to_fractions(both[a])
            both[a] *= of_nodes[above, a]
        of_nodes[v] = both.sum(axis=0)
        of_edges[e] = both if graphs[1][e, 0] == above else both.T
