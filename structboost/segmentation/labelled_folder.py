"""Folders of images and their masks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structboost._typing import PathName
from structboost.files.atomic_write import checked_path
from structboost.progress import Phase
from structboost.segmentation.image_files import (
    IMAGE_SUFFIXES,
    VOID,
    ImageFileError,
    Mask,
    Photograph,
    check_one_size,
    files_by_name,
    files_in,
    read_photograph,
    text_lines,
)
from structboost.segmentation.masks import (
    LabelMap,
    MaskSource,
    check_hard_edges,
    mask_source,
    meaning_of,
)
from structboost.validation import (
    checked_flag,
    checked_verbose,
    checked_whole_number,
    is_whole,
    shown,
)


@dataclass(frozen=True)
class LabelledImage:
    """Photograph with its mask, both read from their files at each use.

    Attributes
    ----------
    name : str
        Name of the file, without suffix.
    image_file, mask_file : Path
        Files of photograph and mask.
    meaning : LabelMap
        Meaning of the values of the mask.
    source : MaskSource
        Reader of the mask.
    """

    name: str
    image_file: Path
    mask_file: Path
    meaning: LabelMap
    source: MaskSource

    @property
    def image(self) -> Photograph:
        """RGB, shape (height, width, 3)."""
        return read_photograph(self.image_file)

    @property
    def values(self) -> Mask:
        """Values of the mask, unchanged."""
        return self.source.values(self.name)

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
    problems : list of str
        Files that were left out, and why.
    """

    images: list[LabelledImage]
    meaning: LabelMap
    problems: list[str]


def read_folder(
    images: PathName,
    masks: PathName,
    *,
    names: Iterable[str] | None = None,
    foreground: int | Sequence[int] | None = None,
    n_labels: int | None = None,
    strict: bool = False,
    mask_name: str = "{name}",
    classes: PathName | None = None,
    meaning: LabelMap | None = None,
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
    n_labels : int, optional
        Number of labels; larger values except void are problems.  By default any value is a label.
    strict : bool
        Whether a problem is an error; otherwise the image is left out.
    mask_name : str
        Name of a mask without suffix, in which ``{name}`` is the name of the image.
    classes : str or path, optional
        File with lines ``INDEX NAME``.
    meaning : LabelMap, optional
        Meaning of the masks of a model, which is used wherever the values allow it.
    verbose : int
        1 reports progress on standard error.

    Raises
    ------
    ImageFileError
        If a folder is missing, nothing is left, or, if ``strict``, at the first problem.
    """
    folder, in_masks = checked_path(images, "images"), checked_path(masks, "masks")
    table = None if classes is None else checked_path(classes, "classes")
    together = () if foreground is None else tuple(np.atleast_1d(np.asarray(foreground, object)))
    for value in together:
        if not is_whole(value):
            raise TypeError(f"foreground holds {shown(value)}; give whole numbers, as [1, 2].")
    if n_labels is not None:
        checked_whole_number(n_labels, "n_labels", VOID)
    if not isinstance(meaning, LabelMap | None):
        raise TypeError(f"meaning is {shown(meaning)}; give a LabelMap, or None.")
    checked_flag(strict, "strict")
    checked_verbose(verbose)
    source = mask_source(in_masks, mask_name, table)
    is_known = bool(meaning or source.meaning.names or together)
    problems: list[str] = []
    values: dict[tuple[str, Path, Path], set[int]] = {}
    pairs = _pairs(folder, in_masks, source, names, mask_name, problems)
    with Phase("images and masks read", len(pairs), bool(verbose)) as line:
        for name, image, file in pairs:
            try:
                shape, mask = read_photograph(image).shape, source.values(name)
                check_one_size(f"its image {image.name}", shape, str(file), mask.shape)
                if not is_known:
                    check_hard_edges(mask, str(file))
                values[name, image, file] = set(np.unique(mask).tolist())
            except ValueError as error:
                problems.append(str(error))
            line.step()
    used = replace(source.meaning, foreground=together)
    if not together:
        names_of = meaning if meaning and meaning.names else source.meaning
        of_model = replace(
            meaning or source.meaning, names=names_of.names, colours=names_of.colours
        )
        used = meaning_of(set().union(*values.values()), of_model, n_labels or 2)
    if not used.foreground and n_labels is not None:
        allowed = {*(used.classes or range(n_labels)), VOID}
        for pair, held in list(values.items()):
            if not held <= allowed:
                del values[pair]
                classes_of_model = " and ".join(map(str, used.classes)) or f"0..{n_labels - 1}"
                problems.append(
                    f"{pair[2]} holds the values {sorted(held - allowed)}; the model has "
                    f"{classes_of_model} (and 255, void)."
                )
    if strict and problems:
        raise ImageFileError(problems[0])
    if not values:
        more = f" First of {len(problems)} problems: {problems[0]}" if problems else ""
        raise ImageFileError(f"No image in {images} has a usable mask in {masks}.{more}")
    usable = [LabelledImage(*pair, used, source) for pair in pairs if pair in values]
    return LabelledFolder(usable, used, problems)


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
        If there is no such file, it is empty, a line has another form, or an image has both parts;
        the message names the line.
    """
    parts = _read_pairs(path, "a split", "ID train' or 'ID test", ("train", "test"))
    if not parts:
        raise ImageFileError(f"{path} is empty; give lines 'ID train' or 'ID test'.")
    return parts


def read_groups(given: PathName, names: Sequence[str]) -> list[str]:
    """Return the group of each image, from a file or from its name.

    Parameters
    ----------
    given : str or path
        A file with lines ``ID GROUP``; or a regular expression, whose match in a name (its first
        bracket, if there is one) is the group.
    names : sequence of str
        Names of the images, without suffix.

    Raises
    ------
    ImageFileError
        If a line has another form, or an image has no group.
    """
    if Path(given).is_file():
        group_of = _read_pairs(given, "groups of images", "ID GROUP")
    else:
        try:
            pattern = re.compile(str(given))
        except re.error as error:
            raise ImageFileError(
                f"--groups {given} is no file and no regular expression ({error})."
            ) from error
        matches = {name: pattern.search(name) for name in names}
        group_of = {n: match[min(1, pattern.groups)] for n, match in matches.items() if match}
    missing = [name for name in names if name not in group_of]
    if missing:
        raise ImageFileError(
            f"{missing[0]} has no group in {given} ({len(missing)} of {len(names)} images); give "
            "one for each."
        )
    return [group_of[name] for name in names]


def _read_pairs(path: PathName, what: str, form: str, words: Sequence[str] = ()) -> dict[str, str]:
    """Read lines of a name, a space and a word, one of ``words`` if there are any."""
    word_of: dict[str, str] = {}
    for i, line in enumerate(text_lines(path, what), 1):
        pair = line.strip().rsplit(maxsplit=1)
        is_good = len(pair) == 2 and (not words or pair[1] in words)
        if pair and (not is_good or word_of.setdefault(*pair) != pair[1]):
            raise ImageFileError(
                f"{path}, line {i} is {line.strip()!r}; give '{form}', each ID once."
            )
    return word_of


def _pairs(
    images: Path,
    masks: Path,
    source: MaskSource,
    names: Iterable[str] | None,
    mask_name: str,
    problems: list[str],
) -> list[tuple[str, Path, Path]]:
    """List the images that have masks, with their files, and append problems."""
    mask_of = source.files
    is_shared = images.resolve() == masks.resolve()
    taken = set(mask_of.values()) if is_shared else set()
    image_of, doubts = files_by_name(
        ((path.stem, path) for path in files_in(images) if path not in taken), "the image"
    )
    # In one folder, photographs may have the formats of masks.
    doubts = doubts if is_shared else {**source.doubts, **doubts}
    pairs = []
    for name in image_of if names is None else names:
        if name not in image_of:
            problems.append(
                f"{images / name} has no image file ({', '.join(IMAGE_SUFFIXES)}), "
                "but is in the split."
            )
        elif name not in mask_of:
            file = masks / f"{mask_name.replace('{name}', name)}.png"
            lossy = [] if is_shared else sorted(masks.glob(f"{file.stem}.jp*g"))
            hint = f" {lossy[0].name} is lossy: give a PNG." if lossy else ""
            where = f"in {masks}" if masks.is_file() else file
            problems.append(f"{image_of[name]} has no mask {where}.{hint}")
        elif name in doubts:
            problems.append(doubts[name])
        else:
            pairs.append((name, image_of[name], mask_of[name]))
    for name, mask in mask_of.items():
        if names is None and name not in image_of:
            where = f"of {name} " if masks.is_file() else ""
            problems.append(f"{mask} is a mask {where}without an image in {images}.")
    return pairs
