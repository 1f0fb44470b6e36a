"""Violated outputs slack by slack: where the m-slack master meets the training set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.columns import Terms, TermsByKind
from structboost.exceptions import TaskError
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.shards.responses import StoredResponses
from structboost.task import KeptTruth, Measure, Separation, StackedParts, Task
from structboost.task_calls import separation, slack_separation


@dataclass(frozen=True)
class SlackCuts:
    """Violated outputs, each for a slack of its own (m-slack form)."""

    losses: FloatArray
    slacks: IntArray
    costs: FloatArray
    violations: FloatArray
    differences: Mapping[str, Measure]
    indptr: Mapping[str, IntArray]


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
        offsets: Mapping[str, IntArray],
        example_weights: FloatArray,
    ) -> None:
        self._task, self._X, self._Y, self._offsets = task, X, Y, offsets
        self.example_weights = example_weights
        self.n_channels = {kind: of_kind.n_channels for kind, of_kind in task.kinds.items()}
        self.answers = {kind: StoredResponses(int(offsets[kind][-1])) for kind in task.kinds}
        self.columns = TermsByKind(task.kinds)
        self._truth = KeptTruth()
        self.calls = 0

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.columns.n_columns

    def slack_cuts_at(self, weights: FloatArray, limit: int) -> tuple[SlackCuts, float]:
        """Violated outputs slack by slack, and the risk (by the 1-slack form, Theorem 2.1)."""
        raise_if_interrupted()
        self.calls += 1
        rows = {}
        for kind, terms in self.columns.weighted(weights).items():
            out = np.zeros((self.n_channels[kind], int(self._offsets[kind][-1])))
            self.answers[kind].add_scores(terms, 0, out)
            rows[kind] = out.T
        scores = StackedParts(rows, self._offsets)
        found = separation(self._task, self._X, self._Y, scores, truth=self._truth)
        violation = found.violations(scores)
        risk = float(self.example_weights @ np.maximum(violation, 0.0))
        found = slack_separation(self._task, self._X, self._Y, scores, limit)
        slacks = np.arange(len(found.losses)) if found.slacks is None else found.slacks
        cuts = SlackCuts(
            found.losses,
            slacks,
            self._costs(found),
            found.violations(scores),
            found.differences,
            found.indptr,
        )
        return cuts, risk

    def _costs(self, found: Separation) -> FloatArray:
        """Share of each slack in the risk.

        Raises
        ------
        TaskError
            If it is not known whose slacks they are, and examples differ in weight.
        """
        if found.slacks is None:
            return self.example_weights
        n = len(self.example_weights)
        weights = np.full(len(found.losses), 1.0 / n) if found.weights is None else found.weights
        # A quotient of equals is exactly 1: equal weights change nothing.
        factors = self.example_weights / (1.0 / n)
        if found.examples is not None:
            return np.asarray(weights * factors[found.examples])
        if (factors == factors[0]).all():
            return weights
        raise TaskError(
            f"{type(self._task).__name__}.separate_slacks numbers its slacks without their "
            "examples, which sample_weight needs; set Separation.examples, or use "
            "formulation='one_slack'."
        )

    def add_responses(self, kind: str, responses: NDArray[Any]) -> int:
        """Append learners of a kind by their answers; returns the number of the first."""
        return self.answers[kind].add(responses)

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns; ``terms`` number them from 0."""
        self.columns.add(terms, n_new)

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept`` and renumber the others."""
        self.columns.keep(kept)
