"""The 1-slack master of a tracker: a bundle with a ridge over frames that come and go.

``min sum(w) + C * risk(w) + ridge / 2 * |w|^2`` over w >= 0, where the risk is that of the kept
frames: (9) of StructBoost and a ridge.  A linear program has its optimum at a few stumps, and which
ones changes from one frame to the next.  The ridge spreads the weight over many, and a tracker that
votes with hundreds of stumps does not jump (docs/decisions/online-tracking.md).

A cut is the box that it chooses in each frame.  A new frame changes one entry of every cut.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.parts import StackedParts
from structboost.runtime.compiled import compiled
from structboost.solvers.bundle import Bundle
from structboost.solvers.cut_pool import CutPool
from structboost.solvers.products import ordered_product, ordered_times_vector
from structboost.tasks.boxes import BoxOverlapTask
from structboost.tracking.kept_frames import KeptFrames

# Scores are whole numbers of the sum of the weights over 2 ** _BITS.
_BITS = 30


class OnlineMaster(Bundle):
    """Weights of columns, whose responses on the boxes of all slots stand in one table.

    Parameters
    ----------
    frames : KeptFrames
    C : float
        Weight of the risk.
    ridge : float
        Weight of the squares of the weights.
    max_columns : int
        Number of columns held at most.

    Attributes
    ----------
    responses : ndarray of int8, shape (n_slots * n_boxes, max_columns)
        -1 or 1; the first ``n_columns`` columns count.
    weights : ndarray, shape (n_columns,)
        After :meth:`solve` those that are best over the cuts.
    objective : float
        The least of the last :meth:`solve`.
    pool : CutPool
        Each cut is known by its chosen boxes, shape (n_slots,): 0, the object, where none is.
    """

    ordered: ClassVar[bool] = True
    max_idle: ClassVar[int] = 6
    max_cuts: ClassVar[int | None] = 50

    def __init__(self, frames: KeptFrames, C: float, ridge: float, max_columns: int) -> None:
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
        """Number of columns held."""
        return len(self.weights)

    def add_columns(self, n_new: int) -> None:
        """Take in columns of weight zero whose responses stand behind those of the others."""
        first = self.n_columns
        self.pool.add_columns(self._products(self._chosen(), first, first + n_new))
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept: NDArray[np.bool_]) -> IntArray:
        """Drop the columns that are not ``kept``; returns the old numbers of the others, in order.

        The last ones fill the gaps: moving all would take longer than solving.
        """
        n_kept = int(kept.sum())
        numbers = np.arange(n_kept)
        gaps, last = np.flatnonzero(~kept[:n_kept]), n_kept + np.flatnonzero(kept[n_kept:])
        numbers[gaps] = last
        _move(self.responses[: self.frames.n_rows], last, gaps)
        self.weights = self.weights[numbers]
        self.pool.keep_columns(numbers)
        return numbers

    def renew(self, slot: int) -> None:
        """Go on after the frame in ``slot`` has changed, with its responses.

        Its old box leaves every cut; the one that violates most at the weights so far comes
        instead.  Any box would do: every choice of one box per frame is a cut.
        """
        rows = self.frames.rows(slot)
        worst = np.argmax(self._scores(self.weights, rows) + self.frames.losses[rows])
        for cut in self.pool.cuts[self.pool.made]:
            cut[slot] = worst
        # The shares of all frames may have changed.
        chosen = self._chosen()
        self.pool.matrix[:] = self._products(chosen, 0, self.n_columns)
        at = chosen + self.frames.n_boxes * np.arange(self.frames.n_slots)
        self.pool.losses[:] = ordered_times_vector(self.frames.losses[at], self.frames.shares)
        self.pool.forget_curvature()

    def solve(self, tolerance: float, max_cuts: int) -> None:
        """Cut until the relative gap over the columns is at most ``tolerance``, or that often."""
        self.risk = np.inf  # that of the frames before
        self._solve_by_bundle(lambda: tolerance * self.objective, max_cuts)
        self.objective = self._objective(self.weights, self.risk)
        self.weights = self._nearest(np.inf, tolerance * self.objective)

    def duals(self) -> tuple[IntArray, FloatArray]:
        """Rows of weight not zero, and the weights: mu of (11) summed over the cuts.

        Only the true and the chosen boxes have any, so that pricing looks at hundreds of rows
        instead of thousands.
        """
        chosen, multipliers = self._chosen(), self.pool.multipliers
        cuts, slots = np.nonzero((chosen > 0) & (multipliers > 0)[:, None])
        weights = multipliers[cuts] * self.frames.shares[slots]
        true, n = slots * self.frames.n_boxes, self.frames.n_rows
        other = true + chosen[cuts, slots]
        sums = np.bincount(true, weights, n) - np.bincount(other, weights, n)
        out = np.asarray(sums, np.float64)
        rows = np.flatnonzero(out)
        return rows, out[rows]

    def _new_cut(self, weights: FloatArray) -> float:
        frames, n_boxes = self.frames, self.frames.n_boxes
        scores = self._scores(weights, slice(frames.n_rows))
        offsets = n_boxes * np.arange(frames.n_frames + 1)
        stacked = StackedParts({"x": scores[:, None]}, {"x": offsets})
        found = self._task.separate(frames.candidates, frames.objects, stacked)
        # Two parts, the true and the chosen one, where the object is not the choice.
        parts, differs = found.differences["x"].parts, np.flatnonzero(np.diff(found.indptr["x"]))
        chosen = np.zeros(frames.n_slots, np.int64)
        chosen[differs] = parts[1::2] - offsets[differs]
        shares = frames.shares[: frames.n_frames]
        loss = ordered_product(shares, found.losses)
        products = self._products(chosen[None], 0, self.n_columns)
        self.pool.add([chosen], products, np.array([loss]))
        margins = scores[parts[0::2]].astype(np.float64) - scores[parts[1::2]]
        return loss - ordered_product(shares[differs], margins)

    def _chosen(self) -> IntArray:
        """Boxes of all cuts, shape (n_cuts, n_slots); the empty cut chooses the objects."""
        empty = np.zeros(self.frames.n_slots, np.int64)
        return np.stack([empty if cut is None else cut for cut in self.pool.cuts])

    def _products(self, chosen: IntArray, first: int, last: int) -> FloatArray:
        """Products of cuts with the columns from ``first`` up to ``last``: <V, R> of the design."""
        out = np.zeros((len(chosen), last - first))
        frames = self.frames
        _multiply(self.responses, chosen, frames.n_boxes, frames.shares, first, out)
        return out

    def _scores(self, weights: FloatArray, rows: slice) -> NDArray[np.float32]:
        """Scores of boxes: sums of whole numbers, which are exact in any order on any machine.

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
    """Scores of boxes from weights in whole units."""
    # Twice the weights of the answers -1 leave the sum of all.  An even number has no bit in common
    # with 1, and all with -1, so no product is needed: 0.70 ms instead of 1.14 (12,000 x 900).
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
    shares: FloatArray,
    first: int,
    out: FloatArray,
) -> None:
    """Add to ``out[cut, k]`` the mean of true less chosen response of column ``first + k``."""
    last = first + out.shape[1]
    for cut in range(len(chosen)):
        row = out[cut]
        for slot in range(len(shares)):
            if chosen[cut, slot] > 0:
                true = responses[slot * n_boxes]
                other = responses[slot * n_boxes + chosen[cut, slot]]
                for k in range(first, last):
                    row[k - first] += shares[slot] * (true[k] - other[k])
