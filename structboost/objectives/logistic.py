"""ShareBoost's master, a multi-class logistic loss with the margin inside and free signs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from structboost._typing import FloatArray, IntArray, override
from structboost.objectives.base import Formulation, Problem, SoftmaxLink
from structboost.objectives.master import SingleTermMaster
from structboost.runtime.memory import GrowingMatrix

_MAX_ITERATIONS = 1000


@dataclass(frozen=True)
class Logistic(Formulation):
    """Loss (3) of ShareBoost, the mean of ``log sum_c exp(1[c != y] - F_y + F_c)``.

    Minimises ``L(W) + |W|^2 / C`` over weights of free sign.  With C infinite there is no
    regulariser.

    Parameters
    ----------
    gradient_tolerance : float
        Largest entry of the gradient at which a re-fit ends.  On separable data without a
        regulariser the loss has no minimiser, and this tolerance ends the re-fit.
    """

    gradient_tolerance: float = 1e-4
    takes_infinite_C = True
    # The loss has a margin of 1.
    link = SoftmaxLink(margin=1.0)

    @override
    def start(self, problem: Problem, C: float) -> LogisticMaster:
        return LogisticMaster(problem, C, self)


class LogisticMaster(SingleTermMaster):
    """Master of all channels of the chosen learners, re-fitted from the weights of the last round.

    The master takes all channels of a learner or none.
    """

    # A learner that was chosen once is never chosen again.
    max_idle_rounds = inf

    def __init__(self, problem: Problem, C: float, formulation: Logistic) -> None:
        codes = problem.task.codes(problem.Y)
        super().__init__(problem.only_kind(), C)
        self.formulation = formulation
        self._code = codes.codes.astype(np.float64)
        self._labels = codes.labels
        self._margins = codes.losses[codes.labels]
        self._example_weights = problem.example_weights
        self._responses = GrowingMatrix(len(codes.labels), np.float32)
        no_scores = np.zeros((len(codes.labels), self._code.shape[1]))
        self.risk, _ = self._loss_and_duals(no_scores)

    @property
    @override
    def primal(self) -> float:
        return float(self.risk + self._penalty(self._matrix(self.weights))[0])

    @property
    @override
    def min_edge(self) -> float:
        return float(2.0 * self.formulation.gradient_tolerance * self._code.shape[1])

    @override
    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        return self._responses.append(responses)

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        options = {
            "gtol": self.formulation.gradient_tolerance, "ftol": 1e-12, "maxiter": _MAX_ITERATIONS,
        }  # fmt: skip
        result = minimize(
            self.value_and_gradient, self.weights, jac=True, method="L-BFGS-B", options=options
        )
        self.weights = np.asarray(result.x, np.float64)
        self.risk = float(result.fun) - self._penalty(self._matrix(self.weights))[0]

    @override
    def duals(self) -> dict[str, FloatArray]:
        return {self._kind: self._loss_and_duals(self._scores(self._matrix(self.weights)))[1]}

    @override
    def bound(self, largest_edge: float) -> float | None:
        return None

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Objective and gradient at some weights."""
        self._calls += 1
        matrix = self._matrix(weights)
        loss, duals = self._loss_and_duals(self._scores(matrix))
        penalty, slope = self._penalty(matrix)
        by_weight = slope - self._responses.rows @ duals.astype(np.float32)
        return loss + penalty, by_weight[self._terms.learners, self._terms.channels]

    def _matrix(self, weights: FloatArray) -> FloatArray:
        out = np.zeros((len(self._responses.rows), self._code.shape[1]))
        out[self._terms.learners, self._terms.channels] = weights
        return out

    def _scores(self, matrix: FloatArray) -> FloatArray:
        return np.asarray(self._responses.rows.T @ matrix.astype(np.float32), np.float64)

    def _loss_and_duals(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Mean loss (3), and minus its gradient by the scores, shape (n_examples, n_channels)."""
        rows = np.arange(len(self._labels))
        by_output = scores @ self._code.T
        exponents = by_output - by_output[rows, self._labels][:, None] + self._margins
        top = exponents.max(axis=1, keepdims=True)
        pairs = np.exp(exponents - top)
        sums = pairs.sum(axis=1, keepdims=True)
        loss = float(self._example_weights @ (top + np.log(sums))[:, 0])
        residuals = -pairs / sums
        residuals[rows, self._labels] += 1.0
        return loss, np.asarray((residuals * self._example_weights[:, None]) @ self._code)

    def _penalty(self, matrix: FloatArray) -> tuple[float, FloatArray]:
        """Regulariser ``|W|^2 / C`` and its gradient."""
        return float((matrix**2).sum()) / self.C, 2.0 / self.C * matrix
