"""Stage-wise boosting of the likelihood of the true outputs, by shrunken Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structboost._typing import FloatArray
from structboost.masters.base import Problem
from structboost.masters.newton_steps import NewtonSteps, NewtonStepsMaster
from structboost.masters.pair_margins import pair_probabilities
from structboost.validation import checked_not_negative


@dataclass(frozen=True)
class StageWiseLikelihood(NewtonSteps):
    """LogitBoost with shrunken steps: the mean of ``log sum_y exp(2 F_y) - 2 F_true``.

    A column gets its weight once, by a Newton step from the scores of the round, so there is no
    bound; give the trainer ``C=float("inf")``.  The task must give the codes of all outputs
    (:meth:`structboost.Task.codes`); its loss plays no part.

    Parameters
    ----------
    shrinkage : float
        Share of the Newton step that is taken.
    largest_step : float
        Largest change of a score by one step, before it is shrunk: where all examples are certain,
        Newton steps have no bound.
    enough : float
        Mean loss at which training ends.

    Notes
    -----
    Friedman, Hastie and Tibshirani, Annals of Statistics 2000.  The scores are half the logarithms
    of odds, as those of the exponential loss are, so both have the same probabilities.
    """

    has_probabilities = True
    enough: float = 1e-5

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        super().check()
        checked_not_negative(self.enough, "enough")

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Softmax of twice the scores."""
        return pair_probabilities(scores)

    def master(self, problem: Problem, C: float) -> StageWiseLikelihoodMaster:
        """Newton steps.

        Raises
        ------
        TaskError
            If the task has no codes, or examples have several parts.
        """
        return StageWiseLikelihoodMaster(problem, self)


class StageWiseLikelihoodMaster(NewtonStepsMaster):
    """All columns of a round step from the same scores."""

    formulation: StageWiseLikelihood

    def __init__(self, problem: Problem, formulation: StageWiseLikelihood) -> None:
        codes = problem.task.codes(problem.Y)
        self._code = codes.codes.astype(np.float64)
        self._labels = codes.labels
        self._shares = problem.example_weights
        kind = problem.only_kind()
        super().__init__(formulation, kind, self._code.shape[1], len(self._labels))
        self._measure()

    @property
    def min_edge(self) -> float:
        """Any positive edge lowers the loss, until it is low enough."""
        return np.inf if self.risk <= self.formulation.enough else 0.0

    def duals(self) -> dict[str, FloatArray]:
        """Slope of the likelihood in every score."""
        return {self._kind: np.ascontiguousarray(self._slopes.T)}

    def _along(self, answer: FloatArray, channel: int) -> tuple[float, float]:
        slope = float(answer @ self._slopes[channel])
        return slope, float((answer * answer) @ self._curvatures[channel])

    def _measure(self) -> None:
        """Risk, and first and second derivatives of the likelihood by the scores."""
        code, labels = self._code, self._labels
        scores = 2.0 * (code @ self._scores)
        scores -= scores.max(axis=0)
        chances = np.exp(scores)
        sums = chances.sum(axis=0)
        of_truth = scores[labels, np.arange(len(labels))]
        self.risk = float((np.log(sums) - of_truth) @ self._shares)
        chances /= sums
        expected = code.T @ chances
        self._slopes = 2.0 * self._shares * (code[labels].T - expected)
        self._curvatures = 4.0 * self._shares * ((code**2).T @ chances - expected**2)
