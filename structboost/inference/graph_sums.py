"""Sums over all labellings of graphs, and the probabilities of labels that follow.

Sum-product on forests (Pearl 1988).  A graph with cycles becomes a forest when the labels of a few
nodes, its cut, are held; the sums over their labels are those of the graph (Pearl's conditioning).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.inference.pairwise_graphs import PairwiseScores
from structboost.runtime.compiled import compiled


class LabelSums(NamedTuple):
    """Labellings of graphs as random ones, of probability ``~ exp(score)``.

    Parameters
    ----------
    nodes : ndarray, shape (n_scores,)
        Probability of each label of each node, placed as ``PairwiseScores.unary``.
    edges : ndarray, shape (n_pair_scores,)
        Probability of each pair of labels of each edge, placed as ``PairwiseScores.tables``.
    log_sums : ndarray, shape (n_graphs,)
        Logarithm of the sum of ``exp(score)`` over all labellings of each graph.
    """

    nodes: FloatArray
    edges: FloatArray
    log_sums: FloatArray


def label_sums(scores: PairwiseScores, most_held: int) -> tuple[LabelSums, int]:
    """Probabilities of the labels of all graphs.

    Parameters
    ----------
    scores : PairwiseScores
        Scores of all graphs.
    most_held : int
        Most labellings of the cut of a graph.

    Returns
    -------
    sums : LabelSums
        Probabilities, and logarithms of the sums.
    wrong : int
        The first graph whose cut has more labellings, -1 if there is none.
    """
    n_nodes = len(scores.starts) - 1
    ends = scores.edges.T.ravel()
    by_node = np.argsort(ends, kind="stable")
    of_node = np.searchsorted(ends[by_node], np.arange(n_nodes + 1))
    incident = by_node % max(1, len(scores.edges))
    # The nodes of a graph in the order in which a forest is summed from its leaves, then the cut.
    order, up = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    n_free = np.empty(len(scores.first_nodes) - 1, np.int64)
    _order_nodes(scores.edges, scores.first_nodes, of_node, incident, order, up, n_free)
    sums = LabelSums(
        np.zeros(len(scores.unary)), np.zeros(len(scores.tables)), np.empty(len(n_free))
    )
    wrong = _sum_labellings(
        scores.unary, scores.starts, scores.edges, scores.tables, scores.table_starts,
        scores.first_nodes, scores.first_edges, order, up, n_free, most_held,
        sums.nodes, sums.edges, sums.log_sums,
    )  # fmt: skip
    return sums, int(wrong)


@compiled
def _order_nodes(
    edges: IntArray,
    first_nodes: IntArray,
    of_node: IntArray,
    incident: IntArray,
    order: IntArray,
    up: IntArray,
    n_free: IntArray,
) -> None:
    """Take leaves away, and a node of the most edges into the cut where no leaf is left.

    ``up`` is the edge of a leaf when it is taken; it is -1 for the last node of a tree, for the
    cut, and for leaves whose edge leads into the cut.
    """
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
    unary: FloatArray,
    starts: IntArray,
    edges: IntArray,
    tables: FloatArray,
    table_starts: IntArray,
    first_nodes: IntArray,
    first_edges: IntArray,
    order: IntArray,
    up: IntArray,
    n_free: IntArray,
    most_held: int,
    of_nodes: FloatArray,
    of_edges: FloatArray,
    log_sums: FloatArray,
) -> int:
    """Fill the probabilities and the sums; the first graph of too large a cut, or -1."""
    n_labels = 1
    for v in range(len(up)):
        n_labels = max(n_labels, starts[v + 1] - starts[v])
    # Scores of the free nodes with all that is below them, and what a leaf sends up its edge.
    below, messages = np.empty(len(unary)), np.empty((len(edges), n_labels))
    # Labels of the nodes of the cut, -1 for free nodes; probabilities beside held labels.
    held, chances = np.full(len(up), -1), np.empty(len(unary))
    for g in range(len(n_free)):
        free = order[first_nodes[g] : first_nodes[g] + n_free[g]]
        cut = order[first_nodes[g] + n_free[g] : first_nodes[g + 1]]
        n_held = 1
        for v in cut:
            n_held *= starts[v + 1] - starts[v]
            if n_held > most_held:
                return g
        own_edges = range(first_edges[g], first_edges[g + 1])
        sums = np.empty(n_held)
        for c in range(n_held):
            _hold(c, cut, starts, held)
            sums[c] = _sum_up(
                unary, starts, edges, tables, table_starts, own_edges, free, cut, up, held,
                below, messages,
            )  # fmt: skip
        log_sums[g] = _log_sum(sums)
        for c in range(n_held):
            weight = np.exp(sums[c] - log_sums[g])
            if n_held > 1:
                _hold(c, cut, starts, held)
                _sum_up(
                    unary, starts, edges, tables, table_starts, own_edges, free, cut, up, held,
                    below, messages,
                )  # fmt: skip
            _go_down(
                weight, starts, edges, tables, table_starts, own_edges, free, cut, up, held,
                below, messages, chances, of_nodes, of_edges,
            )  # fmt: skip
    return -1


@compiled
def _hold(c: int, cut: IntArray, starts: IntArray, held: IntArray) -> None:
    """Give the nodes of the cut labels: those of number ``c``."""
    for v in cut:
        n = starts[v + 1] - starts[v]
        held[v] = c % n
        c //= n


@compiled
def _log_sum(values: FloatArray) -> float:
    most = -np.inf
    for value in values:
        most = max(most, value)
    total = 0.0
    for value in values:
        total += np.exp(value - most)
    return float(most + np.log(total))


@compiled
def _sum_up(
    unary: FloatArray,
    starts: IntArray,
    edges: IntArray,
    tables: FloatArray,
    table_starts: IntArray,
    own_edges: range,
    free: IntArray,
    cut: IntArray,
    up: IntArray,
    held: IntArray,
    below: FloatArray,
    messages: FloatArray,
) -> float:
    """Logarithm of the sum over the labels of the free nodes, from the leaves upwards."""
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
            total += _log_sum(below[starts[v] : starts[v + 1]])
            continue
        above = edges[e, 0] + edges[e, 1] - v
        width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
        here, there = (1, width) if edges[e, 1] == v else (width, 1)
        for a in range(starts[above + 1] - starts[above]):
            for b in range(n):
                terms[b] = below[starts[v] + b] + tables[table_starts[e] + a * there + b * here]
            messages[e, a] = _log_sum(terms[:n])
            below[starts[above] + a] += messages[e, a]
    return total


@compiled
def _go_down(
    weight: float,
    starts: IntArray,
    edges: IntArray,
    tables: FloatArray,
    table_starts: IntArray,
    own_edges: range,
    free: IntArray,
    cut: IntArray,
    up: IntArray,
    held: IntArray,
    below: FloatArray,
    messages: FloatArray,
    chances: FloatArray,
    of_nodes: FloatArray,
    of_edges: FloatArray,
) -> None:
    """Add the probabilities beside the held labels, which have the probability ``weight``."""
    for v in free[::-1]:
        own = slice(starts[v], starts[v + 1])
        e = up[v]
        if e < 0:
            chances[own] = np.exp(below[own] - _log_sum(below[own]))
        else:
            chances[own] = 0.0
            above = edges[e, 0] + edges[e, 1] - v
            width = starts[edges[e, 1] + 1] - starts[edges[e, 1]]
            here, there = (1, width) if edges[e, 1] == v else (width, 1)
            for a in range(starts[above + 1] - starts[above]):
                of_above = chances[starts[above] + a]
                for b in range(starts[v + 1] - starts[v]):
                    cell = table_starts[e] + a * there + b * here
                    log_share = below[starts[v] + b] + tables[cell] - messages[e, a]
                    both = of_above * np.exp(log_share)
                    chances[starts[v] + b] += both
                    of_edges[cell] += weight * both
        of_nodes[own] += weight * chances[own]
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
                of_edges[cell] += weight * chances[starts[q] + b]
        elif held[q] >= 0:
            for a in range(starts[p + 1] - starts[p]):
                cell = table_starts[e] + a * width + held[q]
                of_edges[cell] += weight * chances[starts[p] + a]
