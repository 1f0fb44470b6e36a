"""Images in memory and drawing on them, in RGB, for trackers and segmenters.

Images have 8 bits, and are grey (height, width) or RGB (height, width, 3).  OpenCV's BGR appears in
this module only where OpenCV reads files, and in the modules that read and write videos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageOps

from structboost._typing import ByteArray
from structboost.validation import check_unmasked, shown

Pixels = ByteArray

# Prefixes of Pillow's modes with more than 8 bits, which conversion to RGB would clip at 255.
_DEEP_MODES = ("I", "F")
_GREY_MODES = ("1", "L", "LA", "La")
_WANTED = "give uint8 of shape (height, width) for grey or (height, width, 3) for RGB"
_CONVERSION = (
    "np.rint(255 * image).astype(np.uint8) where 1 is white, (image >> 8).astype(np.uint8) where "
    "65535 is white"
)


class LetterBox(NamedTuple):
    """Frame on a black canvas of other proportions.

    Coordinates x, y are mapped by ``canvas = scale * frame + offset``.
    """

    image: Pixels
    scale: float
    offset: tuple[int, int]


def checked_image(image: Any, name: str = "image") -> Pixels:
    """Return an image as 8-bit pixels, grey or RGB, without an alpha channel.

    Parameters
    ----------
    image : ndarray of uint8 or PIL.Image.Image
        An array of shape (height, width), (height, width, 1), (height, width, 3) or (height, width,
        4), its channels in the order RGB; or a picture of any mode with 8 bits, whose palette or
        colour space is converted, and which is rotated by its EXIF orientation.
    name : str
        Name of the image in errors.

    Returns
    -------
    ndarray of uint8, shape (height, width) or (height, width, 3)
        The array itself where it has such a shape.

    Raises
    ------
    ValueError
        If the image has no pixels, other channels, or values of more than 8 bits; the message
        names it and the remedy.
    TypeError
        If it is the path of a file.
    """
    if isinstance(image, Image.Image):
        return _pixels_of_picture(image, name)
    if isinstance(image, str | PathLike):
        raise TypeError(
            f"{name} is {str(image)!r}; read the file first, such as by PIL.Image.open or by "
            "structboost.segmentation.read_photograph."
        )
    check_unmasked(image, name, "fill them, such as by image.filled(0)")
    try:
        array = np.asarray(image)
    except ValueError:  # lists of unequal lengths
        raise TypeError(f"{name} is {shown(image)}; {_WANTED}.") from None
    channels = array.shape[2:]
    what = f"{name} is {array.dtype} of shape {array.shape}"
    if array.ndim not in (2, 3) or channels not in ((), (1,), (3,), (4,)) or not array.size:
        raise ValueError(f"{what}; {_WANTED}.")
    if array.dtype != np.uint8:
        raise ValueError(f"{what}; {_WANTED}, values from 0 to 255: {_CONVERSION}.")
    if channels == (1,):
        return np.ascontiguousarray(array[:, :, 0])
    return np.ascontiguousarray(array[:, :, :3]) if channels == (4,) else array


def decoded_image(content: bytes) -> Pixels | None:
    """Decode the bytes of an image file and rotate the image by its metadata.

    Returns None if the bytes are no image.  OpenCV raises cv2.error, for example at an absurd size
    in a damaged file.
    """
    data = np.frombuffer(content, np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_ANYCOLOR) if len(data) else None
    return None if image is None else swapped_channels(image)


def swapped_channels(image: Any) -> Pixels:
    """Convert OpenCV's BGR to RGB, or RGB to BGR, and return grey images unchanged."""
    pixels = np.asarray(image, np.uint8)
    return pixels if pixels.ndim == 2 else np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))


def as_rgb(image: Pixels) -> Pixels:
    """Convert an image to RGB, and return RGB images unchanged."""
    return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image


def as_grey(image: Pixels) -> Pixels:
    """Convert an image to grey, and return grey images unchanged."""
    return image if image.ndim == 2 else np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def resized(image: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize to (width, height), by means of areas or, for larger sizes, bilinearly."""
    if size == image.shape[1::-1]:
        return image
    shrinks = size[0] < image.shape[1] or size[1] < image.shape[0]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, size, interpolation=method), np.uint8)


def letter_boxed(image: Pixels, size: tuple[int, int]) -> LetterBox:
    """Fit the image into ``size``, (width, height), centred, with black margins."""
    height, width = image.shape[:2]
    scale = min(size[0] / width, size[1] / height)
    inner = (max(1, round(scale * width)), max(1, round(scale * height)))
    left, above = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    canvas[above : above + inner[1], left : left + inner[0]] = resized(as_rgb(image), inner)
    return LetterBox(canvas, scale, (left, above))


def _pixels_of_picture(picture: Image.Image, name: str) -> Pixels:
    if picture.mode.startswith(_DEEP_MODES):
        raise ValueError(
            f"{name} is a picture of mode {picture.mode!r}, which has more than 8 bits; "
            "scale its values to 0..255 and give them as an array of uint8."
        )
    if not picture.width or not picture.height:
        raise ValueError(
            f"{name} is a picture of {picture.width} x {picture.height} pixels; give a larger one."
        )
    picture = ImageOps.exif_transpose(picture)
    return np.array(picture.convert("L" if picture.mode in _GREY_MODES else "RGB"), np.uint8)


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
