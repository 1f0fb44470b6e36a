"""Look-up tables and slopes, the form of ensembles of stumps and linear functions.

F_c(x) = bias_c + sum_f (table[f, bin(x_f), c] + slope[f, c] x_f).  A prediction costs one binary
search and one look-up per used feature, however many rounds were run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.learners.table import Scorer, comparable
from structboost.runtime.compiled import compiled

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
    missing : ndarray, shape (n_used, n_channels), optional
        Scores if a used feature is missing (NaN).  Without them features must be finite.
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
    missing: FloatArray | None = None
    coefficients: FloatArray | None = None
    span: FloatArray | None = None

    @classmethod
    def of_stumps(
        cls,
        feature: IntArray,
        threshold: FloatArray,
        left: FloatArray,
        right: FloatArray,
        of_missing: FloatArray,
        weights: FloatArray,
        n_features: int,
    ) -> LookupTable:
        """Make tables of stumps with the weights W, shape (n_learners, n_channels).

        ``of_missing`` are the responses where the feature is missing.
        """
        used = weights.any(axis=1)
        constant = used & np.isneginf(threshold)
        splits = np.flatnonzero(used & ~constant)
        splits = splits[np.lexsort((threshold[splits], feature[splits]))]
        f, t, w = feature[splits], threshold[splits], weights[splits]
        starts = np.flatnonzero(np.diff(f, prepend=-1))
        # Infinite thresholds may be equal, so that their difference is no number.
        first = np.append(True, (f[1:] != f[:-1]) | (t[1:] != t[:-1]))[: len(f)]
        levels = np.flatnonzero(first)
        indptr = np.concatenate((np.searchsorted(levels, starts), [len(levels)]))
        values = np.zeros((len(levels) + len(starts), weights.shape[1]))
        if len(starts):
            below = np.add.reduceat(left[splits, None] * w, levels)
            above = np.add.reduceat(right[splits, None] * w, levels)
            # Sums from both ends: what is summed of terms that are not negative is not negative.
            for u, (begin, end) in enumerate(pairwise(indptr.tolist())):
                of_feature = values[begin + u : end + u + 1]
                np.cumsum(above[begin:end], axis=0, out=of_feature[1:])
                of_feature[:-1] += np.cumsum(below[begin:end][::-1], axis=0)[::-1]
        bias = np.asarray(right[constant] @ weights[constant], np.float64)
        missing = np.zeros((len(starts), weights.shape[1]))
        if len(starts):
            missing = np.add.reduceat(of_missing[splits, None] * w, starts)
        return cls(bias, f[starts], t[levels], indptr.astype(np.int64), values, n_features, missing)

    @classmethod
    def constant(cls, bias: FloatArray, n_features: int) -> LookupTable:
        """Make the table of constants, shape (n_channels,)."""
        starts, values = np.zeros(1, np.int64), np.zeros((0, len(bias)))
        return cls(bias, starts[:0], np.zeros(0), starts, values, n_features)

    def bins(self, u: int, rows: NDArray[Any]) -> IntArray:
        """Bin of each row in the used feature with index ``u``, one more if it is missing."""
        thresholds = self.thresholds[self.indptr[u] : self.indptr[u + 1]]
        column = rows[:, self.features[u]].astype(np.float64)
        at = np.where(np.isnan(column), len(thresholds) + 1, np.searchsorted(thresholds, column))
        return np.asarray(at)

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores of checked rows."""
        out = np.tile(self.bias, (len(rows), 1))
        if len(self.features):
            missing = np.zeros((len(self.features), len(self.bias)))
            _add_up(
                comparable(rows), self.features, self.thresholds, self.indptr, self.values,
                missing if self.missing is None else self.missing, out,
            )  # fmt: skip
        return out if self.coefficients is None else np.asarray(rows @ self.coefficients + out)


@dataclass(frozen=True)
class SumOfScorers:
    """Sum of scorers for which no faster form is known."""

    terms: Sequence[Scorer]

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
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
            missing[u] += 0.0 if t.missing is None else t.missing[i]
        values.append(total)
    indptr = np.cumsum([0, *map(len, thresholds)], dtype=np.int64)
    takes_missing = all(table.missing is not None for table in tables)
    return LookupTable(
        np.zeros(n_channels), features, np.concatenate(thresholds), indptr, np.concatenate(values),
        tables[0].n_features, missing if takes_missing else None,
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
    rows: NDArray[Any],
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
