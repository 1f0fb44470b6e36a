"""Margins of columns on pairs, for the exponential masters of MultiBoost.MO and .ECC.

A *pair* is an example with a code bit (MO: the margin is ``M(y_i, l) F_l(x_i)``) or with a wrong
output (ECC: ``F_{y_i}(x_i) - F_c(x_i)``).  Each is a signed measure on the channels of the
example's one part; the matrix of measures and columns, ``rho_{i,k}[h_j]`` of the paper, is kept
dense.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from structboost._typing import BoolArray, FloatArray, override
from structboost.learners.terms import KindTerms
from structboost.objectives.base import Formulation, Problem, SoftmaxLink
from structboost.objectives.master import WeightedColumns
from structboost.runtime.memory import GrowingMatrix
from structboost.validation import checked_choice

Pairs = Literal["bits", "outputs"]

# Scores minimise ``E sum over wrong y' of exp(F_y' - F_y)`` at these probabilities.  The derivative
# by ``F_k`` is ``exp(F_k) sum_y P_y exp(-F_y) - P_k exp(-F_k) sum_y exp(F_y)``, which is zero for
# all k where ``P_k`` is proportional to ``exp(2 F_k)``.
PAIR_LINK = SoftmaxLink(sharpness=2.0)


@dataclass(frozen=True)
class PairFormulation(Formulation):
    """Exponential loss over pairs, of one of the types ``Pairs``."""

    pairs: Pairs = "outputs"

    @override
    def check(self) -> None:
        checked_choice(self.pairs, "pairs", Pairs)

    @property
    @override
    def link(self) -> SoftmaxLink | None:
        return PAIR_LINK if self.pairs == "outputs" else None


class PairColumns(WeightedColumns):
    """Pairs of all examples, and their margins on the columns so far.

    Subclasses call :meth:`_make_pairs` in ``__init__``.

    Attributes
    ----------
    pair_weights : ndarray, shape (n_pairs,)
        Number of examples times the example's weight, times the loss of the output.
    oracle_calls : int
        Steps taken.
    """

    def _make_pairs(self, problem: Problem, pairs: str) -> None:
        """Make the pairs of one of the types ``Pairs``, with codes of -1 and 1 if they are bits."""
        codes = problem.task.codes(problem.Y)
        self._n_examples = n = len(codes.labels)
        self._n_channels = codes.codes.shape[1]
        self._kind = problem.only_kind()
        code = codes.codes.astype(np.float64)
        words = code[codes.labels]
        if pairs == "bits":
            # Pair (i, l): the sign of the bit on channel l.
            signs = np.einsum("il,lk->ilk", words, np.eye(self._n_channels))
            weights = np.repeat(problem.example_weights[:, None] * n, self._n_channels, axis=1)
        else:
            signs = words[:, None, :] - code[None, :, :]
            weights = codes.losses[codes.labels] * problem.example_weights[:, None] * n
        mask = weights.ravel() > 0
        self._examples = np.repeat(np.arange(n), weights.shape[1])[mask]
        self._signs = signs.reshape(-1, self._n_channels)[mask]
        self.pair_weights = weights.ravel()[mask]
        self._responses = GrowingMatrix(n)
        self._margins = GrowingMatrix(len(self.pair_weights), np.float64)
        self._logs = np.log(self.pair_weights)
        self.risk = float(self.pair_weights.sum())

    @property
    @override
    def primal(self) -> float:
        return self.risk

    @property
    def matrix(self) -> FloatArray:
        """Margins, shape (n_columns, n_pairs)."""
        return self._margins.rows

    @override
    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        return self._responses.append(responses)

    @override
    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        rows = np.zeros((n_new, len(self.pair_weights)))
        for column, learner, channel, coefficient in zip(*terms[self._kind], strict=True):
            response = self._responses.rows[learner].astype(np.float64)
            rows[column] += coefficient * self._signs[:, channel] * response[self._examples]
        self._margins.append(rows)
        super().add_columns(terms, n_new)

    @override
    def keep_columns(self, mask: BoolArray) -> None:
        self._margins.keep(mask)
        super().keep_columns(mask)

    def duals_of(self, pair_weights: FloatArray) -> dict[str, FloatArray]:
        """Signed weights of all (part, channel) from the weights of the pairs."""
        out = np.zeros((self._n_examples, self._n_channels))
        np.add.at(out, self._examples, pair_weights[:, None] * self._signs)
        return {self._kind: out}
