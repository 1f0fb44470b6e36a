"""Stage-wise boosting of the likelihood of the true outputs, by shrunken Newton steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.optional_methods import codes_of
from structboost.masters.base import Problem
from structboost.masters.newton_steps import HeldOutBooster, NewtonSteps
from structboost.masters.pair_margins import PAIR_LINK
from structboost.runtime.compiled import compiled


@dataclass(frozen=True)
class StageWiseLikelihood(NewtonSteps):
    """LogitBoost with shrunken steps on the mean of ``log sum_y exp(2 F_y) - 2 F_true``.

    A column gets its weight once, by a Newton step from the scores of the round, so there is no
    bound; give the trainer ``C=float("inf")``.  The task must give the codes of all outputs
    (:meth:`structboost.Task.codes`); its loss plays no part.

    Parameters
    ----------
    shrinkage : float
        Fraction of the Newton step that is taken.
    largest_step : float
        Largest change of a score by one step, before it is shrunk: where all examples are certain,
        Newton steps have no bound.
    enough : float
        Mean loss at which training ends.
    patience : int, optional
        Rounds without a lower loss on the examples that they left out after which training ends.
        None disables this check.

    Notes
    -----
    Friedman, Hastie and Tibshirani, Annals of Statistics 2000.  The scores are half the logarithms
    of odds, as those of the exponential loss are, so both have the same probabilities.
    """

    link = PAIR_LINK
    shrinkage: float = 0.1
    largest_step: float = 0.4
    enough: float = 3e-4
    patience: int | None = 160

    @property
    @override
    def makes(self) -> type[StageWiseLikelihoodBooster]:
        return StageWiseLikelihoodBooster

    @override
    def booster(self, problem: Problem) -> StageWiseLikelihoodBooster:
        """Booster by Newton steps.

        Raises
        ------
        TaskError
            If the task has no codes, or examples have several parts.
        """
        return StageWiseLikelihoodBooster(problem, self)


class StageWiseLikelihoodBooster(HeldOutBooster):
    """Booster whose columns of a round all step from the same scores."""

    def __init__(self, problem: Problem, formulation: StageWiseLikelihood) -> None:
        codes = codes_of(problem.task, problem.Y)
        self._code = csr_array(codes.codes.astype(np.float64))
        places = (self._code.indptr, self._code.indices)
        self._entries = *(indices.astype(np.int64) for indices in places), self._code.data
        self._labels = codes.labels
        self._example_weights = problem.example_weights
        self._kind = problem.only_kind()
        super().__init__(formulation, {self._kind: (self._code.shape[1], len(self._labels))})
        self._measure()

    @override
    def _loss_at(self, scores: Mapping[str, FloatArray]) -> tuple[Callable[[float], float], int]:
        of_classes = 2.0 * (self._code @ scores[self._kind])
        of_classes -= of_classes.max(axis=0)
        of_truth = of_classes[self._labels, np.arange(len(self._labels))]

        def loss(factor: float) -> float:
            sums = np.exp(factor * of_classes).sum(axis=0)
            return float((np.log(sums) - factor * of_truth) @ self._example_weights)

        return loss, len(self._labels)

    @override
    def _measure(self) -> None:
        scores = self._scores[self._kind]
        steps = np.empty((2, *scores.shape))
        room = np.empty(self._code.shape[0]), np.empty((3, len(scores)))
        self.risk = measure(self._entries, self._labels, self._example_weights, scores, steps, room)
        slopes, curvatures = steps
        self._slopes[self._kind], self._curvatures[self._kind] = slopes, curvatures


@compiled
def measure(
    code: tuple[IntArray, IntArray, FloatArray],
    labels: IntArray,
    example_weights: FloatArray,
    scores: FloatArray,
    steps: FloatArray,
    room: tuple[FloatArray, FloatArray],
) -> float:
    """Mean loss at the scores, with its slopes and curvatures filled in.

    Parameters
    ----------
    code : tuple of ndarray
        Entries of the code that are not 0, output by output, as a CSR matrix has them: first entry
        of each output, channels and values.
    labels : ndarray of int64, shape (n_parts,)
        The true outputs.
    example_weights : ndarray, shape (n_parts,)
        Weights of the examples.
    scores : ndarray, shape (n_channels, n_parts)
    steps : ndarray, shape (2, n_channels, n_parts)
        Filled with the slopes and the curvatures.
    room : tuple of ndarray, shapes (n_outputs,) and (3, n_channels)
        Work arrays.
    """
    starts, channels, values = code
    n_outputs, n_channels = len(starts) - 1, len(scores)
    probabilities, of_channels = room
    expected, squares, truth = of_channels[0], of_channels[1], of_channels[2]
    slopes, curvatures = steps[0], steps[1]
    risk = 0.0
    for i in range(len(labels)):
        largest = -np.inf
        for y in range(n_outputs):
            score = 0.0
            for e in range(starts[y], starts[y + 1]):
                score += values[e] * scores[channels[e], i]
            probabilities[y] = 2.0 * score
            largest = max(largest, probabilities[y])
        of_truth, total = probabilities[labels[i]] - largest, 0.0
        for y in range(n_outputs):
            probabilities[y] = (
                1.0 if probabilities[y] == largest else math.exp(probabilities[y] - largest)
            )
            total += probabilities[y]
        risk += example_weights[i] * (math.log(total) - of_truth)
        for c in range(n_channels):
            expected[c] = squares[c] = truth[c] = 0.0
        for y in range(n_outputs):
            for e in range(starts[y], starts[y + 1]):
                part = values[e] * probabilities[y] / total
                expected[channels[e]] += part
                squares[channels[e]] += values[e] * part
        for e in range(starts[labels[i]], starts[labels[i] + 1]):
            truth[channels[e]] = values[e]
        for c in range(n_channels):
            slopes[c, i] = 2.0 * example_weights[i] * (truth[c] - expected[c])
            curvatures[c, i] = 4.0 * example_weights[i] * (squares[c] - expected[c] * expected[c])
    return risk
