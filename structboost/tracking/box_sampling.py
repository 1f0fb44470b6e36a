"""Which boxes of a frame a tracker learns from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]

# Shares of the training boxes: near the object, and of other sizes at its place; the rest lie anywhere around.
_NEAR_SHARE = 0.35
_SCALED_SHARE = 0.25
_NEAR = 0.5  # in sizes of the object
_LARGEST_RESIZING = 0.3  # logarithm
_SCALED_SHIFT = 0.08


def size_of(box: Boxes) -> float:
    """Side of the square of a box's area, pixels."""
    return float(np.sqrt(box[2] * box[3]))


def moved(box: Boxes, centres: Boxes, sizes: Boxes) -> Boxes:
    """Boxes of the given centres, shape (n, 2), and ``sizes`` times as wide and high, shape (n,)."""
    sides = sizes[:, None] * box[2:]
    return np.column_stack((centres - 0.5 * sides, sides))


def training_boxes(
    box: Boxes, n_boxes: int, radius: float, image_shape: tuple[int, ...], random: np.random.RandomState
) -> Boxes:
    """Random boxes around the object, itself first: most of them near or of another size, where overlaps differ most.

    Parameters
    ----------
    box : ndarray, shape (4,)
    n_boxes : int
    radius : float
        Of the farthest centres, in sizes of the object.
    image_shape : tuple of int
        Centres are moved into the image.
    random : RandomState

    Returns
    -------
    ndarray, shape (n_boxes, 4)
    """
    n = n_boxes - 1
    n_near, n_scaled = int(_NEAR_SHARE * n), int(_SCALED_SHARE * n)
    n_far = n - n_near - n_scaled
    distances = size_of(box) * np.concatenate(
        (
            random.uniform(0.03, _NEAR, n_near),
            radius * np.sqrt(random.uniform(0.05, 1.0, n_far)),
            np.abs(random.normal(0.0, _SCALED_SHIFT, n_scaled)),
        )
    )
    angles = random.uniform(0.0, 2.0 * np.pi, n)
    sizes = np.ones(n)
    sizes[n_near + n_far :] = np.exp(random.uniform(-_LARGEST_RESIZING, _LARGEST_RESIZING, n_scaled))
    centres = box[:2] + 0.5 * box[2:] + distances[:, None] * np.column_stack((np.cos(angles), np.sin(angles)))
    height, width = image_shape[:2]
    return np.concatenate((box[None], moved(box, np.clip(centres, 0, [width - 1, height - 1]), sizes)))
