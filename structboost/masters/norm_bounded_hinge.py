"""The hinge form of MultiBoost.MO and MultiBoost.ECC: the hinge loss with the l1 norm of the weights given.

Cutting planes on the mean loss, each made near the best weights so far (the proximal bundle of the 1-slack master, with
the norm as a penalty).  The linear program over the cuts, which has a weight for each column and one slack, says how
near the optimum those are, and gives the duals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import SolverError
from structboost.masters.base import Formulation, HingeMaster, Problem
from structboost.masters.hinge_program import highs_call, new_highs
from structboost.masters.kind_columns import Terms
from structboost.masters.proximal_step import no_curvature, proximal_step
from structboost.masters.sharded_oracle import Cut, ShardedOracle

_FREE = 1e30
# Gap up to which an answer of the solver is accepted, as a share of the loss of no weights.
_ACCURACY = 1e-7
_MAX_CUTS_PER_SOLVE = 5000
_MAX_NEWTON_STEPS = 500
_MAX_IDLE = 20
_LONGEST_STEP = 1e8
# Totally corrective: a round's weights are near the optimum over the columns so far, however far the others are.
_COARSEST = 1e-3
# Losses smaller than this share of the loss of no weights are rounding of the scores.
_ROUNDING = 1e-12
_MAX_CUTS_AT_ZERO = 100


@dataclass(frozen=True)
class NormBoundedHinge(Formulation):
    """Hinge loss with ``||w||_1 <= theta``: (25) and section III-D of MultiBoost.MO and .ECC.

    Minimises ``sum_i xi_i`` with ``xi_i = max_y [Delta(y_i, y) + F(x_i, y)] - F(x_i, y_i)`` over ``w >= 0``.  ``C`` of
    the trainer is theta.  The equality of the paper is reached whenever any column has a positive edge.  The task needs
    no more than its loss-augmented argmax.
    """

    works_on_shards: ClassVar[bool] = True

    def master(self, problem: Problem, C: float) -> NormBoundedHingeMaster:
        """Cutting planes."""
        return NormBoundedHingeMaster(problem.sharded_oracle(), C)


class NormBoundedHingeMaster(HingeMaster[ShardedOracle]):
    """``min risk(w)`` over ``w >= 0, sum(w) <= theta``, the risk being the mean hinge loss under the example weights.

    Parameters
    ----------
    oracle : ShardedOracle
    theta : float
        Bound of the l1 norm.

    Attributes
    ----------
    dual_value : float
        ``b'lambda - theta r``: lower bound of the risk over the columns so far.
    """

    # A code that was drawn once does not come again, and the optimum is over all columns so far.
    drops_idle_columns = False

    def __init__(self, oracle: ShardedOracle, theta: float) -> None:
        super().__init__(oracle, theta)
        self._program = _CutProgram(theta)
        self._cuts: list[Cut] = []
        self._idle = np.zeros(0, np.int64)
        self._multipliers = np.zeros(0)
        self._edge = 0.0
        self._zero_risk = 0.0
        # Of the proximal step: the cuts without and with the penalty of the norm; the first is the empty cut.
        self._proximal = np.array([[1.0], [0.0]])
        self._step = 1.0

    @property
    def theta(self) -> float:
        """Bound of the l1 norm."""
        return self.C

    @property
    def primal(self) -> float:
        """Sum of the slacks of the examples, the paper's objective.

        An example counts by its weight times the number of examples: by 1 where all are alike.
        """
        return len(self.oracle.example_weights) * self.risk

    @property
    def min_edge(self) -> float:
        """R of Theorem 3: the largest edge of a column in the master, which a new one must exceed."""
        return self._edge

    @property
    def n_cuts(self) -> int:
        """Cuts held."""
        return len(self._cuts)

    def set_C(self, C: float) -> None:
        """Go on with another theta; cuts do not depend on it, the weights keep their proportions."""
        weights = _scaled_down(self.weights * (C / self.C), C)
        self.C = C
        self._program.set_theta(C)
        if np.isfinite(self.risk):
            self.risk = np.inf
            self._cut(weights)
            self._solve_program()

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero."""
        products = self.oracle.products(self._cuts, terms, n_new)
        self.oracle.add_columns(terms, n_new)
        self._program.add_columns(products)
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``."""
        self.oracle.keep_columns(kept)
        self._program.keep_columns(kept)
        self.weights = self.weights[kept]

    def duals(self) -> dict[str, Any]:
        """The sum of dual multiplier times measure over the cuts: what (29) weighs the responses by."""
        return self.oracle.combine(self._cuts, self._multipliers)

    def bound(self, largest_edge: float) -> float | None:
        """``b'lambda - theta v``: with r = v the multipliers satisfy the dual constraints of all columns (Theorem 3).

        Nor is a loss ever below 0, which is the bound of no multipliers.
        """
        losses = float(self._multipliers @ self._program.losses)
        excess = max(largest_edge, self._edge, 0.0)
        return len(self.oracle.example_weights) * max(0.0, losses - self.theta * excess)

    def solve(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """Cut until the relative gap over the columns so far is at most ``tolerance``, and at most 0.001."""
        if np.isinf(self.risk):
            self._cut(self.weights)
            self._zero_risk = self.risk
        self._solve_by_proximal_bundle(min(tolerance, _COARSEST))
        if self.dual_value <= _ACCURACY * self._zero_risk:
            self._go_to_zero()

    def _solve_by_proximal_bundle(self, tolerance: float) -> None:
        promise = 0.3
        for _ in range(_MAX_CUTS_PER_SOLVE):
            target = max(tolerance * self.risk, _ACCURACY * self._zero_risk)
            weights = self._proximal_step(1e-2 * target)
            before = self.risk
            predicted = before - self._program.risk(weights)
            if predicted <= promise * target:
                weights = self._solve_program()
                if self.risk - self.dual_value <= target:
                    return
                # Near the proximal point, not yet near the optimum: longer steps, and a cut that moves the program.
                self._step = min(2.0 * self._step, _LONGEST_STEP)
                promise *= 0.7
                self._cut(weights)
                continue
            rise = self._cut(weights) - before
            if rise <= -0.5 * predicted:
                self._step *= 1.5
            elif rise > predicted:
                self._step *= 0.8
            self._drop_idle_cuts()
        self._solve_program()

    def _go_to_zero(self) -> None:
        """Where all cuts can be satisfied: to weights without any loss, which a small relative gap needs."""
        for _ in range(_MAX_CUTS_AT_ZERO):
            if self.risk == 0.0 or self.dual_value > _ACCURACY * self._zero_risk:
                return
            self._cut(self._solve_program())

    def _proximal_step(self, accuracy: float) -> NDArray[np.float64]:
        """Minimiser of the cuts plus ``|w - center|^2 / (2 step)``; the cuts that it rests on stay young.

        The norm is an exact penalty, ``penalty * max(0, sum(w) - theta)``: each cut comes with and without it.
        """
        program = self._program
        # The multiplier r is the slope of a convex function that falls from the loss of no weights to at least 0.
        penalty = 2.0 * self._zero_risk / self.theta
        products = np.vstack((np.zeros((1, len(self.weights))), program.matrix))
        losses = np.append(0.0, program.losses)
        multipliers = self._proximal.ravel() / self._proximal.sum()
        # The step's own cost, sum(w), is taken back by 1 in every product.
        products = np.ascontiguousarray(np.vstack((products, products - penalty)) + 1.0)
        losses = np.append(losses, losses - penalty * self.theta)
        weights, _, _, _ = proximal_step(
            products, losses, 1.0, self.weights, self._step, multipliers, accuracy, _MAX_NEWTON_STEPS,
            no_curvature(len(self.weights)),
        )  # fmt: skip
        self._proximal = multipliers.reshape(2, -1)
        self._idle = np.where(self._proximal[:, 1:].any(axis=0), 0, self._idle + 1)
        return _scaled_down(weights, self.theta)

    def _cut(self, weights: NDArray[np.float64]) -> float:
        """Add the cut at ``weights``, keep them if they are the best so far; returns their risk."""
        cut, products, risk = self.oracle.cut_at(weights)
        if not np.isfinite(risk):
            raise SolverError(f"The mean loss is {risk!r} at finite weights; check that losses are finite.")
        if risk < self.risk:
            self.weights, self.risk = weights.copy(), risk if risk > _ROUNDING * self._zero_risk else 0.0
        self._cuts.append(cut)
        self._program.add_cut(products, cut.loss)
        self._idle = np.append(self._idle, 0)
        self._multipliers = np.append(self._multipliers, 0.0)
        self._proximal = np.hstack((self._proximal, np.zeros((2, 1))))
        return risk

    def _solve_program(self) -> NDArray[np.float64]:
        """Solve the linear program over the cuts: its duals are the master's; returns its weights."""
        solution = self._program.solve()
        self._multipliers, self._edge, self.dual_value = solution.multipliers, solution.largest_edge, solution.bound
        return solution.weights

    def _drop_idle_cuts(self) -> None:
        """Drop cuts that had no multiplier in the last steps, and none in the program's duals."""
        kept = (self._idle <= _MAX_IDLE) | (self._multipliers > 0)
        if not kept.all():
            self._program.keep_cuts(kept)
            self.oracle.forget([cut for cut, stays in zip(self._cuts, kept, strict=True) if not stays])
            self._cuts = [cut for cut, stays in zip(self._cuts, kept, strict=True) if stays]
            self._idle, self._multipliers = self._idle[kept], self._multipliers[kept]
            self._proximal = self._proximal[:, np.append(True, kept)]


def _scaled_down(weights: NDArray[np.float64], theta: float) -> NDArray[np.float64]:
    """Weights whose sum is at most ``theta``."""
    total = float(weights.sum())
    return weights * (theta / total) if total > theta else weights


class _Solution(NamedTuple):
    """Checked optimum of a :class:`_CutProgram`."""

    weights: NDArray[np.float64]
    multipliers: NDArray[np.float64]
    largest_edge: float
    bound: float


class _CutProgram:
    """``min xi`` subject to ``xi >= b - A w``, ``xi, w >= 0``, ``sum(w) <= theta``; warm started, every answer checked.

    Attributes
    ----------
    matrix : ndarray, shape (n_cuts, n_columns)
        A, the products <V, R>.
    losses : ndarray, shape (n_cuts,)
        b.
    """

    def __init__(self, theta: float) -> None:
        self.matrix = np.zeros((0, 0))
        self.losses = np.zeros(0)
        self._theta = theta
        self._highs = new_highs()
        # Row 0 is the norm, column 0 the slack.
        empty = np.zeros(0, np.int32)
        highs_call(self._highs.addCol(1.0, 0.0, _FREE, 0, empty, np.zeros(0)))
        highs_call(self._highs.addRow(-_FREE, theta, 0, empty, np.zeros(0)))

    def risk(self, weights: NDArray[np.float64]) -> float:
        """Risk of ``weights`` as the cuts know it."""
        return float((self.losses - self.matrix @ weights).max(initial=0.0))

    def set_theta(self, theta: float) -> None:
        """Change the bound of the norm."""
        self._theta = theta
        highs_call(self._highs.changeRowBounds(0, -_FREE, theta))

    def add_cut(self, products: NDArray[np.float64], loss: float) -> None:
        """Append a row."""
        at = np.flatnonzero(products)
        index = np.concatenate(([0], 1 + at)).astype(np.int32)
        highs_call(self._highs.addRow(loss, _FREE, len(index), index, np.concatenate(([1.0], products[at]))))
        self.matrix = np.vstack((self.matrix, products))
        self.losses = np.append(self.losses, loss)

    def add_columns(self, products: NDArray[np.float64]) -> None:
        """Append weights; ``products`` has shape (n_cuts, n_new)."""
        for column in products.T:
            at = np.flatnonzero(column)
            index = np.concatenate(([0], 1 + at)).astype(np.int32)
            highs_call(self._highs.addCol(0.0, 0.0, _FREE, len(index), index, np.concatenate(([1.0], column[at]))))
        self.matrix = np.hstack((self.matrix, products))

    def keep_cuts(self, kept: NDArray[np.bool_]) -> None:
        """Drop the rows that are not ``kept``."""
        gone = (1 + np.flatnonzero(~kept)).astype(np.int32)
        highs_call(self._highs.deleteRows(len(gone), gone))
        self.matrix, self.losses = self.matrix[kept], self.losses[kept]

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the weights that are not ``kept``."""
        gone = (1 + np.flatnonzero(~kept)).astype(np.int32)
        if len(gone):
            highs_call(self._highs.deleteCols(len(gone), gone))
            self.matrix = self.matrix[:, kept]

    def solve(self) -> _Solution:
        """Optimum of the program.

        Raises
        ------
        SolverError
            If neither the warm nor a cold solve gives an answer that passes the checks.
        """
        solution, trouble = self._run()
        if trouble:
            highs_call(self._highs.clearSolver())
            solution, trouble = self._run()
        if trouble or solution is None:
            rows, columns = self.matrix.shape
            raise SolverError(
                f"The restricted master with {rows} cuts and {columns} columns could not be solved: {trouble}. "
                "Scale the loss or choose a smaller theta."
            )
        return solution

    def _run(self) -> tuple[_Solution | None, str]:
        """Solve and check; the second value says what is wrong, empty if nothing is."""
        self._highs.run()
        status = self._highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            return None, f"HiGHS ended with the status {self._highs.modelStatusToString(status)!r}"
        answer = self._highs.getSolution()
        weights = _scaled_down(np.maximum(np.array(answer.col_value)[1:], 0.0), self._theta)
        multipliers = np.maximum(np.array(answer.row_dual)[1:], 0.0)
        multipliers /= max(1.0, float(multipliers.sum()))
        # Both are feasible by now, so that the gap of the two is a check of everything at once.
        largest_edge = float((multipliers @ self.matrix).max(initial=0.0))
        risk = self.risk(weights)
        bound = float(multipliers @ self.losses) - self._theta * largest_edge
        if not risk - bound <= _ACCURACY * self.losses.max(initial=1e-300):
            return None, f"primal {risk!r} and dual {bound!r} of its answer differ"
        return _Solution(weights, multipliers, largest_edge, bound), ""
