"""The contract of decision problems: linear costs of items, and a solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from structboost._typing import FloatArray
from structboost.exceptions import TaskError, on_example
from structboost.validation import shown


class DecisionProblem(ABC):
    """Choose a decision z of least cost ``c'z``, or of largest value if ``maximize`` is set.

    A subclass defines :meth:`solve`.  In training it is called with differences of costs: it must
    solve the problem for costs of either sign.  Instances must be picklable, and :meth:`solve` a
    pure function: that of several optimal decisions which it returns is the tie rule of the
    problem.

    Attributes
    ----------
    n_items : int or None
        Length of costs and decisions; None if it is not known.
    maximize : bool
        Whether costs are values, and the largest total is best.
    is_compiled : bool
        Whether :meth:`solve_all` is so fast that it need not be spared.
    """

    is_compiled: ClassVar[bool] = False
    n_items: int | None = None
    maximize: bool = False

    @abstractmethod
    def solve(self, costs: FloatArray) -> FloatArray:
        """Best decision at given costs.

        Parameters
        ----------
        costs : ndarray, shape (n_items,)
            Finite costs (values if ``maximize``) of either sign; the problem must not change them.

        Returns
        -------
        decision : ndarray, shape (n_items,)
            A feasible decision z, finite, of least ``costs'z`` (largest if ``maximize``).  Equal
            costs give equal decisions.
        """

    def solve_all(self, costs: FloatArray) -> FloatArray:
        """Batch form of :meth:`solve`.

        Parameters
        ----------
        costs : ndarray, shape (n, n_items)
            One row of costs per problem.

        Returns
        -------
        decisions : ndarray, shape (n, n_items)
            A best decision for each row, the one that :meth:`solve` returns.
        """
        out = np.empty(costs.shape)
        for i, row in enumerate(costs):
            out[i] = on_example("solve", i, self.solve, row)
        return out

    def improve_all(self, costs: FloatArray, decisions: FloatArray) -> FloatArray:
        """Decisions at least as good as those given, found without an exact solve.

        Training that spares solves asks for these first.  By default the decisions themselves.

        Parameters
        ----------
        costs, decisions : ndarray, shape (n, n_items)
            Costs of either sign, and feasible decisions.

        Returns
        -------
        decisions : ndarray, shape (n, n_items)
            Feasible decisions, none worse than that of its row.
        """
        return decisions

    def simplify_all(self, decisions: FloatArray) -> FloatArray:
        """Decisions without what pays only where costs are negative; by default all of each.

        Training needs the best decision at costs of either sign, such as a flow with cycles.
        :meth:`PredictThenOptimize.predict` leaves out what nobody would do, such as the cycles.

        Parameters
        ----------
        decisions : ndarray, shape (n, n_items)
            What :meth:`solve_all` returned.

        Returns
        -------
        decisions : ndarray, shape (n, n_items)
            Feasible decisions.
        """
        return decisions

    def is_feasible(self, decision: FloatArray) -> bool:
        """Whether a decision may be chosen; by default True, which means unknown.

        Parameters
        ----------
        decision : ndarray, shape (n_items,)
            What may be a decision; finite.

        Returns
        -------
        feasible : bool
            Whether it satisfies the constraints of the problem.
        """
        return True

    def __str__(self) -> str:
        """The problem and its sense, as errors name them."""
        return f"{type(self).__name__}, which {'maximises' if self.maximize else 'minimises'}"


def check_length(costs: FloatArray, n_items: int | None) -> None:
    """Raise TaskError unless there is a cost for each item; compiled solvers do not look."""
    if n_items is not None and costs.shape[-1] != n_items:
        raise TaskError(
            f"There are {costs.shape[-1]} costs for {n_items} items; give one for each."
        )


class SolvedBy(DecisionProblem):
    """A problem that a function of the user solves.

    Parameters
    ----------
    solve : callable
        ``solve(costs)`` gives the best decision for costs of either sign, both of shape
        (n_items,).
    maximize : bool
        Whether the largest total is best.

    Raises
    ------
    TypeError
        If ``solve`` cannot be called.
    """

    def __init__(self, solve: Callable[[FloatArray], Any], *, maximize: bool = False) -> None:
        if not callable(solve):
            raise TypeError(
                f"solve is {shown(solve)}; give a function solve(costs) that returns a decision."
            )
        self.function = solve
        self.maximize = maximize

    def solve(self, costs: FloatArray) -> FloatArray:
        """What the function returns, checked.

        Raises
        ------
        TaskError
            If that is no finite vector as long as the costs.
        """
        # A function that sorts its costs in place would sort those of the user.
        returned = self.function(costs.copy())
        try:
            found = np.asarray(returned)
        except ValueError:
            found = np.asarray(None)
        if found.ndim == 0:
            raise TaskError(
                f"solve returned {shown(returned)}; it must return a decision of shape "
                f"{costs.shape}."
            )
        if found.shape != costs.shape or found.dtype.kind not in "fiub":
            raise TaskError(
                f"solve returned an array of shape {found.shape} and type {found.dtype}; it must "
                f"return a decision of shape {costs.shape}."
            )
        decision = found.astype(np.float64)
        if not np.isfinite(decision).all():
            raise TaskError("solve returned a decision with NaN or infinite entries.")
        return decision

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        senses = "minimise", "maximises"
        if self.maximize:
            senses = "maximise", "minimises"
        return (
            f"the function {name}, taken to {senses[0]}; if it {senses[1]}, give "
            f"SolvedBy(solve, maximize={not self.maximize})"
        )


def problem_of(value: Any) -> DecisionProblem:
    """The problem itself, or the one that a function solves.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if isinstance(value, DecisionProblem):
        return value
    if not callable(value):
        raise TypeError(
            f"problem is {shown(value)}; give a DecisionProblem such as ShortestPath, or a "
            "function solve(costs)."
        )
    return SolvedBy(value)
