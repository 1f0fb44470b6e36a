"""Linear and integer programs, solved by HiGHS."""

from __future__ import annotations

import highspy
import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from structboost._typing import FloatArray, override
from structboost.decisions.problem import DecisionProblem
from structboost.solvers.linear_program import ProgramSolver
from structboost.tasks.checks import checked_costs
from structboost.validation import shown


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

    @classmethod
    def from_highs(cls, model: highspy.Highs) -> LinearProgram:
        """Take constraints, bounds, integers and sense of a model of HiGHS, not its costs.

        Parameters
        ----------
        model : highspy.Highs
            The model; its variables are the items.

        Returns
        -------
        program : LinearProgram
            The problem of its constraints.

        Raises
        ------
        TypeError
            If it is no model of HiGHS.
        ValueError
            If a variable is semi-continuous or semi-integer.
        """
        if not isinstance(model, highspy.Highs):
            raise TypeError(f"model is {shown(model)}; give a highspy.Highs.")
        lp, kinds = model.getLp(), highspy.HighsVarType
        semi = [k in (kinds.kSemiContinuous, kinds.kSemiInteger) for k in lp.integrality_]
        if any(semi):
            raise ValueError(
                f"Variable {semi.index(True)} of the model is semi-continuous or semi-integer; "
                "write it as a variable from 0, bounded by an integer switch."
            )
        entries = lp.a_matrix_.value_, lp.a_matrix_.index_, lp.a_matrix_.start_
        by_column = lp.a_matrix_.format_ == highspy.MatrixFormat.kColwise
        array = csc_array if by_column else csr_array
        matrix = array(entries, shape=(lp.num_row_, lp.num_col_)).tocsr()
        low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
        above, below = high < highspy.kHighsInf, low > -highspy.kHighsInf
        return cls(
            vstack([matrix[above], -matrix[below]]),
            np.concatenate((high[above], -low[below])),
            bounds=np.column_stack((lp.col_lower_, lp.col_upper_)),
            integrality=[kind != kinds.kContinuous for kind in lp.integrality_] or False,
            maximize=lp.sense_ == highspy.ObjSense.kMaximize,
        )
