"""Linear program over the cuts of a pool, with warm starts and checked solutions."""

from __future__ import annotations

import logging
from typing import NamedTuple

import highspy
import numpy as np

from structboost._typing import BoolArray, FloatArray, IntArray
from structboost.contract.parts import starts_of
from structboost.errors import SolverError
from structboost.solvers.bundle import CutPool
from structboost.solvers.milp import quiet_highs

logger = logging.getLogger(__name__)

_FREE = 1e30
# Without columns and cuts the optimum is 0.
_SOLVED = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kModelEmpty)
_OPTIONS = {
    # A large C multiplies what is left of infeasibility.
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
# Choice of the simplex method.
_STRATEGY, _DUAL, _PRIMAL = "simplex_strategy", 1, 4
# Gap up to which a solution is accepted, relative to the objective. The bound that users see does
# not rest on it: it is computed from multipliers that are feasible by construction.
_TOLERANCE = 1e-5
# HiGHS's tolerances are absolute: they fit losses of this size, and others get a unit.
_USUAL_LOSSES = 1e-3, 1e6
# The same where the norm is bounded, relative to the largest loss.
_TOLERANCE_OF_LOSS = 1e-7


class CutSolution(NamedTuple):
    """Checked optimum of a :class:`CutProgram`.

    Parameters
    ----------
    weights : ndarray, shape (n_columns,)
    slacks : ndarray, shape (n_slacks,)
    duals : ndarray, shape (n_cuts,)
        Not negative, and for each slack at most its cost in total.
    largest_edge : float
        Largest edge of a column against the duals, from 0.
    objective, bound : float
        Values of the primal and of the dual solution.
    """

    weights: FloatArray
    slacks: FloatArray
    duals: FloatArray
    largest_edge: float
    objective: float
    bound: float


class CutProgram:
    """Program ``min sum(w) + sum_s cost_s xi_s`` with ``A w + xi_s(r) >= b``, ``w, xi >= 0``.

    With one slack this is the 1-slack master over the cuts so far (line 5 of Algorithm 2 of
    StructBoost), with a slack for each example the m-slack master (35).  If the norm is bounded,
    weights cost nothing, and ``sum(w) <= norm`` (section III-D of MultiBoost.MO and .ECC).

    HiGHS gets the cuts that the pool gained and lost before the next solve, and keeps its basis.
    Every solution is checked in numpy.  If a check fails, the program is solved again from nothing,
    by the primal simplex method: the dual one fails at some costs from 1e5 on ("excessive dual
    values").  If that fails, too, :meth:`solve` raises SolverError.

    Parameters
    ----------
    pool : CutPool
        Pool of A, b, and the index of each cut's slack.
    norm : float, optional

    Attributes
    ----------
    unit : float
        Unit of the losses, weights and slacks in HiGHS, a power of 2.  It is 1 for losses of usual
        size, and if the norm is bounded.
    """

    def __init__(self, pool: CutPool, norm: float | None = None) -> None:
        self.unit = 1.0
        self.slack_costs = np.zeros(0)
        self._pool = pool
        self._norm = norm
        self._highs = quiet_highs()
        for option, value in _OPTIONS.items():
            self._highs.setOptionValue(option, value)
        # The cuts that HiGHS has, by their numbers: the first of the pool. Before them stands the
        # row of the norm.
        self._sent = np.zeros(0, np.int64)
        self._n_above = 0 if norm is None else 1
        # Columns of HiGHS.
        self._weight_at = np.zeros(0, np.int64)
        self._slack_at = np.zeros(0, np.int64)
        if norm is not None:
            self._highs.addRow(-_FREE, norm, 0, np.zeros(0, np.int32), np.zeros(0))

    def add_slacks(self, costs: FloatArray) -> None:
        """Append slacks of the given costs."""
        at = self._add_columns(costs, np.zeros((0, len(costs))))
        self._slack_at = np.concatenate((self._slack_at, at))
        self.slack_costs = np.concatenate((self.slack_costs, costs))

    def set_slack_costs(self, costs: FloatArray) -> None:
        """Change the costs of all slacks."""
        self.slack_costs = costs.copy()
        for at, cost in zip(self._slack_at, costs, strict=True):
            self._highs.changeColCost(int(at), float(cost))

    def set_norm(self, norm: float) -> None:
        """Change the bound of the norm."""
        self._norm = norm
        self._highs.changeRowBounds(0, -_FREE, norm)

    def keep_columns(self, in_use: BoolArray) -> None:
        """Drop the weights that are not ``kept``, as the pool does."""
        in_use = in_use[: len(self._weight_at)]
        gone = np.sort(self._weight_at[~in_use]).astype(np.int32)
        if len(gone):
            self._highs.deleteCols(len(gone), gone)
            self._weight_at = self._weight_at[in_use] - np.searchsorted(
                gone, self._weight_at[in_use]
            )
            self._slack_at = self._slack_at - np.searchsorted(gone, self._slack_at)

    def solve(self, *, cold: bool = False) -> CutSolution:
        """Solve the program, from nothing if ``cold``, else from where the last solve ended.

        SolverError if no solution passes the checks.
        """
        self._send()
        if cold:
            self._highs.clearSolver()
        solution, trouble = self._run()
        if trouble:
            logger.info("Restricted master: %s; solving again from scratch.", trouble)
            self._highs.clearSolver()
            self._highs.setOptionValue(_STRATEGY, _PRIMAL)
            solution, trouble = self._run()
            self._highs.setOptionValue(_STRATEGY, _DUAL)
        if trouble or solution is None:
            raise SolverError(
                f"The restricted master with {len(self._sent)} cuts and {len(self._weight_at)} "
                f"columns could not be solved: {trouble}. Scale the loss, or choose a smaller C "
                "or theta."
            )
        return solution

    def _send(self) -> None:
        pool = self._pool
        held = np.isin(self._sent, pool.numbers, assume_unique=True)
        if not held.all():
            gone = (self._n_above + np.flatnonzero(~held)).astype(np.int32)
            self._highs.deleteRows(len(gone), gone)
            self._sent = self._sent[held]
        self._choose_unit()
        n_sent, n_weights = len(self._sent), len(self._weight_at)
        products = pool.matrix[:n_sent, n_weights:]
        n = products.shape[1]
        if n:
            costs = np.ones(n) if self._norm is None else np.zeros(n)
            rows = np.vstack((np.ones((self._n_above, n)), products))
            self._weight_at = np.concatenate((self._weight_at, self._add_columns(costs, rows)))
        new = slice(n_sent, None)
        products, slacks = pool.matrix[new], pool.slacks[new]
        n = len(slacks)
        if n:
            cuts, columns = np.nonzero(products)
            at = np.concatenate((self._weight_at[columns], self._slack_at[slacks]))
            values = np.concatenate((products[cuts, columns], np.ones(n)))
            order = np.lexsort((at, np.concatenate((cuts, np.arange(n)))))
            starts = starts_of(np.bincount(cuts, minlength=n) + 1)[:-1]
            self._highs.addRows(
                n, pool.losses[new] / self.unit, np.full(n, _FREE), len(at),
                starts.astype(np.int32), at[order].astype(np.int32), values[order],
            )  # fmt: skip
            self._sent = pool.numbers.copy()

    def _choose_unit(self) -> None:
        """Take the largest loss as the unit if it is not of usual size.

        If losses and weights are multiplied by a number, the program is the same.
        """
        largest = self._pool.losses.max(initial=0.0)
        is_usual = _USUAL_LOSSES[0] <= largest <= _USUAL_LOSSES[1]
        unit = 1.0
        if not is_usual and largest and self._norm is None:
            # Products by a power of 2 are exact.
            unit = float(2.0 ** np.round(np.log2(largest)))
        if unit != self.unit:
            self.unit = unit
            for row, loss in enumerate(self._pool.losses[: len(self._sent)] / unit):
                self._highs.changeRowBounds(row, float(loss), _FREE)

    def _add_columns(self, costs: FloatArray, rows: FloatArray) -> IntArray:
        """Append columns of HiGHS with entries in its first rows, and return their indices."""
        n, first = len(costs), len(self._weight_at) + len(self._slack_at)
        columns, at = np.nonzero(rows.T)
        starts = starts_of(np.bincount(columns, minlength=n))[:-1]
        self._highs.addCols(
            n, costs, np.zeros(n), np.full(n, _FREE), len(at),
            starts.astype(np.int32), at.astype(np.int32), rows[at, columns],
        )  # fmt: skip
        return first + np.arange(n)

    def _run(self) -> tuple[CutSolution | None, str]:
        """Solve and check, and return a description of the failure or an empty text."""
        self._highs.run()
        status = self._highs.getModelStatus()
        if status not in _SOLVED:
            return None, f"HiGHS ended with the status {self._highs.modelStatusToString(status)!r}"
        solution, pool = self._highs.getSolution(), self._pool
        weights = self.unit * np.maximum(np.array(solution.col_value)[self._weight_at], 0.0)
        duals = np.maximum(np.array(solution.row_dual)[self._n_above :], 0.0)
        spent = np.bincount(pool.slacks, weights=duals, minlength=len(self.slack_costs))
        duals /= np.maximum(spent / np.maximum(self.slack_costs, 1e-300), 1.0)[pool.slacks]
        largest_edge = float((pool.matrix.T @ duals).max(initial=0.0))
        bound = float(duals @ pool.losses)
        if self._norm is None:
            bound /= max(1.0, largest_edge)
        else:
            weights = scaled_down(weights, self._norm)
            bound -= self._norm * largest_edge
        slacks = np.zeros(len(self.slack_costs))
        np.maximum.at(slacks, pool.slacks, pool.losses - pool.matrix @ weights)
        primal = float(self.slack_costs @ slacks)
        if self._norm is None:
            primal += float(weights.sum())
            tolerance = _TOLERANCE * max(self.unit, abs(primal))
        else:
            tolerance = _TOLERANCE_OF_LOSS * pool.losses.max(initial=1e-300)
        # Both are feasible by now: weak duality makes their gap a check of everything at once.
        if not np.isfinite(primal) or not primal - bound <= tolerance:
            return None, f"primal {primal!r} and dual {bound!r} of its solution differ"
        return CutSolution(weights, slacks, duals, largest_edge, primal, bound), ""


def scaled_down(weights: FloatArray, norm: float) -> FloatArray:
    """Scale weights down to a sum of at most ``norm``."""
    total = weights.sum()
    return weights * (norm / total) if total > norm else weights
