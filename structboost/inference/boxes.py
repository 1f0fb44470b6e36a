"""Overlaps of boxes, candidates for the next box, and the loss-augmented choice."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import Shape, real_array, refuse, whole_array
from structboost.runtime.compiled import compiled
from structboost.validation import checked_positive, shown

# Boxes beyond this take gigabytes.
_MOST_BOXES = 1e7
_BOX = "x, y, width and height of a box, the last two above 0"
# Most steps along a radius: a disc of more has more boxes than memory.
_MOST_STEPS = 10_000


def intersection_over_union(box: ArrayLike, boxes: ArrayLike) -> FloatArray:
    """Compute the intersection over union of a box with each of others (Pascal criterion).

    Parameters
    ----------
    box : array-like, shape (4,)
        x, y, width and height in pixels.
    boxes : array-like, shape (n_boxes, 4)
        The other boxes.

    Returns
    -------
    ratios : ndarray, shape (n_boxes,)
        Area of the intersection over that of the union, from 0 to 1; exactly 1 for the same box.

    Notes
    -----
    In ``O(n_boxes)``.  StructBoost, (21): the loss of a box is 1 minus its ratio.

    Examples
    --------
    >>> from structboost.inference import intersection_over_union
    >>> intersection_over_union([0, 0, 2, 2], [[0, 0, 2, 2], [1, 0, 2, 2]]).round(3).tolist()
    [1.0, 0.333]
    """
    return overlaps(checked_boxes(box, "box", (4,)), checked_boxes(boxes))


def most_violated_box(true: int, boxes: ArrayLike, scores: ArrayLike) -> tuple[int, float]:
    """Choose the box of the largest score plus loss (loss-augmented argmax).

    The loss of a box is 1 minus its intersection over union with the true box.

    Parameters
    ----------
    true : int
        Index of the true box.
    boxes : array-like, shape (n_boxes, 4)
        x, y, width and height in pixels of the candidates.
    scores : array-like, shape (n_boxes,)
        Score of each candidate.

    Returns
    -------
    index : int
        Index of the box; the first of equally good ones.
    loss : float
        Its loss.

    Notes
    -----
    Exact, in ``O(n_boxes)``.  StructBoost, Algorithm 2, line 7, and section 3.5.

    Examples
    --------
    >>> from structboost.inference import most_violated_box
    >>> most_violated_box(0, [[0, 0, 2, 2], [1, 0, 2, 2], [9, 9, 2, 2]], [1.0, 0.5, 0.1])
    (1, 0.6666666666666667)
    """
    table = checked_boxes(boxes)
    values = real_array(scores, "scores", (len(table),))
    index = whole_array([true], "true", (1,), len(table))
    chosen, losses = most_violated(index, table, np.array([0, len(table)]), values)
    return int(chosen[0]), float(losses[0])


def candidate_boxes(
    box: ArrayLike, radius: float, step: float, image_shape: tuple[int, ...]
) -> FloatArray:
    """List the boxes of the size of ``box`` whose centre lies within a disc around its centre.

    Parameters
    ----------
    box : array-like, shape (4,)
        x, y, width and height in pixels.
    radius : float
        Radius of the disc in pixels.
    step : float
        Distance of neighbouring centres in pixels.
    image_shape : (int, int) or (int, int, int)
        Height and width in pixels; centres outside are left out.

    Returns
    -------
    boxes : ndarray, shape (n_boxes, 4)
        ``box`` itself comes first, wherever it is, then the others row by row.

    Notes
    -----
    In ``O((radius / step)^2)``.

    Examples
    --------
    >>> from structboost.inference import candidate_boxes
    >>> candidate_boxes([10, 10, 4, 4], radius=1, step=1, image_shape=(50, 50))[:, :2].tolist()
    [[10.0, 10.0], [10.0, 9.0], [9.0, 10.0], [11.0, 10.0], [10.0, 11.0]]
    """
    checked_positive(radius, "radius")
    checked_positive(step, "step")
    if radius / step > _MOST_STEPS:
        raise ValueError(
            f"radius is {shown(radius)}, more than {_MOST_STEPS} steps; give a larger step, such "
            f"as {radius / 100.0:.3g}."
        )
    sizes = whole_array(image_shape, "image_shape", ("2 or 3",))
    if len(sizes) not in (2, 3):
        raise ValueError(f"image_shape is {sizes.tolist()}; give the height and the width.")
    if (2.0 * radius / step + 1.0) ** 2 > _MOST_BOXES:
        raise ValueError(
            f"radius is {radius!r} and step {step!r}, which gives more than {_MOST_BOXES:g} boxes; "
            "give a smaller radius or a larger step."
        )
    return boxes_around(checked_boxes(box, "box", (4,)), radius, step, tuple(sizes.tolist()))


def checked_boxes(
    boxes: ArrayLike, name: str = "boxes", shape: Shape = ("n_boxes", 4)
) -> FloatArray:
    """Check boxes ``x, y, width, height``, finite numbers of shape (n_boxes, 4), with an area."""
    table = real_array(boxes, name, shape)
    refuse(table, (table <= 0) & [False, False, True, True], name, _BOX)
    return table


def overlaps(box: FloatArray, boxes: FloatArray) -> FloatArray:
    """Compute as :func:`intersection_over_union` does."""
    ratios = np.empty(len(boxes))
    _overlaps(np.ascontiguousarray(box), np.ascontiguousarray(boxes), ratios)
    return ratios


def most_violated(
    true: IntArray, boxes: FloatArray, offsets: IntArray, scores: NDArray[np.floating]
) -> tuple[IntArray, FloatArray]:
    """Choose a box of each frame and compute its loss, as :func:`most_violated_box` does.

    ``boxes`` and ``scores`` are those of all frames, frame by frame; frame i has the rows
    ``offsets[i]:offsets[i + 1]``, and boxes are counted within their frame.
    """
    chosen, losses = np.empty(len(true), np.int64), np.empty(len(true))
    _most_violated(true, np.ascontiguousarray(boxes), offsets, scores, chosen, losses)
    return chosen, losses


def boxes_around(
    box: FloatArray, radius: float, step: float, image_shape: tuple[int, ...]
) -> FloatArray:
    """List boxes as :func:`candidate_boxes` does."""
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
