"""Base of the hinge masters over a pool of cuts, and the 1-slack master, by a bundle method.

Algorithm 2 as printed is Kelley's method, which zigzags.  The stabilised form is the bundle method
of :mod:`structboost.solvers.bundle`; its quadratic step has as many unknowns as there are live
cuts, about a hundred.  The linear program over the same cuts bounds the gap of the center.  It is
solved by the proximal point method, and by HiGHS where that does not end.  With a ridge the last
quadratic step gives this bound.  Figures: docs/decisions.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from structboost._typing import AnyArray, BoolArray, Facts, FloatArray, IntArray, override
from structboost.contract.calls import beaten
from structboost.errors import TaskError
from structboost.files.archive import (
    Array,
    Arrays,
    DamagedFileError,
    Header,
    Part,
    Schema,
    damaged_content,
    finite_number,
    whole_number,
)
from structboost.learners.base import WeakLearnerFamily
from structboost.learners.terms import KindTerms
from structboost.objectives.base import ColumnOracle, CutOracle, Formulation, Problem
from structboost.objectives.master import RestrictedMaster
from structboost.solvers.bundle import Bundle, CutPool
from structboost.solvers.cut_program import CutProgram
from structboost.solvers.proximal_step import Curvature, proximal_step
from structboost.validation import check_declares


class HingeMaster(RestrictedMaster):
    """Master of the hinge loss, which sees the training set through its cuts.

    Parameters
    ----------
    oracle : ColumnOracle
    C : float
    pool : CutPool
    norm : float, optional
        Bound of the l1 norm of the weights.

    Attributes
    ----------
    dual_value : float
        Objective of dual multipliers that are feasible up to the edges of columns: divided by
        max(1, largest edge) it bounds the optimum from below (Farley 1990).
    """

    def __init__(
        self, oracle: ColumnOracle, C: float, pool: CutPool, norm: float | None = None
    ) -> None:
        super().__init__(C)
        self.oracle = oracle
        self.weights = np.zeros(oracle.n_columns)
        self.dual_value = 0.0
        self.pool = pool
        self.program = CutProgram(pool, norm)

    @property
    @override
    def n_cuts(self) -> int:
        return len(self.pool.losses[self.pool.made])

    @property
    @override
    def oracle_calls(self) -> int:
        return self.oracle.calls

    @override
    def add_responses(self, kind: str, responses: Any) -> int:
        return self.oracle.add_responses(kind, responses)

    @override
    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        products = self._products(terms, n_new)
        self.oracle.add_columns(terms, n_new)
        self.pool.add_columns(products)
        super().add_columns(terms, n_new)

    @override
    def keep_columns(self, mask: BoolArray) -> None:
        self.oracle.keep_columns(mask)
        self.program.keep_columns(mask)
        self.pool.keep_columns(mask)
        super().keep_columns(mask)

    @override
    def bound(self, largest_edge: float) -> float | None:
        return self.dual_value / max(1.0, largest_edge)

    def _take_duals(self, duals: FloatArray, by: int = 0) -> None:
        """Store the duals that give the bound, and age cuts whose dual is 0 by ``by`` steps."""
        self.pool.duals, self.dual_value = duals, float(duals @ self.pool.losses)
        self.pool.age(duals, by)

    def _values_at(self, weights: FloatArray) -> FloatArray:
        """Lower bounds that the cuts give for their slacks at ``weights``."""
        return self.pool.losses - self.pool.matrix @ weights

    def _check_risk(self, risk: float, earlier: float, weights: FloatArray) -> None:
        """Raise TaskError if the outputs found at ``weights`` give less than the known cuts."""
        if not self.oracle.exact or not beaten(risk, earlier, 0.0):
            return
        terms = np.abs(self.pool.matrix) @ weights + self.pool.losses
        if beaten(risk, earlier, terms.max(initial=0.0)):
            raise TaskError(
                "The loss-augmented argmax is not exact: the outputs that it found make a risk of "
                f"{risk:.6g}, earlier ones {earlier:.6g}. Run check_task(task, X, Y) and correct "
                "it, or set exact_argmax = False."
            )

    @abstractmethod
    def _products(self, terms: KindTerms, n_new: int) -> FloatArray:
        """Products of the stored cuts with new columns, shape (n_cuts, n_new)."""


class CuttingPlaneMaster(HingeMaster, Bundle):
    """Hinge master with one slack for all examples, where a cut has an output for each example."""

    oracle: CutOracle
    takes_sparse_responses = True

    @override
    def duals(self) -> dict[str, Any]:
        is_made = self.pool.made
        return self.oracle.combine(self.pool.cuts[is_made], self.pool.duals[is_made])

    @override
    def _products(self, terms: KindTerms, n_new: int) -> FloatArray:
        products, is_made = np.zeros((len(self.pool), n_new)), self.pool.made
        products[is_made] = self.oracle.products(self.pool.cuts[is_made], terms, n_new)
        return products

    @override
    def _new_cut(self, weights: FloatArray) -> float:
        cut, products, risk = self.oracle.cut_at(weights)
        self._check_risk(risk, self._values_at(weights).max(initial=0.0), weights)
        self.pool.add([cut], products[None], np.array([cut.loss]))
        return risk

    @override
    def _keep_cuts(self, mask: BoolArray) -> None:
        self.oracle.forget(self.pool.keep(mask))


_MAX_CUTS_PER_SOLVE = 5000
# Cuts of a loose solution; after these, new columns help more than new cuts.
_MAX_LOOSE_CUTS = 20
_LONGER = 100.0
_MAX_LONG_STEPS = 30
# With longer steps, the cuts cannot separate the center from the optimum.
_LONGEST_STEP = 1e12
_MAX_RIDGES = 4
# Fractions of the allowed rise of the objective: accuracy of a ridge, and the rise that is enough.
_RIDGE_ACCURACY = 0.2
_ENOUGH_USED = 0.6
# Relative difference between sums of the same numbers in another order.
_ROUNDING = 1e-9
# Largest relative gap of a master with a ridge: the gap that pricing leaves is no guide, since its
# bound ignores the ridge.
_RIDGE_GAP = 0.05

# What a checkpoint holds of each cut of the pool, and of the curvature that the last step left.
_OF_CUTS = {
    "idle": Array("int64", ("n_cuts",), low=0),
    "multipliers": Array("float64", ("n_cuts",), low=0.0),
    "duals": Array("float64", ("n_cuts",), low=0.0),
    "numbers": Array("int64", ("n_cuts",), low=0, rising=True),
}
_OF_CURVATURE = {
    "known_cuts": Array("int64", ("n_known",), low=0),
    "known_gram": Array("float64", ("n_known", "n_known")),
    "known_columns": Array("bool", ("n_live",)),
}


@dataclass(frozen=True)
class OneSlack(Formulation):
    """Hinge loss with one slack for all examples, (9) of StructBoost.

    Parameters
    ----------
    stabilize : bool
        False selects Algorithm 2 as printed, which takes no ridge.
    ridge : float, optional
        If positive, ``C ridge / 2 |w|^2`` is added to the objective: the weight is then
        spread over many weak learners.  The bound ignores the ridge, so the gap stays wide.  None
        means 1 if trees are among the weak learners, else 0 (docs/decisions.md).
    """

    works_on_shards = True
    can_choose_C = True
    stabilize: bool = True
    ridge: float | None = None

    @property
    @override
    def can_resume(self) -> bool:
        return self.stabilize

    @property
    @override
    def can_spread(self) -> bool:
        return self.stabilize

    @override
    def prepare(self, families: Mapping[str, WeakLearnerFamily], random_state: Any) -> None:
        # With a ridge, weight is shared out among learners that differ.
        if self.stabilize and self.ridge != 0:
            for family in families.values():
                family.resample(random_state)

    @override
    def check(self) -> None:
        super().check()
        if self.ridge:
            check_declares(self, "can_spread", "ridge", "take stabilize=True, or leave ridge=None")

    @override
    def start(self, problem: Problem, C: float) -> OneSlackMaster:
        ridge = self.ridge or 0.0
        if self.stabilize and self.ridge is None:
            ridge = max((family.ridge for family in problem.families.values()), default=0.0)
        return OneSlackMaster(problem.cut_oracle(), C, float(ridge), stabilize=self.stabilize)


class OneSlackMaster(CuttingPlaneMaster):
    """Cutting planes for (9) over the columns so far, around a center if they are stabilised.

    Else they are Algorithm 2 as printed, which drops no cut.  The squares of the weights cost ``C
    weight_of_squares / 2``.
    """

    def __init__(
        self, oracle: CutOracle, C: float, weight_of_squares: float, *, stabilize: bool
    ) -> None:
        super().__init__(oracle, C, CutPool(empty_cut=True))
        self.stabilize = stabilize
        self._weight_of_squares = weight_of_squares
        self.ridge = self._own_ridge
        self.program.add_slacks(np.array([C]))
        self.pool.multipliers[0] = C

    @property
    def _own_ridge(self) -> float:
        """Ridge of the objective, which spreading exceeds for a while."""
        return self.C * self._weight_of_squares

    @property
    @override
    def primal(self) -> float:
        squares = float(self.weights @ self.weights) if self._weight_of_squares else 0.0
        return super().primal + 0.5 * self._own_ridge * squares

    @override
    def bound(self, largest_edge: float) -> float | None:
        if self._weight_of_squares:
            edge = float((self.pool.duals @ self.pool.matrix).max(initial=0.0))
            largest_edge = max(largest_edge, edge)
        return super().bound(largest_edge)

    @override
    def set_C(self, C: float) -> None:
        self.pool.multipliers *= C / self.C
        self.C = C
        self.ridge = self._own_ridge
        self.program.set_slack_costs(np.array([C]))
        self._prove()

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        if not self._solve(tolerance, _MAX_CUTS_PER_SOLVE) or self.ridge:
            self._prove()

    @override
    def solve_loosely(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Add a few cuts at most, and take the duals of the last long step.

        With a ridge this is :meth:`solve`, whose tolerance is loose in that case.
        """
        if self.ridge:
            self.solve(tolerance)
        elif not self._solve(tolerance, _MAX_LOOSE_CUTS):
            self._is_proved(tolerance * self.primal)

    def _solve(self, tolerance: float, most_cuts: int) -> bool:
        """Add cuts until the gap is at most ``tolerance``, and return whether the cuts prove it."""
        if np.isinf(self.risk):
            self._cut(self.weights)
            self._prove()
        if not self.stabilize:
            self._solve_by_cutting_planes(tolerance)
            return True
        if self.ridge:
            tolerance = min(tolerance, _RIDGE_GAP)
        elif len(self.pool) == 2 and not self.weights.any():
            # The only cut promises to take all of the objective along a step of this length.
            fall = np.maximum(self.C * self.pool.matrix[1] - 1.0, 0.0)
            square = float(fall @ fall)
            if square > 0 and self.primal > 0:
                self.step_length = self.primal / square
        return self._solve_by_bundle(lambda: tolerance * self.primal, most_cuts)

    def _solve_by_cutting_planes(self, tolerance: float) -> None:
        for _ in range(_MAX_CUTS_PER_SOLVE):
            weights = self._bound_by_program()
            if self.primal - self.dual_value <= tolerance * self.primal:
                return
            self._cut(weights)
        self._bound_by_program()

    @override
    def _is_proved(self, accuracy: float) -> bool:
        """Whether the duals of the cuts prove that the center is near the optimum.

        Runs the proximal point method on the linear program over the cuts: long steps, each from
        where the last one ended.  The simplex method takes far longer where there are thousands of
        columns, and most of the time the program cannot prove enough.
        """
        pool = self.pool
        multipliers = pool.multipliers.copy()
        weights, step, curvature = self.weights, _LONGER * self.step_length, pool.curvature_by_row()
        for _ in range(_MAX_LONG_STEPS):
            weights, curvature = proximal_step(
                pool.matrix, pool.losses, self.C, weights, step, multipliers, 0.05 * accuracy,
                curvature,
            )  # fmt: skip
            self._take_duals(multipliers / (multipliers @ pool.matrix).max(initial=1.0))
            if self.primal - self.dual_value <= accuracy:
                return True
            if self.primal - self._model(weights) > accuracy:
                return self.step_length > _LONGEST_STEP
            step *= 2.0
        self._bound_by_program()
        return self.primal - self.dual_value <= accuracy or self.step_length > _LONGEST_STEP

    def _prove(self) -> None:
        """Take the duals of the last step if there is a ridge, else those of the linear program."""
        if self.ridge:
            self._take_duals(self.pool.multipliers.copy())
        else:
            self._bound_by_program()

    def _bound_by_program(self) -> FloatArray:
        """Solve the linear program over the cuts, take its duals and return its weights."""
        # Cold: results must not depend on where the solver last stood, which no checkpoint holds.
        solution = self.program.solve(cold=self.stabilize)
        self._take_duals(solution.duals)
        return solution.weights

    @override
    def state(self) -> tuple[Header, Arrays]:
        scalars = {
            "risk": self.risk, "dual_value": self.dual_value, "n_made": self.pool.n_made,
            "step": self.step_length, "calls": self.oracle.calls,
        }  # fmt: skip
        pool = self.pool
        arrays = {"weights": self.weights, "matrix": pool.matrix, "losses": pool.losses}
        arrays |= {name: getattr(pool, name) for name in _OF_CUTS}
        arrays |= dict[str, AnyArray](zip(_OF_CURVATURE, pool.curvature, strict=True))
        return scalars, arrays | self.oracle.state(pool.cuts[1:])

    @override
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        fields = {
            "weights": Array("float64", ("n_live",), low=0.0),
            "matrix": Array("float64", ("n_cuts", "n_live")),
            "losses": Array("float64", ("n_cuts",)),
        }
        return {"": Part(fields | _OF_CUTS | _OF_CURVATURE), **self.oracle.schema(n_learners)}

    @override
    def restore(self, scalars: Facts, arrays: Mapping[str, AnyArray]) -> None:
        with damaged_content():
            risk = finite_number(scalars["risk"], "risk", 0.0)
            self.dual_value = finite_number(scalars["dual_value"], "dual_value", 0.0)
            self.step_length = finite_number(scalars["step"], "step", np.finfo(np.float64).tiny)
            calls = whole_number(scalars["calls"], "number of calls", 1, 1 << 62)
            n_made = whole_number(scalars["n_made"], "number of cuts", 1, 1 << 62)
        if len(np.unique(arrays["known_cuts"])) < len(arrays["known_cuts"]):
            raise DamagedFileError("it has products of a cut twice")
        cuts = self.oracle.restored_cuts(arrays, len(arrays["losses"]) - 1)
        # The file has no hash of outputs in a Dask collection.
        risk_now = self.oracle.risk_at(arrays["weights"])
        if abs(risk - risk_now) > _ROUNDING * max(1.0, risk_now):
            raise DamagedFileError("its risk is not that of its weights on these data")
        self.weights, self.risk, pool = arrays["weights"], risk, self.pool
        pool.add(cuts, arrays["matrix"][1:], arrays["losses"][1:])
        for name in _OF_CUTS:
            setattr(pool, name, arrays[name])
        pool.n_made = n_made
        pool.curvature = Curvature(*(arrays[name] for name in _OF_CURVATURE))
        self.oracle.calls = calls

    @override
    def spread(self, limit: float) -> None:
        """Move to weights of small Euclidean norm whose objective is at most ``limit``.

        Minimises the objective plus ``more / 2 |w|^2`` for a few further ridges.  Each is chosen by
        how much of the rise allowed the last one used.  The result lies between the weights of the
        largest ridge within the limit and those of the smallest beyond it: the objective is
        convex, so it stays within the limit.
        """
        allowed = limit - self.primal
        norm = float(self.weights @ self.weights)
        if allowed <= 0 or norm == 0:
            return
        start = self.primal
        best, step = (self.weights, self.risk), self.step_length
        # The objective at a ridge's minimiser is at most ridge / 2 |w|^2 above the optimum.
        more, too_large = 2.0 * allowed / norm, np.inf
        beyond = best[0], start
        try:
            for _ in range(_MAX_RIDGES):
                self.step_length, self.ridge = step, self._own_ridge + more
                self._solve_by_bundle(lambda: _RIDGE_ACCURACY * allowed)
                used = (self.primal - start) / allowed
                if used <= 1.0:
                    best = self.weights, self.risk
                    if used > _ENOUGH_USED:
                        break
                    more *= np.clip(_ENOUGH_USED / max(used, 1e-3), 1.5, 8.0)
                else:
                    too_large, beyond = more, (self.weights, self.primal)
                    more *= 0.6
                if more >= too_large:
                    break
        finally:
            self.ridge, self.step_length = self._own_ridge, step
            self.weights, self.risk = best
        if beyond[1] > limit:
            fraction = (limit - self.primal) / (beyond[1] - self.primal)
            mixed = self.weights + fraction * (beyond[0] - self.weights)
            self.weights, self.risk = mixed, self.oracle.cut_at(mixed)[2]
