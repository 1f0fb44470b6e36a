"""Best solutions of one linear or integer program at many vectors of costs, by HiGHS.

Zeros and ones under a few constraints are searched first, from the prices of these.  With a price y
of each constraint, the value of an entry is what it gives less what it takes, ``r = c - A'y``.  No
solution is worth more than the bound at which each entry follows the sign of its r, and one that
departs from that in some entries is worth less than the bound by the sum of their ``|r|`` at least.
With the prices of the relaxation few sets of entries have a sum below the loss of the best
solution, and all of them are tried.

The bound is that of Lagrangian relaxation (Geoffrion, Lagrangean relaxation for integer
programming, Mathematical Programming Study 1974).
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import highspy
import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from structboost._typing import BoolArray, FloatArray
from structboost.errors import SolverError, TaskError
from structboost.runtime.compiled import compiled
from structboost.validation import checked_flag, checked_numbers, shown


def quiet_highs() -> Any:
    """Return a solver that prints nothing, not even its banner, and uses one thread.

    The scheduler of HiGHS is fixed by the first solve of a thread.
    """
    solver: Any = _Quiet()  # type: ignore[no-untyped-call]
    # Versions whose constructor does not call enableCallbacks.
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    return solver


class _Quiet(highspy.Highs):
    """Solver whose output is off before the constructor of HiGHS 1.16 prints its banner."""

    def enableCallbacks(self) -> None:
        """Turn the output off first, since the constructor prints the banner after this call."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


# Part of its size, and of 1, by which a search may pass a side.
_ROUNDING = 1e-9
# A solution is better where it is by this part of the largest value.
_LEAST_GAIN = 1e-9
# Entries that the first search may change all at once, about; each further one doubles the loss.
_FIRST_ENTRIES = 8


class SearchedSolution(NamedTuple):
    """The best solution that a search came to, and whether no other one is better."""

    solution: FloatArray | None
    is_proven: bool


def search_binary(
    values: FloatArray,
    rows: FloatArray,
    sides: FloatArray,
    prices: FloatArray,
    bounds: FloatArray,
    most_nodes: int,
) -> SearchedSolution:
    """Search for zeros and ones z of the largest ``values'z`` with ``low <= rows z <= high``.

    Parameters
    ----------
    values : ndarray, shape (n_items,)
    rows : ndarray, shape (n_rows, n_items)
    sides : ndarray, shape (2, n_rows)
        Low and high sides; minus and plus infinity where there is none.
    prices : ndarray, shape (n_rows,)
        What a unit of the high side is worth, negative for the low one.  The better they are, the
        shorter is the search.
    bounds : ndarray, shape (n_items, 2)
        Smallest and largest value of each entry, 0 or 1.
    most_nodes : int
        Sets of entries after which the search gives up.

    Returns
    -------
    result : SearchedSolution
    """
    # A side that is not there has no price.
    prices = np.where(np.isfinite(np.where(prices > 0, sides[1], sides[0])), prices, 0.0)
    reduced = values - rows.T @ prices
    base = np.clip((reduced > 0).astype(np.float64), *bounds.T)
    spent = np.where(prices > 0, sides[1], np.where(prices < 0, sides[0], 0.0))
    excess = float(prices @ spent + reduced @ base - values @ base)
    # Above 0 even then: of solutions of no worth, one is enough.
    least = _LEAST_GAIN * np.abs(values).max(initial=0.0) or np.finfo(np.float64).tiny

    is_free = bounds[:, 0] < bounds[:, 1]
    order = np.argsort(np.abs(reduced), kind="stable")
    order = order[is_free[order]]
    signs, sizes = 1.0 - 2.0 * base[order], np.abs(reduced[order])
    moves = np.ascontiguousarray((rows[:, order] * signs).T)
    # What all entries from each one on can lower and raise.
    repair = np.zeros((2, len(order) + 1, len(rows)))
    repair[0, :-1] = np.minimum(moves, 0.0)[::-1].cumsum(axis=0)[::-1]
    repair[1, :-1] = np.maximum(moves, 0.0)[::-1].cumsum(axis=0)[::-1]
    size = np.where(np.isfinite(sides), np.abs(sides), 0.0)
    passed = sides + np.array([[-_ROUNDING], [_ROUNDING]]) * (1.0 + size)

    budget = max(sizes[:_FIRST_ENTRIES].max(initial=0.0), least)
    total = sizes.sum()
    while True:
        loss, flips, n_nodes = _search(
            values[order] * signs, sizes, moves, repair, rows @ base, passed, excess, budget,
            most_nodes, least,
        )  # fmt: skip
        most_nodes -= n_nodes
        is_proven = most_nodes > 0 and (loss <= budget + least or budget >= total)
        if is_proven or most_nodes <= 0:
            break
        # Nothing below the loss of a solution is left out next time.
        budget = min(2.0 * budget, loss)
    if loss == np.inf:
        return SearchedSolution(None, is_proven)
    base[order] = np.where(flips, 1.0 - base[order], base[order])
    return SearchedSolution(base, is_proven)


@compiled
def _search(
    gains: FloatArray,
    sizes: FloatArray,
    moves: FloatArray,
    repair: FloatArray,
    activity: FloatArray,
    sides: FloatArray,
    excess: float,
    budget: float,
    most_nodes: int,
    least: float,
) -> tuple[float, BoolArray, int]:
    """Try sets of entries whose sizes, which ascend, have a sum of at most a budget, depth first.

    Returns the smallest loss, infinite without a solution, its set, and how many sets were tried.
    """
    n, n_rows = len(sizes), len(activity)
    now, stack, depth = activity.copy(), np.empty(n + 1, np.int64), 0
    is_flipped, best_flips = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    # Excess over the bound of the present set, and the sum of its sizes.
    loss, spent, best, n_nodes, entry = excess, 0.0, np.inf, 0, 0
    while True:
        n_nodes += 1
        is_feasible, is_repairable = True, True
        for i in range(n_rows):
            if now[i] < sides[0, i]:
                is_feasible = False
                is_repairable &= now[i] + repair[1, entry, i] >= sides[0, i]
            elif now[i] > sides[1, i]:
                is_feasible = False
                is_repairable &= now[i] + repair[0, entry, i] <= sides[1, i]
        if is_feasible and loss < best - least:
            best = loss
            best_flips[:] = is_flipped
            budget = min(budget, best - least)
        if n_nodes >= most_nodes:
            return best, best_flips, n_nodes
        if not is_repairable:
            entry = n
        # One more entry, or else the one after the last.
        while entry >= n or spent + sizes[entry] > budget:
            if depth == 0:
                return best, best_flips, n_nodes
            depth -= 1
            entry = stack[depth]
            is_flipped[entry] = False
            spent, loss = spent - sizes[entry], loss + gains[entry]
            for i in range(n_rows):
                now[i] -= moves[entry, i]
            entry += 1
        stack[depth] = entry
        depth += 1
        is_flipped[entry] = True
        spent, loss = spent + sizes[entry], loss - gains[entry]
        for i in range(n_rows):
            now[i] += moves[entry, i]
        entry += 1


_STATUS = highspy.HighsModelStatus
# Largest costs that HiGHS gets as they are.
_USUAL_COSTS = 1e-3, 1e6
_OPTIONS = {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-9}
# Violation up to which a constraint counts as satisfied.
_SLIP = 1e-6
# Sets of entries that are tried before HiGHS branches, and where solves are spared.
_MOST_SETS, _MOST_SETS_SPARED = 1 << 18, 1 << 15
# Entries of a matrix of constraints that a search holds as a table.
_MOST_ENTRIES = 1 << 20


class ProgramSolver:
    """Solver of a linear or integer program whose costs come with each solve.

    The constraints are those of :func:`scipy.optimize.linprog`.  A program without integers starts
    each solve from the same feasible basis, so a solution depends on the costs only.

    Parameters
    ----------
    A_ub, b_ub, A_eq, b_eq, bounds, integrality, maximize
        As for :class:`structboost.decisions.LinearProgram`.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no constraints to say how many items there are, or a
        lower bound is above its upper one.
    """

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        *,
        bounds: Any = (0.0, 1.0),
        integrality: Any = False,
        maximize: bool = False,
    ) -> None:
        ub, eq = _rows(A_ub, b_ub, "ub"), _rows(A_eq, b_eq, "eq")
        sides = [side for side in (ub, eq) if side is not None]
        if not sides or len({rows.shape[1] for rows, _ in sides}) > 1:
            raise ValueError(
                "A_ub and A_eq are both None, or differ in their number of columns; give a column "
                "for each item."
            )
        self.matrix = vstack([rows for rows, _ in sides]).tocsr()
        self.high = np.concatenate([b for _, b in sides])
        is_ub = np.arange(len(self.high)) < (0 if ub is None else len(ub[1]))
        self.low = np.where(is_ub, -np.inf, self.high)
        n_items = int(self.matrix.shape[1])
        self.n_items: int | None = n_items
        self.maximize = checked_flag(maximize, "maximize")
        table = _numbers(bounds, ((2,), (n_items, 2)), "bounds", "a pair, or a pair for each item")
        # None became NaN.
        table = np.where(np.isnan(table), (-np.inf, np.inf), table)
        self.bounds: FloatArray = np.broadcast_to(table, (n_items, 2)).copy()
        crossed = np.flatnonzero(self.bounds[:, 0] > self.bounds[:, 1])
        if len(crossed):
            raise ValueError(
                f"The bounds of item {crossed[0]} are {self.bounds[crossed[0]].tolist()}; the "
                "first must not be above the second."
            )
        wanted = "True or False, or one for each item"
        whole = _numbers(integrality, ((), (n_items,)), "integrality", wanted)
        if not np.isin(whole, (0.0, 1.0)).all():
            raise ValueError(f"integrality is {shown(integrality)}; give {wanted}.")
        self.integrality: BoolArray = np.broadcast_to(whole > 0, n_items).copy()
        self._local = threading.local()

    def solve(self, costs: FloatArray) -> FloatArray:
        """Solution of least or largest ``costs'z``, with exact integers.

        Parameters
        ----------
        costs : ndarray, shape (n_items,)
            Finite costs of either sign.

        Returns
        -------
        solution : ndarray, shape (n_items,)
            The entries z.

        Raises
        ------
        TaskError
            If the program is infeasible, or unbounded at these costs, or there is no cost for each
            item.
        SolverError
            If HiGHS gives up.
        """
        n = len(costs)
        if n != self.n_items:
            raise TaskError(f"There are {n} costs for {self.n_items} items; give one for each.")
        objective = np.asarray(costs, np.float64)
        # The tolerances of HiGHS are absolute: it takes costs below them for zero.
        size = np.abs(objective).max(initial=0.0)
        if size and not _USUAL_COSTS[0] <= size <= _USUAL_COSTS[1]:
            objective = objective / size
        searched = self._search(objective, _MOST_SETS)
        if searched.solution is not None and searched.is_proven:
            return searched.solution
        highs = self._run_at(objective)
        solution: FloatArray = np.array(highs.getSolution().col_value, np.float64)
        solution[self.integrality] = np.round(solution[self.integrality])
        return solution

    def is_feasible(self, solution: FloatArray) -> bool:
        """Return whether all constraints hold, to 1e-6.

        Parameters
        ----------
        solution : ndarray, shape (n_items,)
            What may be a solution.
        """
        if solution.shape != self.integrality.shape:
            return False
        rows = self.matrix @ solution
        fraction = np.abs(solution - np.round(solution))[self.integrality]
        return bool(
            (solution >= self.bounds[:, 0] - _SLIP).all()
            and (solution <= self.bounds[:, 1] + _SLIP).all()
            and (fraction <= _SLIP).all()
            and (rows >= self.low - _SLIP).all()
            and (rows <= self.high + _SLIP).all()
        )

    def improve_all(self, costs: FloatArray, solutions: FloatArray) -> FloatArray:
        """Search for better solutions of zeros and ones, by a short search for the best one.

        Solutions of other programs are left as they are.

        Parameters
        ----------
        costs, solutions : ndarray, shape (n, n_items)
            Costs of either sign, and feasible solutions.

        Returns
        -------
        solutions : ndarray, shape (n, n_items)
            Feasible solutions, none worse than that of its row.
        """
        improved = solutions.copy()
        sign = -1.0 if self.maximize else 1.0
        for prices, z in zip(costs, improved, strict=True):
            best = self._search(prices, _MOST_SETS_SPARED).solution
            if best is not None and sign * prices @ best < sign * prices @ z:
                z[:] = best
        return improved

    def __getstate__(self) -> dict[str, Any]:
        # Solvers of HiGHS cannot be pickled.
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())

    def _search(self, objective: FloatArray, most_sets: int) -> SearchedSolution:
        """Search for the best zeros and ones by the prices of the relaxation, if there are few."""
        is_binary = self.integrality.all() and np.isin(self.bounds, (0.0, 1.0)).all()
        if not is_binary or len(self.low) * len(self.bounds) > _MOST_ENTRIES:
            return SearchedSolution(None, is_proven=False)
        try:
            relaxed = self._run_at(objective, is_relaxed=True).getSolution()
        except (TaskError, SolverError):  # HiGHS will say so of the program itself
            return SearchedSolution(None, is_proven=False)
        sign = 1.0 if self.maximize else -1.0
        prices = sign * np.array(relaxed.row_dual, np.float64)
        sides = np.array((self.low, self.high))
        rows = self.matrix.toarray()
        return search_binary(sign * objective, rows, sides, prices, self.bounds, most_sets)

    def _run_at(self, objective: FloatArray, *, is_relaxed: bool = False) -> Any:
        """Solve at some costs, from the same start each time, and return the solver."""
        highs, basis = self._solver(is_relaxed or not self.integrality.any())
        highs.changeColsCost(len(objective), np.arange(len(objective), dtype=np.int32), objective)
        # Nothing of the last solve is left, not even its rounding.
        highs.clearSolver()
        if basis is not None:
            highs.setBasis(basis)
        _run(highs)
        return highs

    def _solver(self, is_relaxed: bool) -> tuple[Any, Any]:
        """Solver of this thread, of the program or of its relaxation, and the basis to start at."""
        solvers: dict[bool, tuple[Any, Any]] = vars(self._local).setdefault("solvers", {})
        if is_relaxed not in solvers:
            highs = quiet_highs()
            for option, value in _OPTIONS.items():
                highs.setOptionValue(option, value)
            lp = highspy.HighsLp()
            lp.num_row_, lp.num_col_ = self.matrix.shape
            lp.col_cost_ = np.zeros(lp.num_col_)
            lp.col_lower_, lp.col_upper_ = self.bounds.T.copy()
            lp.row_lower_, lp.row_upper_ = self.low, self.high
            lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
            lp.a_matrix_.start_ = self.matrix.indptr.astype(np.int32)
            lp.a_matrix_.index_ = self.matrix.indices.astype(np.int32)
            lp.a_matrix_.value_ = self.matrix.data
            lp.sense_ = highspy.ObjSense.kMaximize if self.maximize else highspy.ObjSense.kMinimize
            if not is_relaxed:
                lp.integrality_ = [highspy.HighsVarType(int(whole)) for whole in self.integrality]
            highs.passModel(lp)
            basis = None
            if is_relaxed:
                _run(highs)
                basis = highs.getBasis()
            solvers[is_relaxed] = highs, basis
        return solvers[is_relaxed]


def _run(highs: Any) -> None:
    """Solve, and raise unless an optimum is found."""
    highs.run()
    status = highs.getModelStatus()
    if status == _STATUS.kUnboundedOrInfeasible:
        highs.setOptionValue("presolve", "off")
        highs.run()
        status = highs.getModelStatus()
        highs.setOptionValue("presolve", "choose")
    if status == _STATUS.kInfeasible:
        raise TaskError("The program is infeasible: no decision satisfies all constraints.")
    if status in (_STATUS.kUnbounded, _STATUS.kUnboundedOrInfeasible):
        raise TaskError(
            "The program is unbounded at some costs, and training uses costs of either sign; give "
            "every entry finite bounds."
        )
    if status != _STATUS.kOptimal:
        raise SolverError(f"HiGHS ended with the status {status.name}, without an optimum.")


def _rows(matrix: Any, b: Any, name: str) -> Any:
    """Return coefficients and sides of one sort of constraints, or None without any."""
    if matrix is None:
        return None
    rows = matrix if issparse(matrix) else checked_numbers(matrix, f"A_{name}")
    sides = checked_numbers(b, f"b_{name}")
    if rows.ndim != 2 or sides.shape != rows.shape[:1]:
        raise ValueError(
            f"A_{name} has shape {rows.shape} and b_{name} {sides.shape}; give an entry of b_{name}"
            " for each row."
        )
    rows = csr_array(rows)
    if not (np.isfinite(rows.data).all() and np.isfinite(sides).all()):
        raise ValueError(f"A_{name} or b_{name} has NaN or infinite entries; leave such rows out.")
    return rows, sides


def _numbers(values: Any, shapes: tuple[Any, ...], name: str, wanted: str) -> FloatArray:
    """Values as an array of one of the shapes, or ValueError with what is wanted."""
    try:
        table = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)
    if table.shape not in shapes:
        raise ValueError(f"{name} is {shown(values)}; give {wanted}.")
    return table
