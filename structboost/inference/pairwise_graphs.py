"""Labels of highest score in graphs whose nodes and edges score.

Exact are forests, by dynamic programming, and two labels with submodular scores, by a minimum cut.
Other graphs are searched by sequential tree-reweighted message passing (Kolmogorov, PAMI 2006),
which also bounds the score of all labellings; where edges only favour equal labels, by
alpha-expansion, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost._typing import FloatArray, IntArray
from structboost.inference.alpha_expansion import alpha_expansion_labels
from structboost.inference.arguments import check_sum, node_pairs, real_array
from structboost.inference.graph_cut import min_cut_labels
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

# Fields of PairwiseScores; then the edges of each node one after the other, and where they begin.
GraphArrays = tuple[
    FloatArray, IntArray, IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray, IntArray
]


@dataclass(frozen=True)
class PairwiseScores:
    """Scores of one or more graphs side by side, nodes and edges of a graph together.

    Parameters
    ----------
    unary : ndarray, shape (n_scores,)
        Scores of the labels of node 0, then those of node 1, and so on.
    starts : ndarray of int64, shape (n_nodes + 1,)
        First score of each node.
    edges : ndarray of int64, shape (n_edges, 2)
        Pairs of different nodes of one graph; a pair may come again.
    tables : ndarray, shape (n_pair_scores,)
        Scores of pairs of labels.
    table_starts : ndarray of int64, shape (n_edges,)
        Where the table of each edge begins: a row for each label of its first end.
    first_nodes, first_edges : ndarray of int64, shape (n_graphs + 1,)
        First node and first edge of each graph.
    """

    unary: FloatArray
    starts: IntArray
    edges: IntArray
    tables: FloatArray
    table_starts: IntArray
    first_nodes: IntArray
    first_edges: IntArray

    def values(self, labels: IntArray) -> FloatArray:
        """Compute the score of a labelling, by graph."""
        nodes = self.unary[self.starts[:-1] + labels]
        widths = np.diff(self.starts)[self.edges[:, 1]]
        left, right = labels[self.edges].T
        pairs = self.tables[self.table_starts + left * widths + right]
        return _sums(nodes, self.first_nodes) + _sums(pairs, self.first_edges)

    def arrays(self) -> GraphArrays:
        """Return the fields, first edges of nodes, and edges by node, as compiled code takes them.

        The edges of node v are ``incident[of_node[v] : of_node[v + 1]]``.
        """
        ends = self.edges.T.ravel()
        order = np.argsort(ends, kind="stable")
        of_node = np.searchsorted(ends[order], np.arange(len(self.starts)))
        incident = order % max(1, len(self.edges))
        return (
            self.unary, self.starts, self.edges, self.tables, self.table_starts,
            self.first_nodes, self.first_edges, of_node, incident,
        )  # fmt: skip


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
    Exact on forests, in ``O(n_nodes * n_labels^2)``, and for two labels if every edge scores equal
    labels higher in sum, by a minimum cut.  Other graphs: at most 300 sweeps of ``O(n_edges *
    n_labels^2)`` of message passing (Kolmogorov, Convergent tree-reweighted message passing, PAMI
    2006); then, where the edges are those of a Potts model, alpha-expansion.

    Examples
    --------
    >>> from structboost.inference import map_labels
    >>> equal = [[1.0, 0.0], [0.0, 1.0]]
    >>> nodes = [[0.0, 1.5], [0.0, 0.5], [1.0, 0.0]]
    >>> labels, bound = map_labels(nodes, [[0, 1], [1, 2]], [equal, equal])
    >>> labels.tolist(), bound
    ([1, 1, 0], 4.0)
    """
    scores = one_graph(node_scores, edges, edge_scores)
    labels, bounds = best_labels(scores)
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
    return PairwiseScores(
        unary.ravel(),
        n_labels * np.arange(n + 1),
        pairs,
        tables.ravel(),
        n_labels**2 * np.arange(len(pairs)),
        np.array([0, n]),
        np.array([0, len(pairs)]),
    )


def best_labels(scores: PairwiseScores) -> tuple[IntArray, FloatArray]:
    """Find labels of high score of all graphs, as :func:`map_labels` does, with their bounds."""
    labels = np.zeros(len(scores.starts) - 1, np.int64)
    graphs = scores.arrays()
    done = np.zeros(len(scores.first_nodes) - 1, np.bool_)
    _label_forests(graphs, labels, done)
    _label_by_cuts(scores, labels, done)
    bounds = np.full(len(done), np.inf)
    _pass_messages(graphs, labels, done, bounds)
    values = scores.values(labels)
    if (bounds - values > _SLIP * (1.0 + np.abs(values)))[~done].any():
        _expand(scores, labels, values, bounds, done)
        values = scores.values(labels)
    proved = done | (bounds - values <= _SLIP * (1.0 + np.abs(values)))
    return labels, np.where(proved, values, bounds)


def _sums(values: FloatArray, starts: IntArray) -> FloatArray:
    """Sum consecutive values, also where there are none."""
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.bincount(owners, values, len(starts) - 1).astype(np.float64)


def _places(nodes: IntArray, n: int) -> IntArray:
    """Return the place of each node in a list of nodes, or -1 if it is not listed."""
    places = np.full(n, -1, np.int64)
    places[nodes] = np.arange(len(nodes))
    return places


def _label_by_cuts(scores: PairwiseScores, labels: IntArray, done: NDArray[np.bool_]) -> None:
    """Label and mark the graphs of two labels whose scores are submodular."""
    counts = np.diff(scores.starts)
    binary = ~done & (_sums(counts != 2.0, scores.first_nodes) == 0)
    owners = np.repeat(np.arange(len(done)), np.diff(scores.first_edges))
    rows = np.flatnonzero(binary[owners])
    if not len(rows):
        return
    tables = scores.tables[scores.table_starts[rows][:, None] + np.arange(4)]
    gains = tables[:, 0] + tables[:, 3] - tables[:, 1] - tables[:, 2]
    binary[owners[rows[gains < 0]]] = False
    rows, tables = rows[binary[owners[rows]]], tables[binary[owners[rows]]]
    nodes = np.flatnonzero(np.repeat(binary, np.diff(scores.first_nodes)))
    edges = _places(nodes, len(labels))[scores.edges[rows]]
    # Kolmogorov and Zabih, PAMI 2004, section 4.1, for minus the scores.
    energies = -scores.unary[scores.starts[nodes][:, None] + np.arange(2)]
    energies[:, 1] += np.bincount(edges[:, 0], tables[:, 0] - tables[:, 2], len(nodes))
    energies[:, 1] += np.bincount(edges[:, 1], tables[:, 2] - tables[:, 3], len(nodes))
    gains = tables[:, 0] + tables[:, 3] - tables[:, 1] - tables[:, 2]
    labels[nodes] = min_cut_labels(energies, edges, gains, np.zeros(len(edges)))
    done |= binary


def _expand(
    scores: PairwiseScores,
    labels: IntArray,
    values: FloatArray,
    bounds: FloatArray,
    done: NDArray[np.bool_],
) -> None:
    """Improve by alpha-expansion labels that are not proved, where equal labels score more."""
    counts = np.diff(scores.starts)
    n_labels = int(counts[0])
    open_ = ~done & (bounds - values > _SLIP * (1.0 + np.abs(values)))
    open_ &= _sums(counts != float(n_labels), scores.first_nodes) == 0
    owners = np.repeat(np.arange(len(done)), np.diff(scores.first_edges))
    rows = np.flatnonzero(open_[owners])
    tables = scores.tables[scores.table_starts[rows][:, None] + np.arange(n_labels**2)]
    equal, others = (
        tables[:, :: n_labels + 1],
        tables[:, np.flatnonzero(~np.eye(n_labels, dtype=bool))],
    )
    weights = equal[:, 0] - others[:, 0]
    potts = (equal == equal[:, :1]).all(axis=1) & (others == others[:, :1]).all(axis=1)
    open_[owners[rows[~potts | (weights < 0)]]] = False
    within = open_[owners[rows]]
    nodes = np.flatnonzero(np.repeat(open_, np.diff(scores.first_nodes)))
    if not len(nodes):
        return
    expanded = labels.copy()
    expanded[nodes] = alpha_expansion_labels(
        -scores.unary[scores.starts[nodes][:, None] + np.arange(n_labels)],
        _places(nodes, len(labels))[scores.edges[rows[within]]],
        weights[within],
        np.repeat(np.arange(len(done)), np.diff(scores.first_nodes))[nodes],
    )
    better = scores.values(expanded) > values
    labels[:] = np.where(np.repeat(better, np.diff(scores.first_nodes)), expanded, labels)


@compiled
def _label_forests(graphs: GraphArrays, labels: IntArray, done: NDArray[np.bool_]) -> None:
    """Label and mark the acyclic graphs, by dynamic programming."""
    unary, starts, edges, tables, table_starts = graphs[:5]
    first_nodes, first_edges, of_node, incident = graphs[5:]
    best = unary.copy()
    edge_up = np.empty(len(labels), np.int64)
    seen = np.zeros(len(labels), np.bool_)
    order = np.empty(len(labels), np.int64)
    for g in range(len(done)):
        first, last = first_nodes[g], first_nodes[g + 1]
        n, n_trees = 0, 0
        for root in range(first, last):
            if seen[root]:
                continue
            n_trees += 1
            seen[root], edge_up[root], order[n] = True, -1, root
            at = n
            n += 1
            while at < n:
                for i in range(of_node[order[at]], of_node[order[at] + 1]):
                    e = incident[i]
                    v = edges[e, 0] + edges[e, 1] - order[at]
                    if not seen[v]:
                        seen[v], edge_up[v], order[n] = True, e, v
                        n += 1
                at += 1
        if first_edges[g + 1] - first_edges[g] != last - first - n_trees:
            continue
        done[g] = True
        for k in range(n - 1, -1, -1):
            v, e = order[k], edge_up[order[k]]
            if e < 0:
                continue
            above = edges[e, 0] + edges[e, 1] - v
            width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
            here, there = (1, width) if edges[e, 1] == v else (width, 1)
            for a in range(starts[above + 1] - starts[above]):
                most = -np.inf
                for b in range(starts[v + 1] - starts[v]):
                    value = best[starts[v] + b] + tables[table_starts[e] + a * there + b * here]
                    most = max(most, value)
                best[starts[above] + a] += most
        for k in range(n):
            v, e = order[k], edge_up[order[k]]
            shift, here = 0, 0
            if e >= 0:
                width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
                here, there = (1, width) if edges[e, 1] == v else (width, 1)
                shift = table_starts[e] + there * labels[edges[e, 0] + edges[e, 1] - v]
            most = -np.inf
            for b in range(starts[v + 1] - starts[v]):
                value = best[starts[v] + b]
                if e >= 0:
                    value += tables[shift + b * here]
                if value > most:
                    most = value
                    labels[v] = b


@compiled(fastmath=_NUMBERS)
def _best_of_rows(gains: FloatArray, table: FloatArray, out: FloatArray) -> None:
    """Compute ``out[b] = max_a gains[a] + table[b, a]``."""
    n = len(gains)
    for b in range(len(out)):
        row = table[b * n : (b + 1) * n]
        value = -np.inf
        for a in range(n):
            value = max(value, gains[a] + row[a])
        out[b] = value


@compiled(fastmath=_NUMBERS)
def _best_of_columns(gains: FloatArray, table: FloatArray, out: FloatArray) -> None:
    """Compute ``out[b] = max_a gains[a] + table[a, b]``."""
    n = len(out)
    out[:] = -np.inf
    for a in range(len(gains)):
        row, gain = table[a * n : (a + 1) * n], gains[a]
        for b in range(n):
            out[b] = max(out[b], gain + row[b])


@compiled
def _pass_messages(
    graphs: GraphArrays, labels: IntArray, done: NDArray[np.bool_], bounds: FloatArray
) -> None:
    """Label the graphs that are not done, and bound their scores."""
    unary, starts, edges, tables, table_starts = graphs[:5]
    first_nodes, first_edges, of_node, incident = graphs[5:]
    n_labels = 1
    for v in range(len(labels)):
        n_labels = max(n_labels, starts[v + 1] - starts[v])
    # Messages to the first and to the second end of each edge.
    messages = np.zeros((2, len(edges), n_labels))
    belief, gains = np.empty(n_labels), np.empty(n_labels)
    chosen = np.empty(len(labels), np.int64)
    for g in range(len(done)):
        if done[g]:
            continue
        best_value, stale, left_before = -np.inf, 0, np.inf
        for _ in range(_SWEEPS):
            bound = 0.0
            for sweep in range(2):
                bound = 0.0
                for k in range(first_nodes[g + 1] - first_nodes[g]):
                    v = first_nodes[g] + k if sweep == 0 else first_nodes[g + 1] - 1 - k
                    n = starts[v + 1] - starts[v]
                    n_later = 0
                    for a in range(n):
                        belief[a] = unary[starts[v] + a]
                    for i in range(of_node[v], of_node[v + 1]):
                        e = incident[i]
                        side = int(edges[e, 1] == v)
                        for a in range(n):
                            belief[a] += messages[side, e, a]
                        n_later += int(edges[e, 1 - side] > v)
                    if sweep == 0:
                        chosen[v] = _chosen(v, graphs, messages, chosen)
                    most = -np.inf
                    for a in range(n):
                        most = max(most, belief[a])
                    bound += most
                    part = 1.0 / max(1, n_later, of_node[v + 1] - of_node[v] - n_later)
                    for i in range(of_node[v], of_node[v + 1]):
                        e = incident[i]
                        side = int(edges[e, 1] == v)
                        u = edges[e, 1 - side]
                        if (u > v) != (sweep == 0):
                            continue
                        for a in range(n):
                            gains[a] = part * (belief[a] - most) - messages[side, e, a]
                        n_there = starts[u + 1] - starts[u]
                        table = tables[table_starts[e] : table_starts[e] + n * n_there]
                        there = messages[1 - side, e, :n_there]
                        if side == 1:
                            _best_of_rows(gains[:n], table, there)
                        else:
                            _best_of_columns(gains[:n], table, there)
                        top = -np.inf
                        for b in range(n_there):
                            top = max(top, there[b])
                        for b in range(n_there):
                            there[b] -= top
                        bound += top
            value = 0.0
            for v in range(first_nodes[g], first_nodes[g + 1]):
                value += unary[starts[v] + chosen[v]]
            for e in range(first_edges[g], first_edges[g + 1]):
                width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
                at = table_starts[e] + chosen[edges[e, 0]] * width
                value += tables[at + chosen[edges[e, 1]]]
            if value > best_value:
                best_value = value
                for v in range(first_nodes[g], first_nodes[g + 1]):
                    labels[v] = chosen[v]
            bounds[g] = min(bounds[g], bound)
            left = bounds[g] - best_value
            stale += 1
            if left < _PROGRESS * left_before:
                stale, left_before = 0, left
            if left <= _SLIP * (1.0 + abs(best_value)) or stale == _PATIENCE:
                break


@compiled
def _chosen(v: int, graphs: GraphArrays, messages: FloatArray, chosen: IntArray) -> int:
    """Choose the best label of a node for the labels before it and messages of the others."""
    unary, starts, edges, tables, table_starts = graphs[:5]
    of_node, incident = graphs[7:]
    label, most = 0, -np.inf
    for a in range(starts[v + 1] - starts[v]):
        value = unary[starts[v] + a]
        for i in range(of_node[v], of_node[v + 1]):
            e = incident[i]
            side = int(edges[e, 1] == v)
            u = edges[e, 1 - side]
            if u > v:
                value += messages[side, e, a]
            else:
                width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
                here, there = (1, width) if side == 1 else (width, 1)
                value += tables[table_starts[e] + a * here + chosen[u] * there]
        if value > most:
            label, most = a, value
    return label
