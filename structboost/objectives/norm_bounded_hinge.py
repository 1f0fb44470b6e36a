"""Hinge loss under a bound of the l1 norm, the hinge form of MultiBoost.MO and .ECC.

The bundle method (:mod:`structboost.solvers.bundle`) on the mean loss, with the norm as a penalty.
The linear program over the cuts bounds the distance to the optimum, and gives the duals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.objectives.base import Formulation, Problem
from structboost.objectives.cut_oracle import CutOracle
from structboost.objectives.hinge import CuttingPlaneMaster
from structboost.solvers.cut_pool import CutPool
from structboost.solvers.cut_program import scaled_down
from structboost.solvers.proximal_step import no_curvature, proximal_step

# Gap up to which a solution is accepted, as a fraction of the loss of no weights.
_ACCURACY = 1e-7
# Totally corrective: after each round the weights are near the optimum over the columns so far.
_COARSEST = 1e-3
# Losses smaller than this fraction of the loss of no weights are rounding of the scores.
_ROUNDING = 1e-12
_MAX_CUTS_AT_ZERO = 100


@dataclass(frozen=True)
class NormBoundedHinge(Formulation):
    """Hinge loss with ``||w||_1 <= theta``, (25) and section III-D of MultiBoost.MO and .ECC.

    Minimises ``sum_i xi_i`` with ``xi_i = max_y [Delta(y_i, y) + F(x_i, y)] - F(x_i, y_i)`` over
    ``w >= 0``.  ``C`` of the trainer is theta.  The equality of the paper is reached whenever any
    column has a positive edge.  The task only needs a loss-augmented argmax.
    """

    works_on_shards: ClassVar[bool] = True

    @override
    def start(self, problem: Problem, C: float) -> NormBoundedHingeMaster:
        return NormBoundedHingeMaster(problem.cut_oracle(), C)


class NormBoundedHingeMaster(CuttingPlaneMaster):
    """Master of ``min risk(w)`` over ``w >= 0, sum(w) <= theta``.

    The risk is the mean hinge loss under the example weights.

    Attributes
    ----------
    dual_value : float
        ``b'lambda - theta r``: lower bound of the risk over the columns so far.
    """

    # A code that was drawn once does not come again, and the optimum is over all columns so far.
    max_idle_rounds = inf
    longest_step = 1e8

    def __init__(self, oracle: CutOracle, theta: float) -> None:
        super().__init__(oracle, theta, CutPool(), norm=theta)
        self.program.add_slacks(np.ones(1))
        self._edge = 0.0
        self._zero_risk = 0.0
        # Multipliers of the proximal step: of the cuts without and with the penalty of the norm.
        # The first is that of the empty cut.
        self._proximal = np.array([[1.0], [0.0]])

    @property
    def theta(self) -> float:
        """Bound of the l1 norm."""
        return self.C

    @property
    @override
    def primal(self) -> float:
        """Sum of the slacks of the examples, the paper's objective.

        Each example counts by its weight times their number, which is 1 for equal weights.
        """
        return len(self.oracle.example_weights) * self.risk

    @property
    @override
    def min_edge(self) -> float:
        return self._edge

    @override
    def set_C(self, C: float) -> None:
        weights = scaled_down(self.weights * (C / self.C), C)
        self.C = C
        self.program.set_norm(C)
        if np.isfinite(self.risk):
            self.risk = np.inf
            self._cut(weights)
            self._solve_program()

    @override
    def bound(self, largest_edge: float) -> float | None:
        """Bound ``b'lambda - theta v``, where v is the larger of the largest edge and 0.

        With r = v the multipliers satisfy the dual constraints of all columns (Theorem 3).
        """
        losses = float(self.pool.duals @ self.pool.losses)
        excess = max(largest_edge, self._edge, 0.0)
        return len(self.oracle.example_weights) * max(0.0, losses - self.theta * excess)

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        if np.isinf(self.risk):
            self._cut(self.weights)
            self._zero_risk = self.risk
        tolerance = min(tolerance, _COARSEST)
        if not self._solve_by_bundle(
            lambda: max(tolerance * self.risk, _ACCURACY * self._zero_risk)
        ):
            self._solve_program()
        if self.dual_value <= _ACCURACY * self._zero_risk:
            self._go_to_zero()

    @override
    def _is_proved(self, accuracy: float) -> bool:
        weights = self._solve_program()
        if self.risk - self.dual_value <= accuracy:
            return True
        self._cut(weights)
        return False

    @override
    def _objective(self, weights: FloatArray, risk: float) -> float:
        return risk

    def _go_to_zero(self) -> None:
        """Move to weights without any loss if all cuts can be satisfied."""
        for _ in range(_MAX_CUTS_AT_ZERO):
            if self.risk == 0.0 or self.dual_value > _ACCURACY * self._zero_risk:
                return
            self._cut(self._solve_program())

    @override
    def _nearest(self, step: float, accuracy: float) -> FloatArray:
        """Minimise the cuts plus a penalty of the norm plus ``|w - center|^2 / (2 step)``.

        The penalty ``penalty * max(0, sum(w) - theta)`` is exact.  Each cut appears twice, without
        and with it.
        """
        pool = self.pool
        # The multiplier r is the slope of a convex function that falls from the loss of no weights
        # to at least 0.
        penalty = 2.0 * self._zero_risk / self.theta
        products = np.vstack((np.zeros((1, len(self.weights))), pool.matrix))
        losses = np.append(0.0, pool.losses)
        multipliers = self._proximal.ravel() / self._proximal.sum()
        # The step's own cost, sum(w), is taken back by 1 in every product.
        products = np.ascontiguousarray(np.vstack((products, products - penalty)) + 1.0)
        losses = np.append(losses, losses - penalty * self.theta)
        weights, _, _ = proximal_step(
            products, losses, 1.0, self.weights, step, multipliers, 1e-2 * accuracy,
            no_curvature(len(self.weights)),
        )  # fmt: skip
        self._proximal = multipliers.reshape(2, -1)
        pool.age(self._proximal[:, 1:].max(axis=0))
        return scaled_down(weights, self.theta)

    @override
    def _new_cut(self, weights: FloatArray) -> float:
        risk = super()._new_cut(weights)
        self._proximal = np.hstack((self._proximal, np.zeros((2, 1))))
        return risk if risk > _ROUNDING * self._zero_risk else 0.0

    @override
    def _keep_cuts(self, mask: NDArray[np.bool_]) -> None:
        super()._keep_cuts(mask)
        self._proximal = self._proximal[:, np.append(True, mask)]

    def _solve_program(self) -> FloatArray:
        solution = self.program.solve()
        self.pool.duals, self.dual_value = solution.duals, solution.bound
        self._edge = solution.largest_edge
        return solution.weights
