"""Search of a lost object in the whole frame, one piece of an image pyramid at a time."""

from __future__ import annotations

import math

import numpy as np

from structboost._typing import FloatArray
from structboost.inference.boxes import overlaps
from structboost.tracking.box_features import frame_planes
from structboost.tracking.box_learner import BoxScorer
from structboost.tracking.colour_palette import ColourPalette
from structboost.tracking.object_search import (
    RIVAL_OVERLAP,
    WORKING_SIZE,
    BoxMatch,
    best_box,
    box_scores,
    size_of,
)
from structboost.vision.images import Pixels

# Logarithms of the sizes, in turn; the size that was lost is the likeliest.
_LOG_SIZES = (0.0, -0.18, 0.0, 0.18)
# Step of the grid, radius of the search around the best, and side of a piece, in working pixels.
_STEP = 5.0
_RADIUS = 6.0
_LARGEST_PIECE = 480.0
# Features reach this much beyond a box's centre, in its sides.
_REACH = 0.5 + 0.35


class WholeFrameSearch:
    """Search over some sizes and all places, of which each call takes the next piece.

    A frame that is small in sizes of the object is one piece.  So calls cost about the same in
    every video, and small objects in large frames take more calls.
    """

    def __init__(self) -> None:
        self._turn = 0

    def restart(self) -> None:
        """Begin with the size that was lost."""
        self._turn = 0

    def look(
        self, scorer: BoxScorer, image: Pixels, box: FloatArray, palette: ColourPalette
    ) -> BoxMatch:
        """Find the best box in the next piece, and its margin over all boxes elsewhere there.

        ``box`` is the last box of the object, which has its sides.
        """
        size, piece = self._next_piece(image, box)
        sides = math.exp(size) * box[2:]
        pixel = math.exp(size) * size_of(box) / WORKING_SIZE
        near, far = piece[:2] - _REACH * sides, piece[2:] + _REACH * sides
        low, high = np.floor(near).astype(int), np.ceil(far).astype(int)
        region = int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1])
        planes = frame_planes(image, region, scale=1.0 / pixel, palette=palette)
        boxes = _grid(piece, sides, _STEP * pixel)
        scores = box_scores(scorer, planes, boxes)
        best = boxes[int(np.argmax(scores))]
        match = best_box(scorer, planes, best, _RADIUS * pixel, image.shape, None)
        rivals = scores[overlaps(match.box, boxes) < RIVAL_OVERLAP]
        margin = match.score - float(rivals.max()) if len(rivals) else 1.0
        return BoxMatch(match.box, match.score, margin)

    def _next_piece(self, image: Pixels, box: FloatArray) -> tuple[float, FloatArray]:
        """Return the logarithm of a size, and left, top, right, bottom of the centres."""
        height, width = image.shape[:2]
        turn = self._turn
        while True:
            for size in _LOG_SIZES:
                side = _LARGEST_PIECE * math.exp(size) * size_of(box) / WORKING_SIZE
                across, down = math.ceil(width / side), math.ceil(height / side)
                if turn < across * down:
                    self._turn += 1
                    row, column = divmod(turn, across)
                    corners = np.array([column, row, column + 1, row + 1], np.float64)
                    return size, corners * np.tile([width / across, height / down], 2)
                turn -= across * down


def _grid(piece: FloatArray, sides: FloatArray, step: float) -> FloatArray:
    """Return boxes whose centres lie on a grid over a piece."""
    axes = []
    for first, last in zip(piece[:2], piece[2:], strict=True):
        n = max(1, round((last - first) / step))
        axes.append(first + (np.arange(n) + 0.5) * (last - first) / n)
    x, y = (grid.ravel() for grid in np.meshgrid(*axes))
    corners = np.column_stack((x, y)) - 0.5 * sides
    return np.column_stack((corners, np.broadcast_to(sides, corners.shape)))
