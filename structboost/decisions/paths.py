"""Shortest paths in directed graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray, override
from structboost.decisions.problem import BatchProblem, check_length, is_binary
from structboost.decisions.programs import LinearProgram
from structboost.inference.acyclic_paths import cheapest_paths
from structboost.inference.arguments import whole_array
from structboost.inference.directed_graphs import path_of_fewest_arcs
from structboost.inference.topological_order import topological_order
from structboost.validation import checked_whole_number, shown


class AcyclicPath(BatchProblem):
    """The cheapest path through an acyclic graph, whose arcs are the items.

    Parameters
    ----------
    arcs : array-like of int, shape (n_arcs, 2), or networkx.DiGraph
        Tail and head of each arc: nodes, counted from 0.  Or a directed graph, whose arcs are in
        the order of ``graph.edges``.
    source, target : int, or nodes of the graph
        Where the path begins and ends.

    Raises
    ------
    ValueError
        If the arcs form a cycle, or no path leads from the source to the target.
    """

    def __init__(self, arcs: Any, source: Any, target: Any) -> None:
        self.arcs, self.source, self.target = _checked_network(arcs, source, target)
        self.n_items, n_nodes = len(self.arcs), int(self.arcs.max()) + 1
        order = topological_order(self.arcs, n_nodes)
        if len(order) < n_nodes:
            left = sorted(set(range(n_nodes)) - set(order.tolist()))
            raise ValueError(
                f"arcs form a cycle through some of the nodes {left[:10]}; take ShortestPath."
            )
        place = np.empty(n_nodes, np.int64)
        place[order] = np.arange(n_nodes)
        self._order = np.argsort(place[self.arcs[:, 0]], kind="stable").astype(np.int64)
        self._tails, self._heads = np.ascontiguousarray(self.arcs.T)

    @override
    def solve_all(self, costs: FloatArray) -> FloatArray:
        check_length(costs, self.n_items)
        ends = (self.source, self.target)
        return cheapest_paths(costs, self._tails, self._heads, self._order, ends)

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        if not is_binary(decision, self.n_items):
            return False
        out = np.zeros(int(self.arcs.max()) + 1)
        np.add.at(out, self._tails, decision)
        np.subtract.at(out, self._heads, decision)
        out[[self.source, self.target]] -= 1.0, -1.0
        return not out.any()


class GridPath(AcyclicPath):
    """The cheapest path through a grid from its first node to its last, to the right and down.

    Node ``row * n_columns + column`` has an arc to its right neighbour and one to the node below.
    The arcs stand row by row: those to the right, then those down, as in PyEPO.

    Parameters
    ----------
    n_rows, n_columns : int
        At least 2 nodes in all.
    """

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.n_rows = checked_whole_number(n_rows, "n_rows")
        self.n_columns = checked_whole_number(n_columns, "n_columns")
        nodes = np.arange(self.n_rows * self.n_columns).reshape(self.n_rows, self.n_columns)
        if nodes.size < 2:
            raise ValueError("n_rows and n_columns are 1; a path needs at least two nodes.")
        arcs = []
        for row in range(self.n_rows):
            arcs.append(np.column_stack((nodes[row, :-1], nodes[row, 1:])))
            if row + 1 < self.n_rows:
                arcs.append(np.column_stack((nodes[row], nodes[row + 1])))
        super().__init__(np.concatenate(arcs), 0, nodes.size - 1)


class ShortestPath(LinearProgram):
    """The cheapest unit of flow from one node to another on arcs, which are the items.

    The graph may have cycles.  In training, costs of either sign occur, and the cheapest path
    without repeated nodes is then hard to find.  A flow may contain cycles beside its path, where
    they pay; at costs above 0 it is the shortest path.  :meth:`simplify_all` drops the cycles.
    Take :class:`AcyclicPath` for acyclic graphs: it is compiled.

    Parameters
    ----------
    arcs, source, target
        As for :class:`AcyclicPath`.

    Raises
    ------
    ValueError
        If no path leads from the source to the target.
    """

    def __init__(self, arcs: Any, source: Any, target: Any) -> None:
        self.arcs, self.source, self.target = _checked_network(arcs, source, target)
        n_nodes, n_arcs = int(self.arcs.max()) + 1, len(self.arcs)
        ends = self.arcs.T.ravel()
        signs = np.repeat([1.0, -1.0], n_arcs)
        balance = csr_array((signs, (ends, np.tile(np.arange(n_arcs), 2))), (n_nodes, n_arcs))
        leaves = np.zeros(n_nodes)
        leaves[self.source], leaves[self.target] = 1.0, -1.0
        super().__init__(A_eq=balance, b_eq=leaves)

    @override
    def solve(self, costs: FloatArray) -> FloatArray:
        # No arc is used minus zero times.
        return np.round(super().solve(costs)) + 0.0

    @override
    def simplify_all(self, decisions: FloatArray) -> FloatArray:
        ends = self.source, self.target
        return np.array([path_of_fewest_arcs(self.arcs, *ends, flow) for flow in decisions])


def _checked_network(arcs: Any, source: Any, target: Any) -> tuple[IntArray, int, int]:
    """Return arcs between nodes that are counted from 0, and the nodes of both ends.

    Raises
    ------
    ValueError, TypeError
        If they are malformed, or no path leads from one end to the other.
    """
    nodes: Any = None
    if hasattr(arcs, "is_directed"):
        if not arcs.is_directed():
            raise ValueError("The graph has no directions; give graph.to_directed().")
        nodes = list(arcs.nodes)
        place = {node: i for i, node in enumerate(nodes)}
        arcs = [(place[tail], place[head]) for tail, head in arcs.edges()]
    table = whole_array(arcs, "arcs", ("n_arcs", 2))
    if not len(table):
        raise ValueError("arcs is empty; give the tail and the head of each arc.")
    nodes = range(int(table.max()) + 1) if nodes is None else nodes
    for name, node in (("source", source), ("target", target)):
        if node not in nodes:
            raise ValueError(f"{name} is {shown(node)}; give a node, such as {nodes[0]!r}.")
    ends = nodes.index(source), nodes.index(target)
    if ends[0] == ends[1] or path_of_fewest_arcs(table, *ends, np.ones(len(table))) is None:
        raise ValueError(
            f"No path leads from source {source} to another node target {target}; the problem is "
            "infeasible for all costs."
        )
    return table, *ends
