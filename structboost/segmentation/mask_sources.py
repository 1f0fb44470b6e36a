"""Masks from pictures of indices, and from COCO and LabelMe annotations."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from skimage.draw import disk, polygon

from structboost._typing import FloatArray, override
from structboost.segmentation.image_files import (
    VOID,
    ImageFileError,
    Mask,
    files_by_name,
    files_in,
    read_mask,
)
from structboost.segmentation.label_map import Colour, LabelMap, read_classes

_MASK_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".gif", ".pgm")
# Labels of LabelMe that are no classes.
_BACKGROUND, _IGNORED = ("_background_", "background"), "__ignore__"


class MaskSource(ABC):
    """Source of the masks of several images.

    Attributes
    ----------
    files : dict of str to Path
        File of the mask by the name of the image.
    doubts : dict of str to str
        Problems of names that several masks have.
    meaning : LabelMap
        Names and colours of the values, as far as they have any.
    """

    files: dict[str, Path]
    doubts: dict[str, str]
    meaning: LabelMap

    @abstractmethod
    def values(self, name: str) -> Mask:
        """Return the values of an image's mask, shape (height, width).

        ImageFileError if the file is damaged.
        """


def mask_source(
    place: Path, pattern: str = "{name}", classes: str | Path | None = None
) -> MaskSource:
    """Open the masks of a folder of pictures or LabelMe files, or of a JSON file in COCO's format.

    ``pattern`` is the name of a mask without its suffix, such as ``{name}_mask``, where ``{name}``
    is the name of the image.  ``classes`` is a table for
    :func:`structboost.segmentation.label_map.read_classes`.
    """
    if pattern.count("{name}") != 1:
        raise ImageFileError(
            f"The name of a mask is {pattern!r}; give one with {{name}} in it, as {{name}}_mask."
        )
    table = LabelMap() if classes is None else read_classes(classes)
    if place.is_file():
        return _CocoMasks(place)
    pictures, doubts = files_by_name(
        _named(files_in(place, _MASK_SUFFIXES), pattern), "the mask of"
    )
    annotations, _ = files_by_name(_named(files_in(place, (".json",)), pattern), "the mask of")
    if annotations and not pictures:
        return _LabelMeMasks(annotations, table)
    return _MaskFolder(pictures, doubts, table)


class _MaskFolder(MaskSource):
    """Masks in pictures of values, with or without a palette."""

    def __init__(self, files: dict[str, Path], doubts: dict[str, str], table: LabelMap) -> None:
        self.files, self.doubts = files, doubts
        self.meaning = replace(table, colours=_palette(next(iter(files.values()), None)))

    @override
    def values(self, name: str) -> Mask:
        return read_mask(self.files[name])


class _CocoMasks(MaskSource):
    """Masks in polygons and run lengths of COCO.

    The classes are the categories in the order of their ids.  Where objects overlap, the smaller
    one is on top.
    """

    def __init__(self, file: Path) -> None:
        content = _json(file)
        try:
            categories = sorted(content["categories"], key=lambda category: int(category["id"]))
            self._classes = {int(c["id"]): i for i, c in enumerate(categories, 1)}
            names = ("background", *(str(c["name"]) for c in categories))
            named = [(Path(image["file_name"]).stem, image) for image in content["images"]]
            self._parts: dict[int, list[Any]] = {image["id"]: [] for image in content["images"]}
            for part in content["annotations"]:
                self._parts[part["image_id"]].append(part)
            paths = [(name, Path(image["file_name"])) for name, image in named]
        except (KeyError, TypeError, ValueError) as error:
            raise ImageFileError(
                f"{file} is not in COCO's format: images, annotations and categories "
                f"({type(error).__name__}: {error})."
            ) from error
        if len(names) > VOID:
            raise ImageFileError(f"{file} has {len(names) - 1} categories; at most 254 do.")
        self.meaning = LabelMap(names=names)
        self._images = dict(named)
        self.files = dict.fromkeys(self._images, file)
        self.doubts = files_by_name(paths, f"in {file} the image")[1]

    @override
    def values(self, name: str) -> Mask:
        image = self._images[name]
        try:
            shape = int(image["height"]), int(image["width"])
            drawn = []
            for part in self._parts[image["id"]]:
                inside = coco_mask(part["segmentation"], shape)
                drawn.append((int(inside.sum()), self._classes[part["category_id"]], inside))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ImageFileError(
                f"{self.files[name]}: an annotation of {name} cannot be used "
                f"({type(error).__name__}: {error})."
            ) from error
        out = np.zeros(shape, np.uint8)
        for _, value, inside in sorted(drawn, key=lambda entry: -entry[0]):
            out[inside] = value
        return out


class _LabelMeMasks(MaskSource):
    """Masks in shapes of LabelMe files.

    The classes are those of the table, or the labels of all files in alphabetic order.  Later
    shapes lie on top.
    """

    def __init__(self, files: dict[str, Path], table: LabelMap) -> None:
        self.files, self.doubts = files, {}
        names: Iterable[str] = (name for name in table.names if name)
        if not table.names:
            names = sorted(set().union(*map(_labels, files.values())))
        names_of_classes = [name for name in names if name not in (*_BACKGROUND, _IGNORED)]
        if len(names_of_classes) >= VOID:
            raise ImageFileError(
                f"The LabelMe files have {len(names_of_classes)} labels; at most 254 do."
            )
        self.meaning = LabelMap(names=("background", *names_of_classes))
        self._classes = {name: value for value, name in enumerate(self.meaning.names)}
        self._classes |= dict.fromkeys(_BACKGROUND, 0) | {_IGNORED: VOID}

    @override
    def values(self, name: str) -> Mask:
        file = self.files[name]
        content = _json(file)
        try:
            shape = int(content["imageHeight"]), int(content["imageWidth"])
            out = np.zeros(shape, np.uint8)
            for drawn in _shapes(file):
                rows = _inside(drawn.get("shape_type", "polygon"), drawn["points"], shape)
                out[rows] = self._classes[drawn["label"]]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ImageFileError(
                f"{file}: a shape cannot be used ({type(error).__name__}: {error})."
            ) from error
        return out


def coco_mask(segmentation: Any, shape: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
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


def _inside(kind: str, points: Any, shape: tuple[int, int]) -> Any:
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


def _labels(file: Path) -> set[str]:
    """List the labels of the shapes of a file.

    The list is empty for a damaged file, which raises an error when it is used.
    """
    try:
        return {str(shape.get("label")) for shape in _shapes(file)}
    except ImageFileError:
        return set()


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


def _named(files: Sequence[Path], pattern: str) -> list[tuple[str, Path]]:
    """Map the name of the image to each file that fits the pattern."""
    before, after = pattern.split("{name}")
    return [
        (file.stem[len(before) : len(file.stem) - len(after)], file)
        for file in files
        if file.stem.startswith(before)
        and file.stem.endswith(after)
        and len(file.stem) > len(before) + len(after)
    ]


def _palette(file: Path | None) -> tuple[Colour, ...]:
    if file is None:
        return ()
    try:
        with Image.open(file) as picture:
            levels = picture.getpalette("RGB") if picture.mode == "P" else None
    except (OSError, SyntaxError, ValueError):
        return ()
    levels = levels or []
    return tuple((levels[i], levels[i + 1], levels[i + 2]) for i in range(0, len(levels) - 2, 3))
