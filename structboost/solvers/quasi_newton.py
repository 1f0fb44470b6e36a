"""Limited-memory BFGS on weights of which some must not be negative."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray

_MEMORY = 5
# A step must lower the value by this fraction of what its slope promises.
_ARMIJO = 1e-4
_MAX_HALVINGS = 30
# Pairs of less curvature than this fraction of their size are left out.
_LEAST_CURVATURE = 1e-10

# ``evaluate(weights)`` gives a value and its gradient.
Evaluate = Callable[[FloatArray], tuple[float, FloatArray]]


class QuasiNewton:
    """Minimiser of a smooth convex function, step by step.

    Parameters
    ----------
    evaluate : callable
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

    def __init__(self, evaluate: Evaluate, bounded: NDArray[np.bool_], weights: FloatArray) -> None:
        self._evaluate, self._bounded = evaluate, bounded
        self._has_bounds = bool(bounded.any())
        self._pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_MEMORY)
        self.begin(weights)

    def begin(self, weights: FloatArray) -> None:
        """Start again at some weights, with a function that may have changed."""
        self._pairs.clear()
        self.weights = weights
        self.value, self.gradient = self._evaluate(weights)

    def step(self) -> bool:
        """Make a step, and return whether it lowers the value by more than rounding."""
        held = self._held()
        direction = -self._times_inverse(np.where(held, 0.0, self.gradient))
        direction[held] = 0.0
        if not float(direction @ self.gradient) < 0.0:
            self._pairs.clear()
            direction = np.where(held, 0.0, -self.gradient)
        size = 1.0
        if not self._pairs:
            size = min(1.0, 1.0 / max(float(np.linalg.norm(direction)), 1e-300))
        for _ in range(_MAX_HALVINGS):
            weights = self._projected(self.weights + size * direction)
            change = weights - self.weights
            promised = float(self.gradient @ change)
            value, gradient = self._evaluate(weights)
            if value <= self.value + _ARMIJO * promised and promised < 0.0:
                self._learn(change, gradient - self.gradient)
                self.weights, self.value, self.gradient = weights, value, gradient
                return True
            size *= 0.5
        self._pairs.clear()
        return False

    def _held(self) -> NDArray[np.bool_]:
        if not self._has_bounds:
            return np.zeros(len(self.weights), bool)
        return self._bounded & (self.weights <= 0.0) & (self.gradient > 0.0)

    def _projected(self, weights: FloatArray) -> FloatArray:
        if self._has_bounds:
            weights[self._bounded] = np.maximum(weights[self._bounded], 0.0)
        return weights

    def _learn(self, change: FloatArray, difference: FloatArray) -> None:
        curvature = float(change @ difference)
        if curvature > _LEAST_CURVATURE * float(change @ change):
            self._pairs.append((change, difference, 1.0 / curvature))

    def _times_inverse(self, gradient: FloatArray) -> FloatArray:
        out = gradient.copy()
        factors = []
        for change, difference, inverse in reversed(self._pairs):
            factor = inverse * float(change @ out)
            factors.append(factor)
            out -= factor * difference
        if self._pairs:
            change, difference, inverse = self._pairs[-1]
            out /= inverse * float(difference @ difference)
        for (change, difference, inverse), factor in zip(
            self._pairs, reversed(factors), strict=True
        ):
            out += (factor - inverse * float(difference @ out)) * change
        return out
