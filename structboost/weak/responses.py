"""Answers of the weak learners on the rows of a shard, and the two sums that a master needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled
from structboost.runtime.growable_matrix import GrowingMatrix
from structboost.weak.binning import BinnedFeatures
from structboost.weak.block_measures import BlockMeasure, entry_values
from structboost.weak.linear_function import FunctionCodes
from structboost.weak.stump import StumpCodes
from structboost.weak.terms import Terms
from structboost.weak.union import UnionCodes, places

# Sums may be taken in any order, which lets them be vectorised.
_FASTMATH = {"reassoc", "nsz"}


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
    """Stumps are looked up in the codes of their features: nothing is kept for a learner."""

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


class FunctionResponses(Responses):
    """Linear functions of standardised features: nothing is kept for a learner but itself.

    Parameters
    ----------
    features : ndarray, shape (n_rows, width)
    """

    def __init__(self, features: FloatArray) -> None:
        self.features = features
        self._functions = GrowingMatrix(features.shape[1], np.float64)

    def add(self, new: FunctionCodes) -> int:
        """Append functions; returns the number of the first."""
        return self._functions.append(new.coefficients)

    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        """By one linear function for each channel."""
        if len(terms.learners):
            weights = np.zeros((len(out), self.features.shape[1]))
            functions = self._functions.rows[terms.learners] * terms.coefficients[:, None]
            np.add.at(weights, terms.channels, functions)
            out += weights @ self.features[first : first + out.shape[1]].T

    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """By the sums of the features under the measure on each channel."""
        if len(terms.learners):
            n_channels, width = len(measure.indptr) - 1, self.features.shape[1]
            sums = np.zeros((n_channels, width))
            _add_measured_rows(self.features, *measure, first, sums)
            out += np.einsum("tf,tf->t", self._functions.rows[terms.learners], sums[terms.channels])


class UnionResponses(Responses):
    """Learners of several families, each asked by its own.

    Parameters
    ----------
    members : sequence of Responses
    """

    def __init__(self, members: Sequence[Responses]) -> None:
        self._members = members
        self._member, self._place = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, new: UnionCodes) -> int:
        """Append learners; returns the number of the first."""
        first = len(self._member)
        starts = np.array([of.add(own) for of, own in zip(self._members, new.parts, strict=True)])
        self._member = np.concatenate((self._member, new.member))
        self._place = np.concatenate((self._place, starts[new.member] + places(new.member)))
        return first

    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        """One member after the other."""
        for of, _, own in self._of_members(terms):
            of.add_scores(own, first, out)

    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """One member after the other."""
        for of, at, own in self._of_members(terms):
            found = np.zeros(len(at))
            of.add_products(own, measure, first, found)
            out[at] += found

    def _of_members(self, terms: Terms) -> Iterator[tuple[Responses, IntArray, Terms]]:
        """Each member, the places of its terms, and these terms with its own numbers."""
        member = self._member[terms.learners]
        for i, of in enumerate(self._members):
            at = np.flatnonzero(member == i)
            own = terms.take(at)
            yield of, at, own._replace(learners=self._place[own.learners])


class StoredResponses(Responses):
    """Answers of any learners, kept as a matrix."""

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

    def edges(self, terms: Terms, duals: FloatArray) -> FloatArray:
        """``<duals on the channel, answers>`` of each term; duals of shape (n_channels, n_rows)."""
        out = np.empty(len(terms.learners))
        _stored_edges(self.rows, terms.learners, terms.channels, duals, out)
        return out


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
    # Looked up by the comparison: a branch that cannot be foretold takes four times as long.
    answers = np.empty(2)
    for t in range(len(learners)):
        k = learners[t]
        code = codes[feature[k], first:]
        answers[0], answers[1], last = right[k], left[k], bin_[k]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * answers[np.int64(np.int64(code[parts[e]]) <= last)]
        out[t] += total


@compiled
def _add_measured_rows(
    features: FloatArray,
    parts: NDArray[np.uint16],
    codes: NDArray[np.uint8],
    levels: FloatArray,
    indptr: IntArray,
    first: int,
    out: FloatArray,
) -> None:
    values = entry_values(codes, levels)
    for c in range(len(out)):
        for e in range(indptr[c], indptr[c + 1]):
            row = first + parts[e]
            for f in range(features.shape[1]):
                out[c, f] += values[e] * features[row, f]


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


@compiled(fastmath=_FASTMATH)
def _stored_edges(
    responses: NDArray[Any],
    learners: IntArray,
    channels: IntArray,
    duals: FloatArray,
    out: FloatArray,
) -> None:
    for j in range(len(learners)):
        response = responses[learners[j]]
        row = duals[channels[j]]
        total = 0.0
        for i in range(len(row)):
            total += row[i] * response[i]
        out[j] = total
