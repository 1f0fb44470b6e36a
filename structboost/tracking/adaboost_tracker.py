"""A tracker by binary AdaBoost: what StructBoost is compared with in Table 4."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.tracking.box_sampling import Boxes
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.kept_frames import N_BINS, KeptFrames
from structboost.tracking.online_boosting import StumpVote, stump_vote
from structboost.validation import checked_positive

# Overlap above which a box is the object, and up to which it is not; those between are left out (section 4.4).
_POSITIVE_ABOVE, _NEGATIVE_UP_TO = 0.8, 0.3
_FIRST_SHARE = 0.1
# A training looks at so many boxes of the kept frames, and in each round at so many features, drawn at random.
_N_ROWS = 1500
_N_TRIED = 48
_SMALLEST_ERROR = 1e-6


class AdaBoostTracker(BoxTracker):
    """Discrete AdaBoost on stumps, object against background, in the loop of :class:`StructBoostTracker`.

    Boxes that overlap the object by more than 0.8 are examples of it, those by at most 0.3 of the background;
    both have half of the weight.  It is trained anew each time, on 1,500 boxes of the frames kept and, in each round,
    on 48 features, all drawn at random: 500 rounds over everything would take seconds.

    Parameters
    ----------
    n_rounds : int
        Stumps; the paper has 500.
    n_kept : int
        Frames kept, the first ones included.
    n_boxes, every, lost_below, random_state
        As in :class:`structboost.tracking.box_tracker.BoxTracker`.
    """

    def __init__(
        self,
        *,
        n_rounds: int = 500,
        n_kept: int = 60,
        n_boxes: int = 200,
        every: int = 2,
        lost_below: float = 0.1,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_boxes=n_boxes, every=every, lost_below=lost_below, random_state=random_state)
        self.n_rounds = int(checked_positive(n_rounds, "n_rounds"))
        self.n_kept = int(checked_positive(n_kept, "n_kept"))

    def _begin(self, n_features: int) -> None:
        self._frames = KeptFrames(self.n_kept, self.n_boxes, n_features, _FIRST_SHARE)

    def _take_in(self, features: NDArray[np.float32], boxes: Boxes, shares: NDArray[np.float64], first: bool) -> None:
        self._frames.add(features, 1.0 - shares, first=first)

    def _train(self, *, initial: bool) -> None:
        frames = self._frames
        overlap = 1.0 - frames.losses[: frames.n_rows]
        positive = np.flatnonzero(overlap > _POSITIVE_ABOVE)
        negative = np.flatnonzero(overlap <= _NEGATIVE_UP_TO)
        rows = [self._random.permutation(part)[: _N_ROWS // 2] for part in (positive, negative)]
        signs = np.repeat([1.0, -1.0], [len(part) for part in rows])
        weights = np.repeat([0.5 / max(len(part), 1) for part in rows], [len(part) for part in rows])
        codes = np.ascontiguousarray(frames.codes[np.concatenate(rows)].T)
        tried = self._random.randint(0, len(codes), (self.n_rounds, _N_TRIED))
        features, bins, votes = _adaboost(codes, signs, weights, tried)
        self._vote = stump_vote(features, frames.thresholds[features, bins], votes / np.abs(votes).sum())

    def _learned(self) -> StumpVote:
        return self._vote


@njit(cache=True, nogil=True)
def _adaboost(
    codes: NDArray[np.uint8], signs: NDArray[np.float64], weights: NDArray[np.float64], tried: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Feature, bin and vote of a stump each round; its vote is for the object up to the bin.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_features, n_rows)
    signs, weights : ndarray, shape (n_rows,)
        1 for the object, -1 for the background; the weights sum to 1.
    tried : ndarray, shape (n_rounds, n_tried)
        Features looked at in each round.
    """
    n_rounds = len(tried)
    features, bins, votes = np.zeros(n_rounds, np.int64), np.zeros(n_rounds, np.int64), np.zeros(n_rounds)
    weights = weights.copy()
    histogram = np.zeros(N_BINS)
    for r in range(n_rounds):
        total = (weights * signs).sum()
        largest = -1.0
        edge = 0.0
        for f in tried[r]:
            histogram[:] = 0.0
            for i in range(len(signs)):
                histogram[codes[f, i]] += weights[i] * signs[i]
            left = 0.0
            for b in range(N_BINS - 1):
                left += histogram[b]
                if abs(2.0 * left - total) > largest:
                    largest = abs(2.0 * left - total)
                    edge = 2.0 * left - total
                    features[r], bins[r] = f, b
        error = min(max(0.5 * (1.0 - abs(edge)), _SMALLEST_ERROR), 1.0 - _SMALLEST_ERROR)
        vote = 0.5 * np.log((1.0 - error) / error)
        votes[r] = vote if edge > 0 else -vote
        for i in range(len(signs)):
            answer = 1.0 if codes[features[r], i] <= bins[r] else -1.0
            weights[i] *= np.exp(-votes[r] * answer * signs[i])
        weights /= weights.sum()
    return features, bins, votes
