"""Folders of images and their masks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structboost._typing import PathName
from structboost.files.atomic_write import checked_path
from structboost.progress import ProgressLine
from structboost.segmentation.masks import (
    LabelMap,
    MaskSource,
    by_name,
    check_hard_edges,
    mask_source,
    meaning_of,
    read_classes,
    read_lines,
)
from structboost.vision.images import (
    IMAGE_SUFFIXES,
    VOID,
    ImageFileError,
    Mask,
    Photograph,
    check_one_size,
    files_in,
    read_photograph,
)


class LabelledImage(NamedTuple):
    """Photograph with its mask, both read from their files at each use.

    Attributes
    ----------
    name : str
        Name of the file, without suffix.
    image_file : Path
        File of the photograph.
    meaning : LabelMap
        Meaning of the values of the mask.
    source : MaskSource
        Reader of the mask.
    """

    name: str
    image_file: Path
    meaning: LabelMap
    source: MaskSource

    @property
    def image(self) -> Photograph:
        """RGB, shape (height, width, 3)."""
        return read_photograph(self.image_file)

    @property
    def values(self) -> Mask:
        """Values of the mask, unchanged."""
        return self.source.read(self.name)

    @property
    def mask(self) -> Mask:
        """Class indices, 255 where it is void."""
        return self.meaning.labels(self.values)


class LabelledFolder(NamedTuple):
    """Pairs of images and masks from two folders.

    Attributes
    ----------
    images : list of LabelledImage
        Pairs of photographs and masks.
    meaning : LabelMap
        Meaning of the values of the masks.
    """

    images: list[LabelledImage]
    meaning: LabelMap


def read_folder(
    images: PathName,
    masks: PathName,
    *,
    names: Iterable[str] | None = None,
    foreground: int | Sequence[int] | None = None,
    classes: PathName | None = None,
    meaning: LabelMap | None = None,
    n_labels: int = VOID,
    verbose: int = 0,
) -> LabelledFolder:
    """Read photographs with their masks.

    The mask of ``NAME.jpg`` is ``NAME.png``, or has another lossless format, or is ``NAME.json`` of
    LabelMe.  If all masks together hold two values (255 is void, unless it is one of the two), the
    larger one is the foreground.  Otherwise a value is the index of a class, and 255 is void.

    Parameters
    ----------
    images : str or path
        A folder.
    masks : str or path
        A folder of pictures or of LabelMe's files, or one JSON file in COCO's format.
    names : iterable of str, optional
        Names of the images to read, without suffix.  By default all are read.
    foreground : int or sequence of int, optional
        Classes that together form one class, against all others.
    classes : str or path, optional
        File with lines ``INDEX NAME``.
    meaning : LabelMap, optional
        Meaning of the masks of a model, which these masks must have, too.
    n_labels : int, optional
        Number of labels of this model.
    verbose : int
        1 reports progress on standard error.

    Raises
    ------
    ImageFileError, ValueError
        If a folder is missing or empty, an image or a mask lacks its partner, or a file cannot be
        used; the message names it.
    """
    folder, place = checked_path(images, "images"), checked_path(masks, "masks")
    known_names = () if meaning is None else meaning.names
    source = mask_source(place, known_names if classes is None else read_classes(classes))
    if meaning is not None and source.names != known_names:
        raise ImageFileError(
            f"{masks} has the classes {source.names}, and the model has {known_names}."
        )
    pairs = _pairs(folder, source, place, names)
    together = () if foreground is None else tuple(np.atleast_1d(foreground).tolist())
    values: set[int] = set()
    with ProgressLine("images and masks read", len(pairs), bool(verbose)) as line:
        for name, image in pairs:
            mask, file = source.read(name), str(source.files[name])
            shape = read_photograph(image).shape
            check_one_size(f"its image {image.name}", shape, file, mask.shape)
            if meaning is None and not source.names and not together:
                check_hard_edges(mask, file)
            pixels = {*np.unique(mask).tolist()}
            if meaning is not None and not meaning.foreground:
                usual = {*(meaning.classes or range(n_labels)), VOID}
                if not pixels <= usual:
                    listed = " and ".join(map(str, meaning.classes)) or f"0..{n_labels - 1}"
                    raise ImageFileError(
                        f"{file} holds the values {sorted(pixels - usual)}; the model has {listed} "
                        f"(and {VOID}, void)."
                    )
            values |= pixels
            line.step()
    if meaning is None:
        whole = LabelMap(foreground=together, names=source.names)
        meaning = whole if together else meaning_of(values, source.names)
    elif VOID in values and VOID not in meaning.classes and len(values) == 2:
        raise ImageFileError(
            f"The masks hold {min(values)} and {VOID} only, and to the model {VOID} is void; give "
            "masks with the values of those of its training."
        )
    return LabelledFolder([LabelledImage(*pair, meaning, source) for pair in pairs], meaning)


def read_split(path: PathName) -> dict[str, str]:
    """Read the part of each image, from lines ``ID train`` or ``ID test``.

    Parameters
    ----------
    path : str or path
        The text file.

    Returns
    -------
    parts : dict of str to str
        "train" or "test" for each image's name.

    Raises
    ------
    ImageFileError
        If there is no such file, a line has another form, or an image has both parts; the message
        names the line.
    """
    parts: dict[str, str] = {}
    for name, part, wrong in read_lines(path, "'ID train' or 'ID test'", str.rsplit):
        if part not in ("train", "test") or parts.setdefault(name, part) != part:
            raise wrong
    return parts


def _pairs(
    folder: Path, source: MaskSource, masks: Path, names: Iterable[str] | None
) -> list[tuple[str, Path]]:
    """List names and files of the images, and raise ImageFileError if one has no partner."""
    images = by_name(files_in(folder), "the image")
    listed = list(images if names is None else names)
    if not listed:
        raise ImageFileError(f"{folder} has no images ({', '.join(IMAGE_SUFFIXES)}).")
    for name in listed:
        if name not in images:
            raise ImageFileError(
                f"{folder / name} has no image file ({', '.join(IMAGE_SUFFIXES)})."
            )
        if name not in source.files:
            raise ImageFileError(f"{images[name]} has no mask in {masks}; add it, or move it away.")
    # A file of COCO may have more images than the folder.
    if names is None and masks.is_dir():
        for name in source.files.keys() - images.keys():
            raise ImageFileError(f"{source.files[name]} is a mask without an image in {folder}.")
    return [(name, images[name]) for name in listed]
