"""Boxes: their overlaps, and where to look for the next one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def checked_boxes(boxes: ArrayLike, name: str = "boxes") -> NDArray[np.float64]:
    """Boxes ``x, y, w, h`` as a finite table, widths and heights above 0.

    Raises
    ------
    ValueError
        If a box is not finite or has no area; the message names it.
    """
    table = np.asarray(boxes, np.float64)
    if table.ndim != 2 or table.shape[1] != 4:
        raise ValueError(f"{name} has shape {table.shape}; give (n_boxes, 4): x, y, width, height.")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1) | (table[:, 2:] <= 0).any(axis=1))
    if len(bad):
        raise ValueError(f"{name}[{bad[0]}] is {table[bad[0]].tolist()}; width and height must be above 0, all finite.")
    return table


def overlaps(box: NDArray[np.float64], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intersection over union of ``box`` with each of ``boxes``, shape (n_boxes,): 1 less the loss (21)."""
    near = np.maximum(box[:2], boxes[:, :2])
    far = np.minimum(box[:2] + box[2:], boxes[:, :2] + boxes[:, 2:])
    intersection = np.prod(np.maximum(far - near, 0.0), axis=1)
    union = box[2] * box[3] + boxes[:, 2] * boxes[:, 3] - intersection
    shares = np.minimum(intersection / union, 1.0)
    # Sums of coordinates are rounded, and a box has no loss against itself.
    shares[(boxes == box).all(axis=1)] = 1.0
    return np.asarray(shares, np.float64)


def boxes_around(
    box: NDArray[np.float64],
    radius: float,
    step: float,
    image_shape: tuple[int, ...],
    scales: ArrayLike = (1.0,),
) -> NDArray[np.float64]:
    """Boxes of the size of ``box``, times each scale, whose centre lies within a disc around its own.

    Parameters
    ----------
    box : ndarray, shape (4,)
    radius, step : float
        Of the disc and of the grid in it, in pixels.
    image_shape : tuple of int
        Height and width; boxes whose centre lies outside are left out.
    scales : array-like

    Returns
    -------
    boxes : ndarray, shape (n_boxes, 4)
        ``box`` itself first, then scale by scale, row by row.
    """
    half = np.arange(step, radius + 1e-9, step)
    offsets = np.concatenate((-half[::-1], [0.0], half))
    dy, dx = (grid.ravel() for grid in np.meshgrid(offsets, offsets, indexing="ij"))
    inside = dx**2 + dy**2 <= radius**2 + 1e-9
    centers = box[:2] + 0.5 * box[2:] + np.column_stack((dx[inside], dy[inside]))
    height, width = image_shape[:2]
    seen = (centers >= 0).all(axis=1) & (centers[:, 0] < width) & (centers[:, 1] < height)
    sizes = np.asarray(scales, np.float64)[:, None] * box[2:]
    found = [
        np.column_stack((centers[seen] - 0.5 * size, np.broadcast_to(size, (int(seen.sum()), 2)))) for size in sizes
    ]
    every = np.concatenate([box[None], *found])
    own = (every == box).all(axis=1)
    own[0] = False
    return np.asarray(every[~own], np.float64)


def polar_boxes(
    box: NDArray[np.float64], radius: float, n_rings: int, n_angles: int, image_shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Boxes on rings around ``box``, evenly spread out to ``radius``, itself first: few that cover every distance.

    Parameters
    ----------
    box : ndarray, shape (4,)
    radius : float
        Of the outermost ring, in pixels.
    n_rings, n_angles : int
    image_shape : tuple of int
        Height and width; boxes whose centre lies outside are left out.
    """
    distances = radius * np.arange(1, n_rings + 1) / n_rings
    angles = 2.0 * np.pi * np.arange(n_angles) / n_angles
    # Every other ring is turned by half an angle, so that rings do not line up.
    turned = angles[None, :] + np.pi / n_angles * (np.arange(n_rings) % 2)[:, None]
    shift = np.stack((distances[:, None] * np.cos(turned), distances[:, None] * np.sin(turned)), axis=2).reshape(-1, 2)
    centers = box[:2] + 0.5 * box[2:] + shift
    height, width = image_shape[:2]
    seen = (centers >= 0).all(axis=1) & (centers[:, 0] < width) & (centers[:, 1] < height)
    moved = np.column_stack((box[:2] + shift, np.broadcast_to(box[2:], (len(shift), 2))))
    return np.concatenate((box[None], moved[seen]))
