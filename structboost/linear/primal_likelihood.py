"""Regularised likelihood of any task with marginals, minimised over linear functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from structboost._typing import BoolArray, Examples, FloatArray, IntArray, override
from structboost.contract.task import Task
from structboost.linear.designs import (
    FoldResult,
    LinearProblem,
    check_sizes,
    designs_of,
    stacked_without_gaps,
)
from structboost.objectives.base import Problem
from structboost.objectives.likelihood import Likelihood
from structboost.runtime.interrupts import raise_if_interrupted

# Steps of a round.
_STEPS = 3
# Largest feature: its scores are squared without an overflow.
_LARGEST = 1e50


class PrimalLikelihood(LinearProblem):
    """Minimiser of ``C mean(-log p(y_i | x_i)) + |w|^2 / 2`` by quasi-Newton steps.

    Features are standardised, except sparse ones and active ones.  At any weights v,
    ``w = C mean(features of y_i - features expected at v)`` gives the lower bound ``C mean(H_i) -
    |w|^2 / 2``, H being the entropies at v; H and w are concave and linear in the distributions, so
    means of such pairs give bounds as well, and the best one is kept.

    Parameters
    ----------
    task : Task
        A task that implements marginals.
    X, Y : sequence
        Examples.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    active : collection of str
        Kinds whose rows are indices of active features.
    random_state
        Ignored: nothing is drawn.

    Attributes
    ----------
    primal, bound : float
        Objective of the weights, and the lower bound, at the C of :meth:`begin`.
    """

    # Whether sums of the task are used, whose errors are then looked for.
    _uses_sums_of_task = True

    def __init__(
        self,
        task: Task,
        X: Examples,
        Y: Examples,
        example_weights: FloatArray,
        *,
        active: Collection[str] = (),
        random_state: Any = None,
    ) -> None:
        self.task = task
        stack = stacked_without_gaps(task, X, active)
        self.designs = designs_of(task.kinds, stack, active)
        self._offsets = stack.offsets
        check_sizes(self.designs, stack, _LARGEST)
        self._matrices = {
            kind: design.matrix(stack.rows[kind]) for kind, design in self.designs.items()
        }
        problem = Problem(task, X, Y, stack.offsets, example_weights)
        self._likelihood = Likelihood(problem, probes=self._uses_sums_of_task)
        self._example_weights = example_weights
        self._shapes = {
            kind: (design.width, task.kinds[kind].n_channels)
            for kind, design in self.designs.items()
        }
        sizes = [a * b for a, b in self._shapes.values()]
        self._bounded = np.repeat([not part.has_bias for part in task.kinds.values()], sizes)
        self._C = 0.0
        # Weights and mean entropy of the dual point that gives the bound, at C = 1.
        self._dual: Any = None
        self._weights = np.zeros(sum(sizes))
        # The solver moves the weights divided by this.
        self._scale: Any = 1.0
        self.primal, self.bound = np.inf, -np.inf

    @override
    def begin(self, C: float) -> None:
        self._C = C
        self._solver = QuasiNewton(self._evaluate, self._bounded, self._weights / self._scale)
        self._measure()

    def result(self) -> FoldResult:
        """Return the best weights so far."""
        return FoldResult(self.matrices())

    def adopt(self, result: FoldResult, rows: IntArray, C: float) -> None:
        """Start at C from the weights of a problem with the examples ``rows``."""
        parts = []
        for kind, shape in self._shapes.items():
            matrix, theirs = np.zeros(shape), result.matrices[kind]
            # Active features may be more here; the constant comes last.
            n = min(shape[0], len(theirs)) - 1
            matrix[:n], matrix[-1] = theirs[:n], theirs[-1]
            parts.append(matrix.ravel())
        self._weights = np.concatenate(parts)
        self.begin(C)

    @override
    def improve(self) -> None:
        for _ in range(_STEPS):
            raise_if_interrupted()
            if not self._solver.step():
                break
        self._measure()

    def _measure(self) -> None:
        self._weights = self._scale * self._solver.weights
        self.primal, self.bound = self._solver.value, self._dual_value(self._dual)

    @override
    def matrices(self) -> Mapping[str, FloatArray]:
        return self._split(self._weights)

    def _split(self, weights: FloatArray) -> dict[str, FloatArray]:
        out, at = {}, 0
        for kind, (width, n_channels) in self._shapes.items():
            out[kind] = weights[at : at + width * n_channels].reshape(width, n_channels)
            at += width * n_channels
        return out

    def _evaluate(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Compute objective and gradient, and improve the dual point."""
        by_kind = self._split(weights)
        scores = {
            kind: np.asarray(self._matrices[kind] @ matrix) for kind, matrix in by_kind.items()
        }
        at_scores = self._likelihood.at(scores)
        rising = np.concatenate(
            [_product(self._matrices[kind], at_scores.slopes[kind]).ravel() for kind in by_kind]
        )
        self._mix(rising, float(self._example_weights @ at_scores.entropies))
        value = self._C * float(self._example_weights @ at_scores.losses)
        return value + 0.5 * float(weights @ weights), weights - self._C * rising

    def _mix(self, direction: FloatArray, entropy: float) -> None:
        """Move the dual point to the best mean of itself and a new one."""
        if self._dual is None:
            self._dual = direction, entropy
            return
        dual, own_entropy = self._dual
        change, rise = direction - dual, entropy - own_entropy
        size = self._C * float(change @ change)
        slope = rise - self._C * float(self._positive(dual) @ change)
        fraction = min(1.0, max(0.0, slope / size)) if size > 0 else 0.0
        mean = dual + fraction * change, own_entropy + fraction * rise
        self._dual = max((self._dual, (direction, entropy), mean), key=self._dual_value)

    def _dual_value(self, dual: tuple[FloatArray, float]) -> float:
        weights = self._positive(dual[0])
        return self._C * dual[1] - 0.5 * self._C**2 * float(weights @ weights)

    def _positive(self, weights: FloatArray) -> FloatArray:
        """Mask of weights above zero among those that must not be negative."""
        if not self._bounded.any():
            return weights
        return np.where(self._bounded, np.maximum(weights, 0.0), weights)


def _product(matrix: Any, slopes: FloatArray) -> FloatArray:
    """Product of the transposed matrix with the slopes, shape (width, n_channels)."""
    if sparse.issparse(matrix):
        return np.asarray(matrix.T @ np.ascontiguousarray(slopes.T))
    return np.asarray(matrix.T @ slopes.T)


_MEMORY = 5
# A step must lower the value by this fraction of what its slope promises.
_ARMIJO = 1e-4
_MAX_HALVINGS = 30
# Pairs of less curvature than this fraction of their size are left out.
_LEAST_CURVATURE = 1e-10


class QuasiNewton:
    """Minimiser of a smooth convex function, step by step.

    SciPy's L-BFGS-B takes as many steps, and a third to twice as much time (docs/decisions.md).

    Parameters
    ----------
    evaluate : callable
        ``evaluate(weights)`` gives a value and its gradient.
    bounded : ndarray of bool
        Weights that must not be negative.
    weights : ndarray
        Initial weights.

    Attributes
    ----------
    weights, value, gradient
        After the last step.

    Notes
    -----
    Nocedal and Wright, Numerical Optimization, algorithm 7.5; weights that a bound holds are left
    out of a step, and the step is projected (Bertsekas 1982).
    """

    def __init__(
        self,
        evaluate: Callable[[FloatArray], tuple[float, FloatArray]],
        bounded: BoolArray,
        weights: FloatArray,
    ) -> None:
        self._evaluate, self._bounded = evaluate, np.flatnonzero(bounded)
        self._pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_MEMORY)
        self.weights = weights
        self.value, self.gradient = evaluate(weights)

    def step(self) -> bool:
        """Make a step, and return whether it lowers the value by more than rounding."""
        at = self._bounded
        held = at[(self.weights[at] <= 0.0) & (self.gradient[at] > 0.0)]
        steepest = -self.gradient
        steepest[held] = 0.0
        direction = self._times_inverse(steepest)
        direction[held] = 0.0
        if not direction @ self.gradient < 0.0:
            self._pairs.clear()
            direction = steepest
        size = 1.0
        if not self._pairs:
            size = min(1.0, 1.0 / max(float(np.linalg.norm(direction)), 1e-300))
        for _ in range(_MAX_HALVINGS):
            weights = self.weights + size * direction
            weights[at] = np.maximum(weights[at], 0.0)
            change = weights - self.weights
            promised = self.gradient @ change
            value, gradient = self._evaluate(weights)
            if value <= self.value + _ARMIJO * promised and promised < 0.0:
                difference = gradient - self.gradient
                curvature = float(change @ difference)
                if curvature > _LEAST_CURVATURE * (change @ change):
                    self._pairs.append((change, difference, 1.0 / curvature))
                self.weights, self.value, self.gradient = weights, value, gradient
                return True
            size *= 0.5
        self._pairs.clear()
        return False

    def _times_inverse(self, vector: FloatArray) -> FloatArray:
        out, factors = vector.copy(), []
        for change, difference, inverse in reversed(self._pairs):
            factors.append(inverse * (change @ out))
            out -= factors[-1] * difference
        if self._pairs:
            _, difference, inverse = self._pairs[-1]
            out /= inverse * (difference @ difference)
        for (change, difference, inverse), factor in zip(
            self._pairs, reversed(factors), strict=True
        ):
            out += (factor - inverse * (difference @ out)) * change
        return out
