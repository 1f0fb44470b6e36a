"""Colours (RGB), text and sheets of tiles for drawings of boxes and of segmentations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from structboost.vision.images import Pixels

Colour = tuple[int, int, int]

BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)
# Bright enough for photographs, dark enough for white paper.
COLOURS: tuple[Colour, ...] = (
    (20, 190, 50),
    (20, 120, 235),
    (200, 30, 200),
    (255, 145, 0),
    (230, 40, 40),
    (0, 180, 190),
    (130, 70, 120),
    (160, 100, 40),
)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_PADDING = 3  # pixels beside the text of a label
_LEGEND_HEIGHT = 18
_PAPER: Colour = (40, 40, 40)


def class_colours(n_labels: int) -> Pixels:
    """Return a colour for each class, shape (n_labels, 3), with hues a golden angle apart."""
    labels = np.arange(n_labels)
    hsv = np.stack(
        (labels * 0.618034 % 1.0 * 179, 200 - 60 * (labels % 2), 235 - 45 * (labels % 3)), axis=1
    )
    return np.asarray(cv2.cvtColor(hsv[None].astype(np.uint8), cv2.COLOR_HSV2RGB)[0], np.uint8)


def text_size(text: str, scale: float = 0.5) -> tuple[int, int, int]:
    """Measure width, height above the base line and depth below it, pixels."""
    (width, height), below = cv2.getTextSize(text, _FONT, scale, 1)
    return width, height, below


def write_text(
    canvas: Pixels, text: str, start: tuple[int, int], ink: Colour, scale: float = 0.5
) -> None:
    """Write text whose base line begins at ``start``, (x, y)."""
    cv2.putText(canvas, text, start, _FONT, scale, ink, 1, cv2.LINE_AA)


def label_size(canvas: Pixels, text: str) -> tuple[int, int]:
    """Return width and height of :func:`draw_label`, pixels."""
    width, height, below = text_size(text, _label_scale(canvas))
    return width + 2 * _PADDING, height + below // 2 + 4


def draw_label(canvas: Pixels, text: str, corner: tuple[int, int], colour: Colour) -> None:
    """Draw text on a filled box with its upper left corner at ``corner``, moved into the canvas."""
    scale = _label_scale(canvas)
    width, height = label_size(canvas, text)
    left = min(max(corner[0], 0), max(canvas.shape[1] - width, 0))
    top = min(max(corner[1], 0), max(canvas.shape[0] - height, 0))
    cv2.rectangle(canvas, (left, top), (left + width - 1, top + height - 1), colour, -1)
    is_dark = float(np.dot(colour, (0.299, 0.587, 0.114))) < 150
    start = (left + _PADDING, top + height - 2 - text_size(text, scale)[2] // 2)
    write_text(canvas, text, start, WHITE if is_dark else BLACK, scale)


def legend(names: Mapping[str, Colour], width: int) -> list[Pixels]:
    """Draw names on their colours, in as many rows as the width needs."""
    rows: list[Pixels] = []
    left = width
    for name, colour in names.items():
        row = blank(_LEGEND_HEIGHT, width, _PAPER)
        length = label_size(row, name)[0]
        if left + length > width:
            rows.append(row)
            left = 0
        draw_label(rows[-1], name, (left, 0), colour)
        left += length
    return rows


def blank(height: int, width: int, colour: Colour) -> Pixels:
    """Create a canvas of one colour."""
    return np.full((height, width, 3), colour, np.uint8)


def sheet(rows: Sequence[Sequence[Pixels]], *, gap: int = 0) -> Pixels:
    """Join rows of tiles in one image, with white gaps.

    The tiles of a row have one height, and all rows have one width.
    """
    lines = [_join(tiles, gap, axis=1) for tiles in rows]
    return _join(lines, gap, axis=0)


def _join(images: Sequence[Pixels], gap: int, *, axis: int) -> Pixels:
    height, width = images[0].shape[:2]
    between = blank(gap, width, WHITE) if axis == 0 else blank(height, gap, WHITE)
    parts = [part for image in images for part in (between, image)][1:]
    return np.asarray(np.concatenate(parts, axis=axis))


def _label_scale(canvas: Pixels) -> float:
    return max(0.35, int(min(canvas.shape[:2])) / 600)
