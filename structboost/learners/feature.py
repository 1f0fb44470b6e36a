"""Features as weak learners, for linear predictors that use few of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, Range, override
from structboost.files.archive import Array
from structboost.learners.base import (
    ListedFamily,
    check_has_rows,
    check_signed,
)
from structboost.learners.standardisation import check_sizes
from structboost.learners.table import LearnerTable, LookupTable, shares_of_one

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
