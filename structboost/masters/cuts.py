"""Cuts as signed measures on (part, channel), columns as responses, and their products.

A cut is a measure V with a loss b, a column a response R; the matrix of every
hinge master is <V, R>.  Masters see that matrix only, tasks never see a master.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.row_blocks import BLOCK_ROWS
from structboost.task import Measure

Terms = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True)
class ChannelMeasure:
    """A sparse measure on the parts of one kind in a block of examples, its entries grouped by channel.

    Parameters
    ----------
    parts : ndarray of int32
        Rows of the whole stack.
    values : ndarray of float64
    indptr : ndarray of int64, shape (n_channels + 1,)
        Entries of channel c are ``indptr[c]:indptr[c + 1]``.
    """

    parts: NDArray[np.int32]
    values: NDArray[np.float64]
    indptr: NDArray[np.int64]


def group_by_channel(
    measure: Measure,
    n_channels: int,
    outputs: NDArray[np.int64] | None = None,
    weights: NDArray[np.float64] | None = None,
    first_row: int = 0,
) -> ChannelMeasure:
    """Entries of one block grouped by channel, in their order within a channel; zeros are left out.

    Parameters
    ----------
    measure : Measure
        Its parts count from ``first_row``.
    n_channels : int
    outputs : ndarray of int64, shape (n_outputs + 1,), optional
        Entries ``outputs[k]:outputs[k + 1]`` are those of output k; one output by default.
    weights : ndarray, shape (n_outputs,), optional
        What the values of each output are multiplied by; 1 by default.
    first_row : int
    """
    outputs = np.array([0, len(measure.parts)]) if outputs is None else outputs
    weights = np.ones(len(outputs) - 1) if weights is None else weights
    return ChannelMeasure(*_group_by_channel(*measure, outputs, weights, n_channels, first_row))


@dataclass(frozen=True)
class Cut:
    """A cut ``slack >= loss - <measure, scores>``.

    Parameters
    ----------
    loss : float
        Weighted mean of the losses of the outputs in the cut: b.
    measures : dict of str to sequence of ChannelMeasure
        The same mean of their differences of joint features, a measure for each block of examples: V.
    """

    loss: float
    measures: Mapping[str, Sequence[ChannelMeasure]]


@dataclass
class KindColumns:
    """Responses of the weak learners of one kind, and the terms of the columns made of them.

    A column is a sum of terms (learner, channel, coefficient); the terms of
    all columns stand in four parallel arrays.
    """

    n_parts: int
    n_channels: int
    responses: NDArray[Any] = field(init=False)
    n_learners: int = 0
    columns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    learners: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    channels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    coefficients: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.responses = np.empty((0, self.n_parts), np.int8)

    @property
    def terms(self) -> Terms:
        """Columns, learners, channels and coefficients of the terms."""
        return self.columns, self.learners, self.channels, self.coefficients

    def add_responses(self, new: NDArray[Any]) -> int:
        """Append learners; returns the number of the first."""
        first = self.n_learners
        needed = first + len(new)
        if new.dtype != self.responses.dtype and first == 0:
            self.responses = np.empty((0, self.n_parts), new.dtype)
        if needed > len(self.responses):
            grown = np.empty((max(needed, 2 * len(self.responses), 16), self.n_parts), self.responses.dtype)
            grown[:first] = self.responses[:first]
            self.responses = grown
        self.responses[first:needed] = new
        self.n_learners = needed
        return first

    def add_terms(self, terms: Terms) -> None:
        """Append terms of new columns."""
        self.columns = np.concatenate((self.columns, terms[0]))
        self.learners = np.concatenate((self.learners, terms[1]))
        self.channels = np.concatenate((self.channels, terms[2]))
        self.coefficients = np.concatenate((self.coefficients, terms[3]))

    def scores(self, weights: NDArray[np.float64], first: int, last: int) -> NDArray[np.float64]:
        """Scores of the parts ``first <= p < last``, shape (last - first, n_channels), for the column weights."""
        out = np.zeros((self.n_channels, last - first))
        add_scores(self.responses[:, first:last], *self.terms, weights, out)
        return out.T

    def products(self, measure: ChannelMeasure, terms: Terms, out: NDArray[np.float64]) -> None:
        """Add <measure, response> of the columns in ``terms`` to ``out``."""
        add_products(self.responses, *terms, measure.parts, measure.values, measure.indptr, out)


@njit(cache=True, nogil=True)
def add_scores(
    responses: NDArray[Any],
    columns: NDArray[np.int64],
    learners: NDArray[np.int64],
    channels: NDArray[np.int64],
    coefficients: NDArray[np.float64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """``out[channel] += weight * coefficient * responses[learner]`` over all terms; out is (n_channels, n_parts)."""
    n_parts = out.shape[1]
    for start in range(0, n_parts, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, n_parts)
        for t in range(len(columns)):
            weight = weights[columns[t]] * coefficients[t]
            if weight != 0.0:
                response = responses[learners[t], start:stop]
                row = out[channels[t], start:stop]
                for p in range(len(row)):
                    row[p] += weight * response[p]


@njit(cache=True, nogil=True)
def add_products(
    responses: NDArray[Any],
    columns: NDArray[np.int64],
    learners: NDArray[np.int64],
    channels: NDArray[np.int64],
    coefficients: NDArray[np.float64],
    parts: NDArray[np.int32],
    values: NDArray[np.float64],
    indptr: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """``out[column] += coefficient * <measure on the channel, responses[learner]>`` over all terms."""
    for t in range(len(columns)):
        response = responses[learners[t]]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * response[parts[e]]
        out[columns[t]] += coefficients[t] * total


@njit(cache=True, nogil=True)
def add_measure(
    parts: NDArray[np.int32],
    values: NDArray[np.float64],
    indptr: NDArray[np.int64],
    weight: float,
    out: NDArray[np.float64],
) -> None:
    """``out[part, channel] += weight * value`` over the entries of a measure."""
    for c in range(len(indptr) - 1):
        for e in range(indptr[c], indptr[c + 1]):
            out[parts[e], c] += weight * values[e]


@njit(cache=True, nogil=True)
def _group_by_channel(
    parts: NDArray[np.int64],
    channels: NDArray[np.int64],
    values: NDArray[np.float64],
    outputs: NDArray[np.int64],
    weights: NDArray[np.float64],
    n_channels: int,
    first_row: int,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
    """Stable counting sort of the entries by channel, those of output k times ``weights[k]``."""
    indptr = np.zeros(n_channels + 1, np.int64)
    for k in range(len(weights)):
        if weights[k] != 0.0:
            for e in range(outputs[k], outputs[k + 1]):
                if values[e] != 0.0:
                    indptr[channels[e] + 1] += 1
    for c in range(n_channels):
        indptr[c + 1] += indptr[c]
    end = indptr[:-1].copy()
    grouped_parts = np.empty(indptr[-1], np.int32)
    grouped_values = np.empty(indptr[-1])
    for k in range(len(weights)):
        if weights[k] != 0.0:
            for e in range(outputs[k], outputs[k + 1]):
                if values[e] != 0.0:
                    at = end[channels[e]]
                    grouped_parts[at] = first_row + parts[e]
                    grouped_values[at] = weights[k] * values[e]
                    end[channels[e]] += 1
    return grouped_parts, grouped_values, indptr
