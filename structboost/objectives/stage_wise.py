"""Stage-wise boosters, which set a weight once, of the exponential loss, likelihoods, rankings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from structboost._typing import (
    AnyArray,
    FloatArray,
    IntArray,
    KindArrays,
    LeafArray,
    WordArray,
    override,
)
from structboost.errors import TaskError
from structboost.learners.base import Growth
from structboost.learners.tree_growth import (
    SURE,
    confident_leaves,
    fill_leaf_indices,
    grow,
    sum_leaves,
)
from structboost.objectives.base import Boosting, Problem, SoftmaxLink
from structboost.objectives.exponential import LARGEST_WEIGHT
from structboost.objectives.likelihood import Likelihood
from structboost.objectives.master import Booster, LossesAt
from structboost.objectives.newton_steps import TINY, HeldOutBooster, NewtonBooster, NewtonSteps
from structboost.objectives.pair_margins import PAIR_LINK, PairColumns, PairFormulation
from structboost.runtime.compiled import compiled


@dataclass(frozen=True)
class StageWise(Boosting, PairFormulation):
    """Stage-wise exponential loss over pairs (Algorithms 1, 2 of MultiBoost.MO and .ECC).

    There is no regularisation: give the trainer ``C=float("inf")``.  There is no bound.

    Parameters
    ----------
    pairs : {"bits", "outputs"}
        ``bits``: AdaBoost.MO, and AdaBoost.MH with the one-vs-all code; ``outputs``: AdaBoost.ECC.
    """

    @override
    def start(self, problem: Problem, C: float) -> StageWiseBooster:
        return StageWiseBooster(problem, self.pairs)


class StageWiseBooster(PairColumns, Booster):
    """Booster of ``sum_p rho_p exp(-margin_p(w))`` by steps in closed form.

    A column that is chosen again adds to its weight.

    With the margins of a column in {-a, 0, a} its step is ``log(V+ / V-) / (2a)``, at most 30
    (``LARGEST_WEIGHT``).
    """

    def __init__(self, problem: Problem, pairs: str) -> None:
        super().__init__()
        self._make_pairs(problem, pairs)

    @override
    def step(self, selected: IntArray) -> None:
        for j in selected:
            self._calls += 1
            margins = self.matrix[j]
            step = np.abs(margins).max(initial=0.0)
            if step == 0.0:
                continue
            u = np.exp(self._logs - self._logs.max())
            right, wrong = u @ np.maximum(margins, 0.0), u @ np.maximum(-margins, 0.0)
            change = LARGEST_WEIGHT if wrong == 0 else 0.0
            if right > 0 and wrong > 0:
                change = min(max(0.5 / step * np.log(right / wrong), 0.0), LARGEST_WEIGHT)
            self.weights[j] += change
            self._logs -= change * margins
        self.risk = float(np.exp(self._logs).sum())

    @override
    def gradient(self) -> dict[str, FloatArray]:
        u = np.exp(self._logs - self._logs.max())
        return self.duals_of(u / u.sum())


# A number from which on doubles are whole.
_WHOLE = 2.0**52
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
    def _losses_at(self, scores: KindArrays, examples: IntArray) -> LossesAt:
        of_classes = 2.0 * (self._code @ scores[self._kind][:, examples])
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
def _between(sets: WordArray | None, first: int, count: int) -> WordArray | None:
    # Both results have one type, so that what takes them is compiled once.
    return sets if sets is None else sets[first : first + count]


@compiled(no_cpython_wrapper=True)
def _step_along(
    responses: FloatArray,
    leaf_of: LeafArray,
    slopes: FloatArray,
    curvatures: FloatArray,
    settings: tuple[float, float, float],
) -> float:
    """Shrunken Newton step along a tree, whose leaves have these responses."""
    slope, curvature, largest = 0.0, 0.0, TINY
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


@dataclass(frozen=True)
class StageWiseRandomField(NewtonSteps):
    """Gradient boosting of a conditional random field, by shrunken Newton steps.

    An output y of x has the probability ``exp(F(x, y)) / sum_z exp(F(x, z))``, and minus the mean
    logarithm of that of the true outputs falls.  A column gets its weight once, from the scores of
    the round, so there is no bound; give the trainer ``C=float("inf")``.  The task must give its
    marginals (:class:`structboost.contract.Sums`), and its joint features must be 0 and 1, or
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

    takes_single_terms = False

    def __init__(self, problem: Problem, formulation: StageWiseRandomField) -> None:
        self._likelihood = Likelihood(problem)
        kinds = problem.task.kinds
        shapes = {
            k: (kinds[k].n_channels, len(owners)) for k, owners in self._likelihood.owners.items()
        }
        super().__init__(formulation, shapes, problem.example_weights)
        self._measure()

    @override
    def _losses_at(self, scores: KindArrays, examples: IntArray) -> LossesAt:
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


# Scores are taken from the middle of their query, within this: exp stays in range.
_LARGEST_SCORE = 300.0


@dataclass(frozen=True)
class StageWiseRanking(NewtonSteps):
    """RankBoost with shrunken steps, on pairs weighted by their difference in gain.

    The loss is the mean over the queries of ``sum v_ij exp(-(F_i - F_j))`` over the pairs with item
    i better than item j.  ``v_ij`` is proportional to the difference of the gains
    (:meth:`structboost.Task.gains`) and sums to 1 in each query.  A column gets its weight once, so
    there is no bound; give the trainer ``C=float("inf")``.

    Parameters
    ----------
    shrinkage : float
        Fraction of the Newton step that is taken.
    largest_step : float
        Largest change of a score by one step, before it is shrunk: a weak learner without errors
        would outvote all others.
    enough : float
        Mean loss at which training ends.

    Notes
    -----
    Freund, Iyer, Schapire and Singer, JMLR 2003.  The weights of the pairs are products of weights
    of their items, so a round costs a pass over the items (section 3.2 there).
    """

    shrinkage: float = 0.07

    @override
    def start(self, problem: Problem, C: float) -> StageWiseRankingBooster:
        """Booster by Newton steps.

        Raises
        ------
        TaskError
            If the task has no gains, or parts of several kinds.
        """
        return StageWiseRankingBooster(problem, self)


class StageWiseRankingBooster(NewtonBooster):
    """Booster over the items of all queries, ordered by query and by gain within it."""

    def __init__(self, problem: Problem, formulation: StageWiseRanking) -> None:
        if len(problem.offsets) > 1:
            raise TaskError("This formulation needs a task with one kind of parts.")
        ((kind, starts),) = problem.offsets.items()
        gains, weights = problem.task.gains(problem.Y)
        if len(gains) != starts[-1]:
            raise TaskError(
                f"gains(Y) gave {len(gains)} entries for {starts[-1]} items; give each item of a "
                "query its relevance."
            )
        self._kind = kind
        super().__init__(formulation, {kind: (1, len(gains))})
        query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        self._order = np.lexsort((gains, query))
        self._starts = np.asarray(starts, np.int64)
        self._gains = np.asarray(gains, np.float64)[self._order]
        self._item_weights = np.asarray(weights, np.float64)[self._order]
        above, _ = self._pair_sums(self._item_weights, self._item_weights)
        totals = np.add.reduceat(np.append(above, 0.0), self._starts[:-1])
        totals[np.diff(starts) == 0] = 0.0
        # Queries without pairs have no loss.
        query_weights = np.divide(
            problem.example_weights, totals, out=np.zeros(len(totals)), where=totals > 0
        )
        self._of_query = np.repeat(query_weights, np.diff(starts))
        self._measure()

    @override
    def hold_responses(self, kind: str, learners: IntArray, responses: NDArray[np.generic]) -> None:
        super().hold_responses(kind, learners, responses[:, self._order])

    @override
    def step(self, selected: IntArray) -> None:
        for j in selected:
            super().step(np.array([j]))

    @override
    def gradient(self) -> dict[str, FloatArray]:
        out = np.empty((len(self._order), 1))
        out[self._order, 0] = self._above - self._below
        return {self._kind: out}

    @override
    def _along(self, kind: str, channel: int, responses: AnyArray) -> tuple[float, float, float]:
        # Only differences within a query count.  Sums over pairs want no negative weights, and an
        # response that is constant in a query must not count by rounding.
        values = responses.astype(np.float64)
        largest = np.abs(values).max(initial=0.0)
        _, lowest, sizes = _extremes(values, self._starts)
        values -= np.repeat(lowest, sizes)
        both = self._pair_sums(self._up * values, self._down * values)[0].sum()
        squares = (values * values) @ (self._above + self._below)
        return float(values @ (self._above - self._below)), squares - 2.0 * both, largest

    @override
    def _measure(self) -> None:
        scores = centred(self._scores[self._kind][0], self._starts)
        self._up = self._of_query * self._item_weights * np.exp(-scores)
        self._down = self._item_weights * np.exp(scores)
        self._above, self._below = self._pair_sums(self._up, self._down)
        self.risk = float(self._above.sum())

    def _pair_sums(self, up: FloatArray, down: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of the pairs of each item with worse items, and with better items."""
        above, below = np.empty(len(up)), np.empty(len(up))
        pair_sums(self._gains, self._starts, up, down, above, below)
        return above, below


def centred(scores: FloatArray, starts: IntArray) -> FloatArray:
    """Scores minus the middle of the scores of their query, clipped to 300 (``_LARGEST_SCORE``)."""
    highest, lowest, sizes = _extremes(scores, starts)
    middle = np.repeat(0.5 * (highest + lowest), sizes)
    return np.clip(scores - middle, -_LARGEST_SCORE, _LARGEST_SCORE)


def _extremes(values: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Highest value, lowest value and number of items of each query that has items."""
    sizes = np.diff(starts)
    first, sizes = starts[:-1][sizes > 0], sizes[sizes > 0]
    return np.maximum.reduceat(values, first), np.minimum.reduceat(values, first), sizes


@compiled
def pair_sums(
    gains: FloatArray,
    starts: IntArray,
    up: FloatArray,
    down: FloatArray,
    above: FloatArray,
    below: FloatArray,
) -> None:
    """Fill in the sums of ``up[i] down[j] (gains[i] - gains[j])`` over pairs with i better than j.

    Parameters
    ----------
    gains : ndarray, shape (n_items,)
        Ascending within each query.
    starts : ndarray of int64, shape (n_queries + 1,)
        First item of each query.
    up, down : ndarray, shape (n_items,)
    above, below : ndarray, shape (n_items,)
        Filled: sums over the pairs that an item is the better one of, and the worse one of.
    """
    for q in range(len(starts) - 1):
        begin, end = starts[q], starts[q + 1]
        total, weighted = 0.0, 0.0
        i = begin
        while i < end:
            # Items of equal gain make no pairs.
            last = i
            while last < end and gains[last] == gains[i]:
                above[last] = up[last] * max(gains[last] * total - weighted, 0.0)
                last += 1
            for j in range(i, last):
                total += down[j]
                weighted += down[j] * gains[j]
            i = last
        total, weighted = 0.0, 0.0
        i = end - 1
        while i >= begin:
            last = i
            while last >= begin and gains[last] == gains[i]:
                below[last] = down[last] * max(weighted - gains[last] * total, 0.0)
                last -= 1
            for j in range(last + 1, i + 1):
                total += up[j]
                weighted += up[j] * gains[j]
            i = last
