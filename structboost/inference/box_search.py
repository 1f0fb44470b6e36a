"""Boxes: their overlaps, where to look for the next one, and the loss-augmented choice."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


def checked_boxes(boxes: ArrayLike, name: str = "boxes") -> FloatArray:
    """Boxes ``x, y, w, h`` as a finite table, widths and heights above 0.

    Parameters
    ----------
    boxes : array-like, shape (n_boxes, 4)
        x, y, width and height in pixels.
    name : str
        Name in error messages.

    Returns
    -------
    boxes : ndarray of float64, shape (n_boxes, 4)
        The same as an array.

    Raises
    ------
    ValueError
        If the shape is another one, or a box is not finite or has no area; the message names it.
    """
    table = np.asarray(boxes, np.float64)
    if table.ndim != 2 or table.shape[1] != 4:
        raise ValueError(f"{name} has shape {table.shape}; give (n_boxes, 4): x, y, width, height.")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1) | (table[:, 2:] <= 0).any(axis=1))
    if len(bad):
        raise ValueError(
            f"{name}[{bad[0]}] is {table[bad[0]].tolist()}; all must be finite, "
            "width and height above 0."
        )
    return table


def overlaps(box: FloatArray, boxes: FloatArray) -> FloatArray:
    """Intersection over union of a box with each of others: 1 - loss (StructBoost, (21)).

    Parameters
    ----------
    box : ndarray, shape (4,)
        x, y, width and height in pixels.
    boxes : ndarray, shape (n_boxes, 4)
        The others.

    Returns
    -------
    shares : ndarray, shape (n_boxes,)
        From 0 to 1; 1 for the same box.
    """
    shares = np.empty(len(boxes))
    _overlaps(np.ascontiguousarray(box), np.ascontiguousarray(boxes), shares)
    return shares


def most_violated(
    true: IntArray, boxes: FloatArray, offsets: IntArray, scores: NDArray[np.floating]
) -> tuple[IntArray, FloatArray]:
    """Box of largest loss plus score of each frame (line 7 of Algorithm 2), and its loss.

    Parameters
    ----------
    true : ndarray of int64, shape (n_frames,)
        The object's box, counted within its frame.
    boxes : ndarray, shape (n_boxes, 4)
        x, y, width and height in pixels of the boxes of all frames, frame by frame.
    offsets : ndarray of int64, shape (n_frames + 1,)
        First box of each frame.
    scores : ndarray, shape (n_boxes,)
        Score of each box.

    Returns
    -------
    chosen : ndarray of int64, shape (n_frames,)
        Counted within the frame; the first where several are equal.
    losses : ndarray, shape (n_frames,)
        1 minus the overlap with the object's box.
    """
    chosen, losses = np.empty(len(true), np.int64), np.empty(len(true))
    _most_violated(true, np.ascontiguousarray(boxes), offsets, scores, chosen, losses)
    return chosen, losses


def boxes_around(
    box: FloatArray, radius: float, step: float, image_shape: tuple[int, ...]
) -> FloatArray:
    """Boxes of the size of ``box`` whose centre lies within a disc around its own.

    Parameters
    ----------
    box : ndarray, shape (4,)
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
def _overlaps(box: FloatArray, boxes: FloatArray, shares: FloatArray) -> None:
    x, y, width, height = box
    for i in range(len(boxes)):
        left, top, w, h = boxes[i]
        if left == x and top == y and w == width and h == height:
            # Sums of coordinates are rounded, but a box has no loss against itself.
            shares[i] = 1.0
            continue
        across = max(min(x + width, left + w) - max(x, left), 0.0)
        down = max(min(y + height, top + h) - max(y, top), 0.0)
        shared = across * down
        shares[i] = min(shared / (width * height + w * h - shared), 1.0)


@compiled
def _most_violated(
    true: IntArray,
    boxes: FloatArray,
    offsets: IntArray,
    scores: NDArray[np.floating],
    chosen: IntArray,
    losses: FloatArray,
) -> None:
    shares = np.empty(len(boxes))
    for frame in range(len(true)):
        first, last = offsets[frame], offsets[frame + 1]
        _overlaps(boxes[first + true[frame]], boxes[first:last], shares)
        highest = -np.inf
        for i in range(last - first):
            value = scores[first + i] + (1.0 - shares[i])
            if value > highest:
                highest = value
                chosen[frame], losses[frame] = i, 1.0 - shares[i]
