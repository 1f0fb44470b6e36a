"""Cuts as signed measures on (part, channel), columns as responses, and their products.

A cut is a measure V with a loss b, a column a response R; the matrix of every
hinge master is <V, R>.  Masters see that matrix only, tasks never see a master.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.task import Measure

Terms = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True)
class ChannelMeasure:
    """A sparse measure on the parts of one kind, its entries grouped by channel.

    Parameters
    ----------
    parts : ndarray of int32
    values : ndarray of float64
    indptr : ndarray of int64, shape (n_channels + 1,)
        Entries of channel c are ``indptr[c]:indptr[c + 1]``.
    """

    parts: NDArray[np.int32]
    values: NDArray[np.float64]
    indptr: NDArray[np.int64]


def group_by_channel(measure: Measure, n_channels: int) -> ChannelMeasure:
    """Entries of ``measure`` grouped by channel, in their order within a channel."""
    return ChannelMeasure(*_group_by_channel(measure.parts, measure.channels, measure.values, n_channels))


@dataclass(frozen=True)
class Cut:
    """A cut ``slack >= loss - <measure, scores>``.

    Parameters
    ----------
    loss : float
        Weighted mean of the losses of the outputs in the cut: b.
    measures : dict of str to ChannelMeasure
        The same mean of their differences of joint features: V.
    """

    loss: float
    measures: Mapping[str, ChannelMeasure]


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

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of all parts, shape (n_parts, n_channels), for the column weights ``weights``."""
        out = np.zeros((self.n_channels, self.n_parts))
        add_scores(self.responses, *self.terms, weights, out)
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
    for t in range(len(columns)):
        weight = weights[columns[t]] * coefficients[t]
        if weight != 0.0:
            response = responses[learners[t]]
            row = out[channels[t]]
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
    n_channels: int,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
    """Stable counting sort of the entries by channel."""
    indptr = np.zeros(n_channels + 1, np.int64)
    for c in channels:
        indptr[c + 1] += 1
    for c in range(n_channels):
        indptr[c + 1] += indptr[c]
    end = indptr[:-1].copy()
    grouped_parts = np.empty(len(parts), np.int32)
    grouped_values = np.empty(len(parts))
    for e in range(len(parts)):
        at = end[channels[e]]
        grouped_parts[at] = parts[e]
        grouped_values[at] = values[e]
        end[channels[e]] += 1
    return grouped_parts, grouped_values, indptr
