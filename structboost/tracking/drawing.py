"""Drawing of boxes on frames, and contact sheets of several trackers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray
from structboost.tracking.tracked_frames import TrackedFrames
from structboost.validation import checked_numbers, checked_whole_number, is_whole, shown
from structboost.vision.drawing import (
    BLACK,
    COLOURS,
    WHITE,
    Colour,
    blank,
    draw_label,
    label_height,
    label_width,
    sheet,
    text_size,
    write_text,
)
from structboost.vision.images import Pixels, as_rgb, checked_image, letter_boxed

TRUTH_COLOUR = WHITE
TRUTH_NAME = "truth"
LOST_COLOUR = COLOURS[4]

_FOUND_COLOURS = tuple(colour for colour in COLOURS if colour != LOST_COLOUR)
_PAPER: Colour = (40, 40, 40)
_FAR = 1e5  # pixels; OpenCV's coordinates are small integers
# Widths in the legend, pixels.
_SWATCH, _TEXT_AT, _APART = 14, 26, 14


def tracker_colours(names: Iterable[str]) -> dict[str, Colour]:
    """Choose a colour for each tracker, in the order of first appearance.

    ``"truth"`` is always white.  After eight trackers the colours repeat.
    """
    others = [name for name in dict.fromkeys(names) if name != TRUTH_NAME]
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(others)}
    return colours | {TRUTH_NAME: TRUTH_COLOUR}


def draw_box(
    image: Any,
    box: ArrayLike,
    label: str | None = None,
    *,
    colour: Colour = COLOURS[0],
    truth: ArrayLike | None = None,
) -> Pixels:
    """Draw a box on a copy of a frame.

    Parameters
    ----------
    image : ndarray of uint8 or PIL.Image.Image
        Grey or RGB.
    box : array-like, shape (4,)
        Left, top, width and height, pixels; it may reach out of the frame.  Where it is NaN only
        the label is drawn.
    label : str, optional
        Text above the box, such as the tracker's confidence; it stays inside the frame.
    colour : tuple of int
        RGB.
    truth : array-like, shape (4,), optional
        The true box, drawn in white; NaN where it is unknown.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        RGB.
    """
    is_colour = isinstance(colour, tuple | list) and len(colour) == 3
    if not is_colour or not all(is_whole(level) and 0 <= level <= 255 for level in colour):
        raise TypeError(f"colour is {shown(colour)}; give three whole numbers from 0 to 255, RGB.")
    canvas = as_rgb(checked_image(image)).copy()
    checked = _checked_box(box, "box")
    outlines = [(checked, colour)]
    if truth is not None:
        outlines.insert(0, (_checked_box(truth, "truth"), TRUTH_COLOUR))
    _outline(canvas, outlines)
    if label is not None and not isinstance(label, str):
        raise TypeError(f"label is {shown(label)}; give a text or None.")
    if label:
        draw_label(canvas, label, _label_corner(canvas, checked, label), colour)
    return canvas


def draw_tracks(
    image: Any, index: int, tracks: Sequence[TrackedFrames], truths: Sequence[FloatArray]
) -> Pixels:
    """Draw the last box of each object, the true boxes and a legend on a copy of a frame.

    True boxes are NaN where they are unknown.
    """
    canvas = as_rgb(checked_image(image))
    for box in truths:
        canvas = draw_box(canvas, box, colour=TRUTH_COLOUR)
    for place, tracked in enumerate(tracks):
        is_lost = tracked.lost[-1]
        label = "lost, last seen here" if is_lost else f"confidence {tracked.confidences[-1]:.2f}"
        if len(tracks) > 1:
            label = f"{place + 1}: {label}"
        colour = LOST_COLOUR if is_lost else _FOUND_COLOURS[place % len(_FOUND_COLOURS)]
        canvas = draw_box(canvas, tracked.boxes[-1], label, colour=colour)
    entries: list[tuple[str, Colour | None]] = [(f"frame {index}", None)]
    if any(not np.isnan(box).any() for box in truths):
        entries.append((TRUTH_NAME, TRUTH_COLOUR))
    return draw_legend(canvas, entries)


def draw_legend(image: Pixels, entries: Sequence[tuple[str, Colour | None]]) -> Pixels:
    """Write lines of text into the lower left corner of a copy of an RGB frame.

    The ground of the text is darkened.  An entry is a text, and the colour of a swatch in front of
    it.
    """
    canvas = image.copy()
    step = max(label_height(canvas, text) for text, _ in entries)
    width = max(label_width(canvas, text) + (step if swatch else 0) for text, swatch in entries)
    top = max(canvas.shape[0] - step * len(entries), 0)
    ground = canvas[top:, :width]
    np.copyto(ground, ground // 3)
    for row, (text, swatch) in enumerate(entries):
        at = top + row * step
        if swatch is not None:
            cv2.rectangle(canvas, (4, at + 4), (step - 4, at + step - 4), swatch, 2)
        draw_label(canvas, text, (step if swatch else 0, at), None)
    return canvas


def contact_sheet(
    frames: Iterable[tuple[int, Any, Mapping[str, ArrayLike]]],
    columns: int = 4,
    *,
    tile_width: int = 320,
) -> Pixels:
    """Draw frames in one image, with boxes of several trackers (fig. 6 of StructBoost).

    Parameters
    ----------
    frames : iterable of (int, ndarray, mapping)
        Index of the frame, its image (grey or RGB), and the box of each tracker by the tracker's
        name; the box named ``"truth"`` is drawn in white.
    columns : int, default=4
        Frames per row.
    tile_width : int, default=320
        Width of each frame, pixels.  The first frame sets the height; others are letter-boxed.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        RGB.

    Raises
    ------
    ValueError
        If there are no frames, or ``columns`` or ``tile_width`` is too small.
    """
    listed = _listed_frames(frames)
    columns = checked_whole_number(columns, "columns")
    if checked_whole_number(tile_width, "tile_width") < 16:
        raise ValueError(f"tile_width is {tile_width}; give at least 16.")
    names = list(chain.from_iterable(boxes for _, _, boxes in listed))
    colours = tracker_colours(names)
    height, width = checked_image(listed[0][1], f"frame {listed[0][0]}").shape[:2]
    size = (tile_width, max(1, round(tile_width * height / width)))
    tiles = [_tile(index, image, boxes, colours, size) for index, image, boxes in listed]
    columns = min(columns, len(tiles))
    tiles += [blank(size[1], size[0], _PAPER)] * (-len(tiles) % columns)
    rows = [tiles[start : start + columns] for start in range(0, len(tiles), columns)]
    drawn = {name: colour for name, colour in colours.items() if name in names}
    return sheet([*rows, *([row] for row in _legend(drawn, columns * tile_width))])


def _listed_frames(frames: Any) -> list[tuple[int, Any, Mapping[str, ArrayLike]]]:
    """Return the frames of a sheet as a list, checked."""
    if (
        not isinstance(frames, Iterable)
        or isinstance(frames, str | bytes | Mapping)
        or (getattr(frames, "shape", None) == ())
    ):
        raise TypeError(f"frames is {shown(frames)}; give a list of (index, image, boxes).")
    listed = list(frames)
    if not listed:
        raise ValueError("frames is empty; give at least one.")
    for i, frame in enumerate(listed):
        is_frame = isinstance(frame, tuple | list) and len(frame) == 3
        if not is_frame or not isinstance(frame[2], Mapping):
            raise TypeError(
                f"frames[{i}] is {shown(frame)}; give (index, image, boxes), with boxes by name."
            )
    return listed


def _tile(
    index: int,
    image: Any,
    boxes: Mapping[str, ArrayLike],
    colours: Mapping[str, Colour],
    size: tuple[int, int],
) -> Pixels:
    place = letter_boxed(checked_image(image, f"frame {index}"), size)
    outlines = []
    # Truth comes first, so that a good tracker's box lies on it.
    for name in sorted(boxes, key=lambda name: name != TRUTH_NAME):
        box = _checked_box(boxes[name], f"the box of {name} in frame {index}") * place.scale
        box[:2] += place.offset
        outlines.append((box, colours[name]))
    _outline(place.image, outlines)
    draw_label(place.image, f"#{index}", (0, 0), BLACK)
    return place.image


def _legend(colours: Mapping[str, Colour], width: int) -> list[Pixels]:
    """Draw rows of swatches with names, as many as the width needs."""
    rows: list[Pixels] = []
    left = width
    for name, colour in colours.items():
        text_width, text_height, below = text_size(name)
        if left and left + _TEXT_AT + text_width > width:
            rows.append(blank(text_height + below + 8, width, _PAPER))
            left = 0
        middle = len(rows[-1]) // 2
        first, last = (left + 6, middle - 4), (left + 6 + _SWATCH, middle + 4)
        cv2.rectangle(rows[-1], first, last, colour, -1)
        write_text(rows[-1], name, (left + _TEXT_AT, 4 + text_height), WHITE)
        left += _TEXT_AT + text_width + _APART
    return rows


def _checked_box(box: ArrayLike, name: str) -> FloatArray:
    array = checked_numbers(box, name)
    if array.shape != (4,):
        raise ValueError(f"{name} has shape {array.shape}; give x, y, w, h.")
    return array


def _outline(canvas: Pixels, outlines: Iterable[tuple[FloatArray, Colour]]) -> None:
    """Draw boxes as frames that grow inwards from the last pixel, with later ones on top."""
    outlined = [(_corners(box), colour) for box, colour in outlines if not np.isnan(box).any()]
    # A dark edge outside keeps any colour visible on any photograph.  Edges come first, so that
    # none hides another box.
    for (left, top, right, bottom), _ in outlined:
        cv2.rectangle(canvas, (left - 1, top - 1), (right + 1, bottom + 1), BLACK, 1)
    for (left, top, right, bottom), colour in outlined:
        for inset in range(max(2, min(canvas.shape[:2]) // 200)):
            last = max(left, right - inset), max(top, bottom - inset)
            cv2.rectangle(canvas, (left + inset, top + inset), last, colour, 1)


def _corners(box: FloatArray) -> tuple[int, int, int, int]:
    left, top = np.rint(np.clip(box[:2], -_FAR, _FAR)).astype(int)
    right, bottom = np.rint(np.clip(box[:2] + box[2:], -_FAR, _FAR)).astype(int) - 1
    return int(left), int(top), max(int(left), int(right)), max(int(top), int(bottom))


def _label_corner(canvas: Pixels, box: FloatArray, label: str) -> tuple[int, int]:
    """Place a label above the box, below it, or in its upper corner, where there is room.

    Without a box the label stands in the corner of the frame.
    """
    if np.isnan(box).any():
        return 0, 0
    left, top, _, bottom = _corners(box)
    height, gap = label_height(canvas, label), 1
    above, below = top - gap - height, bottom + gap
    if above < 0:
        above = below if below + height <= canvas.shape[0] else top + gap
    return left - gap, above
