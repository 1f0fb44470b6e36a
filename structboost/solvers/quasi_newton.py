"""Limited-memory BFGS on weights of which some must not be negative."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from structboost._typing import BoolArray, FloatArray

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
