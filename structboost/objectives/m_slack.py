"""m-slack master by proximal steps over blocks, then by the linear program.

A proximal step from a center c, of length t, is ``min sum(w) + sum_i B_i slack_i + |w - c|^2 /
(2 t)`` over ``w >= 0``.  With ``w = t W`` it is the linear structured SVM with ``1/2 |W - A|^2``,
``A = c / t - 1``, losses divided by t and bounded weights, which
:mod:`structboost.solvers.block_frank_wolfe` solves on cached cuts of each example.  A
step is a pass of the argmax and a few passes over the cuts; its weights are the next center.
Wherever it stops, the multipliers divided by the largest edge of a column are feasible, and prove a
bound.  Figures: docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.exactness import check_found
from structboost.contract.task import Task
from structboost.learners.terms import Terms
from structboost.objectives.base import Formulation, Problem
from structboost.objectives.column_scores import ColumnScores
from structboost.objectives.one_slack import OneSlack
from structboost.objectives.slack_oracle import SlackOracle
from structboost.objectives.slack_program import LARGEST_C, SlackProgramMaster
from structboost.solvers.block_frank_wolfe import BlockFrankWolfe
from structboost.solvers.linear_scores import FoundOutputs, merge_kinds

# Below this gap the linear program takes over: it ends exactly, blocks come near slowly.
_FINEST = 1e-3
_MAX_PASSES = 500
# Passes of the argmax after new columns; after these, new columns help more than new cuts.
_MAX_LOOSE_PASSES = 4
# Passes over the cuts after each.
_SWEEPS = 3
_MAX_IDLE = 5
# Where outputs are found one by one, passes visit examples of this times the mean excess, but every
# few passes, and those that would skip few, visit all.
_DUE_EXCESS = 2.0
_MOST_DUE = 0.8
_FULL_PASS_EVERY = 5
# How the length of the step follows what is left of the gap.
_BALANCE = 2.0
_LONGER, _SHORTER = 1.5, 0.8
# From this C on, and from this multiple of the examples per channel, one slack needs so many cuts
# that a slack for each example is faster: half of ten tables decided, half checked
# (docs/decisions.md).  Larger tables were not tried.
_SMALLEST_C, _EXAMPLES_PER_CHANNEL = 100.0, 0.5
_MOST_EXAMPLES = 20_000
_FEWEST_CHANNELS = 3


@dataclass(frozen=True)
class MSlack(Formulation):
    """Hinge loss with a slack for each example or pair of a ranking, (35) of StructBoost."""

    can_choose_C: ClassVar[bool] = True

    @override
    def start(self, problem: Problem, C: float) -> SlackProgramMaster:
        has_pairs = problem.task.defines("separate_slacks")
        return (SlackProgramMaster if has_pairs else MSlackMaster)(SlackOracle(problem), C)


@dataclass(frozen=True)
class HingeBySize(OneSlack):
    """Hinge loss by :class:`OneSlack`, or by :class:`MSlack` where that takes less time.

    A slack for each example is taken for stumps on a dense table of at most 20,000 rows, in one
    process, if the task has at least three channels, and C is at least 100 and half of the number
    of rows per channel, and at most 1e8.  Both have the same optimum (Theorem 2.1 of StructBoost).
    """

    @override
    def suited(self, task: Task, n_examples: int, C: float, *, is_plain: bool) -> Formulation:
        n_channels = sum(kind.n_channels for kind in task.kinds.values())
        smallest_C = max(_SMALLEST_C, _EXAMPLES_PER_CHANNEL * n_examples / n_channels)
        has_slack_each = task.separates_in_batches and not task.defines("separate_slacks")
        is_small = n_channels >= _FEWEST_CHANNELS and n_examples <= _MOST_EXAMPLES
        is_large_C = smallest_C <= C <= LARGEST_C
        if is_plain and self.stabilize and has_slack_each and is_small and is_large_C:
            return MSlack()
        return OneSlack(self.stabilize, self.ridge)


class MSlackMaster(SlackProgramMaster):
    """Master with a slack for every example, by blocks first and then by the linear program.

    Columns of several terms are left to the linear program.
    """

    def __init__(self, oracle: SlackOracle, C: float) -> None:
        super().__init__(oracle, C)
        self._scores = ColumnScores(oracle)
        # A generator of its own: results do not depend on what else is drawn.
        random, budgets = np.random.RandomState(0), C * oracle.example_weights
        self._blocks = BlockFrankWolfe(self._scores, budgets, random, _MAX_IDLE)
        # Scores of the last pass, where cuts touch them.
        self._flat = np.zeros(self._scores.n_scores)
        # Where the next pass looks: the weights of the last step, and the next center.
        self._iterate = np.zeros(oracle.n_columns)
        self._objective = np.inf
        # How much more each example cost than its cuts knew, when it was visited last.
        self._excess = np.zeros(len(oracle.example_weights))
        self._step = 0.0
        # Whether the blocks have the columns of now as features.
        self._knows_columns = True
        # What divides the multipliers of the blocks; 0 where the linear program gave the duals.
        self._divisor = 0.0

    @property
    @override
    def n_cuts(self) -> int:
        return self._blocks.n_cuts if self._divisor else super().n_cuts

    @override
    def set_C(self, C: float) -> None:
        self._blocks.scale_budgets(C / self.C)
        if not self._divisor:
            super().set_C(C)
            return
        self.C = C
        self.program.set_slack_costs(C * self._costs)
        self._take_proof()

    @override
    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        super().add_columns(terms, n_new)
        self._knows_columns = False
        self._iterate = np.concatenate((self._iterate, np.zeros(n_new)))

    @override
    def keep_columns(self, mask: NDArray[np.bool_]) -> None:
        super().keep_columns(mask)
        self._iterate = self._iterate[mask]
        self._knows_columns = False

    @override
    def duals(self) -> dict[str, FloatArray]:
        if not self._divisor:
            return super().duals()
        return self._scores.by_kind(self._blocks.measure() / self._divisor)

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        if not self._can_step(tolerance) or not self._solve_by_blocks(tolerance, _MAX_PASSES):
            self._divisor = 0.0
            super().solve(tolerance)

    @override
    def solve_loosely(self, tolerance: float, selected: IntArray | None = None) -> None:
        if self._can_step(tolerance):
            self._solve_by_blocks(tolerance, _MAX_LOOSE_PASSES)
        else:
            self.solve(tolerance)

    def _can_step(self, tolerance: float) -> bool:
        """Whether blocks are accurate enough, and every column is one learner on one channel."""
        n_terms = sum(len(of_kind.columns) for of_kind in self.oracle.columns.terms.values())
        return tolerance >= _FINEST and n_terms == self.oracle.n_columns

    def _solve_by_blocks(self, tolerance: float, most_passes: int) -> bool:
        """Step until the gap is at most ``tolerance``, and return whether it was reached."""
        if not self._knows_columns:
            self._scores = ColumnScores(self.oracle)
            self._blocks.change_features(self._scores)
            self._knows_columns = True
        for pass_index in range(most_passes):
            self._take_proof()
            separated = self._look(self._iterate, self._due(pass_index), tolerance)
            if self.primal - self.dual_value <= tolerance * self.primal:
                return True
            self._adapt_step()
            self._blocks.add(separated, self._flat)
            # Until the first cuts promise something, weights are as large as losses.
            largest = float(separated.losses.max(initial=0.0))
            step, columns = self._step or largest or 1.0, self._scores.columns
            self._blocks.recenter(self._iterate[columns] / step - 1.0, 1.0 / step)
            self._blocks.sweep(_SWEEPS)
            self._iterate[columns] = step * self._blocks.weights
        # The multipliers have moved, and the duals with them.
        self._take_proof()
        return False

    def _due(self, pass_index: int) -> IntArray | None:
        """Examples for the next pass, or None for a pass over all."""
        if pass_index % _FULL_PASS_EVERY == 0 or not self.oracle.takes_some:
            return None
        due = np.flatnonzero(self._excess > _DUE_EXCESS * float(self._excess.mean()))
        return due if 0 < len(due) < _MOST_DUE * len(self._excess) else None

    def _look(
        self, weights: FloatArray, examples: IntArray | None, tolerance: float
    ) -> FoundOutputs:
        """Find violated outputs of ``examples``, and store ``weights`` if they are the best.

        A pass over all examples computes the objective.  Else the cuts of the others bound it, and
        all are searched if the bound is within the tolerance.
        """
        oracle = self.oracle
        separated, violations, risk, scores = oracle.outputs_at(weights, examples)
        self._scores.flatten(scores, self._blocks.touched, self._flat)
        objective = float(weights.sum()) + self.C * risk
        # Where outputs of all cost little, what is known of them is looked at before a proof only.
        if oracle.takes_some or objective - self.dual_value <= tolerance * objective:
            cached = self._blocks.cached_violations(self._flat)
            chosen = slice(None) if examples is None else examples
            if oracle.exact:
                hinges = np.zeros_like(cached)
                hinges[chosen] = cached[chosen]
                check_found(np.maximum(violations, 0.0), hinges, separated.losses, scores)
            excess = oracle.example_weights * np.maximum(violations - cached, 0.0)
            self._excess[chosen] = excess[chosen]
            if examples is not None:
                risk = float(oracle.example_weights @ np.maximum(violations, cached))
        self._objective = float(weights.sum()) + self.C * risk
        if examples is not None:
            if self._objective - self.dual_value <= tolerance * self._objective:
                return self._look(weights, None, tolerance)
        elif self._objective < self.primal:
            self.weights, self.risk = weights.copy(), risk
        return merge_kinds(separated, self._scores, scores)

    def _take_proof(self) -> None:
        """Set the bound from the multipliers of the blocks, over the largest edge."""
        self._divisor = float(self._blocks.sums.max(initial=1.0))
        self.dual_value = self._blocks.loss / self._divisor

    def _adapt_step(self) -> None:
        """Lengthen the step if the center holds the gap open, and shorten it if the blocks do.

        The gap at ``w`` is the gap of the blocks, plus ``(1 - edges)' w``, plus the loss by the
        division of the multipliers.
        """
        edges, w = self._blocks.sums, self._iterate[self._scores.columns]
        loss = self._blocks.loss
        if not self._step:
            # As if the first cuts promised to take all of the objective.
            fall = np.maximum(edges - 1.0, 0.0)
            square = float((fall * fall).sum())
            self._step = self.primal / square if square > 0 else 0.0
            return
        of_center = float(np.abs((1.0 - edges) * w).sum()) + loss * (1.0 - 1.0 / self._divisor)
        of_blocks = self._objective - float(w.sum()) - loss + float((edges * w).sum())
        if of_center > _BALANCE * of_blocks:
            self._step *= _LONGER
        elif of_blocks > _BALANCE * of_center:
            self._step *= _SHORTER
