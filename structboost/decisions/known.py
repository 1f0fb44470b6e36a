"""Decisions that are known already: a fast answer where an exact solve is slow."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray
from structboost.decisions.problem import DecisionProblem

# Products of costs and decisions held at once.
_MOST_PRODUCTS = 1 << 24


class KnownDecisions(DecisionProblem):
    """The same problem, with the decisions found so far in place of all feasible ones.

    Parameters
    ----------
    problem : DecisionProblem
        What the decisions are of.
    decisions : ndarray, shape (n, n_items)
        At least one.
    """

    is_compiled = True

    def __init__(self, problem: DecisionProblem, decisions: FloatArray) -> None:
        self.maximize = problem.maximize
        self.n_items = decisions.shape[1]
        self._name = str(problem)
        self.decisions = np.unique(decisions, axis=0)

    def add(self, decisions: FloatArray) -> None:
        """Learn further decisions."""
        self.decisions = np.unique(np.concatenate((self.decisions, decisions)), axis=0)

    def solve(self, costs: FloatArray) -> FloatArray:
        """The best known decision; of equally good ones, the first in lexical order."""
        decision: FloatArray = self.solve_all(costs[None])[0]
        return decision

    def solve_all(self, costs: FloatArray) -> FloatArray:
        """The same for each row, by one product of matrices."""
        sign = -1.0 if self.maximize else 1.0
        step = max(1, _MOST_PRODUCTS // len(self.decisions))
        best = [
            np.argmin(sign * costs[i : i + step] @ self.decisions.T, axis=1)
            for i in range(0, len(costs), step)
        ]
        found: FloatArray = self.decisions[np.concatenate(best)]
        return found

    def is_feasible(self, decision: FloatArray) -> bool:
        """Whether the decision is known."""
        return bool((self.decisions == decision).all(axis=1).any())

    def __str__(self) -> str:
        return self._name
