"""Proximal bundle method, by cutting planes near the best weights, with or without a ridge.

Plain cutting planes (Kelley's method) are made at the minimiser of the cuts, which jumps far from
step to step.  A bundle method makes them at the minimiser of the cuts plus
``|w - center|^2 / (2 step)``, where the center is the best weights so far (Teo et al. 2010, Kiwiel
1990).  With a ridge, the minimiser of the cuts alone is as cheap, and its value bounds the optimum.
Without one, the master must prove that the center is near the optimum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.errors import SolverError
from structboost.runtime.memory import GrowingMatrix
from structboost.solvers.proximal_step import (
    Curvature,
    no_curvature,
    ordered_product,
    ordered_times_vector,
    proximal_step,
)

# Arrays with an entry for each cut.
_OF_CUTS = ("losses", "slacks", "numbers", "multipliers", "duals", "idle")


class CutPool:
    """Pool of cuts ``slack >= loss - <measure, scores>``, one row each, over the columns so far.

    Parameters
    ----------
    empty_cut : bool
        Whether row 0 is the empty cut, c = 0 in (9b) of StructBoost.  It bounds the slack by 0,
        and is never dropped.

    Attributes
    ----------
    cuts : list
        Identity of each cut for the master, None for the empty one.
    losses : ndarray, shape (n_cuts,)
    slacks : ndarray of int64, shape (n_cuts,)
        Index of the slack of each cut, if there are several.
    numbers : ndarray of int64, shape (n_cuts,)
        Identifiers of the cuts, rising and never used again.
    multipliers : ndarray, shape (n_cuts,)
        Solution of the last proximal step, and start of the next.
    duals : ndarray, shape (n_cuts,)
        Multipliers that prove the lower bound; a cut that has one is not dropped.
    idle : ndarray of int64, shape (n_cuts,)
        Steps since each cut last had a multiplier.
    n_made : int
        Number of cuts ever added.
    curvature : Curvature
        Products from the last step, with cuts by their identifiers.
    """

    def __init__(self, *, empty_cut: bool = False) -> None:
        self._products = GrowingMatrix(0, np.float64)
        self.cuts: list[Any] = []
        self.losses = np.zeros(0)
        self.slacks = np.zeros(0, np.int64)
        self.numbers = np.zeros(0, np.int64)
        self.multipliers = np.zeros(0)
        self.duals = np.zeros(0)
        self.idle = np.zeros(0, np.int64)
        self.n_made = 0
        self.curvature = no_curvature(0)
        self._n_empty = int(empty_cut)
        if empty_cut:
            self.add([None], np.zeros((1, 0)), np.zeros(1))

    def __len__(self) -> int:
        return len(self.losses)

    @property
    def made(self) -> slice:
        """Rows of all cuts but the empty one."""
        return slice(self._n_empty, None)

    @property
    def matrix(self) -> FloatArray:
        """Products <V, R> of cuts and columns, shape (n_cuts, n_columns), C-contiguous."""
        return self._products.rows

    def add(
        self,
        cuts: Sequence[Any],
        products: FloatArray,
        losses: FloatArray,
        slacks: IntArray | None = None,
    ) -> None:
        """Append cuts without multipliers, with ``products`` of shape (n_new, n_columns)."""
        self._products.append(products)
        self.cuts.extend(cuts)
        new = {"losses": losses, "numbers": self.n_made + np.arange(len(losses))}
        if slacks is not None:
            new["slacks"] = slacks
        self.n_made += len(losses)
        for name in _OF_CUTS:
            old = getattr(self, name)
            of_new = new.get(name, np.zeros(len(losses), old.dtype))
            setattr(self, name, np.concatenate((old, of_new)))

    def keep(self, in_use: BoolArray) -> list[Any]:
        """Drop the cuts that are not ``kept``, and return the dropped entries of ``cuts``."""
        gone = [cut for cut, stays in zip(self.cuts, in_use, strict=True) if not stays]
        self.cuts = [cut for cut, stays in zip(self.cuts, in_use, strict=True) if stays]
        self._products.keep(in_use)
        for name in _OF_CUTS:
            setattr(self, name, getattr(self, name)[in_use])
        return gone

    def add_columns(self, products: FloatArray) -> None:
        """Append columns, with ``products`` of shape (n_cuts, n_new)."""
        self._products.append_columns(products)
        new = np.zeros(products.shape[1], np.bool_)
        positive = np.concatenate((self.curvature.positive, new))
        self.curvature = self.curvature._replace(positive=positive)

    def keep_columns(self, in_use: AnyArray) -> None:
        """Drop the columns that are not ``kept``, a mask or the indices in their new order."""
        self._products.keep_columns(in_use)
        self.forget_curvature()

    def forget_curvature(self) -> None:
        """Forget the products from the last step, after a change of matrix entries."""
        self.curvature = no_curvature(self.matrix.shape[1])

    def curvature_by_row(self) -> Curvature:
        """Curvature from the last step of the cuts that are still stored, by their rows."""
        cuts, gram, positive = self.curvature
        rows = np.searchsorted(self.numbers, cuts)
        held = self.numbers[np.minimum(rows, len(self) - 1)] == cuts
        if held.all():
            return Curvature(rows, gram, positive)
        return Curvature(rows[held], np.ascontiguousarray(gram[np.ix_(held, held)]), positive)

    def age(self, multipliers: FloatArray, by: int = 1) -> None:
        """Reset the age of cuts with a multiplier, and raise that of the others."""
        self.idle = np.where(multipliers > 0, 0, self.idle + by)
        self.idle[: self._n_empty] = 0

    def in_use(self, max_idle: int, most: int | None = None) -> BoolArray:
        """Mask of cuts with a dual, or at rest for ``max_idle`` steps at most.

        Of more than ``most`` cuts, those without a multiplier are dropped earlier, the idlest
        first.
        """
        in_use = (self.idle <= max_idle) | (self.duals > 0)
        if most is not None and (excess := int(in_use.sum()) - most) > 0:
            rest = np.flatnonzero(in_use & (self.idle > 0) & (self.duals == 0))
            in_use[rest[np.argsort(-self.idle[rest], kind="stable")[:excess]]] = False
        return in_use


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
        Whether weights must not depend on BLAS (:mod:`structboost.solvers.proximal_step`).
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
        return self._objective(weights, (self.pool.losses - margins).max(initial=0.0))

    def _nearest(self, step: float, accuracy: float) -> FloatArray:
        """Minimise the cuts, the ridge and ``|w - center|^2 / (2 step)``, and update the ages."""
        pool = self.pool
        # Both squares are one, about a center nearer to zero.
        shortened = 1.0 / (self.ridge + 1.0 / step) if self.ridge else step
        weights, curvature = proximal_step(
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
