"""Checks of photographs, masks, scribbles and groups that a segmenter receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from structboost.progress import Phase
from structboost.segmentation.image_files import Mask, Photograph, check_one_size, mask_of
from structboost.segmentation.label_map import check_hard_edges
from structboost.segmentation.scribbles import BACKGROUND, OBJECT
from structboost.validation import group_indices_by_name
from structboost.vision.images import as_rgb, checked_image


def photograph(image: Any, name: str) -> Photograph:
    """Return the pixels of an image as RGB."""
    return as_rgb(checked_image(image, name))


def one_photograph(image: Any) -> Photograph:
    """Return the pixels of a single image as RGB."""
    if isinstance(image, list | tuple) or getattr(image, "ndim", 2) == 4:
        raise ValueError(
            f"image is a {type(image).__name__} of {len(image)}; give one image, "
            "or use predict_in_turn for many."
        )
    return photograph(image, "image")


def check_lengths(images: Sequence[Photograph], **others: Sequence[Any] | None) -> None:
    """Raise TypeError or ValueError unless there is one of each for every image."""
    _check_list(images, "images")
    for name, listed in others.items():
        if listed is not None or name == "masks":
            _check_list(listed, name)
        if listed is not None and len(images) != len(listed):
            raise ValueError(
                f"There are {len(images)} images and {len(listed)} {name}; give one of each."
            )


def _check_list(listed: Any, name: str) -> None:
    """Raise TypeError unless a value may be a list of pictures or of groups."""
    is_list = hasattr(listed, "__len__") and hasattr(listed, "__getitem__")
    if not is_list or isinstance(listed, Mapping | Set | str | bytes | type):
        what = f"one {type(listed).__name__}" if listed is not None else "None"
        raise TypeError(f"{name} is {what}; give a list with one for each image.")
    shape: Any = getattr(listed, "shape", ()) if isinstance(listed, np.ndarray) else ()
    n_axes = len(shape)
    if n_axes == 2 or (n_axes == 3 and name == "images" and shape[2] in (3, 4)):
        raise ValueError(
            f"{name} is an array of shape {shape}, one picture; give a list, such as [{name}]."
        )


def checked_pairs(
    images: Sequence[Photograph],
    masks: Sequence[Mask],
    scribbles: Sequence[Mask] | None,
    groups: Sequence[Any] | None,
    *,
    is_known: bool,
    verbose: bool = False,
) -> tuple[list[tuple[int, ...]], set[int]]:
    """Check pairs and return the shape of each image and all values of the masks."""
    check_lengths(images, masks=masks, scribbles=scribbles, groups=groups)
    if len(images) < 2:
        raise ValueError(f"{len(images)} image is too few to train on; give at least 2, better 20.")
    shapes: list[tuple[int, ...]] = []
    values: set[int] = set()
    with Phase("images and masks checked", len(images), verbose) as line:
        for i in range(len(images)):
            shape = checked_image(images[i], f"images[{i}]").shape[:2]
            mask = mask_of(masks[i], f"masks[{i}]")
            check_one_size(f"images[{i}]", shape, f"masks[{i}]", mask.shape)
            if not is_known:
                check_hard_edges(mask, f"masks[{i}]")
            shapes.append(shape)
            values.update(np.unique(mask).tolist())
            line.step()
    return shapes, values


def indices_of_groups(groups: Sequence[Any] | None) -> list[int] | None:
    """Return the index of each image's group.

    ValueError if one is missing, or there is only one, without which no fold could be trained.
    """
    if groups is None:
        return None
    indices = group_indices_by_name(np.asarray(groups), "groups").tolist()
    if max(indices, default=1) == 0:
        raise ValueError(
            f"All {len(indices)} images are of the group {groups[0]}; give at least two groups, "
            "as the images of a group are held out together."
        )
    return [int(index) for index in indices]


def resized_strokes(
    strokes: Mask, image_shape: tuple[int, ...], shape: tuple[int, ...], name: str
) -> Mask:
    """Resize scribbles to the size of a shrunk image.

    No stroke is lost, and a pixel under both kinds is the object.
    """
    scribbles = mask_of(strokes, name)
    check_one_size("the image", image_shape, name, scribbles.shape)
    if scribbles.shape == shape:
        return scribbles
    out = np.zeros(shape, np.uint8)
    for value in (BACKGROUND, OBJECT):
        y, x = np.nonzero(scribbles == value)
        out[y * shape[0] // scribbles.shape[0], x * shape[1] // scribbles.shape[1]] = value
    return out
