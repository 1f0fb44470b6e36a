"""The 1-slack master: cutting planes, stabilised by a proximal bundle method.

Algorithm 2 as printed is Kelley's method, which zigzags: every cut is made at the
minimiser of the cuts so far, far away from the last one.  The stabilised form makes it at the
minimiser of the cuts plus ``|w - center|^2 / (2 step)``, the center being the best weights so far
(Teo et al. 2010, Kiwiel 1990).  Its quadratic step has as many unknowns as there are live
cuts, about a hundred.  How near the optimum the center is follows from a linear program
over the same cuts, solved when the steps promise little.  Figures: docs/decisions/one-slack-master.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import SolverError
from structboost.masters.base import HingeMaster
from structboost.masters.cuts import Cut, Terms
from structboost.masters.hinge_program import HingeProgram
from structboost.masters.oracle import HingeOracle
from structboost.masters.proximal_step import proximal_step

_MAX_IDLE = 20
_MAX_CUTS_PER_SOLVE = 5000
_MAX_NEWTON_STEPS = 500
_LONGER = 100.0


class OneSlackMaster(HingeMaster):
    """Cutting planes for (9) over the columns so far.

    Parameters
    ----------
    oracle : HingeOracle
    C : float
    stabilize : bool
        False is Algorithm 2 as printed: no center, no cut ever dropped.
    """

    def __init__(self, oracle: HingeOracle, C: float, *, stabilize: bool = True) -> None:
        super().__init__(oracle, C)
        self.stabilize = stabilize
        self._program = HingeProgram()
        self._program.add_slacks(np.array([C]))
        # Row 0 is the empty cut, c = 0 in (9b): it says that the slack is not negative.
        self._cuts: list[Cut] = [Cut(0.0, {})]
        self._program.add_rows(np.zeros((1, 0)), np.zeros(1), np.zeros(1, np.int64))
        self._idle = np.zeros(1, np.int64)
        self._multipliers = np.array([C])
        self._duals = np.zeros(1)
        self._step = 1.0

    @property
    def n_cuts(self) -> int:
        """Cuts held, without the empty one."""
        return len(self._cuts) - 1

    def set_C(self, C: float) -> None:
        """Go on with another C; cuts do not depend on it."""
        self._multipliers *= C / self.C
        self.C = C
        self._program.set_slack_costs(np.array([C]))
        self._bound_by_program()

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero."""
        products = np.zeros((len(self._cuts), n_new))
        products[1:] = self.oracle.products(self._cuts[1:], terms, n_new)
        self.oracle.add_columns(terms, n_new)
        self._program.add_columns(products)
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``."""
        self.oracle.keep_columns(kept)
        self._program.keep_columns(kept)
        self.weights = self.weights[kept]

    def duals(self) -> dict[str, NDArray[np.float64]]:
        """The sum of dual multiplier times measure over the cuts."""
        return self.oracle.combine(self._cuts[1:], self._duals[1:])

    def solve(self, tolerance: float) -> None:
        """Cut until the relative gap over the columns so far is at most ``tolerance``."""
        if np.isinf(self.risk):
            self._cut(self.weights)
            self._bound_by_program()
        if self.stabilize:
            self._solve_by_proximal_bundle(tolerance)
        else:
            self._solve_by_cutting_planes(tolerance)

    def _solve_by_proximal_bundle(self, tolerance: float) -> None:
        promise = 0.3
        for _ in range(_MAX_CUTS_PER_SOLVE):
            target = tolerance * self.primal
            weights, _, _ = proximal_step(
                self._program.matrix, self._program.losses, self.C, self.weights, self._step,
                self._multipliers, 1e-2 * target, _MAX_NEWTON_STEPS,
            )  # fmt: skip
            self._age_cuts(self._multipliers)
            model = self._program.losses - self._program.matrix @ weights
            predicted = self.primal - (weights.sum() + self.C * model.max())
            if predicted <= promise * target:
                if self.primal - self._bound_by_long_step(target) <= target:
                    return
                self._bound_by_program()
                if self.primal - self.dual_value <= target or self._step > 1e12:
                    return
                # The center is near its proximal point, not yet near the optimum: longer steps.
                self._step *= 2.0
                promise *= 0.7
                continue
            before = self.primal
            rise = self._cut(weights) - before
            if rise <= -0.5 * predicted:
                self._step *= 1.5
            elif rise > predicted:
                self._step *= 0.8
            self._drop_idle_cuts()
        self._bound_by_program()

    def _solve_by_cutting_planes(self, tolerance: float) -> None:
        """Lines 3-10 of Algorithm 2."""
        for _ in range(_MAX_CUTS_PER_SOLVE):
            weights = self._bound_by_program()
            if self.primal - self.dual_value <= tolerance * self.primal:
                return
            self._cut(weights)
        self._bound_by_program()

    def _cut(self, weights: NDArray[np.float64]) -> float:
        """Add the cut at ``weights``, keep them if they are the best so far; returns their objective."""
        cut, products, risk = self.oracle.cut_at(weights)
        objective = float(weights.sum()) + self.C * risk
        if not np.isfinite(objective):
            raise SolverError(f"The objective is {objective!r} at finite weights; check that losses are finite.")
        if objective < self.primal:
            self.weights, self.risk = weights.copy(), risk
        self._cuts.append(cut)
        self._program.add_rows(products[None], np.array([cut.loss]), np.zeros(1, np.int64))
        self._idle = np.append(self._idle, 0)
        self._multipliers = np.append(self._multipliers, 0.0)
        self._duals = np.append(self._duals, 0.0)
        return objective

    def _bound_by_long_step(self, target: float) -> float:
        """Duals of a much longer proximal step, scaled to be feasible; returns the bound that they prove.

        With an infinite step they would be those of the linear program, which takes far longer where there
        are thousands of columns.
        """
        program = self._program
        multipliers = self._multipliers.copy()
        proximal_step(
            program.matrix, program.losses, self.C, self.weights, _LONGER * self._step,
            multipliers, 0.05 * target, _MAX_NEWTON_STEPS,
        )  # fmt: skip
        largest = (multipliers @ program.matrix).max(initial=1.0)
        self._duals = multipliers / largest
        self.dual_value = float(self._duals @ program.losses)
        self._age_cuts(self._duals, by=0)
        return self.dual_value

    def _bound_by_program(self) -> NDArray[np.float64]:
        """Solve the linear program over the cuts: its duals are the master's; returns its weights."""
        solution = self._program.solve()
        self._duals = solution.duals
        self.dual_value = float(solution.duals @ self._program.losses)
        self._age_cuts(solution.duals, by=0)
        return solution.weights

    def _age_cuts(self, multipliers: NDArray[np.float64], by: int = 1) -> None:
        self._idle = np.where(multipliers > 0, 0, self._idle + by)
        self._idle[0] = 0

    def _drop_idle_cuts(self) -> None:
        """Drop cuts that had no multiplier in the last steps, and none in the program's duals."""
        kept = (self._idle <= _MAX_IDLE) | (self._duals > 0)
        if not kept.all():
            self._program.keep_rows(kept)
            self._cuts = [cut for cut, stays in zip(self._cuts, kept, strict=True) if stays]
            self._idle = self._idle[kept]
            self._multipliers = self._multipliers[kept]
            self._duals = self._duals[kept]
