"""Linear chain whose transitions depend on features, trained by dual coordinate ascent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.parts import StackedParts
from structboost.linear.chain_passes import add_sums, dual_pass_of_steps, space_of_steps
from structboost.linear.dual_chain import DualChain
from structboost.linear.same_columns import SameColumns


class DualStepChain(DualChain):
    """Solver of the dual of the likelihood of a chain with features of the steps.

    The dual distributions are stored by their probabilities of pairs of tags at each step.  The
    arguments are those of :class:`.StepChain`, without an l1 norm.
    """

    def __init__(
        self,
        task: Any,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        **settings: Any,
    ) -> None:
        super().__init__(task, X, Y, example_weights, **settings)
        values, first_steps = self._steps[2], self._steps[5]
        n_steps = int(first_steps[-1])
        starts, tags, _, _ = self._sequences
        self._space = space_of_steps(starts, task.n_tags)
        tokens = np.arange(n_steps) + np.repeat(
            starts[:-1] - first_steps[:-1], np.diff(first_steps)
        )
        self._true_pairs = tags[tokens] * task.n_tags + tags[tokens + 1]
        of_pairs = np.zeros((n_steps, task.n_tags**2))
        of_pairs[np.arange(n_steps), self._true_pairs] = 1.0
        self._duals = (self._duals[0], of_pairs, *self._duals[2:])
        self._transitions = np.zeros((len(values), task.n_tags**2))
        self._slopes = self._weights, self._transitions
        self._best = self._weights, self._transitions

    @override
    def _store_steps(self, stack: StackedParts) -> None:
        rows = stack.rows["step"]
        self._columns_of_steps = SameColumns(rows, self.designs["step"].width - 1)
        values = np.append(self._columns_of_steps.values, 1.0)
        none = np.zeros((len(rows), 0)), np.zeros(len(rows))
        self._steps = (*self._columns_of_steps.entries, values, *none, stack.offsets["step"])

    @override
    def _rows_of_pairs(self, rows: IntArray) -> IntArray:
        first_steps = self._steps[5]
        sizes = np.diff(first_steps)[rows]
        first = np.repeat(first_steps[rows] - (np.cumsum(sizes) - sizes), sizes)
        return np.asarray(first + np.arange(len(first)))

    @override
    def _set_slopes_of_pairs(self) -> None:
        of_steps = np.repeat(self._sequences[2], np.diff(self._steps[5]))
        change = -of_steps[:, None] * self._duals[1]
        change[np.arange(len(change)), self._true_pairs] += of_steps
        self._transitions[:] = 0.0
        add_sums(self._steps[:5], change, self._transitions)
        self._transitions[-1] = change.sum(axis=0)

    @override
    def _pass(self, order: IntArray, slopes: Any, *, moves: bool) -> float:
        return dual_pass_of_steps(
            self._tokens, self._steps, self._sequences, self._penalties, order, self._weights,
            self._transitions, self._duals, moves, self._space,
        )  # fmt: skip

    @override
    def _weights_of_steps(self, transitions: FloatArray) -> FloatArray:
        columns = self._columns_of_steps
        return np.vstack((columns.spread(transitions[: len(columns.values)]), transitions[-1:]))
