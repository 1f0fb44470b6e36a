"""m-slack master by the linear program (35) with lazily added constraints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.measures import SparseFeature
from structboost.contract.separation import Separation
from structboost.errors import SolverError
from structboost.learners.terms import Terms
from structboost.objectives.hinge import HingeMaster
from structboost.objectives.slack_oracle import SlackOracle
from structboost.runtime.compiled import compiled
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


class SlackProgramMaster(HingeMaster[SlackOracle]):
    """Master in which every example, or every pair of a ranking, has a slack.

    The program holds constraints that were violated once, and drops those that had no dual for some
    solves.
    """

    def __init__(self, oracle: SlackOracle, C: float) -> None:
        super().__init__(oracle, C, CutPool())
        self._slack_number: dict[int, int] = {}
        self._slacks = np.zeros(0)
        self._costs = np.zeros(0)
        self._measures = {
            kind: SparseFeature(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
            for kind in oracle.n_channels
        }
        self._owners = {kind: np.zeros(0, np.int64) for kind in oracle.n_channels}

    @override
    def set_C(self, C: float) -> None:
        self.C = C
        self.program.set_slack_costs(C * self._costs)
        self._solve_program()

    @override
    def duals(self) -> dict[str, FloatArray]:
        out = {}
        for kind, measure in self._measures.items():
            n_parts = self.oracle.responses[kind].rows.shape[1]
            out[kind] = np.zeros((n_parts, self.oracle.n_channels[kind]))
            np.add.at(
                out[kind],
                (measure.parts, measure.channels),
                measure.values * self.pool.duals[self._owners[kind]],
            )
        return out

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
        measures, owners = {}, {}
        for kind, difference in cuts.differences.items():
            indptr = cuts.indptr[kind]
            lengths = np.diff(indptr)[chosen]
            owner = np.repeat(np.arange(len(chosen)), lengths)
            within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            entries = np.repeat(indptr[chosen], lengths) + within
            measures[kind] = difference.take(entries)
            owners[kind] = owner
        products = self._products_of(
            measures, owners, len(chosen), self.oracle.columns.terms, self.oracle.n_columns
        )
        for kind, measure in measures.items():
            self._measures[kind] = self._measures[kind].append(measure)
            self._owners[kind] = np.concatenate((self._owners[kind], owners[kind] + len(self.pool)))
        self.pool.add([None] * len(chosen), products, cuts.losses[chosen], slots)

    def _drop_idle_rows(self) -> None:
        mask = self.pool.in_use(_MAX_IDLE)
        if mask.all():
            return
        index = np.cumsum(mask) - 1
        for kind, owner in self._owners.items():
            stays = mask[owner]
            self._measures[kind] = self._measures[kind].take(stays)
            self._owners[kind] = index[owner[stays]].astype(np.int64)
        self.pool.keep(mask)

    @override
    def _products(self, terms: Mapping[str, Terms], n_new: int) -> FloatArray:
        return self._products_of(self._measures, self._owners, len(self.pool), terms, n_new)

    def _products_of(
        self,
        measures: Mapping[str, SparseFeature],
        owners: Mapping[str, IntArray],
        n_rows: int,
        terms: Mapping[str, Terms],
        n_columns: int,
    ) -> FloatArray:
        """Products <difference, response> of constraints and columns."""
        out = np.zeros((n_columns, n_rows))
        for kind, of_kind in terms.items():
            measure = measures[kind]
            order = np.argsort(measure.channels, kind="stable")
            sorted_ = measure.take(order)
            indptr = np.searchsorted(sorted_.channels, np.arange(self.oracle.n_channels[kind] + 1))
            _add_row_products(
                self.oracle.responses[kind].rows, *of_kind, sorted_.parts, sorted_.values,
                owners[kind][order], indptr, out,
            )  # fmt: skip
        return out.T


@compiled
def _add_row_products(
    responses: NDArray[np.int8],
    columns: IntArray,
    learners: IntArray,
    channels: IntArray,
    coefficients: FloatArray,
    parts: IntArray,
    values: FloatArray,
    owners: IntArray,
    indptr: IntArray,
    out: FloatArray,
) -> None:
    """Add ``coefficient * value * response`` over terms and entries to ``out[column, owner]``."""
    for t in range(len(columns)):
        response = responses[learners[t]]
        row = out[columns[t]]
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            row[owners[e]] += coefficients[t] * values[e] * response[parts[e]]
