"""Tables of learners and of stumps, which have responses, and the table that looks a value up.

Look-up tables and slopes are the form of ensembles of stumps and linear functions::

    F_c(x) = bias_c + sum_f (table[f, bin(x_f), c] + slope[f, c] x_f)

A prediction costs one binary
search and one look-up per used feature, however many rounds were run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from structboost._typing import AnyArray, ByteArray, FloatArray, IntArray, override
from structboost.files.archive import Array
from structboost.runtime.called_class import Described
from structboost.runtime.compiled import compiled
from structboost.validation import checked_features


class Scorer(Protocol):
    """Form of weak learners and their weights that predicts fastest."""

    def raw_scores(self, rows: AnyArray) -> FloatArray:
        """Scores of finite rows of the right width, shape (n_parts, n_channels).

        Parameters
        ----------
        rows : ndarray, shape (n_parts, n_features)
            Features of the parts.
        """


class LearnerTable(Described, ABC):
    """Table of trained weak learners of one family, a frozen dataclass of arrays.

    Its ``schema`` describes the arrays that a model file holds, over the dimensions
    ``n_learners`` and ``n_features``.  A field that is None is left out of the file.
    """

    schema: ClassVar[Mapping[str, Array]]
    # Whether features may be missing (NaN).
    takes_missing: bool = False

    @classmethod
    def of(cls, learners: Sequence[Any], **arrays: Any) -> Self:
        """Make a table of the fields of learners, by the names of the schema, and of other arrays.

        Parameters
        ----------
        learners : sequence
            Named tuples with a field per array of the schema.
        **arrays : ndarray
            Arrays of the schema that are not fields of the learners.

        Returns
        -------
        table : LearnerTable
            One entry per learner, in their order.
        """
        stacked = {
            name: np.array([getattr(learner, name) for learner in learners], array.dtype)
            for name, array in cls.schema.items()
            if name not in arrays and not array.optional
        }
        return cls(**stacked, **arrays)

    def __len__(self) -> int:
        return len(next(array for name, array in vars(self).items() if self._by_learner(name)))

    @abstractmethod
    def responses(self, features: AnyArray) -> AnyArray:
        """Responses of all learners.

        Parameters
        ----------
        features : ndarray, shape (n_parts, n_features)
            Features of any parts; NaN only if the table declares ``takes_missing``.

        Returns
        -------
        responses : ndarray, shape (n_learners, n_parts)
            On the training parts equal to :meth:`structboost.WeakLearnerFamily.responses`,
            unless the family declares ``cross_fitted``.
        """

    def checked_rows(self, features: Any, n_features: int) -> AnyArray:
        """Check and convert the features of parts.

        Parameters
        ----------
        features : array-like or sparse array, shape (n_parts, n_features)
            Features of the parts, as the user passed them.
        n_features : int
            Number of features in training.

        Returns
        -------
        rows : ndarray or sparse array, shape (n_parts, n_features)
            Features that :meth:`responses` takes.

        Raises
        ------
        ValueError
            If they have another width, or are infinite, or are NaN where the table does not
            declare ``takes_missing``.
        """
        return checked_features(features, n_features, missing=self.takes_missing)

    @abstractmethod
    def feature_shares(self, n_features: int) -> FloatArray:
        """Weight of each feature in each learner, as a fraction.

        Parameters
        ----------
        n_features : int
            Number of features of a part.

        Returns
        -------
        fractions : ndarray, shape (n_learners, n_features)
            Not negative; each row sums to 1, or to 0 for a learner that uses no feature.
        """

    def feature_sizes(self, weights: FloatArray, n_features: int) -> FloatArray:
        """Return the absolute weight on each feature of a part.

        Parameters
        ----------
        weights : ndarray, shape (n_learners, n_channels)
            Weight of each learner on each channel.
        n_features : int
            Number of features.

        Returns
        -------
        sizes : ndarray, shape (n_features,)
            Those of linear functions are for one standard deviation of the feature.
        """
        return np.asarray(np.abs(weights).sum(axis=1) @ self.feature_shares(n_features))

    def select(self, index: AnyArray) -> Self:
        """Select the learners at an index.

        Parameters
        ----------
        index : ndarray of int, shape (n_selected,), or of bool, shape (n_learners,)
            Indices or mask of the learners.

        Returns
        -------
        table : LearnerTable
            These learners, in this order.
        """
        chosen = {
            name: array[index] for name, array in self.to_arrays().items() if self._by_learner(name)
        }
        return replace(self, **chosen)  # type: ignore[type-var]

    def to_arrays(self) -> dict[str, AnyArray]:
        """Convert the table to the arrays of a model file.

        Returns
        -------
        arrays : dict of str to ndarray
            By the names of the schema, without optional ones that are None.
        """
        return {name: array for name, array in vars(self).items() if array is not None}

    def as_linear(
        self, weights: FloatArray, n_features: int
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return the weighted sum of the learners as a linear function, if it is one.

        Parameters
        ----------
        weights : ndarray, shape (n_learners, n_channels)
            Weight of each learner on each channel.
        n_features : int
            Number of features.

        Returns
        -------
        coefficients : ndarray, shape (n_features, n_channels)
        intercepts : ndarray, shape (n_channels,)
            Or None in place of both, if learners of this family do not add up to a linear function.
        """
        return None

    def scorer(self, weights: FloatArray, n_features: int) -> Scorer:
        """Make the scorer of parts by these learners.

        Parameters
        ----------
        weights : ndarray, shape (n_learners, n_channels)
            Weight of each learner on each channel.
        n_features : int
            Features of a part.

        Returns
        -------
        scorer : Scorer
            Its scores are ``responses(features).T @ weights``.
        """
        used = np.flatnonzero(weights.any(axis=1))
        return WeightedLearners(self.select(used), weights[used])

    def _by_learner(self, name: str) -> bool:
        """Whether an array has an entry or a row for each learner."""
        return self.schema[name].shape[:1] == ("n_learners",)


class ScoredTable(LearnerTable):
    """Table whose responses are scores of its scorer, with a channel for each learner."""

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        scorer = self.scorer(np.eye(len(self)), features.shape[1])
        return np.ascontiguousarray(scorer.raw_scores(features).T)


@dataclass(frozen=True)
class WeightedLearners:
    """Scorer of learners for which no faster form is known.

    Parameters
    ----------
    learners : LearnerTable
        The weak learners.
    weights : ndarray, shape (n_learners, n_channels)
        Weight of each learner on each channel.
    """

    learners: LearnerTable
    weights: FloatArray

    def raw_scores(self, rows: AnyArray) -> FloatArray:
        """Scores, shape (n_parts, n_channels)."""
        if not len(self.weights):
            return np.zeros((len(rows), self.weights.shape[1]))
        return np.asarray(self.learners.responses(rows).T @ self.weights, np.float64)


def shares_of_one(features: IntArray, n_features: int) -> FloatArray:
    """Weight 1 for the feature of each learner, and none where its index is negative."""
    out = np.zeros((len(features), n_features))
    used = np.flatnonzero(features >= 0)
    out[used, features[used]] = 1.0
    return out


def shares_of_coefficients(coefficients: FloatArray) -> FloatArray:
    """Weights of features in linear functions, proportional to the absolute coefficients."""
    sizes = np.abs(coefficients)
    return np.asarray(sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-300))


def comparable(rows: AnyArray) -> AnyArray:
    """Convert rows to a contiguous float32, float64 or uint8 array for compiled scorers.

    It is read-only, as some tables of users are, so that scorers are compiled for one form of it.
    """
    is_native = rows.dtype in (np.float32, np.float64, np.uint8)
    out = np.ascontiguousarray(rows, rows.dtype if is_native else np.float64).view()
    out.flags.writeable = False
    return out


# Entries of sparse rows that are made dense at a time: 32 megabytes.
_DENSE_ENTRIES = 1 << 22


@dataclass(frozen=True)
class LookupTable:
    """Additive look-up tables of the used features, and perhaps a linear function.

    Parameters
    ----------
    bias : ndarray, shape (n_channels,)
        Sum of the constant stumps.
    features : ndarray of int64, shape (n_used,)
        The used features, ascending.
    thresholds : ndarray of float64
        Ascending thresholds of feature ``features[u]`` at ``indptr[u]:indptr[u + 1]``.
    indptr : ndarray of int64, shape (n_used + 1,)
    values : ndarray of float64, shape (n_thresholds + n_used, n_channels)
        Scores of bin b of used feature u in row ``indptr[u] + u + b``.
    n_features : int
        Features the model was trained on.
    missing : ndarray, shape (n_used, n_channels)
        Scores if a used feature is missing (NaN).
    coefficients : ndarray, shape (n_features, n_channels), optional
        Slopes of the linear function.
    span : ndarray, shape (2, n_features), optional
        Usual range of the features of the linear function, for diagrams.
    """

    bias: FloatArray
    features: IntArray
    thresholds: FloatArray
    indptr: IntArray
    values: FloatArray
    n_features: int
    missing: FloatArray
    coefficients: FloatArray | None = None
    span: FloatArray | None = None

    @classmethod
    def constant(cls, bias: FloatArray, n_features: int) -> LookupTable:
        """Make the table of constants, shape (n_channels,)."""
        starts, values = np.zeros(1, np.int64), np.zeros((0, len(bias)))
        return cls(bias, starts[:0], np.zeros(0), starts, values, n_features, values)

    def bins(self, u: int, rows: AnyArray) -> IntArray:
        """Bin of each row in the used feature with index ``u``, one more if it is missing."""
        thresholds = self.thresholds[self.indptr[u] : self.indptr[u + 1]]
        column = rows[:, self.features[u]].astype(np.float64)
        at = np.where(np.isnan(column), len(thresholds) + 1, np.searchsorted(thresholds, column))
        return np.asarray(at)

    def raw_scores(self, rows: AnyArray) -> FloatArray:
        """Scores of checked rows."""
        out = np.tile(self.bias, (len(rows), 1))
        if len(self.features):
            _add_up(
                comparable(rows), self.features, self.thresholds, self.indptr, self.values,
                self.missing, out,
            )  # fmt: skip
        return out if self.coefficients is None else np.asarray(rows @ self.coefficients + out)


@dataclass(frozen=True)
class SumOfScorers:
    """Sum of scorers for which no faster form is known."""

    terms: Sequence[Scorer]

    def raw_scores(self, rows: AnyArray) -> FloatArray:
        """Scores of checked rows, shape (n_parts, n_channels)."""
        first, *others = (term.raw_scores(rows) for term in self.terms)
        return np.asarray(sum(others, first))


def sum_of(scorers: Sequence[Scorer]) -> Scorer:
    """Add up scorers, as one linear function plus look-up tables if possible."""
    tables = [scorer for scorer in scorers if isinstance(scorer, LookupTable)]
    if len(tables) < len(scorers):
        return SumOfScorers(scorers)
    slopes = [table.coefficients for table in tables if table.coefficients is not None]
    return replace(
        _merged([table for table in tables if len(table.features)] or tables[:1]),
        bias=np.sum([table.bias for table in tables], axis=0),
        coefficients=np.sum(slopes, axis=0) if slopes else None,
        span=next((table.span for table in tables if table.span is not None), None),
    )


def _merged(tables: Sequence[LookupTable]) -> LookupTable:
    if len(tables) == 1:
        return tables[0]
    features = np.unique(np.concatenate([table.features for table in tables]))
    n_channels = len(tables[0].bias)
    thresholds, values, missing = [], [], np.zeros((len(features), n_channels))
    for u, feature in enumerate(features.tolist()):
        places = [(t, int(i)) for t in tables for i in np.flatnonzero(t.features == feature)]
        steps = [t.thresholds[t.indptr[i] : t.indptr[i + 1]] for t, i in places]
        thresholds.append(np.unique(np.concatenate(steps)))
        # A bin above all thresholds, and the bins that end at each of them.
        ends = np.append(thresholds[-1], np.inf)
        total = np.zeros((len(ends), n_channels))
        for (t, i), of_table in zip(places, steps, strict=True):
            total += t.values[t.indptr[i] + i + np.searchsorted(of_table, ends)]
            missing[u] += t.missing[i]
        values.append(total)
    indptr = np.cumsum([0, *map(len, thresholds)], dtype=np.int64)
    return LookupTable(
        np.zeros(n_channels), features, np.concatenate(thresholds), indptr, np.concatenate(values),
        tables[0].n_features, missing,
    )  # fmt: skip


def sparse_scores(scorer: Scorer, rows: Any) -> FloatArray:
    """Scores of sparse rows, shape (n_parts, n_channels), a block of dense rows at a time.

    Look-up tables need the features that they use.
    """
    if isinstance(scorer, LookupTable) and scorer.coefficients is None:
        used = scorer.features
        rows = rows.tocsc()[:, used].tocsr()
        scorer = replace(scorer, features=np.arange(len(used)), n_features=len(used))
    step = max(1, _DENSE_ENTRIES // max(1, rows.shape[1]))
    blocks = range(0, rows.shape[0], step)
    return np.concatenate([scorer.raw_scores(rows[a : a + step].toarray()) for a in blocks])


@compiled
def _add_up(
    rows: AnyArray,
    features: IntArray,
    thresholds: FloatArray,
    indptr: IntArray,
    values: FloatArray,
    missing: FloatArray,
    out: FloatArray,
) -> None:
    n_channels = out.shape[1]
    for p in range(len(rows)):
        for u in range(len(features)):
            value = rows[p, features[u]]
            if math.isnan(value):
                for c in range(n_channels):
                    out[p, c] += missing[u, c]
                continue
            base = indptr[u]
            # Branch-free binary search: the number of thresholds below the value.
            below = 0
            length = indptr[u + 1] - base
            while length > 0:
                half = (length + 1) >> 1
                below += half * (thresholds[base + below + half - 1] < value)
                length -= half
            at = base + u + below
            for c in range(n_channels):
                out[p, c] += values[at, c]


@dataclass(frozen=True)
class StumpTable(LearnerTable):
    """Table of stumps, ``left`` where the feature is at most the threshold, else ``right``.

    ``missing_left`` is whether the response to a missing feature (NaN) is ``left``.  None means
    always ``right``.
    """

    schema = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners",), infinite=True),
        "left": Array("float64", ("n_learners",)),
        "right": Array("float64", ("n_learners",)),
        "missing_left": Array("uint8", ("n_learners",), high=1, optional=True),
    }
    takes_missing = True

    feature: IntArray
    threshold: FloatArray
    left: FloatArray
    right: FloatArray
    missing_left: ByteArray | None = None

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        columns = features[:, self.feature].T
        is_left = columns <= self.threshold[:, None]
        if self.missing_left is not None:
            is_left |= np.isnan(columns) & (self.missing_left[:, None] > 0)
        return np.where(is_left, self.left[:, None], self.right[:, None])

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_one(np.where(np.isfinite(self.threshold), self.feature, -1), n_features)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LookupTable:
        used = weights.any(axis=1)
        constant = used & np.isneginf(self.threshold)
        splits = np.flatnonzero(used & ~constant)
        splits = splits[np.lexsort((self.threshold[splits], self.feature[splits]))]
        f, t, w = self.feature[splits], self.threshold[splits], weights[splits]
        starts = np.flatnonzero(np.diff(f, prepend=-1))
        # Infinite thresholds may be equal, so that their difference is no number.
        first = np.append(True, (f[1:] != f[:-1]) | (t[1:] != t[:-1]))[: len(f)]
        levels = np.flatnonzero(first)
        indptr = np.concatenate((np.searchsorted(levels, starts), [len(levels)]))
        values = np.zeros((len(levels) + len(starts), weights.shape[1]))
        if len(starts):
            below = np.add.reduceat(self.left[splits, None] * w, levels)
            above = np.add.reduceat(self.right[splits, None] * w, levels)
            # Sums from both ends: what is summed of terms that are not negative is not negative.
            for u, (begin, end) in enumerate(pairwise(indptr.tolist())):
                of_feature = values[begin + u : end + u + 1]
                np.cumsum(above[begin:end], axis=0, out=of_feature[1:])
                of_feature[:-1] += np.cumsum(below[begin:end][::-1], axis=0)[::-1]
        bias = np.asarray(self.right[constant] @ weights[constant], np.float64)
        missing = np.zeros((len(starts), weights.shape[1]))
        if len(starts):
            goes_left = 0 if self.missing_left is None else self.missing_left
            of_missing = np.where(goes_left, self.left, self.right)
            missing = np.add.reduceat(of_missing[splits, None] * w, starts)
        indptr = indptr.astype(np.int64)
        return LookupTable(bias, f[starts], t[levels], indptr, values, n_features, missing)
