"""Photographs, masks and scribbles in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from structboost._typing import AnyArray, BoolArray, ByteArray, PathName
from structboost.files.atomic_write import regular_file, write_whole
from structboost.validation import check_unmasked, shown
from structboost.vision.images import (
    as_rgb,
    checked_image,
    decoded_image,
    resized,
)

Photograph = ByteArray
Mask = ByteArray

VOID = 255
_WHITE_OF_16_BITS = 65535
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm")


class ImageFileError(ValueError):
    """Error of a file of an image or a mask.

    The file is missing or unreadable, or does not fit its partner.
    """


class ReadWhenUsed(Sequence[Any]):
    """Sequence of pictures that are read when they are used, so that few are in memory.

    Parameters
    ----------
    items : sequence
    read : callable
        ``read(item)`` returns the picture.
    """

    def __init__(self, items: Sequence[Any], read: Callable[[Any], Any]) -> None:
        self._items, self._read = items, read

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._read(self._items[index])


def text_lines(path: PathName, what: str) -> list[str]:
    """Read the lines of a text file.

    ImageFileError if there is no such file, or it is not text; the message names ``what`` it should
    be.
    """
    try:
        return _bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ImageFileError(f"{path} cannot be read as {what} ({error}).") from error


def read_photograph(path: PathName) -> Photograph:
    """Read an image as RGB, rotated upright and without alpha.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    image : ndarray of uint8, shape (height, width, 3)
        RGB.

    Raises
    ------
    ImageFileError
        If there is no such file, or it is not an image.
    """
    pixels = decoded_image(_bytes(path))
    if pixels is None:
        raise ImageFileError(
            f"{path} cannot be read as an image; it may be damaged or of another format."
        )
    return as_rgb(pixels)


def read_mask(path: PathName) -> Mask:
    """Read the values of a mask, shape (height, width), rotated by its metadata.

    With a palette the values are its indices.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    ImageFileError
        If there is no such file, or it is not an image of 8-bit indices.
    """
    try:
        with Image.open(BytesIO(_bytes(path))) as stored:
            values = _stored_values(stored)
    except (OSError, SyntaxError) as error:
        why = "it is no image" if isinstance(error, UnidentifiedImageError) else error
        raise ImageFileError(f"{path} cannot be read as a mask ({why}).") from error
    if values.ndim == 3:
        if values.shape[2] != 2 and (values[:, :, :3] != values[:, :, :1]).any():
            raise ImageFileError(
                f"{path} is a colour picture; give a mask with one channel (or a palette) of class "
                "indices, such as by examples/colour_masks.py."
            )
        values = values[:, :, 0]
    try:
        return mask_of(values, str(path))
    except ValueError as error:
        raise ImageFileError(str(error)) from error


def _stored_values(picture: Image.Image) -> AnyArray:
    """Return the values of a picture, or the indices of its palette, rotated by its metadata."""
    picture = ImageOps.exif_transpose(picture)
    return np.asarray(picture.convert("L") if picture.mode == "1" else picture)


def mask_of(mask: Any, name: str) -> Mask:
    """Convert a user's mask or scribbles into values of 0..255, shape (height, width).

    The mask is an array of whole numbers or bool, or a picture of Pillow.  The values of a picture
    with a palette are its indices.  A picture is rotated by its EXIF orientation.  Black and white
    of 16 bits, 0 and 65535, are 0 and 255.  ValueError if ``mask`` has another shape, is not of
    whole numbers, or has values beyond 0..255.  TypeError if it is the path of a file.
    """
    if isinstance(mask, Image.Image):
        mask = _stored_values(mask)
    if isinstance(mask, str | PathLike):
        raise TypeError(f"{name} is {str(mask)!r}; read the file first, such as by read_mask.")
    check_unmasked(mask, name, "fill them, such as by mask.filled(255) for void")
    try:
        values = np.asarray(mask)
    except ValueError:  # lists of unequal lengths
        raise TypeError(
            f"{name} is {shown(mask)}; give an array (height, width), one class index per pixel."
        ) from None
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"{name} has shape {values.shape}; give (height, width), one class index per pixel."
        )
    if values.dtype.kind not in "iub":
        raise ValueError(
            f"{name} is {values.dtype}; give class indices 0..254, and 255 for void, as uint8: "
            "np.rint(mask).astype(np.uint8) if the values are indices."
        )
    if values.max() == _WHITE_OF_16_BITS and np.isin(values, (0, _WHITE_OF_16_BITS)).all():
        values = np.where(values == 0, 0, VOID)
    if values.dtype != np.uint8 and (values.min() < 0 or values.max() > VOID):
        raise ValueError(
            f"{name} has values from {values.min()} to {values.max()}; give class indices 0..254, "
            "and 255 for void."
        )
    return values.astype(np.uint8, copy=False)


def check_one_size(
    image: str, image_shape: tuple[int, ...], mask: str, mask_shape: tuple[int, ...]
) -> None:
    """Raise ValueError unless an image and its mask or scribbles are of one size."""
    (height, width), shape = image_shape[:2], mask_shape[:2]
    if shape != (height, width):
        rotated = (
            " One of them is rotated by the EXIF orientation of the photograph, the other is "
            "not: rotate it, too, or take the orientation out of the photograph's file, such as "
            "by exiftool -Orientation= FILE."
        )
        raise ValueError(
            f"{mask} has {shape[1]} x {shape[0]} pixels, {image} {width} x {height}; they must be "
            f"of one size.{rotated if shape == (width, height) else ''}"
        )


def write_png(
    path: PathName,
    pixels: ByteArray,
    palette: Sequence[tuple[int, int, int]] = (),
) -> None:
    """Write a mask (height, width) or an RGB picture (height, width, 3) as a whole file.

    Parameters
    ----------
    path : str or path
        The file.
    pixels : ndarray of uint8
        The mask or picture.
    palette : sequence of (int, int, int), optional
        Colours in which viewers show the values 0, 1, ... of a mask.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    picture, file = Image.fromarray(pixels), BytesIO()
    if palette:
        picture.putpalette([level for colour in palette for level in colour])
    picture.save(file, "png", compress_level=1)
    write_whole(path, file.getvalue())


def photograph(image: Any, name: str) -> Photograph:
    """Return the pixels of an image as RGB."""
    return as_rgb(checked_image(image, name))


def shrink_to(pixels: Photograph, longest: int) -> Photograph:
    """Shrink a photograph to ``longest`` pixels along its longer side, if it is larger."""
    height, width = pixels.shape[:2]
    scale = min(1.0, longest / max(height, width))
    return resized(pixels, (max(1, round(width * scale)), max(1, round(height * scale))))


def outlines(mask: Mask) -> BoolArray:
    """Mark the pixels whose right or lower neighbour has another class."""
    out = np.zeros(mask.shape, np.bool_)
    out[:, :-1] |= mask[:, :-1] != mask[:, 1:]
    out[:-1] |= mask[:-1] != mask[1:]
    return out


def resized_mask(mask: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Resize a mask, or planes of shape (height, width, n), by nearest neighbours."""
    if mask.shape[:2] == tuple(shape[:2]):
        return mask
    if mask.ndim == 3:  # OpenCV accepts few planes
        planes = [resized_mask(plane, shape) for plane in np.moveaxis(mask, 2, 0)]
        return np.stack(planes, axis=2)
    return cv2.resize(mask, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST_EXACT)


def files_in(folder: Path, suffixes: Sequence[str] = IMAGE_SUFFIXES) -> list[Path]:
    """List the files of a folder with one of the suffixes, in order.

    ImageFileError if there is no such folder.
    """
    if not folder.is_dir():
        raise ImageFileError(f"There is no folder {folder}.")
    return sorted(
        path
        for path in folder.iterdir()
        # Names with a leading dot are side files of other systems, not images.
        if path.suffix.lower() in suffixes and not path.name.startswith(".")
    )


def files_by_name(
    named: Iterable[tuple[str, Path]], what: str
) -> tuple[dict[str, Path], dict[str, str]]:
    """Map names to files, and report names that several files have."""
    files: dict[str, Path] = {}
    doubts: dict[str, str] = {}
    for name, file in named:
        other = files.setdefault(name, file)
        if other != file:
            doubts[name] = f"{other} and {file} are both {what} {name}; remove or rename one."
            files[name] = file
    return files, doubts


def _bytes(path: PathName) -> bytes:
    try:
        return regular_file(path, "file", ImageFileError).read_bytes()
    except OSError as error:
        raise ImageFileError(f"{path} cannot be read ({error}).") from error
