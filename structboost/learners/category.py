"""Sets of categories as weak learners, the stumps of categorical features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import AnyArray, ByteArray, FloatArray, IntArray, override
from structboost.files.archive import Array, DamagedFileError, whole_number
from structboost.learners.base import (
    Candidate,
    WeakLearnerFamily,
    best_on_channels,
    response_type,
)
from structboost.learners.binning import (
    HALF,
    N_WORDS,
    bin_features,
    flags_of,
    for_all_categories,
    number_of_flags,
    words_of,
)
from structboost.learners.histogram import histograms
from structboost.learners.table import LearnerTable, LookupTable, shares_of_one


class CategorySet(NamedTuple):
    """Learner with the larger response on a set of bins, stored as bits of an integer."""

    feature: int
    members: int


@dataclass(frozen=True)
class CategoryTable(LearnerTable):
    """Table of sets of categories, as bits.

    ``missing_inside`` is whether missing values, and categories that are not in training, count as
    in the set.
    """

    schema = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "sets": Array("uint64", ("n_learners", N_WORDS)),
        "missing_inside": Array("uint8", ("n_learners",), high=1),
        "inside": Array("float64", ("n_learners",)),
        "outside": Array("float64", ("n_learners",)),
    }
    takes_missing = True

    feature: IntArray
    sets: NDArray[np.uint64]
    missing_inside: ByteArray
    inside: FloatArray
    outside: FloatArray

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        scorer = self.scorer(np.eye(len(self)), features.shape[1])
        return np.ascontiguousarray(scorer.raw_scores(features).T)

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_one(self.feature, n_features)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LookupTable:
        used, place = np.unique(self.feature, return_inverse=True)
        is_inside = flags_of(self.sets)
        n_bins = is_inside.shape[1]
        responses = np.where(is_inside, self.inside[:, None], self.outside[:, None])
        values = np.zeros((len(used), n_bins, weights.shape[1]))
        missing = np.zeros((len(used), weights.shape[1]))
        of_missing = np.where(self.missing_inside > 0, self.inside, self.outside)
        np.add.at(values, place, responses[:, :, None] * weights[:, None])
        np.add.at(missing, place, of_missing[:, None] * weights)
        thresholds = np.tile(np.arange(n_bins - 1) + HALF, len(used))
        return LookupTable(
            np.zeros(weights.shape[1]), used.astype(np.int64), thresholds,
            np.arange(len(used) + 1, dtype=np.int64) * (n_bins - 1),
            values.reshape(len(used) * n_bins, weights.shape[1]), n_features, missing,
        )  # fmt: skip


class CategoryFamily(WeakLearnerFamily):
    """Family of all sets of categories of each categorical feature.

    The edge of a set is a sum over its categories, so the best set of a channel holds the
    categories whose duals have a positive sum, and pricing is exact.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts.
    response : (float, float)
        The two responses.
    categorical : sequence of int
        Features that hold numbers of categories, from 0 to 254.
    """

    name = "category"
    exact_pricing = True
    can_resume = True
    takes_missing = True

    def __init__(
        self,
        features: AnyArray,
        response: tuple[float, float],
        *,
        categorical: Sequence[int] = (),
    ) -> None:
        self.n_features = features.shape[1]
        self.categorical = np.array(categorical, np.int64)
        of_categories = features[:, self.categorical]
        self.binned = bin_features(of_categories, categorical=range(len(self.categorical)))
        self.low, self.high = response
        self._ends = np.append(0, np.cumsum(self.binned.bins.n_bins))

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        sums = histograms(self.binned, duals, 0, len(self.categorical))
        totals, inside = sums[-1], sums[:-1] > 0
        gains = np.add.reduceat(np.maximum(sums[:-1], 0.0), self._ends[:-1], axis=0)
        edges = self.low * totals + (self.high - self.low) * gains

        def learner(j: int, c: int) -> CategorySet:
            members = number_of_flags(inside[self._ends[j] : self._ends[j + 1], c])
            return CategorySet(int(self.categorical[j]), members)

        return best_on_channels(edges, per_channel, learner)

    @override
    def ways(self, learner: CategorySet) -> Sequence[CategorySet]:
        every = 2 ** int(self.binned.bins.n_bins[self._column(learner)]) - 1
        return [learner, learner._replace(members=learner.members ^ every)]

    @override
    def restored(self, values: Sequence[Any]) -> CategorySet:
        category_set = CategorySet(*values)
        if category_set.feature not in self.categorical.tolist():
            raise DamagedFileError(f"feature {category_set.feature!r} has no categories")
        n_bins = int(self.binned.bins.n_bins[self._column(category_set)])
        whole_number(category_set.members, "set", 0, 2**n_bins - 1)
        return category_set

    @override
    def responses(self, learners: Sequence[CategorySet]) -> AnyArray:
        out = np.empty((len(learners), self.binned.n_rows), response_type(self.low, self.high))
        inside = flags_of(words_of(learner.members for learner in learners))
        for k, learner in enumerate(learners):
            is_inside = inside[k][self.binned.codes[self._column(learner)]]
            out[k] = np.where(is_inside, self.high, self.low)
        return out

    @override
    def table(self, learners: Sequence[CategorySet]) -> CategoryTable:
        words = words_of(learner.members for learner in learners)
        columns = np.array([self._column(learner) for learner in learners], np.int64)
        words, is_missing = for_all_categories(words, self.binned.bins.n_bins[columns])
        n = len(learners)
        return CategoryTable(
            self.categorical[columns], words, is_missing.astype(np.uint8),
            np.full(n, float(self.high)), np.full(n, float(self.low)),
        )  # fmt: skip

    def _column(self, learner: CategorySet) -> int:
        return int(np.searchsorted(self.categorical, learner.feature))
