"""Contract of decision problems, which have linear costs of items and a solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from structboost._typing import FloatArray, override
from structboost.errors import TaskError, on_example
from structboost.inference.arguments import checked_costs, real_array
from structboost.runtime.called_class import Described
from structboost.solvers.milp import ProgramSolver
from structboost.validation import checked_flag, shown


class DecisionProblem(Described, ABC):
    """Choose a decision z of least cost ``c'z``, or of largest value if ``maximize`` is set.

    A subclass defines :meth:`solve`.  In training it is called with differences of costs: it must
    solve the problem for costs of either sign.  Instances must be picklable, and :meth:`solve` a
    pure function: where several decisions are optimal, its choice is the tie rule of the problem.

    Attributes
    ----------
    n_items : int or None
        Length of costs and decisions; None if it is not known.
    maximize : bool
        Whether costs are values, and the largest total is best.
    """

    n_items: int | None = None
    maximize: bool = False

    @abstractmethod
    def solve(self, costs: FloatArray) -> FloatArray:
        """Best decision at some costs.

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
            The decision that :meth:`solve` returns for each row.
        """
        costs = checked_costs(costs, self.n_items, 2)
        out = np.empty(costs.shape)
        for i, row in enumerate(costs):
            out[i] = on_example("solve", i, self.solve, row)
        return out

    def improve_all(self, costs: FloatArray, decisions: FloatArray) -> FloatArray:
        """Search for better decisions without an exact solve.

        Training that spares solves calls this first.  By default no decision is better.

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
        """Drop items that are selected only at negative cost.

        Training needs the best decision at costs of either sign, such as a flow with cycles.
        :meth:`PredictThenOptimize.predict` drops what nobody would do, such as the cycles.  By
        default nothing is dropped.

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
        """Whether a decision satisfies the constraints.

        By default True, which means unknown.

        Parameters
        ----------
        decision : ndarray, shape (n_items,)
            Finite entries.

        Returns
        -------
        feasible : bool
            False, rather than an error, where the decision is malformed.
        """
        return True

    def __str__(self) -> str:
        """Name of the problem and its sense, as errors show them."""
        return f"{type(self).__name__}, which {'maximises' if self.maximize else 'minimises'}"


class BatchProblem(DecisionProblem):
    """A problem that is solved for many costs at once, by the ``solve_all`` of a subclass."""

    @override
    def solve(self, costs: FloatArray) -> FloatArray:
        decision: FloatArray = self.solve_all(checked_costs(costs, self.n_items)[None])[0]
        return decision


def is_binary(decision: FloatArray, n_items: int | None) -> bool:
    """Return whether a decision is 0 or 1 on each item."""
    return decision.shape == (n_items,) and bool(np.isin(decision, (0.0, 1.0)).all())


class SolvedBy(DecisionProblem):
    """A problem that a function of the user solves.

    Parameters
    ----------
    solve : callable
        ``solve(costs)`` returns the best decision for costs of either sign, both of shape
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
        self._solve = solve
        self.maximize = checked_flag(maximize, "maximize")

    @override
    def solve(self, costs: FloatArray) -> FloatArray:
        # A function that sorts its costs in place would sort those of the user.
        costs = checked_costs(costs, self.n_items)
        try:
            returned = self._solve(costs.copy())
        except Exception as error:
            if (costs < 0).any():
                error.add_note(
                    "Some of its costs were below 0. Training asks for the best decision at costs "
                    "of either sign, so the solver must take them."
                )
            raise
        try:
            return real_array(returned, "The decision of solve", costs.shape).copy()
        except (TypeError, ValueError) as error:
            raise TaskError(str(error)) from None

    def __str__(self) -> str:
        name = getattr(self._solve, "__name__", type(self._solve).__name__)
        senses = ("maximise", "minimises") if self.maximize else ("minimise", "maximises")
        return (
            f"the function {name}, taken to {senses[0]}; if it {senses[1]}, give "
            f"SolvedBy(solve, maximize={not self.maximize})"
        )


def problem_of(value: Any) -> DecisionProblem:
    """Return the problem itself or that of a function, and refuse all else by TypeError."""
    if isinstance(value, DecisionProblem):
        return value
    if not callable(value) or isinstance(value, type):
        raise TypeError(
            f"problem is {shown(value)}; give a DecisionProblem such as ShortestPath, or a "
            "function solve(costs)."
        )
    return SolvedBy(value)


class LinearProgram(ProgramSolver, DecisionProblem):
    """The decision of least cost under linear constraints, some of its entries perhaps integers.

    ``A_ub z <= b_ub``, ``A_eq z == b_eq``, and bounds on each entry, as
    :func:`scipy.optimize.linprog` has them; the costs are what is predicted.  Programs without
    integers start each solve from the same feasible basis, so a decision depends on the costs only.
    Programs of zeros and ones are searched by the prices of their constraints first: with few
    constraints this takes a hundredth of the time of branching, which HiGHS does otherwise.

    Parameters
    ----------
    A_ub, A_eq : array-like or sparse array, shape (n_rows, n_items), optional
        Coefficients of the constraints.
    b_ub, b_eq : array-like, shape (n_rows,), optional
        Right-hand sides of the constraints.
    bounds : (float, float) or array-like, shape (n_items, 2)
        Smallest and largest value of all entries, or of each; None where there is none.
    integrality : bool or array-like of bool, shape (n_items,)
        Which entries must be whole numbers.
    maximize : bool
        Whether the largest total is best.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no constraints to say how many items there are, or a
        lower bound is above its upper one.
    """

    @override
    def solve(self, costs: FloatArray) -> FloatArray:
        return super().solve(checked_costs(costs, self.n_items))
