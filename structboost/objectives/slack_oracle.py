"""Violated outputs of the training set, slack by slack, for the m-slack master."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.calls import separation, separation_of, slack_separation
from structboost.contract.exactness import probe_argmax
from structboost.contract.parts import StackedParts
from structboost.contract.separation import Separation
from structboost.errors import TaskError
from structboost.learners.responses import StoredResponses
from structboost.objectives.base import Problem
from structboost.objectives.cut_oracle import ColumnOracle
from structboost.runtime.interrupts import raise_if_interrupted


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
        if problem.task.defines("separate_slacks"):
            separated = slack_separation(problem.task, problem.X, problem.Y, scores, limit)
            violations = separated.violations(scores)
        slacks = np.arange(len(separated.losses)) if separated.slacks is None else separated.slacks
        return replace(separated, slacks=slacks, weights=self._costs(separated)), violations, risk

    @property
    def takes_some(self) -> bool:
        """Whether a search on some examples costs less than on all, as one by one."""
        return not self._problem.task.defines("separate")

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
        separated = self._separation(scores, examples)
        violations = separated.violations(scores)
        risk = float(self.example_weights @ np.maximum(violations, 0.0))
        return separated, violations, risk, scores

    def _separation(self, scores: StackedParts, examples: IntArray | None) -> Separation:
        """Find the outputs at these scores, and count the pass."""
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
        return separated

    def _costs(self, separated: Separation) -> FloatArray:
        if separated.slacks is None:
            return self.example_weights
        n = len(self.example_weights)
        weights = (
            np.full(len(separated.losses), 1.0 / n)
            if separated.weights is None
            else separated.weights
        )
        # A quotient of equals is exactly 1: equal weights change nothing.
        factors = self.example_weights / (1.0 / n)
        if separated.examples is not None:
            return np.asarray(weights * factors[separated.examples])
        if (factors == factors[0]).all():
            return weights
        raise TaskError(
            f"{type(self._problem.task).__name__}.separate_slacks numbers its slacks without their "
            "examples, which sample_weight needs; set Separation.examples, or use "
            "formulation='one_slack'."
        )

    @override
    def add_responses(self, kind: str, responses: NDArray[Any]) -> int:
        return self.responses[kind].add(responses)
