"""Column generation that never ends: stumps of a tracker, priced again and again on the frames it keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.tracking.kept_frames import N_BINS, KeptFrames
from structboost.tracking.online_master import OnlineMaster

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
        """Add the stumps of largest edge that are not held, each on a feature of its own; False if none is violated.

        A held one has an edge of 1 and the ridge times its weight: it would stand before its neighbours.
        """
        rows, duals = self.master.duals()
        if not len(rows):
            return False
        codes = np.ascontiguousarray(self.frames.codes[rows].T)
        known = np.zeros((len(codes), N_BINS, 2), np.bool_)
        known[self._features, self._bins, (self._signs > 0).astype(np.int64)] = True
        edges, bins = np.empty(len(codes)), np.empty(len(codes), np.int64)
        signs = np.empty(len(codes), np.int8)
        _best_new_stumps(codes, duals, known, edges, bins, signs)
        new = np.argsort(-edges, kind="stable")[: self.columns_per_round]
        new = new[edges[new] > 1.0 + _EDGE_TOLERANCE]
        if not len(new):
            return False
        first = len(self._features)
        self._features = np.concatenate((self._features, new))
        self._bins = np.concatenate((self._bins, bins[new]))
        self._signs = np.concatenate((self._signs, signs[new]))
        self._idle = np.concatenate((self._idle, np.zeros(len(new), np.int64)))
        used = slice(self.frames.n_rows)
        _respond(self.frames.codes[used], self._features, self._bins, self._signs, self.master.responses[used], first)
        self.master.add_columns(len(new))
        return True

    def _drop_columns(self) -> None:
        """Drop idle columns, and the lightest where there are too many."""
        if len(self._features) <= self.max_columns:
            return
        weights = self.master.weights
        kept = self._idle <= _MAX_IDLE
        if kept.sum() > self.max_columns:
            kept[np.lexsort((np.arange(len(weights)), -weights))[self.max_columns :]] = False
        numbers = self.master.keep_columns(kept)
        self._features, self._bins = self._features[numbers], self._bins[numbers]
        self._signs, self._idle = self._signs[numbers], self._idle[numbers]


@njit(cache=True, nogil=True)
def _best_new_stumps(
    codes: NDArray[np.uint8],
    duals: NDArray[np.float64],
    known: NDArray[np.bool_],
    edges: NDArray[np.float64],
    bins: NDArray[np.int64],
    signs: NDArray[np.int8],
) -> None:
    """Stump of largest edge on each feature that is not ``known``, by a histogram of the duals.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_features, n_rows)
    duals : ndarray, shape (n_rows,)
    known : ndarray of bool, shape (n_features, N_BINS, 2)
        By feature, bin, and whether the sign is positive.
    edges, bins, signs : ndarray, shape (n_features,)
        Filled; a stump answers ``sign`` up to its bin, and ``-sign`` above.
    """
    histogram = np.zeros(N_BINS)
    total = duals.sum()
    for f in range(len(codes)):
        histogram[:] = 0.0
        for i in range(len(duals)):
            histogram[codes[f, i]] += duals[i]
        edges[f], bins[f], signs[f] = -np.inf, 0, 1
        below = 0.0
        for b in range(N_BINS - 1):
            below += histogram[b]
            edge = 2.0 * below - total
            sign = 1 if edge > 0 else -1
            if abs(edge) > edges[f] and not known[f, b, 1 if sign > 0 else 0]:
                edges[f], bins[f], signs[f] = abs(edge), b, sign


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
