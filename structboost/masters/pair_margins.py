"""Margins of columns on pairs, for the exponential masters of MultiBoost.MO and .ECC.

A *pair* is an example with a code bit (MO: the margin is ``M(y_i, l) F_l(x_i)``) or with a wrong
output (ECC: ``F_{y_i}(x_i) - F_c(x_i)``).  Each is a signed measure on the channels of the
example's one part; the matrix of measures and columns, ``rho_{i,k}[h_j]`` of the paper, is kept
dense.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from structboost._typing import FloatArray
from structboost.columns import Terms
from structboost.masters.base import RestrictedMaster
from structboost.runtime.growing import GrowingMatrix
from structboost.task import OutputCodes

PAIRS = ("bits", "outputs")


def pair_probabilities(scores: FloatArray) -> FloatArray:
    """Probabilities at which scores minimise ``E sum over wrong y' of exp(F_y' - F_y)``.

    The derivative by ``F_k`` is ``exp(F_k) sum_y P_y exp(-F_y) - P_k exp(-F_k) sum_y exp(F_y)``,
    which is zero for all k where ``P_k`` is proportional to ``exp(2 F_k)``.
    """
    return np.asarray(softmax(2.0 * scores, axis=1))


class PairMargins:
    """Pairs of all examples, and their margins on the columns so far.

    Parameters
    ----------
    codes : OutputCodes
        Of -1 and 1 where the pairs are bits.
    kind : str
        The kind of the parts, one part an example.
    example_weights : ndarray, shape (n_examples,)
        They sum to 1.
    pairs : {"bits", "outputs"}

    Attributes
    ----------
    weights : ndarray, shape (n_pairs,)
        Number of examples times the example's weight, times the loss of the output.
    """

    def __init__(
        self, codes: OutputCodes, kind: str, example_weights: FloatArray, pairs: str
    ) -> None:
        n = len(codes.labels)
        self._kind = kind
        self._n_examples = n
        self._n_channels = codes.codes.shape[1]
        code = codes.codes.astype(np.float64)
        own = code[codes.labels]
        if pairs == "bits":
            # Pair (i, l): the sign of the bit on channel l.
            self._signs = np.einsum("il,lk->ilk", own, np.eye(self._n_channels))
            weights = np.repeat(example_weights[:, None] * n, self._n_channels, axis=1)
        else:
            self._signs = own[:, None, :] - code[None, :, :]
            weights = codes.losses[codes.labels] * example_weights[:, None] * n
        kept = weights.ravel() > 0
        self._examples = np.repeat(np.arange(n), weights.shape[1])[kept]
        self._signs = self._signs.reshape(-1, self._n_channels)[kept]
        self.weights = weights.ravel()[kept]
        self._answers = GrowingMatrix(n)
        self._margins = GrowingMatrix(len(self.weights), np.float64)

    @property
    def matrix(self) -> FloatArray:
        """Margins, shape (n_columns, n_pairs)."""
        return self._margins.rows

    def add_responses(self, responses: NDArray[np.generic]) -> int:
        """Append learners; returns the number of the first."""
        return self._answers.append(responses)

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns."""
        columns, learners, channels, coefficients = terms[self._kind]
        rows = np.zeros((n_new, len(self.weights)))
        for t in range(len(columns)):
            response = self._answers.rows[learners[t]].astype(np.float64)
            rows[columns[t]] += (
                coefficients[t] * self._signs[:, channels[t]] * response[self._examples]
            )
        self._margins.append(rows)

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``."""
        self._margins.keep(kept)

    def duals(self, pair_weights: FloatArray) -> dict[str, FloatArray]:
        """Signed weight of every (part, channel)."""
        signed = pair_weights[:, None] * self._signs
        out = np.zeros((self._n_examples, self._n_channels))
        np.add.at(out, self._examples, signed)
        return {self._kind: out}


class PairMaster(RestrictedMaster):
    """Masters of an exponential loss over pairs.

    Attributes
    ----------
    oracle_calls : int
        Steps taken.
    """

    # A code that was drawn once does not come again, and no weight of a stage-wise master is ever
    # taken back.
    drops_idle_columns = False

    def __init__(self, pairs: PairMargins, C: float) -> None:
        super().__init__(C)
        self._pairs = pairs
        self._calls = 0
        self._logs = np.log(pairs.weights)
        self.risk = float(pairs.weights.sum())

    @property
    def primal(self) -> float:
        """Sum over the pairs, (4) of MultiBoost.MO and .ECC."""
        return self.risk

    @property
    def oracle_calls(self) -> int:
        """Steps taken."""
        return self._calls

    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        """Append learners."""
        return self._pairs.add_responses(responses)

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero."""
        self._pairs.add_columns(terms, n_new)
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``."""
        self._pairs.keep_columns(kept)
        self.weights = self.weights[kept]
