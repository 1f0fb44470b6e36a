"""The 0/1 knapsack, with one capacity or several."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.decisions.problem import DecisionProblem, check_length
from structboost.inference.knapsack import best_fillings, best_fillings_by_branching

# Largest table of dynamic programming; beyond it, branching is used.
_LARGEST_CAPACITY = 1_000_000


class Knapsack(DecisionProblem):
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
    ValueError
        If a weight or a capacity is negative or not finite.
    """

    is_compiled = True
    maximize = True

    def __init__(self, weights: Any, capacity: Any) -> None:
        self.weights = np.atleast_2d(np.asarray(weights, np.float64))
        self.capacity = np.atleast_1d(np.asarray(capacity, np.float64))
        if self.weights.ndim != 2 or self.capacity.shape != self.weights.shape[:1]:
            raise ValueError(
                f"weights has shape {np.shape(weights)} and capacity {np.shape(capacity)}; give a "
                "row of weights for each capacity."
            )
        for name, values in (("weights", self.weights), ("capacity", self.capacity)):
            if not (np.isfinite(values) & (values >= 0)).all():
                raise ValueError(f"{name} has negative, NaN or infinite entries; give none.")
        self.n_items = self.weights.shape[1]
        is_whole = len(self.capacity) == 1 and not np.any(self.weights % 1)
        self._by_table = is_whole and self.capacity[0] <= _LARGEST_CAPACITY

    def solve(self, costs: FloatArray) -> FloatArray:
        """1 on the items chosen."""
        decision: FloatArray = self.solve_all(np.atleast_2d(costs))[0]
        return decision

    def solve_all(self, costs: FloatArray) -> FloatArray:
        """The same for each row."""
        check_length(costs, self.n_items)
        if self._by_table:
            weights = np.minimum(self.weights[0], self.capacity[0] + 1).astype(np.int64)
            return best_fillings(costs, weights, int(self.capacity[0]))
        return best_fillings_by_branching(costs, self.weights, self.capacity)

    def is_feasible(self, decision: FloatArray) -> bool:
        """Whether it is 0 or 1 on each item and keeps within the capacities."""
        if decision.shape != (self.n_items,) or not np.isin(decision, (0.0, 1.0)).all():
            return False
        return bool((self.weights @ decision <= self.capacity * (1.0 + 1e-9) + 1e-9).all())
