"""Masks, their sources in files, and the meaning of their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from skimage.draw import disk, polygon

from structboost._typing import BoolArray, FloatArray, PathName
from structboost.segmentation.image_files import (
    VOID,
    ImageFileError,
    Mask,
    files_by_name,
    files_in,
    read_mask,
    text_lines,
)
from structboost.validation import checked_flag, is_whole, shown

Colour = tuple[int, int, int]
# Masks of two values with soft edges have at least so many values, including a large one, that
# fill a small part of the mask, or more values than a photograph has classes.
_FEWEST_SOFT = 3
_LARGEST_RIM = 0.2
_MOST_CLASSES = 100


@dataclass(frozen=True)
class LabelMap:
    """Meaning of the values of masks.

    Parameters
    ----------
    classes : tuple of int
        The value of each class, ascending.  If empty, a value is the index of a class.
    foreground : tuple of int
        Values that together form class 1, against all others.
    names : tuple of str
        Names of the values 0, 1, ..., as far as they have any.
    colours : tuple of (int, int, int)
        Colours of the values 0, 1, ..., RGB, as far as they have any.
    has_void : bool
        Whether 255 was void in these masks, so that it stays void in masks of 0 and 255 alone.
    """

    classes: tuple[int, ...] = ()
    foreground: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    colours: tuple[Colour, ...] = ()
    has_void: bool = False

    def __post_init__(self) -> None:
        for name, is_good, wanted in (
            ("classes", _is_value, "whole numbers from 0 to 255, such as (0, 255)"),
            ("foreground", _is_value, "whole numbers from 0 to 255, such as (1,)"),
            ("names", lambda name: isinstance(name, str), "names, such as ('sky', 'cow')"),
            (
                "colours",
                lambda levels: (
                    isinstance(levels, tuple | list)
                    and len(levels) == 3
                    and all(map(_is_value, levels))
                ),
                "three numbers from 0 to 255 each, such as ((250, 0, 0),)",
            ),
        ):
            entries = getattr(self, name)
            if not isinstance(entries, tuple | list) or not all(map(is_good, entries)):
                raise TypeError(f"{name} is {shown(entries)}; give a tuple of {wanted}.")
            entries = [tuple(one) if isinstance(one, list) else one for one in entries]
            object.__setattr__(self, name, tuple(entries))
        checked_flag(self.has_void, "has_void")

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
        if not self.foreground:
            return len(self.classes) or n_labels_of(values)
        if not values & {*self.foreground}:
            raise ValueError(
                f"foreground is {[*self.foreground]}, and the masks hold the values "
                f"{sorted(values)} only; give values that occur."
            )
        return n_labels_of({*self.labels(np.array([*values], np.uint8)).tolist()})

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
        unnamed = ("background", "foreground")[label] if self.classes else str(value)
        return named.get(value) or unnamed

    def colour(self, label: int) -> Colour | None:
        """Return the colour of a class, if it has one.

        Parameters
        ----------
        label : int
            Class index.

        Returns
        -------
        colour : (int, int, int) or None
            RGB, 0..255.
        """
        if self.foreground:
            return None
        value = self.classes[label] if self.classes else label
        return self.colours[value] if value < len(self.colours) else None

    def __str__(self) -> str:
        if self.foreground:
            wanted = " and ".join(str(value) for value in self.foreground)
            return f"class {wanted} is one class and all others are the other, 255 is void"
        if self.classes == (0, VOID):
            return "masks hold only 0 and 255: 255 is taken for the foreground"
        if self.classes:
            first, second = self.classes
            return f"masks hold two values: {second} is taken for the foreground, {first} is not"
        return "values of masks are class indices, 255 is void"


def meaning_of(values: set[int], of_model: LabelMap | None = None, n_labels: int = 2) -> LabelMap:
    """Derive the meaning of masks from all their values.

    Two values are two classes, the larger one the foreground.  Otherwise a value is the index of a
    class, and 255 is void.  The meaning ``of_model``, whose masks a model of ``n_labels`` classes
    was trained on, is used wherever the values allow it.
    """
    of_model = of_model or LabelMap()
    trained = {*of_model.classes} or ({0, 1} if of_model.has_void else set())
    if of_model.foreground or n_labels > 2 or (trained and values <= {*trained, VOID}):
        return of_model
    inside = sorted(values - {VOID})
    if len(values) == 2 and VOID in values and inside != [1]:
        inside.append(VOID)
    classes = tuple(inside) if len(inside) == 2 and inside != [0, 1] else ()
    return replace(of_model, classes=classes, has_void=not classes and VOID in values)


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


def n_labels_of(values: set[int]) -> int:
    """Return the number of classes of masks with these values, at least 2.

    ValueError if all pixels are of one class, or void.
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


def read_classes(path: PathName) -> LabelMap:
    """Read the names of classes, from lines ``INDEX NAME``.

    ImageFileError if there is no such file, or a line, which is named, has another form.
    """
    names: dict[int, str] = {}
    for i, line in enumerate(text_lines(path, "a table of classes"), 1):
        # A name ends before statistics such as ``pixels=0.2``.
        words = list(takewhile(lambda word: "=" not in word, line.replace(",", " ").split()))
        value = int(words[0]) if words and words[0].isdigit() else -1
        if line.strip() and (not 0 <= value <= VOID or len(words) < 2 or value in names):
            raise ImageFileError(
                f"{path}, line {i} is {line.strip()!r}; give INDEX NAME, with an index of 0..255, "
                "each once."
            )
        names[value] = " ".join(words[1:])
    last = max(names.keys() - {VOID}, default=-1)
    return LabelMap(names=tuple(names.get(value, "") for value in range(last + 1)))


def _is_value(value: Any) -> bool:
    return is_whole(value) and 0 <= value <= VOID


_MASK_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".gif", ".pgm")
# Labels of LabelMe that are no classes.
_BACKGROUND, _IGNORED = ("_background_", "background"), "__ignore__"


@dataclass(frozen=True)
class MaskSource:
    """Source of the masks of several images.

    Attributes
    ----------
    files : dict of str to Path
        File of the mask by the name of the image.
    doubts : dict of str to str
        Problems of names that several masks have.
    meaning : LabelMap
        Names and colours of the values, as far as they have any.
    values : callable
        ``values(name)`` returns the values of an image's mask, shape (height, width).
        ImageFileError if the file is damaged.
    """

    files: dict[str, Path]
    doubts: dict[str, str]
    meaning: LabelMap
    values: Callable[[str], Mask]


def mask_source(
    place: Path, pattern: str = "{name}", classes: str | Path | None = None
) -> MaskSource:
    """Open the masks of a folder of pictures or LabelMe files, or of a JSON file in COCO's format.

    ``pattern`` is the name of a mask without its suffix, such as ``{name}_mask``, where ``{name}``
    is the name of the image.  ``classes`` is a table for
    :func:`structboost.segmentation.masks.read_classes`.
    """
    if not isinstance(pattern, str) or pattern.count("{name}") != 1:
        raise ImageFileError(
            f"The name of a mask is {pattern!r}; give one with {{name}} in it, as {{name}}_mask."
        )
    table = LabelMap() if classes is None else read_classes(classes)
    if place.is_file():
        return _coco_masks(place)
    before, after = pattern.split("{name}")

    def by_name(suffixes: Sequence[str]) -> tuple[dict[str, Path], dict[str, str]]:
        """Map the name of the image to each file that fits the pattern."""
        stems = [(file.stem.removeprefix(before), file) for file in files_in(place, suffixes)]
        named = [(stem.removesuffix(after), file) for stem, file in stems]
        fits = [(n, f) for n, f in named if n and before + n + after == f.stem]
        return files_by_name(fits, "the mask of")

    (pictures, doubts), (annotations, _) = by_name(_MASK_SUFFIXES), by_name((".json",))
    if annotations and not pictures:
        return _labelme_masks(annotations, table)
    table = replace(table, colours=_palette(next(iter(pictures.values()), None)))
    return MaskSource(pictures, doubts, table, lambda name: read_mask(pictures[name]))


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
        paths = [(Path(image["file_name"]), image) for image in content["images"]]
    image_of = {path.stem: image for path, image in paths}

    def values(name: str) -> Mask:
        image = image_of[name]
        with _damage(f"{file}: an annotation of {name} cannot be used"):
            out = np.zeros((int(image["height"]), int(image["width"])), np.uint8)
            drawn = [
                (coco_mask(part["segmentation"], out.shape), classes[part["category_id"]])
                for part in parts[image["id"]]
            ]
        for inside, value in sorted(drawn, key=lambda part: -part[0].sum()):
            out[inside] = value
        return out

    doubts = files_by_name(((path.stem, path) for path, _ in paths), f"in {file} the image")[1]
    return MaskSource(dict.fromkeys(image_of, file), doubts, _meaning(names, file), values)


def _labelme_masks(files: dict[str, Path], table: LabelMap) -> MaskSource:
    """Open masks in shapes of LabelMe files.

    The classes are those of the table, or the labels of all files in alphabetic order.  Later
    shapes lie on top.
    """
    names: set[str] = set()
    for file in files.values():
        with suppress(ImageFileError):  # a damaged file raises an error when it is used
            names |= {str(shape.get("label")) for shape in _shapes(file)}
    listed = [name for name in table.names or sorted(names) if name]
    listed = [name for name in listed if name not in (*_BACKGROUND, _IGNORED)]
    meaning = _meaning(("background", *listed), "The folder of LabelMe's files")
    classes = {name: value for value, name in enumerate(meaning.names)}
    classes |= dict.fromkeys(_BACKGROUND, 0) | {_IGNORED: VOID}

    def values(name: str) -> Mask:
        content = _json(files[name])
        with _damage(f"{files[name]}: a shape cannot be used"):
            out = np.zeros((int(content["imageHeight"]), int(content["imageWidth"])), np.uint8)
            for drawn in _shapes(files[name]):
                kind = drawn.get("shape_type", "polygon")
                out[_inside(kind, drawn["points"], out.shape)] = classes[drawn["label"]]
        return out

    return MaskSource(files, {}, meaning, values)


def _meaning(names: tuple[str, ...], place: object) -> LabelMap:
    if len(names) > VOID:
        raise ImageFileError(f"{place} has {len(names) - 1} classes; at most 254 do.")
    return LabelMap(names=names)


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Turn errors of code that decodes annotations into ImageFileError."""
    try:
        yield
    except ImageFileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ImageFileError(f"{what} ({type(error).__name__}: {error}).") from error


def coco_mask(segmentation: Any, shape: tuple[int, ...]) -> BoolArray:
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
        values = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
        return np.asarray(values.reshape(shape, order="F"))
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


def _inside(kind: str, points: Any, shape: tuple[int, ...]) -> Any:
    """Return the pixels whose centres lie inside a shape with corners in pixels, x, y."""
    corners: FloatArray = np.asarray(points, np.float64).reshape(-1, 2) - 0.5
    if kind == "rectangle":
        (left, top), (right, bottom) = corners
        corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
    elif kind == "circle":
        radius = float(np.hypot(*(corners[1] - corners[0])))
        return disk((corners[0, 1], corners[0, 0]), radius, shape=shape)
    elif kind != "polygon":
        raise ValueError(f"its type is {kind!r}; use polygon, rectangle or circle")
    return polygon(corners[:, 1], corners[:, 0], shape)


def _shapes(file: Path) -> list[dict[str, Any]]:
    shapes = _json(file).get("shapes")
    if not isinstance(shapes, list) or not all(isinstance(shape, dict) for shape in shapes):
        raise ImageFileError(f"{file} is not in LabelMe's format: it has no list of shapes.")
    return shapes


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ImageFileError(f"{file} cannot be read as annotations ({error}).") from error
    if not isinstance(content, dict):
        raise ImageFileError(f"{file} holds no annotations of COCO or LabelMe.")
    return content


def _palette(file: Path | None) -> tuple[Colour, ...]:
    if file is None:
        return ()
    try:
        with Image.open(file) as picture:
            levels = (picture.getpalette("RGB") if picture.mode == "P" else None) or []
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(zip(levels[::3], levels[1::3], levels[2::3], strict=True))
