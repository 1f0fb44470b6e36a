"""Single binary features as weak learners, for sparse rows.

A part is a row of the indices of its active features, filled up with -1: tables of hundreds of
thousands of columns only store their ones.  :func:`active_features` makes such rows of a
sparse matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray, IntArray, ShortArray, override
from structboost.files.archive import Array
from structboost.learners.base import (
    Candidate,
    Listed,
    ListedFamily,
    best_first,
    check_family_arguments,
    check_has_rows,
    response_type,
)
from structboost.learners.table import LearnerTable
from structboost.runtime.compiled import compiled
from structboost.validation import checked_array, checked_whole_number, shown

# Features are searched for this many channels at a time.
_CHANNELS_AT_ONCE = 64
_MOST_SLOTS = 1 << 20


def active_features(X: Any, n_slots: int | None = None) -> ShortArray:
    """List the active features of each row, in ascending order, filled up with -1.

    Parameters
    ----------
    X : sparse matrix or array, shape (n_rows, n_features)
        Zeros and ones.
    n_slots : int, optional
        Number of columns, which drops later ones of longer rows.  By default the number of ones of
        the fullest row, at least 1.

    Raises
    ------
    ValueError, TypeError
        If an entry is neither 0 nor 1, or an argument is of another kind.
    """
    if n_slots is not None:
        checked_whole_number(n_slots, "n_slots", _MOST_SLOTS)
    rows = sparse.csr_array(X if sparse.issparse(X) else checked_array(X, "X", 2), copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    if (rows.data != 1).any():
        entry = int(np.flatnonzero(rows.data != 1)[0])
        row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
        raise ValueError(
            f"X[{row}, {rows.indices[entry]}] is {rows.data[entry]}; sparse features must be 0 or "
            "1. Give an array for others."
        )
    counts = np.diff(rows.indptr)
    width = max(1, int(counts.max(initial=0))) if n_slots is None else n_slots
    out = np.full((rows.shape[0], width), -1, np.int32)
    slots = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], counts)
    out[np.arange(width) < counts[:, None]] = rows.indices[slots < width]
    return out


class ActiveFeature(NamedTuple):
    """Learner with response ``present`` on parts with the feature, else ``absent``.

    Feature -1 is present in every part.
    """

    feature: int
    absent: float
    present: float


@dataclass(frozen=True)
class ActiveFeatureTable(LearnerTable):
    """Table of single features, with -1 for the constant."""

    schema: ClassVar[Mapping[str, Array]] = {
        "feature": Array("int64", ("n_learners",), low=-1, high=2**31 - 1),
        "absent": Array("float64", ("n_learners",)),
        "present": Array("float64", ("n_learners",)),
    }

    feature: IntArray
    absent: FloatArray
    present: FloatArray

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        indices, ends = _active(np.asarray(features))
        width = max(indices.max(initial=-1), self.feature.max(initial=-1)) + 1
        ones = np.ones(len(indices), np.bool_)
        table = sparse.csr_array((ones, indices, ends), (len(features), width))
        used = self.feature >= 0
        is_present = np.ones((len(self), len(features)), np.bool_)
        is_present[used] = table[:, self.feature[used]].toarray().T
        return np.where(is_present, self.present[:, None], self.absent[:, None])

    @override
    def checked_rows(self, features: Any, n_features: int) -> AnyArray:
        # A part may have more active features than any part of training.
        width = features.shape[1] if getattr(features, "ndim", 0) == 2 else n_features
        return super().checked_rows(features, width)

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return np.full((len(self), n_features), 1.0 / n_features)

    @override
    def feature_sizes(self, weights: FloatArray, n_features: int) -> FloatArray:
        used, sizes = self.feature >= 0, np.zeros(n_features)
        np.add.at(sizes, self.feature[used], np.abs(weights)[used].sum(axis=1))
        return sizes

    @override
    def as_linear(self, weights: FloatArray, n_features: int) -> tuple[FloatArray, FloatArray]:
        features, gains, base = self._gains(weights)
        coefficients = np.zeros((n_features, weights.shape[1]))
        coefficients[features] = gains
        return coefficients, base

    def _gains(self, weights: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the features, what each adds to the scores, and the scores without any."""
        used = self.feature >= 0
        features, place = np.unique(self.feature[used], return_inverse=True)
        gains = np.zeros((len(features), weights.shape[1]))
        np.add.at(gains, place, (self.present - self.absent)[used, None] * weights[used])
        return features, gains, np.where(used, self.absent, self.present) @ weights

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> ActiveFeatureScores:
        features, gains, base = self._gains(weights)
        place = np.full(int(features.max(initial=-1)) + 1, -1, np.int32)
        place[features] = np.arange(len(features), dtype=np.int32)
        return ActiveFeatureScores(place, gains, base)


@dataclass(frozen=True)
class ActiveFeatureScores:
    """Scorer that adds up the weights of the active features and a constant.

    Parameters
    ----------
    place : ndarray of int32
        Row in ``gains`` of each feature, -1 without a weight.  Features beyond have none.
    gains : ndarray, shape (n_known, n_channels)
    base : ndarray, shape (n_channels,)
    """

    place: ShortArray
    gains: FloatArray
    base: FloatArray

    def raw_scores(self, rows: Any) -> FloatArray:
        """Compute the scores, shape (n_parts, n_channels).

        Parameters
        ----------
        rows : ndarray of int, or sparse array by rows
            Indices of active features filled up with -1, or a table whose entries are 1.
        """
        if sparse.issparse(rows):
            indices, ends = rows.indices, rows.indptr
        else:
            indices, ends = _active(np.asarray(rows))
        out = np.tile(self.base, (rows.shape[0], 1))
        listed = indices.astype(np.int32, copy=False), ends.astype(np.int64, copy=False)
        _add_gains(*listed, self.place, self.gains, out)
        return out


class ActiveFeatureFamily(ListedFamily):
    """Family of all single features and the constant in both orientations, stumps on 0/1 features.

    If responses may be negative, that of a feature is 1 (or -1) on parts that have it, and 0
    elsewhere.  Where ``response`` is (0, 1), it is 1 on parts that have it, or on those that
    do not.

    Parameters
    ----------
    features : ndarray of int, shape (n_parts, n_slots)
        Indices of the active features of each part, each once, filled up with -1
        (:func:`active_features`).
    response : (float, float)
        The two responses.
    """

    name = "active_feature"
    exact_pricing = True

    def __init__(self, features: AnyArray, response: tuple[float, float] = (-1.0, 1.0)) -> None:
        check_family_arguments(features, response)
        check_has_rows(features, self.name)
        rows = np.asarray(features).astype(np.int64)
        _check_numbers(features, rows)
        self.n_features = rows.shape[1]
        self._type = response_type(*response)
        self._turned = (0.0, -1.0) if min(response) < 0 else (1.0, 0.0)
        parts, slots = np.nonzero(rows >= 0)
        self._features, column = np.unique(rows[parts, slots], return_inverse=True)
        shape = (len(self._features), len(rows))
        ones = np.ones(len(parts))
        # Row f: the parts that have the f-th known feature.
        self._parts_of = sparse.csr_array((ones, (column, parts)), shape=shape)
        self._parts_of.sort_indices()
        self._n_parts = len(rows)

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        candidates: list[Candidate] = []
        for first in range(0, duals.shape[1], _CHANNELS_AT_ONCE):
            block = duals[:, first : first + _CHANNELS_AT_ONCE]
            candidates += [
                candidate._replace(channel=first + candidate.channel)
                for candidate in super().price(block, per_channel)
            ]
        return best_first(candidates)

    @override
    def listed(self, duals: FloatArray) -> Listed:
        total = duals.sum(axis=0)
        edges = np.vstack((self._parts_of @ duals, total))
        turned = -edges
        if self._turned[0]:
            turned = total - edges
            turned[-1] = -np.inf  # the constant turned around is nothing
        return Listed(self._learner, edges, turned)

    @override
    def ways(self, learner: ActiveFeature) -> Sequence[ActiveFeature]:
        place = self._place(learner)
        is_alone = place == len(self._features) and self._turned[0]
        return [
            self._learner(place, turned) for turned in ((False,) if is_alone else (False, True))
        ]

    @override
    def responses(self, learners: Sequence[ActiveFeature]) -> sparse.csr_array:
        everywhere = np.arange(self._n_parts, dtype=np.int32)
        rows, values = [everywhere[:0]], [np.zeros(0, self._type)]
        for learner in learners:
            place, at = self._place(learner), everywhere
            if place < len(self._features):
                at = self._parts_of.indices[slice(*self._parts_of.indptr[place : place + 2])]
                if learner.absent:
                    at = np.delete(everywhere, at)
            rows.append(at)
            values.append(np.full(len(at), learner.absent or learner.present, self._type))
        ends = np.cumsum([len(at) for at in rows])
        entries = np.concatenate(values), np.concatenate(rows), ends
        return sparse.csr_array(entries, (len(learners), self._n_parts))

    @override
    def table(self, learners: Sequence[ActiveFeature]) -> ActiveFeatureTable:
        return ActiveFeatureTable.of(learners)

    def _learner(self, place: int, turned: bool) -> ActiveFeature:
        absent, present = self._turned if turned else (0.0, 1.0)
        if place == len(self._features):
            return ActiveFeature(-1, present, present)
        return ActiveFeature(int(self._features[place]), absent, present)

    def _place(self, learner: ActiveFeature) -> int:
        """Row of a feature among the known ones, where the constant is last."""
        if learner.feature < 0:
            return len(self._features)
        return int(np.searchsorted(self._features, learner.feature))


def _active(rows: AnyArray) -> tuple[IntArray, IntArray]:
    """Return the active features of all rows, one after the other, and where each row begins."""
    is_active = rows >= 0
    ends = np.append(0, np.cumsum(is_active.sum(axis=1)))
    return rows[is_active].astype(np.int64), ends


@compiled
def _add_gains(
    indices: ShortArray,
    ends: IntArray,
    place: ShortArray,
    gains: FloatArray,
    out: FloatArray,
) -> None:
    for p in range(out.shape[0]):
        for s in range(ends[p], ends[p + 1]):
            f = indices[s]
            if f < len(place) and place[f] >= 0:
                for c in range(out.shape[1]):
                    out[p, c] += gains[place[f], c]


def _check_numbers(features: Any, rows: IntArray) -> None:
    """Raise ValueError unless rows hold indices of features, each once, and -1."""
    ordered = np.sort(rows, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    wrong = (features != rows).any(axis=1) | (rows < -1).any(axis=1) | again.any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"Part {row} is {shown(features[row].tolist())}; the weak learner 'active_feature' "
            "takes numbers of active features, each once, as active_features(X) makes them. Take "
            "'stump' for features as they are."
        )
