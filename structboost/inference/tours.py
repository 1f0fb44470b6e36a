"""The shortest tour through all nodes, by branch and bound on 1-trees (Held and Karp, 1971)."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray, SignArray
from structboost.runtime.compiled import compiled

# States of an edge.
_FREE, _USED, _BANNED = 0, 1, 2
# Steps of the bound at the root and below it.
_ROOT_STEPS = 150
_STEPS = 30
# Costs lie in 0..1: a shorter tour is shorter by more than this, and edges in use come first.
_SLIP = 1e-10
_FIRST = 1e6


def shortest_tour(costs: FloatArray) -> IntArray:
    """Find the shortest tour through all nodes, at symmetric costs of either sign.

    Exact, by branch and bound on 1-trees: below a millisecond for 20 nodes, and longer than a
    second for some problems of 50 (Held and Karp, The traveling-salesman problem and minimum
    spanning trees: part II, Mathematical Programming 1971).
    """
    scaled, tour = _scaled(costs), np.arange(len(costs))
    _search(scaled, tour)
    if len(costs) > 3:
        _branch(scaled, tour)
    return tour


def improved_tour(costs: FloatArray, used: IntArray) -> IntArray:
    """Improve a tour by local search, to one that is at most as long and often the shortest.

    Parts of the tour are turned round as long as that makes it shorter (Croes, 1958).  Then two
    quarters of it are exchanged, and the search goes on from there (Martin, Otto and Felten, 1991),
    until no such exchange helps.  ``used`` are the two neighbours of each node in the first tour.
    """
    scaled = _scaled(costs)
    tour = np.empty(len(costs), np.int64)
    _walk(np.ascontiguousarray(used), tour)
    _search(scaled, tour)
    return tour


def _scaled(costs: FloatArray) -> FloatArray:
    """Scale costs to 0..1, which adds a constant to each edge and so changes no order of tours."""
    shifted = costs - costs[~np.eye(len(costs), dtype=bool)].min()
    np.fill_diagonal(shifted, 0.0)
    return np.ascontiguousarray(shifted / (shifted.max() or 1.0))


@compiled
def _length(costs: FloatArray, tour: IntArray) -> float:
    total: float = costs[tour[-1], tour[0]]
    for k in range(len(tour) - 1):
        total += costs[tour[k], tour[k + 1]]
    return total


@compiled
def _two_opt(costs: FloatArray, tour: IntArray) -> None:
    """Reverse parts of the tour as long as that shortens it."""
    n = len(tour)
    better = True
    while better:
        better = False
        for i in range(n - 2):
            for j in range(i + 2, n):
                a, b, c, d = tour[i], tour[i + 1], tour[j], tour[(j + 1) % n]
                if a == d:
                    continue
                change = costs[a, c] + costs[b, d] - costs[a, b] - costs[c, d]
                if change < -1e-12 * (costs[a, b] + costs[c, d]):
                    tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1].copy()
                    better = True


@compiled
def _search(costs: FloatArray, tour: IntArray) -> None:
    """Exchange two quarters of the tour, from each node on, and shorten the result."""
    n = len(tour)
    quarter = n // 4
    tried = 0
    _two_opt(costs, tour)
    length = _length(costs, tour)
    shortest = tour.copy()
    while quarter > 0 and tried < n:
        for k in range(n):
            place = k + quarter if quarter <= k < 2 * quarter else k
            place = k - quarter if 2 * quarter <= k < 3 * quarter else place
            tour[k] = shortest[(tried + place) % n]
        _two_opt(costs, tour)
        shorter = _length(costs, tour)
        tried += 1
        if shorter < length - _SLIP:
            length = shorter
            shortest[:] = tour
            tried = 0
    tour[:] = shortest


@compiled
def _one_tree(
    costs: FloatArray, state: SignArray, prices: FloatArray, edges: IntArray, degree: IntArray
) -> float:
    """Find the cheapest tree on nodes 1.. with two edges of node 0, at costs plus prices.

    Edges in use come first, banned ones never.  Fills in its edges, and returns its cost, infinity
    where there is none.
    """
    n = len(prices)
    total = 0.0
    parent, reach = np.zeros(n, np.int64), np.full(n, np.inf)
    inside = np.zeros(n, np.bool_)
    degree[:] = 0
    node = 1
    inside[1] = True
    for k in range(n):
        if k < n - 2:
            for v in range(2, n):
                if not inside[v] and state[node, v] != _BANNED:
                    value = costs[node, v] + prices[node] + prices[v]
                    if state[node, v] == _USED:
                        value -= _FIRST
                    if value < reach[v]:
                        reach[v] = value
                        parent[v] = node
        elif k == n - 2:
            # Then the edges of node 0.
            for v in range(1, n):
                inside[v] = state[0, v] == _BANNED
                reach[v] = costs[0, v] + prices[0] + prices[v]
                if state[0, v] == _USED:
                    reach[v] -= _FIRST
            parent[:] = 0
        node = -1
        for v in range(1, n):
            if not inside[v] and reach[v] < np.inf and (node < 0 or reach[v] < reach[node]):
                node = v
        if node < 0:
            return np.inf
        above = parent[node]
        inside[node] = True
        total += costs[node, above] + prices[node] + prices[above]
        degree[node] += 1
        degree[above] += 1
        row = node - 2 if k < n - 2 else k
        edges[row, 0], edges[row, 1] = node, above
    for v in range(n):
        total -= 2.0 * prices[v]
    return total


@compiled
def _branch(costs: FloatArray, tour: IntArray) -> None:
    """Branch depth first on an edge of the 1-tree, which is banned first and then used."""
    n = len(tour)
    best = _length(costs, tour)
    open_ = np.zeros((n * n, n, n), np.int8)
    prices, degree = np.zeros(n), np.zeros(n, np.int64)
    edges = np.zeros((n, 2), np.int64)
    n_open, steps = 1, _ROOT_STEPS
    while n_open > 0:
        n_open -= 1
        state = open_[n_open].copy()
        # Bound: prices of nodes go up where the 1-tree has too many edges.
        is_done = False
        size = 0.1 * best / n
        for step in range(steps):
            bound = _one_tree(costs, state, prices, edges, degree)
            is_done = bound >= best - _SLIP
            if is_done:
                break
            off = 0
            for v in range(n):
                off += (degree[v] - 2) ** 2
            if off == 0:
                # All degrees are 2: the 1-tree is a tour.
                _follow(edges, tour)
                best = _length(costs, tour)
                is_done = True
                break
            if step < steps - 1:
                move = min(size, (best - bound) / off)
                for v in range(n):
                    prices[v] += move * (degree[v] - 2)
                size *= 0.95
        steps = _STEPS
        chosen = -1
        for e in range(n - 1, -1, -1):
            u, v = edges[e]
            if state[u, v] == _FREE and (degree[u] > 2 or degree[v] > 2):
                chosen = e
        if is_done or chosen < 0:
            continue
        a, b = edges[chosen]
        for value in (_USED, _BANNED):
            branch = open_[n_open]
            n_open += 1
            branch[:] = state
            branch[a, b] = branch[b, a] = value
            for v in edges[chosen]:
                n_used = 0
                for w in range(n):
                    n_used += branch[v, w] == _USED
                if value == _USED and n_used == 2:
                    for w in range(n):
                        if w != v and branch[v, w] == _FREE:
                            branch[v, w] = branch[w, v] = _BANNED


@compiled
def _follow(edges: IntArray, tour: IntArray) -> None:
    """Fill in the nodes of a 1-tree that is a tour, in their order."""
    next_to = np.full((len(tour), 2), -1)
    for e in range(len(edges)):
        for k in range(2):
            v = edges[e, k]
            next_to[v, 0 if next_to[v, 0] < 0 else 1] = edges[e, 1 - k]
    _walk(next_to, tour)


@compiled
def _walk(next_to: IntArray, tour: IntArray) -> None:
    """Fill in the nodes in their order, from the two neighbours of each."""
    before, node = 0, next_to[0, 0]
    tour[0] = 0
    for k in range(1, len(tour)):
        tour[k] = node
        after = next_to[node, 0]
        if after == before:
            after = next_to[node, 1]
        before = node
        node = after
