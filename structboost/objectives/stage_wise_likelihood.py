"""Stage-wise boosting of the likelihood of the true outputs, by shrunken Newton steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray, override
from structboost.learners.base import Growth
from structboost.learners.leaf_sums import SURE, confident_leaves, sum_leaves
from structboost.learners.tree_growth import fill_leaf_indices, grow
from structboost.objectives.base import Problem
from structboost.objectives.newton_steps import HeldOutBooster, NewtonSteps
from structboost.objectives.pair_margins import PAIR_LINK
from structboost.runtime.compiled import compiled

# A number from which on doubles are whole.
_WHOLE = 2.0**52
_TINY = float(np.finfo(np.float64).tiny)
# Examples whose losses are computed at once, so that their exponentials stay in the cache.
_EXAMPLES_AT_ONCE = 1 << 15


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
    learns_from_held_out = True
    shrinkage: float = 0.1
    largest_step: float = 0.4
    enough: float = 3e-4
    patience: int | None = 160

    @override
    def start(self, problem: Problem, C: float) -> StageWiseLikelihoodBooster:
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
        codes = problem.task.codes(problem.Y)
        self._code = csr_array(codes.codes.astype(np.float64))
        places = (self._code.indptr, self._code.indices)
        entries = *(indices.astype(np.int64) for indices in places), self._code.data
        n_outputs, n_channels = self._code.shape
        room = np.empty(n_outputs), np.empty((3, n_channels))
        self._labels = codes.labels
        self._loss = entries, self._labels, problem.example_weights, room
        self._kind = problem.only_kind()
        shapes = {self._kind: (n_channels, len(self._labels))}
        super().__init__(formulation, shapes, problem.example_weights)
        self._measure()

    @override
    def _losses_at(
        self, scores: Mapping[str, FloatArray], examples: IntArray
    ) -> Callable[[float], FloatArray]:
        of_classes = self._code @ scores[self._kind][:, examples]
        of_classes *= 2.0
        of_classes -= of_classes.max(axis=0)
        of_truth = of_classes[self._labels[examples], np.arange(len(examples))]

        def losses(factor: float) -> FloatArray:
            out = np.empty(len(of_truth))
            for first in range(0, len(out), _EXAMPLES_AT_ONCE):
                here = slice(first, first + _EXAMPLES_AT_ONCE)
                sums = np.exp(factor * of_classes[:, here]).sum(axis=0)
                out[here] = np.log(sums) - factor * of_truth[here]
            return out

        return losses

    @override
    def _measure(self) -> None:
        scores = self._scores[self._kind]
        self._derivatives = np.empty((2, *scores.shape))
        self.risk = measure(self._loss, scores, self._derivatives)
        self._slopes[self._kind], self._curvatures[self._kind] = self._derivatives

    def grow_rounds(self, kind: str, growth: Growth) -> int:
        """Run rounds in compiled code (:class:`structboost.objectives.master.GrowsRounds`)."""
        steps = np.empty((len(growth.seeds), len(self._scores[kind])))
        risks, of = np.empty(len(steps)), self.formulation
        settings = float(of.shrinkage), float(of.largest_step), float(of.enough)
        state = self._scores[kind], self._derivatives, self._sums[kind], self._counts[kind]
        n_done = run_rounds(tuple(growth), self._loss, state, settings, steps, risks)
        self._ahead.extend(zip(steps[:n_done].tolist(), risks[:n_done].tolist(), strict=True))
        self._responses.clear()
        return int(n_done)


Loss = tuple[
    tuple[IntArray, IntArray, FloatArray], IntArray, FloatArray, tuple[FloatArray, FloatArray]
]


@compiled
def run_rounds(
    growth: tuple[Any, ...],
    loss: Loss,
    state: tuple[FloatArray, FloatArray, FloatArray, IntArray],
    settings: tuple[float, float, float],
    steps: FloatArray,
    risks: FloatArray,
) -> int:
    """Grow and step, until training ends or a round finds no column, and return how many rounds.

    Parameters
    ----------
    growth : Growth, as a plain tuple
    loss : tuple
        As for :func:`measure`.
    state : tuple of ndarray, shapes (n_channels, n_parts) but of the second and last
        Scores, their derivatives as of :func:`measure`, held-out scores, and the number of rounds
        that left each part out.
    settings : (float, float, float)
        ``shrinkage``, ``largest_step`` and ``enough`` of :class:`StageWiseLikelihood`.
    steps : ndarray, shape (n_rounds, n_channels)
        Filled with the step along the tree of each channel.
    risks : ndarray, shape (n_rounds,)
        Filled with the mean loss after each round.
    """
    setup, is_drawn, seeds, trees, sets, sums, leaf_of, fractions = growth
    scores, derivatives, held_out, n_left_out = state
    features, bins, responses = trees
    table, columns, room, limits, (n_drawn, of_columns, is_open), counts = setup
    n_channels, n_rows = scores.shape
    for r in range(len(seeds)):
        drawn, draw = is_drawn[r], (seeds[r], n_drawn, of_columns, is_open)
        nodes, of_round = (features[r], bins[r]), _between(sets, r * n_channels, n_channels)
        grow(table, columns, derivatives[0], drawn, room, nodes, of_round, counts, limits, draw)
        fill_leaf_indices(table[0], features[r], bins[r], of_round, leaf_of)
        sum_leaves(leaf_of, derivatives[0], drawn, sums[r])
        confident_leaves(sums[r], fractions, responses[r])
        has_column = False
        for c in range(n_channels):
            for k in range(responses.shape[3]):
                # As np.rint, which takes long to compile.
                size = (SURE * abs(responses[r, 0, c, k]) + _WHOLE) - _WHOLE
                responses[r, 0, c, k] = -size if responses[r, 0, c, k] < 0.0 else size
                has_column |= responses[r, 0, c, k] * sums[r, 0, c, k] > 0.0
        if not has_column:
            return r
        for c in range(n_channels):
            step = _step_along(
                responses[r, 0, c], leaf_of[c], derivatives[0, c], derivatives[1, c], settings
            )
            steps[r, c] = step
            for i in range(n_rows):
                scores[c, i] += step * responses[r, 0, c, leaf_of[c, i]]
                if not drawn[i]:
                    held_out[c, i] += step * responses[r, 1, c, leaf_of[c, i]]
        for i in range(n_rows):
            n_left_out[i] += not drawn[i]
        risks[r] = measure(loss, scores, derivatives)
        if risks[r] <= settings[2]:
            return r + 1
    return len(seeds)


@compiled(no_cpython_wrapper=True)
def _between(sets: NDArray[np.uint64] | None, first: int, count: int) -> NDArray[np.uint64] | None:
    # Both results have one type, so that what takes them is compiled once.
    return sets if sets is None else sets[first : first + count]


@compiled(no_cpython_wrapper=True)
def _step_along(
    responses: FloatArray,
    leaf_of: NDArray[np.int16],
    slopes: FloatArray,
    curvatures: FloatArray,
    settings: tuple[float, float, float],
) -> float:
    """Shrunken Newton step along a tree, whose leaves have these responses."""
    slope, curvature, largest = 0.0, 0.0, _TINY
    for i in range(len(leaf_of)):
        response = responses[leaf_of[i]]
        slope += response * slopes[i]
        curvature += response * response * curvatures[i]
    if slope <= 0.0:
        return 0.0
    for k in range(len(responses)):
        size = abs(responses[k])
        largest = size if size > largest else largest
    longest = settings[1] / largest
    newton = slope / curvature if curvature > 0.0 else longest
    return settings[0] * (newton if newton < longest else longest)


@compiled
def measure(loss: Loss, scores: FloatArray, derivatives: FloatArray) -> float:
    """Mean loss at the scores, with its slopes and curvatures filled in.

    Parameters
    ----------
    loss : tuple
        The code, labels and weights of the examples, and work arrays of shapes (n_outputs,) and
        (3, n_channels).  The code has the entries that are not 0, output by output, as a CSR matrix
        has them: first entry of each output, channels and values.
    scores : ndarray, shape (n_channels, n_parts)
    derivatives : ndarray, shape (2, n_channels, n_parts)
        Filled with the slopes and the curvatures.
    """
    (starts, channels, values), labels, example_weights, (probabilities, of_channels) = loss
    n_outputs, n_channels = len(starts) - 1, len(scores)
    expected, squares, truth = of_channels[0], of_channels[1], of_channels[2]
    slopes, curvatures = derivatives[0], derivatives[1]
    risk = 0.0
    if n_outputs == 2 and n_channels == 1 and starts[1] == 0 and values[0] == 1.0:
        # The same numbers, with one exponential for both outputs.
        for i in range(len(labels)):
            is_second = labels[i] == 1
            of_second = 2.0 * scores[0, i]
            odds = math.exp(-abs(of_second))
            total = 1.0 + odds
            of_truth = -abs(of_second) if is_second == (of_second < 0.0) else 0.0
            risk += example_weights[i] * (math.log(total) - of_truth)
            probability = (1.0 if of_second > 0.0 else odds) / total
            slopes[0, i] = 2.0 * example_weights[i] * ((1.0 if is_second else 0.0) - probability)
            curvatures[0, i] = 4.0 * example_weights[i] * (probability - probability * probability)
        return risk
    for i in range(len(labels)):
        largest = -np.inf
        for y in range(n_outputs):
            score = 0.0
            for e in range(starts[y], starts[y + 1]):
                score += values[e] * scores[channels[e], i]
            probabilities[y] = 2.0 * score
            largest = probabilities[y] if probabilities[y] > largest else largest
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
