"""Decision stumps on features in shards, which send histograms only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.weak.base import Candidate, TrainingFeatures
from structboost.weak.binning import Thresholds
from structboost.weak.candidates import best_ways
from structboost.weak.stump import Found, Kernel, Stump, StumpCodes, StumpSearch, feature_groups


class DualHistograms(Protocol):
    """Signed weights of all parts and channels, known by their sums over bins."""

    @property
    def shape(self) -> tuple[int, int]:
        """Parts and channels."""

    def histograms(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Sums over the bins of the features ``first <= f < last``, and over all parts."""

    def gathered(self) -> FloatArray:
        """The weights themselves, shape (n_parts, n_channels)."""


class ShardedStumps(StumpSearch):
    """Stumps on binned features of which only the thresholds are at hand.

    Parameters
    ----------
    bins : Thresholds
    response : (float, float)
        The two answers of a stump (:class:`structboost.PartKind`).
    rows : ndarray, shape (n_parts, n_features), optional
        The features, where they are here as well.
    """

    def __init__(
        self, bins: Thresholds, response: tuple[float, float], rows: NDArray[Any] | None = None
    ) -> None:
        super().__init__(bins, response, rows)
        self.shard_features = (bins,)

    @classmethod
    def of_kind(
        cls, features: TrainingFeatures, kind: str, response: tuple[float, float], *, exact: bool
    ) -> ShardedStumps:
        """The family on the parts of a kind."""
        rows = None if features.rows is None else features.rows[kind]
        return cls(features.bins(kind, exact=exact), response, rows)

    def refine(self, learner: Stump, duals: DualHistograms) -> list[Candidate]:  # type: ignore[override]
        """The split of ``learner`` on every channel, turned the way the channel prefers."""
        found, totals = duals.histograms(learner.feature, learner.feature + 1)
        below = found[: learner.bin + 1].sum(axis=0)
        turned = self._stump(learner.feature, learner.bin, learner.left == self.low)
        ways = (learner, turned)
        edges = [way.left * below + way.right * (totals - below) for way in ways]
        return best_ways(ways, np.array(edges))

    def responses(self, learners: Sequence[Stump]) -> StumpCodes:
        """The stumps by their bins: the shards look the answers up."""
        return StumpCodes(
            np.array([s.feature for s in learners], np.int64),
            np.array([s.bin for s in learners], np.int64),
            np.array([s.left for s in learners], np.float64),
            np.array([s.right for s in learners], np.float64),
        )

    def _gathered(self, duals: DualHistograms) -> FloatArray:
        return duals.gathered()

    def _search(self, duals: DualHistograms, kernel: Kernel, found: Found) -> FloatArray:
        totals = np.zeros(0)
        for group in feature_groups(self.bins.n_bins, duals.shape[1]):
            sums, totals = duals.histograms(*group)
            self._fill(kernel, found, sums, totals, group)
        return totals
