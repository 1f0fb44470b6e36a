"""m-slack master by proximal steps over blocks, then by the linear program.

A proximal step from a center c, of length t, is ``min sum(w) + sum_i B_i slack_i + |w - c|^2 /
(2 t)`` over ``w >= 0``.  With ``w = t W`` it is the linear structured SVM with ``1/2 |W - A|^2``,
``A = c / t - 1``, losses divided by t and bounded weights, which
:mod:`structboost.solvers.block_frank_wolfe` solves on cached cuts of each example.  A
step is a pass of the argmax and a few passes over the cuts; its weights are the next center.
Wherever it stops, the multipliers divided by the largest edge of a column are feasible, and prove a
bound.  Figures: docs/decisions.md.

The linear program is (35) of StructBoost, with lazily added constraints.

The scores of columns are the linear scores of block-coordinate Frank-Wolfe.  Where each column is
one weak learner on one channel, the score of a part on a channel is linear in
the weights of the columns of that channel: its features are their responses on the part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, vstack

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, override
from structboost.contract.calls import check_found, separation, separation_of, slack_separation
from structboost.contract.parts import StackedParts, starts_of
from structboost.contract.probes import probe_argmax
from structboost.contract.separation import Separation
from structboost.contract.task import Separates, SeparatesSlacks, Task
from structboost.errors import TaskError
from structboost.learners.responses import StoredResponses
from structboost.learners.terms import KindTerms
from structboost.objectives.base import ColumnOracle, Formulation, Problem
from structboost.objectives.hinge import HingeMaster, OneSlack
from structboost.runtime.compiled import compiled
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.solvers.block_frank_wolfe import BlockFrankWolfe
from structboost.solvers.bundle import CutPool
from structboost.solvers.linear_scores import FoundOutputs, KindLayout, Places, Scores, merge_kinds


class SlackOracle(ColumnOracle):
    """Violated outputs of all examples at the columns so far."""

    def __init__(self, problem: Problem) -> None:
        task, offsets = problem.task, problem.offsets
        super().__init__(task.kinds, problem.example_weights, task.exact_argmax)
        probe_argmax(task, problem.X, problem.Y, offsets)
        self._problem = problem
        self.offsets = offsets
        self.n_channels = {kind: of_kind.n_channels for kind, of_kind in task.kinds.items()}
        # Passes over all examples; one over some of them is a part of a pass.
        self._passes = 0.0
        self.responses = {kind: StoredResponses(int(offsets[kind][-1])) for kind in task.kinds}

    def slack_cuts_at(
        self, weights: FloatArray, limit: int
    ) -> tuple[Separation, FloatArray, float]:
        """Violated outputs of each slack, and the risk (by the 1-slack form, Theorem 2.1).

        Returns the outputs, with the weights of the slacks in the risk, their violations, and the
        risk.
        """
        separated, violations, risk, scores = self.outputs_at(weights)
        problem = self._problem
        if isinstance(problem.task, SeparatesSlacks):
            separated = slack_separation(problem.task, problem.X, problem.Y, scores, limit)
            violations = separated.violations(scores)
        slacks = np.arange(len(separated.losses)) if separated.slacks is None else separated.slacks
        return replace(separated, slacks=slacks, weights=self._costs(separated)), violations, risk

    @property
    def takes_some(self) -> bool:
        """Whether a search on some examples costs less than on all, as one by one."""
        return not isinstance(self._problem.task, Separates)

    def outputs_at(
        self, weights: FloatArray, examples: IntArray | None = None
    ) -> tuple[Separation, FloatArray, float, StackedParts]:
        """Most violated output of each example, its violation, the risk, and the scores.

        With ``examples``, ascending, the others keep their true outputs, and the risk is a lower
        bound.
        """
        raise_if_interrupted()
        rows = {}
        for kind, terms in self.columns.weighted(weights).items():
            out = np.zeros((self.n_channels[kind], self.responses[kind].rows.shape[1]))
            self.responses[kind].add_scores(terms, 0, out)
            rows[kind] = out.T
        scores = StackedParts(rows, self.offsets)
        task, X, Y = self._problem.task, self._problem.X, self._problem.Y
        separated, n = None, len(Y)
        if examples is not None:
            with suppress(Exception):  # a pass over all raises it again, and names the example
                separated = separation_of(task, X, Y, scores, examples, self._truth)
                n = len(examples)
        if separated is None:
            separated = separation(task, X, Y, scores, truth=self._truth)
        self._passes += n / len(Y)
        self.calls = math.ceil(self._passes - 1e-6)
        violations = separated.violations(scores)
        risk = float(self.example_weights @ np.maximum(violations, 0.0))
        return separated, violations, risk, scores

    def _costs(self, separated: Separation) -> FloatArray:
        if separated.slacks is None:
            return self.example_weights
        n = len(self.example_weights)
        # A quotient of equals is exactly 1: equal weights change nothing.
        factors = self.example_weights / (1.0 / n)
        if separated.examples is None:
            if (factors != factors[0]).any():
                raise TaskError(
                    f"{type(self._problem.task).__name__}.separate_slacks numbers its slacks "
                    "without their examples, which sample_weight needs; set Separation.examples, "
                    "or use formulation='one_slack'."
                )
            factors = np.ones(len(separated.losses))
        else:
            factors = factors[separated.examples]
        return factors * (1.0 / n if separated.weights is None else separated.weights)

    @override
    def add_responses(self, kind: str, responses: AnyArray) -> int:
        return self.responses[kind].add(responses)


# At C of 1e10 the linear program of the slacks of wine is not solved exactly.
LARGEST_C = 1e8
_MAX_IDLE = 3
_MIN_NEW_ROWS = 500
_MAX_SOLVES = 1000
_MAX_LIMIT = 10_000_000
# A constraint is violated by more than this fraction of the largest loss.
_LEAST_EXCESS = 1e-9


class SlackProgramMaster(HingeMaster):
    """Master in which every example, or every pair of a ranking, has a slack.

    The program holds constraints that were violated once, and drops those that had no dual for some
    solves.
    """

    oracle: SlackOracle

    def __init__(self, oracle: SlackOracle, C: float) -> None:
        super().__init__(oracle, C, CutPool())
        self._slack_number: dict[int, int] = {}
        self._slacks = np.zeros(0)
        self._costs = np.zeros(0)
        # Differences of joint features by kind, a row for each constraint, part after part.
        self._measures = {
            kind: csr_array((0, int(oracle.offsets[kind][-1]) * n_channels))
            for kind, n_channels in oracle.n_channels.items()
        }

    @override
    def set_C(self, C: float) -> None:
        self.C = C
        self.program.set_slack_costs(C * self._costs)
        self._solve_program()

    @override
    def duals(self) -> dict[str, FloatArray]:
        return {
            kind: (measure.T @ self.pool.duals).reshape(-1, self.oracle.n_channels[kind])
            for kind, measure in self._measures.items()
        }

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        weights = self.weights if np.isinf(self.risk) else self._solve_program()
        limit = max(_MIN_NEW_ROWS, 2 * self.oracle.n_columns)
        for _ in range(_MAX_SOLVES):
            cuts, violations, risk = self.oracle.slack_cuts_at(weights, limit)
            # The stored constraints bound the risk from below.
            slacks = np.zeros(len(self._costs))
            np.maximum.at(slacks, self.pool.slacks, self._values_at(weights))
            self._check_risk(risk, float(self._costs @ slacks), weights)
            objective = float(weights.sum()) + self.C * risk
            if objective < self.primal:
                self.weights, self.risk = weights.copy(), risk
            if self.primal - self.dual_value <= tolerance * self.primal:
                return
            if not self._add_violated(cuts, violations, limit):
                # The worst ones may all be in the program already, with slack: look further down.
                limit *= 4
                if len(self.pool) and (len(cuts.losses) == 0 or limit > _MAX_LIMIT):
                    return
            weights = self._solve_program()
            mask = self.pool.in_use(_MAX_IDLE)
            if not mask.all():
                self._measures = {kind: measure[mask] for kind, measure in self._measures.items()}
                self.pool.keep(mask)

    def _solve_program(self) -> FloatArray:
        solution = self.program.solve()
        self._take_duals(solution.duals, by=1)
        self._slacks = solution.slacks
        return solution.weights

    def _add_violated(self, cuts: Separation, violations: FloatArray, limit: int) -> bool:
        """Add up to ``limit`` constraints that the slacks of the program violate, worst first."""
        assert cuts.slacks is not None
        assert cuts.weights is not None
        slot = np.array([self._slack_number.get(s, -1) for s in cuts.slacks.tolist()], np.int64)
        # A new slack is 0; -1 finds the zero at the end.
        excess = violations - np.append(self._slacks, 0.0)[slot]
        largest = max(cuts.losses.max(initial=0.0), self.pool.losses.max(initial=0.0))
        chosen = np.flatnonzero(excess > _LEAST_EXCESS * largest)
        worst = np.argsort(-(excess * cuts.weights)[chosen], kind="stable")
        chosen = np.sort(chosen[worst[:limit]])
        if not len(chosen):
            return False
        fresh = chosen[slot[chosen] < 0]
        new_slacks, first = np.unique(cuts.slacks[fresh], return_index=True)
        costs = cuts.weights[fresh][first]
        for slack in new_slacks.tolist():
            self._slack_number[slack] = len(self._slack_number)
        self.program.add_slacks(self.C * costs)
        self._costs = np.concatenate((self._costs, costs))
        slots = np.array([self._slack_number[s] for s in cuts.slacks[chosen].tolist()], np.int64)
        new = {}
        for kind, (parts, channels, values) in cuts.differences.items():
            n_channels, shape = self.oracle.n_channels[kind], self._measures[kind].shape
            rows = values, parts * n_channels + channels, cuts.indptr[kind]
            new[kind] = csr_array(rows, (len(cuts.losses), shape[1]))[chosen]
            self._measures[kind] = vstack((self._measures[kind], new[kind]), "csr")
        columns = self.oracle.columns
        products = self._products_of(new, columns.terms, columns.n_columns)
        self.pool.add([None] * len(chosen), products, cuts.losses[chosen], slots)
        return True

    @override
    def _products(self, terms: KindTerms, n_new: int) -> FloatArray:
        return self._products_of(self._measures, terms, n_new)

    def _products_of(
        self, measures: Mapping[str, csr_array], terms: KindTerms, n_columns: int
    ) -> FloatArray:
        """Products <difference, response> of constraints and columns."""
        out = np.zeros((n_columns, next(iter(measures.values())).shape[0]))
        for kind, of_kind in terms.items():
            n_channels, responses = self.oracle.n_channels[kind], self.oracle.responses[kind].rows
            for channel in np.unique(of_kind.channels).tolist():
                columns, learners, _, coefficients = of_kind.take(of_kind.channels == channel)
                by_part = (coefficients[:, None] * responses[learners]).T
                products = measures[kind][:, channel::n_channels] @ by_part
                for column, of_term in zip(columns.tolist(), products.T, strict=True):
                    out[column] += of_term
        return out.T


class ColumnScores(Scores):
    """Columns of a master as features of :class:`structboost.solvers.block_frank_wolfe.Scores`.

    All weights are bounded.

    Parameters
    ----------
    oracle : SlackOracle
        Its columns have one term each.

    Attributes
    ----------
    columns : ndarray of int64, shape (n_weights,)
        Index of the column of each weight.
    features : (ndarray of float64, ndarray of int64)
        Features of the scores that :meth:`place` gathered so far, without indices.
    n_weights, n_scores : int
    layouts : list of KindLayout
    """

    has_bounds = True

    def __init__(self, oracle: SlackOracle) -> None:
        self.offsets = oracle.offsets
        self.layouts = []
        self.n_scores = self.n_weights = 0
        self.features = np.zeros(0), np.zeros(0, np.int64)
        columns = []
        # For each kind: terms channel by channel, where channels begin, responses.
        self._kinds = []
        for kind, terms in oracle.columns.terms.items():
            n_rows, n_channels = int(self.offsets[kind][-1]), oracle.n_channels[kind]
            layout = KindLayout(
                kind, n_rows, len(terms.columns), n_channels, True, False,
                0, self.n_weights, self.n_scores,
            )  # fmt: skip
            self.layouts.append(layout)
            by_channel = terms.take(np.argsort(terms.channels, kind="stable"))
            starts = np.searchsorted(by_channel.channels, np.arange(n_channels + 1))
            self._kinds.append((by_channel, starts, oracle.responses[kind].rows))
            columns.append(by_channel.columns)
            self.n_weights += len(by_channel.columns)
            self.n_scores += n_rows * n_channels
        self.columns = np.concatenate(columns)
        # Where the features of a score begin, once they are gathered; -1 before.
        self._first_feature = np.full(self.n_scores, -1)
        self._n_gathered = 0

    def flatten(self, scores: StackedParts, places: IntArray, flat: FloatArray) -> None:
        """Fill these ``places`` of the flat array of scores, row after row, kind after kind."""
        of_kind, rows, channels = self.origins(places)
        for index, a in enumerate(self.layouts):
            entries = np.flatnonzero(of_kind == index)
            flat[places[entries]] = scores.rows[a.kind][rows[entries], channels[entries]]

    def by_kind(self, flat: FloatArray) -> dict[str, FloatArray]:
        """Split a flat array of scores by kind."""
        ends = [a.first_score for a in self.layouts[1:]]
        parts = zip(self.layouts, np.split(flat, ends), strict=True)
        return {a.kind: of_kind.reshape(-1, a.n_channels) for a, of_kind in parts}

    @override
    def project(self, sums: FloatArray) -> FloatArray:
        return np.maximum(sums, 0.0)

    @override
    def place(self, scores: IntArray) -> Places:
        of_kind, rows, channels = self.origins(scores)
        lengths, first_weight = np.zeros(len(scores), np.int64), np.zeros(len(scores), np.int64)
        for index, (a, (_, starts, _)) in enumerate(zip(self.layouts, self._kinds, strict=True)):
            entries = np.flatnonzero(of_kind == index)
            lengths[entries] = np.diff(starts)[channels[entries]]
            first_weight[entries] = a.first_weight + starts[channels[entries]]
        new = np.flatnonzero(self._first_feature[scores] < 0)
        if len(new):
            first = self._n_gathered + starts_of(lengths[new])
            self._first_feature[scores[new]] = first[:-1]
            values, indices = self.features
            if first[-1] > len(values):
                longer = np.empty(max(int(first[-1]), 3 * len(values) // 2))
                longer[: self._n_gathered] = values[: self._n_gathered]
                values, self.features = longer, (longer, indices)
            self._n_gathered = int(first[-1])
            for index, (terms, starts, responses) in enumerate(self._kinds):
                entries = np.flatnonzero(of_kind[new] == index)
                _gather(
                    rows[new[entries]], channels[new[entries]], starts, terms.learners,
                    terms.coefficients, responses, first[entries], values,
                )  # fmt: skip
        everywhere = np.ones(len(scores), np.bool_)
        return self._first_feature[scores], first_weight, lengths, everywhere, ~everywhere


@compiled
def _gather(
    rows: IntArray,
    channels: IntArray,
    starts: IntArray,
    learners: IntArray,
    coefficients: FloatArray,
    responses: AnyArray,
    first_feature: IntArray,
    values: FloatArray,
) -> None:
    for s in range(len(rows)):
        at = first_feature[s]
        for t in range(starts[channels[s]], starts[channels[s] + 1]):
            values[at] = coefficients[t] * responses[learners[t], rows[s]]
            at += 1


# Below this gap the linear program takes over: it ends exactly, blocks come near slowly.
_FINEST = 1e-3
_MAX_PASSES = 500
# Passes of the argmax after new columns; after these, new columns help more than new cuts.
_MAX_LOOSE_PASSES = 4
# Passes over the cuts after each.
_SWEEPS = 3
_MAX_IDLE_PASSES = 5
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

    can_choose_C = True

    @override
    def start(self, problem: Problem, C: float) -> SlackProgramMaster:
        has_pairs = isinstance(problem.task, SeparatesSlacks)
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
        has_slack_each = task.separates_in_batches and not isinstance(task, SeparatesSlacks)
        is_small = n_channels >= _FEWEST_CHANNELS and n_examples <= _MOST_EXAMPLES
        is_large_C = smallest_C <= C <= LARGEST_C
        if is_plain and has_slack_each and is_small and is_large_C:
            return MSlack()
        return OneSlack(ridge=self.ridge)


class MSlackMaster(SlackProgramMaster):
    """Master with a slack for every example, by blocks first and then by the linear program.

    Columns of several terms are left to the linear program.
    """

    def __init__(self, oracle: SlackOracle, C: float) -> None:
        super().__init__(oracle, C)
        self._scores = ColumnScores(oracle)
        # A generator of its own: results do not depend on what else is drawn.
        random, budgets = np.random.RandomState(0), C * oracle.example_weights
        self._blocks = BlockFrankWolfe(self._scores, budgets, random, _MAX_IDLE_PASSES)
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
    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        super().add_columns(terms, n_new)
        self._knows_columns = False
        self._iterate = np.concatenate((self._iterate, np.zeros(n_new)))

    @override
    def keep_columns(self, mask: BoolArray) -> None:
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
            largest = separated.losses.max(initial=0.0)
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
        due = np.flatnonzero(self._excess > _DUE_EXCESS * self._excess.mean())
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
            square = (fall * fall).sum()
            self._step = self.primal / square if square > 0 else 0.0
            return
        of_center = np.abs((1.0 - edges) * w).sum() + loss * (1.0 - 1.0 / self._divisor)
        of_blocks = self._objective - w.sum() - loss + (edges * w).sum()
        if of_center > _BALANCE * of_blocks:
            self._step *= _LONGER
        elif of_blocks > _BALANCE * of_center:
            self._step *= _SHORTER
