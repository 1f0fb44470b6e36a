"""Losses of pairs and the hinge under a bound of the l1 norm of the weights.

The exponential loss gives MultiBoost.MO and .ECC, and the hinge their hinge form.  The latter is
minimised by the bundle method (:mod:`structboost.solvers.bundle`) on the mean loss, with the norm
as a penalty.  The linear program over the cuts bounds the distance to the optimum, and gives the
duals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from structboost._typing import BoolArray, FloatArray, IntArray, override
from structboost.objectives.base import CutOracle, Formulation, Problem
from structboost.objectives.hinge import CuttingPlaneMaster
from structboost.objectives.master import RestrictedMaster
from structboost.objectives.pair_margins import PairColumns, PairFormulation
from structboost.solvers.bundle import CutPool
from structboost.solvers.cut_program import scaled_down
from structboost.solvers.proximal_step import no_curvature, proximal_step

_MAX_NEWTON_STEPS = 200
_FINEST = 1e-9
# Totally corrective: after each round the weights are optimal over the columns so far.
_COARSEST = 1e-5
# A large theta on separable data sends the objective below all doubles, where at this floor the
# relative gap is still right; weights that fail on a pair send it above them.
_LARGEST_LOG = 700.0
# Share of the gap that a step must gain; where it gains less, directions are computed with all
# their digits.
_SLOW = 1e-3
# Norms on the way to a large one: the first, how much larger each is than the last, and the gap
# that is good enough.
_SMALLEST_NORM = 1.0
_NORM_STEP = 1.5
_ON_THE_WAY = 1e-3
# Share of the largest multiplier below which a pair does not count in the curvature.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class NormBounded(PairFormulation):
    """Exponential loss over pairs with ``||w||_1 <= theta`` (MultiBoost.MO and .ECC, (4), III-C).

    ``C`` of the trainer is theta.  The equality of the paper is reached whenever any column has a
    positive edge.

    Parameters
    ----------
    pairs : {"bits", "outputs"}
        ``bits``: each bit of the code is a separate problem (MO); ``outputs``: each wrong output
        (ECC).
    """

    @override
    def start(self, problem: Problem, C: float) -> NormBoundedMaster:
        return NormBoundedMaster(problem, C, self.pairs)


class NormBoundedMaster(PairColumns, RestrictedMaster):
    """Master of ``min sum_p rho_p exp(-margin_p(w))`` over ``w >= 0, sum(w) <= theta``.

    The logarithm of the objective is minimised by an active-set Newton method: the columns of
    positive weight, an empty column that takes the rest of theta, and the column of largest edge.
    """

    # A code that was drawn once does not come again.
    max_idle_rounds = inf

    def __init__(self, problem: Problem, theta: float, pairs: str) -> None:
        super().__init__(theta)
        self._make_pairs(problem, pairs)
        # The rest of theta is the weight of a column without effect.
        self._rest = theta
        self._precise = False

    @property
    @override
    def min_edge(self) -> float:
        return float((self.matrix @ self._distribution()).max(initial=0.0))

    @override
    def set_C(self, C: float) -> None:
        self._scale(C / self.C)
        self.C = C
        self.risk = _exp(self._log_objective(self.weights))

    @override
    def duals(self) -> dict[str, FloatArray]:
        return self.duals_of(self._distribution())

    @override
    def bound(self, largest_edge: float) -> float | None:
        u = self._distribution()
        edges = self.matrix @ u
        # u - u log(u / rho) = u (1 + margin), with sum(u margin) = w' edges.
        largest = max(largest_edge, float(edges.max(initial=0.0)))
        return self.risk * (1.0 + float(self.weights @ edges) - self.C * largest)

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        target = min(max(tolerance, _FINEST), _COARSEST)
        try:
            if len(self.weights):
                value, gap = self._newton(self._log_objective(self.weights), target)
                if gap > target:
                    self._follow_path(value, target)
        finally:
            # Also where Ctrl-C ends it: the risk is that of the weights.
            self.risk = _exp(self._log_objective(self.weights))

    def _scale(self, factor: float) -> None:
        self.weights = self.weights * factor
        self._rest *= factor
        self.C *= factor

    def _newton(self, value: float, target: float) -> tuple[float, float]:
        """Take Newton steps until the gap is within ``target`` or progress ends.

        Returns the primal and the dual value.
        """
        self._precise, least = False, np.inf
        for _ in range(_MAX_NEWTON_STEPS):
            self._calls += 1
            distribution = self._distribution()
            edges = self.matrix @ distribution
            gap = self.C * edges.max(initial=0.0) - self.weights @ edges
            if gap <= target:
                break
            new = self._step(distribution, edges, value)
            if self._precise and (new is None or (new >= value and gap >= least)):
                break
            self._precise |= new is None or value - new < _SLOW * gap
            value, least = value if new is None else new, min(gap, least)
        return value, gap

    def _follow_path(self, value: float, target: float) -> None:
        """Follow the optima of smaller norms to the optimum, or stay where that gains nothing.

        On separable data with a large norm, so few pairs count that a Newton step ignores nearly
        all others.  With a small norm all pairs count, and the optimum of each norm is a
        good start for the next.
        """
        theta, before = self.C, (self.weights, self._rest)
        steps = max(1, int(np.ceil(np.log(theta / _SMALLEST_NORM) / np.log(_NORM_STEP))))
        reached = gap = np.inf
        try:
            self.C = theta / _NORM_STEP**steps
            self.weights, self._rest = self.weights * 0.0, self.C
            for _ in range(steps):
                self._newton(self._log_objective(self.weights), _ON_THE_WAY)
                self._scale(min(_NORM_STEP, theta / self.C))
            reached, gap = self._newton(self._log_objective(self.weights), target)
        finally:
            self.C = theta
            if reached > value and gap > target:
                self.weights, self._rest = before

    def _step(self, distribution: FloatArray, edges: FloatArray, value: float) -> float | None:
        """Take a Newton step on the free columns, and return the new objective.

        Returns None if the step gains nothing.
        """
        free = np.flatnonzero(self.weights > 0)
        steepest = np.argmax(edges)
        if self.weights[steepest] == 0:
            free = np.append(free, steepest)
        direction, rest = self._direction(free, distribution, edges)
        falling = direction < 0
        length = (self.weights[free][falling] / -direction[falling]).min(initial=1.0)
        if rest < 0:
            length = min(length, self._rest / -rest)
        slope = -(direction @ edges[free])
        if length <= 0.0:
            return self._pairwise_step(edges, value)
        # Near the optimum a step lowers the gap, where rounding hides what the objective gains.
        rounding = 8.0 * np.finfo(float).eps * np.abs(self._logs - self.weights @ self.matrix).max()
        while length > 1e-14:
            weights = self.weights.copy()
            weights[free] = np.maximum(weights[free] + length * direction, 0.0)
            new = self._log_objective(weights)
            if new <= value + 1e-4 * length * slope + rounding:
                weights[weights < 1e-14 * self.C] = 0.0
                left = self.C - weights.sum()
                self._rest = left if left > 1e-13 * self.C else 0.0
                self.weights = weights if left >= 0 else weights * (self.C / weights.sum())
                return self._log_objective(self.weights)
            length *= 0.5
        return None

    def _pairwise_step(self, edges: FloatArray, value: float) -> float | None:
        """Move weight from the used column of smallest edge to the steepest column.

        Returns None if that gains nothing.
        """
        # The column without effect is the last.
        weights, edges = np.append(self.weights, self._rest), np.append(edges, 0.0)
        used = np.flatnonzero(weights > 0)
        away, steepest = int(used[np.argmin(edges[used])]), int(np.argmax(edges))
        if away == steepest:
            return None
        gain = self._margins_of(steepest) - self._margins_of(away)
        exponents = self._logs - self.weights @ self.matrix
        low, high = 0.0, weights[away]
        # The objective is convex along the way: halve on the sign of its slope.
        for _ in range(60):
            length = 0.5 * (low + high)
            u = np.exp(exponents - length * gain - (exponents - length * gain).max())
            low, high = (length, high) if u @ gain > 0 else (low, length)
        weights[steepest] += low
        weights[away] = max(0.0, weights[away] - low)
        new = self._log_objective(weights[:-1])
        if new >= value:
            return None
        self.weights, self._rest = weights[:-1], weights[-1]
        return new

    def _margins_of(self, column: int) -> FloatArray:
        """Margins of a column on every pair, all 0 for the index after the last column."""
        return self.matrix[column] if column < len(self.matrix) else np.zeros(len(self._logs))

    def _direction(
        self, free: IntArray, distribution: FloatArray, edges: FloatArray
    ) -> tuple[FloatArray, float]:
        """Newton direction that preserves the sum of the weights, with an entry for the slack."""
        n = len(free)
        # Without any column that would gain by weight, the one without effect is the steepest.
        with_rest = self._rest > 0 or edges.max(initial=0.0) <= 0
        hessian = self._curvature(free, distribution) - np.outer(edges[free], edges[free])
        size = n + with_rest
        system = np.zeros((size + 1, size + 1))
        system[:n, :n] = hessian
        # Columns may be equal, and the rest has no curvature.
        system[range(size), range(size)] += 1e-10 * max(1.0, np.trace(hessian) / max(n, 1))
        system[:size, size] = system[size, :size] = 1.0
        target = np.zeros(size + 1)
        target[:n] = edges[free]
        solution = np.linalg.solve(system, target)
        return np.asarray(solution[:n], np.float64), solution[n] if with_rest else 0.0

    def _curvature(self, free: IntArray, distribution: FloatArray) -> FloatArray:
        """Curvature ``sum_p u_p rho_pj rho_pk``.

        Unless ``_precise``, it is computed in single precision from few pairs.
        """
        if self._precise:
            whole = self.matrix[free]
            return (whole * distribution) @ whole.T
        pairs = np.flatnonzero(distribution > _NEGLIGIBLE * distribution.max())
        rows, weights = self.matrix[free].astype(np.float32), distribution.astype(np.float32)
        if len(pairs) < 0.8 * len(distribution):
            rows, weights = np.ascontiguousarray(rows[:, pairs]), weights[pairs]
        return np.asarray((rows * weights) @ rows.T, np.float64)

    def _log_objective(self, weights: FloatArray) -> float:
        exponents = self._logs - weights @ self.matrix
        top = exponents.max()
        return float(top + np.log(np.exp(exponents - top).sum()))

    def _distribution(self) -> FloatArray:
        exponents = self._logs - self.weights @ self.matrix
        u = np.exp(exponents - exponents.max())
        return np.asarray(u / u.sum())


def _exp(log_objective: float) -> float:
    """Exponential of the log objective, which is clipped to ``+-_LARGEST_LOG``."""
    return float(np.exp(np.clip(log_objective, -_LARGEST_LOG, _LARGEST_LOG)))


# Gap up to which a solution is accepted, as a fraction of the loss of no weights.
_ACCURACY = 1e-7
# Totally corrective: after each round the weights are near the optimum over the columns so far.
_COARSEST_HINGE = 1e-3
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

    works_on_shards = True

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
        return len(self.oracle.example_weights) * max(0.0, losses - self.C * excess)

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        if np.isinf(self.risk):
            self._cut(self.weights)
            self._zero_risk = self.risk
        tolerance = min(tolerance, _COARSEST_HINGE)
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
        penalty = 2.0 * self._zero_risk / self.C
        products = np.vstack((np.zeros((1, len(self.weights))), pool.matrix))
        losses = np.append(0.0, pool.losses)
        multipliers = self._proximal.ravel() / self._proximal.sum()
        # The step's own cost, sum(w), is taken back by 1 in every product.
        products = np.vstack((products, products - penalty)) + 1.0
        losses = np.append(losses, losses - penalty * self.C)
        weights, _ = proximal_step(
            products, losses, 1.0, self.weights, step, multipliers, 1e-2 * accuracy,
            no_curvature(len(self.weights)),
        )  # fmt: skip
        self._proximal = multipliers.reshape(2, -1)
        pool.age(self._proximal[:, 1:].max(axis=0))
        return scaled_down(weights, self.C)

    @override
    def _new_cut(self, weights: FloatArray) -> float:
        risk = super()._new_cut(weights)
        self._proximal = np.hstack((self._proximal, np.zeros((2, 1))))
        return risk if risk > _ROUNDING * self._zero_risk else 0.0

    @override
    def _keep_cuts(self, mask: BoolArray) -> None:
        super()._keep_cuts(mask)
        self._proximal = self._proximal[:, np.append(True, mask)]

    def _solve_program(self) -> FloatArray:
        solution = self.program.solve()
        self.pool.duals, self.dual_value = solution.duals, solution.bound
        self._edge = solution.largest_edge
        return solution.weights
