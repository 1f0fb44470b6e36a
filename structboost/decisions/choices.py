"""Problems that a library or a greedy choice solves: assignments, and bases of matroids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from structboost._typing import FloatArray
from structboost.decisions.problem import DecisionProblem, check_length
from structboost.exceptions import TaskError
from structboost.validation import checked_whole_number


class Assignment(DecisionProblem):
    """One column for each row; item ``row * n_columns + column`` is their pair.

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
        self.maximize = maximize

    def solve(self, costs: FloatArray) -> FloatArray:
        """1 on the pairs, by scipy."""
        check_length(costs, self.n_items)
        table = costs.reshape(self.n_rows, self.n_columns)
        chosen = np.zeros(table.shape)
        chosen[linear_sum_assignment(table, maximize=self.maximize)] = 1.0
        return chosen.ravel()

    def is_feasible(self, decision: FloatArray) -> bool:
        """Whether it is 0 or 1 on each pair, and assigns each member at most once."""
        if decision.shape != (self.n_items,) or not np.isin(decision, (0.0, 1.0)).all():
            return False
        table = decision.reshape(self.n_rows, self.n_columns)
        once = table.sum(axis=0).max() <= 1 and table.sum(axis=1).max() <= 1
        return bool(once and table.sum() == min(table.shape))


class MatroidBasis(DecisionProblem):
    """As many items as are independent, of least cost, by the greedy choice.

    Parameters
    ----------
    n_items : int
        Number of items.
    is_independent : callable
        ``is_independent(items)`` says whether a list of items is; every part of an independent list
        is independent, and a shorter one can always be extended by an item of a longer one.
    maximize : bool
        Whether the largest total is best.
    """

    def __init__(
        self,
        n_items: int,
        is_independent: Callable[[list[int]], Any],
        *,
        maximize: bool = False,
    ) -> None:
        self.n_items = checked_whole_number(n_items, "n_items")
        self.is_independent = is_independent
        self.maximize = maximize

    def solve(self, costs: FloatArray) -> FloatArray:
        """1 on the items taken; of equally cheap ones, the first is tried first."""
        check_length(costs, self.n_items)
        taken: list[int] = []
        for item in np.argsort(-costs if self.maximize else costs, kind="stable").tolist():
            if self.is_independent([*taken, item]):
                taken.append(item)
        if not taken:
            raise TaskError("is_independent refuses every single item; no decision is possible.")
        decision = np.zeros(len(costs))
        decision[taken] = 1.0
        return decision


class Choose(DecisionProblem):
    """Exactly ``k`` of the items, of least cost.

    Parameters
    ----------
    n_items, k : int
        Number of items, and how many of them are chosen.
    maximize : bool
        Whether the largest total is best.
    """

    is_compiled = True

    def __init__(self, n_items: int, k: int, *, maximize: bool = False) -> None:
        self.n_items = checked_whole_number(n_items, "n_items")
        self.k = checked_whole_number(k, "k", self.n_items)
        self.maximize = maximize

    def solve(self, costs: FloatArray) -> FloatArray:
        """1 on the items taken; of equally cheap ones, the first."""
        decision: FloatArray = self.solve_all(np.atleast_2d(costs))[0]
        return decision

    def solve_all(self, costs: FloatArray) -> FloatArray:
        """The same for each row, by sorting."""
        check_length(costs, self.n_items)
        order = np.argsort(-costs if self.maximize else costs, axis=1, kind="stable")
        decisions = np.zeros(costs.shape)
        np.put_along_axis(decisions, order[:, : self.k], 1.0, axis=1)
        return decisions

    def is_feasible(self, decision: FloatArray) -> bool:
        """Whether it is 1 on k items and 0 on the others."""
        is_choice = decision.shape == (self.n_items,) and np.isin(decision, (0.0, 1.0)).all()
        return bool(is_choice and decision.sum() == self.k)
