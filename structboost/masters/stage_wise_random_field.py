"""Stage-wise boosting of the conditional likelihood of structures: a boosted random field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from structboost._typing import FloatArray, IntArray
from structboost.columns import Terms, TermsByKind
from structboost.masters.base import Problem, RestrictedMaster
from structboost.masters.likelihood import Likelihood
from structboost.masters.newton_steps import NewtonSteps
from structboost.runtime.growing import GrowingMatrix
from structboost.validation import checked_not_negative

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class StageWiseRandomField(NewtonSteps):
    """Gradient boosting of a conditional random field, by shrunken Newton steps.

    An output y of x has the probability ``exp(F(x, y)) / sum_z exp(F(x, z))``, and minus the mean
    logarithm of that of the true outputs falls.  A column gets its weight once, from the scores of
    the round, so there is no bound; give the trainer ``C=float("inf")``.  The task must give its
    marginals (:meth:`structboost.Task.marginals`), and its joint features must be 0 and 1, or
    counts; its loss plays no part.  ``formulation="log"`` is the same likelihood with an l1 norm
    and a certificate.

    Parameters
    ----------
    shrinkage, largest_step : float
        As in :class:`structboost.StageWiseLikelihood`.
    enough : float
        Mean loss at which training ends.

    Notes
    -----
    Dietterich, Hao and Ashenfelter, JMLR 2008, with Newton steps.  Their curvature takes the parts
    of an example for independent, given the scores, and the variance of a count for its mean;
    shrunken steps bear it where they are not.
    """

    has_probabilities = True
    largest_step: float = 2.0
    enough: float = 1e-5

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        super().check()
        checked_not_negative(self.enough, "enough")

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Softmax of the scores."""
        return np.asarray(softmax(scores, axis=1))

    def master(self, problem: Problem, C: float) -> StageWiseRandomFieldMaster:
        """Newton steps.

        Raises
        ------
        TaskError
            If the task has no marginals.
        """
        return StageWiseRandomFieldMaster(problem, self)


class StageWiseRandomFieldMaster(RestrictedMaster):
    """Scores of all parts, and columns of any terms."""

    drops_idle_columns = False

    def __init__(self, problem: Problem, formulation: StageWiseRandomField) -> None:
        super().__init__(np.inf)
        self.formulation = formulation
        self._shares = problem.example_weights
        self._likelihood = Likelihood(problem)
        self._columns = TermsByKind(problem.task.kinds)
        n_parts = {kind: len(owners) for kind, owners in self._likelihood.owners.items()}
        self._answers = {kind: GrowingMatrix(n) for kind, n in n_parts.items()}
        self._scores = {
            kind: np.zeros((n, problem.task.kinds[kind].n_channels)) for kind, n in n_parts.items()
        }
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
        return self._answers[kind].append(responses)

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero."""
        self._columns.add(terms, n_new)
        super().add_columns(terms, n_new)

    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Add to the weights of the columns chosen last, each from the same scores."""
        if selected is None or not len(selected):
            return
        self._calls += 1
        steps = self._steps(selected)
        self.weights = self.weights + steps
        for kind, terms in self._columns.weighted(steps).items():
            rows, scores = self._answers[kind].rows, self._scores[kind]
            for learner, channel, coefficient in zip(*terms[1:], strict=True):
                scores[:, channel] += coefficient * rows[learner]
        self._measure()

    def duals(self) -> dict[str, FloatArray]:
        """Slope of the likelihood in every score."""
        return {kind: np.ascontiguousarray(of.T) for kind, of in self._slopes.items()}

    def bound(self, largest_edge: float) -> float | None:
        """None: the weights are not optimal over the columns."""
        return None

    def _steps(self, selected: IntArray) -> FloatArray:
        """Shrunken Newton steps of the columns selected, 0 for all others."""
        n_columns = len(self.weights)
        is_selected = np.zeros(n_columns)
        is_selected[selected] = 1.0
        slopes, curvatures, largest = np.zeros((3, n_columns))
        for kind, terms in self._columns.weighted(is_selected).items():
            for j, learner, channel, coefficient in zip(*terms, strict=True):
                answer = coefficient * self._answers[kind].rows[learner]
                slopes[j] += answer @ self._slopes[kind][channel]
                curvatures[j] += (answer * answer) @ self._curvatures[kind][channel]
                largest[j] = max(largest[j], np.abs(answer).max(initial=0.0))
        longest = self.formulation.largest_step / np.maximum(largest, _TINY)
        newton = np.divide(slopes, curvatures, out=longest.copy(), where=curvatures > 0)
        return np.where(slopes > 0, self.formulation.shrinkage * np.minimum(newton, longest), 0.0)

    def _measure(self) -> None:
        """Risk, and first and second derivatives of the likelihood by the scores."""
        at = self._likelihood.at(self._scores)
        self.risk = float(self._shares @ at.losses)
        self._slopes = at.slopes
        self._curvatures = {}
        for kind, owners in self._likelihood.owners.items():
            variance = at.expected[kind].copy()
            if not self._likelihood.counts[kind]:
                variance *= 1.0 - variance
            variance *= self._shares[owners][:, None]
            self._curvatures[kind] = np.ascontiguousarray(variance.T)
