"""Images and masks in memory and in files, for trackers and segmenters.

Images have 8 bits, and are grey (height, width) or RGB (height, width, 3).  OpenCV's BGR appears
only where OpenCV reads files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageOps

from structboost._typing import AnyArray, BoolArray, ByteArray, PathName
from structboost.files.atomic_write import regular_file, write_whole
from structboost.validation import first_masked, shown

Pixels = ByteArray
Photograph = ByteArray
Mask = ByteArray
Shape = tuple[int, ...]

VOID = 255
IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
# Pillow's modes that are grey, and prefixes of those with more than 8 bits, which conversion to RGB
# would clip at 255.
_GREY_MODES = ("1", "L", "LA", "La")
_DEEP_MODES = ("I", "F")
_WANTED = "give uint8 of shape (height, width) for grey or (height, width, 3) for RGB"
_CONVERSION = (
    "np.rint(255 * image).astype(np.uint8) where 1 is white, (image >> 8).astype(np.uint8) where "
    "65535 is white"
)


class ImageFileError(ValueError):
    """Error of a file of an image or a mask.

    The file is missing or unreadable, or does not fit its partner.
    """


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
    if isinstance(image, Image.Image) and not image.mode.startswith(_DEEP_MODES):
        upright = ImageOps.exif_transpose(image)
        image = upright.convert("L" if image.mode in _GREY_MODES else "RGB")
    array = _array_of(image, name, "by structboost.segmentation.read_photograph")
    what, channels = f"{name} is {array.dtype} of shape {array.shape}", array.shape[2:]
    if array.ndim not in (2, 3) or channels not in ((), (1,), (3,), (4,)) or not array.size:
        raise ValueError(f"{what}; {_WANTED}.")
    if array.dtype != np.uint8:
        raise ValueError(f"{what}; {_WANTED}, values from 0 to 255: {_CONVERSION}.")
    if channels == (1,):
        return np.ascontiguousarray(array[:, :, 0])
    return np.ascontiguousarray(array[:, :, :3]) if channels == (4,) else array


def mask_of(mask: Any, name: str) -> Mask:
    """Convert a user's mask or scribbles into values of 0..255, shape (height, width).

    The mask is an array of whole numbers or bool, or a picture of Pillow, which is rotated by its
    EXIF orientation.  The values of a picture with a palette are its indices.  ValueError if
    ``mask`` has another shape, is not of whole numbers, or has values beyond 0..255.  TypeError if
    it is the path of a file.
    """
    if isinstance(mask, Image.Image):
        mask = ImageOps.exif_transpose(mask.convert("L") if mask.mode == "1" else mask)
    values = _array_of(mask, name, "by structboost.segmentation.read_mask")
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"{name} has shape {values.shape}; give (height, width), one class index per pixel."
        )
    if values.dtype.kind not in "iub":
        raise ValueError(
            f"{name} is {values.dtype}; give class indices 0..254, and 255 for void, as uint8: "
            "np.rint(mask).astype(np.uint8) if the values are indices."
        )
    if values.dtype != np.uint8 and (values.min() < 0 or values.max() > VOID):
        raise ValueError(
            f"{name} has values from {values.min()} to {values.max()}; give class indices 0..254, "
            "and 255 for void."
        )
    return values.astype(np.uint8, copy=False)


def _array_of(image: Any, name: str, how: str) -> AnyArray:
    """Return a picture of Pillow or an array as an array, or raise TypeError."""
    if isinstance(image, str | PathLike):
        raise TypeError(f"{name} is {str(image)!r}; read the file first, such as {how}.")
    if first_masked(image) is not None:
        raise ValueError(
            f"{name} has masked entries; fill them, such as by image.filled(0) or mask.filled(255)."
        )
    try:
        return np.asarray(image)
    except ValueError:  # lists of unequal lengths
        raise TypeError(f"{name} is {shown(image)}; {_WANTED}.") from None


def photograph(image: Any, name: str) -> Photograph:
    """Return the pixels of an image as RGB."""
    return as_rgb(checked_image(image, name))


def check_one_size(image: str, image_shape: Shape, mask: str, mask_shape: Shape) -> None:
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


def read_image(path: PathName) -> Pixels:
    """Read an image, grey or RGB, rotated upright and without alpha.

    ImageFileError if there is no such file, or it is not an image.
    """
    try:
        data = np.fromfile(regular_file(path, "file", ImageFileError), np.uint8)
    except OSError as error:
        raise ImageFileError(f"{path} cannot be read ({error}).") from error
    try:
        image = cv2.imdecode(data, cv2.IMREAD_ANYCOLOR) if len(data) else None
    except cv2.error:  # such as an absurd size in a damaged file
        image = None
    if image is None:
        raise ImageFileError(
            f"{path} cannot be read as an image; it may be damaged or of another format."
        )
    return swapped_channels(image)


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
    return as_rgb(read_image(path))


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
        with Image.open(regular_file(path, "file", ImageFileError)) as picture:
            values: Image.Image = picture
            if picture.mode in ("RGB", "RGBA", "LA"):
                channels = np.asarray(picture.convert("RGB"))
                if (channels != channels[:, :, :1]).any():
                    raise ImageFileError(
                        f"{path} is a colour picture; give a mask with one channel (or a palette) "
                        "of class indices, such as by examples/colour_masks.py."
                    )
                values = ImageOps.exif_transpose(picture).getchannel(0)
            return mask_of(values, str(path))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, ImageFileError):
            raise
        raise ImageFileError(f"{path} cannot be read as a mask ({error}).") from error


def write_png(path: PathName, pixels: ByteArray) -> None:
    """Write a mask (height, width) or an RGB picture (height, width, 3) as a whole file.

    Parameters
    ----------
    path : str or path
        The file.
    pixels : ndarray of uint8
        The mask or picture.

    Raises
    ------
    TypeError
        If ``pixels`` is no such array.
    OSError
        If the file cannot be written.
    """
    if getattr(pixels, "dtype", None) != np.uint8:
        raise TypeError(f"pixels is {shown(pixels)}; give an array of uint8.")
    file = BytesIO()
    Image.fromarray(pixels).save(file, "png", compress_level=1)
    write_whole(path, file.getvalue())


def files_in(folder: Path, suffixes: tuple[str, ...] = IMAGE_SUFFIXES) -> list[Path]:
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
    return np.asarray(cv2.resize(image, size, interpolation=method))


def shrink_to(pixels: Photograph, longest: int) -> Photograph:
    """Shrink a photograph to ``longest`` pixels along its longer side, if it is larger."""
    height, width = pixels.shape[:2]
    scale = min(1.0, longest / max(height, width))
    return resized(pixels, (max(1, round(width * scale)), max(1, round(height * scale))))


def resized_mask(mask: AnyArray, shape: Shape) -> AnyArray:
    """Resize a mask by nearest neighbours."""
    if mask.shape == shape:
        return mask
    return cv2.resize(mask, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST_EXACT)


def slopes(grey: Pixels) -> tuple[AnyArray, AnyArray]:
    """Return the differences of the two neighbours of each pixel, across and down."""
    gx, gy = (cv2.Sobel(grey, cv2.CV_32F, *order, ksize=1) for order in ((1, 0), (0, 1)))
    return gx, gy


def grid_points(x: AnyArray, y: AnyArray) -> AnyArray:
    """Return the points of a grid, row by row, shape (n, 2)."""
    return np.stack(np.meshgrid(x, y), axis=2).reshape(-1, 2)


def outlines(mask: Mask) -> BoolArray:
    """Mark the pixels whose right or lower neighbour has another class."""
    out = np.zeros(mask.shape, np.bool_)
    out[:, :-1] |= mask[:, :-1] != mask[:, 1:]
    out[:-1] |= mask[:-1] != mask[1:]
    return out


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
