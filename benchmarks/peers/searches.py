"""Searches as a Python user would write them: array expressions, scipy, networkx, HiGHS."""

import numpy as np
from scipy.optimize import LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra


def viterbi(emissions, pairs):
    """Score of the best tags: array expressions over the tags, a loop over the tokens."""
    best, back = emissions[0], []
    for own in emissions[1:]:
        extended = best[:, None] + pairs
        back.append(extended.argmax(axis=0))
        best = extended.max(axis=0) + own
    tags = [int(best.argmax())]
    for pointers in reversed(back):
        tags.append(int(pointers[tags[-1]]))
    return float(best.max())


def segments(tokens, begins, spans, pairs):
    """Score of the best cut into labelled segments, in the same manner."""
    n, n_labels = tokens.shape
    inside = np.concatenate((np.zeros((1, n_labels)), tokens.cumsum(axis=0)))
    entered = np.zeros((n + 1, n_labels))
    best = np.zeros(n_labels)
    for end in range(1, n + 1):
        start = np.arange(end - 1, max(-1, end - len(spans) - 1), -1)
        values = entered[start] + inside[end] - inside[start] + begins[start] + spans[: len(start)]
        best = values.max(axis=0)
        entered[end] = (best[:, None] + pairs).max(axis=0)
    return float(best.max())


def spanning_tree(scores):
    """Score of the best arborescence with root 0, by networkx."""
    import networkx

    n = len(scores)
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from(
        (head, node, scores[head, node])
        for head in range(n)
        for node in range(1, n)
        if head != node
    )
    found = networkx.maximum_spanning_arborescence(graph)
    return float(sum(scores[arc] for arc in found.edges))


def matching(scores):
    """Score of the best matching of all, by scipy."""
    return float(scores[linear_sum_assignment(scores, maximize=True)].sum())


def closed_set(scores, parents):
    """Score of the best set of labels that is closed upwards in a tree, by a loop over labels."""
    total = scores.copy()
    for label in range(len(scores) - 1, -1, -1):
        if parents[label] >= 0 and total[label] > 0:
            total[parents[label]] += total[label]
    return float(np.maximum(total[parents < 0], 0.0).sum())


def grid_path(costs, arcs, n_nodes):
    """Cost of the cheapest path, by scipy's Dijkstra."""
    graph = csr_array((costs, arcs.T), (n_nodes, n_nodes))
    return float(dijkstra(graph, indices=0)[-1])


def knapsack(values, weights, capacity):
    """Value of the best filling, by HiGHS."""
    found = milp(
        -values,
        integrality=np.ones(len(values)),
        bounds=(0, 1),
        constraints=LinearConstraint(weights[None], ub=capacity),
    )
    return float(-found.fun)


def minimum_cut(unaries, edges, weights):
    """Score of the best labels 0 and 1 where equal neighbours gain a weight, by networkx."""
    import networkx

    graph = networkx.DiGraph()
    gain = unaries[:, 1] - unaries[:, 0]
    for node, own in enumerate(gain):
        graph.add_edge("s", node, capacity=max(0.0, own))
        graph.add_edge(node, "t", capacity=max(0.0, -own))
    for (a, b), weight in zip(edges, weights, strict=True):
        graph.add_edge(int(a), int(b), capacity=float(weight))
        graph.add_edge(int(b), int(a), capacity=float(weight))
    all_won = unaries[:, 0].sum() + np.maximum(gain, 0.0).sum() + np.sum(weights)
    return float(all_won - networkx.minimum_cut_value(graph, "s", "t"))
