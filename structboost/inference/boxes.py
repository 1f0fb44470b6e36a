"""Overlaps of boxes, candidates for the next box, and the loss-augmented choice."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import real_array, refuse
from structboost.runtime.compiled import compiled

_BOX = "x, y, width and height of a box, the last two above 0"


def checked_boxes(boxes: ArrayLike) -> FloatArray:
    """Check boxes ``x, y, width, height``, finite numbers of shape (n_boxes, 4), with an area."""
    table = real_array(boxes, "boxes", ("n_boxes", 4))
    refuse(table, (table <= 0) & [False, False, True, True], "boxes", _BOX)
    return table


def overlaps(box: FloatArray, boxes: FloatArray) -> FloatArray:
    """Compute the intersection over union of a box with each of others (Pascal criterion, (21)).

    Boxes are x, y, width and height.  The ratio is exactly 1 for the same box.
    """
    ratios = np.empty(len(boxes))
    _overlaps(np.ascontiguousarray(box), np.ascontiguousarray(boxes), ratios)
    return ratios


def most_violated(
    true: IntArray, boxes: FloatArray, offsets: IntArray, scores: NDArray[np.floating]
) -> tuple[IntArray, FloatArray]:
    """Choose the box of the largest score plus loss of each frame, and compute its loss.

    The loss is 1 minus the intersection over union with the true box (Algorithm 2, line 7).  Of
    equally good boxes it is the first.

    ``boxes`` and ``scores`` are those of all frames, frame by frame; frame i has the rows
    ``offsets[i]:offsets[i + 1]``, and boxes are counted within their frame.
    """
    chosen, losses = np.empty(len(true), np.int64), np.empty(len(true))
    _most_violated(true, np.ascontiguousarray(boxes), offsets, scores, chosen, losses)
    return chosen, losses


def boxes_around(
    box: FloatArray, radius: float, step: float, image_shape: tuple[int, ...]
) -> FloatArray:
    """List the boxes of the size of ``box`` whose centre lies within a disc around its centre.

    ``box`` itself comes first, then the others row by row.  ``step`` is the distance of
    neighbouring centres; centres outside the image are left out.
    """
    half = np.arange(step, radius + 1e-9, step)
    offsets = np.concatenate((-half[::-1], [0.0], half))
    dy, dx = (grid.ravel() for grid in np.meshgrid(offsets, offsets, indexing="ij"))
    inside = dx**2 + dy**2 <= radius**2 + 1e-9
    centers = box[:2] + 0.5 * box[2:] + np.column_stack((dx[inside], dy[inside]))
    height, width = image_shape[:2]
    seen = (centers >= 0).all(axis=1) & (centers[:, 0] < width) & (centers[:, 1] < height)
    sides = np.broadcast_to(box[2:], (int(seen.sum()), 2))
    around = np.column_stack((centers[seen] - 0.5 * box[2:], sides))
    return np.concatenate((box[None], around[(around != box).any(axis=1)]))


@compiled
def _overlaps(box: FloatArray, boxes: FloatArray, ratios: FloatArray) -> None:
    x, y, width, height = box
    for i in range(len(boxes)):
        left, top, w, h = boxes[i]
        if left == x and top == y and w == width and h == height:
            # Sums of coordinates are rounded, but a box has no loss against itself.
            ratios[i] = 1.0
            continue
        across = max(min(x + width, left + w) - max(x, left), 0.0)
        down = max(min(y + height, top + h) - max(y, top), 0.0)
        common = across * down
        ratios[i] = min(common / (width * height + w * h - common), 1.0)


@compiled
def _most_violated(
    true: IntArray,
    boxes: FloatArray,
    offsets: IntArray,
    scores: NDArray[np.floating],
    chosen: IntArray,
    losses: FloatArray,
) -> None:
    ratios = np.empty(len(boxes))
    for frame in range(len(true)):
        first, last = offsets[frame], offsets[frame + 1]
        _overlaps(boxes[first + true[frame]], boxes[first:last], ratios)
        highest = -np.inf
        for i in range(last - first):
            value = scores[first + i] + (1.0 - ratios[i])
            if value > highest:
                highest = value
                chosen[frame], losses[frame] = i, 1.0 - ratios[i]
