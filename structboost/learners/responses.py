"""Responses of weak learners on the rows of a shard, and contract for computing them there.

With coefficients ``a_t`` of terms ``t``, each a learner ``h_t`` on a channel ``c_t``, rows ``p`` of
a block and a measure ``V`` on the block::

    scores[c, p] = sum over terms with c_t = c of a_t h_t(p)     Responses.add_scores
    products[t]  = sum over p of V[p, c_t] h_t(p)                Responses.add_products

Families whose features stay in shards also price there.  The family has ``shard_features``, which
each shard calls once, with its rows: :meth:`ShardFeatures.in_shard` makes a
:class:`ResponsesInShard`.  It gets what ``family.responses`` returned by :meth:`Responses.add`, and
:meth:`ResponsesInShard.sums` of the duals of the shard whenever the family calls
:meth:`DualsInShards.sums`, whose result is the sum over all shards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from structboost._typing import (
    AnyArray,
    ByteArray,
    FloatArray,
    IntArray,
    RowArray,
    ShortArray,
    override,
)
from structboost.contract.parts import SparseFeature
from structboost.errors import TaskError
from structboost.runtime.compiled import compiled
from structboost.runtime.memory import GrowingMatrix

if TYPE_CHECKING:
    from structboost.learners.binning import Thresholds
    from structboost.learners.terms import Terms

_MAX_LEVELS = 16


class BlockMeasure(NamedTuple):
    """Sparse measure on the parts of one kind in a block, with entries grouped by channel.

    Parameters
    ----------
    parts : ndarray of uint16
        Rows of the block.
    codes : ndarray of uint8
        Entry e has the value ``levels[codes[e]]``.  If values are few, as with examples of equal
        weight, an entry takes three bytes.  Else empty, and ``levels`` holds all values.
    levels : ndarray of float64
    indptr : ndarray of int64, shape (n_channels + 1,)
        Entries of channel c are ``indptr[c]:indptr[c + 1]``.
    """

    parts: RowArray
    codes: ByteArray
    levels: FloatArray
    indptr: IntArray


def block_measure(
    measure: SparseFeature, n_channels: int, outputs: IntArray, weights: FloatArray
) -> BlockMeasure:
    """Group the entries of one block by channel, in their order, without zeros.

    The parts of ``measure`` count from the first row of the block.  Entries ``outputs[k]:outputs[k
    + 1]`` are those of output k, whose values ``weights[k]`` multiplies.
    """
    # Python allocates, because numba compiles each kind of allocation anew.
    indptr = np.zeros(n_channels + 1, np.int64)
    _count_entries(measure.channels, measure.values, outputs, weights, indptr)
    parts, values = np.empty(indptr[-1], np.uint16), np.empty(indptr[-1])
    _group_by_channel(*measure, outputs, weights, indptr[:-1].copy(), parts, values)
    codes, levels = np.empty(len(values), np.uint8), np.full(_MAX_LEVELS, np.nan)
    n_levels = _find_levels(values, codes, levels)
    if n_levels < 0:
        return BlockMeasure(parts, codes[:0].copy(), values, indptr)
    return BlockMeasure(parts, codes, levels[:n_levels].copy(), indptr)


@compiled
def add_measure(
    parts: RowArray,
    codes: ByteArray,
    levels: FloatArray,
    indptr: IntArray,
    weight: float,
    out: FloatArray,
) -> None:
    """Add ``weight * value`` of the entries of a measure to ``out[part, channel]``."""
    values = entry_values(codes, levels)
    for c in range(len(indptr) - 1):
        for e in range(indptr[c], indptr[c + 1]):
            out[parts[e], c] += weight * values[e]


@compiled
def entry_values(codes: ByteArray, levels: FloatArray) -> FloatArray:
    """Values of all entries."""
    if len(codes) == 0:
        return levels
    values = np.empty(len(codes))
    for e in range(len(codes)):
        values[e] = levels[codes[e]]
    return values


@compiled
def _count_entries(
    channels: IntArray, values: FloatArray, outputs: IntArray, weights: FloatArray, indptr: IntArray
) -> None:
    """Add where the entries of each channel that are not 0 will begin to zeros."""
    for k in range(len(weights)):
        if weights[k] != 0.0:
            for e in range(outputs[k], outputs[k + 1]):
                if values[e] != 0.0:
                    indptr[channels[e] + 1] += 1
    for c in range(len(indptr) - 1):
        indptr[c + 1] += indptr[c]


@compiled
def _group_by_channel(
    parts: IntArray,
    channels: IntArray,
    values: FloatArray,
    outputs: IntArray,
    weights: FloatArray,
    end: IntArray,
    grouped_parts: RowArray,
    grouped_values: FloatArray,
) -> None:
    """Sort the entries by channel, and multiply those of output k by ``weights[k]``.

    ``end`` are the first places of the channels, which are moved.
    """
    for k in range(len(weights)):
        if weights[k] != 0.0:
            for e in range(outputs[k], outputs[k + 1]):
                if values[e] != 0.0:
                    at = end[channels[e]]
                    grouped_parts[at] = parts[e]
                    grouped_values[at] = weights[k] * values[e]
                    end[channels[e]] += 1


@compiled
def _find_levels(values: FloatArray, codes: ByteArray, levels: FloatArray) -> int:
    """Fill the code of each value and the distinct values, and return their number.

    It is -1 if they are too many.
    """
    n_levels = 0
    for e in range(len(values)):
        # Mostly two values take turns, in an order that no branch can foretell.
        at = 1 if values[e] == levels[1] else 0
        if levels[at] != values[e]:
            at = 0
            while at < n_levels and levels[at] != values[e]:
                at += 1
            if at == _MAX_LEVELS:
                return -1
            if at == n_levels:
                levels[at] = values[e]
                n_levels += 1
        codes[e] = at
    return n_levels


# Start of each row of a sparse matrix, with columns and values of the entries.
Stored = tuple[IntArray, ShortArray, FloatArray]
# Sums may be taken in any order, which lets them be vectorised.
_FASTMATH = {"reassoc", "nsz"}
# Rows whose scores of a channel are added up at a time: they stay in the first cache.
_ROWS = 1024


class Responses(ABC):
    """Responses of all learners so far on the rows of one kind in a shard."""

    @abstractmethod
    def add(self, new: Any) -> int:
        """Append learners.

        Parameters
        ----------
        new : object
            The return value of :meth:`structboost.learners.WeakLearnerFamily.responses`, or the
            part of it for these rows.  Of learners in shards it has a length, their number.

        Returns
        -------
        first : int
            Index of the first of them, from 0.
        """

    @abstractmethod
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        """``out[channel] += coefficient * response`` over all terms.

        Parameters
        ----------
        terms : Terms
            Learners are indices from :meth:`add`.
        first : int
            First row of the block.
        out : ndarray, shape (n_channels, n_rows_of_block)
            Added to.
        """

    @abstractmethod
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        """``out[t] += <measure on the channel, response>`` of term t.

        Parameters
        ----------
        terms : Terms
            Learners are indices from :meth:`add`.
        measure : BlockMeasure
            Its parts count from the first row of the block.
        first : int
            First row of the block.
        out : ndarray, shape (n_terms,)
            Added to.
        """


class FeaturesOfRows(Protocol):
    """Features of one kind in a shard."""

    def codes(self, bins: Thresholds) -> AnyArray:
        """Bins of the features, shape (n_columns, n_rows)."""

    def rows(self) -> AnyArray:
        """Features, shape (n_rows, n_features).

        Raises
        ------
        NotImplementedError
            If only their bins are stored (:class:`structboost.BinnedTable`).
        """


class ResponsesInShard(Responses):
    """Responses computed from the features of a shard, and sums of its duals for pricing.

    Results may depend on the rows of a block only, so that they are the same on every engine.

    Parameters
    ----------
    features : ndarray, shape (n_rows, width)
        Features as the shard stores them.
    starts : ndarray of int64, shape (n_blocks + 1,)
        First row of each block, from 0, and the number of rows.
    """

    def __init__(self, features: AnyArray, starts: IntArray) -> None:
        self.features = features
        self.starts = starts

    @abstractmethod
    def sums(self, duals: FloatArray, *arguments: Any) -> FloatArray:
        """Sum over all rows, along the tree of blocks.

        Parameters
        ----------
        duals : ndarray, shape (n_rows, n_channels)
            Signed weights of all rows.
        *arguments
            Plain data that the family passes to :meth:`DualsInShards.sums`.

        Returns
        -------
        sums : ndarray of float64
            Its shape depends on the arguments only.
        """

    def features_sum(self, first_row: int) -> int:
        """Hash of the features, additive over shards.

        Parameters
        ----------
        first_row : int
            Index of the first row among those of all shards.

        Returns
        -------
        hash : int
            At least 0, modulo 2^64.
        """
        total = 0
        for a, b in pairwise(self.starts.tolist()):
            block, key = np.ascontiguousarray(self.features[a:b]), str(first_row + a).encode()
            digest = blake2b(block.view(np.uint8).data, digest_size=8, key=key).digest()
            total += int.from_bytes(digest, "big")
        return total % (1 << 64)


class ShardFeatures(Protocol):
    """Plain data from which a worker makes the responses of a family in its shard.

    Attributes
    ----------
    identity : sequence of ndarray
        Arrays that identify the features of a run, together with their values.
    """

    @property
    def identity(self) -> Sequence[AnyArray]:
        """Arrays that are hashed for checkpoints."""

    def in_shard(self, features: FeaturesOfRows, starts: IntArray) -> ResponsesInShard:
        """Make an empty store of responses on the rows of a shard.

        Parameters
        ----------
        features : FeaturesOfRows
            Features of these rows.
        starts : ndarray of int64, shape (n_blocks + 1,)
            First row of each block, from 0, and the number of rows.
        """


class DualsInShards(Protocol):
    """Signed weights of all parts and channels, stored in the shards of the parts.

    Families with ``shard_features`` receive this object in place of an array.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of parts and of channels."""

    def sums(self, *arguments: Any) -> FloatArray:
        """Sum :meth:`ResponsesInShard.sums` over all shards, along the tree of blocks.

        Parameters
        ----------
        *arguments
            Plain data to pass to :meth:`ResponsesInShard.sums`.
        """

    def gathered(self) -> FloatArray:
        """Gather the weights, shape (n_parts, n_channels)."""


class StoredResponses(Responses):
    """Responses of any learners, stored as a matrix."""

    def __init__(self, n_rows: int) -> None:
        self._responses = GrowingMatrix(n_rows)

    @property
    def rows(self) -> AnyArray:
        """Responses, shape (n_learners, n_rows)."""
        return self._responses.rows

    @override
    def add(self, new: AnyArray) -> int:
        return self._responses.append(new)

    @override
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        _add_stored_scores(self.rows, *terms[1:], first, out)

    @override
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        _add_stored_products(self.rows, terms.learners, terms.channels, *measure, first, out)

    def edges(self, terms: Terms, duals: FloatArray) -> FloatArray:
        """Edges ``<duals, response>`` of the terms, for duals of shape (n_channels, n_rows)."""
        out = np.empty(len(terms.learners))
        _stored_edges(self.rows, terms.learners, terms.channels, duals, out)
        return out


class SparseResponses(Responses):
    """Sparse responses of any learners, as a matrix in compressed rows.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._stored = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0)

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
        starts, rows, values = self._stored
        self._stored = (
            np.append(starts, new.indptr[1:] + starts[-1]),
            np.append(rows, new.indices.astype(np.int32, copy=False)),
            np.append(values, new.data.astype(np.float64)),
        )
        return len(starts) - 1

    @override
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        _add_sparse_scores(self._stored, *terms[1:], first, out)

    @override
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        n_rows = int(measure.parts.max(initial=0)) + 1
        _add_sparse_products(
            self._stored, terms.learners, terms.channels, (*measure,), first,
            np.argsort(terms.channels, kind="stable"), np.zeros(n_rows), out,
        )  # fmt: skip

    def edges(self, terms: Terms, duals: FloatArray) -> FloatArray:
        """Edges of the terms for duals of shape (n_channels, n_rows)."""
        out = np.zeros(len(terms.learners))
        _sparse_edges(self._stored, terms.learners, terms.channels, duals, out)
        return out


@compiled
def _add_stored_scores(
    responses: AnyArray,
    learners: IntArray,
    channels: IntArray,
    weights: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    n_rows = out.shape[1]
    for start in range(0, n_rows, _ROWS):
        stop = min(start + _ROWS, n_rows)
        for t in range(len(learners)):
            row = out[channels[t], start:stop]
            response = responses[learners[t], first + start : first + stop]
            weight = weights[t]
            for p in range(len(row)):
                row[p] += weight * response[p]


@compiled
def _add_stored_products(
    responses: AnyArray,
    learners: IntArray,
    channels: IntArray,
    parts: RowArray,
    codes: ByteArray,
    levels: FloatArray,
    indptr: IntArray,
    first: int,
    out: FloatArray,
) -> None:
    values = entry_values(codes, levels)
    for t in range(len(learners)):
        response = responses[learners[t], first:]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * response[parts[e]]
        out[t] += total


@compiled(fastmath=_FASTMATH)
def _stored_edges(
    responses: AnyArray, learners: IntArray, channels: IntArray, duals: FloatArray, out: FloatArray
) -> None:
    for j in range(len(learners)):
        response = responses[learners[j]]
        row = duals[channels[j]]
        total = 0.0
        for i in range(len(row)):
            total += row[i] * response[i]
        out[j] = total


@compiled
def _add_sparse_scores(
    stored: Stored,
    learners: IntArray,
    channels: IntArray,
    weights: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    starts, rows, values = stored
    end = first + out.shape[1]
    for t in range(len(learners)):
        k = learners[t]
        of_channel = out[channels[t]]
        e = starts[k] + np.searchsorted(rows[starts[k] : starts[k + 1]], first)
        while e < starts[k + 1] and rows[e] < end:
            of_channel[rows[e] - first] += weights[t] * values[e]
            e += 1


@compiled
def _add_sparse_products(
    stored: Stored,
    learners: IntArray,
    channels: IntArray,
    measure: tuple[RowArray, ByteArray, FloatArray, IntArray],
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
            e = starts[k] + np.searchsorted(rows[starts[k] : starts[k + 1]], first)
            while e < starts[k + 1] and rows[e] < end:
                total += values[e] * by_row[rows[e] - first]
                e += 1
            out[order[t]] += total
            t += 1
        for e in range(indptr[channel], indptr[channel + 1]):
            by_row[parts[e]] = 0.0


@compiled
def _sparse_edges(
    stored: Stored, learners: IntArray, channels: IntArray, duals: FloatArray, out: FloatArray
) -> None:
    starts, rows, values = stored
    for t in range(len(learners)):
        k = learners[t]
        of_channel = duals[channels[t]]
        total = 0.0
        for e in range(starts[k], starts[k + 1]):
            total += values[e] * of_channel[rows[e]]
        out[t] = total
