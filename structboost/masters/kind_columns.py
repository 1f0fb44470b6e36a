"""Columns of masters that have the training set at hand: answers of the learners, and the terms of the columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.row_blocks import BLOCK_ROWS

Terms = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


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
        """Scores of all parts, shape (n_parts, n_channels), for the column weights."""
        out = np.zeros((self.n_channels, self.n_parts))
        add_scores(self.responses, *self.terms, weights, out)
        return out.T


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
