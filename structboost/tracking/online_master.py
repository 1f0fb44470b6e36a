"""The 1-slack master of a tracker: cutting planes over frames that come and go, with a ridge.

``min sum(w) + C * risk(w) + ridge / 2 * |w|^2`` over w >= 0, the risk being that of the kept frames: (9) of StructBoost
and a ridge.  A linear program has its optimum at a few stumps, and which ones changes from one frame to the next; the
ridge spreads the weight over many, and a tracker that votes with hundreds of stumps does not jump
(docs/decisions/online-tracking.md).  It also makes the problem strictly convex, so that a few cuts suffice.

A cut is the box that it chooses in each frame: what changes with a new frame is one entry of every cut.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.masters.proximal_step import no_curvature, proximal_step
from structboost.tracking.kept_frames import KeptFrames

_MAX_CUTS = 50
_MAX_IDLE = 6
_MAX_NEWTON_STEPS = 200
# Share of the accuracy asked for to which a master problem over the cuts so far is solved.
_INNER_ACCURACY = 0.02
# In a cut: nothing chosen.
_NONE = -1


class OnlineMaster:
    """Weights of columns, whose responses on the boxes of all slots stand in one table.

    Parameters
    ----------
    frames : KeptFrames
    C, ridge : float
    max_columns : int
        Columns held at most.

    Attributes
    ----------
    responses : ndarray of int8, shape (n_slots * n_boxes, max_columns)
        -1 or 1; the first ``n_columns`` columns count.
    weights : ndarray, shape (n_columns,)
    objective : float
        Of the weights at the last cut.
    n_cuts : int
        Cuts held, the empty one (row 0, which says that the slack is not negative) included.
    """

    def __init__(self, frames: KeptFrames, C: float, ridge: float, max_columns: int) -> None:
        self.frames, self.C, self.ridge = frames, C, ridge
        self.responses = np.zeros((frames.n_slots * frames.n_boxes, max_columns), np.int8)
        self.weights = np.zeros(0)
        self.objective = C
        self._chosen = np.full((1, frames.n_slots), _NONE, np.int64)
        self._losses = np.zeros(1)
        self._matrix = np.zeros((1, 0))
        self._multipliers = np.array([float(C)])
        self._idle = np.zeros(1, np.int64)

    @property
    def n_columns(self) -> int:
        """Columns held."""
        return len(self.weights)

    @property
    def n_cuts(self) -> int:
        """Cuts held."""
        return len(self._losses)

    def add_columns(self, n_new: int) -> None:
        """Take in columns of weight zero whose responses stand behind those of the others."""
        n_old = self.n_columns
        matrix = np.zeros((self.n_cuts, n_old + n_new))
        matrix[:, :n_old] = self._matrix
        self._multiply(self._chosen, n_old, matrix)
        self._matrix = matrix
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Drop the columns that are not ``kept``; returns the old numbers of the others, in their new order.

        The last ones go where gaps are: moving all would take longer than solving.
        """
        n_kept = int(kept.sum())
        numbers = np.arange(n_kept)
        gaps, last = np.flatnonzero(~kept[:n_kept]), n_kept + np.flatnonzero(kept[n_kept:])
        numbers[gaps] = last
        _move(self.responses[: self.frames.n_rows], last, gaps)
        self.weights = self.weights[numbers]
        self._matrix = np.ascontiguousarray(self._matrix[:, numbers])
        return numbers

    def renew(self, slot: int) -> None:
        """Go on after the frame in ``slot`` has changed, with its responses.

        Its old box leaves every cut; instead comes the one that violates most at the weights so far.  Any box would do:
        every choice of one box a frame is a cut.
        """
        rows = self.frames.rows(slot)
        scores = np.empty(self.frames.n_boxes, np.float32)
        _score(self.responses[rows], self.weights.astype(np.float32), scores)
        self._chosen[1:, slot] = np.argmax(scores + self.frames.losses[rows])
        # The shares of all frames may have changed.
        self._multiply(self._chosen, 0, self._matrix)
        self._losses = self._losses_of(self._chosen)

    def solve(self, tolerance: float, max_cuts: int) -> None:
        """Cut until the relative gap over the columns so far is at most ``tolerance``, or ``max_cuts`` times."""
        for _ in range(max_cuts):
            self._step(tolerance)
            if self._cut() <= tolerance * self.objective:
                break
        self._step(tolerance)

    def duals(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows of weight not zero, and the weights: mu of (11) summed over the cuts.

        Only the true and the chosen boxes have any, so that pricing looks at hundreds of rows, not at thousands.
        """
        out = np.zeros(len(self.frames.losses))
        _combine(self._chosen, self._multipliers, self.frames.shares, self.frames.n_boxes, out)
        rows = np.flatnonzero(out)
        return rows, out[rows]

    def _step(self, tolerance: float) -> None:
        """Weights that are best over the cuts so far."""
        accuracy = _INNER_ACCURACY * tolerance * self.objective
        center, step = np.zeros(self.n_columns), 1.0 / self.ridge
        # Nothing is kept from step to step: a new frame changes the products of all cuts.
        known = no_curvature(self.n_columns)
        self.weights, _, _, _ = proximal_step(
            self._matrix, self._losses, self.C, center, step, self._multipliers, accuracy, _MAX_NEWTON_STEPS, known
        )
        self._idle = np.where(self._multipliers > 0, 0, self._idle + 1)
        self._idle[0] = 0

    def _cut(self) -> float:
        """Add the cut at the weights; returns by how much of the objective it was violated."""
        frames = self.frames
        scores = np.empty(frames.n_rows, np.float32)
        _score(self.responses[: frames.n_rows], self.weights.astype(np.float32), scores)
        chosen = np.empty((1, frames.n_slots), np.int64)
        risk = _most_violated(scores, frames.losses, frames.n_boxes, frames.shares, chosen[0])
        violated = self.C * (risk - float((self._losses - self._matrix @ self.weights).max()))
        squares = float(self.weights @ self.weights)
        self.objective = float(self.weights.sum()) + self.C * risk + 0.5 * self.ridge * squares
        self._drop_idle_cuts()
        row = np.zeros((1, self.n_columns))
        self._multiply(chosen, 0, row)
        self._matrix = np.vstack((self._matrix, row))
        self._chosen = np.vstack((self._chosen, chosen))
        self._losses = np.concatenate((self._losses, self._losses_of(chosen)))
        self._multipliers = np.append(self._multipliers, 0.0)
        self._idle = np.append(self._idle, 0)
        return violated

    def _drop_idle_cuts(self) -> None:
        """Drop cuts without a multiplier: those that had none for long, and the idlest where there are too many."""
        idle = (self._idle > _MAX_IDLE) & (self._multipliers == 0)
        excess = self.n_cuts - int(idle.sum()) + 1 - _MAX_CUTS
        if excess > 0:
            rest = np.flatnonzero(~idle & (self._multipliers == 0) & (self._idle > 0))
            idle[rest[np.argsort(-self._idle[rest], kind="stable")[:excess]]] = True
        if idle.any():
            kept = ~idle
            self._matrix, self._chosen, self._losses = self._matrix[kept], self._chosen[kept], self._losses[kept]
            self._multipliers, self._idle = self._multipliers[kept], self._idle[kept]

    def _multiply(self, chosen: NDArray[np.int64], first: int, out: NDArray[np.float64]) -> None:
        """Products of cuts with the columns from ``first``: <V, R> of the design."""
        _multiply(self.responses, chosen, self.frames.n_boxes, self.frames.shares, first, out)

    def _losses_of(self, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        rows = np.arange(self.frames.n_slots) * self.frames.n_boxes + np.maximum(chosen, 0)
        return np.asarray(np.where(chosen >= 0, self.frames.losses[rows], 0.0) @ self.frames.shares)


@njit(cache=True, nogil=True)
def _move(responses: NDArray[np.int8], sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
    for p in range(len(responses)):
        for k in range(len(sources)):
            responses[p, targets[k]] = responses[p, sources[k]]


@njit(cache=True, nogil=True, fastmath=True)
def _score(responses: NDArray[np.int8], weights: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Scores of boxes."""
    for p in range(len(out)):
        total = np.float32(0.0)
        for k in range(len(weights)):
            total += weights[k] * np.float32(responses[p, k])
        out[p] = total


@njit(cache=True, nogil=True)
def _most_violated(
    scores: NDArray[np.float32],
    losses: NDArray[np.float64],
    n_boxes: int,
    shares: NDArray[np.float64],
    chosen: NDArray[np.int64],
) -> float:
    """Loss-augmented argmax of every frame (line 7 of Algorithm 2); returns the risk."""
    risk = 0.0
    for slot in range(len(chosen)):
        chosen[slot] = -1
        if shares[slot] == 0.0:
            continue
        true = slot * n_boxes
        best, highest = 0, scores[true] + losses[true]
        for j in range(1, n_boxes):
            value = scores[true + j] + losses[true + j]
            if value > highest:
                best, highest = j, value
        if highest > scores[true]:
            chosen[slot] = best
            risk += shares[slot] * (highest - scores[true])
    return risk


@njit(cache=True, nogil=True)
def _multiply(
    responses: NDArray[np.int8],
    chosen: NDArray[np.int64],
    n_boxes: int,
    shares: NDArray[np.float64],
    first: int,
    out: NDArray[np.float64],
) -> None:
    """``out[cut, k]`` from column ``first``: the mean over the frames of true less chosen response."""
    last = out.shape[1]
    for cut in range(len(chosen)):
        row = out[cut]
        row[first:] = 0.0
        for slot in range(len(shares)):
            if chosen[cut, slot] > 0:
                true, other = responses[slot * n_boxes], responses[slot * n_boxes + chosen[cut, slot]]
                for k in range(first, last):
                    row[k] += shares[slot] * (true[k] - other[k])


@njit(cache=True, nogil=True)
def _combine(
    chosen: NDArray[np.int64],
    multipliers: NDArray[np.float64],
    shares: NDArray[np.float64],
    n_boxes: int,
    out: NDArray[np.float64],
) -> None:
    for cut in range(len(chosen)):
        if multipliers[cut] > 0.0:
            for slot in range(len(shares)):
                if chosen[cut, slot] > 0:
                    weight = multipliers[cut] * shares[slot]
                    out[slot * n_boxes] += weight
                    out[slot * n_boxes + chosen[cut, slot]] -= weight
