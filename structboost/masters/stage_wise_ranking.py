"""Stage-wise boosting of rankings: exponential loss over the pairs of items of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.columns import Terms, check_single_terms
from structboost.exceptions import TaskError
from structboost.masters.base import Formulation, Problem, RestrictedMaster
from structboost.runtime.compiled import compiled
from structboost.runtime.growing import GrowingMatrix
from structboost.validation import checked_positive

# Scores are taken from the middle of their query, within this: exp stays in range.
_LARGEST_SCORE = 300.0


@dataclass(frozen=True)
class StageWiseRanking(Formulation):
    """RankBoost with shrunken steps, on pairs that weigh what they gain.

    The loss is the mean over the queries of ``sum v_ij exp(-(F_i - F_j))`` over the pairs with item
    i better than item j.  ``v_ij`` is proportional to the difference of the gains
    (:meth:`structboost.Task.gains`) and sums to 1 in each query.  A column gets its weight once, so
    there is no bound; give the trainer ``C=float("inf")``.

    Parameters
    ----------
    shrinkage : float
        Share of the best step that is taken.
    largest_step : float
        Bound of a step before it is shrunk: a weak learner without errors would get an infinite
        one.

    Notes
    -----
    Freund, Iyer, Schapire and Singer, JMLR 2003.  The weights of the pairs are products of weights
    of their items, so a round costs a pass over the items (section 3.2 there).
    """

    takes_infinite_C: ClassVar[bool] = True
    shrinkage: float = 0.3
    largest_step: float = 1.0

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        checked_positive(self.shrinkage, "shrinkage")
        checked_positive(self.largest_step, "largest_step")

    def master(self, problem: Problem, C: float) -> StageWiseRankingMaster:
        """Closed-form steps.

        Raises
        ------
        TaskError
            If the task has no gains, or parts of several kinds.
        """
        return StageWiseRankingMaster(problem, C, self)


class StageWiseRankingMaster(RestrictedMaster):
    """Scores of all items; items are ordered by query, and by gain within it."""

    drops_idle_columns = False

    def __init__(self, problem: Problem, C: float, formulation: StageWiseRanking) -> None:
        super().__init__(C)
        self.formulation = formulation
        if len(problem.offsets) > 1:
            raise TaskError("This formulation needs a task with one kind of parts.")
        ((self._kind, starts),) = problem.offsets.items()
        gains, weights = problem.task.gains(problem.Y)
        query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        self._order = np.lexsort((gains, query))
        self._starts = np.asarray(starts, np.int64)
        self._gains = np.asarray(gains, np.float64)[self._order]
        self._scores = np.zeros(len(gains))
        self._item_weights = np.asarray(weights, np.float64)[self._order]
        self._answers = GrowingMatrix(len(gains))
        self._terms = Terms.none()
        above, _ = self._pair_sums(self._item_weights, self._item_weights)
        totals = np.add.reduceat(np.append(above, 0.0), self._starts[:-1])
        totals[np.diff(starts) == 0] = 0.0
        # Queries without pairs have no loss.
        shares = np.divide(
            problem.example_weights, totals, out=np.zeros(len(totals)), where=totals > 0
        )
        self._of_query = np.repeat(shares, np.diff(starts))
        self._measure()

    @property
    def primal(self) -> float:
        """The loss alone: C is infinite."""
        return self.risk

    @property
    def min_edge(self) -> float:
        """Any positive edge lowers the loss."""
        return 0.0

    def set_C(self, C: float) -> None:
        """Nothing depends on it."""

    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        """Append learners; the closed form needs answers -1 and 1."""
        if (np.abs(responses) != 1).any():
            raise TaskError(
                "StageWiseRanking needs weak learners with the answers -1 and 1, such as 'stump' "
                "and 'tree'."
            )
        return self._answers.append(responses[:, self._order])

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero, each one learner."""
        check_single_terms(terms[self._kind], n_new, "stage-wise ranking")
        self._terms = self._terms.joined(terms[self._kind], len(self.weights))
        super().add_columns(terms, n_new)

    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Add to the weights of the columns chosen last, in turn."""
        for j in () if selected is None else selected:
            self._calls += 1
            answer = self._answers.rows[self._terms.learners[j]].astype(np.float64)
            up, down = self._halves()
            right = self._pair_sums(up * (answer > 0), down * (answer < 0))[0].sum()
            wrong = self._pair_sums(up * (answer < 0), down * (answer > 0))[0].sum()
            if right <= wrong:
                continue
            # The margins of these pairs are 2 and -2.
            step = self.formulation.largest_step
            if wrong > 0:
                step = min(step, 0.25 * float(np.log(right / wrong)))
            step *= self.formulation.shrinkage
            self.weights[j] += step
            self._scores += step * answer
        self._measure()

    def duals(self) -> dict[str, FloatArray]:
        """Weight of the pairs that an item wins less that of those it loses."""
        above, below = self._pair_sums(*self._halves())
        out = np.empty((len(self._scores), 1))
        out[self._order, 0] = above - below
        return {self._kind: out}

    def bound(self, largest_edge: float) -> float | None:
        """None: the weights are not optimal over the columns."""
        return None

    def _measure(self) -> None:
        above, _ = self._pair_sums(*self._halves())
        self.risk = float(above.sum())

    def _halves(self) -> tuple[FloatArray, FloatArray]:
        """Factors of the weights of the pairs: of the better items, and of the worse ones."""
        scores = centred(self._scores, self._starts)
        up = self._of_query * self._item_weights * np.exp(-scores)
        return up, self._item_weights * np.exp(scores)

    def _pair_sums(self, up: FloatArray, down: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of the pairs of each item with worse items, and with better ones."""
        above, below = np.empty(len(up)), np.empty(len(up))
        pair_sums(self._gains, self._starts, up, down, above, below)
        return above, below


def centred(scores: FloatArray, starts: IntArray) -> FloatArray:
    """Scores less the middle of those of their query, within 300 (``_LARGEST_SCORE``)."""
    sizes = np.diff(starts)
    first = starts[:-1][sizes > 0]
    highest = np.maximum.reduceat(scores, first)
    lowest = np.minimum.reduceat(scores, first)
    middle = np.repeat(0.5 * (highest + lowest), sizes[sizes > 0])
    return np.clip(scores - middle, -_LARGEST_SCORE, _LARGEST_SCORE)


@compiled
def pair_sums(
    gains: FloatArray,
    starts: IntArray,
    up: FloatArray,
    down: FloatArray,
    above: FloatArray,
    below: FloatArray,
) -> None:
    """Sums over pairs of ``up[i] down[j] (gains[i] - gains[j])``, item i being the better one.

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
