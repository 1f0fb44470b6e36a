"""Violated outputs slack by slack: where the m-slack master meets the training set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.masters.kind_columns import KindColumns, Terms
from structboost.shards.shard import violations
from structboost.task import Measure, StackedParts, Task


@dataclass(frozen=True)
class SlackCuts:
    """Violated outputs, each for a slack of its own (m-slack form)."""

    losses: NDArray[np.float64]
    slacks: NDArray[np.int64]
    costs: NDArray[np.float64]
    violations: NDArray[np.float64]
    differences: Mapping[str, Measure]
    indptr: Mapping[str, NDArray[np.int64]]


class SlackOracle:
    """Violated outputs of all examples at the columns so far.

    Parameters
    ----------
    task : Task
    X, Y : sequence
    offsets : dict of str to ndarray
        First row of each example, by kind (:class:`structboost.task.StackedParts`).
    example_weights : ndarray, shape (n_examples,)
        Share of each example in the risk; they sum to 1.
    """

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        offsets: Mapping[str, NDArray[np.int64]],
        example_weights: NDArray[np.float64],
    ) -> None:
        self._task, self._X, self._Y, self._offsets = task, X, Y, offsets
        self.example_weights = example_weights
        self.columns = {
            kind: KindColumns(int(offsets[kind][-1]), of_kind.n_channels) for kind, of_kind in task.kinds.items()
        }
        self.n_columns = 0
        self.calls = 0

    def slack_cuts_at(self, weights: NDArray[np.float64], limit: int) -> tuple[SlackCuts, float]:
        """Violated outputs slack by slack, and the risk (by the 1-slack form, Theorem 2.1)."""
        self.calls += 1
        rows = {kind: columns.scores(weights) for kind, columns in self.columns.items()}
        scores = StackedParts(rows, self._offsets)
        violation = violations(self._task.separate(self._X, self._Y, scores), scores)
        risk = float(self.example_weights @ np.maximum(violation, 0.0))
        found = self._task.separate_slacks(self._X, self._Y, scores, limit)
        slacks = np.arange(len(found.losses)) if found.slacks is None else found.slacks
        costs = self.example_weights if found.weights is None else found.weights
        cuts = SlackCuts(found.losses, slacks, costs, violations(found, scores), found.differences, found.indptr)
        return cuts, risk

    def add_responses(self, kind: str, responses: NDArray[Any]) -> int:
        """Append learners of a kind by their answers; returns the number of the first."""
        return self.columns[kind].add_responses(responses)

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
