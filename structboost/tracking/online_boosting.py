"""Column generation that never ends: stumps of a tracker, priced again and again on the frames it keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.tracking.kept_frames import N_BINS, KeptFrames
from structboost.tracking.online_master import OnlineMaster
from structboost.weak.histogram import best_splits

_EDGE_TOLERANCE = 1e-6
# Columns without weight after so many trainings go.
_MAX_IDLE = 5


class StumpVote(NamedTuple):
    """A weighted vote of stumps.

    Parameters
    ----------
    selected : ndarray of int64, shape (n_selected,)
        Features that any stump looks at.
    places : ndarray of int64, shape (n_stumps,)
        Which of the selected features each stump looks at.
    thresholds : ndarray of float32, shape (n_stumps,)
    votes : ndarray of float32, shape (n_stumps,)
        For boxes whose feature is at most the threshold; against those where it is above.
    """

    selected: NDArray[np.int64]
    places: NDArray[np.int64]
    thresholds: NDArray[np.float32]
    votes: NDArray[np.float32]

    def scores(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of boxes from their selected features, shape (n_boxes, n_selected)."""
        out = np.zeros(len(features), np.float32)
        _vote(features.T, self.places, self.thresholds, self.votes, out)
        return out.astype(np.float64)


def stump_vote(features: NDArray[np.int64], thresholds: NDArray[np.float32], votes: NDArray[np.float64]) -> StumpVote:
    """The vote of stumps on ``features``, each feature to be computed once."""
    selected, places = np.unique(features, return_inverse=True)
    return StumpVote(selected, places.astype(np.int64), thresholds.astype(np.float32), votes.astype(np.float32))


class OnlineStructBoost:
    """StructBoost on kept frames, its master and its columns warm from one training to the next.

    Parameters
    ----------
    frames : KeptFrames
    C, ridge : float
        Weights of the risk, and of the squares of the stumps' weights (:mod:`structboost.tracking.online_master`).
    max_columns : int
        Stumps held.
    columns_per_round : int
        Stumps added at a time.
    """

    def __init__(self, frames: KeptFrames, *, C: float, ridge: float, max_columns: int, columns_per_round: int) -> None:
        self.frames = frames
        self.max_columns = max_columns
        self.columns_per_round = columns_per_round
        self.master = OnlineMaster(frames, C, ridge, max_columns + columns_per_round)
        self._features = np.zeros(0, np.int64)
        self._bins = np.zeros(0, np.int64)
        self._signs = np.zeros(0, np.int8)
        self._idle = np.zeros(0, np.int64)

    def add(self, features: NDArray[np.float32], losses: NDArray[np.float64], *, first: bool) -> None:
        """Take in a frame (:meth:`KeptFrames.add`)."""
        slot = self.frames.add(features, losses, first=first)
        rows = self.frames.rows(slot)
        _respond(self.frames.codes[rows], self._features, self._bins, self._signs, self.master.responses[rows], 0)
        self.master.renew(slot)

    def train(self, n_rounds: int, tolerance: float, max_cuts: int) -> None:
        """Rounds of pricing, each after the master was solved (:meth:`OnlineMaster.solve`), and a last solve."""
        for _ in range(n_rounds):
            self.master.solve(tolerance, max_cuts)
            self._drop_columns()
            if not self._price():
                return
        self.master.solve(tolerance, max_cuts)
        self._idle = np.where(self.master.weights > 0, 0, self._idle + 1)

    def vote(self) -> StumpVote:
        """The stumps that have weight."""
        used = np.flatnonzero(self.master.weights > 0)
        features = self._features[used]
        thresholds = self.frames.thresholds[features, self._bins[used]]
        return stump_vote(features, thresholds, self.master.weights[used] * self._signs[used])

    def _price(self) -> bool:
        """Add the stumps of largest edge, each on a feature of its own; False if none is violated (10b)."""
        rows, duals = self.master.duals()
        if not len(rows):
            return False
        codes = np.ascontiguousarray(self.frames.codes[rows].T)
        n = len(codes)
        edges, bins, flipped = np.empty((n, 1)), np.empty((n, 1), np.int64), np.empty((n, 1), np.bool_)
        none = np.zeros(0, np.int32)
        best_splits(
            codes, np.full(n, N_BINS), np.full(n, -1), np.zeros(n + 1, np.int64), none, none.astype(np.uint8),
            np.arange(len(rows)), duals[:, None], -1.0, 1.0, edges, bins, flipped, 0, n,
        )  # fmt: skip
        best = np.argsort(-edges[:, 0], kind="stable")[: self.columns_per_round]
        best = best[edges[best, 0] > 1.0 + _EDGE_TOLERANCE]
        signs = np.where(flipped[best, 0], 1, -1).astype(np.int8)
        known = set(zip(self._features.tolist(), self._bins.tolist(), self._signs.tolist(), strict=True))
        stumps = zip(best.tolist(), bins[best, 0].tolist(), signs.tolist(), strict=True)
        new = np.array([stump not in known for stump in stumps], np.bool_)
        if not new.any():
            return False
        first = len(self._features)
        self._features = np.concatenate((self._features, best[new]))
        self._bins = np.concatenate((self._bins, bins[best[new], 0]))
        self._signs = np.concatenate((self._signs, signs[new]))
        self._idle = np.concatenate((self._idle, np.zeros(int(new.sum()), np.int64)))
        _respond(self.frames.codes, self._features, self._bins, self._signs, self.master.responses, first)
        self.master.add_columns(int(new.sum()))
        return True

    def _drop_columns(self) -> None:
        """Drop idle columns, and the lightest where there are too many."""
        if len(self._features) <= self.max_columns:
            return
        weights = self.master.weights
        kept = self._idle <= _MAX_IDLE
        if kept.sum() > self.max_columns:
            kept[np.lexsort((np.arange(len(weights)), -weights))[self.max_columns :]] = False
        numbers = np.flatnonzero(kept)
        self.master.keep_columns(numbers)
        self._features, self._bins = self._features[numbers], self._bins[numbers]
        self._signs, self._idle = self._signs[numbers], self._idle[numbers]


@njit(cache=True, nogil=True)
def _respond(
    codes: NDArray[np.uint8],
    features: NDArray[np.int64],
    bins: NDArray[np.int64],
    signs: NDArray[np.int8],
    out: NDArray[np.int8],
    first: int,
) -> None:
    """Answers of the stumps from ``first``."""
    for p in range(len(codes)):
        for k in range(first, len(features)):
            out[p, k] = signs[k] if codes[p, features[k]] <= bins[k] else -signs[k]


@njit(cache=True, nogil=True)
def _vote(
    features: NDArray[np.float32],
    places: NDArray[np.int64],
    thresholds: NDArray[np.float32],
    votes: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    for k in range(len(places)):
        row = features[places[k]]
        for i in range(len(out)):
            out[i] += votes[k] if row[i] <= thresholds[k] else -votes[k]
