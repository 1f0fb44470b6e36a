"""Stage-wise boosting of a conditional random field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from structboost._typing import FloatArray, IntArray, override
from structboost.learners.terms import Terms
from structboost.objectives.base import Problem
from structboost.objectives.likelihood import Likelihood
from structboost.objectives.newton_steps import HeldOutBooster, NewtonSteps
from structboost.objectives.softmax_link import SoftmaxLink


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
        As in :class:`structboost.objectives.StageWiseLikelihood`.
    enough : float
        Mean loss at which training ends.
    patience : int, optional
        As in :class:`structboost.objectives.StageWiseLikelihood`.

    Notes
    -----
    Dietterich, Hao and Ashenfelter, JMLR 2008, with Newton steps.  Their curvature takes the parts
    of an example for independent, given the scores, and the variance of a count for its mean;
    shrunken steps bear it where they are not.
    """

    link = SoftmaxLink()
    learns_from_held_out = True
    # Twice that of StageWiseLikelihood, whose scores are half the logarithms of odds.
    largest_step: float = 0.8
    enough: float = 3e-4
    patience: int | None = 100

    @override
    def start(self, problem: Problem, C: float) -> StageWiseRandomFieldBooster:
        """Booster by Newton steps.

        Raises
        ------
        TaskError
            If the task has no marginals.
        """
        return StageWiseRandomFieldBooster(problem, self)


class StageWiseRandomFieldBooster(HeldOutBooster):
    """Booster of the parts of all kinds, with columns of any terms."""

    def __init__(self, problem: Problem, formulation: StageWiseRandomField) -> None:
        self._likelihood = Likelihood(problem)
        kinds = problem.task.kinds
        shapes = {
            k: (kinds[k].n_channels, len(owners)) for k, owners in self._likelihood.owners.items()
        }
        super().__init__(formulation, shapes, problem.example_weights)
        self._measure()

    @override
    def _check_terms(self, terms: Terms, n_new: int) -> None:
        return

    @override
    def _losses_at(
        self, scores: Mapping[str, FloatArray], examples: IntArray
    ) -> Callable[[float], FloatArray]:
        by_part = {kind: np.ascontiguousarray(of_kind.T) for kind, of_kind in scores.items()}

        def losses(factor: float) -> FloatArray:
            rows = {kind: factor * of_kind for kind, of_kind in by_part.items()}
            return self._likelihood.losses(rows)[examples]

        return losses

    @override
    def _measure(self) -> None:
        by_part = {kind: np.ascontiguousarray(of_kind.T) for kind, of_kind in self._scores.items()}
        at = self._likelihood.at(by_part)
        self.risk = float(self._example_weights @ at.losses)
        self._slopes = at.slopes
        for kind, owners in self._likelihood.owners.items():
            variance = at.expected[kind].copy()
            if not self._likelihood.counts[kind]:
                variance *= 1.0 - variance
            variance *= self._example_weights[owners][:, None]
            self._curvatures[kind] = np.ascontiguousarray(variance.T)
