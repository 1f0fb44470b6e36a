"""Sums over all labellings of graphs, and the probabilities of labels that follow.

Sum-product on forests (Pearl 1988).  A graph with cycles becomes a forest when the labels of a few
nodes, its cut, are held; the sums over their labels are those of the graph (Pearl's conditioning).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.errors import TooManyOutputsError
from structboost.inference.exponentials import log_sum_exp
from structboost.inference.pairwise_graphs import GraphArrays, PairwiseScores, one_graph
from structboost.runtime.compiled import compiled

# Labellings of the nodes that cut all cycles of a graph, over which its probabilities are summed.
MOST_HELD = 1 << 12

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
    n_nodes, n_graphs = len(scores.starts) - 1, len(scores.first_nodes) - 1
    # The nodes of a graph in the order in which a forest is summed from its leaves, then the cut.
    order, up = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    n_free = np.empty(n_graphs, np.int64)
    _order_nodes(graphs, order, up, n_free)
    sums = np.zeros(len(scores.unary)), np.zeros(len(scores.tables)), np.empty(n_graphs)
    wrong = _sum_labellings(graphs, (order, up, n_free), sums, MOST_HELD)
    return sums, int(wrong)


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
    forests: tuple[IntArray, IntArray, IntArray],
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
        if held[p] >= 0 and held[q] >= 0:
            total += tables[table_starts[e] + held[p] * width + held[q]]
        elif held[p] >= 0:
            for b in range(width):
                below[starts[q] + b] += tables[table_starts[e] + held[p] * width + b]
        elif held[q] >= 0:
            for a in range(starts[p + 1] - starts[p]):
                below[starts[p] + a] += tables[table_starts[e] + a * width + held[q]]
    terms = np.empty(messages.shape[1])
    for v in free:
        n, e = starts[v + 1] - starts[v], up[v]
        if e < 0:
            total += log_sum_exp(below[starts[v] : starts[v + 1]])
            continue
        above = edges[e, 0] + edges[e, 1] - v
        width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
        here, there = (1, width) if edges[e, 1] == v else (width, 1)
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
            above = edges[e, 0] + edges[e, 1] - v
            width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
            here, there = (1, width) if edges[e, 1] == v else (width, 1)
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
        of_nodes[starts[v] + held[v]] += weight
    for e in own_edges:
        p, q = edges[e]
        width = starts[q + 1] - starts[q]
        if held[p] >= 0 and held[q] >= 0:
            of_edges[table_starts[e] + held[p] * width + held[q]] += weight
        elif held[p] >= 0:
            for b in range(width):
                cell = table_starts[e] + held[p] * width + b
                of_edges[cell] += weight * probabilities[starts[q] + b]
        elif held[q] >= 0:
            for a in range(starts[p + 1] - starts[p]):
                cell = table_starts[e] + a * width + held[q]
                of_edges[cell] += weight * probabilities[starts[p] + a]
