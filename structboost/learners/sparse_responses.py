"""Responses that are 0 on most rows, in memory and time of the other rows only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray, override
from structboost.errors import TaskError
from structboost.learners.block_measures import BlockMeasure, entry_values
from structboost.learners.responses import Responses, StoredResponses
from structboost.learners.terms import Terms
from structboost.runtime.compiled import compiled


class SparseResponses(Responses):
    """Sparse responses of any learners, as a matrix in compressed rows.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._starts = np.zeros(1, np.int64)
        self._rows = np.zeros(0, np.int32)
        self._values = np.zeros(0)

    @classmethod
    def instead_of(cls, held: Responses) -> SparseResponses:
        """Return ``held``, or a store of sparse responses in place of an empty one.

        TaskError if ``held`` has dense responses: a family must always return one form.
        """
        if isinstance(held, SparseResponses):
            return held
        if not isinstance(held, StoredResponses) or len(held.rows):
            raise TaskError(
                "A family of weak learners gave arrays as responses, and then sparse ones; give "
                "one form always."
            )
        return cls(held.rows.shape[1])

    @override
    def add(self, new: sparse.csr_array) -> int:
        first = len(self._starts) - 1
        self._starts = np.concatenate((self._starts, new.indptr[1:] + self._starts[-1]))
        self._rows = np.concatenate((self._rows, new.indices.astype(np.int32, copy=False)))
        self._values = np.concatenate((self._values, new.data.astype(np.float64)))
        return first

    @override
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        _add_sparse_scores(self._starts, self._rows, self._values, *terms[1:], first, out)

    @override
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        n_rows = int(measure.parts.max(initial=0)) + 1
        _add_sparse_products(
            (self._starts, self._rows, self._values), terms.learners, terms.channels, (*measure,),
            first, np.argsort(terms.channels, kind="stable"), np.zeros(n_rows), out,
        )  # fmt: skip

    def edges(self, terms: Terms, duals: FloatArray) -> FloatArray:
        """Edges of the terms for duals of shape (n_channels, n_rows)."""
        out = np.zeros(len(terms.learners))
        _sparse_edges(
            self._starts, self._rows, self._values, terms.learners, terms.channels, duals, out
        )
        return out


@compiled
def _add_sparse_scores(
    starts: IntArray,
    rows: NDArray[np.int32],
    values: FloatArray,
    learners: IntArray,
    channels: IntArray,
    weights: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    end = first + out.shape[1]
    for t in range(len(learners)):
        k = learners[t]
        of_channel = out[channels[t]]
        e = _first_from(rows, starts[k], starts[k + 1], first)
        while e < starts[k + 1] and rows[e] < end:
            of_channel[rows[e] - first] += weights[t] * values[e]
            e += 1


@compiled
def _add_sparse_products(
    stored: tuple[IntArray, NDArray[np.int32], FloatArray],
    learners: IntArray,
    channels: IntArray,
    measure: tuple[NDArray[np.uint16], NDArray[np.uint8], FloatArray, IntArray],
    first: int,
    order: IntArray,
    by_row: FloatArray,
    out: FloatArray,
) -> None:
    starts, rows, values = stored
    parts, codes, levels, indptr = measure
    measured = entry_values(codes, levels)
    end = first + len(by_row)
    t = 0
    while t < len(order):
        channel = channels[order[t]]
        for e in range(indptr[channel], indptr[channel + 1]):
            by_row[parts[e]] += measured[e]
        while t < len(order) and channels[order[t]] == channel:
            k = learners[order[t]]
            total = 0.0
            e = _first_from(rows, starts[k], starts[k + 1], first)
            while e < starts[k + 1] and rows[e] < end:
                total += values[e] * by_row[rows[e] - first]
                e += 1
            out[order[t]] += total
            t += 1
        for e in range(indptr[channel], indptr[channel + 1]):
            by_row[parts[e]] = 0.0


@compiled
def _sparse_edges(
    starts: IntArray,
    rows: NDArray[np.int32],
    values: FloatArray,
    learners: IntArray,
    channels: IntArray,
    duals: FloatArray,
    out: FloatArray,
) -> None:
    for t in range(len(learners)):
        k = learners[t]
        of_channel = duals[channels[t]]
        total = 0.0
        for e in range(starts[k], starts[k + 1]):
            total += values[e] * of_channel[rows[e]]
        out[t] = total


@compiled
def _first_from(rows: NDArray[np.int32], start: int, stop: int, first: int) -> int:
    """Entry ``start <= e < stop`` of the first row from ``first`` on, or ``stop``."""
    while start < stop:
        middle = (start + stop) // 2
        if rows[middle] < first:
            start = middle + 1
        else:
            stop = middle
    return start
