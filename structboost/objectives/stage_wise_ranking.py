"""Stage-wise boosting of rankings by the exponential loss over the pairs of items of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.errors import TaskError
from structboost.objectives.base import Problem
from structboost.objectives.newton_steps import NewtonBooster, NewtonSteps
from structboost.runtime.compiled import compiled

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
    def _along(
        self, kind: str, channel: int, responses: NDArray[Any]
    ) -> tuple[float, float, float]:
        # Only differences within a query count.  Sums over pairs want no negative weights, and an
        # response that is constant in a query must not count by rounding.
        values = responses.astype(np.float64)
        largest = float(np.abs(values).max(initial=0.0))
        _, lowest, sizes = _extremes(values, self._starts)
        values -= np.repeat(lowest, sizes)
        both = float(self._pair_sums(self._up * values, self._down * values)[0].sum())
        squares = float((values * values) @ (self._above + self._below))
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
