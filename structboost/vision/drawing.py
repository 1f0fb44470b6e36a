"""Colours (RGB), labels, legends and sheets of tiles for drawings of boxes and of segmentations."""

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
_SMALLEST = 0.35  # size of a readable text
_LINE = 52  # height of a line of a legend, times the size of its text
_PAPER: Colour = (40, 40, 40)


def class_colours(n_labels: int) -> Pixels:
    """Return a colour for each class, shape (n_labels, 3), with hues a golden angle apart."""
    labels = np.arange(n_labels)
    hsv = np.stack(
        (labels * 0.618034 % 1.0 * 179, 200 - 60 * (labels % 2), 235 - 45 * (labels % 3)), axis=1
    )
    return np.asarray(cv2.cvtColor(hsv[None].astype(np.uint8), cv2.COLOR_HSV2RGB)[0], np.uint8)


def label_size(canvas: Pixels, text: str, size: float | None = None) -> tuple[int, int]:
    """Return width and height of :func:`draw_label`, pixels."""
    (width, height), below = cv2.getTextSize(text, _FONT, size or _text_size(canvas), 1)
    return width + 2 * _PADDING, height + below // 2 + 4


def draw_label(
    canvas: Pixels, text: str, corner: tuple[int, int], colour: Colour, size: float | None = None
) -> None:
    """Draw text on a filled box with its upper left corner at ``corner``, moved into the canvas.

    The size of the text depends on the canvas, unless it is set.
    """
    size = size or _text_size(canvas)
    width, height = label_size(canvas, text, size)
    left = min(max(corner[0], 0), max(canvas.shape[1] - width, 0))
    top = min(max(corner[1], 0), max(canvas.shape[0] - height, 0))
    cv2.rectangle(canvas, (left, top), (left + width - 1, top + height - 1), colour, -1)
    ink = WHITE if float(np.dot(colour, (0.299, 0.587, 0.114))) < 150 else BLACK
    below = cv2.getTextSize(text, _FONT, size, 1)[1]
    start = (left + _PADDING, top + height - 2 - below // 2)
    cv2.putText(canvas, text, start, _FONT, size, ink, 1, cv2.LINE_AA)


def legend(names: Mapping[str, Colour], width: int, size: float = _SMALLEST) -> list[Pixels]:
    """Draw names on their colours, in as many lines as the width needs."""
    lines: list[Pixels] = []
    left = width
    for name, colour in names.items():
        line = blank(round(_LINE * size), width, _PAPER)
        length = label_size(line, name, size)[0]
        if left + length > width:
            lines.append(line)
            left = 0
        draw_label(lines[-1], name, (left, 0), colour, size)
        left += length
    return lines


def blank(height: int, width: int, colour: Colour) -> Pixels:
    """Create a canvas of one colour."""
    return np.full((height, width, 3), colour, np.uint8)


def sheet(rows: Sequence[Sequence[Pixels]], *, gap: int = 0) -> Pixels:
    """Join rows of tiles in one image, with white gaps.

    The tiles of a row have one height, and all rows have one width.
    """
    space = (0, gap, 0, gap, cv2.BORDER_CONSTANT)
    lines = [
        np.hstack([cv2.copyMakeBorder(tile, *space, value=WHITE) for tile in row]) for row in rows
    ]
    joined = np.vstack(lines).astype(np.uint8)
    return joined[: len(joined) - gap, : joined.shape[1] - gap]


def _text_size(canvas: Pixels) -> float:
    return max(_SMALLEST, int(min(canvas.shape[:2])) / 600)
