"""The m-slack master: the linear program (35) with lazily added constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.masters.base import Formulation, HingeMaster, Problem
from structboost.masters.hinge_program import HingeProgram
from structboost.masters.kind_columns import Terms
from structboost.masters.slack_oracle import SlackCuts, SlackOracle
from structboost.task import Measure

_MAX_IDLE = 3
_MIN_NEW_ROWS = 500
_MAX_SOLVES = 1000
_MAX_LIMIT = 10_000_000


@dataclass(frozen=True)
class MSlack(Formulation):
    """Hinge loss with a slack for each example, or each pair of a ranking: (35) of StructBoost."""

    def master(self, problem: Problem, C: float) -> MSlackMaster:
        """A linear program whose constraints come when they are violated."""
        return MSlackMaster(problem.slack_oracle(), C)


class MSlackMaster(HingeMaster[SlackOracle]):
    """Every example (every pair of a ranking) has a slack of its own.

    Only constraints that were violated once are in the program; those that stay
    without a dual for some solves are dropped.
    """

    def __init__(self, oracle: SlackOracle, C: float) -> None:
        super().__init__(oracle, C)
        self._program = HingeProgram()
        self._slack_number: dict[int, int] = {}
        self._slacks = np.zeros(0)
        self._costs = np.zeros(0)
        self._duals = np.zeros(0)
        self._idle = np.zeros(0, np.int64)
        self._measures = {
            kind: Measure(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)) for kind in oracle.columns
        }
        self._owners = {kind: np.zeros(0, np.int64) for kind in oracle.columns}

    @property
    def n_cuts(self) -> int:
        """Constraints held."""
        return self._program.n_rows

    def set_C(self, C: float) -> None:
        """Go on with another C."""
        self.C = C
        self._program.set_slack_costs(C * self._costs)
        self._solve_program()

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero."""
        products = self._products(self._measures, self._owners, self.n_cuts, terms, n_new)
        self.oracle.add_columns(terms, n_new)
        self._program.add_columns(products)
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``."""
        self.oracle.keep_columns(kept)
        self._program.keep_columns(kept)
        self.weights = self.weights[kept]

    def duals(self) -> dict[str, NDArray[np.float64]]:
        """Sum of dual times difference of joint features over the constraints: (7)."""
        out = {}
        for kind, measure in self._measures.items():
            columns = self.oracle.columns[kind]
            out[kind] = np.zeros((columns.n_parts, columns.n_channels))
            np.add.at(out[kind], (measure.parts, measure.channels), measure.values * self._duals[self._owners[kind]])
        return out

    def solve(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """Add violated constraints until the relative gap over the columns so far is at most ``tolerance``."""
        weights = self.weights if np.isinf(self.risk) else self._solve_program()
        limit = max(_MIN_NEW_ROWS, 2 * self.oracle.n_columns)
        for _ in range(_MAX_SOLVES):
            cuts, risk = self.oracle.slack_cuts_at(weights, limit)
            objective = float(weights.sum()) + self.C * risk
            if objective < self.primal:
                self.weights, self.risk = weights.copy(), risk
            if self.n_cuts and self.primal - self.dual_value <= tolerance * self.primal:
                return
            if not self._add_violated(cuts, limit):
                # The worst ones may all be in the program already, with slack: look further down.
                limit *= 4
                if self.n_cuts and (len(cuts.losses) == 0 or limit > _MAX_LIMIT):
                    return
            weights = self._solve_program()
            self._drop_idle_rows()

    def _solve_program(self) -> NDArray[np.float64]:
        solution = self._program.solve()
        self._duals = solution.duals
        self.dual_value = float(solution.duals @ self._program.losses)
        self._idle = np.where(self._duals > 0, 0, self._idle + 1)
        self._slacks = solution.slacks
        return solution.weights

    def _add_violated(self, cuts: SlackCuts, limit: int) -> bool:
        """Add the constraints that the program's slacks do not satisfy, the worst first, at most ``limit``."""
        known = np.array([self._slack_number.get(int(s), -1) for s in cuts.slacks], np.int64)
        slack = np.where(known >= 0, self._slacks[known], 0.0) if len(self._slack_number) else np.zeros(len(known))
        excess = (cuts.violations - slack) * cuts.costs
        chosen = np.flatnonzero(cuts.violations - slack > 1e-9)
        chosen = np.sort(chosen[np.argsort(-excess[chosen], kind="stable")[:limit]])
        if not len(chosen):
            return False
        fresh = chosen[known[chosen] < 0]
        new_slacks, first = np.unique(cuts.slacks[fresh], return_index=True)
        costs = cuts.costs[fresh][first]
        for number, slack_id in enumerate(new_slacks, start=len(self._slack_number)):
            self._slack_number[int(slack_id)] = number
        self._program.add_slacks(self.C * costs)
        self._costs = np.concatenate((self._costs, costs))
        self._add_rows(cuts, chosen)
        return True

    def _add_rows(self, cuts: SlackCuts, chosen: NDArray[np.int64]) -> None:
        measures, owners = {}, {}
        for kind, difference in cuts.differences.items():
            indptr = cuts.indptr[kind]
            lengths = np.diff(indptr)[chosen]
            owner = np.repeat(np.arange(len(chosen)), lengths)
            within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            entries = np.repeat(indptr[chosen], lengths) + within
            measures[kind] = difference.take(entries)
            owners[kind] = owner
        all_terms = {kind: columns.terms for kind, columns in self.oracle.columns.items()}
        products = self._products(measures, owners, len(chosen), all_terms, self.oracle.n_columns)
        for kind, measure in measures.items():
            self._measures[kind] = self._measures[kind].append(measure)
            self._owners[kind] = np.concatenate((self._owners[kind], owners[kind] + self.n_cuts))
        numbers = np.array([self._slack_number[int(s)] for s in cuts.slacks[chosen]], np.int64)
        self._program.add_rows(products, cuts.losses[chosen], numbers)
        self._idle = np.concatenate((self._idle, np.zeros(len(chosen), np.int64)))

    def _drop_idle_rows(self) -> None:
        kept = self._idle <= _MAX_IDLE
        if kept.all():
            return
        number = np.cumsum(kept) - 1
        for kind, owner in self._owners.items():
            stays = kept[owner]
            self._measures[kind] = self._measures[kind].take(stays)
            self._owners[kind] = number[owner[stays]].astype(np.int64)
        self._program.keep_rows(kept)
        self._duals, self._idle = self._duals[kept], self._idle[kept]

    def _products(
        self,
        measures: Mapping[str, Measure],
        owners: Mapping[str, NDArray[np.int64]],
        n_rows: int,
        terms: Mapping[str, Terms],
        n_columns: int,
    ) -> NDArray[np.float64]:
        """Matrix <difference, response> of constraints and columns."""
        out = np.zeros((n_columns, n_rows))
        for kind, of_kind in terms.items():
            columns = self.oracle.columns[kind]
            measure = measures[kind]
            order = np.argsort(measure.channels, kind="stable")
            sorted_ = measure.take(order)
            indptr = np.searchsorted(sorted_.channels, np.arange(columns.n_channels + 1))
            _add_row_products(
                columns.responses, *of_kind, sorted_.parts, sorted_.values, owners[kind][order], indptr, out
            )  # fmt: skip
        return out.T


@njit(cache=True, nogil=True)
def _add_row_products(
    responses: NDArray[np.int8],
    columns: NDArray[np.int64],
    learners: NDArray[np.int64],
    channels: NDArray[np.int64],
    coefficients: NDArray[np.float64],
    parts: NDArray[np.int64],
    values: NDArray[np.float64],
    owners: NDArray[np.int64],
    indptr: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """``out[column, owner] += coefficient * value * response`` over terms and entries."""
    for t in range(len(columns)):
        response = responses[learners[t]]
        row = out[columns[t]]
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            row[owners[e]] += coefficients[t] * values[e] * response[parts[e]]
