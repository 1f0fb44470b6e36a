"""Drawing of boxes on frames, and contact sheets of several trackers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray
from structboost.tracking.tracks import TrackedFrames
from structboost.validation import (
    checked_numbers,
    checked_text_or_none,
    checked_whole_number,
    is_whole,
    shown,
)
from structboost.vision.images import (
    BLACK,
    COLOURS,
    WHITE,
    Colour,
    Pixels,
    as_rgb,
    blank,
    checked_image,
    draw_label,
    label_size,
    legend,
    letter_boxed,
    sheet,
)

TRUTH_NAME, TRUTH_COLOUR = "truth", WHITE
_LOST_COLOUR = COLOURS[4]
_FOUND_COLOURS = tuple(colour for colour in COLOURS if colour != _LOST_COLOUR)
_FAR = 1e5  # pixels; OpenCV's coordinates are small integers


Corners = tuple[int, int, int, int]


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
    checked_text_or_none(label, "label")
    canvas = as_rgb(checked_image(image)).copy()
    corners = _corners(box, "box")
    true = [] if truth is None else [(_corners(truth, "truth"), TRUTH_COLOUR)]
    _outline(canvas, [*true, (corners, colour)])
    if label:
        # Above the box, below it, or in its upper corner, where there is room.
        left, top, _, bottom = corners or (1, 0, 0, -1)
        height = label_size(canvas, label)[1]
        if top - 1 - height < 0:
            top = bottom + 2 + height if bottom + 1 + height <= len(canvas) else top + 2 + height
        draw_label(canvas, label, (left - 1, top - 1 - height), colour)
    return canvas


def draw_tracks(
    image: Any, index: int, tracks: Sequence[TrackedFrames], truths: Sequence[FloatArray]
) -> Pixels:
    """Draw the last box of each object, the true boxes and the frame's index on a copy of a frame.

    True boxes are NaN where they are unknown.
    """
    canvas = as_rgb(checked_image(image)).copy()
    for box in truths:
        canvas = draw_box(canvas, box, TRUTH_NAME, colour=TRUTH_COLOUR)
    for place, tracked in enumerate(tracks):
        colour = _FOUND_COLOURS[place % len(_FOUND_COLOURS)]
        label = f"confidence {tracked.confidences[-1]:.2f}"
        if tracked.lost[-1]:
            label, colour = "lost, last seen here", _LOST_COLOUR
        prefix = f"{place + 1}: " if len(tracks) > 1 else ""
        canvas = draw_box(canvas, tracked.boxes[-1], prefix + label, colour=colour)
    draw_label(canvas, f"frame {index}", (0, len(canvas)), BLACK)
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
    ValueError, TypeError
        If there are no frames, or ``columns`` or ``tile_width`` is too small.
    """
    columns = checked_whole_number(columns, "columns")
    tile_width = checked_whole_number(tile_width, "tile_width", least=16)
    try:
        listed = [(index, image, dict(boxes)) for index, image, boxes in frames]
    except (TypeError, ValueError):
        raise TypeError(
            f"frames is {shown(frames)}; give a list of (index, image, boxes), with boxes by name."
        ) from None
    if not listed:
        raise ValueError("frames is empty; give at least one.")
    colours = tracker_colours(name for _, _, boxes in listed for name in boxes)
    height, width = checked_image(listed[0][1], f"frame {listed[0][0]}").shape[:2]
    size = (tile_width, max(1, round(tile_width * height / width)))
    tiles = []
    for index, image, boxes in listed:
        tile, scale, offset = letter_boxed(checked_image(image, f"frame {index}"), size)
        named = [(name, colours[name]) for name in colours if name in boxes]
        _outline(
            tile,
            [
                (_corners(boxes[n], f"the box of {n} in frame {index}", scale, offset), colour)
                for n, colour in named
            ],
        )
        draw_label(tile, f"#{index}", (0, 0), BLACK)
        tiles.append(tile)
    columns = min(columns, len(tiles))
    tiles += [blank(size[1], size[0], BLACK)] * (-len(tiles) % columns)
    rows = [tiles[start : start + columns] for start in range(0, len(tiles), columns)]
    return sheet([*rows, *([row] for row in legend(colours, columns * tile_width))])


def tracker_colours(names: Iterable[str]) -> dict[str, Colour]:
    """Choose a colour for each tracker, in the order of first appearance.

    ``"truth"`` comes first and is always white, so that the box of a good tracker lies on it.
    After eight trackers the colours repeat.
    """
    every_name = dict.fromkeys(names)
    truth = {TRUTH_NAME: TRUTH_COLOUR} if TRUTH_NAME in every_name else {}
    return truth | dict(
        zip((n for n in every_name if n not in truth), cycle(COLOURS), strict=False)
    )


def _outline(canvas: Pixels, outlines: Sequence[tuple[Corners | None, Colour]]) -> None:
    """Draw boxes as frames that grow inwards from the last pixel, with later ones on top."""
    shown_boxes = [(corners, colour) for corners, colour in outlines if corners is not None]
    # A dark edge outside keeps any colour visible on any photograph.  Edges come first, so that
    # none hides another box.
    for (left, top, right, bottom), _ in shown_boxes:
        cv2.rectangle(canvas, (left - 1, top - 1), (right + 1, bottom + 1), BLACK, 1)
    for (left, top, right, bottom), colour in shown_boxes:
        for inset in range(max(2, min(canvas.shape[:2]) // 200)):
            last = max(left, right - inset), max(top, bottom - inset)
            cv2.rectangle(canvas, (left + inset, top + inset), last, colour, 1)


def _corners(
    box: ArrayLike, name: str, scale: float = 1.0, offset: tuple[int, int] = (0, 0)
) -> Corners | None:
    """Return first and last pixels of a box on a scaled and shifted canvas, None if unknown."""
    array = checked_numbers(box, name)
    if array.shape != (4,):
        raise ValueError(f"{name} has shape {array.shape}; give x, y, w, h.")
    if np.isnan(array).any():
        return None
    first = scale * array[:2] + offset
    ends = np.concatenate((first, first + scale * array[2:]))
    left, top, right, bottom = np.rint(np.clip(ends, -_FAR, _FAR)).astype(int).tolist()
    return left, top, max(left, right - 1), max(top, bottom - 1)
