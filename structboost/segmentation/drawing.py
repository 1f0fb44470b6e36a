"""Drawing of segmentations over photographs, and contact sheets (fig. 7 of StructBoost)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from structboost.segmentation.image_files import (
    VOID,
    Mask,
    Photograph,
    check_one_size,
    mask_of,
    outlines,
    resized_mask,
)
from structboost.segmentation.masks import LabelMap
from structboost.validation import (
    checked_flag,
    checked_list,
    checked_whole_number,
    is_whole,
    shown,
)
from structboost.vision.images import (
    WHITE,
    Pixels,
    as_rgb,
    blank,
    checked_image,
    class_colours,
    draw_label,
    resized,
    sheet,
)
from structboost.vision.images import legend as names_on_colours

_TINT = 0.45  # weight of a class's colour in its pixels
_FADE = 0.45  # factor of the background's brightness
_VISIBLE = 60  # darker colours do not show on a photograph
_GAP = 4
_HEAD = 22
_SMALLEST_NAME = 0.4  # size of a text
_WIDEST_TILE = 10_000


def draw_segmentation(
    image: Photograph,
    mask: Mask,
    n_labels: int = 2,
    *,
    background: int | None = 0,
    meaning: LabelMap | None = None,
    legend: bool = False,
) -> Pixels:
    """Draw a segmentation on a copy of a photograph.

    With two classes the foreground is outlined and the rest darkened; with more, every class but
    the background has a colour.  Void pixels stay as they are.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)
        RGB.
    mask : ndarray of uint8, shape (height, width)
        Class indices, 255 where void.
    n_labels : int
        Number of classes.
    background : int or None
        Class without paint where there are more than two; None paints all.
    meaning : LabelMap, optional
        Names and colours of the classes, where they have any.
    legend : bool
        Whether a strip below the photograph names the colours, if there are more than two classes.

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
    checked_flag(legend, "legend")
    if background is not None and not (is_whole(background) and 0 <= background <= VOID):
        raise ValueError(f"background is {shown(background)}; give a class from 0, or None.")
    if meaning is not None and not isinstance(meaning, LabelMap):
        raise TypeError(f"meaning is {shown(meaning)}; give a LabelMap, or None.")
    image, mask = as_rgb(checked_image(image)), mask_of(mask, "mask")
    check_one_size("image", image.shape, "mask", mask.shape)
    meaning = meaning or LabelMap()
    canvas, colours = image.astype(np.float32), class_colours(n_labels)
    if n_labels == 2:
        canvas[mask == 0] *= _FADE
    else:
        for label in range(n_labels):
            colour = meaning.colour(label)
            if colour is not None and max(colour) >= _VISIBLE:
                colours[label] = colour
        painted = (mask < n_labels) & (mask != (VOID if background is None else background))
        canvas[painted] += _TINT * (colours[mask[painted]] - canvas[painted])
    drawn = np.clip(np.rint(canvas), 0, 255).astype(np.uint8)
    drawn[outlines(mask) & (mask != VOID)] = WHITE
    if not legend or n_labels == 2:
        return drawn
    present = [k for k in np.unique(mask[mask < n_labels]).tolist() if k != background]
    names: dict[str, Any] = {meaning.name(k): colours[k].tolist() for k in present}
    lines = names_on_colours(names, mask.shape[1], max(_SMALLEST_NAME, min(mask.shape) / 900))
    return np.concatenate((drawn, *lines))


def contact_sheet(
    rows: Sequence[tuple[str, Photograph, Mapping[str, Mask]]],
    n_labels: int = 2,
    *,
    tile_width: int = 200,
) -> Pixels:
    """Draw photographs beside several segmentations, with names on top.

    Parameters
    ----------
    rows : sequence of (str, ndarray, mapping)
        Name of the photograph, its pixels (RGB), and its segmentations by name, including the
            truth to show it.  All rows have the names of the first.
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
    ValueError, TypeError
        If there are no rows, a row lacks a segmentation, or an argument is of another kind.
    """
    n_labels = checked_whole_number(n_labels, "n_labels", VOID)
    tile_width = checked_whole_number(tile_width, "tile_width", _WIDEST_TILE)
    example = "[('name', image, {'truth': mask})]"
    for i, row in enumerate(checked_list(rows, "rows", example) or [None]):
        if not isinstance(row, Sequence) or len(row) != 3 or not isinstance(row[2], Mapping):
            raise TypeError(f"rows[{i}] is {shown(row)}; give a list such as {example}.")
    names = list(rows[0][2])
    lines = [[blank(_HEAD, tile_width, WHITE) for _ in ("image", *names)]]
    for canvas, name in zip(lines[0], ("image", *names), strict=True):
        draw_label(canvas, name, (0, _HEAD), WHITE, _SMALLEST_NAME)
    for name, image, masks in rows:
        pixels = as_rgb(checked_image(image, f"the image of rows, {name}"))
        height = max(1, round(pixels.shape[0] * tile_width / pixels.shape[1]))
        small = resized(pixels, (tile_width, height))
        lines.append([small])
        for n in names:
            if n not in masks:
                raise ValueError(f"{name} has no segmentation named {n!r}; the first row has.")
            mask = resized_mask(mask_of(masks[n], f"the mask {n} of rows, {name}"), small.shape)
            lines[-1].append(draw_segmentation(small, mask, n_labels))
    return sheet(lines, gap=_GAP)
