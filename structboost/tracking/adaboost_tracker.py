"""Tracker by binary AdaBoost, with which Table 4 of StructBoost compares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.runtime.compiled import compiled
from structboost.tracking.box_learner import BoxLearner, StumpVote, stump_vote
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.frame_store import N_BINS, FrameStore
from structboost.validation import checked_whole_number

# A box is the object above the first overlap and background up to the second; boxes in between
# are left out (section 4.4).
_POSITIVE_ABOVE, _NEGATIVE_UP_TO = 0.8, 0.3
_FIRST_WEIGHT = 0.1
# Boxes drawn at random for a training, and features drawn in each round.
_N_ROWS = 1500
_N_TRIED = 48
_SMALLEST_ERROR = 1e-6


class AdaBoostTracker(BoxTracker):
    """Tracker by discrete AdaBoost on stumps that separate the object from the background.

    Boxes that overlap the object by more than 0.8 are positive examples, those by at most 0.3
    negative ones, and each class has half of the weight.  Each training starts anew on 1,500 boxes
    of the stored frames and with 48 features per round, all drawn at random, since 500 rounds on
    all boxes and features would take seconds.

    Parameters
    ----------
    n_rounds : int
        Number of stumps; the paper has 500.
    n_kept : int
        Number of stored frames, including the first ones.
    n_boxes, every, lost_below, random_state
        As in :class:`structboost.tracking.BoxTracker`.

    Examples
    --------
    >>> from structboost.tracking import AdaBoostTracker, make_synthetic_clip
    >>> clip = make_synthetic_clip(3)
    >>> tracker = AdaBoostTracker(random_state=0).init(clip.frames[0], clip.boxes[0])
    >>> tracker.update(clip.frames[1]).shape
    (4,)
    >>> tracker.lost
    False
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
        learner = AdaBoostLearner(n_rounds=n_rounds, n_kept=n_kept)
        super().__init__(
            learner, n_boxes=n_boxes, every=every, lost_below=lost_below, random_state=random_state
        )


class AdaBoostLearner(BoxLearner):
    """Learner of :class:`AdaBoostTracker`."""

    def __init__(self, *, n_rounds: int, n_kept: int) -> None:
        self.n_rounds = checked_whole_number(n_rounds, "n_rounds")
        self.n_kept = checked_whole_number(n_kept, "n_kept")

    @override
    def begin(self, n_boxes: int, n_features: int, random: np.random.RandomState) -> None:
        self._frames = FrameStore(self.n_kept, n_boxes, n_features, _FIRST_WEIGHT)
        self._random = random

    @override
    def add(self, features: NDArray[np.float32], boxes: FloatArray, *, first: bool) -> None:
        self._frames.add(features, boxes, first=first)

    @override
    def train(self, *, initial: bool) -> StumpVote:
        frames = self._frames
        overlap = 1.0 - frames.losses[: frames.n_rows]
        classes = (
            np.flatnonzero(overlap > _POSITIVE_ABOVE),
            np.flatnonzero(overlap <= _NEGATIVE_UP_TO),
        )
        rows = [self._random.permutation(part)[: _N_ROWS // 2] for part in classes]
        sizes = [len(part) for part in rows]
        signs = np.repeat([1.0, -1.0], sizes)
        weights = np.repeat([0.5 / max(size, 1) for size in sizes], sizes)
        codes = np.ascontiguousarray(frames.codes[np.concatenate(rows)].T)
        tried = self._random.randint(0, len(codes), (self.n_rounds, _N_TRIED))
        features, bins, votes = _adaboost(codes, signs, weights, tried)
        thresholds = frames.thresholds[features, bins]
        return stump_vote(features, thresholds, votes / np.abs(votes).sum())


@compiled
def _adaboost(
    codes: NDArray[np.uint8], signs: FloatArray, weights: FloatArray, tried: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Boost stumps, each of which votes for the object up to its bin.

    The object has the sign 1, and the background -1.  The weights sum to 1.  Round k compares the
    features ``tried[k]``.  Returns features, bins and votes, each of shape (n_rounds,).
    """
    n_rounds = len(tried)
    features, bins = np.zeros(n_rounds, np.int64), np.zeros(n_rounds, np.int64)
    votes = np.zeros(n_rounds)
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
            response = 1.0 if codes[features[r], i] <= bins[r] else -1.0
            weights[i] *= np.exp(-votes[r] * response * signs[i])
        weights /= weights.sum()
    return features, bins, votes
