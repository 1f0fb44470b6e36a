"""Photographs, masks and scribbles in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from structboost.whole_file import whole_file

Photograph = NDArray[np.uint8]
Mask = NDArray[np.uint8]

VOID = 255
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm")


class ImageFileError(ValueError):
    """A file of an image or a mask is missing, cannot be read, or does not fit its partner; the message names it."""


class ReadWhenUsed(Sequence[Any]):
    """Pictures that are read or made anew whenever one is asked for: of a large folder only one is in memory.

    Parameters
    ----------
    items : sequence
    read : callable
        ``read(item)`` gives the picture.
    """

    def __init__(self, items: Sequence[Any], read: Callable[[Any], NDArray[Any]]) -> None:
        self._items, self._read = items, read

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: Any) -> Any:
        return self._read(self._items[number])


def read_photograph(path: str | PathLike[str]) -> Photograph:
    """An image as RGB, shape (height, width, 3); turned as its camera says, alpha left out.

    Raises
    ------
    ImageFileError
        If there is no such file, or it is no image.
    """
    content = np.frombuffer(_bytes(path), np.uint8)
    pixels = cv2.imdecode(content, cv2.IMREAD_COLOR) if len(content) else None
    if pixels is None:
        raise ImageFileError(f"{path} cannot be read as an image; it may be damaged or of another format.")
    return np.ascontiguousarray(pixels[:, :, ::-1])


def read_mask(path: str | PathLike[str]) -> Mask:
    """Values of a mask, shape (height, width); indices where it has a palette.

    Raises
    ------
    ImageFileError
        If there is no such file, it is no image, or it has colours or more than 8 bits.
    """
    _bytes(path)
    try:
        with Image.open(path) as picture:
            if picture.mode == "1":
                return np.asarray(picture.convert("L"), np.uint8)
            values = np.asarray(picture)
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise ImageFileError(f"{path} cannot be read as a mask ({error}).") from error
    if values.ndim == 3 and (values[:, :, :3] == values[:, :, :1]).all():
        values = values[:, :, 0]
    if values.ndim != 2:
        raise ImageFileError(
            f"{path} is a colour picture; give a mask with one channel (or a palette) of class indices."
        )
    if values.dtype != np.uint8:
        if values.min() < 0 or values.max() > VOID:
            raise ImageFileError(
                f"{path} has values up to {values.max()}; give class indices 0..254, and 255 for void."
            )
        values = values.astype(np.uint8)
    return values


def write_png(path: str | PathLike[str], pixels: NDArray[np.uint8]) -> None:
    """Write a mask (height, width) or an RGB picture (height, width, 3): all of the file or nothing.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    ordered = pixels if pixels.ndim == 2 else pixels[:, :, ::-1]
    done, encoded = cv2.imencode(".png", np.ascontiguousarray(ordered))
    if not done:
        raise ValueError(f"{path}: pixels of shape {pixels.shape} and type {pixels.dtype} are no picture.")
    write_bytes(path, encoded.tobytes())


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write all of a file or nothing of it."""
    with whole_file(path) as file:
        file.write(content)


def fitted(pixels: NDArray[Any], longest: int) -> NDArray[Any]:
    """A photograph no larger than ``longest`` pixels along its longer side; smaller ones stay as they are."""
    size = resized_shape(pixels.shape[:2], longest)
    return pixels if size == pixels.shape[:2] else cv2.resize(pixels, size[::-1], interpolation=cv2.INTER_AREA)


def resized_shape(shape: tuple[int, ...], longest: int) -> tuple[int, int]:
    """Height and width of an image that is to be no larger than ``longest``."""
    scale = min(1.0, longest / max(shape[:2]))
    return max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))


def resized_mask(mask: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A mask at another size; each pixel takes the value nearest to it."""
    if mask.shape == tuple(shape[:2]):
        return mask
    return cv2.resize(mask, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST_EXACT)


def _bytes(path: str | PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise ImageFileError(f"There is no file {path}.") from error
    except OSError as error:
        raise ImageFileError(f"{path} cannot be read ({error}).") from error
