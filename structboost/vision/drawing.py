"""Drawing of boxes and segmentations over photographs (figs. 6 and 7 of StructBoost)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike

from structboost.validation import checked_numbers, checked_whole_number
from structboost.vision.images import (
    VOID,
    Mask,
    Photograph,
    Pixels,
    check_one_size,
    mask_of,
    outlines,
    photograph,
)

Colour = tuple[int, int, int]

BLACK = (0, 0, 0)
WHITE = (255, 255, 255)
# Bright enough for photographs, dark enough for white paper.
COLOURS = (
    (20, 190, 50),
    (20, 120, 235),
    (200, 30, 200),
    (255, 145, 0),
    (0, 180, 190),
    (130, 70, 120),
    (160, 100, 40),
)
RED = (230, 40, 40)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_FAR = 1e5  # pixels; OpenCV's coordinates are small integers
_TINT = 0.45  # weight of a class's colour in its pixels
_FADE = 0.45  # factor of the background's brightness


def draw_label(canvas: Pixels, text: str, corner: tuple[int, int], colour: Sequence[float]) -> None:
    """Draw text on a filled box, whose lower left corner is moved so that it fits into the canvas.

    The size of the text depends on the width of the canvas.
    """
    size = _text_size(canvas)
    (width, height), below = cv2.getTextSize(text, _FONT, size, 1)
    width, height = width + 6, height + below // 2 + 4
    left = min(max(corner[0], 0), max(canvas.shape[1] - width, 0))
    top = min(max(corner[1] - height, 0), max(canvas.shape[0] - height, 0))
    cv2.rectangle(canvas, (left, top), (left + width - 1, top + height - 1), colour, -1)
    ink = WHITE if np.dot(colour, (0.299, 0.587, 0.114)) < 150 else BLACK
    start = (left + 3, top + height - 2 - below // 2)
    cv2.putText(canvas, text, start, _FONT, size, ink, 1, cv2.LINE_AA)


def draw_box(
    image: Any, box: ArrayLike, label: str | None = None, *, colour: Colour = COLOURS[0]
) -> Pixels:
    """Draw a box on a copy of a frame.

    Parameters
    ----------
    image : ndarray of uint8 or PIL.Image.Image
        Grey or RGB.
    box : array-like, shape (4,)
        Left, top, width and height, pixels; it may reach out of the frame.  Where it is NaN nothing
        is drawn.
    label : str, optional
        Text above the box, such as the tracker's confidence; it stays inside the frame.
    colour : tuple of int
        RGB.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        RGB.
    """
    canvas = photograph(image, "image").copy()
    place, shade = checked_numbers(box, "box"), checked_numbers(colour, "colour")
    if place.shape != (4,) or shade.shape != (3,):
        raise ValueError(
            f"box has shape {place.shape} and colour {shade.shape}; give x, y, w, h and RGB."
        )
    if np.isnan(place).any():
        return canvas
    ends = np.clip(np.concatenate((place[:2], place[:2] + place[2:])), -_FAR, _FAR)
    left, top, right, bottom = np.rint(ends).astype(int).tolist()
    # A dark edge outside keeps any colour visible on any photograph.
    cv2.rectangle(canvas, (left - 1, top - 1), (right, bottom), BLACK, 1)
    for inset in range(max(2, min(canvas.shape[:2]) // 200)):  # it grows inwards
        last = max(left, right - 1 - inset), max(top, bottom - 1 - inset)
        cv2.rectangle(canvas, (left + inset, top + inset), last, shade.tolist(), 1)
    if label:
        draw_label(canvas, label, (left - 1, top - 1), shade.tolist())
    return canvas


def draw_segmentation(
    image: Photograph, mask: Mask, n_labels: int = 2, *, names: Sequence[str] = ()
) -> Pixels:
    """Draw a segmentation on a copy of a photograph.

    With two classes the foreground is outlined and the rest darkened; with more, every class but
    the first has a colour.  Void pixels stay as they are.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)
        RGB.
    mask : ndarray of uint8, shape (height, width)
        Class indices, 255 where void.
    n_labels : int
        Number of classes.
    names : sequence of str, optional
        Names of the classes, for a legend below the photograph, if there are more than two.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        RGB; a legend adds to the height of the photograph.

    Raises
    ------
    ValueError, TypeError
        If the sizes differ, or an argument is of another kind.
    """
    n_labels = checked_whole_number(n_labels, "n_labels", VOID)
    image, mask = photograph(image, "image"), mask_of(mask, "mask")
    check_one_size("image", image.shape, "mask", mask.shape)
    canvas, colours = image.astype(np.float32), class_colours(n_labels)
    painted = (mask < n_labels) & (mask > 0)
    if n_labels == 2:
        canvas[mask == 0] *= _FADE
    else:
        canvas[painted] += _TINT * (colours[mask[painted]] - canvas[painted])
    drawn = np.rint(canvas).astype(np.uint8)
    drawn[outlines(mask) & (mask != VOID)] = WHITE
    if not names or n_labels == 2:
        return drawn
    present = np.unique(mask[painted]).tolist()
    line, (height, width) = round(52 * _text_size(drawn)), mask.shape
    drawn = np.concatenate((drawn, np.zeros((line * len(present), width, 3), np.uint8)))
    for place, label in enumerate(present, 1):
        draw_label(drawn, names[label], (0, height + line * place), colours[label].tolist())
    return drawn


def class_colours(n_labels: int) -> Pixels:
    """Return a colour for each class, shape (n_labels, 3), with hues a golden angle apart."""
    labels = np.arange(n_labels)
    hsv = np.stack(
        (labels * 0.618034 % 1.0 * 179, 200 - 60 * (labels % 2), 235 - 45 * (labels % 3)), axis=1
    )
    return np.asarray(cv2.cvtColor(hsv[None].astype(np.uint8), cv2.COLOR_HSV2RGB)[0])


def _text_size(canvas: Pixels) -> float:
    return max(0.35, int(canvas.shape[1]) / 800)
