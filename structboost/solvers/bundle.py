"""Proximal bundle method, by cutting planes near the best weights, with or without a ridge.

Plain cutting planes (Kelley's method) are made at the minimiser of the cuts, which jumps far from
step to step.  A bundle method makes them at the minimiser of the cuts plus
``|w - center|^2 / (2 step)``, where the center is the best weights so far (Teo et al. 2010, Kiwiel
1990).  With a ridge, the minimiser of the cuts alone is as cheap, and its value bounds the optimum.
Without one, the master must prove that the center is near the optimum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from structboost._typing import BoolArray, FloatArray
from structboost.errors import SolverError
from structboost.solvers.cut_program import CutPool
from structboost.solvers.products import ordered_product, ordered_times_vector
from structboost.solvers.proximal_step import proximal_step

_MAX_CUTS = 5000
# Fractions of the requested accuracy: what a step must promise to be worth a cut, by which factor
# less after each proof that failed, and how exactly a step is solved.
_PROMISE = 0.3
_LESS_PROMISE = 0.7
_STEP_ACCURACY = 0.05


class Bundle(ABC):
    """Minimiser of ``sum(w) + C risk(w) + ridge / 2 |w|^2`` over ``w >= 0`` by cuts of the risk.

    Attributes
    ----------
    C : float
        Weight of the risk.
    ridge : float
        Weight of the squares, or 0.
    weights : ndarray, shape (n_columns,)
        The center, which is the best weights so far.
    risk : float
        Risk of the center, infinite if it was not computed.
    pool : CutPool
        The first cut must be the empty one, of loss 0.
    step_length : float
        Length of the next proximal step.  With infinity, which needs a ridge, every cut is made
        at the minimiser of the cuts.
    ordered : bool
        Whether weights must not depend on BLAS (:mod:`structboost.solvers.products`).
    max_idle : int
        Steps without a multiplier after which a cut is dropped.
    max_cuts : int or None
        Number of cuts above which the idlest are dropped earlier.
    """

    C: float
    weights: FloatArray
    risk: float
    pool: CutPool
    ridge: float = 0.0
    step_length: float = 1.0
    longest_step: ClassVar[float] = np.inf
    ordered: ClassVar[bool] = False
    max_idle: ClassVar[int] = 20
    max_cuts: ClassVar[int | None] = None

    @abstractmethod
    def _new_cut(self, weights: FloatArray) -> float:
        """Add the cut at ``weights`` to the pool, and return their risk."""

    def _is_proved(self, accuracy: float) -> bool:
        """Whether the center, without a ridge, is within ``accuracy`` of the optimum."""
        raise NotImplementedError(f"{type(self).__name__} proves nothing without a ridge.")

    def _solve_by_bundle(self, accuracy: Callable[[], float], max_cuts: int = _MAX_CUTS) -> bool:
        """Add cuts until the center is within ``accuracy()`` of the optimum, and return success."""
        promise = 1.0 if np.isinf(self.step_length) else _PROMISE
        for _ in range(max_cuts):
            target = accuracy()
            before = self._objective(self.weights, self.risk)
            weights = self._nearest(self.step_length, target)
            predicted = before - self._model(weights)
            if predicted <= promise * target:
                if self.ridge:
                    weights = self._nearest(np.inf, target)
                    if before - self._model(weights) <= target:
                        return True
                elif self._is_proved(target):
                    return True
                # The center is near its proximal point, not yet near the optimum: longer steps.
                self.step_length = min(2.0 * self.step_length, self.longest_step)
                if not self.ridge:
                    promise *= _LESS_PROMISE
                    continue
            rise = self._cut(weights) - before
            if rise <= -0.5 * predicted:
                self.step_length *= 1.5
            elif rise > predicted:
                self.step_length *= 0.8
            in_use = self.pool.in_use(self.max_idle, self.max_cuts)
            if not in_use.all():
                self._keep_cuts(in_use)
        return False

    def _objective(self, weights: FloatArray, risk: float) -> float:
        squares = ordered_product(weights, weights) if self.ordered else weights @ weights
        return float(weights.sum()) + self.C * risk + 0.5 * self.ridge * float(squares)

    def _model(self, weights: FloatArray) -> float:
        """Lower bound of the objective of ``weights`` by the cuts."""
        matrix = self.pool.matrix
        margins = ordered_times_vector(matrix, weights) if self.ordered else matrix @ weights
        return self._objective(weights, float((self.pool.losses - margins).max(initial=0.0)))

    def _nearest(self, step: float, accuracy: float) -> FloatArray:
        """Minimise the cuts, the ridge and ``|w - center|^2 / (2 step)``, and update the ages."""
        pool = self.pool
        # Both squares are one, about a center nearer to zero.
        shortened = 1.0 / (self.ridge + 1.0 / step) if self.ridge else step
        weights, _, curvature = proximal_step(
            pool.matrix, pool.losses, self.C, self.weights * (shortened / step), shortened,
            pool.multipliers, _STEP_ACCURACY * accuracy,
            pool.curvature_by_row(), ordered=self.ordered,
        )  # fmt: skip
        pool.curvature = curvature._replace(cuts=pool.numbers[curvature.cuts])
        pool.age(pool.multipliers)
        return weights

    def _cut(self, weights: FloatArray) -> float:
        """Add the cut at ``weights``, keep the best weights, and return the objective."""
        risk = self._new_cut(weights)
        objective = self._objective(weights, risk)
        if not np.isfinite(objective):
            raise SolverError(
                f"The objective is {objective!r} at finite weights; check that losses are finite."
            )
        if objective < self._objective(self.weights, self.risk):
            self.weights, self.risk = weights.copy(), risk
        return objective

    def _keep_cuts(self, in_use: BoolArray) -> None:
        """Drop the cuts that are not ``kept``."""
        self.pool.keep(in_use)
