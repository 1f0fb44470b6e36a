"""Masks, the meaning of their values, and folders of photographs with their masks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from skimage.draw import polygon

from structboost._typing import BoolArray, PathName
from structboost.files.atomic_write import checked_path, regular_file
from structboost.progress import ProgressLine
from structboost.validation import is_whole
from structboost.vision.images import (
    IMAGE_SUFFIXES,
    VOID,
    ImageFileError,
    Mask,
    Photograph,
    Shape,
    check_one_size,
    files_in,
    read_mask,
    read_photograph,
)

# Masks of two values with soft edges have at least so many values, including a large one, that
# fill a small part of the mask, or more values than a photograph has classes.
_FEWEST_SOFT = 3
_LARGEST_RIM = 0.2
_MOST_CLASSES = 100
Names = tuple[str, ...]


@dataclass(frozen=True)
class LabelMap:
    """Meaning of the values of masks.

    Parameters
    ----------
    classes : tuple of int
        The value of each class.  If empty, a value is the index of a class.
    foreground : tuple of int
        Values that together form class 1, against all others.
    names : tuple of str
        Names of the values 0, 1, ..., as far as they have any.
    """

    classes: tuple[int, ...] = ()
    foreground: tuple[int, ...] = ()
    names: Names = ()

    def __post_init__(self) -> None:
        for name in ("classes", "foreground"):
            values = tuple(getattr(self, name))
            if not all(is_whole(value) and 0 <= value <= VOID for value in values):
                raise ValueError(f"{name} is {values}; give whole numbers from 0 to {VOID}.")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "names", tuple(map(str, self.names)))

    def labels(self, mask: Mask) -> Mask:
        """Convert a mask to class indices.

        Parameters
        ----------
        mask : ndarray of uint8, shape (height, width)
            Values of the mask.

        Returns
        -------
        labels : ndarray of uint8, shape (height, width)
            0..n_labels-1, and 255 where void.
        """
        table = np.arange(VOID + 1, dtype=np.uint8)
        if self.foreground:
            table[:VOID] = np.isin(table[:VOID], self.foreground)
        elif self.classes:
            table[:] = VOID
            table[list(self.classes)] = np.arange(len(self.classes))
        return table[mask]

    def values(self, labels: Mask) -> Mask:
        """Convert class indices to values of such masks.

        Parameters
        ----------
        labels : ndarray of uint8, shape (height, width)
            Class indices.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            Values of the mask; with ``foreground``, or without ``classes``, the class indices
            themselves.
        """
        table = np.arange(VOID + 1, dtype=np.uint8)
        if not self.foreground:
            table[: len(self.classes)] = self.classes
        return table[labels]

    def n_labels(self, values: set[int]) -> int:
        """Return the number of classes of masks with these values.

        Parameters
        ----------
        values : set of int
            All values that occur.

        Returns
        -------
        n_labels : int
            At least 2.

        Raises
        ------
        ValueError
            If all pixels are of one class, or void.
        """
        if self.foreground and not values & {*self.foreground}:
            raise ValueError(
                f"foreground is {[*self.foreground]}, and the masks hold the values "
                f"{sorted(values)} only; give values that occur."
            )
        if self.classes and not self.foreground:
            return len(self.classes)
        present: set[int] = {*self.labels(np.array([*values], np.uint8)).tolist()} - {VOID}
        if not present:
            raise ValueError(
                f"Every pixel of the masks is void ({VOID}); there is nothing to learn from."
            )
        if len(present) < 2:
            raise ValueError(
                f"The masks hold the classes {[*present]} only; give at least two to learn from."
            )
        return max(present) + 1

    def name(self, label: int) -> str:
        """Return the name of a class, or its value where it has none.

        Parameters
        ----------
        label : int
            Class index.

        Returns
        -------
        name : str
            With ``foreground``, class 0 is "rest".
        """
        named = dict(enumerate(self.names))
        if self.foreground:
            words = [named.get(value) or str(value) for value in self.foreground]
            return "+".join(words) if label else "rest"
        value = self.classes[label] if self.classes else label
        unnamed = ("background", "foreground")[label] if len(self.classes) == 2 else str(value)
        return named.get(value) or unnamed

    def __str__(self) -> str:
        if self.foreground:
            wanted = " and ".join(str(value) for value in self.foreground)
            return f"class {wanted} is one class and all others are the other, 255 is void"
        if self.classes == (0, VOID):
            return "masks hold only 0 and 255: 255 is taken for the foreground"
        if len(self.classes) == 2:
            first, second = self.classes
            return f"masks hold two values: {second} is taken for the foreground, {first} is not"
        if self.classes:
            return f"the values {[*self.classes]} are the classes, and all others are void"
        return "values of masks are class indices, 255 is void"


def meaning_of(values: set[int], names: Names = ()) -> LabelMap:
    """Derive the meaning of masks from all their values.

    Two values are two classes, the larger one the foreground.  Otherwise a value is the index of a
    class, and 255 is void.
    """
    inside = sorted(values - {VOID})
    if len(values) == 2 and VOID in values and inside != [1]:
        inside.append(VOID)
    return LabelMap(tuple(inside) if len(inside) == 2 and inside != [0, 1] else (), names=names)


def check_hard_edges(mask: Mask, name: str) -> None:
    """Raise ValueError if a mask without a known meaning seems to be a resized one of 0 and 255."""
    values, counts = np.unique(mask, return_counts=True)
    between = (values > 0) & (values < VOID)
    if not {0, VOID} <= {*values.tolist()} or between.sum() < _FEWEST_SOFT:
        return
    is_rim = counts[between].sum() < _LARGEST_RIM * mask.size or between.sum() > _MOST_CLASSES
    if is_rim and values[between].max() > VOID // 2:
        raise ValueError(
            f"{name} holds {len(values)} values from 0 to {VOID}, as masks of two values with soft "
            f"edges do; threshold it: 255 * (mask > {VOID // 2}). If the values are classes, give "
            "their names (--classes), or meaning=LabelMap() to Segmenter."
        )


def read_lines(path: PathName, form: str, pattern: str) -> dict[str, str]:
    """Read the two groups of a pattern in each line of a text file, the second by the first.

    ImageFileError if there is no such file, or a line has another form, or contradicts another.
    """
    try:
        lines = regular_file(path, "file", ImageFileError).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ImageFileError(f"{path} cannot be read as text ({error}).") from error
    read: dict[str, str] = {}
    for i, line in enumerate(map(str.strip, lines), 1):
        match = re.fullmatch(pattern, line)
        if line and (match is None or read.setdefault(match[1], match[2]) != match[2]):
            raise ImageFileError(f"{path}, line {i} is {line!r}; give {form}, each once.")
    return read


def read_classes(path: PathName) -> Names:
    """Read the names of the classes 0, 1, ..., from lines ``INDEX NAME``.

    ImageFileError if there is no such file, or a line, which is named, has another form.
    """
    lines = read_lines(path, "INDEX NAME", r"0*(\d{1,2}|1\d\d|2[0-4]\d|25[0-5])\s+(.+)")
    names = {int(index): name for index, name in lines.items()}
    names.pop(VOID, None)
    return tuple(names.get(value, "") for value in range(max(names, default=-1) + 1))


_MASK_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".gif", ".pgm")
# Labels of LabelMe that are no classes.
_BACKGROUND, _IGNORED = ("_background_", "background"), "__ignore__"


class MaskSource(NamedTuple):
    """Source of the masks of several images.

    Attributes
    ----------
    files : dict of str to Path
        File of the mask by the name of the image.
    names : tuple of str
        Names of the values, as far as they have any.
    read : callable
        ``read(name)`` returns the values of an image's mask, shape (height, width).
        ImageFileError if the file is damaged.
    """

    files: dict[str, Path]
    names: Names
    read: Callable[[str], Mask]


def mask_source(place: Path, names: Names) -> MaskSource:
    """Open the masks of a folder of pictures or LabelMe files, or of a JSON file in COCO's format.

    ``names`` are those of the values of pictures, or of the classes of LabelMe, if they are known.
    """
    if place.is_file():
        return _coco_masks(place)
    if annotations := by_name(files_in(place, (".json",)), "the mask of"):
        return _labelme_masks(annotations, names)
    pictures = by_name(files_in(place, _MASK_SUFFIXES), "the mask of")
    return MaskSource(pictures, names, lambda name: read_mask(pictures[name]))


def by_name(files: Iterable[Path], what: str) -> dict[str, Path]:
    """Map names without suffix to files, or raise ImageFileError if two files have one name."""
    named: dict[str, Path] = {}
    for file in files:
        other = named.setdefault(file.stem, file)
        if other != file:
            raise ImageFileError(
                f"{other} and {file} are both {what} {file.stem}; remove or rename one."
            )
    return named


def _coco_masks(file: Path) -> MaskSource:
    """Open masks in polygons and run lengths of COCO.

    The classes are the categories in the order of their ids.  Where objects overlap, the smaller
    one is on top.
    """
    content = _json(file)
    with _damage(f"{file} is not in COCO's format: images, annotations and categories"):
        categories = sorted(content["categories"], key=lambda category: int(category["id"]))
        classes = {int(category["id"]): i for i, category in enumerate(categories, 1)}
        names = ("background", *(str(category["name"]) for category in categories))
        parts: dict[int, list[Any]] = {image["id"]: [] for image in content["images"]}
        for part in content["annotations"]:
            parts[part["image_id"]].append(part)
        images = {Path(image["file_name"]): image for image in content["images"]}
    paths = by_name(images, f"in {file} the image")

    def read(name: str) -> Mask:
        image = images[paths[name]]
        with _damage(f"{file}: an annotation of {name} cannot be used"):
            out = np.zeros((int(image["height"]), int(image["width"])), np.uint8)
            drawn = [
                (coco_mask(part["segmentation"], out.shape), classes[part["category_id"]])
                for part in parts[image["id"]]
            ]
            for inside, value in sorted(drawn, key=lambda part: -part[0].sum()):
                out[inside] = value
        return out

    return MaskSource(dict.fromkeys(paths, file), names, read)


def _labelme_masks(files: dict[str, Path], names: Names) -> MaskSource:
    """Open masks in shapes of LabelMe files, where later shapes lie on top.

    The classes have these names, or those of the labels of all files, in alphabetic order.
    """
    contents = {}
    for name, file in files.items():
        content = _json(file)
        with _damage(f"{file} is not in LabelMe's format"):
            contents[name] = (
                (int(content["imageHeight"]), int(content["imageWidth"])),
                [(s["label"], s.get("shape_type", "polygon"), s["points"])
                 for s in content["shapes"]],
            )  # fmt: skip
    labels = {label for _, shapes in contents.values() for label, _, _ in shapes}
    names = names or ("background", *sorted(labels - {*_BACKGROUND, _IGNORED}))
    classes = {name: value for value, name in enumerate(names)}
    classes |= dict.fromkeys(_BACKGROUND, 0) | {_IGNORED: VOID}

    def read(name: str) -> Mask:
        shape, shapes = contents[name]
        out = np.zeros(shape, np.uint8)
        with _damage(f"{files[name]}: a shape cannot be used"):
            for label, kind, points in shapes:
                out[_inside(kind, points, shape)] = classes[label]
        return out

    return MaskSource(files, names, read)


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Turn errors of code that decodes annotations into ImageFileError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ImageFileError(f"{what} ({type(error).__name__}: {error}).") from error


def coco_mask(segmentation: Any, shape: Shape) -> BoolArray:
    """Return the pixels of a segmentation of COCO in an image of a height and width.

    It is a list of polygons x, y, x, y, ...; or run lengths, a dict with ``size`` and ``counts``,
    as a list or as COCO's text.
    """
    out = np.zeros(shape, np.bool_)
    if isinstance(segmentation, Mapping):
        counts = segmentation["counts"]
        runs = _decode_counts(counts) if isinstance(counts, str) else [int(n) for n in counts]
        if tuple(segmentation["size"]) != shape or sum(runs) != out.size or min(runs) < 0:
            raise ValueError("the run lengths do not fit the size of the image")
        return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(shape, order="F")
    for points in segmentation:
        out[_inside("polygon", np.reshape(points, (-1, 2)), shape)] = True
    return out


def _decode_counts(text: str) -> list[int]:
    """Decode run lengths of COCO's text, which has 5 bits per character.

    A length is stored as the difference to the last but one.
    """
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:
            continue
        if bits & 0x10:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    return runs


def _inside(kind: str, points: Any, shape: Shape) -> Any:
    """Return the pixels whose centres lie inside a shape with corners in pixels, x, y."""
    corners = np.asarray(points, np.float64).reshape(-1, 2) - 0.5
    if kind == "rectangle":
        (left, top), (right, bottom) = corners
        corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
    elif kind != "polygon":
        raise ValueError(f"its type is {kind!r}; use polygon or rectangle")
    return polygon(corners[:, 1], corners[:, 0], shape)


def _json(file: Path) -> Any:
    try:
        return json.loads(regular_file(file, "file", ImageFileError).read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ImageFileError(f"{file} cannot be read as annotations ({error}).") from error


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
    values = set()
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
    return read_lines(path, "'ID train' or 'ID test'", r"(.+?)\s+(train|test)")


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
