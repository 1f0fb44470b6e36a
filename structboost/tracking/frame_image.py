"""The image of a frame: 8-bit grey (height, width) or BGR (height, width, 3), of any size."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

FrameImage = NDArray[np.uint8]


class LetterBox(NamedTuple):
    """Where a frame lies on a canvas of other proportions: ``canvas = scale * frame + offset``, x before y.

    Attributes
    ----------
    image : ndarray of uint8, shape (height, width, 3)
        The canvas, BGR.
    scale : float
    offset : tuple of int
        Black columns on the left, black rows above.
    """

    image: FrameImage
    scale: float
    offset: tuple[int, int]


def checked_image(image: Any, name: str = "image") -> FrameImage:
    """``image`` as an array of one of the two forms.

    Raises
    ------
    ValueError
        If it is not 8-bit, has no pixels, or is neither grey nor BGR.
    """
    array = np.asarray(image)
    channels = array.shape[2:]
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or channels not in ((), (3,)) or not array.size:
        raise ValueError(
            f"{name} is {array.dtype} of shape {array.shape}; "
            "give uint8 of shape (height, width) for grey or (height, width, 3) for BGR."
        )
    return array


def as_bgr(image: FrameImage) -> FrameImage:
    """A BGR copy."""
    if image.ndim == 2:
        return np.repeat(image[:, :, None], 3, axis=2)
    return image.copy()


def grey_of(image: FrameImage) -> FrameImage:
    """Grey values; a grey image itself."""
    return image if image.ndim == 2 else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), np.uint8)


def letter_boxed(image: FrameImage, size: tuple[int, int]) -> LetterBox:
    """``image`` as large as fits into ``size``, centred, with black margins.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width) or (height, width, 3)
    size : tuple of int
        (width, height) of the canvas, pixels.
    """
    height, width = image.shape[:2]
    scale = min(size[0] / width, size[1] / height)
    inner = (max(1, round(scale * width)), max(1, round(scale * height)))
    left, above = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    frame = as_bgr(image)
    if inner != (width, height):
        method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        frame = np.asarray(cv2.resize(frame, inner, interpolation=method), np.uint8)
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    canvas[above : above + inner[1], left : left + inner[0]] = frame
    return LetterBox(canvas, scale, (left, above))
