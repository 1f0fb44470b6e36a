"""Linear and integer programs, solved by HiGHS."""

from __future__ import annotations

import threading
from typing import Any

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, vstack

from structboost._typing import FloatArray
from structboost.decisions.paths import check_reachable, checked_arcs, checked_node, path_within
from structboost.decisions.problem import DecisionProblem, check_length
from structboost.exceptions import SolverError, TaskError
from structboost.solvers.highs import quiet_highs
from structboost.validation import shown

_STATUS = highspy.HighsModelStatus
# Largest costs that HiGHS gets as they are.
_USUAL_COSTS = 1e-3, 1e6
_OPTIONS = {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-9}


class LinearProgram(DecisionProblem):
    """The decision of least cost under linear constraints, some of its entries perhaps integers.

    ``A_ub z <= b_ub``, ``A_eq z == b_eq``, and bounds on each entry, as
    :func:`scipy.optimize.linprog` has them; the costs are what is predicted.  Programs without
    integers start each solve from the same feasible basis, so a decision depends on the costs only.

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

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: ArrayLike | None = None,
        A_eq: Any = None,
        b_eq: ArrayLike | None = None,
        *,
        bounds: Any = (0.0, 1.0),
        integrality: Any = False,
        maximize: bool = False,
    ) -> None:
        sides = [_rows(A_ub, b_ub, "ub"), _rows(A_eq, b_eq, "eq")]
        given = [side for side in sides if side is not None]
        if not given or len({matrix.shape[1] for matrix, _ in given}) > 1:
            raise ValueError(
                "A_ub and A_eq are both None, or differ in their number of columns; give a column "
                "for each item."
            )
        self._matrix = vstack([matrix for matrix, _ in given]).tocsr()
        self._high = np.concatenate([b for _, b in given])
        n_ub = 0 if sides[0] is None else len(sides[0][1])
        self._low = np.where(np.arange(len(self._high)) < n_ub, -np.inf, self._high)
        self.n_items = int(self._matrix.shape[1])
        self.bounds = _checked_bounds(bounds, self.n_items)
        self.integrality = _broadcast(integrality, bool, (self.n_items,), "integrality")
        self.maximize = maximize
        self._local = threading.local()

    @classmethod
    def from_highs(cls, model: highspy.Highs) -> LinearProgram:
        """The constraints, bounds, integers and sense of a model of HiGHS, not its costs.

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
        ValueError
            If a variable is semi-continuous or semi-integer.
        """
        lp = model.getLp()
        kinds = highspy.HighsVarType
        semi = [k in (kinds.kSemiContinuous, kinds.kSemiInteger) for k in lp.integrality_]
        if any(semi):
            raise ValueError(
                f"Variable {semi.index(True)} of the model is semi-continuous or semi-integer; "
                "write it as a variable from 0, bounded by an integer switch."
            )
        shape = (lp.num_row_, lp.num_col_)
        rows = [model.getRowEntries(r) for r in range(shape[0])]
        indptr = np.cumsum([0, *(len(index) for _, index, _ in rows)])
        # A program may have bounds only.
        indices = np.concatenate([np.zeros(0, int), *(index for _, index, _ in rows)])
        values = np.concatenate([np.zeros(0), *(value for _, _, value in rows)])
        matrix = csr_array((values, indices, indptr), shape=shape)
        low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
        above, below = high < highspy.kHighsInf, low > -highspy.kHighsInf
        program = cls(
            vstack([matrix[above], -matrix[below]]),
            np.concatenate((high[above], -low[below])),
            bounds=np.column_stack((lp.col_lower_, lp.col_upper_)),
            integrality=[kind != kinds.kContinuous for kind in lp.integrality_]
            if len(lp.integrality_)
            else False,
            maximize=lp.sense_ == highspy.ObjSense.kMaximize,
        )
        return program

    def solve(self, costs: FloatArray) -> FloatArray:
        """The best decision; integers are exact.

        Raises
        ------
        TaskError
            If the program is infeasible, or unbounded at these costs.
        SolverError
            If HiGHS gives up.
        """
        highs, basis = self._solver()
        check_length(costs, self.n_items)
        n = len(costs)
        objective = np.asarray(costs, np.float64)
        # The tolerances of HiGHS are absolute: it takes costs below them for zero.
        size = np.abs(objective).max(initial=0.0)
        if size and not _USUAL_COSTS[0] <= size <= _USUAL_COSTS[1]:
            objective = objective / size
        highs.changeColsCost(n, np.arange(n, dtype=np.int32), objective)
        # Nothing of the last solve is left, not even its rounding.
        highs.clearSolver()
        if basis is not None:
            highs.setBasis(basis)
        self._run(highs)
        decision: FloatArray = np.array(highs.getSolution().col_value, np.float64)
        decision[self.integrality] = np.round(decision[self.integrality])
        return decision

    def is_feasible(self, decision: FloatArray) -> bool:
        """Whether all constraints hold, to 1e-6."""
        slip = 1e-6
        if decision.shape != (self.n_items,):
            return False
        rows = self._matrix @ decision
        inside = (decision >= self.bounds[:, 0] - slip) & (decision <= self.bounds[:, 1] + slip)
        whole = np.abs(decision - np.round(decision))[self.integrality] <= slip
        kept = (rows >= self._low - slip) & (rows <= self._high + slip)
        return bool(inside.all() and whole.all() and kept.all())

    def __getstate__(self) -> dict[str, Any]:
        # Solvers stay where they are.
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())

    def _solver(self) -> tuple[Any, Any]:
        """The solver of this thread, and the basis that it starts from."""
        if not hasattr(self._local, "solver"):
            highs = quiet_highs()
            for option, value in _OPTIONS.items():
                highs.setOptionValue(option, value)
            highs.passModel(self._model())
            basis = None
            if not self.integrality.any():
                self._run(highs)
                basis = highs.getBasis()
            self._local.solver = highs, basis
        solver: tuple[Any, Any] = self._local.solver
        return solver

    def _model(self) -> Any:
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = self._matrix.shape
        lp.col_cost_ = np.zeros(self._matrix.shape[1])
        lp.col_lower_, lp.col_upper_ = self.bounds[:, 0].copy(), self.bounds[:, 1].copy()
        lp.row_lower_, lp.row_upper_ = self._low, self._high
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = self._matrix.indptr.astype(np.int32)
        lp.a_matrix_.index_ = self._matrix.indices.astype(np.int32)
        lp.a_matrix_.value_ = self._matrix.data
        lp.sense_ = highspy.ObjSense.kMaximize if self.maximize else highspy.ObjSense.kMinimize
        kinds = highspy.HighsVarType
        if self.integrality.any():
            lp.integrality_ = [
                kinds.kInteger if whole else kinds.kContinuous for whole in self.integrality
            ]
        return lp

    def _run(self, highs: Any) -> None:
        highs.run()
        status = highs.getModelStatus()
        if status == _STATUS.kUnboundedOrInfeasible:
            highs.setOptionValue("presolve", "off")
            highs.run()
            status = highs.getModelStatus()
            highs.setOptionValue("presolve", "choose")
        if status == _STATUS.kInfeasible:
            raise TaskError("The program is infeasible: no decision keeps all constraints.")
        if status in (_STATUS.kUnbounded, _STATUS.kUnboundedOrInfeasible):
            raise TaskError(
                "The program is unbounded at some costs, and training asks for costs of either "
                "sign; give every entry finite bounds."
            )
        if status != _STATUS.kOptimal:
            raise SolverError(f"HiGHS ended with the status {status.name}, without an optimum.")


class ShortestPath(LinearProgram):
    """The cheapest unit of flow from one node to another; the items are arcs, cycles are allowed.

    In training, costs of either sign occur, and the cheapest path without repeated nodes is then
    hard to find.  A flow may contain cycles beside its path, where they pay; at costs above 0 it
    is the shortest path.  :meth:`simplify_all` leaves the cycles out.  Take :class:`AcyclicPath`
    for acyclic graphs: it is compiled.

    Parameters
    ----------
    arcs : array-like of int, shape (n_arcs, 2)
        Tail and head of each arc: nodes, numbered from 0.
    source, target : int
        Where the path begins and ends.
    """

    def __init__(self, arcs: Any, source: int, target: int) -> None:
        self.arcs = checked_arcs(arcs)
        self.source, self.target = checked_node(source, "source"), checked_node(target, "target")
        check_reachable(self.arcs, self.source, self.target)
        n_nodes, n_arcs = int(self.arcs.max()) + 1, len(self.arcs)
        ends = self.arcs.T.ravel()
        signs = np.repeat([1.0, -1.0], n_arcs)
        balance = csr_array((signs, (ends, np.tile(np.arange(n_arcs), 2))), (n_nodes, n_arcs))
        leaves = np.zeros(n_nodes)
        leaves[self.source], leaves[self.target] = 1.0, -1.0
        super().__init__(A_eq=balance, b_eq=leaves)

    def solve(self, costs: FloatArray) -> FloatArray:
        """1 on the arcs used."""
        # No arc is used minus zero times.
        return np.round(super().solve(costs)) + 0.0

    def simplify_all(self, decisions: FloatArray) -> FloatArray:
        """The path of each flow, without its cycles; of several paths, one of the fewest arcs."""
        ends = self.source, self.target
        return np.array([path_within(self.arcs, *ends, flow) for flow in decisions])


def _rows(matrix: Any, b: Any, name: str) -> Any:
    """Checked constraints of one sort, or None."""
    if matrix is None:
        return None
    rows = csr_array(matrix)
    sides = np.asarray(b, np.float64)
    if rows.ndim != 2 or sides.shape != rows.shape[:1]:
        raise ValueError(
            f"A_{name} has shape {rows.shape} and b_{name} {sides.shape}; give an entry of b_{name}"
            " for each row."
        )
    if not (np.isfinite(rows.data).all() and np.isfinite(sides).all()):
        raise ValueError(f"A_{name} or b_{name} has NaN or infinite entries; leave such rows out.")
    return rows, sides


def _broadcast(values: Any, dtype: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Values for all items or for each, as an array of ``shape``."""
    try:
        return np.broadcast_to(np.asarray(values, dtype), shape).copy()
    except (TypeError, ValueError):
        wanted = "a pair, or a pair" if len(shape) == 2 else "one value, or one"
        raise ValueError(
            f"{name} is {shown(values)}; give {wanted} for each of {shape[0]} items."
        ) from None


def _checked_bounds(bounds: Any, n_items: int) -> FloatArray:
    """Bounds of each item; None, which is NaN by now, is no bound."""
    table: FloatArray = _broadcast(bounds, np.float64, (n_items, 2), "bounds")
    table = np.where(np.isnan(table), (-np.inf, np.inf), table)
    wrong = np.flatnonzero(table[:, 0] > table[:, 1])
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"The bounds of item {i} are {table[i].tolist()}; the first must not be above the "
            "second."
        )
    return table
