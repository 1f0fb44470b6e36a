"""The restricted master as a linear program: checked, warm started, growing in rows and columns."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import SolverError

logger = logging.getLogger(__name__)

_FREE = 1e30
_OPTIONS = {
    "output_flag": False,
    # The programs are small, and the scheduler is fixed by the first solve of a thread.
    "threads": 1,
    # A large C multiplies what is left of infeasibility.
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
# Relative gap up to which an answer is accepted. The bound that users see does not rest on it: it is
# computed from multipliers that are feasible by construction.
_TOLERANCE = 1e-5


def new_highs() -> Any:
    """A HiGHS solver with our options."""
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in _OPTIONS.items():
        highs_call(highs.setOptionValue(option, value))
    return highs


def highs_call(status: Any) -> None:
    """HiGHS reports errors by return codes only.

    Raises
    ------
    SolverError
        If it reports one.
    """
    if status == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refused a change of the restricted master; please report this as a bug.")


class HingeSolution(NamedTuple):
    """Checked optimum of a :class:`HingeProgram`."""

    weights: NDArray[np.float64]
    slacks: NDArray[np.float64]
    duals: NDArray[np.float64]
    objective: float


class HingeProgram:
    """``min sum(w) + sum_s cost_s xi_s`` subject to ``A w + xi_s(r) >= b``, ``w, xi >= 0``.

    With one slack this is the 1-slack master over the cuts so far (line 5 of Algorithm 2), with a slack for each
    example the m-slack master (35).  HiGHS keeps its basis from solve to solve; every answer is checked here
    in numpy, then solved cold, then refused.
    """

    def __init__(self) -> None:
        self.matrix = np.zeros((0, 0))
        self.losses = np.zeros(0)
        self.row_slacks = np.zeros(0, np.int64)
        self._n_sent = 0
        self.slack_costs = np.zeros(0)
        self.cold_solves = 0
        self._highs = new_highs()
        self._weight_at = np.zeros(0, np.int64)
        self._slack_at = np.zeros(0, np.int64)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.losses)

    def add_slacks(self, costs: NDArray[np.float64]) -> None:
        """Append slacks of the given costs."""
        n = len(costs)
        self._slack_at = np.concatenate((self._slack_at, self._next_column() + np.arange(n)))
        self._add_empty_columns(costs)
        self.slack_costs = np.concatenate((self.slack_costs, costs))

    def set_slack_costs(self, costs: NDArray[np.float64]) -> None:
        """Change the costs of all slacks (another C)."""
        self.slack_costs = costs.copy()
        for at, cost in zip(self._slack_at, costs, strict=True):
            highs_call(self._highs.changeColCost(int(at), float(cost)))

    def add_columns(self, products: NDArray[np.float64]) -> None:
        """Append weights; ``products`` has shape (n_rows, n_new)."""
        n = products.shape[1]
        rows, columns = np.nonzero(products[: self._n_sent].T)[::-1]
        starts = np.concatenate(([0], np.cumsum(np.bincount(columns, minlength=n))))[:-1]
        self._weight_at = np.concatenate((self._weight_at, self._next_column() + np.arange(n)))
        highs_call(
            self._highs.addCols(
                n, np.ones(n), np.zeros(n), np.full(n, _FREE), len(rows),
                starts.astype(np.int32), rows.astype(np.int32), products[rows, columns],
            )
        )  # fmt: skip
        self.matrix = np.hstack((self.matrix, products))

    def add_rows(self, products: NDArray[np.float64], losses: NDArray[np.float64], slacks: NDArray[np.int64]) -> None:
        """Append rows; ``products`` has shape (n_new, n_weights).  HiGHS sees them at the next :meth:`solve`."""
        self.matrix = np.vstack((self.matrix, products))
        self.losses = np.concatenate((self.losses, losses))
        self.row_slacks = np.concatenate((self.row_slacks, slacks))

    def _send_rows(self) -> None:
        """Give HiGHS the rows that it has not seen; many come and go between two solves."""
        products, slacks = self.matrix[self._n_sent :], self.row_slacks[self._n_sent :]
        n = len(slacks)
        if n == 0:
            return
        rows, columns = np.nonzero(products)
        at = np.concatenate((self._weight_at[columns], self._slack_at[slacks]))
        values = np.concatenate((products[rows, columns], np.ones(n)))
        order = np.lexsort((at, np.concatenate((rows, np.arange(n)))))
        starts = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n) + 1)))[:-1]
        highs_call(
            self._highs.addRows(
                n, self.losses[self._n_sent :], np.full(n, _FREE), len(at),
                starts.astype(np.int32), at[order].astype(np.int32), values[order],
            )
        )  # fmt: skip
        self._n_sent += n

    def keep_rows(self, kept: NDArray[np.bool_]) -> None:
        """Drop the rows that are not ``kept``."""
        gone = np.flatnonzero(~kept[: self._n_sent]).astype(np.int32)
        if len(gone):
            highs_call(self._highs.deleteRows(len(gone), gone))
            self._n_sent -= len(gone)
        if not kept.all():
            self.matrix = self.matrix[kept]
            self.losses = self.losses[kept]
            self.row_slacks = self.row_slacks[kept]

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the weights that are not ``kept``."""
        gone = np.sort(self._weight_at[~kept]).astype(np.int32)
        if len(gone):
            highs_call(self._highs.deleteCols(len(gone), gone))
            self.matrix = self.matrix[:, kept]
            self._weight_at = self._weight_at[kept] - np.searchsorted(gone, self._weight_at[kept])
            self._slack_at = self._slack_at - np.searchsorted(gone, self._slack_at)

    def solve(self, *, cold: bool = False) -> HingeSolution:
        """Optimum of the program.

        Parameters
        ----------
        cold : bool
            Whether to begin from nothing, not from where the last solve ended.

        Raises
        ------
        SolverError
            If neither the warm nor a cold solve gives an answer that passes the checks.
        """
        self._send_rows()
        if cold:
            highs_call(self._highs.clearSolver())
        solution, trouble = self._run()
        if trouble:
            logger.info("Restricted master: %s; solving again from scratch.", trouble)
            self.cold_solves += 1
            highs_call(self._highs.clearSolver())
            solution, trouble = self._run()
        if trouble or solution is None:
            raise SolverError(
                f"The restricted master with {self.n_rows} rows and {len(self._weight_at)} columns could "
                f"not be solved: {trouble}. Scale the loss or choose a smaller C."
            )
        return solution

    def _run(self) -> tuple[HingeSolution | None, str]:
        """Solve and check; the second value says what is wrong, empty if nothing is."""
        self._highs.run()
        status = self._highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            return None, f"HiGHS ended with the status {self._highs.modelStatusToString(status)!r}"
        answer = self._highs.getSolution()
        values = np.array(answer.col_value)
        weights = np.maximum(values[self._weight_at], 0.0)
        duals = np.maximum(np.array(answer.row_dual), 0.0)
        spent = np.bincount(self.row_slacks, weights=duals, minlength=len(self.slack_costs))
        excess = np.maximum(spent / np.maximum(self.slack_costs, 1e-300), 1.0)
        margins = self.losses - self.matrix @ weights
        slacks = np.zeros(len(self.slack_costs))
        np.maximum.at(slacks, self.row_slacks, margins)
        primal = float(weights.sum() + self.slack_costs @ slacks)
        feasible = duals / excess[self.row_slacks]
        edges = self.matrix.T @ feasible
        dual = float(feasible @ self.losses) / max(1.0, edges.max(initial=0.0))
        # Weak duality makes the gap of a feasible pair a check of everything at once.
        if not np.isfinite(primal) or primal - dual > _TOLERANCE * max(1.0, abs(primal)):
            return None, f"primal {primal!r} and dual {dual!r} of its answer differ"
        return HingeSolution(weights, slacks, feasible, primal), ""

    def _next_column(self) -> int:
        return len(self._weight_at) + len(self._slack_at)

    def _add_empty_columns(self, costs: NDArray[np.float64]) -> None:
        n = len(costs)
        empty = np.zeros(0, np.int32)
        highs_call(
            self._highs.addCols(n, costs, np.zeros(n), np.full(n, _FREE), 0, np.zeros(n, np.int32), empty, np.zeros(0))
        )
