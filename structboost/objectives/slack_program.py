"""m-slack master by the linear program (35) with lazily added constraints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array, vstack

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.separation import Separation
from structboost.errors import SolverError
from structboost.learners.terms import Terms
from structboost.objectives.hinge import HingeMaster
from structboost.objectives.slack_oracle import SlackOracle
from structboost.solvers.cut_pool import CutPool

# At C of 1e10 the linear program of the slacks of wine is not solved exactly.
LARGEST_C = 1e8
_MAX_IDLE = 3
_MIN_NEW_ROWS = 500
_MAX_SOLVES = 1000
_MAX_LIMIT = 10_000_000
# A constraint is violated by more than this fraction of the largest loss.
_LEAST_EXCESS = 1e-9


class LargeCError(SolverError, ValueError):
    """Error of a C at which slacks of all examples are not solved to the required accuracy."""


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
            self._check_risk(risk, self._known_risk(weights), weights)
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
            self._drop_idle_rows()

    def _known_risk(self, weights: FloatArray) -> float:
        """Lower bound of the risk at ``weights`` by the stored constraints."""
        slacks = np.zeros(len(self._costs))
        np.maximum.at(slacks, self.pool.slacks, self._values_at(weights))
        return float(self._costs @ slacks)

    def _solve_program(self) -> FloatArray:
        try:
            solution = self.program.solve()
        except SolverError as error:
            if self.C <= LARGEST_C:
                raise
            raise LargeCError(
                f"C is {self.C:.4g}, where the linear program of a slack for each example is not "
                f"solved ({error})  Give a C of at most {LARGEST_C:.0e}; formulation='one_slack' "
                "may solve larger ones."
            ) from error
        self._take_duals(solution.duals, by=1)
        self._slacks = solution.slacks
        return solution.weights

    def _add_violated(self, cuts: Separation, violations: FloatArray, limit: int) -> bool:
        """Add up to ``limit`` constraints that the slacks of the program violate, worst first."""
        assert cuts.slacks is not None
        assert cuts.weights is not None
        slot = np.array([self._slack_number.get(int(s), -1) for s in cuts.slacks], np.int64)
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
        for index, slack_id in enumerate(new_slacks, start=len(self._slack_number)):
            self._slack_number[int(slack_id)] = index
        self.program.add_slacks(self.C * costs)
        self._costs = np.concatenate((self._costs, costs))
        slots = np.array([self._slack_number[int(s)] for s in cuts.slacks[chosen]], np.int64)
        self._add_rows(cuts, chosen, slots)
        return True

    def _add_rows(self, cuts: Separation, chosen: IntArray, slots: IntArray) -> None:
        new = {}
        for kind, (parts, channels, values) in cuts.differences.items():
            n_channels, shape = self.oracle.n_channels[kind], self._measures[kind].shape
            rows = values, parts * n_channels + channels, cuts.indptr[kind]
            new[kind] = csr_array(rows, (len(cuts.losses), shape[1]))[chosen]
            self._measures[kind] = vstack((self._measures[kind], new[kind]), "csr")
        columns = self.oracle.columns
        products = self._products_of(new, columns.terms, columns.n_columns)
        self.pool.add([None] * len(chosen), products, cuts.losses[chosen], slots)

    def _drop_idle_rows(self) -> None:
        mask = self.pool.in_use(_MAX_IDLE)
        if not mask.all():
            self._measures = {kind: measure[mask] for kind, measure in self._measures.items()}
            self.pool.keep(mask)

    @override
    def _products(self, terms: Mapping[str, Terms], n_new: int) -> FloatArray:
        return self._products_of(self._measures, terms, n_new)

    def _products_of(
        self, measures: Mapping[str, csr_array], terms: Mapping[str, Terms], n_columns: int
    ) -> FloatArray:
        """Products <difference, response> of constraints and columns."""
        n_rows = next(iter(measures.values())).shape[0]
        out = np.zeros((n_columns, n_rows))
        for kind, of_kind in terms.items():
            n_channels, responses = self.oracle.n_channels[kind], self.oracle.responses[kind].rows
            for channel in np.unique(of_kind.channels).tolist():
                columns, learners, _, coefficients = of_kind.take(of_kind.channels == channel)
                by_part = (coefficients[:, None] * responses[learners]).T
                products = measures[kind][:, channel::n_channels] @ by_part
                for column, of_term in zip(columns.tolist(), products.T, strict=True):
                    out[column] += of_term
        return out.T
