"""Labels of highest score in graphs whose nodes and edges score.

Exact are forests, by dynamic programming, and two labels with submodular scores, by a minimum cut.
Other graphs are searched by sequential tree-reweighted message passing (Kolmogorov, PAMI 2006),
which also bounds the score of all labellings; where edges only favour equal labels, by
alpha-expansion, too.

Sums over all labellings, and the probabilities of labels that follow, are sum-product on forests
(Pearl 1988).  A graph with cycles becomes a forest when the labels of a few nodes, its cut, are
held; the sums over their labels are those of the graph (Pearl's conditioning).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import BoolArray, FloatArray, IntArray
from structboost.errors import TooManyOutputsError
from structboost.inference.arguments import check_sum, node_pairs, real_array
from structboost.inference.chain import log_sum_exp
from structboost.inference.superpixel_crf import alpha_expansion_labels, least_energy_labels
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
    _label_forests(graphs, leaves_first(graphs), labels, done)
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


def _part(
    scores: PairwiseScores, chosen: BoolArray, n_labels: int
) -> tuple[IntArray, FloatArray, IntArray, FloatArray, IntArray]:
    """Return nodes, their scores, edges between them, tables and graphs of these, of some graphs.

    Each node has ``n_labels``.
    """
    nodes = np.flatnonzero(np.repeat(chosen, np.diff(scores.first_nodes)))
    owners = np.repeat(np.arange(len(chosen)), np.diff(scores.first_edges))
    rows = np.flatnonzero(chosen[owners])
    places = np.empty(len(scores.starts), np.int64)
    places[nodes] = np.arange(len(nodes))
    return (
        nodes,
        scores.unary[scores.starts[nodes][:, None] + np.arange(n_labels)],
        places[scores.edges[rows]],
        scores.tables[scores.table_starts[rows][:, None] + np.arange(n_labels**2)],
        owners[rows],
    )


def _label_by_cuts(scores: PairwiseScores, labels: IntArray, done: BoolArray) -> None:
    """Label and mark the graphs of two labels whose scores are submodular."""
    binary = ~done & (_sums(np.diff(scores.starts) != 2.0, scores.first_nodes) == 0)
    *_, tables, owners = _part(scores, binary, 2)
    binary[owners[_gains(tables) < 0]] = False
    if not binary.any():
        return
    nodes, unary, edges, tables, _ = _part(scores, binary, 2)
    # Kolmogorov and Zabih, PAMI 2004, section 4.1, for minus the scores.
    energies = -unary
    energies[:, 1] += np.bincount(edges[:, 0], tables[:, 0] - tables[:, 2], len(nodes))
    energies[:, 1] += np.bincount(edges[:, 1], tables[:, 2] - tables[:, 3], len(nodes))
    labels[nodes] = least_energy_labels(energies, edges, _gains(tables), np.zeros(len(edges)))
    done |= binary


def _gains(tables: FloatArray) -> FloatArray:
    """Compute by how much equal labels score more than different ones, of two labels."""
    return np.asarray(tables[:, 0] + tables[:, 3] - tables[:, 1] - tables[:, 2])


def _expand(
    scores: PairwiseScores,
    labels: IntArray,
    values: FloatArray,
    bounds: FloatArray,
    done: BoolArray,
) -> None:
    """Improve by alpha-expansion labels that are not proved, where equal labels score more."""
    counts = np.diff(scores.starts)
    n_labels = int(counts[0])
    open_ = ~done & (bounds - values > _SLIP * (1.0 + np.abs(values)))
    open_ &= _sums(counts != float(n_labels), scores.first_nodes) == 0
    *_, tables, owners = _part(scores, open_, n_labels)
    is_equal = np.eye(n_labels, dtype=bool).ravel()
    potts = np.where(is_equal, tables[:, :1], tables[:, 1:2])
    open_[owners[(tables != potts).any(axis=1) | (tables[:, 0] < tables[:, 1])]] = False
    nodes, unary, edges, tables, _ = _part(scores, open_, n_labels)
    if not len(nodes):
        return
    expanded = labels.copy()
    expanded[nodes] = alpha_expansion_labels(
        -unary,
        edges,
        tables[:, 0] - tables[:, 1],
        np.repeat(np.arange(len(done)), np.diff(scores.first_nodes))[nodes],
    )
    better = scores.values(expanded) > values
    labels[:] = np.where(np.repeat(better, np.diff(scores.first_nodes)), expanded, labels)


@compiled
def _beside(v: int, e: int, graphs: GraphArrays) -> tuple[int, int, int]:
    """Return the other end of an edge, and the steps in its table by a label of v, and of that."""
    starts, edges = graphs[1:3]
    width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
    other = edges[e, 0] + edges[e, 1] - v
    return (other, 1, width) if edges[e, 1] == v else (other, width, 1)


@compiled
def _label_forests(
    graphs: GraphArrays, forests: _Forests, labels: IntArray, done: BoolArray
) -> None:
    """Label and mark the acyclic graphs, by dynamic programming."""
    unary, starts, _, tables, table_starts, first_nodes = graphs[:6]
    order, up, n_free = forests
    best = unary.copy()
    for g in range(len(done)):
        free = order[first_nodes[g] : first_nodes[g + 1]]
        if n_free[g] < len(free):
            continue
        done[g] = True
        for v in free:
            e = up[v]
            if e < 0:
                continue
            above, here, there = _beside(v, e, graphs)
            for a in range(starts[above + 1] - starts[above]):
                most = -np.inf
                for b in range(starts[v + 1] - starts[v]):
                    value = best[starts[v] + b] + tables[table_starts[e] + a * there + b * here]
                    most = max(most, value)
                best[starts[above] + a] += most
        for v in free[::-1]:
            e = up[v]
            shift, here = 0, 0
            if e >= 0:
                above, here, there = _beside(v, e, graphs)
                shift = table_starts[e] + there * labels[above]
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
    graphs: GraphArrays, labels: IntArray, done: BoolArray, bounds: FloatArray
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
                u, here, there = _beside(v, e, graphs)
                value += tables[table_starts[e] + a * here + chosen[u] * there]
        if value > most:
            label, most = a, value
    return label


# Labellings of the nodes that cut all cycles of a graph, over which its probabilities are summed.
MOST_HELD = 1 << 12

# Result of leaves_first.
_Forests = tuple[IntArray, IntArray, IntArray]
# Of one graph: its edges, its free nodes from the leaves upwards, its cut, the edge of each free
# node that leads upwards, and labels of the nodes of the cut, -1 for free nodes.
_Forest = tuple[range, IntArray, IntArray, IntArray, IntArray]


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
        If the nodes that cut all cycles have more than 4096 labellings.

    Notes
    -----
    Exact.  On forests in ``O(n_nodes * n_labels^2)``; cycles are cut at a few nodes, and the time
    grows with the number of labellings of these.  Pearl, Probabilistic reasoning in intelligent
    systems, 1988, section 4.4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost.inference import graph_marginals
    >>> equal = np.log([[3.0, 1.0], [1.0, 3.0]])
    >>> of_nodes, of_edges, log_sum = graph_marginals(np.zeros((2, 2)), [[0, 1]], [equal])
    >>> of_edges[0].round(3).tolist(), round(float(np.exp(log_sum)), 3)
    ([[0.375, 0.125], [0.125, 0.375]], 8.0)
    """
    scores = one_graph(node_scores, edges, edge_scores)
    (of_nodes, of_edges, log_sums), wrong = label_sums(scores)
    if wrong >= 0:
        raise TooManyOutputsError(
            f"edges have too many cycles: the nodes that cut them have more than {MOST_HELD} "
            "labellings; leave edges out."
        )
    shape = np.shape(node_scores)
    of_edges = of_edges.reshape(len(scores.edges), shape[1], shape[1])
    return of_nodes.reshape(shape), of_edges, float(log_sums[0])


def label_sums(scores: PairwiseScores) -> tuple[tuple[FloatArray, FloatArray, FloatArray], int]:
    """Compute the probabilities of the labels of all graphs, as :func:`graph_marginals` does.

    Returns those of nodes, placed as ``PairwiseScores.unary``, those of edges, placed as
    ``PairwiseScores.tables``, and the logarithms of the sums.  Then comes the first graph whose cut
    has more than ``MOST_HELD`` labellings, or -1.
    """
    graphs = scores.arrays()
    log_sums = np.empty(len(scores.first_nodes) - 1)
    sums = np.zeros(len(scores.unary)), np.zeros(len(scores.tables)), log_sums
    return sums, int(_sum_labellings(graphs, leaves_first(graphs), sums, MOST_HELD))


def leaves_first(graphs: GraphArrays) -> _Forests:
    """Order the nodes of each graph as a forest is summed from its leaves, then those of the cut.

    Returns the nodes, the edge of each that leads upwards, or -1, and how many are not in the cut.
    """
    order, up = np.empty((2, len(graphs[1]) - 1), np.int64)
    n_free = np.empty(len(graphs[5]) - 1, np.int64)
    _order_nodes(graphs, order, up, n_free)
    return order, up, n_free


@compiled
def _order_nodes(graphs: GraphArrays, order: IntArray, up: IntArray, n_free: IntArray) -> None:
    """Order the nodes by taking leaves away, and cut the node of most edges where no leaf is left.

    ``up`` is the edge of a leaf when it is taken; it is -1 for the last node of a tree, for the
    cut, and for leaves whose edge leads into the cut.
    """
    edges, first_nodes, of_node, incident = graphs[2], graphs[5], graphs[7], graphs[8]
    degree = of_node[1:] - of_node[:-1]
    is_left = np.ones(len(degree), np.bool_)
    leaves = np.empty(len(degree), np.int64)
    for g in range(len(n_free)):
        first, last = first_nodes[g], first_nodes[g + 1]
        free, cut, n_leaves = first, last, 0
        for v in range(first, last):
            if degree[v] <= 1:
                leaves[n_leaves] = v
                n_leaves += 1
        while free < cut:
            is_leaf = n_leaves > 0
            if is_leaf:
                n_leaves -= 1
                v = leaves[n_leaves]
                order[free] = v
                free += 1
            else:
                v, most = first, -1
                for u in range(first, last):
                    if is_left[u] and degree[u] > most:
                        v, most = u, degree[u]
                cut -= 1
                order[cut] = v
            is_left[v], up[v] = False, -1
            for i in range(of_node[v], of_node[v + 1]):
                e = incident[i]
                u = edges[e, 0] + edges[e, 1] - v
                if is_left[u]:
                    if is_leaf:
                        up[v] = e
                    degree[u] -= 1
                    if degree[u] == 1:
                        leaves[n_leaves] = u
                        n_leaves += 1
                elif not is_leaf and up[u] == e:
                    up[u] = -1
        n_free[g] = free - first


@compiled
def _sum_labellings(
    graphs: GraphArrays,
    forests: _Forests,
    sums: tuple[FloatArray, FloatArray, FloatArray],
    most_held: int,
) -> int:
    """Fill the probabilities and the sums, and return the first graph of too large a cut or -1."""
    unary, starts, edges = graphs[:3]
    first_nodes, first_edges = graphs[5:7]
    order, up, n_free = forests
    log_sums = sums[2]
    n_labels = 1
    for v in range(len(up)):
        n_labels = max(n_labels, starts[v + 1] - starts[v])
    # Scores of the free nodes with all that is below them, what a leaf sends up its edge, and
    # probabilities for held labels.
    space = np.empty(len(unary)), np.empty((len(edges), n_labels)), np.empty(len(unary))
    held = np.full(len(up), -1)
    for g in range(len(n_free)):
        free = order[first_nodes[g] : first_nodes[g] + n_free[g]]
        cut = order[first_nodes[g] + n_free[g] : first_nodes[g + 1]]
        n_held = 1
        for v in cut:
            n_held *= starts[v + 1] - starts[v]
            if n_held > most_held:
                return g
        forest = range(first_edges[g], first_edges[g + 1]), free, cut, up, held
        totals = np.empty(n_held)
        for c in range(n_held):
            _hold(c, cut, starts, held)
            totals[c] = _sum_up(graphs, forest, space)
        log_sums[g] = log_sum_exp(totals)
        for c in range(n_held):
            weight = np.exp(totals[c] - log_sums[g])
            if n_held > 1:
                _hold(c, cut, starts, held)
                _sum_up(graphs, forest, space)
            _go_down(weight, graphs, forest, space, sums)
    return -1


@compiled
def _hold(c: int, cut: IntArray, starts: IntArray, held: IntArray) -> None:
    """Give the nodes of the cut the labels of combination ``c``."""
    for v in cut:
        n = starts[v + 1] - starts[v]
        held[v] = c % n
        c //= n


@compiled
def _sum_up(
    graphs: GraphArrays, forest: _Forest, space: tuple[FloatArray, FloatArray, FloatArray]
) -> float:
    """Sum over the labels of the free nodes from the leaves upwards, and return the logarithm."""
    unary, starts, edges, tables, table_starts = graphs[:5]
    own_edges, free, cut, up, held = forest
    below, messages = space[:2]
    total = 0.0
    for v in free:
        below[starts[v] : starts[v + 1]] = unary[starts[v] : starts[v + 1]]
    for v in cut:
        total += unary[starts[v] + held[v]]
    for e in own_edges:
        p, q = edges[e]
        width = starts[q + 1] - starts[q]
        if held[p] >= 0 or held[q] >= 0:
            for a in _labels(p, starts, held):
                for b in _labels(q, starts, held):
                    score = tables[table_starts[e] + a * width + b]
                    if held[p] < 0:
                        below[starts[p] + a] += score
                    elif held[q] < 0:
                        below[starts[q] + b] += score
                    else:
                        total += score
    terms = np.empty(messages.shape[1])
    for v in free:
        n, e = starts[v + 1] - starts[v], up[v]
        if e < 0:
            total += log_sum_exp(below[starts[v] : starts[v + 1]])
            continue
        above, here, there = _beside(v, e, graphs)
        for a in range(starts[above + 1] - starts[above]):
            for b in range(n):
                terms[b] = below[starts[v] + b] + tables[table_starts[e] + a * there + b * here]
            messages[e, a] = log_sum_exp(terms[:n])
            below[starts[above] + a] += messages[e, a]
    return total


@compiled
def _go_down(
    weight: float,
    graphs: GraphArrays,
    forest: _Forest,
    space: tuple[FloatArray, FloatArray, FloatArray],
    sums: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Add the probabilities for the held labels, which have the probability ``weight``."""
    _, starts, edges, tables, table_starts = graphs[:5]
    own_edges, free, cut, up, held = forest
    below, messages, probabilities = space
    of_nodes, of_edges, _ = sums
    for v in free[::-1]:
        labels = slice(starts[v], starts[v + 1])
        e = up[v]
        if e < 0:
            probabilities[labels] = np.exp(below[labels] - log_sum_exp(below[labels]))
        else:
            probabilities[labels] = 0.0
            above, here, there = _beside(v, e, graphs)
            for a in range(starts[above + 1] - starts[above]):
                of_above = probabilities[starts[above] + a]
                for b in range(starts[v + 1] - starts[v]):
                    cell = table_starts[e] + a * there + b * here
                    log_part = below[starts[v] + b] + tables[cell] - messages[e, a]
                    both = of_above * np.exp(log_part)
                    probabilities[starts[v] + b] += both
                    of_edges[cell] += weight * both
        of_nodes[labels] += weight * probabilities[labels]
    for v in cut:
        probabilities[starts[v] + held[v]] = 1.0
        of_nodes[starts[v] + held[v]] += weight
    for e in own_edges:
        p, q = edges[e]
        width = starts[q + 1] - starts[q]
        if held[p] >= 0 or held[q] >= 0:
            for a in _labels(p, starts, held):
                for b in _labels(q, starts, held):
                    both = probabilities[starts[p] + a] * probabilities[starts[q] + b]
                    of_edges[table_starts[e] + a * width + b] += weight * both


@compiled
def _labels(v: int, starts: IntArray, held: IntArray) -> range:
    """Return the labels of a node, which is one if it is held."""
    n = starts[v + 1] - starts[v]
    return range(held[v], held[v] + 1) if held[v] >= 0 else range(0, n)
