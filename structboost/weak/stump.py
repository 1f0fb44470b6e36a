"""Decision stumps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.weak.base import Candidate, WeakLearnerFamily
from structboost.weak.binning import Thresholds, bin_features
from structboost.weak.histogram import best_shared_splits, best_splits, histograms

# What is called with the histograms of the features ``first <= f < last``, how many bins they have, and the totals.
Search = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], int, int], None]

# Numbers in the histograms that are held at a time.
_HELD_ENTRIES = 1 << 22
# Work (rows x features) below which threads cost more than they save.
_MIN_THREADED_WORK = 2_000_000
# Edges nearer than this, relatively, count as equal.
_TIE = 1e-6


class Stump(NamedTuple):
    """``left`` where ``features[feature] <= threshold``, else ``right``; constant at threshold -inf."""

    feature: int
    threshold: float
    left: float
    right: float
    bin: int


class StumpCodes(NamedTuple):
    """Stumps on binned features: ``left`` where the bin of ``feature`` is at most ``bin``, else ``right``."""

    feature: NDArray[np.int64]
    bin: NDArray[np.int64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]


@dataclass(frozen=True)
class StumpTable:
    """Stumps as arrays.

    Parameters
    ----------
    feature : ndarray of int64, shape (n_learners,)
    threshold, left, right : ndarray of float64, shape (n_learners,)
        ``left`` where the feature is at most the threshold, else ``right``.
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.feature)

    def responses(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Answers of all stumps on ``features``, shape (n_learners, n_parts)."""
        out = np.empty((len(self), len(features)))
        for k in range(len(self)):
            below = features[:, self.feature[k]] <= self.threshold[k]
            out[k] = np.where(below, self.left[k], self.right[k])
        return out

    def select(self, index: NDArray[np.int64]) -> StumpTable:
        """The stumps at ``index``."""
        return StumpTable(self.feature[index], self.threshold[index], self.left[index], self.right[index])

    def feature_shares(self, n_features: int) -> NDArray[np.float64]:
        """One for the feature a stump splits; nothing for constants."""
        out = np.zeros((len(self), n_features))
        split = np.flatnonzero(np.isfinite(self.threshold))
        out[split, self.feature[split]] = 1.0
        return out

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays a model file holds."""
        return {
            "feature": self.feature,
            "threshold": self.threshold,
            "left": self.left,
            "right": self.right,
        }


class StumpSearch(WeakLearnerFamily):
    """All stumps on the thresholds between the bins of each feature, and the constant, searched by histograms.

    Attributes
    ----------
    bins : Thresholds
    low, high : float
        The two answers of a stump.
    """

    name = "stump"
    exact_pricing = True
    learner_type = Stump

    def __init__(self, bins: Thresholds, response: tuple[float, float]) -> None:
        self.bins = bins
        self.n_features = bins.n_features
        self.low, self.high = response

    @abstractmethod
    def _search(self, duals: Any, search: Search) -> NDArray[np.float64]:
        """Call ``search`` with the histograms of all features, some features at a time; returns the totals."""

    def price(self, duals: Any, per_channel: int) -> list[Candidate]:
        """Best stumps of each channel, each on a feature of its own."""
        edges, bins, flipped, totals = self._best_splits(duals)
        found = []
        for channel, total in enumerate(totals):
            flip = self.low * total > self.high * total
            constant = Candidate(self._stump(0, -1, flip), channel, float((self.low if flip else self.high) * total))
            column = edges[:, channel]
            splits = [
                Candidate(
                    self._stump(int(f), int(bins[f, channel]), bool(flipped[f, channel])),
                    channel,
                    float(column[f]),
                )
                for f in np.argsort(-column, kind="stable")[:per_channel]
                if np.isfinite(column[f])
            ]
            best_split = splits[0].edge if splits else -np.inf
            # As good as any split: the simplest learner goes first, alone.
            simplest = constant.edge > 0 and constant.edge >= (1 - _TIE) * best_split
            # Its edge stands for theirs, so that the bound holds for the whole family.
            alone = constant._replace(edge=max(constant.edge, best_split))
            found += [alone] if simplest else splits if per_channel == 1 and splits else [*splits, constant]
        return sorted(found, key=lambda candidate: -candidate.edge)

    def table(self, learners: Sequence[Stump]) -> StumpTable:
        """The stumps as arrays."""
        return StumpTable(
            np.array([s.feature for s in learners], np.int64),
            np.array([s.threshold for s in learners], np.float64),
            np.array([s.left for s in learners], np.float64),
            np.array([s.right for s in learners], np.float64),
        )

    def _stump(self, feature: int, bin_: int, flip: bool) -> Stump:
        threshold = -np.inf if bin_ < 0 else self.bins.values[self.bins.indptr[feature] + bin_]
        left, right = (self.high, self.low) if flip else (self.low, self.high)
        return Stump(feature, float(threshold), left, right, bin_)

    def _best_splits(
        self, duals: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
        """Edge, bin and orientation of the best stump, each of shape (n_features, n_channels), and the totals."""
        shape = (self.n_features, duals.shape[1])
        edges, bins, flipped = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.bool_)

        def search(
            found: NDArray[np.float64], n_bins: NDArray[np.int64], totals: NDArray[np.float64], first: int, last: int
        ) -> None:
            best_splits(
                found, n_bins, totals, self.low, self.high, edges[first:last], bins[first:last], flipped[first:last]
            )

        totals = self._search(duals, search)
        return edges, bins, flipped, totals


class StumpFamily(StumpSearch):
    """Stumps on features that are at hand.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Training features, binned here once.
    response : (float, float)
        The two answers of a stump (:class:`structboost.task.PartKind`).
    exact : bool
        Whether all distinct thresholds are in the family, or 255 quantiles of a feature.
    n_threads : int
        Threads over features; the result does not depend on it.
    """

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        self.binned = bin_features(features, exact=exact)
        super().__init__(self.binned.bins, response)
        self.n_threads = n_threads

    def price_shared(self, duals: NDArray[np.float64], n_learners: int) -> list[tuple[Stump, NDArray[np.float64]]]:
        """Stumps of largest l1 norm of edges over the channels, each on a feature of its own."""
        norms, bins = np.empty(self.n_features), np.empty(self.n_features, np.int64)

        def search(
            found: NDArray[np.float64], n_bins: NDArray[np.int64], totals: NDArray[np.float64], first: int, last: int
        ) -> None:
            best_shared_splits(found, n_bins, totals, self.low, self.high, norms[first:last], bins[first:last])

        self._search(duals, search)
        chosen = [
            self._stump(int(f), int(bins[f]), flip=False)
            for f in np.argsort(-norms, kind="stable")[:n_learners]
            if np.isfinite(norms[f])
        ]
        candidates = [*chosen, self._stump(0, -1, flip=False)]
        edges = self.responses(candidates) @ duals
        order = np.argsort(-np.abs(edges).sum(axis=1), kind="stable")[:n_learners]
        return [(candidates[k], edges[k]) for k in order]

    def refine(self, learner: Stump, duals: NDArray[np.float64]) -> list[Candidate]:
        """The split of ``learner`` on every channel, turned the way the channel prefers."""
        turned = self._stump(learner.feature, learner.bin, learner.left == self.low)
        both = self.responses([learner, turned]) @ duals
        return [
            Candidate((learner, turned)[int(way)], channel, float(both[way, channel]))
            for channel, way in enumerate(np.argmax(both, axis=0))
        ]

    def responses(self, learners: Sequence[Stump]) -> NDArray[Any]:
        """Answers on the training parts, int8 where both answers are small integers."""
        whole = float(self.low).is_integer() and float(self.high).is_integer()
        out = np.empty((len(learners), self.binned.n_rows), np.int8 if whole else np.float32)
        for k, stump in enumerate(learners):
            below = self.binned.codes[stump.feature].astype(np.int64) <= stump.bin
            out[k] = np.where(below, stump.left, stump.right)
        return out

    def _search(self, duals: NDArray[np.float64], search: Search) -> NDArray[np.float64]:
        n_bins = self.bins.n_bins

        def run(group: tuple[int, int]) -> NDArray[np.float64]:
            first, last = group
            filled = histograms(self.binned, duals, first, last)
            totals: NDArray[np.float64] = filled[-1]
            search(filled[:-1], n_bins[first:last], totals, first, last)
            return totals

        groups = feature_groups(n_bins, duals.shape[1], self.n_threads)
        if self.n_threads == 1 or self.binned.n_rows * self.n_features < _MIN_THREADED_WORK:
            return [run(group) for group in groups][-1]
        with ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(run, groups))[-1]


def feature_groups(n_bins: NDArray[np.int64], n_channels: int, at_least: int = 1) -> list[tuple[int, int]]:
    """First and last features of groups whose histograms are held at a time; one group of none without features."""
    ends = np.cumsum(n_bins) * n_channels
    total = int(ends[-1]) if len(ends) else 0
    n_groups = min(max(at_least, -(-total // _HELD_ENTRIES)), max(1, len(n_bins)))
    if not len(n_bins):
        return [(0, 0)]
    bounds = np.searchsorted(ends, np.arange(1, n_groups) * (total / n_groups))
    starts = np.unique([0, *bounds.tolist(), len(n_bins)])
    return [(int(first), int(last)) for first, last in pairwise(starts)]
