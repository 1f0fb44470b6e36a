"""Tracker by StructBoost (sections 3.5 and 4.4 of StructBoost)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, override
from structboost.runtime.compiled import compiled
from structboost.tracking.box_learner import BoxLearner, StumpVote, stump_vote
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.online_master import N_BINS, FrameStore, OnlineMaster
from structboost.validation import checked_positive, checked_whole_number

# Smallest weight in the risk of the first frames, the only ones whose box is certain.
_FIRST_WEIGHT = 0.2
# Rounds, tolerance and cuts of a training, of which the first has time.
_FIRST_TRAINING, _TRAINING = (20, 0.03, 10), (1, 0.1, 3)
_COLUMNS_PER_ROUND = 80
_EDGE_TOLERANCE = 1e-6
# Trainings after which columns without weight are dropped.
_MAX_IDLE = 5


class StructBoostTracker(BoxTracker):
    """Tracker by stumps trained on the overlap of boxes, with warm-started column generation.

    Training minimises the 1-slack risk (9) of :class:`structboost.tasks.BoxOverlapTask` over the
    first frames and the most recent ones, with a ridge that spreads the weight over many stumps.
    Cuts, columns and multipliers carry over, so a training after a new frame takes 10 to 20 ms.

    Parameters
    ----------
    C : float
        Weight of the risk.
    ridge : float
        Weight of the squares of the stumps' weights.
    n_stumps : int
        Largest number of stumps.
    n_kept : int
        Number of stored frames, including the first ones.
    n_boxes, every, lost_below, random_state
        As in :class:`structboost.tracking.BoxTracker`.

    Examples
    --------
    >>> from structboost.tracking import StructBoostTracker, make_synthetic_clip
    >>> clip = make_synthetic_clip(3)
    >>> tracker = StructBoostTracker().init(clip.frames[0], clip.boxes[0])
    >>> tracker.update(clip.frames[1]).shape
    (4,)
    """

    def __init__(
        self,
        *,
        C: float = 30.0,
        ridge: float = 300.0,
        n_stumps: int = 900,
        n_kept: int = 60,
        n_boxes: int = 200,
        every: int = 2,
        lost_below: float = 0.1,
        random_state: int = 0,
    ) -> None:
        learner = StructBoostLearner(C=C, ridge=ridge, n_stumps=n_stumps, n_kept=n_kept)
        super().__init__(
            learner, n_boxes=n_boxes, every=every, lost_below=lost_below, random_state=random_state
        )


class StructBoostLearner(BoxLearner):
    """Learner of :class:`StructBoostTracker`."""

    def __init__(self, *, C: float, ridge: float, n_stumps: int, n_kept: int) -> None:
        self.C = checked_positive(C, "C")
        self.ridge = checked_positive(ridge, "ridge")
        self.n_stumps = checked_whole_number(n_stumps, "n_stumps")
        self.n_kept = checked_whole_number(n_kept, "n_kept")
        if self.n_kept < 10:
            raise ValueError(f"n_kept is {n_kept!r}; give at least 10.")

    @override
    def begin(self, n_boxes: int, n_features: int, random: np.random.RandomState) -> None:
        self.frames = FrameStore(self.n_kept, n_boxes, n_features, _FIRST_WEIGHT)
        room = self.n_stumps + _COLUMNS_PER_ROUND
        self.master = OnlineMaster(self.frames, self.C, self.ridge, room)
        # For each stump: feature, bin, sign of the response up to it, trainings without weight.
        self._features = np.zeros(0, np.int64)
        self._bins = np.zeros(0, np.int64)
        self._signs = np.zeros(0, np.int8)
        self._idle = np.zeros(0, np.int64)

    @override
    def add(self, features: NDArray[np.float32], boxes: FloatArray, *, first: bool) -> None:
        slot = self.frames.add(features, boxes, first=first)
        self._respond(self.frames.rows(slot), 0)
        self.master.renew(slot)

    @override
    def train(self, *, initial: bool) -> StumpVote:
        self.boost(*(_FIRST_TRAINING if initial else _TRAINING))
        return self.vote()

    def boost(self, n_rounds: int, tolerance: float, max_cuts: int) -> None:
        """Alternate :meth:`OnlineMaster.solve` and pricing, ending with a solve."""
        for _ in range(n_rounds):
            self.master.solve(tolerance, max_cuts)
            self._drop_columns()
            if not self._price():
                return
        self.master.solve(tolerance, max_cuts)
        self._idle = np.where(self.master.weights > 0, 0, self._idle + 1)

    def vote(self) -> StumpVote:
        """Return the vote of the stumps that have weight."""
        used = np.flatnonzero(self.master.weights > 0)
        features = self._features[used]
        thresholds = self.frames.thresholds[features, self._bins[used]]
        return stump_vote(features, thresholds, self.master.weights[used] * self._signs[used])

    def _price(self) -> bool:
        """Add the stumps of largest edge on different features, if any violates its constraint.

        A stump of the model has an edge of 1 and the ridge times its weight.  It would hide its
        neighbours, so it is skipped.
        """
        rows, duals = self.master.duals()
        if not len(rows):
            return False
        codes = np.ascontiguousarray(self.frames.codes[rows].T)
        in_model = np.zeros((len(codes), N_BINS, 2), np.bool_)
        in_model[self._features, self._bins, (self._signs > 0).astype(np.int64)] = True
        edges, bins = np.empty(len(codes)), np.empty(len(codes), np.int64)
        signs = np.empty(len(codes), np.int8)
        _best_new_stumps(codes, duals, in_model, edges, bins, signs)
        new = np.argsort(-edges, kind="stable")[:_COLUMNS_PER_ROUND]
        new = new[edges[new] > 1.0 + _EDGE_TOLERANCE]
        if not len(new):
            return False
        first = len(self._features)
        self._features = np.concatenate((self._features, new))
        self._bins = np.concatenate((self._bins, bins[new]))
        self._signs = np.concatenate((self._signs, signs[new]))
        self._idle = np.concatenate((self._idle, np.zeros(len(new), np.int64)))
        self._respond(slice(self.frames.n_rows), first)
        self.master.add_columns(len(new))
        return True

    def _respond(self, rows: slice, first: int) -> None:
        """Compute the responses of the stumps from ``first`` on, on the boxes of some rows."""
        codes, responses = self.frames.codes[rows], self.master.responses[rows]
        _respond(codes, self._features, self._bins, self._signs, responses, first)

    def _drop_columns(self) -> None:
        """Drop idle columns, and the lightest ones where there are still too many."""
        if len(self._features) <= self.n_stumps:
            return
        weights = self.master.weights
        mask = self._idle <= _MAX_IDLE
        if mask.sum() > self.n_stumps:
            mask[np.lexsort((np.arange(len(weights)), -weights))[self.n_stumps :]] = False
        old = self.master.keep_columns(mask)
        self._features, self._bins = self._features[old], self._bins[old]
        self._signs, self._idle = self._signs[old], self._idle[old]


@compiled
def _respond(
    codes: NDArray[np.uint8],
    features: NDArray[np.int64],
    bins: NDArray[np.int64],
    signs: NDArray[np.int8],
    out: NDArray[np.int8],
    first: int,
) -> None:
    for p in range(len(codes)):
        for k in range(first, len(features)):
            out[p, k] = signs[k] if codes[p, features[k]] <= bins[k] else -signs[k]


@compiled
def _best_new_stumps(
    codes: NDArray[np.uint8],
    duals: FloatArray,
    in_model: NDArray[np.bool_],
    edges: FloatArray,
    bins: NDArray[np.int64],
    signs: NDArray[np.int8],
) -> None:
    """Find the stump of largest edge on each feature, excluding those ``in_model``.

    The library's histograms (:mod:`structboost.learners.histogram`) take any number of channels and
    blocks of rows, and four times as long (docs/decisions.md).

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_features, n_rows)
    duals : ndarray, shape (n_rows,)
    in_model : ndarray of bool, shape (n_features, N_BINS, 2)
        By feature, bin, and whether the sign is positive.
    edges, bins, signs : ndarray, shape (n_features,)
        Filled; the response of a stump is ``sign`` up to its bin, and ``-sign`` above.
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
            if abs(edge) > edges[f] and not in_model[f, b, 1 if sign > 0 else 0]:
                edges[f], bins[f], signs[f] = abs(edge), b, sign
