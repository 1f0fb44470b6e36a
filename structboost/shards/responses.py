"""Answers of the weak learners on the rows of a shard, and the two sums that a master needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.columns import Terms
from structboost.runtime.compiled import compiled
from structboost.runtime.growing import GrowingMatrix
from structboost.shards.measures import BlockMeasure, entry_values
from structboost.weak.binning import BinnedFeatures
from structboost.weak.stump import StumpCodes


class Responses(ABC):
    """Answers of all learners so far on the rows of one kind in a shard."""

    @abstractmethod
    def add(self, new: Any) -> int:
        """Append learners; returns the number of the first."""

    @abstractmethod
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        """``out[channel] += coefficient * answer`` over all terms, for rows from ``first`` on."""

    @abstractmethod
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """``out[t] += <measure on the channel, answers>`` of term t, for the block at ``first``."""


class StumpResponses(Responses):
    """Stumps are looked up in the codes of their features: nothing is kept for a learner.

    Parameters
    ----------
    binned : BinnedFeatures
    """

    def __init__(self, binned: BinnedFeatures) -> None:
        self.codes = binned.codes
        self.stumps = StumpCodes(
            np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
        )

    def add(self, new: StumpCodes) -> int:
        """Append stumps; returns the number of the first."""
        first = len(self.stumps.feature)
        self.stumps = StumpCodes(
            *(np.concatenate(pair) for pair in zip(self.stumps, new, strict=True))
        )
        return first

    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        """By a comparison of codes for each term."""
        _add_stump_scores(self.codes, *self.stumps, *terms[1:], first, out)

    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """By a look-up of codes for each entry and term."""
        _add_stump_products(
            self.codes, *self.stumps, terms.learners, terms.channels, *measure, first, out
        )


class StoredResponses(Responses):
    """Answers of any learners, kept as a matrix.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int) -> None:
        self._answers = GrowingMatrix(n_rows)

    @property
    def rows(self) -> NDArray[Any]:
        """The answers, shape (n_learners, n_rows)."""
        return self._answers.rows

    def add(self, new: NDArray[Any]) -> int:
        """Append answers, shape (n_new, n_rows); returns the number of the first."""
        return self._answers.append(new)

    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        """By one pass over the answers of each learner."""
        _add_stored_scores(self.rows, *terms[1:], first, out)

    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """By the answers at the entries."""
        _add_stored_products(self.rows, terms.learners, terms.channels, *measure, first, out)


@compiled
def _add_stump_scores(
    codes: NDArray[Any],
    feature: IntArray,
    bin_: IntArray,
    left: FloatArray,
    right: FloatArray,
    learners: IntArray,
    channels: IntArray,
    weights: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    n_rows = out.shape[1]
    for t in range(len(learners)):
        k = learners[t]
        row = out[channels[t]]
        at_left, at_right = weights[t] * left[k], weights[t] * right[k]
        if bin_[k] < 0:
            for p in range(n_rows):
                row[p] += at_right
        else:
            code = codes[feature[k], first : first + n_rows]
            for p in range(n_rows):
                row[p] += at_left if code[p] <= bin_[k] else at_right


@compiled
def _add_stump_products(
    codes: NDArray[Any],
    feature: IntArray,
    bin_: IntArray,
    left: FloatArray,
    right: FloatArray,
    learners: IntArray,
    channels: IntArray,
    parts: NDArray[np.uint16],
    value_codes: NDArray[np.uint8],
    levels: FloatArray,
    indptr: IntArray,
    first: int,
    out: FloatArray,
) -> None:
    values = entry_values(value_codes, levels)
    for t in range(len(learners)):
        k = learners[t]
        code = codes[feature[k], first:]
        at_left, at_right, last = left[k], right[k], bin_[k]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * (at_left if np.int64(code[parts[e]]) <= last else at_right)
        out[t] += total


@compiled
def _add_stored_scores(
    answers: NDArray[Any],
    learners: IntArray,
    channels: IntArray,
    weights: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    n_rows = out.shape[1]
    for t in range(len(learners)):
        row = out[channels[t]]
        answer = answers[learners[t], first : first + n_rows]
        for p in range(n_rows):
            row[p] += weights[t] * answer[p]


@compiled
def _add_stored_products(
    answers: NDArray[Any],
    learners: IntArray,
    channels: IntArray,
    parts: NDArray[np.uint16],
    codes: NDArray[np.uint8],
    levels: FloatArray,
    indptr: IntArray,
    first: int,
    out: FloatArray,
) -> None:
    values = entry_values(codes, levels)
    for t in range(len(learners)):
        answer = answers[learners[t], first:]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * answer[parts[e]]
        out[t] += total
