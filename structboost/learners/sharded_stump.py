"""Decision stumps on features in shards, which send histograms only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.learners.base import Candidate, TrainingFeatures
from structboost.learners.binning import BinnedFeatures, Thresholds, binned_features, codes_sum
from structboost.learners.block_measures import BlockMeasure, entry_values
from structboost.learners.candidates import best_ways
from structboost.learners.histogram import histograms
from structboost.learners.responses import DualsInShards, FeaturesOfRows, ResponsesInShard
from structboost.learners.stump import Found, Kernel, Stump, StumpSearch, feature_groups
from structboost.learners.terms import Terms
from structboost.runtime.compiled import compiled


class StumpCodes(NamedTuple):
    """Stumps on binned features.

    Each responds with ``left`` where the bin of ``feature`` is at most ``bin``, else ``right``.
    """

    feature: IntArray
    bin: IntArray
    left: FloatArray
    right: FloatArray

    @property
    def n_learners(self) -> int:
        """Number of stumps."""
        return len(self.feature)


class StumpResponses(ResponsesInShard):
    """Responses of stumps by look-up in the codes of their features, without a store."""

    def __init__(self, binned: BinnedFeatures) -> None:
        super().__init__(binned.codes.T, binned.blocks)
        self.binned = binned
        self.codes = binned.codes
        self.stumps = StumpCodes(
            np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
        )

    @override
    def add(self, new: StumpCodes) -> int:
        first = len(self.stumps.feature)
        self.stumps = StumpCodes(
            *(np.concatenate(pair) for pair in zip(self.stumps, new, strict=True))
        )
        return first

    @override
    def sums(self, duals: FloatArray, first: int, last: int) -> FloatArray:
        return histograms(self.binned, duals, first, last)

    @override
    def features_sum(self, first_row: int) -> int:
        return int(codes_sum(self.codes, first_row))

    @override
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        _add_stump_scores(self.codes, *self.stumps, *terms[1:], first, out)

    @override
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        _add_stump_products(
            self.codes, (*self.stumps,), terms.learners, terms.channels, (*measure,), first, out
        )


class BinsOfRows(NamedTuple):
    """Bins of the features of a shard."""

    bins: Thresholds

    @property
    def identity(self) -> tuple[FloatArray, IntArray]:
        """Thresholds, and the start of those of each column."""
        return self.bins.values, self.bins.indptr

    def in_shard(self, features: FeaturesOfRows, starts: IntArray) -> StumpResponses:
        """Bin the features of a shard."""
        return StumpResponses(binned_features(features.codes(self.bins), self.bins, starts))


class ShardedStumps(StumpSearch):
    """Family of stumps on binned features, of which only the thresholds are in memory.

    Parameters
    ----------
    bins : Thresholds
    response : (float, float)
        The two responses of a stump (:class:`structboost.PartKind`).
    rows : ndarray, shape (n_parts, n_features), optional
        The features, if they are in memory as well.
    """

    def __init__(
        self, bins: Thresholds, response: tuple[float, float], rows: NDArray[Any] | None = None
    ) -> None:
        super().__init__(bins, response, rows)
        self.shard_features = BinsOfRows(bins)

    @classmethod
    def of_kind(
        cls,
        features: TrainingFeatures,
        kind: str,
        response: tuple[float, float],
        *,
        exact: bool | None,
    ) -> ShardedStumps:
        """Make the family for the parts of a kind."""
        rows = None if features.rows is None else features.rows[kind]
        return cls(features.bins(kind, exact=exact), response, rows)

    @override
    def refine(self, learner: Stump, duals: DualsInShards) -> list[Candidate]:  # type: ignore[override]
        sums = duals.sums(learner.feature, learner.feature + 1)
        totals, below = sums[-1], sums[:-1][: learner.bin + 1].sum(axis=0)
        turned = self._stump(learner.feature, learner.bin, learner.left == self.low)
        ways = (learner, turned)
        edges = [way.left * below + way.right * (totals - below) for way in ways]
        return best_ways(ways, np.array(edges))

    @override
    def responses(self, learners: Sequence[Stump]) -> StumpCodes:
        return StumpCodes(
            np.array([s.feature for s in learners], np.int64),
            np.array([s.bin for s in learners], np.int64),
            np.array([s.left for s in learners], np.float64),
            np.array([s.right for s in learners], np.float64),
        )

    @override
    def _gathered(self, duals: DualsInShards) -> FloatArray:
        return duals.gathered()

    @override
    def _search(self, duals: DualsInShards, kernel: Kernel, splits: Found) -> FloatArray:
        totals = np.zeros(0)
        for group in feature_groups(self.bins.n_bins, duals.shape[1]):
            sums = duals.sums(*group)
            totals = sums[-1]
            self._fill(kernel, splits, sums[:-1], totals, group)
        return totals


@compiled
def _add_stump_scores(
    codes: NDArray[Any],
    feature: IntArray,
    bin_: IntArray,
    left: FloatArray,
    right: FloatArray,
    learners: IntArray,
    channels: IntArray,
    weights: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    n_rows = out.shape[1]
    for t in range(len(learners)):
        k = learners[t]
        row = out[channels[t]]
        at_left, at_right = weights[t] * left[k], weights[t] * right[k]
        if bin_[k] < 0:
            for p in range(n_rows):
                row[p] += at_right
        else:
            code = codes[feature[k], first : first + n_rows]
            for p in range(n_rows):
                row[p] += at_left if code[p] <= bin_[k] else at_right


@compiled
def _add_stump_products(
    codes: NDArray[Any],
    stumps: tuple[IntArray, IntArray, FloatArray, FloatArray],
    learners: IntArray,
    channels: IntArray,
    measure: tuple[NDArray[np.uint16], NDArray[np.uint8], FloatArray, IntArray],
    first: int,
    out: FloatArray,
) -> None:
    feature, bin_, left, right = stumps
    parts, value_codes, levels, indptr = measure
    values = entry_values(value_codes, levels)
    # Looked up by the comparison: a branch that cannot be foretold takes four times as long.
    responses = np.empty(2)
    for t in range(len(learners)):
        k = learners[t]
        code = codes[feature[k], first:]
        responses[0], responses[1], last = right[k], left[k], bin_[k]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * responses[np.int64(np.int64(code[parts[e]]) <= last)]
        out[t] += total
