"""Learner of the tracker, by column generation over frames that come and go.

``min sum(w) + C * risk(w) + ridge / 2 * |w|^2`` over w >= 0, where the risk is the 1-slack risk (9)
of :class:`structboost.tasks.BoxOverlapTask` over the stored frames.  A linear program has its
optimum at a few stumps, and they change from one frame to the next.  The ridge spreads the weight
over many, and a tracker that votes with hundreds of stumps does not jump (docs/decisions.md).

A cut is the box that it chooses in each frame.  A new frame changes one entry of every cut.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from structboost._typing import (
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    ShortArray,
    SignArray,
    SingleArray,
    override,
)
from structboost.inference.boxes import overlaps
from structboost.runtime.compiled import compiled
from structboost.solvers.bundle import Bundle, CutPool
from structboost.solvers.proximal_step import ordered_product, ordered_times_vector
from structboost.validation import checked_positive

N_BINS = 32  # a power of two
_N_STUMPS = 900  # at most
_N_SLOTS = 60  # stored frames, including the first ones
# Scores are whole numbers of the sum of the weights over 2 ** _BITS.
_BITS = 30
# Smallest weight in the risk of the first frames, the only ones whose box is certain.
_FIRST_WEIGHT = 0.2
# Rounds, tolerance and cuts of a training, of which the first has time.
_FIRST_TRAINING, _TRAINING = (20, 0.03, 10), (1, 0.1, 3)
_COLUMNS_PER_ROUND = 80
_EDGE_TOLERANCE = 1e-6
# Trainings after which columns without weight are dropped.
_MAX_IDLE = 5


class StumpVote:
    """Weighted vote of stumps, a :class:`structboost.tracking.BoxScorer`.

    Stump k adds ``votes[k]`` up to ``thresholds[k]`` of feature ``features[k]``, and subtracts it
    above.  Each feature is computed once.
    """

    def __init__(self, features: IntArray, thresholds: SingleArray, votes: FloatArray) -> None:
        self.selected, places = np.unique(features, return_inverse=True)
        self._stumps = places, thresholds, votes.astype(np.float32)

    def scores(self, features: SingleArray) -> FloatArray:
        """Score boxes by their selected features, shape (n_boxes, n_selected)."""
        out = np.zeros(len(features), np.float32)
        _vote(features.T, *self._stumps, out)
        return out.astype(np.float64)


class FrameStore:
    """Boxes of some frames with their binned features and losses, with a slot per frame.

    The first frames keep their slots.  The others use the rest as a ring, where the newest frame
    replaces the oldest.  Box 0 of a frame is the object.  Thresholds are quantiles over the first
    frame and never change, so a box is binned once.

    Parameters
    ----------
    n_slots : int
        Largest number of stored frames.
    n_boxes, n_features : int
        Number of boxes per frame, and of features per box.

    Attributes
    ----------
    n_frames : int
        Number of slots in use.
    codes : ndarray of uint8, shape (n_slots * n_boxes, n_features)
        Bins, slot by slot; ``codes <= b`` exactly where the feature is at most
        ``thresholds[feature, b]``.
    losses : ndarray, shape (n_slots * n_boxes,)
        1 - intersection / union of each box with the object of its frame (21).
    weights : ndarray, shape (n_slots,)
        Weight of each frame in the risk; the weights sum to 1, and are zero in empty slots.
    thresholds : ndarray of float32, shape (n_features, N_BINS - 1)
    """

    def __init__(self, n_slots: int, n_boxes: int, n_features: int) -> None:
        self.n_slots, self.n_boxes = n_slots, n_boxes
        self.n_frames = 0
        self.codes = np.zeros((n_slots * n_boxes, n_features), np.uint8)
        self.losses = np.zeros(n_slots * n_boxes)
        self.weights = np.zeros(n_slots)
        self._n_first = self._n_recent = 0

    @property
    def n_rows(self) -> int:
        """Number of rows in use, which are the first rows."""
        return self.n_frames * self.n_boxes

    def rows(self, slot: int) -> slice:
        """Return the rows of a slot's boxes."""
        return slice(slot * self.n_boxes, (slot + 1) * self.n_boxes)

    def add(self, features: SingleArray, boxes: FloatArray, *, first: bool) -> int:
        """Store the boxes of a frame, the object first, and return its slot.

        Frames that are ``first`` are never replaced.  They all come before the others, and have
        at least a fifth of the weight in the risk.
        """
        if not self.n_frames:
            quantiles = np.quantile(features, np.arange(1, N_BINS) / N_BINS, axis=0)
            self.thresholds = np.ascontiguousarray(quantiles.T, np.float32)
        if first:
            slot = self._n_first
            self._n_first += 1
        else:
            slot = self._n_first + self._n_recent % (self.n_slots - self._n_first)
            self._n_recent += 1
        self.n_frames = max(self.n_frames, slot + 1)
        _bin(features, self.thresholds, self.codes[self.rows(slot)])
        self.losses[self.rows(slot)] = 1.0 - overlaps(boxes[0], boxes)
        n_recent = self.n_frames - self._n_first
        weight = max(_FIRST_WEIGHT, self._n_first / self.n_frames)
        self.weights[: self._n_first] = weight / max(self._n_first, 1)
        self.weights[self._n_first : self.n_frames] = (1.0 - weight) / max(n_recent, 1)
        return slot


class StructBoostLearner(Bundle):
    """Learner of :class:`structboost.tracking.StructBoostTracker`.

    Cuts, columns and multipliers carry over from frame to frame.

    Attributes
    ----------
    stumps : ndarray of int64, shape (n_columns, 4)
        For each stump: feature, bin, sign of the response up to it, trainings without weight.
    responses : ndarray of int8, shape (n_slots * n_boxes, more than 900)
        -1 or 1; the first ``n_columns`` columns count.
    weights : ndarray, shape (n_columns,)
        The best weights over the cuts.
    objective : float
        Minimum of the last :meth:`solve`.
    pool : CutPool
        Each cut is stored as its chosen boxes, shape (n_slots,); 0 is the object, and empty slots.
    """

    ordered: ClassVar[bool] = True
    max_idle: ClassVar[int] = 6
    max_cuts: ClassVar[int | None] = 50

    def __init__(self, *, C: float, ridge: float) -> None:
        self.C = checked_positive(C, "C")
        self.ridge = checked_positive(ridge, "ridge")

    def begin(self, n_boxes: int, n_features: int, random: np.random.RandomState) -> None:
        """Forget all frames."""
        self.frames = FrameStore(_N_SLOTS, n_boxes, n_features)
        self.step_length, self.risk, self.objective = np.inf, np.inf, self.C
        self.pool = CutPool(empty_cut=True)
        self.pool.multipliers[0] = self.C
        self.weights, self.stumps = np.zeros(0), np.zeros((0, 4), np.int64)
        n_columns = _N_STUMPS + _COLUMNS_PER_ROUND
        self.responses = np.zeros((len(self.frames.codes), n_columns), np.int8)

    def add(self, features: SingleArray, boxes: FloatArray, *, first: bool) -> None:
        """Put a frame into its slot, where it replaces another one in every cut.

        Its box becomes the one that violates most at the present weights.  Any box would do,
        because every choice of one box per frame is a cut.
        """
        frames, pool = self.frames, self.pool
        slot = frames.add(features, boxes, first=first)
        rows = frames.rows(slot)
        _respond(frames.codes[rows], self.stumps, self.responses[rows], 0)
        worst = np.argmax(self._scores(self.weights, rows) + frames.losses[rows])
        for cut in pool.cuts[pool.made]:
            cut[slot] = worst
        # The weights of all frames may have changed.
        chosen = self._chosen()
        pool.matrix[:] = self._products(chosen, 0, len(self.weights))
        at = chosen + frames.n_boxes * np.arange(frames.n_slots)
        pool.losses[:] = ordered_times_vector(frames.losses[at], frames.weights)
        pool.forget_curvature()

    def train(self, *, initial: bool) -> StumpVote:
        """Continue the training, and return the vote of the stumps that have weight."""
        self.boost(*(_FIRST_TRAINING if initial else _TRAINING))
        used = np.flatnonzero(self.weights > 0)
        features, bins, signs, _ = self.stumps[used].T
        return StumpVote(
            features, self.frames.thresholds[features, bins], self.weights[used] * signs
        )

    def boost(self, n_rounds: int, tolerance: float, max_cuts: int) -> None:
        """Alternate :meth:`solve` and pricing, ending with a solve."""
        for _ in range(n_rounds):
            self.solve(tolerance, max_cuts)
            self._drop_columns()
            if not self._price():
                return
        self.solve(tolerance, max_cuts)
        self.stumps[:, 3] = np.where(self.weights > 0, 0, self.stumps[:, 3] + 1)

    def solve(self, tolerance: float, max_cuts: int) -> None:
        """Add cuts until the relative gap over the columns is at most ``tolerance``.

        At most ``max_cuts`` are added.
        """
        self.risk = np.inf  # that of earlier frames
        self._solve_by_bundle(lambda: tolerance * self.objective, max_cuts)
        self.objective = self._objective(self.weights, self.risk)
        self.weights = self._nearest(np.inf, tolerance * self.objective)

    def add_columns(self, stumps: IntArray) -> None:
        """Append stumps of weight zero."""
        first, last = len(self.weights), len(self.weights) + len(stumps)
        self.stumps = np.concatenate((self.stumps, stumps))
        self.weights = np.concatenate((self.weights, np.zeros(len(stumps))))
        n_rows = self.frames.n_rows
        _respond(self.frames.codes[:n_rows], self.stumps, self.responses[:n_rows], first)
        self.pool.add_columns(self._products(self._chosen(), first, last))

    def keep_columns(self, mask: BoolArray) -> None:
        """Drop the columns without a ``mask``.

        The last columns fill the gaps, because moving all would take longer than solving.
        """
        n_kept = int(mask.sum())
        old = np.arange(n_kept)
        gaps, last = np.flatnonzero(~mask[:n_kept]), n_kept + np.flatnonzero(mask[n_kept:])
        old[gaps] = last
        _move(self.responses[: self.frames.n_rows], last, gaps)
        self.stumps, self.weights = self.stumps[old], self.weights[old]
        self.pool.keep_columns(old)

    def _price(self) -> bool:
        """Add the stumps of largest edge on different features, if any violates its constraint.

        A stump of the model has an edge of 1 and the ridge times its weight.  It would hide its
        neighbours, so it is skipped.  Only the true and the chosen boxes have duals, mu of (11)
        summed over the cuts, so hundreds of rows are read instead of thousands.
        """
        frames, multipliers, chosen = self.frames, self.pool.multipliers, self._chosen()
        cuts, slots = np.nonzero((chosen > 0) & (multipliers > 0)[:, None])
        weights = multipliers[cuts] * frames.weights[slots]
        true, n = slots * frames.n_boxes, frames.n_rows
        other = true + chosen[cuts, slots]
        duals: Any = np.bincount(true, weights, n) - np.bincount(other, weights, n)
        rows = np.flatnonzero(duals)
        if not len(rows):
            return False
        codes = np.ascontiguousarray(frames.codes[rows].T)
        in_model = np.zeros((len(codes), N_BINS, 2), np.bool_)
        features, bins, signs, _ = self.stumps.T
        in_model[features, bins, (signs + 1) // 2] = True
        edges, stumps = np.empty(len(codes)), np.zeros((len(codes), 4), np.int64)
        _best_new_stumps(codes, duals[rows], in_model, edges, stumps)
        new = np.argsort(-edges, kind="stable")[:_COLUMNS_PER_ROUND]
        new = new[edges[new] > 1.0 + _EDGE_TOLERANCE]
        if len(new):
            self.add_columns(stumps[new])
        return len(new) > 0

    def _drop_columns(self) -> None:
        """Drop idle columns, and the lightest ones where there are still too many."""
        if len(self.weights) <= _N_STUMPS:
            return
        mask = self.stumps[:, 3] <= _MAX_IDLE
        if mask.sum() > _N_STUMPS:
            mask[np.argsort(-self.weights, kind="stable")[_N_STUMPS:]] = False
        self.keep_columns(mask)

    @override
    def _new_cut(self, weights: FloatArray) -> float:
        frames, shape = self.frames, (self.frames.n_frames, self.frames.n_boxes)
        scores = self._scores(weights, slice(frames.n_rows)).reshape(shape)
        losses = frames.losses[: frames.n_rows].reshape(shape)
        every = np.arange(frames.n_frames)
        chosen = np.zeros(frames.n_slots, np.int64)
        chosen[every] = worst = np.argmax(scores + losses, axis=1)
        loss = ordered_product(frames.weights[every], losses[every, worst])
        self.pool.add([chosen], self._products(chosen[None], 0, len(weights)), np.array([loss]))
        differs = np.flatnonzero(worst)
        margins = scores[differs, 0].astype(np.float64) - scores[differs, worst[differs]]
        return loss - ordered_product(frames.weights[differs], margins)

    def _chosen(self) -> IntArray:
        """Return the boxes of all cuts, shape (n_cuts, n_slots), with objects for the empty cut."""
        empty = np.zeros(self.frames.n_slots, np.int64)
        return np.stack([empty if cut is None else cut for cut in self.pool.cuts])

    def _products(self, chosen: IntArray, first: int, last: int) -> FloatArray:
        """Multiply cuts by the columns from ``first`` up to ``last``, <V, R> of the design."""
        out, frames = np.zeros((len(chosen), last - first)), self.frames
        _multiply(self.responses, chosen, frames.n_boxes, frames.weights, first, out)
        return out

    def _scores(self, weights: FloatArray, rows: slice) -> SingleArray:
        """Score boxes by sums of whole numbers, which are exact in any order on any machine.

        The weights are multiples of a power of two, the largest of 30 bits.
        """
        _, exponent = math.frexp(weights.sum())
        unit = math.ldexp(1.0, exponent - _BITS)
        responses = self.responses[rows]
        out = np.empty(len(responses), np.float32)
        _score(responses, np.rint(weights / unit).astype(np.int32), unit, out)
        return out


@compiled
def _vote(
    features: SingleArray,
    places: IntArray,
    thresholds: SingleArray,
    votes: SingleArray,
    out: SingleArray,
) -> None:
    for k in range(len(places)):
        row = features[places[k]]
        for i in range(len(out)):
            out[i] += votes[k] if row[i] <= thresholds[k] else -votes[k]


@compiled
def _bin(features: SingleArray, thresholds: SingleArray, out: ByteArray) -> None:
    """Count the thresholds below each value, by bisection without branches."""
    for f in range(features.shape[1]):
        row = thresholds[f]
        for i in range(features.shape[0]):
            value = features[i, f]
            below = 0
            width = N_BINS // 2
            while width > 0:
                below += width * (value > row[below + width - 1])
                width //= 2
            out[i, f] = below


@compiled
def _respond(codes: ByteArray, stumps: IntArray, out: SignArray, first: int) -> None:
    """Fill the responses of the stumps from ``first`` on."""
    for p in range(len(codes)):
        for k in range(first, len(stumps)):
            sign = stumps[k, 2]
            out[p, k] = sign if codes[p, stumps[k, 0]] <= stumps[k, 1] else -sign


@compiled
def _move(responses: SignArray, sources: IntArray, targets: IntArray) -> None:
    for p in range(len(responses)):
        for k in range(len(sources)):
            responses[p, targets[k]] = responses[p, sources[k]]


@compiled
def _score(responses: SignArray, weights: ShortArray, unit: float, out: SingleArray) -> None:
    """Score boxes by weights in whole units."""
    # A score is the sum of all weights less twice those of the responses -1.  The bits of an even
    # number are disjoint from 1 and within -1, so `and` replaces a product: 0.70 ms instead of 1.14
    # (12,000 x 900).
    twice, whole = np.empty_like(weights), np.int32(0)
    for k in range(len(weights)):
        twice[k] = np.int32(2 * weights[k])
        whole = np.int32(whole + weights[k])
    for p in range(len(out)):
        total = whole
        for k in range(len(twice)):
            total = np.int32(total - (twice[k] & np.int32(responses[p, k])))
        out[p] = np.float32(total * unit)


@compiled
def _multiply(
    responses: SignArray,
    chosen: IntArray,
    n_boxes: int,
    weights: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    """Add the weighted true less chosen responses of column ``first + k`` to ``out[cut, k]``."""
    last = first + out.shape[1]
    for cut in range(len(chosen)):
        row = out[cut]
        for slot in range(len(weights)):
            if chosen[cut, slot] > 0:
                true = responses[slot * n_boxes]
                other = responses[slot * n_boxes + chosen[cut, slot]]
                for k in range(first, last):
                    row[k - first] += weights[slot] * (true[k] - other[k])


@compiled
def _best_new_stumps(
    codes: ByteArray, duals: FloatArray, in_model: BoolArray, edges: FloatArray, stumps: IntArray
) -> None:
    """Fill the stump of largest edge on each feature, excluding those ``in_model``.

    The library's histograms (:mod:`structboost.learners.histogram`) take any number of channels and
    blocks of rows, and four times as long (docs/decisions.md).

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_features, n_rows)
    duals : ndarray, shape (n_rows,)
    in_model : ndarray of bool, shape (n_features, N_BINS, 2)
        By feature, bin, and whether the sign is positive.
    edges : ndarray, shape (n_features,)
    stumps : ndarray of int64, shape (n_features, 4)
        Feature, bin and sign; the response of a stump is ``sign`` up to its bin, and ``-sign``
        above.
    """
    histogram = np.zeros(N_BINS)
    total = duals.sum()
    for f in range(len(codes)):
        histogram[:] = 0.0
        for i in range(len(duals)):
            histogram[codes[f, i]] += duals[i]
        edges[f] = -np.inf
        stumps[f, 0], stumps[f, 2] = f, 1
        below = 0.0
        for b in range(N_BINS - 1):
            below += histogram[b]
            edge = 2.0 * below - total
            sign = 1 if edge > 0 else -1
            if abs(edge) > edges[f] and not in_model[f, b, (sign + 1) // 2]:
                edges[f], stumps[f, 1], stumps[f, 2] = abs(edge), b, sign
