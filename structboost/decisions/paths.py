"""Shortest paths in acyclic graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from structboost._typing import FloatArray, IntArray
from structboost.decisions.problem import DecisionProblem, check_length
from structboost.inference.acyclic_paths import cheapest_paths
from structboost.validation import checked_whole_number, shown


class AcyclicPath(DecisionProblem):
    """The cheapest path through an acyclic graph; the items are its arcs.

    Parameters
    ----------
    arcs : array-like of int, shape (n_arcs, 2)
        Tail and head of each arc: nodes, numbered from 0.
    source, target : int
        Where the path begins and ends.

    Raises
    ------
    ValueError
        If the arcs form a cycle, or no path leads from the source to the target.
    """

    is_compiled = True

    def __init__(self, arcs: Any, source: int, target: int) -> None:
        self.arcs = checked_arcs(arcs)
        self.source, self.target = checked_node(source, "source"), checked_node(target, "target")
        self.n_items = len(self.arcs)
        order = _sorted_nodes(self.arcs)
        if len(order) < self.arcs.max() + 1:
            left = sorted(set(range(int(self.arcs.max()) + 1)) - set(order))
            raise ValueError(
                f"arcs form a cycle through some of the nodes {left[:10]}; take ShortestPath."
            )
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._order = np.argsort(place[self.arcs[:, 0]], kind="stable").astype(np.int64)
        self._tails = np.ascontiguousarray(self.arcs[:, 0])
        self._heads = np.ascontiguousarray(self.arcs[:, 1])
        check_reachable(self.arcs, self.source, self.target)

    def solve(self, costs: FloatArray) -> FloatArray:
        """1 on the arcs of the cheapest path."""
        decision: FloatArray = self.solve_all(np.atleast_2d(costs))[0]
        return decision

    def solve_all(self, costs: FloatArray) -> FloatArray:
        """The same for each row, compiled."""
        check_length(costs, self.n_items)
        ends = (self.source, self.target)
        return cheapest_paths(costs, self._tails, self._heads, self._order, ends)

    def is_feasible(self, decision: FloatArray) -> bool:
        """Whether it is 0 or 1 on each arc, and a path."""
        return is_unit_flow(self.arcs, self.source, self.target, decision)


class GridPath(AcyclicPath):
    """The cheapest path through a grid from its first node to its last, to the right and down.

    Node ``row * n_columns + column`` has an arc to its right neighbour and one to the node below.
    The arcs are numbered row by row: those to the right, then those down, as in PyEPO.

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


def checked_arcs(arcs: Any) -> IntArray:
    """Arcs as a table of nodes, numbered from 0."""
    found = np.asarray(arcs)
    if found.ndim != 2 or found.shape[1] != 2 or not len(found) or found.dtype.kind not in "iu":
        raise ValueError(
            f"arcs has shape {found.shape} and type {found.dtype}; give whole numbers of shape "
            "(n_arcs, 2): the tail and the head of each arc."
        )
    if found.min() < 0:
        bad = int(np.argmax((found < 0).any(axis=1)))
        raise ValueError(f"arcs[{bad}] is {found[bad].tolist()}; number the nodes from 0.")
    return found.astype(np.int64)


def checked_node(node: Any, name: str) -> int:
    """The number of a node; compiled searches would take a negative one from the end."""
    if isinstance(node, bool) or not isinstance(node, (int, np.integer)) or node < 0:
        raise ValueError(f"{name} is {shown(node)}; give the number of a node, from 0.")
    return int(node)


def check_reachable(arcs: IntArray, source: int, target: int) -> None:
    """Raise ValueError unless the two nodes differ, and a path leads from one to the other."""
    reached = np.zeros(max(int(arcs.max()), source, target) + 1, bool)
    reached[source] = True
    for _ in range(len(reached)):
        new = reached[arcs[:, 0]] & ~reached[arcs[:, 1]]
        if not new.any():
            break
        reached[arcs[new, 1]] = True
    if source == target or not reached[target]:
        raise ValueError(
            f"No path leads from source {source} to another node target {target}; the problem is "
            "infeasible for all costs."
        )


def is_unit_flow(arcs: IntArray, source: int, target: int, decision: FloatArray) -> bool:
    """Whether a decision is 0 or 1 on each arc, leaves the source once, and ends in the target."""
    if decision.shape != (len(arcs),) or not np.isin(decision, (0.0, 1.0)).all():
        return False
    out = np.zeros(max(int(arcs.max()), source, target) + 1)
    np.add.at(out, arcs[:, 0], decision)
    np.subtract.at(out, arcs[:, 1], decision)
    out[source] -= 1.0
    out[target] += 1.0
    return not out.any()


def path_within(arcs: IntArray, source: int, target: int, flow: FloatArray) -> FloatArray:
    """The path of the fewest arcs among those of a flow, without its cycles."""
    used = np.flatnonzero(flow)
    arc_of = {
        (tail, head): arc for arc, (tail, head) in zip(used, arcs[used].tolist(), strict=True)
    }
    n_nodes = int(arcs.max()) + 1
    graph = csr_array((np.ones(len(used)), tuple(arcs[used].T)), (n_nodes, n_nodes))
    _, before = breadth_first_order(graph, source)
    path, node = np.zeros(len(arcs)), target
    while node != source:
        path[arc_of[int(before[node]), node]] = 1.0
        node = int(before[node])
    return path


def _sorted_nodes(arcs: IntArray) -> list[int]:
    """Nodes such that all arcs go forwards; those on cycles, and behind them, are left out."""
    n_nodes = int(arcs.max()) + 1
    n_into = np.bincount(arcs[:, 1], minlength=n_nodes)
    leaving = [arcs[arcs[:, 0] == node, 1] for node in range(n_nodes)]
    order = np.flatnonzero(n_into == 0).tolist()
    for node in order:
        for head in leaving[node]:
            n_into[head] -= 1
            if n_into[head] == 0:
                order.append(int(head))
    return list(order)
