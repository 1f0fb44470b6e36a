"""Training set of a tracker and its 1-slack master, a bundle over frames that come and go.

``min sum(w) + C * risk(w) + ridge / 2 * |w|^2`` over w >= 0, where the risk is taken over the
stored frames: (9) of StructBoost and a ridge.  A linear program has its optimum at a few stumps,
and they change from one frame to the next.  The ridge spreads the weight over many, and a tracker
that votes with hundreds of stumps does not jump (docs/decisions.md).

A cut is the box that it chooses in each frame.  A new frame changes one entry of every cut.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.parts import StackedParts
from structboost.inference.boxes import overlaps
from structboost.runtime.compiled import compiled
from structboost.solvers.bundle import Bundle
from structboost.solvers.cut_pool import CutPool
from structboost.solvers.products import ordered_product, ordered_times_vector
from structboost.tasks.boxes import BoxChoice, BoxOverlapTask, BoxTable, chosen

N_BINS = 32  # a power of two


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
    first_weight : float
        Smallest total weight of the first frames in the risk.

    Attributes
    ----------
    candidates : list of BoxTable
        Inputs of :class:`structboost.tasks.BoxOverlapTask`, by slot; their tables are codes.
    objects : list of BoxChoice
        The true outputs.
    codes : ndarray of uint8, shape (n_slots * n_boxes, n_features)
        Bins, slot by slot; ``codes <= b`` exactly where the feature is at most
        ``thresholds[feature, b]``.
    losses : ndarray, shape (n_slots * n_boxes,)
        1 - intersection / union of each box with the object of its frame (21).
    weights : ndarray, shape (n_slots,)
        Weight of each frame in the risk; the weights sum to 1, and are zero in empty slots.
    thresholds : ndarray of float32, shape (n_features, N_BINS - 1)
    """

    def __init__(self, n_slots: int, n_boxes: int, n_features: int, first_weight: float) -> None:
        self.n_slots, self.n_boxes, self.n_features = n_slots, n_boxes, n_features
        self.first_weight = first_weight
        self.candidates: list[BoxTable] = []
        self.objects: list[BoxChoice] = []
        self.codes = np.zeros((n_slots * n_boxes, n_features), np.uint8)
        self.losses = np.zeros(n_slots * n_boxes)
        self.weights = np.zeros(n_slots)
        self.thresholds = np.zeros((n_features, N_BINS - 1), np.float32)
        self._n_first = 0
        self._n_recent = 0

    @property
    def n_frames(self) -> int:
        """Number of slots in use."""
        return len(self.candidates)

    @property
    def n_rows(self) -> int:
        """Number of rows in use, which are the first rows."""
        return self.n_frames * self.n_boxes

    def rows(self, slot: int) -> slice:
        """Return the rows of a slot's boxes."""
        return slice(slot * self.n_boxes, (slot + 1) * self.n_boxes)

    def add(self, features: NDArray[np.float32], boxes: FloatArray, *, first: bool) -> int:
        """Store the boxes of a frame, the object first, and return its slot.

        Frames that are ``first`` are never replaced.  They all come before the others.
        """
        if not self.n_frames:
            levels = np.arange(1, N_BINS) / N_BINS
            self.thresholds = np.ascontiguousarray(
                np.quantile(features, levels, axis=0).T, np.float32
            )
        if first:
            slot = self._n_first
            self._n_first += 1
        else:
            slot = self._n_first + self._n_recent % (self.n_slots - self._n_first)
            self._n_recent += 1
        codes = self.codes[self.rows(slot)]
        _bin(features, self.thresholds, codes)
        x = BoxTable(boxes, codes)
        self.candidates[slot : slot + 1] = [x]
        self.objects[slot : slot + 1] = [chosen(x, 0)]
        self.losses[self.rows(slot)] = 1.0 - overlaps(boxes[0], boxes)
        self._set_weights()
        return slot

    def _set_weights(self) -> None:
        """Give all frames equal weights, but ``first_weight`` at least to the first ones."""
        n_recent = self.n_frames - self._n_first
        weight = max(self.first_weight, self._n_first / self.n_frames) if n_recent else 1.0
        self.weights[: self._n_first] = weight / max(self._n_first, 1)
        self.weights[self._n_first : self.n_frames] = (1.0 - weight) / max(n_recent, 1)


@compiled
def _bin(
    features: NDArray[np.float32], thresholds: NDArray[np.float32], out: NDArray[np.uint8]
) -> None:
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


# Scores are whole numbers of the sum of the weights over 2 ** _BITS.
_BITS = 30


class OnlineMaster(Bundle):
    """Master of columns whose responses on the boxes of all slots stand in one table.

    Parameters
    ----------
    frames : KeptFrames
    C : float
        Weight of the risk.
    ridge : float
        Weight of the squares of the weights.
    max_columns : int
        Largest number of columns.

    Attributes
    ----------
    responses : ndarray of int8, shape (n_slots * n_boxes, max_columns)
        -1 or 1; the first ``n_columns`` columns count.
    weights : ndarray, shape (n_columns,)
        The best weights over the cuts, after :meth:`solve`.
    objective : float
        Minimum of the last :meth:`solve`.
    pool : CutPool
        Each cut is stored as its chosen boxes, shape (n_slots,); 0 is the object, and empty slots.
    """

    ordered: ClassVar[bool] = True
    max_idle: ClassVar[int] = 6
    max_cuts: ClassVar[int | None] = 50

    def __init__(self, frames: FrameStore, C: float, ridge: float, max_columns: int) -> None:
        self.frames, self.C, self.ridge = frames, C, ridge
        self.step_length = np.inf
        self.responses = np.zeros((frames.n_slots * frames.n_boxes, max_columns), np.int8)
        self.weights, self.risk = np.zeros(0), np.inf
        self.objective = C
        self.pool = CutPool(empty_cut=True)
        self.pool.multipliers[0] = C
        self._task = BoxOverlapTask()

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.weights)

    def add_columns(self, n_new: int) -> None:
        """Append columns of weight zero, whose responses follow those of the others."""
        first = self.n_columns
        self.pool.add_columns(self._products(self._chosen(), first, first + n_new))
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, mask: NDArray[np.bool_]) -> IntArray:
        """Drop the columns without a ``mask`` and return the old indices of the others, in order.

        The last columns fill the gaps, because moving all would take longer than solving.
        """
        n_kept = int(mask.sum())
        old = np.arange(n_kept)
        gaps, last = np.flatnonzero(~mask[:n_kept]), n_kept + np.flatnonzero(mask[n_kept:])
        old[gaps] = last
        _move(self.responses[: self.frames.n_rows], last, gaps)
        self.weights = self.weights[old]
        self.pool.keep_columns(old)
        return old

    def renew(self, slot: int) -> None:
        """Update the cuts after the frame in ``slot`` and its responses have changed.

        In every cut the box of that frame becomes the one that violates most at the present
        weights.  Any box would do, because every choice of one box per frame is a cut.
        """
        rows = self.frames.rows(slot)
        worst = np.argmax(self._scores(self.weights, rows) + self.frames.losses[rows])
        for cut in self.pool.cuts[self.pool.made]:
            cut[slot] = worst
        # The weights of all frames may have changed.
        chosen = self._chosen()
        self.pool.matrix[:] = self._products(chosen, 0, self.n_columns)
        at = chosen + self.frames.n_boxes * np.arange(self.frames.n_slots)
        self.pool.losses[:] = ordered_times_vector(self.frames.losses[at], self.frames.weights)
        self.pool.forget_curvature()

    def solve(self, tolerance: float, max_cuts: int) -> None:
        """Add cuts until the relative gap over the columns is at most ``tolerance``.

        At most ``max_cuts`` are added.
        """
        self.risk = np.inf  # that of earlier frames
        self._solve_by_bundle(lambda: tolerance * self.objective, max_cuts)
        self.objective = self._objective(self.weights, self.risk)
        self.weights = self._nearest(np.inf, tolerance * self.objective)

    def duals(self) -> tuple[IntArray, FloatArray]:
        """Return the rows with duals and the duals, mu of (11) summed over the cuts.

        Only the true and the chosen boxes have duals, so pricing reads hundreds of rows instead
        of thousands.
        """
        chosen, multipliers = self._chosen(), self.pool.multipliers
        cuts, slots = np.nonzero((chosen > 0) & (multipliers > 0)[:, None])
        weights = multipliers[cuts] * self.frames.weights[slots]
        true, n = slots * self.frames.n_boxes, self.frames.n_rows
        other = true + chosen[cuts, slots]
        sums = np.bincount(true, weights, n) - np.bincount(other, weights, n)
        out = np.asarray(sums, np.float64)
        rows = np.flatnonzero(out)
        return rows, out[rows]

    @override
    def _new_cut(self, weights: FloatArray) -> float:
        frames, n_boxes = self.frames, self.frames.n_boxes
        scores = self._scores(weights, slice(frames.n_rows))
        offsets = n_boxes * np.arange(frames.n_frames + 1)
        stacked = StackedParts({"x": scores[:, None]}, {"x": offsets})
        separation = self._task.separate(frames.candidates, frames.objects, stacked)
        # Two parts, the true and the chosen one, where the object is not chosen.
        parts = separation.differences["x"].parts
        differs = np.flatnonzero(np.diff(separation.indptr["x"]))
        chosen = np.zeros(frames.n_slots, np.int64)
        chosen[differs] = parts[1::2] - offsets[differs]
        of_frames = frames.weights[: frames.n_frames]
        loss = ordered_product(of_frames, separation.losses)
        products = self._products(chosen[None], 0, self.n_columns)
        self.pool.add([chosen], products, np.array([loss]))
        margins = scores[parts[0::2]].astype(np.float64) - scores[parts[1::2]]
        return loss - ordered_product(of_frames[differs], margins)

    def _chosen(self) -> IntArray:
        """Return the boxes of all cuts, shape (n_cuts, n_slots), with objects for the empty cut."""
        empty = np.zeros(self.frames.n_slots, np.int64)
        return np.stack([empty if cut is None else cut for cut in self.pool.cuts])

    def _products(self, chosen: IntArray, first: int, last: int) -> FloatArray:
        """Multiply cuts by the columns from ``first`` up to ``last``, <V, R> of the design."""
        out = np.zeros((len(chosen), last - first))
        frames = self.frames
        _multiply(self.responses, chosen, frames.n_boxes, frames.weights, first, out)
        return out

    def _scores(self, weights: FloatArray, rows: slice) -> NDArray[np.float32]:
        """Score boxes by sums of whole numbers, which are exact in any order on any machine.

        The weights are multiples of a power of two, the largest of 30 bits.
        """
        _, exponent = math.frexp(float(weights.sum()))
        unit = math.ldexp(1.0, exponent - _BITS)
        responses = self.responses[rows]
        out = np.empty(len(responses), np.float32)
        _score(responses, np.rint(weights / unit).astype(np.int32), unit, out)
        return out


@compiled
def _move(responses: NDArray[np.int8], sources: IntArray, targets: IntArray) -> None:
    for p in range(len(responses)):
        for k in range(len(sources)):
            responses[p, targets[k]] = responses[p, sources[k]]


@compiled
def _score(
    responses: NDArray[np.int8], weights: NDArray[np.int32], unit: float, out: NDArray[np.float32]
) -> None:
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
    responses: NDArray[np.int8],
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
