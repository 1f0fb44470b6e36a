"""Look-up tables, the form of ensembles of stumps.

F_c(x) = bias_c + sum_f table[f, bin(x_f), c].  A prediction costs one binary search and one
look-up per used feature, however many rounds were run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array
from structboost.learners.table import Scorer, comparable
from structboost.runtime.compiled import compiled
from structboost.validation import checked_features

# Entries of sparse rows that are made dense at a time: 32 megabytes.
_DENSE_ENTRIES = 1 << 22


@dataclass(frozen=True)
class LookupTable:
    """Additive look-up tables of the used features.

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
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "bias": Array("float64", ("n_channels",)),
        "features": Array("int64", ("n_used",), low=0, high="n_features - 1", rising=True),
        "thresholds": Array("float64", ("n_thresholds",)),
        "indptr": Array("int64", ("n_used + 1",), ends="n_thresholds"),
        "values": Array("float64", ("n_thresholds + n_used", "n_channels")),
    }

    bias: FloatArray
    features: IntArray
    thresholds: FloatArray
    indptr: IntArray
    values: FloatArray
    n_features: int
    missing: FloatArray | None = None

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
        nothing = np.zeros(0)
        indptr = np.zeros(1, np.int64)
        values = np.zeros((0, len(bias)))
        return cls(bias, np.zeros(0, np.int64), nothing, indptr, values, n_features)

    def bins(self, u: int, rows: NDArray[Any]) -> IntArray:
        """Bin of each row in the used feature with index ``u``, one more if it is missing."""
        thresholds = self.thresholds[self.indptr[u] : self.indptr[u + 1]]
        column = rows[:, self.features[u]].astype(np.float64)
        at = np.where(np.isnan(column), len(thresholds) + 1, np.searchsorted(thresholds, column))
        return np.asarray(at)

    def scores(self, features: Any) -> FloatArray:
        """Scores of parts by one thread, binning included, shape (n_parts, n_channels)."""
        takes_missing = self.missing is not None
        return self.raw_scores(checked_features(features, self.n_features, missing=takes_missing))

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores of checked rows."""
        if not len(self.features):  # which needs no compiled code
            return np.tile(self.bias, (len(rows), 1))
        out = np.empty((len(rows), len(self.bias)))
        missing = np.zeros((len(self.features), len(self.bias)))
        _add_up(
            comparable(rows), self.bias, self.features, self.thresholds, self.indptr, self.values,
            missing if self.missing is None else self.missing, out,
        )  # fmt: skip
        return out


@dataclass(frozen=True)
class LinearAndSteps:
    """Linear function plus look-up tables, the form of linear functions with stumps.

    Parameters
    ----------
    coefficients : ndarray, shape (n_features, n_channels)
    steps : LookupTable
    span : ndarray, shape (2, n_features), optional
        Usual range of the features of the linear function, for diagrams.
    """

    coefficients: FloatArray
    steps: LookupTable
    span: FloatArray | None = None

    @classmethod
    def of(cls, scorer: Scorer) -> LinearAndSteps | None:
        """Convert a scorer to this form, or return None if it has another."""
        if isinstance(scorer, LookupTable):
            scorer = cls(np.zeros((scorer.n_features, len(scorer.bias))), scorer)
        return scorer if isinstance(scorer, cls) else None

    def scores(self, features: Any) -> FloatArray:
        """Scores of parts, shape (n_parts, n_channels)."""
        return self.raw_scores(checked_features(features, self.steps.n_features))

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores of checked rows, shape (n_parts, n_channels)."""
        return np.asarray(rows @ self.coefficients + self.steps.raw_scores(rows), np.float64)


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
    additive = [LinearAndSteps.of(scorer) for scorer in scorers]
    with_steps = [form for form in additive if form is not None and len(form.steps.features)]
    if None in additive:
        return SumOfScorers(scorers)
    forms = [form for form in additive if form is not None]
    bias = np.sum([form.steps.bias for form in forms], axis=0)
    steps = replace(_merged([form.steps for form in with_steps or forms[:1]]), bias=bias)
    if all(isinstance(scorer, LookupTable) for scorer in scorers):
        return steps
    return LinearAndSteps(
        np.sum([form.coefficients for form in forms], axis=0),
        steps,
        next((form.span for form in forms if form.span is not None), None),
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
    if isinstance(scorer, LookupTable):
        used = scorer.features
        rows = rows.tocsc()[:, used].tocsr()
        scorer = replace(scorer, features=np.arange(len(used)), n_features=len(used))
    step = max(1, _DENSE_ENTRIES // max(1, rows.shape[1]))
    blocks = range(0, rows.shape[0], step)
    return np.concatenate([scorer.raw_scores(rows[a : a + step].toarray()) for a in blocks])


@compiled
def _add_up(
    rows: NDArray[Any],
    bias: FloatArray,
    features: IntArray,
    thresholds: FloatArray,
    indptr: IntArray,
    values: FloatArray,
    missing: FloatArray,
    out: FloatArray,
) -> None:
    n_channels = len(bias)
    for p in range(len(rows)):
        for c in range(n_channels):
            out[p, c] = bias[c]
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
