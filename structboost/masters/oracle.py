"""From weights to cuts: the one place where a hinge master meets the training set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.masters.cuts import (
    ChannelMeasure,
    Cut,
    KindColumns,
    Terms,
    add_measure,
    group_by_channel,
)
from structboost.row_blocks import example_blocks
from structboost.task import Measure, Separation, StackedParts


@dataclass(frozen=True)
class SlackCuts:
    """Violated outputs, each for a slack of its own (m-slack form)."""

    losses: NDArray[np.float64]
    slacks: NDArray[np.int64]
    costs: NDArray[np.float64]
    violations: NDArray[np.float64]
    differences: Mapping[str, Measure]
    indptr: Mapping[str, NDArray[np.int64]]


class HingeOracle:
    """Cuts of the regularised risk ``sum(w) + C * risk(w)`` over the columns so far.

    Parameters
    ----------
    separate : callable
        ``separate(first, last, scores) -> Separation`` of the examples ``first <= i < last`` (1-slack form).
    separate_slacks : callable
        ``separate_slacks(scores, limit) -> Separation`` (m-slack form).
    offsets : dict of str to ndarray
        First row of each example, by kind (:class:`structboost.task.StackedParts`).
    n_channels : dict of str to int
    example_weights : ndarray, shape (n_examples,)
        Share of each example in the risk; they sum to 1.
    """

    def __init__(
        self,
        separate: Callable[[int, int, StackedParts], Separation],
        separate_slacks: Callable[[StackedParts, int], Separation],
        offsets: Mapping[str, NDArray[np.int64]],
        n_channels: Mapping[str, int],
        example_weights: NDArray[np.float64],
    ) -> None:
        self._separate = separate
        self._separate_slacks = separate_slacks
        self._offsets = offsets
        self._blocks = example_blocks(offsets)
        self.example_weights = example_weights
        self.columns = {kind: KindColumns(int(offsets[kind][-1]), width) for kind, width in n_channels.items()}
        self.n_columns = 0
        self.calls = 0

    def scores(self, weights: NDArray[np.float64]) -> StackedParts:
        """Scores of all training parts under the column weights."""
        return self._scores(weights, 0, len(self.example_weights))

    def cut_at(self, weights: NDArray[np.float64]) -> tuple[Cut, NDArray[np.float64], float]:
        """Cut of the risk at ``weights``, its products with the columns, and the risk itself.

        One example counts only where its output is violated: lines 6-9 of Algorithm 2.
        """
        self.calls += 1
        loss = risk = 0.0
        measures: dict[str, list[ChannelMeasure]] = {kind: [] for kind in self.columns}
        for first, last in pairwise(self._blocks.tolist()):
            scores = self._scores(weights, first, last)
            found = self._separate(first, last, scores)
            violations = _violations(found, scores)
            share = np.where(violations > 0, self.example_weights[first:last], 0.0)
            loss += float(share @ found.losses)
            risk += float(share @ np.maximum(violations, 0.0))
            for kind, difference in found.differences.items():
                first_row, n_channels = int(self._offsets[kind][first]), self.columns[kind].n_channels
                measures[kind].append(group_by_channel(difference, n_channels, found.indptr[kind], share, first_row))
        cut = Cut(loss, measures)
        return cut, self.products([cut])[0], risk

    def slack_cuts_at(self, weights: NDArray[np.float64], limit: int) -> tuple[SlackCuts, float]:
        """Violated outputs slack by slack, and the risk (by the 1-slack form, Theorem 2.1)."""
        self.calls += 1
        risk = 0.0
        for first, last in pairwise(self._blocks.tolist()):
            scores = self._scores(weights, first, last)
            violations = _violations(self._separate(first, last, scores), scores)
            risk += float(self.example_weights[first:last] @ np.maximum(violations, 0.0))
        scores = self.scores(weights)
        found = self._separate_slacks(scores, limit)
        slacks = np.arange(len(found.losses)) if found.slacks is None else found.slacks
        costs = self.example_weights if found.weights is None else found.weights
        cuts = SlackCuts(found.losses, slacks, costs, _violations(found, scores), found.differences, found.indptr)
        return cuts, risk

    def products(
        self, cuts: Sequence[Cut], terms: Mapping[str, Terms] | None = None, n_columns: int | None = None
    ) -> NDArray[np.float64]:
        """Matrix <V, R> of the cuts with all columns, or with the ``n_columns`` that ``terms`` make."""
        out = np.zeros((len(cuts), self.n_columns if n_columns is None else n_columns))
        for row, cut in zip(out, cuts, strict=True):
            for kind, columns in self.columns.items():
                of_kind = columns.terms if terms is None else terms.get(kind)
                if of_kind is not None:
                    for measure in cut.measures[kind]:
                        columns.products(measure, of_kind, row)
        return out

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns; ``terms`` number them from 0."""
        for kind, (columns, learners, channels, coefficients) in terms.items():
            self.columns[kind].add_terms((columns + self.n_columns, learners, channels, coefficients))
        self.n_columns += n_new

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept`` and renumber the others."""
        number = np.cumsum(kept) - 1
        for columns in self.columns.values():
            mask = kept[columns.columns]
            columns.columns = number[columns.columns[mask]].astype(np.int64)
            columns.learners = columns.learners[mask]
            columns.channels = columns.channels[mask]
            columns.coefficients = columns.coefficients[mask]
        self.n_columns = int(kept.sum())

    def combine(self, cuts: Sequence[Cut], multipliers: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Signed weight of every (part, channel): the sum of multiplier times measure (mu of (11))."""
        duals = {kind: np.zeros((c.n_parts, c.n_channels)) for kind, c in self.columns.items()}
        weighted = [(cut, float(weight)) for cut, weight in zip(cuts, multipliers, strict=True) if weight > 0]
        for kind, out in duals.items():
            for block in range(len(self._blocks) - 1):
                for cut, weight in weighted:
                    measure = cut.measures[kind][block]
                    add_measure(measure.parts, measure.values, measure.indptr, weight, out)
        return duals

    def _scores(self, weights: NDArray[np.float64], first: int, last: int) -> StackedParts:
        """Scores of the parts of the examples ``first <= i < last``."""
        rows, offsets = {}, {}
        for kind, columns in self.columns.items():
            own = self._offsets[kind][first : last + 1]
            rows[kind] = columns.scores(weights, int(own[0]), int(own[-1]))
            offsets[kind] = own - own[0]
        return StackedParts(rows, offsets)


def _violations(found: Separation, scores: StackedParts) -> NDArray[np.float64]:
    """``loss - <difference, scores>`` of every output."""
    out = found.losses.astype(np.float64, copy=True)
    for kind, difference in found.differences.items():
        _subtract_products(
            difference.parts, difference.channels, difference.values, found.indptr[kind],
            scores.rows[kind], out,
        )  # fmt: skip
    return out


@njit(cache=True, nogil=True)
def _subtract_products(
    parts: NDArray[np.int64],
    channels: NDArray[np.int64],
    values: NDArray[np.float64],
    indptr: NDArray[np.int64],
    scores: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    for k in range(len(out)):
        total = 0.0
        for e in range(indptr[k], indptr[k + 1]):
            total += values[e] * scores[parts[e], channels[e]]
        out[k] -= total
