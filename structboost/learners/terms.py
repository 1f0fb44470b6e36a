"""Columns as arrays of weak learners on channels with coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.errors import TaskError


class Term(NamedTuple):
    """Weak learner on one channel, times a coefficient.

    Parameters
    ----------
    learner : hashable
        The weak learner, as its family describes it.
    channel : int
        Index of the channel.
    coefficient : float
        Factor of its response.
    """

    learner: Any
    channel: int
    coefficient: float


class Terms(NamedTuple):
    """Terms of columns, weak learners on channels times coefficients, as parallel arrays.

    Parameters
    ----------
    columns : ndarray of int64, shape (n_terms,)
        Index of the column of each term.
    learners : ndarray of int64, shape (n_terms,)
    channels : ndarray of int64, shape (n_terms,)
    coefficients : ndarray, shape (n_terms,)
    """

    columns: IntArray
    learners: IntArray
    channels: IntArray
    coefficients: FloatArray

    @classmethod
    def none(cls) -> Terms:
        """Make an empty list of terms."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty, np.zeros(0))

    @classmethod
    def of(cls, placed: Sequence[tuple[int, Term]], learners: Mapping[Any, int]) -> Terms:
        """Make terms from columns, given the indices of their learners."""
        return cls(
            np.array([column for column, _ in placed], np.int64),
            np.array([learners[term.learner] for _, term in placed], np.int64),
            np.array([term.channel for _, term in placed], np.int64),
            np.array([term.coefficient for _, term in placed], np.float64),
        )

    def take(self, index: AnyArray) -> Terms:
        """Take the terms at ``index``."""
        return Terms._make(array[index] for array in self)

    def joined(self, new: Terms, first: int) -> Terms:
        """Append the terms of new columns, with indices from ``first`` on."""
        new = new._replace(columns=new.columns + first)
        return Terms(*(np.concatenate(pair) for pair in zip(self, new, strict=True)))

    def of_columns(self, mask: BoolArray) -> Terms:
        """Terms of the columns that are in the ``mask``, with new indices."""
        of_kept = self.take(mask[self.columns])
        return of_kept._replace(columns=(np.cumsum(mask) - 1)[of_kept.columns])

    def weighted(self, weights: FloatArray) -> Terms:
        """Terms that are not zero under weights of the columns, with coefficients times weights."""
        coefficients = weights[self.columns] * self.coefficients
        return self._replace(coefficients=coefficients).take(np.flatnonzero(coefficients))


# Terms of columns by kind of parts.
KindTerms = Mapping[str, Terms]


class TermsByKind:
    """Terms of the columns of a master.

    Parameters
    ----------
    kinds : iterable of str

    Attributes
    ----------
    n_columns : int
    terms : dict of str to Terms
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self.n_columns = 0
        self.terms = {kind: Terms.none() for kind in kinds}

    def add(self, terms: KindTerms, n_new: int) -> None:
        """Append columns, which ``terms`` count from 0."""
        for kind, of_kind in terms.items():
            self.terms[kind] = self.terms[kind].joined(of_kind, self.n_columns)
        self.n_columns += n_new

    def keep(self, mask: BoolArray) -> None:
        """Drop the columns that are not in the ``mask``, and renumber the others."""
        self.terms = {kind: of_kind.of_columns(mask) for kind, of_kind in self.terms.items()}
        self.n_columns = int(mask.sum())

    def weighted(self, weights: FloatArray) -> dict[str, Terms]:
        """Terms of each kind that are not zero under weights of the columns."""
        return {kind: of_kind.weighted(weights) for kind, of_kind in self.terms.items()}


def check_single_terms(terms: Terms, n_columns: int, master: str) -> None:
    """Raise unless each column is one weak learner on one channel.

    TaskError if a column has several terms, or a coefficient that is not 1.
    """
    if terms.coefficients.tolist() != [1.0] * n_columns:
        raise TaskError(f"{master} takes columns of one weak learner on one channel.")
