"""Segmentations drawn over photographs, and contact sheets that compare several (fig. 7 of StructBoost)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from structboost.segmentation.image_files import VOID, Mask, Photograph, resized_mask

Picture = NDArray[np.uint8]

_PAPER = 255
_INK = (30, 30, 30)
_OUTLINE = (255, 255, 255)
_TINT = 0.45
_FADE = 0.45  # how much brightness what is not foreground keeps
_MARGIN = 4
_HEAD = 22
_FONT = cv2.FONT_HERSHEY_SIMPLEX


def class_colours(n_labels: int) -> Picture:
    """A colour for each class, shape (n_labels, 3), RGB: hues a golden angle apart."""
    numbers = np.arange(n_labels)
    hsv = np.stack((numbers * 0.618034 % 1.0 * 179, 200 - 60 * (numbers % 2), 235 - 45 * (numbers % 3)), axis=1)
    return np.asarray(cv2.cvtColor(hsv[None].astype(np.uint8), cv2.COLOR_HSV2RGB)[0], np.uint8)


def draw_segmentation(image: Photograph, mask: Mask, n_labels: int = 2) -> Picture:
    """A copy of a photograph that shows a segmentation.

    Two classes: the foreground as it is, outlined, the rest darkened.  More: every class in its colour.  Void stays.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)
        RGB.
    mask : ndarray of uint8, shape (height, width)
        Class indices, 255 where void.
    n_labels : int

    Raises
    ------
    ValueError
        If the sizes differ.
    """
    if image.shape[:2] != mask.shape:
        raise ValueError(f"image has shape {image.shape} and mask {mask.shape}; they must be of one size.")
    canvas = image.astype(np.float32)
    if n_labels == 2:
        canvas[mask == 0] *= _FADE
    else:
        known = mask < n_labels
        canvas[known] += _TINT * (class_colours(n_labels)[mask[known]] - canvas[known])
    drawn = np.clip(np.rint(canvas), 0, 255).astype(np.uint8)
    drawn[_outlines(mask)] = _OUTLINE
    return drawn


def contact_sheet(
    rows: Sequence[tuple[str, Photograph, Mapping[str, Mask]]], n_labels: int = 2, *, tile_width: int = 200
) -> Picture:
    """Photographs, each with several segmentations of it side by side, names on top.

    Parameters
    ----------
    rows : sequence of (str, ndarray, mapping)
        Name of the photograph, its pixels (RGB), and segmentations by name, the truth among them if it is to be
        shown; all rows have the names of the first.
    n_labels : int
    tile_width : int
        Pixels; heights follow.

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
    lines = [_head(["image", *names], tile_width)]
    for name, image, masks in rows:
        missing = [n for n in names if n not in masks]
        if missing:
            raise ValueError(f"{name} has no segmentation named {missing[0]!r}; the first row has.")
        scale = tile_width / image.shape[1]
        shape = (max(1, round(image.shape[0] * scale)), tile_width)
        small = _resized(image, shape)
        tiles = [small, *(draw_segmentation(small, resized_mask(masks[n], shape), n_labels) for n in names)]
        lines.append(_line(tiles))
    return np.vstack(lines)


def _outlines(mask: Mask) -> NDArray[np.bool_]:
    """Pixels whose right or lower neighbour has another class."""
    out = np.zeros(mask.shape, np.bool_)
    out[:, :-1] |= mask[:, :-1] != mask[:, 1:]
    out[:-1] |= mask[:-1] != mask[1:]
    return np.asarray(out & (mask != VOID))


def _resized(image: Photograph, shape: tuple[int, int]) -> Photograph:
    smaller = shape[0] < image.shape[0]
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, shape[::-1], interpolation=how), np.uint8)


def _line(tiles: Sequence[Any]) -> Picture:
    gap = np.full((tiles[0].shape[0], _MARGIN, 3), _PAPER, np.uint8)
    joined = np.hstack([part for tile in tiles for part in (tile, gap)][:-1])
    return np.vstack((joined, np.full((_MARGIN, joined.shape[1], 3), _PAPER, np.uint8)))


def _head(names: Sequence[str], tile_width: int) -> Picture:
    width = len(names) * (tile_width + _MARGIN) - _MARGIN
    canvas = np.full((_HEAD, width, 3), _PAPER, np.uint8)
    for number, name in enumerate(names):
        place = (number * (tile_width + _MARGIN) + 2, _HEAD - 7)
        cv2.putText(canvas, name, place, _FONT, 0.45, _INK, 1, cv2.LINE_AA)
    return canvas
