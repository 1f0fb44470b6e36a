"""Segmentations drawn over photographs, and contact sheets of several (fig. 7 of StructBoost)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from structboost.segmentation.image_files import VOID, Mask, Photograph, resized_mask
from structboost.vision.drawing import WHITE, blank, class_colours, sheet, write_text
from structboost.vision.images import Pixels, resized

_INK = (30, 30, 30)
_TINT = 0.45  # share of a class's colour in its pixels
_FADE = 0.45  # share of its brightness that the background keeps
_GAP = 4
_HEAD = 22


def draw_segmentation(image: Photograph, mask: Mask, n_labels: int = 2) -> Pixels:
    """A copy of a photograph that shows a segmentation.

    With two classes the foreground is outlined and the rest darkened; with more, every class has a
    colour.  Void pixels stay as they are.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)
        RGB.
    mask : ndarray of uint8, shape (height, width)
        Class indices, 255 where void.
    n_labels : int
        Number of classes.

    Raises
    ------
    ValueError
        If the sizes differ.
    """
    if image.shape[:2] != mask.shape:
        raise ValueError(
            f"image has shape {image.shape} and mask {mask.shape}; they must be of one size."
        )
    canvas = image.astype(np.float32)
    if n_labels == 2:
        canvas[mask == 0] *= _FADE
    else:
        known = mask < n_labels
        canvas[known] += _TINT * (class_colours(n_labels)[mask[known]] - canvas[known])
    drawn = np.clip(np.rint(canvas), 0, 255).astype(np.uint8)
    drawn[_outlines(mask)] = WHITE
    return drawn


def contact_sheet(
    rows: Sequence[tuple[str, Photograph, Mapping[str, Mask]]],
    n_labels: int = 2,
    *,
    tile_width: int = 200,
) -> Pixels:
    """Photographs, each beside several segmentations of it, with their names on top.

    Parameters
    ----------
    rows : sequence of (str, ndarray, mapping)
        Name of the photograph, its pixels (RGB), and its segmentations by name, the truth among
        them if it is to be shown.  All rows have the names of the first.
    n_labels : int
        Number of classes.
    tile_width : int
        Width of each image, pixels.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        RGB.

    Raises
    ------
    ValueError
        If there are no rows, or a row lacks a segmentation.
    """
    if not rows:
        raise ValueError("rows is empty; give at least one photograph.")
    names = list(rows[0][2])
    lines = [[_head(name, tile_width) for name in ("image", *names)]]
    for name, image, masks in rows:
        missing = [n for n in names if n not in masks]
        if missing:
            raise ValueError(f"{name} has no segmentation named {missing[0]!r}; the first row has.")
        height = max(1, round(image.shape[0] * tile_width / image.shape[1]))
        small = resized(image, (tile_width, height))
        found = (resized_mask(masks[n], small.shape) for n in names)
        lines.append([small, *(draw_segmentation(small, mask, n_labels) for mask in found)])
    return sheet(lines, gap=_GAP)


def _outlines(mask: Mask) -> NDArray[np.bool_]:
    """Pixels whose right or lower neighbour has another class."""
    out = np.zeros(mask.shape, np.bool_)
    out[:, :-1] |= mask[:, :-1] != mask[:, 1:]
    out[:-1] |= mask[:-1] != mask[1:]
    return np.asarray(out & (mask != VOID))


def _head(name: str, width: int) -> Pixels:
    canvas = blank(_HEAD, width, WHITE)
    write_text(canvas, name, (2, _HEAD - 7), _INK, 0.45)
    return canvas
