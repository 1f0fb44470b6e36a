"""Features as weak learners, for linear predictors that use few of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.files.archive import Array
from structboost.learners.base import (
    Listed,
    ListedFamily,
    check_family_arguments,
    check_has_rows,
)
from structboost.learners.standardisation import check_sizes
from structboost.learners.table import LearnerTable, LookupTable, shares_of_one
from structboost.validation import checked_array

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

    schema: ClassVar[Mapping[str, Array]] = {
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

    If responses may be negative, features are centred and scaled into -1..1, as ShareBoost assumes
    them, and the other orientation is ``-x``.  Where ``response`` is (0, 1), they are scaled into
    0..1, and the other orientation is ``1 - x``.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts.
    response : (float, float)
        The two responses.
    groups : array-like of int, shape (n_features,), optional
        Features of one group are chosen together (section 2.1).  By default each is a group.
    """

    name = "feature"
    exact_pricing = True

    def __init__(
        self,
        features: AnyArray,
        response: tuple[float, float] = (-1.0, 1.0),
        *,
        groups: Any = None,
    ) -> None:
        check_family_arguments(features, response)
        check_has_rows(features, self.name)
        check_sizes(np.abs(features).max(axis=0), self.name, _LARGEST)
        rows = np.asarray(features, np.float32)
        self.n_features = rows.shape[1]
        self._groups = _checked_groups(groups, self.n_features)
        # Sum of a feature in both orientations.
        self._whole = 1.0 if min(response) >= 0 else 0.0
        self._centers = rows.min(axis=0) if self._whole else rows.mean(axis=0, dtype=np.float64)
        self._centers = self._centers.astype(np.float64)
        scaled = np.ones((self.n_features + 1, len(rows)), np.float32)
        scaled[:-1] = (rows - self._centers.astype(np.float32)).T
        sizes = np.abs(scaled[:-1]).max(axis=1)
        self._scales = np.where(sizes > 0, sizes, 1.0).astype(np.float64)
        scaled[:-1] /= self._scales.astype(np.float32)[:, None]
        self._scaled = scaled

    @override
    def listed(self, duals: FloatArray) -> Listed:
        edges = self._edges(duals)
        turned = self._whole * duals.sum(axis=0) - edges
        if self._whole:
            turned[-1] = -np.inf  # the constant turned around is nothing
        return Listed(self._learner, edges, turned, self._groups)

    @override
    def ways(self, learner: Feature) -> Sequence[Feature]:
        is_alone = learner.feature < 0 and self._whole
        ways = (False,) if is_alone else (False, True)
        return [self._learner(learner.feature, turned) for turned in ways]

    @override
    def responses(self, learners: Sequence[Feature]) -> AnyArray:
        values = self._scaled[[learner.feature for learner in learners]]
        turned = [learner.scale < 0 for learner in learners]
        values[turned] = np.float32(self._whole) - values[turned]
        return values

    @override
    def table(self, learners: Sequence[Feature]) -> FeatureTable:
        return FeatureTable.of(learners)

    def _learner(self, row: int, turned: bool = False) -> Feature:
        if row in (-1, self.n_features):
            return Feature(-1, 0.0, -1.0 if turned else 1.0)
        center, scale = float(self._centers[row]), float(self._scales[row])
        return (
            Feature(row, center + self._whole * scale, -scale)
            if turned
            else Feature(row, center, scale)
        )

    def _edges(self, duals: FloatArray) -> FloatArray:
        return np.asarray(self._scaled @ duals.astype(np.float32), np.float64)


def _checked_groups(groups: Any, n_features: int) -> IntArray:
    """Group of each feature, and of the constant last, counted from 0 without gaps."""
    if groups is None:
        return np.arange(n_features + 1)
    array = checked_array(groups, "groups")
    if array.shape != (n_features,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"groups has shape {array.shape} and type {array.dtype}; give a whole number for each "
            f"of the {n_features} features."
        )
    codes = np.unique(array, return_inverse=True)[1]
    return np.append(codes, codes.max() + 1).astype(np.int64)
