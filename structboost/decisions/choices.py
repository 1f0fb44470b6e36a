"""Problems that choose among items, such as assignments, knapsacks and tours."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from structboost._typing import FloatArray, IntArray, override
from structboost.decisions.problem import BatchProblem, DecisionProblem, is_binary
from structboost.inference.arguments import checked_costs
from structboost.inference.knapsack import checked_loads, solve_knapsack
from structboost.inference.tours import improved_tour, shortest_tour
from structboost.validation import checked_flag, checked_whole_number


class Assignment(DecisionProblem):
    """Assignment of a column to each row, at least cost.

    Item ``row * n_columns + column`` is their pair.

    Parameters
    ----------
    n_rows, n_columns : int
        The smaller side is assigned wholly.
    maximize : bool
        Whether the largest total is best.
    """

    def __init__(self, n_rows: int, n_columns: int, *, maximize: bool = False) -> None:
        self.n_rows = checked_whole_number(n_rows, "n_rows")
        self.n_columns = checked_whole_number(n_columns, "n_columns")
        self.n_items = self.n_rows * self.n_columns
        self.maximize = checked_flag(maximize, "maximize")

    @override
    def solve(self, costs: FloatArray) -> FloatArray:
        table = checked_costs(costs, self.n_items).reshape(self.n_rows, self.n_columns)
        chosen = np.zeros(table.shape)
        chosen[linear_sum_assignment(table, maximize=self.maximize)] = 1.0
        return chosen.ravel()

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        if not is_binary(decision, self.n_items):
            return False
        table = decision.reshape(self.n_rows, self.n_columns)
        once = table.sum(axis=0).max() <= 1 and table.sum(axis=1).max() <= 1
        return bool(once and table.sum() == min(table.shape))


class Choose(BatchProblem):
    """Exactly ``k`` of the items, of least cost, and the first of equally cheap ones.

    Parameters
    ----------
    n_items, k : int
        Number of items, and how many of them are chosen.
    maximize : bool
        Whether the largest total is best.
    """

    def __init__(self, n_items: int, k: int, *, maximize: bool = False) -> None:
        self.n_items = checked_whole_number(n_items, "n_items")
        self.k = checked_whole_number(k, "k", self.n_items)
        self.maximize = checked_flag(maximize, "maximize")

    @override
    def solve_all(self, costs: FloatArray) -> FloatArray:
        costs = checked_costs(costs, self.n_items, 2)
        order = np.argsort(-costs if self.maximize else costs, axis=1, kind="stable")
        decisions = np.zeros(costs.shape)
        np.put_along_axis(decisions, order[:, : self.k], 1.0, axis=1)
        return decisions

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        return is_binary(decision, self.n_items) and bool(decision.sum() == self.k)


class Knapsack(BatchProblem):
    """Items of the largest total value whose weights keep within the capacities.

    Whole-number weights with one capacity are solved by a table over capacities, others by branch
    and bound; both are exact and compiled.  Branching may take long for more than some forty items.

    Parameters
    ----------
    weights : array-like, shape (n_items,) or (n_capacities, n_items)
        Not negative.
    capacity : float or array-like, shape (n_capacities,)
        Not negative.

    Raises
    ------
    ValueError, TypeError
        If a weight or a capacity is no finite number from 0.
    """

    maximize = True

    def __init__(self, weights: Any, capacity: Any) -> None:
        self.weights, self.capacity = checked_loads(weights, capacity, "n_items")
        self.n_items = self.weights.shape[1]

    @override
    def solve_all(self, costs: FloatArray) -> FloatArray:
        costs = checked_costs(costs, self.n_items, 2)
        return solve_knapsack(costs, self.weights, self.capacity)

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        most = self.capacity * (1.0 + 1e-9) + 1e-9
        return is_binary(decision, self.n_items) and bool((self.weights @ decision <= most).all())


class Tour(DecisionProblem):
    """The shortest tour through all nodes on edges, which are the items.

    Edges ``(i, j)`` with ``i < j`` are in the order of i, then j, as in PyEPO.  Solved exactly by
    branch and bound on 1-trees: below a millisecond for 20 nodes, and longer than a second for some
    problems of 50.

    Parameters
    ----------
    n_nodes : int
        At least 3.

    Raises
    ------
    ValueError, TypeError
        If ``n_nodes`` is out of its range.

    Notes
    -----
    Held and Karp, The traveling-salesman problem and minimum spanning trees: Part II, Mathematical
    Programming 1971.
    """

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = checked_whole_number(n_nodes, "n_nodes")
        if self.n_nodes < 3:
            raise ValueError(f"n_nodes is {self.n_nodes}; a tour needs at least 3 nodes.")
        self.n_items = self.n_nodes * (self.n_nodes - 1) // 2

    @override
    def solve(self, costs: FloatArray) -> FloatArray:
        costs = checked_costs(costs, self.n_items)
        return self._decision(shortest_tour(squareform(costs)))

    @override
    def improve_all(self, costs: FloatArray, decisions: FloatArray) -> FloatArray:
        out = np.empty(decisions.shape)
        for row, decision, better in zip(costs, decisions, out, strict=True):
            used = np.nonzero(squareform(decision))[1].reshape(-1, 2)
            better[:] = self._decision(improved_tour(squareform(row), used))
        return out

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        if not is_binary(decision, self.n_items):
            return False
        table = squareform(decision)
        is_connected = connected_components(csr_array(table), return_labels=False) == 1
        return bool(is_connected and (table.sum(axis=0) == 2).all())

    def _decision(self, tour: IntArray) -> FloatArray:
        """1 on the edges between neighbours of a tour."""
        table = np.zeros((self.n_nodes, self.n_nodes))
        table[tour, np.roll(tour, -1)] = 1.0
        decision: FloatArray = squareform(table + table.T)
        return decision
