"""Cross-entropy over the weights of given functions, with a price of each weight.

The functions ``h_t`` score the classes, and the targets ``q_i`` are probabilities of the classes.
The problem, with offsets ``b`` and prices ``p_t > 0``, is ::

    min over w >= 0  sum_t p_t w_t + C/n sum_i [log sum_c exp(F_ic) - <q_i, F_i>],
                     F_i = b + sum_t w_t h_t(x_i)

Let r_i be any probabilities of the classes, and H the entropy.  The dual is ::

    max  C/n sum_i [H(r_i) + <r_i - q_i, b>]
    s.t. C/n sum_i <q_i - r_i, h_t(x_i)> <= p_t   for each function

The probabilities of the model itself, mixed with the targets until no constraint is violated, give
the lower bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, xlogy

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled
from structboost.runtime.interrupts import raise_if_interrupted

_MAX_STEPS, _MAX_HALVINGS = 300, 30
# Functions without weight that enter a step, or as many as have weight.
_MOST_NEW = 10
# Relative addition to second derivatives.
_RIDGE = 1e-9
# Sweeps over the coordinates of a step, and changes of the gradient, by the prices, that end them.
_MAX_SWEEPS, _SMALL = 100, 1e-6


class ScoreBlock(NamedTuple):
    """Scores that some functions give to one class.

    Parameters
    ----------
    functions : ndarray of int64, shape (n_block,)
        Indices of the functions, each once.
    channel : int
        Index of the class.
    scores : ndarray, shape (n_block, n_rows)
    """

    functions: IntArray
    channel: int
    scores: FloatArray


def scores_of(blocks: list[ScoreBlock], weights: FloatArray, offset: FloatArray) -> FloatArray:
    """Scores of the classes, shape (n_rows, n_classes), at weights of the functions."""
    out = np.repeat(offset[None], blocks[0].scores.shape[1], axis=0)
    for functions, channel, scores in blocks:
        out[:, channel] += weights[functions] @ scores
    return out


class PricedSolution(NamedTuple):
    """Weights with a proof of how near the optimum they are.

    Parameters
    ----------
    weights : ndarray, shape (n_functions,)
    objective, bound : float
        The optimum is between them.
    """

    weights: FloatArray
    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """Relative gap ``(objective - bound) / objective``."""
        return max(self.objective - self.bound, 0.0) / max(self.objective, 1e-300)


class PricedCrossEntropy:
    """Problem of the weights of given functions on given rows.

    Parameters
    ----------
    blocks : list of ScoreBlock
        All scores; a function may have a block for each class.
    offset : ndarray, shape (n_classes,)
        Scores of the classes without any function.
    targets : ndarray, shape (n_rows, n_classes)
        Rows sum to 1.
    """

    def __init__(self, blocks: list[ScoreBlock], offset: FloatArray, targets: FloatArray) -> None:
        self.blocks, self.offset, self.targets = blocks, offset, targets
        self.n_functions = 1 + max(int(block.functions.max()) for block in blocks)

    def of_rows(self, rows: IntArray) -> PricedCrossEntropy:
        """Problem of some of the rows."""
        blocks = [block._replace(scores=block.scores[:, rows]) for block in self.blocks]
        return PricedCrossEntropy(blocks, self.offset, self.targets[rows])

    def scores(self, weights: FloatArray) -> FloatArray:
        """Scores of the classes, shape (n_rows, n_classes)."""
        return scores_of(self.blocks, weights, self.offset)

    def edges(self, weights: FloatArray) -> FloatArray:
        """Fall of the mean cross-entropy by each weight, shape (n_functions,)."""
        scores = self.scores(weights)
        return self._edges(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))

    def _edges(self, probabilities: FloatArray) -> FloatArray:
        slopes = (self.targets - probabilities) / len(self.targets)
        out = np.zeros(self.n_functions)
        for functions, channel, scores in self.blocks:
            out[functions] += scores @ slopes[:, channel]
        return out

    def solve(
        self, C: float, prices: FloatArray, start: FloatArray, tolerance: float
    ) -> PricedSolution:
        """Minimise over the weights by Newton steps until the relative gap is small enough.

        A step changes the weights that are positive and those of the functions whose constraints
        are violated most.  ``C`` weighs the loss against the prices, which are positive.  The gap
        of the solution is above ``tolerance`` if the steps did not suffice.
        """
        at = self._at(start, C, prices)
        for _ in range(_MAX_STEPS):
            raise_if_interrupted()
            if at.solution.gap <= tolerance:
                break
            after = self._step(at, C, prices)
            if after.solution.objective >= at.solution.objective:
                break
            at = after
        return at.solution

    def _step(self, at: _Point, C: float, prices: FloatArray) -> _Point:
        """Minimise the quadratic model over a working set, and search on the line to there."""
        weights = at.solution.weights
        is_used = weights > 0
        excess = np.where(is_used, -np.inf, -at.gradient / prices)
        order = np.argsort(-excess, kind="stable")[: max(_MOST_NEW, int(is_used.sum()))]
        working = np.sort(np.concatenate((np.flatnonzero(is_used), order[excess[order] > 0])))
        if not len(working):
            return at
        curvature = C * self._curvature(working, at.probabilities)
        # Equal functions make it singular.
        curvature[np.diag_indices_from(curvature)] *= 1.0 + _RIDGE
        moved = weights[working].copy()
        minimise_quadratic(curvature, at.gradient[working].copy(), prices[working], moved)
        direction = np.zeros(len(weights))
        direction[working] = moved - weights[working]
        slope, size = at.gradient @ direction, 1.0
        for _ in range(_MAX_HALVINGS):
            after = self._at(weights + size * direction, C, prices)
            if after.solution.objective <= at.solution.objective + 1e-4 * size * slope:
                return after
            size /= 2.0
        return at

    def _curvature(self, working: IntArray, probabilities: FloatArray) -> FloatArray:
        """Second derivatives of the mean cross-entropy, shape (n_working, n_working)."""
        n = len(probabilities)
        place = np.full(self.n_functions, -1)
        place[working] = np.arange(len(working))
        out = np.zeros((len(working), len(working)))
        means = np.zeros((len(working), n))
        for functions, channel, scores in self.blocks:
            chosen = np.flatnonzero(place[functions] >= 0)
            at, p = place[functions[chosen]], probabilities[:, channel]
            means[at] += scores[chosen] * p
            rows = scores[chosen] * np.sqrt(p)
            out[np.ix_(at, at)] += rows @ rows.T
        return (out - means @ means.T) / n

    def _at(self, weights: FloatArray, C: float, prices: FloatArray) -> _Point:
        n, scores = len(self.targets), self.scores(weights)
        sums = logsumexp(scores, axis=1)
        loss = float((sums - (self.targets * scores).sum(axis=1)).sum()) / n
        probabilities = np.exp(scores - sums[:, None])
        edges = C * self._edges(probabilities)
        largest = (edges / prices).max()
        mixed = min(1.0, 1.0 / largest) if largest > 0 else 1.0
        dual = (1.0 - mixed) * self.targets + mixed * probabilities
        bound = C / n * float(((dual - self.targets) @ self.offset).sum() - xlogy(dual, dual).sum())
        solution = PricedSolution(weights, float(prices @ weights) + C * loss, bound)
        return _Point(solution, probabilities, prices - edges)


class _Point(NamedTuple):
    """Weights with objective and bound, the probabilities of the classes, and the gradient."""

    solution: PricedSolution
    probabilities: FloatArray
    gradient: FloatArray


@compiled
def minimise_quadratic(
    curvature: FloatArray, gradient: FloatArray, prices: FloatArray, weights: FloatArray
) -> None:
    """Minimise ``g'd + d'Hd / 2`` over ``w + d >= 0``, by coordinates.

    Parameters
    ----------
    curvature : ndarray, shape (n, n)
        H, positive definite.
    gradient : ndarray, shape (n,)
        g, at the weights; changed in place.
    prices : ndarray, shape (n,)
        Scales of the gradient, by which it is small enough.
    weights : ndarray, shape (n,)
        w, changed in place into the minimiser.
    """
    n = len(weights)
    for _ in range(_MAX_SWEEPS):
        largest = 0.0
        for j in range(n):
            if curvature[j, j] <= 0.0:
                continue
            new = max(weights[j] - gradient[j] / curvature[j, j], 0.0)
            change = new - weights[j]
            if change != 0.0:
                largest = max(largest, abs(change) * curvature[j, j] / prices[j])
                weights[j] = new
                for k in range(n):
                    gradient[k] += change * curvature[j, k]
        if largest <= _SMALL:
            return
