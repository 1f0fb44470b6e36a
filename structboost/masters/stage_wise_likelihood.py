"""Stage-wise boosting of the likelihood of the true outputs, by shrunken Newton steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.columns import Terms, check_single_terms
from structboost.masters.base import Formulation, Problem, RestrictedMaster
from structboost.masters.pair_margins import pair_probabilities
from structboost.runtime.growing import GrowingMatrix
from structboost.validation import checked_not_negative, checked_positive


@dataclass(frozen=True)
class StageWiseLikelihood(Formulation):
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
    takes_infinite_C: ClassVar[bool] = True
    shrinkage: float = 0.15
    largest_step: float = 1.0
    enough: float = 1e-5

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        checked_positive(self.shrinkage, "shrinkage")
        checked_positive(self.largest_step, "largest_step")
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


class StageWiseLikelihoodMaster(RestrictedMaster):
    """Scores of all examples, one weak learner on one channel a column."""

    drops_idle_columns = False

    def __init__(self, problem: Problem, formulation: StageWiseLikelihood) -> None:
        super().__init__(np.inf)
        codes = problem.task.codes(problem.Y)
        self.formulation = formulation
        self._kind = problem.only_kind()
        self._code = codes.codes.astype(np.float64)
        self._labels = codes.labels
        self._shares = problem.example_weights
        self._scores = np.zeros((self._code.shape[1], len(self._labels)))
        self._answers = GrowingMatrix(len(self._labels))
        self._terms = Terms.none()
        self._measure()

    @property
    def primal(self) -> float:
        """The mean loss alone: C is infinite."""
        return self.risk

    @property
    def min_edge(self) -> float:
        """Any positive edge lowers the loss, until it is low enough."""
        return np.inf if self.risk <= self.formulation.enough else 0.0

    def set_C(self, C: float) -> None:
        """Nothing depends on it."""

    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        """Append learners."""
        return self._answers.append(responses)

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero, each one learner."""
        check_single_terms(terms[self._kind], n_new, "stage-wise likelihood")
        self._terms = self._terms.joined(terms[self._kind], len(self.weights))
        super().add_columns(terms, n_new)

    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Add to the weights of the columns chosen last, each from the same scores."""
        for j in () if selected is None else selected:
            self._calls += 1
            channel = self._terms.channels[j]
            answer = self._answers.rows[self._terms.learners[j]].astype(np.float64)
            slope = float(answer @ self._slopes[channel])
            if slope <= 0:
                continue
            curvature = float((answer * answer) @ self._curvatures[channel])
            longest = self.formulation.largest_step / np.abs(answer).max()
            step = min(slope / curvature, longest) if curvature > 0 else longest
            step *= self.formulation.shrinkage
            self.weights[j] += step
            self._scores[channel] += step * answer
        self._measure()

    def duals(self) -> dict[str, FloatArray]:
        """Slope of the likelihood in every score."""
        return {self._kind: np.ascontiguousarray(self._slopes.T)}

    def bound(self, largest_edge: float) -> float | None:
        """None: the weights are not optimal over the columns."""
        return None

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
