"""Features as weak learners, for linear predictors that use few of them.

They are scaled numbers, or binary ones of sparse rows.  A part of the latter is a row of the
indices of its active features, filled up with -1: tables of hundreds of thousands of columns only
store their ones.  :func:`active_features` makes such rows of a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray, IntArray, Range, ShortArray, override
from structboost.files.archive import Array
from structboost.learners.base import ListedFamily, check_has_rows, check_signed
from structboost.learners.standardisation import check_sizes
from structboost.learners.table import LearnerTable, LookupTable, shares_of_one
from structboost.runtime.compiled import compiled
from structboost.validation import checked_table

# Largest size of values, and of its inverse: their differences are numbers of float32.
_LARGEST = 1e37


class Feature(NamedTuple):
    """Scaled feature ``(x[feature] - center) / scale``, or ``1 / scale`` for feature -1."""

    feature: int
    center: float
    scale: float


@dataclass(frozen=True)
class FeatureTable(LearnerTable):
    """Table of scaled features, with feature -1 for the constant.

    A negative scale turns a feature around.
    """

    schema = {
        "feature": Array("int64", ("n_learners",), low=-1, high="n_features - 1"),
        "center": Array("float64", ("n_learners",)),
        "scale": Array("float64", ("n_learners",), nonzero=True),
    }

    feature: IntArray
    center: FloatArray
    scale: FloatArray

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        values = (features[:, self.feature].T - self.center[:, None]) / self.scale[:, None]
        return np.where(self.feature[:, None] < 0, 1.0 / self.scale[:, None], values)

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_one(self.feature, n_features)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LookupTable:
        is_constant = self.feature < 0
        slopes = weights / self.scale[:, None]
        coefficients = np.zeros((n_features, weights.shape[1]))
        np.add.at(coefficients, self.feature[~is_constant], slopes[~is_constant])
        starts = np.where(is_constant, 1.0, -self.center)
        constant = LookupTable.constant(starts @ slopes, n_features)
        return replace(constant, coefficients=coefficients)


class FeatureFamily(ListedFamily):
    """Family of all scaled features and the constant, each in both orientations.

    Features are centred and scaled into -1..1, as ShareBoost assumes them.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts.
    response : (float, float)
        Responses are of either sign: the lower one must be below 0.
    """

    name = "feature"
    exact_pricing = True
    both_signs = True

    def __init__(self, features: AnyArray, response: Range = (-1.0, 1.0)) -> None:
        check_has_rows(features, self.name)
        check_signed(response, self.name)
        check_sizes(np.abs(features).max(axis=0), self.name, _LARGEST)
        rows = np.asarray(features, np.float32)
        self.n_features = rows.shape[1]
        self._centers = rows.mean(axis=0, dtype=np.float64)
        scaled = np.ones((self.n_features + 1, len(rows)), np.float32)
        scaled[:-1] = (rows - self._centers.astype(np.float32)).T
        sizes = np.abs(scaled[:-1]).max(axis=1)
        self._scales = np.where(sizes > 0, sizes, 1.0).astype(np.float64)
        scaled[:-1] /= self._scales.astype(np.float32)[:, None]
        self._scaled = scaled

    @override
    def listed(self, duals: FloatArray) -> tuple[Callable[[int], Feature], FloatArray]:
        edges = np.asarray(self._scaled @ duals.astype(np.float32), np.float64)
        return self._learner, edges

    @override
    def ways(self, learner: Feature) -> Sequence[Feature]:
        return [learner, learner._replace(scale=-learner.scale)]

    @override
    def responses(self, learners: Sequence[Feature]) -> AnyArray:
        values = self._scaled[[learner.feature for learner in learners]]
        turned = [learner.scale < 0 for learner in learners]
        values[turned] = -values[turned]
        return values

    @override
    def table(self, learners: Sequence[Feature]) -> FeatureTable:
        return FeatureTable.of(learners)

    def _learner(self, k: int) -> Feature:
        if k == self.n_features:
            return Feature(-1, 0.0, 1.0)
        return Feature(k, float(self._centers[k]), float(self._scales[k]))


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
    rows = sparse.csr_array(X if sparse.issparse(X) else checked_table(X), copy=True)
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
    """Learner with response ``sign`` on parts with the feature, else 0.

    Feature -1 is present in every part.
    """

    feature: int
    sign: float


@dataclass(frozen=True)
class ActiveFeatureTable(LearnerTable):
    """Table of single features and the signs of their responses, with -1 for the constant."""

    schema = {
        "feature": Array("int64", ("n_learners",), low=-1, high=2**31 - 1),
        "sign": Array("float64", ("n_learners",)),
    }

    feature: IntArray
    sign: FloatArray

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        indices, ends = _active(np.asarray(features))
        width = max(indices.max(initial=-1), self.feature.max(initial=-1)) + 1
        table = sparse.csr_array((np.ones(len(indices)), indices, ends), (len(features), width))
        used, out = self.feature >= 0, np.ones((len(self), len(features)))
        out[used] = table[:, self.feature[used]].toarray().T
        return out * self.sign[:, None]

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
        scores = self.scorer(weights, n_features)
        coefficients = np.zeros((n_features, weights.shape[1]))
        coefficients[np.flatnonzero(scores.place >= 0)] = scores.gains
        return coefficients, scores.base

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> ActiveFeatureScores:
        used, signed = self.feature >= 0, self.sign[:, None] * weights
        features, row = np.unique(self.feature[used], return_inverse=True)
        gains = np.zeros((len(features), weights.shape[1]))
        np.add.at(gains, row, signed[used])
        place = np.full(int(features.max(initial=-1)) + 1, -1, np.int32)
        place[features] = np.arange(len(features), dtype=np.int32)
        base = np.where(used, 0.0, self.sign) @ weights
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

    The response is 1 (or -1) on parts that have the feature, and 0 elsewhere.

    Parameters
    ----------
    features : ndarray of int, shape (n_parts, n_slots)
        Indices of the active features of each part, each once, filled up with -1
        (:func:`active_features`).
    response : (float, float)
        Responses are of either sign: the lower one must be below 0.
    """

    name = "active_feature"
    exact_pricing = True
    both_signs = True

    def __init__(self, features: AnyArray, response: Range = (-1.0, 1.0)) -> None:
        check_has_rows(features, self.name)
        check_signed(response, self.name)
        rows = np.asarray(features).astype(np.int64)
        ordered = np.sort(rows, axis=1)
        repeats = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        if (features != rows).any() or (rows < -1).any() or repeats.any():
            raise ValueError(
                "weak_learner='active_feature' takes rows of indices of active features, each "
                "once, as active_features(X) makes them; take 'stump' for features as they are."
            )
        self.n_features, self._n_parts = rows.shape[1], len(rows)
        parts, slots = np.nonzero(rows >= 0)
        self._features, column = np.unique(rows[parts, slots], return_inverse=True)
        shape = (len(self._features), len(rows))
        # Row f: the parts that have the f-th known feature.
        self._parts_of = sparse.csr_array((np.ones(len(parts)), (column, parts)), shape=shape)
        self._parts_of.sort_indices()

    @override
    def listed(self, duals: FloatArray) -> tuple[Callable[[int], ActiveFeature], FloatArray]:
        edges = np.vstack((self._parts_of @ duals, duals.sum(axis=0)))
        features = [*self._features.tolist(), -1]
        return lambda k: ActiveFeature(features[k], 1.0), edges

    @override
    def ways(self, learner: ActiveFeature) -> Sequence[ActiveFeature]:
        return [learner, learner._replace(sign=-learner.sign)]

    @override
    def responses(self, learners: Sequence[ActiveFeature]) -> sparse.csr_array:
        everywhere = np.arange(self._n_parts, dtype=np.int32)
        rows, values = [everywhere[:0]], [np.zeros(0, np.int8)]
        for feature, sign in learners:
            at, place = everywhere, int(np.searchsorted(self._features, feature))
            if feature >= 0:
                at = self._parts_of.indices[slice(*self._parts_of.indptr[place : place + 2])]
            rows.append(at)
            values.append(np.full(len(at), sign, np.int8))
        ends = np.cumsum([len(at) for at in rows])
        entries = np.concatenate(values), np.concatenate(rows), ends
        return sparse.csr_array(entries, (len(learners), self._n_parts))

    @override
    def table(self, learners: Sequence[ActiveFeature]) -> ActiveFeatureTable:
        return ActiveFeatureTable.of(learners)


def _active(rows: AnyArray) -> tuple[IntArray, IntArray]:
    """Return the active features of all rows, one after the other, and where each row begins."""
    is_active = rows >= 0
    ends = np.append(0, np.cumsum(is_active.sum(axis=1)))
    return rows[is_active].astype(np.int64), ends


@compiled
def _add_gains(
    indices: ShortArray, ends: IntArray, place: ShortArray, gains: FloatArray, out: FloatArray
) -> None:
    for p in range(out.shape[0]):
        for s in range(ends[p], ends[p + 1]):
            f = indices[s]
            if f < len(place) and place[f] >= 0:
                for c in range(out.shape[1]):
                    out[p, c] += gains[place[f], c]
