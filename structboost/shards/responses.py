"""What the weak learners answer on the rows of a shard, and the two sums that a master asks of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.shards.measures import BlockMeasure, entry_values
from structboost.weak.binning import BinnedFeatures
from structboost.weak.stump import StumpCodes

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class LearnerTerms(NamedTuple):
    """Weak learners on channels, each with a weight."""

    learners: IntArray
    channels: IntArray
    weights: FloatArray


class Responses(ABC):
    """Answers of all learners so far on the rows of one kind in a shard."""

    @abstractmethod
    def add(self, new: Any) -> None:
        """Append learners."""

    @abstractmethod
    def add_scores(self, terms: LearnerTerms, first: int, out: FloatArray) -> None:
        """``out[channel] += weight * answer`` over all terms; out is (n_channels, n_rows) from row ``first`` on."""

    @abstractmethod
    def add_products(
        self, learners: IntArray, channels: IntArray, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """``out[t] += <measure on channel t, answers of learner t>``, the block beginning at row ``first``."""


class StumpResponses(Responses):
    """Stumps are looked up in the codes of their features: nothing is kept for a learner.

    Parameters
    ----------
    binned : BinnedFeatures
    """

    def __init__(self, binned: BinnedFeatures) -> None:
        self.codes = binned.codes
        self.stumps = StumpCodes(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    def add(self, new: StumpCodes) -> None:
        """Append stumps."""
        self.stumps = StumpCodes(*(np.concatenate(pair) for pair in zip(self.stumps, new, strict=True)))

    def add_scores(self, terms: LearnerTerms, first: int, out: FloatArray) -> None:
        """By a comparison of codes for each term."""
        _add_stump_scores(self.codes, *self.stumps, *terms, first, out)

    def add_products(
        self, learners: IntArray, channels: IntArray, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """By a look-up of codes for each entry and term."""
        _add_stump_products(self.codes, *self.stumps, learners, channels, measure, first, out)


class StoredResponses(Responses):
    """Answers of any learners, kept as a matrix.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int) -> None:
        self._n_learners = 0
        self._answers = np.empty((0, n_rows), np.int8)

    def add(self, new: NDArray[Any]) -> None:
        """Append answers, shape (n_new, n_rows)."""
        first = self._n_learners
        needed = first + len(new)
        if new.dtype != self._answers.dtype and first == 0:
            self._answers = self._answers.astype(new.dtype)
        if needed > len(self._answers):
            room = max(needed, 2 * len(self._answers), 16)
            grown = np.empty((room, self._answers.shape[1]), self._answers.dtype)
            grown[:first] = self._answers[:first]
            self._answers = grown
        self._answers[first:needed] = new
        self._n_learners = needed

    def add_scores(self, terms: LearnerTerms, first: int, out: FloatArray) -> None:
        """By one pass over the answers of each learner."""
        _add_stored_scores(self._answers, *terms, first, out)

    def add_products(
        self, learners: IntArray, channels: IntArray, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """By the answers at the entries."""
        _add_stored_products(self._answers, learners, channels, measure, first, out)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _add_stump_products(
    codes: NDArray[Any],
    feature: IntArray,
    bin_: IntArray,
    left: FloatArray,
    right: FloatArray,
    learners: IntArray,
    channels: IntArray,
    measure: BlockMeasure,
    first: int,
    out: FloatArray,
) -> None:
    parts, value_codes, levels, indptr = measure
    values = entry_values(value_codes, levels)
    for t in range(len(learners)):
        k = learners[t]
        code = codes[feature[k], first:]
        at_left, at_right, last = left[k], right[k], bin_[k]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * (at_left if np.int64(code[parts[e]]) <= last else at_right)
        out[t] += total


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _add_stored_products(
    answers: NDArray[Any],
    learners: IntArray,
    channels: IntArray,
    measure: BlockMeasure,
    first: int,
    out: FloatArray,
) -> None:
    parts, codes, levels, indptr = measure
    values = entry_values(codes, levels)
    for t in range(len(learners)):
        answer = answers[learners[t], first:]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * answer[parts[e]]
        out[t] += total
