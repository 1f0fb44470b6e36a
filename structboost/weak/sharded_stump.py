"""Decision stumps on features that lie in shards: only histograms come home."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from structboost.weak.base import Candidate
from structboost.weak.binning import Thresholds
from structboost.weak.stump import Search, Stump, StumpCodes, StumpSearch, feature_groups


class DualHistograms(Protocol):
    """Signed weights of all parts and channels, known by their sums over bins."""

    @property
    def shape(self) -> tuple[int, int]:
        """Parts and channels."""

    def histograms(self, first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over the bins of the features ``first <= f < last``, one below the other, and over all parts."""


class ShardedStumps(StumpSearch):
    """Stumps on binned features of which only the thresholds are at hand.

    Parameters
    ----------
    bins : Thresholds
    response : (float, float)
        The two answers of a stump (:class:`structboost.task.PartKind`).
    """

    def __init__(self, bins: Thresholds, response: tuple[float, float]) -> None:
        super().__init__(bins, response)

    def refine(self, learner: Stump, duals: DualHistograms) -> list[Candidate]:  # type: ignore[override]
        """The split of ``learner`` on every channel, turned the way the channel prefers."""
        found, totals = duals.histograms(learner.feature, learner.feature + 1)
        below = found[: learner.bin + 1].sum(axis=0)
        turned = self._stump(learner.feature, learner.bin, learner.left == self.low)
        ways = (learner, turned)
        edges = [way.left * below + way.right * (totals - below) for way in ways]
        return [
            Candidate(ways[int(way)], channel, float(edges[way][channel]))
            for channel, way in enumerate(np.argmax(edges, axis=0))
        ]

    def responses(self, learners: Sequence[Stump]) -> StumpCodes:  # type: ignore[override]
        """The stumps by their bins: the shards look the answers up."""
        return StumpCodes(
            np.array([s.feature for s in learners], np.int64),
            np.array([s.bin for s in learners], np.int64),
            np.array([s.left for s in learners], np.float64),
            np.array([s.right for s in learners], np.float64),
        )

    def _search(self, duals: DualHistograms, search: Search) -> NDArray[np.float64]:
        n_bins = self.bins.n_bins
        totals = np.zeros(0)
        for first, last in feature_groups(n_bins, duals.shape[1]):
            found, totals = duals.histograms(first, last)
            search(found, n_bins[first:last], totals, first, last)
        return totals
