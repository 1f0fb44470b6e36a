"""Training set of a tracker, which holds its first frames and the most recent ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.inference.boxes import overlaps
from structboost.runtime.compiled import compiled
from structboost.tasks.boxes import BoxChoice, BoxTable, chosen

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
