"""Table of the features of all tokens, of which vectors of numbers are dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray

# Indices of features, rows of tokens, and the values (n_rows, n_features) that these have.
Block = tuple[NDArray[np.int32], IntArray, FloatArray]


@dataclass(frozen=True)
class TokenTable:
    """Features of tokens, as sparse entries and dense blocks that add up.

    Parameters
    ----------
    entries : sparse array by rows, shape (n_tokens, n_features)
    blocks : sequence of (ndarray of int32, ndarray of int64, ndarray of float64)
        Indices of features, indices of tokens, and the values that these tokens have there.
    """

    entries: sparse.csr_array
    blocks: Sequence[Block] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of tokens and features."""
        n_tokens, n_features = self.entries.shape
        return n_tokens, n_features

    def whole(self) -> sparse.csr_array:
        """Return all features as one sparse array."""
        return self.parted(np.zeros(0, np.int64))[0]

    def numeric_columns(self) -> IntArray:
        """Return the features that have other values than 0 and 1, in ascending order."""
        numeric = [self.entries.indices[_is_odd(self.entries.data)]]
        # Vectors stay together.
        numeric += [columns for columns, _, values in self.blocks if _is_odd(values).any()]
        return np.unique(np.concatenate(numeric)).astype(np.int64)

    def parted(self, columns: IntArray) -> tuple[sparse.csr_array, FloatArray]:
        """Return the entries outside of some features, and the table of these features.

        Parameters
        ----------
        columns : ndarray of int64
            Indices of features, in ascending order.

        Returns
        -------
        entries : sparse array by rows, shape (n_tokens, n_features)
            Each once, without zeros.
        values : ndarray, shape (n_tokens, n_columns)
        """
        entries = self.entries
        values = np.zeros((self.shape[0], len(columns)))
        at, inside = _places(entries.indices, columns)
        if inside.any():
            rows = np.repeat(np.arange(len(values)), np.diff(entries.indptr))
            np.add.at(values, (rows[inside], at[inside]), entries.data[inside])
            ends = np.concatenate(([0], np.cumsum(~inside)))[entries.indptr]
            others = entries.data[~inside], entries.indices[~inside]
            entries = sparse.csr_array((*others, ends.astype(entries.indptr.dtype)), self.shape)
            entries.has_canonical_format = self.entries.has_canonical_format
        for table, rows, of_block in self.blocks:
            at, inside = _places(table, columns)
            if inside.any():
                values[np.ix_(rows, at[inside])] += of_block[:, inside]
            if not inside.all():
                outside = np.repeat(rows, (~inside).sum()), np.tile(table[~inside], len(rows))
                more = sparse.csr_array((of_block[:, ~inside].ravel(), outside), self.shape)
                entries = sparse.csr_array(entries + more)
        return canonical(entries), values


def canonical(table: sparse.csr_array) -> sparse.csr_array:
    """Return a table with each entry once and without zeros."""
    if not (table.has_canonical_format and table.data.all()):
        table = table.copy()
        table.sum_duplicates()
        table.eliminate_zeros()
    return table


def is_binary(table: sparse.csr_array) -> bool:
    """Whether all entries are 0 or 1."""
    return not _is_odd(table.data).any()


def _places(features: NDArray[np.integer], columns: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return where features stand among ascending columns, and whether they do."""
    if not len(columns):
        return np.zeros(len(features), np.int64), np.zeros(len(features), bool)
    at = np.minimum(np.searchsorted(columns, features), len(columns) - 1)
    return at, columns[at] == features


def _is_odd(values: FloatArray) -> NDArray[np.bool_]:
    return np.asarray((values != 0) & (values != 1))
