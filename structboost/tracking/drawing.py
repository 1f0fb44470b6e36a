"""Boxes drawn on frames, and contact sheets of frames with the boxes of several trackers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost.tracking.frame_image import FrameImage, as_bgr, checked_image, letter_boxed

Colour = tuple[int, int, int]

# BGR.  Bright enough for photographs and dark enough for white paper; the curves use the same ones.
COLOURS: tuple[Colour, ...] = (
    (50, 190, 20),
    (235, 120, 20),
    (200, 30, 200),
    (0, 145, 255),
    (40, 40, 230),
    (190, 180, 0),
    (120, 70, 130),
    (40, 100, 160),
)
TRUTH_COLOUR: Colour = (255, 255, 255)
TRUTH_NAME = "truth"

_EDGE_COLOUR: Colour = (0, 0, 0)
_PAPER_COLOUR: Colour = (40, 40, 40)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_FAR = 1e5  # pixels; OpenCV's coordinates are small integers


def tracker_colours(names: Iterable[str]) -> dict[str, Colour]:
    """A colour for each tracker, in the order of their names' first appearance; ``"truth"`` is always white.

    After eight trackers the colours repeat.
    """
    others = [name for name in dict.fromkeys(names) if name != TRUTH_NAME]
    return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(others)} | {TRUTH_NAME: TRUTH_COLOUR}


def draw_box(
    image: Any,
    box: ArrayLike,
    label: str | None = None,
    *,
    colour: Colour = COLOURS[0],
    truth: ArrayLike | None = None,
) -> FrameImage:
    """A copy of a frame with a box on it.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width) or (height, width, 3)
        Grey or BGR.
    box : array-like, shape (4,)
        Left, top, width and height, pixels; may reach out of the frame.  NaN where unknown: only the label is drawn.
    label : str, optional
        Text above the box, such as the tracker's confidence; kept inside the frame.
    colour : tuple of int
        BGR.
    truth : array-like, shape (4,), optional
        The true box, drawn in white; NaN where unknown.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        BGR.
    """
    canvas = as_bgr(checked_image(image))
    checked = _checked_box(box, "box")
    outlines = [(checked, colour)]
    if truth is not None:
        outlines.insert(0, (_checked_box(truth, "truth"), TRUTH_COLOUR))
    _outline(canvas, outlines)
    if label:
        _place_label(canvas, checked, label, colour)
    return canvas


def contact_sheet(
    frames: Iterable[tuple[int, Any, Mapping[str, ArrayLike]]], columns: int = 4, *, tile_width: int = 320
) -> FrameImage:
    """Several frames in one image, each with the boxes of several trackers, and a legend (fig. 6 of StructBoost).

    Parameters
    ----------
    frames : iterable of (int, ndarray, mapping)
        Number of the frame, its image (grey or BGR), and the box of each tracker by the tracker's name; the name
        ``"truth"`` is drawn in white.
    columns : int, default=4
        Frames in a row.
    tile_width : int, default=320
        Width of each frame, pixels; their height follows from the first frame, others are letter-boxed.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        BGR.

    Raises
    ------
    ValueError
        If there are no frames, or ``columns`` or ``tile_width`` is too small.
    """
    listed = list(frames)
    if not listed:
        raise ValueError("frames is empty; give at least one.")
    if columns < 1 or tile_width < 16:
        raise ValueError(f"columns is {columns} and tile_width {tile_width}; give at least 1 and 16.")
    colours = tracker_colours(chain.from_iterable(boxes for _, _, boxes in listed))
    height, width = checked_image(listed[0][1], f"frame {listed[0][0]}").shape[:2]
    size = (tile_width, max(1, round(tile_width * height / width)))
    tiles = [_tile(number, image, boxes, colours, size) for number, image, boxes in listed]
    columns = min(columns, len(tiles))
    blank = np.full_like(tiles[0], _PAPER_COLOUR)
    tiles += [blank] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[start : start + columns]) for start in range(0, len(tiles), columns)]
    drawn = {name: colour for name, colour in colours.items() if any(name in boxes for _, _, boxes in listed)}
    return np.vstack([*rows, *_legend(drawn, columns * tile_width)])


def _tile(
    number: int, image: Any, boxes: Mapping[str, ArrayLike], colours: Mapping[str, Colour], size: tuple[int, int]
) -> FrameImage:
    place = letter_boxed(checked_image(image, f"frame {number}"), size)
    tile = place.image
    outlines = []
    # The truth first, so that a good tracker's box lies on it.
    for name in sorted(boxes, key=lambda name: name != TRUTH_NAME):
        box = _checked_box(boxes[name], f"the box of {name} in frame {number}") * place.scale
        box[:2] += place.offset
        outlines.append((box, colours[name]))
    _outline(tile, outlines)
    _text(tile, f"#{number}", (0, 0), _EDGE_COLOUR)
    return tile


def _legend(colours: Mapping[str, Colour], width: int) -> list[FrameImage]:
    """Rows of swatches with names, as many as the width needs."""
    rows: list[FrameImage] = []
    left = width
    for name, colour in colours.items():
        (text_width, text_height), below = cv2.getTextSize(name, _FONT, 0.5, 1)
        height = text_height + below + 8
        if left + 26 + text_width > width and left:
            rows.append(np.full((height, width, 3), _PAPER_COLOUR, np.uint8))
            left = 0
        middle = height // 2
        cv2.rectangle(rows[-1], (left + 6, middle - 4), (left + 20, middle + 4), colour, -1)
        cv2.putText(rows[-1], name, (left + 26, 4 + text_height), _FONT, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
        left += 26 + text_width + 14
    return rows


def _checked_box(box: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.array(box, np.float64)
    if array.shape != (4,):
        raise ValueError(f"{name} has shape {array.shape}; give x, y, w, h.")
    return array


def _outline(canvas: FrameImage, outlines: Iterable[tuple[NDArray[np.float64], Colour]]) -> None:
    """Boxes as frames that grow inwards from the box's last pixel, the later ones on top."""
    known = [(_corners(box), colour) for box, colour in outlines if not np.isnan(box).any()]
    # A dark edge outside keeps any colour visible on any photograph; edges first, so that none hides another box.
    for (left, top, right, bottom), _ in known:
        cv2.rectangle(canvas, (left - 1, top - 1), (right + 1, bottom + 1), _EDGE_COLOUR, 1)
    for (left, top, right, bottom), colour in known:
        for inset in range(_thickness(canvas)):
            inner = (left + inset, top + inset), (max(left, right - inset), max(top, bottom - inset))
            cv2.rectangle(canvas, *inner, colour, 1)


def _corners(box: NDArray[np.float64]) -> tuple[int, int, int, int]:
    """First and last pixel of the box."""
    left, top = np.rint(np.clip(box[:2], -_FAR, _FAR)).astype(int)
    right, bottom = np.rint(np.clip(box[:2] + box[2:], -_FAR, _FAR)).astype(int) - 1
    return int(left), int(top), max(int(left), int(right)), max(int(top), int(bottom))


def _thickness(canvas: FrameImage) -> int:
    return max(2, int(min(canvas.shape[:2])) // 200)


def _place_label(canvas: FrameImage, box: NDArray[np.float64], label: str, colour: Colour) -> None:
    """Above the box, else below it, else in its upper corner; at the frame's corner without a box."""
    if np.isnan(box).any():
        _text(canvas, label, (0, 0), colour)
        return
    left, top, _, bottom = _corners(box)
    height, gap = _text_box(canvas, label)[1], 1
    above, below = top - gap - height, bottom + gap
    if above < 0:
        above = below if below + height <= canvas.shape[0] else top + gap
    _text(canvas, label, (left - gap, above), colour)


def _text(canvas: FrameImage, text: str, corner: tuple[int, int], colour: Colour) -> None:
    """Text on a filled box, moved into the frame."""
    width, height, below, scale = _text_box(canvas, text)
    left = min(max(corner[0], 0), max(canvas.shape[1] - width, 0))
    top = min(max(corner[1], 0), max(canvas.shape[0] - height, 0))
    cv2.rectangle(canvas, (left, top), (left + width - 1, top + height - 1), colour, -1)
    dark = 0.114 * colour[0] + 0.587 * colour[1] + 0.299 * colour[2] < 150
    ink = (255, 255, 255) if dark else (0, 0, 0)
    cv2.putText(canvas, text, (left + 3, top + height - 2 - below), _FONT, scale, ink, 1, cv2.LINE_AA)


def _text_box(canvas: FrameImage, text: str) -> tuple[int, int, int, float]:
    """Width, height, depth below the base line (pixels) and scale of a text."""
    scale = max(0.35, min(canvas.shape[:2]) / 600)
    (width, height), below = cv2.getTextSize(text, _FONT, scale, 1)
    return width + 6, height + below // 2 + 4, below // 2, scale
