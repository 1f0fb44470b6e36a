"""The 1-slack master: cutting planes, stabilised by a proximal bundle method.

Algorithm 2 as printed is Kelley's method, which zigzags: every cut is made at the
minimiser of the cuts so far, far away from the last one.  The stabilised form makes it at the
minimiser of the cuts plus ``|w - center|^2 / (2 step)``, the center being the best weights so far
(Teo et al. 2010, Kiwiel 1990).  Its quadratic step has as many unknowns as there are live
cuts, about a hundred.  How near the optimum the center is follows from the linear program
over the same cuts, solved by the proximal point method when the steps promise little, and by HiGHS
where that does not end.  Figures: docs/decisions/one-slack-master.md and docs/decisions/spread-weights.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import CheckpointError, SolverError
from structboost.masters.base import Formulation, HingeMaster, Problem
from structboost.masters.hinge_program import HingeProgram
from structboost.masters.kind_columns import Terms
from structboost.masters.proximal_step import Curvature, no_curvature, proximal_step
from structboost.masters.sharded_oracle import Cut, ShardedOracle

_MAX_IDLE = 20
_MAX_CUTS_PER_SOLVE = 5000
_MAX_NEWTON_STEPS = 500
# How exactly a step is solved, of what the objective may still fall.
_STEP_ACCURACY = 0.05
_LONGER = 100.0
_MAX_LONG_STEPS = 30
_MAX_RIDGES = 4
# Shares of what the objective may rise: how exactly a ridge is solved, and which rise is enough.
_RIDGE_ACCURACY = 0.2
_ENOUGH_USED = 0.6


@dataclass(frozen=True)
class OneSlack(Formulation):
    """Hinge loss with one slack for all examples: (9) of StructBoost.

    Parameters
    ----------
    stabilize : bool
        False is Algorithm 2 as printed.
    """

    works_on_shards: ClassVar[bool] = True
    stabilize: bool = True

    @property
    def can_spread(self) -> bool:  # type: ignore[override]
        """The stabilised master can."""
        return self.stabilize

    def master(self, problem: Problem, C: float) -> OneSlackMaster:
        """Cutting planes."""
        return OneSlackMaster(problem.sharded_oracle(), C, stabilize=self.stabilize)


class OneSlackMaster(HingeMaster[ShardedOracle]):
    """Cutting planes for (9) over the columns so far.

    Parameters
    ----------
    oracle : ShardedOracle
    C : float
    stabilize : bool
        False is Algorithm 2 as printed: no center, no cut ever dropped.
    """

    def __init__(self, oracle: ShardedOracle, C: float, *, stabilize: bool = True) -> None:
        super().__init__(oracle, C)
        self.stabilize = stabilize
        self._program = HingeProgram()
        self._program.add_slacks(np.array([C]))
        # Row 0 is the empty cut, c = 0 in (9b): it says that the slack is not negative.
        self._cuts: list[Cut] = [Cut(-1, 0.0)]
        self._program.add_rows(np.zeros((1, 0)), np.zeros(1), np.zeros(1, np.int64))
        self._idle = np.zeros(1, np.int64)
        self._multipliers = np.array([C])
        self._duals = np.zeros(1)
        # Cuts are numbered for good, so that what is known of them outlives the rows that go.
        self._numbers = np.zeros(1, np.int64)
        self._n_made = 1
        self._curvature = no_curvature(0)
        self._step = 1.0
        self._ridge = 0.0

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
        positive = np.concatenate((self._curvature.positive, np.zeros(n_new, np.bool_)))
        self._curvature = self._curvature._replace(positive=positive)

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``."""
        self.oracle.keep_columns(kept)
        self._program.keep_columns(kept)
        self.weights = self.weights[kept]
        self._curvature = no_curvature(len(self.weights))

    def duals(self) -> dict[str, Any]:
        """The sum of dual multiplier times measure over the cuts."""
        return self.oracle.combine(self._cuts[1:], self._duals[1:])

    def solve(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """Cut until the relative gap over the columns so far is at most ``tolerance``."""
        if np.isinf(self.risk):
            self._cut(self.weights)
            self._bound_by_program()
        if self.stabilize:
            self._solve_by_proximal_bundle(tolerance)
        else:
            self._solve_by_cutting_planes(tolerance)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that the next steps depend on: numbers and arrays, the cuts by the models they were made at."""
        numbers = {
            "risk": self.risk, "dual_value": self.dual_value, "n_made": self._n_made, "step": self._step,
            "calls": self.oracle.calls,
        }  # fmt: skip
        program, curvature = self._program, self._curvature
        arrays = {
            "weights": self.weights, "matrix": program.matrix, "losses": program.losses, "idle": self._idle,
            "multipliers": self._multipliers, "duals": self._duals, "numbers": self._numbers,
            "known_cuts": curvature.cuts, "known_gram": curvature.gram, "known_columns": curvature.positive,
        }  # fmt: skip
        return numbers, arrays | self.oracle.recipes(self._cuts[1:])

    def restore(self, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go to a state, in a master that has the columns of then and no cuts.

        Raises
        ------
        CheckpointError
            If the cuts, made again, are not those of the state: it is of other data.
        """
        matrix, losses = arrays["matrix"], arrays["losses"]
        for row, loss, recipe in zip(matrix[1:], losses[1:], self.oracle.models(arrays), strict=True):
            cut, products = self.oracle.cut_again(recipe)
            if cut.loss != loss or not np.array_equal(products, row):
                raise CheckpointError("The cuts of the checkpoint are not those of these data.")
            self._cuts.append(cut)
        self._program.add_rows(matrix[1:], losses[1:], np.zeros(len(losses) - 1, np.int64))
        self.weights, self.risk, self.dual_value = arrays["weights"], numbers["risk"], numbers["dual_value"]
        self._idle, self._multipliers, self._duals = arrays["idle"], arrays["multipliers"], arrays["duals"]
        self._numbers, self._n_made, self._step = arrays["numbers"], numbers["n_made"], numbers["step"]
        self._curvature = Curvature(arrays["known_cuts"], arrays["known_gram"], arrays["known_columns"])
        self.oracle.calls = numbers["calls"]

    def spread(self, limit: float) -> None:
        """Go to weights of small Euclidean norm whose objective is at most ``limit``.

        Minimises the objective plus ``ridge / 2 |w|^2`` for a few ridges, each chosen by how much of what is allowed
        the one before used.  From the largest within the limit it goes on towards the smallest beyond, as far as the
        objective, which is convex, must stay within.
        """
        allowed = limit - self.primal
        norm = float(self.weights @ self.weights)
        if allowed <= 0 or norm == 0:
            return
        start = self.primal
        kept = self.weights, self.risk
        # The objective at a ridge's minimiser is at most ridge / 2 |w|^2 above the optimum.
        self._ridge = 2.0 * allowed / norm
        too_large = np.inf
        beyond = kept[0], start
        try:
            for _ in range(_MAX_RIDGES):
                self._solve_with_ridge(_RIDGE_ACCURACY * allowed)
                used = (self.primal - start) / allowed
                if used <= 1.0:
                    kept = self.weights, self.risk
                    if used > _ENOUGH_USED:
                        break
                    self._ridge *= float(np.clip(_ENOUGH_USED / max(used, 1e-3), 1.5, 8.0))
                else:
                    too_large, beyond = self._ridge, (self.weights, self.primal)
                    self._ridge *= 0.6
                if self._ridge >= too_large:
                    break
        finally:
            self._ridge = 0.0
            self.weights, self.risk = kept
        if beyond[1] > limit:
            share = (limit - self.primal) / (beyond[1] - self.primal)
            mixed = self.weights + share * (beyond[0] - self.weights)
            self.weights, self.risk = mixed, self.oracle.cut_at(mixed)[2]

    def _solve_with_ridge(self, accuracy: float) -> None:
        """Proximal bundle as without a ridge, which moves and shortens the step; closed by a step from zero."""
        step = self._step
        zero = np.zeros(len(self.weights))
        for _ in range(_MAX_CUTS_PER_SOLVE):
            before = self._regularised(self.weights, self.risk)
            shortened = 1.0 / (self._ridge + 1.0 / step)
            weights = self._proximal_step(self.weights * (shortened / step), shortened, _STEP_ACCURACY * accuracy)
            predicted = before - self._regularised(weights, self._model_risk(weights))
            if predicted <= 0.3 * accuracy:
                weights = self._proximal_step(zero, 1.0 / self._ridge, _STEP_ACCURACY * accuracy)
                if before - self._regularised(weights, self._model_risk(weights)) <= accuracy:
                    return
                step *= 2.0
            rise = self._cut(weights) - before
            if rise <= -0.5 * predicted:
                step *= 1.5
            elif rise > predicted:
                step *= 0.8
            self._drop_idle_cuts()

    def _proximal_step(self, center: NDArray[np.float64], step: float, accuracy: float) -> NDArray[np.float64]:
        """Minimiser of the cuts plus ``|w - center|^2 / (2 step)``; the cuts that it rests on stay young."""
        program = self._program
        weights, _, _, found = proximal_step(
            program.matrix, program.losses, self.C, center, step, self._multipliers, accuracy, _MAX_NEWTON_STEPS,
            self._known_curvature(),
        )  # fmt: skip
        self._curvature = found._replace(cuts=self._numbers[found.cuts])
        self._age_cuts(self._multipliers)
        return weights

    def _known_curvature(self) -> Curvature:
        """What the last step left, of the cuts still held, by their rows."""
        cuts, gram, positive = self._curvature
        rows = np.searchsorted(self._numbers, cuts)
        held = self._numbers[np.minimum(rows, len(self._numbers) - 1)] == cuts
        if held.all():
            return Curvature(rows, gram, positive)
        return Curvature(rows[held], np.ascontiguousarray(gram[np.ix_(held, held)]), positive)

    def _model_risk(self, weights: NDArray[np.float64]) -> float:
        """Risk of ``weights`` as the cuts know it."""
        return float((self._program.losses - self._program.matrix @ weights).max())

    def _regularised(self, weights: NDArray[np.float64], risk: float) -> float:
        return float(weights.sum()) + self.C * risk + 0.5 * self._ridge * float(weights @ weights)

    def _solve_by_proximal_bundle(self, tolerance: float) -> None:
        promise = 0.3
        for _ in range(_MAX_CUTS_PER_SOLVE):
            target = tolerance * self.primal
            weights = self._proximal_step(self.weights, self._step, _STEP_ACCURACY * target)
            predicted = self.primal - self._regularised(weights, self._model_risk(weights))
            if predicted <= promise * target:
                if self._bound_within(target) or self._step > 1e12:
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
        objective = self._regularised(weights, risk)
        if not np.isfinite(objective):
            raise SolverError(f"The objective is {objective!r} at finite weights; check that losses are finite.")
        if objective < self._regularised(self.weights, self.risk):
            self.weights, self.risk = weights.copy(), risk
        self._cuts.append(cut)
        self._program.add_rows(products[None], np.array([cut.loss]), np.zeros(1, np.int64))
        self._idle = np.append(self._idle, 0)
        self._numbers = np.append(self._numbers, self._n_made)
        self._n_made += 1
        self._multipliers = np.append(self._multipliers, 0.0)
        self._duals = np.append(self._duals, 0.0)
        return objective

    def _bound_within(self, target: float) -> bool:
        """Whether the cuts prove that the center is within ``target`` of the optimum; their duals are the proof.

        The proximal point method on the linear program over the cuts: long steps, each from where the last one ended.
        With an infinite step it would be one step, but the simplex method takes far longer where there are
        thousands of columns, and most of the time what the program could prove is not enough.
        """
        program = self._program
        multipliers = self._multipliers.copy()
        weights, step, curvature = self.weights, _LONGER * self._step, self._known_curvature()
        for _ in range(_MAX_LONG_STEPS):
            weights, _, _, curvature = proximal_step(
                program.matrix, program.losses, self.C, weights, step, multipliers, 0.05 * target, _MAX_NEWTON_STEPS,
                curvature,
            )  # fmt: skip
            duals = multipliers / (multipliers @ program.matrix).max(initial=1.0)
            self._duals, self.dual_value = duals, float(duals @ program.losses)
            self._age_cuts(duals, by=0)
            if self.primal - self.dual_value <= target:
                return True
            if self.primal - self._regularised(weights, self._model_risk(weights)) > target:
                return False
            step *= 2.0
        self._bound_by_program()
        return self.primal - self.dual_value <= target

    def _bound_by_program(self) -> NDArray[np.float64]:
        """Solve the linear program over the cuts: its duals are the master's; returns its weights."""
        # From nothing: what a run comes to must not hang on where the solver last stood, which no checkpoint knows.
        solution = self._program.solve(cold=self.stabilize)
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
            self.oracle.forget([cut for cut, stays in zip(self._cuts, kept, strict=True) if not stays])
            self._cuts = [cut for cut, stays in zip(self._cuts, kept, strict=True) if stays]
            self._idle = self._idle[kept]
            self._numbers = self._numbers[kept]
            self._multipliers = self._multipliers[kept]
            self._duals = self._duals[kept]
