"""A folder of images and a folder of masks: pairs, meaning of the values, and problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structboost.segmentation.image_files import (
    IMAGE_SUFFIXES,
    VOID,
    ImageFileError,
    Mask,
    Photograph,
    read_mask,
    read_photograph,
)

_MASK_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".gif", ".pgm")


@dataclass(frozen=True)
class Meaning:
    """Meaning of the values of masks.

    Parameters
    ----------
    white_is_foreground : bool
        Whether masks hold only 0 and 255, and 255 is the foreground.
    foreground : int or None
        Class that is taken against all others.
    """

    white_is_foreground: bool = False
    foreground: int | None = None

    def labels(self, mask: Mask) -> Mask:
        """Class indices, 255 where void."""
        if self.white_is_foreground:
            return np.asarray(mask == VOID, np.uint8)
        if self.foreground is None:
            return mask
        return np.where(mask == VOID, VOID, mask == self.foreground).astype(np.uint8)

    def values(self, labels: Mask) -> Mask:
        """Class indices as values of such masks, 255 for a white foreground."""
        return labels * np.uint8(VOID) if self.white_is_foreground else labels

    def __str__(self) -> str:
        if self.white_is_foreground:
            return "masks hold only 0 and 255: 255 is taken for the foreground"
        if self.foreground is not None:
            return f"class {self.foreground} is taken against all others, 255 is void"
        return "values of masks are class indices, 255 is void"


# The meaning of masks that hold only 0 and 255.
WHITE_IS_FOREGROUND = Meaning(white_is_foreground=True)


@dataclass(frozen=True)
class LabelledImage:
    """A photograph with its mask; both are read from their files at each use.

    Attributes
    ----------
    name : str
    image_file, mask_file : Path
    meaning : Meaning
        Meaning of the values of the mask.
    """

    name: str
    image_file: Path
    mask_file: Path
    meaning: Meaning

    @property
    def image(self) -> Photograph:
        """RGB, shape (height, width, 3)."""
        return read_photograph(self.image_file)

    @property
    def mask(self) -> Mask:
        """Class indices, 255 where it is void."""
        return self.meaning.labels(read_mask(self.mask_file))


class LabelledFolder(NamedTuple):
    """Images and masks found in two folders.

    Attributes
    ----------
    images : list of LabelledImage
    meaning : Meaning
    problems : list of str
        Files that were left out, and why.
    """

    images: list[LabelledImage]
    meaning: Meaning
    problems: list[str]


def read_folder(
    images: str | PathLike[str],
    masks: str | PathLike[str],
    *,
    names: Iterable[str] | None = None,
    foreground: int | None = None,
    n_labels: int | None = None,
    strict: bool = False,
) -> LabelledFolder:
    """Photographs with their masks.

    The mask of ``NAME.jpg`` is ``NAME.png``, or has another lossless format.  If all masks hold
    only 0 and 255, then 255 is the foreground.  Otherwise a value is the index of a class, and 255
    is void.

    Parameters
    ----------
    images, masks : str or path
        Folders.
    names : iterable of str, optional
        Names of the images to read, without suffix.  By default all are read.
    foreground : int, optional
        Class that is taken against all others.
    n_labels : int, optional
        Number of labels: larger values but void are problems.  By default any value is a label.
    strict : bool
        Whether a problem is an error; otherwise the image is left out.

    Raises
    ------
    ImageFileError
        If a folder is missing, nothing is left, or, if ``strict``, at the first problem.
    """
    problems: list[str] = []
    values: dict[tuple[str, Path, Path], set[int]] = {}
    pairs = _pairs(Path(images), Path(masks), names, problems)
    for pair in pairs:
        try:
            values[pair] = _values_of_pair(*pair[1:])
        except ImageFileError as error:
            problems.append(str(error))
    is_white = foreground is None and set().union(*values.values()) == {0, VOID}
    meaning = Meaning(is_white, foreground)
    if not is_white and foreground is None and n_labels is not None:
        known = {*range(n_labels), VOID}
        problems += [
            f"{mask} holds the values {sorted(found - known)}; the model knows 0..{n_labels - 1} "
            "(and 255, void)."
            for (_, _, mask), found in values.items()
            if not found <= known
        ]
        values = {pair: found for pair, found in values.items() if found <= known}
    if strict and problems:
        raise ImageFileError(problems[0])
    if not values:
        more = f" First of {len(problems)} problems: {problems[0]}" if problems else ""
        raise ImageFileError(f"No image in {images} has a usable mask in {masks}.{more}")
    usable = [LabelledImage(*pair, meaning) for pair in pairs if pair in values]
    return LabelledFolder(usable, meaning, problems)


def read_split(path: str | PathLike[str]) -> dict[str, str]:
    """The part that each image belongs to, from lines ``ID train`` or ``ID test``.

    Raises
    ------
    ImageFileError
        If there is no such file, or a line has another form; the message gives its number.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ImageFileError(f"{path} cannot be read as a split ({error}).") from error
    parts = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, part = line.strip().rpartition(" ")
        if not name.strip() or part not in ("train", "test"):
            raise ImageFileError(
                f"{path}, line {number} is {line.strip()!r}; give an image's name, a space, and "
                "train or test."
            )
        parts[name.strip()] = part
    if not parts:
        raise ImageFileError(f"{path} is empty; give lines 'ID train' or 'ID test'.")
    return parts


def files_in(folder: Path, suffixes: Sequence[str] = IMAGE_SUFFIXES) -> list[Path]:
    """Files of a folder with one of the suffixes, in order.

    Raises
    ------
    ImageFileError
        If there is no such folder.
    """
    if not folder.is_dir():
        raise ImageFileError(f"There is no folder {folder}.")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes)


def n_labels_of(values: set[int]) -> int:
    """Number of classes of masks with these values: one more than the largest, at least 2.

    Raises
    ------
    ValueError
        If all pixels are of one class, or void.
    """
    present = sorted(values - {VOID})
    if not present:
        raise ValueError(
            f"Every pixel of the masks is void ({VOID}); there is nothing to learn from."
        )
    if len(present) < 2:
        raise ValueError(
            f"The masks hold the classes {present} only; give at least two to learn from."
        )
    return present[-1] + 1


def _pairs(
    images: Path, masks: Path, names: Iterable[str] | None, problems: list[str]
) -> list[tuple[str, Path, Path]]:
    """Names and files of the images that have masks; the others are problems."""
    image_of = {path.stem: path for path in files_in(images)}
    mask_of = {path.stem: path for path in files_in(masks, _MASK_SUFFIXES)}
    pairs = []
    for name in image_of if names is None else names:
        if name not in image_of:
            problems.append(
                f"{images / name} has no image file ({', '.join(IMAGE_SUFFIXES)}), "
                "but is in the split."
            )
        elif name not in mask_of:
            problems.append(f"{image_of[name]} has no mask {masks / name}.png.")
        else:
            pairs.append((name, image_of[name], mask_of[name]))
    if names is None:
        problems += [
            f"{mask} is a mask without an image."
            for name, mask in mask_of.items()
            if name not in image_of
        ]
    return pairs


def _values_of_pair(image: Path, mask: Path) -> set[int]:
    """Values of a mask, once it and its image are known to be readable and of one size."""
    (height, width), values = read_photograph(image).shape[:2], read_mask(mask)
    if values.shape != (height, width):
        raise ImageFileError(
            f"{mask} is {values.shape[1]} x {values.shape[0]} pixels, its image {image.name} "
            f"{width} x {height}; they must be of one size."
        )
    return set(np.unique(values).tolist())
