"""Shortest paths in directed graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import FloatArray, override
from structboost.decisions.problem import BatchProblem, DecisionProblem, LinearProgram, is_binary
from structboost.inference.arguments import checked_costs, whole_array
from structboost.inference.paths import cheapest_paths, path_of_fewest_arcs, topological_order
from structboost.runtime.memory import check_memory
from structboost.validation import checked_whole_number


class _PathProblem(DecisionProblem):
    """A problem of a path through a directed graph, whose arcs are the items."""

    def _set_network(self, arcs: Any, source: Any, target: Any) -> None:
        """Take arcs between nodes that are counted from 0, and both ends.

        ValueError or TypeError if they are malformed, or no path leads from one end to the other.
        """
        self.arcs = whole_array(arcs, "arcs", ("n_arcs", 2))
        if not len(self.arcs):
            raise ValueError("arcs is empty; give the tail and the head of each arc.")
        self.n_items, self.n_nodes = len(self.arcs), int(self.arcs.max()) + 1
        check_memory(16.0 * self.n_nodes, "Nodes of arcs", "count them from 0 without gaps")
        self.source = checked_whole_number(source, "source", self.n_nodes - 1, 0)
        self.target = checked_whole_number(target, "target", self.n_nodes - 1, 0)
        self._ends = self.source, self.target
        path = path_of_fewest_arcs(self.arcs, *self._ends, np.ones(self.n_items))
        if self.source == self.target or path is None:
            raise ValueError(
                f"No path leads from source {source} to another node target {target}; the problem "
                "is infeasible for all costs."
            )


class AcyclicPath(_PathProblem, BatchProblem):
    """The cheapest path through an acyclic graph, whose arcs are the items.

    Parameters
    ----------
    arcs : array-like of int, shape (n_arcs, 2)
        Tail and head of each arc: nodes, counted from 0.
    source, target : int
        Nodes where the path begins and ends.

    Raises
    ------
    ValueError
        If the arcs form a cycle, or no path leads from the source to the target.
    """

    def __init__(self, arcs: Any, source: Any, target: Any) -> None:
        self._set_network(arcs, source, target)
        order = topological_order(self.arcs, self.n_nodes)
        if len(order) < self.n_nodes:
            raise ValueError("arcs form a cycle; take ShortestPath.")
        place = np.argsort(order)
        self._order = np.argsort(place[self.arcs[:, 0]], kind="stable").astype(np.int64)
        self._tails, self._heads = np.ascontiguousarray(self.arcs.T)

    @override
    def solve_all(self, costs: FloatArray) -> FloatArray:
        costs = checked_costs(costs, self.n_items, 2)
        return cheapest_paths(costs, self._tails, self._heads, self._order, self._ends)

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        if not is_binary(decision, self.n_items):
            return False
        out = np.zeros(self.n_nodes)
        np.add.at(out, self._tails, decision)
        np.subtract.at(out, self._heads, decision)
        out[[*self._ends]] -= 1.0, -1.0
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
        check_memory(
            64.0 * self.n_rows * self.n_columns,
            f"Arcs of a grid of {self.n_rows} x {self.n_columns} nodes",
            "take a smaller grid",
        )
        nodes = np.arange(self.n_rows * self.n_columns).reshape(self.n_rows, self.n_columns)
        if nodes.size < 2:
            raise ValueError("n_rows and n_columns are 1; a path needs at least two nodes.")
        tails = np.concatenate((nodes[:, :-1], nodes[:-1]), axis=None)
        heads = np.concatenate((nodes[:, 1:], nodes[1:]), axis=None)
        order = np.argsort(tails // self.n_columns, kind="stable")
        super().__init__(np.column_stack((tails, heads))[order], 0, nodes.size - 1)


class ShortestPath(_PathProblem, LinearProgram):
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
        self._set_network(arcs, source, target)
        n_arcs, leaves = len(self.arcs), np.zeros(self.n_nodes)
        signs, places = np.repeat([1.0, -1.0], n_arcs), np.tile(np.arange(n_arcs), 2)
        balance = csr_array((signs, (self.arcs.T.ravel(), places)), (self.n_nodes, n_arcs))
        leaves[[*self._ends]] = 1.0, -1.0
        super().__init__(A_eq=balance, b_eq=leaves)

    @override
    def solve(self, costs: FloatArray) -> FloatArray:
        # No arc is used minus zero times.
        return np.round(super().solve(costs)) + 0.0

    @override
    def simplify_all(self, decisions: FloatArray) -> FloatArray:
        return np.array([path_of_fewest_arcs(self.arcs, *self._ends, z) for z in decisions])
