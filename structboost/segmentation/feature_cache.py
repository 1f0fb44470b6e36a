"""Described images kept on disk, under a key of their pixels, the parameters and the version of the features."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from structboost.segmentation.descriptors import VERSION, DescribedImage, describe
from structboost.segmentation.image_files import Photograph, write_bytes
from structboost.segmentation.progress_line import ProgressLine

_ARRAYS = (
    "labels",
    "sizes",
    "positions",
    "colours",
    "edges",
    "boundaries",
    "contrasts",
    "points",
    "point_descriptors",
)
_GROUP = "features/"


class FeatureCache:
    """A folder of described images.

    Parameters
    ----------
    folder : str or path
        Made if it is not there.  Files may be deleted at any time; damaged ones are made anew.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def describe(self, image: Photograph, n_segments: int) -> DescribedImage:
        """As :func:`structboost.segmentation.descriptors.describe`, read from the folder if it is there."""
        path = self.path(image, n_segments)
        found = _read(path)
        if found is None:
            found = describe(image, n_segments)
            content = io.BytesIO()
            arrays: dict[str, Any] = {name: getattr(found, name) for name in _ARRAYS}
            arrays |= {_GROUP + name: rows for name, rows in found.features.items()}
            np.savez(content, **arrays)
            write_bytes(path, content.getvalue())
        return found

    def path(self, image: Photograph, n_segments: int) -> Path:
        """File of an image."""
        identity = json.dumps([VERSION, n_segments, image.shape]).encode()
        return self.folder / f"{hashlib.sha256(identity + np.ascontiguousarray(image).tobytes()).hexdigest()[:32]}.npz"


def describe_all(
    images: Sequence[Photograph],
    n_segments: int,
    *,
    cache: FeatureCache | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> list[DescribedImage]:
    """Describe images, in processes side by side and with a progress line if asked; the order is kept."""
    line = ProgressLine("superpixels and features", len(images), verbose)
    found = []
    for described in describe_in_turn(images, n_segments, cache=cache, n_jobs=n_jobs):
        found.append(described)
        line.step()
    line.close()
    return found


def describe_in_turn(
    images: Sequence[Photograph], n_segments: int, *, cache: FeatureCache | None = None, n_jobs: int | None = None
) -> Iterator[DescribedImage]:
    """As :func:`describe_all`, one after the other: not all need be in memory."""
    work: Iterable[Any] = (joblib.delayed(_described)(image, n_segments, cache) for image in images)
    yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator")(work)


def _described(image: Photograph, n_segments: int, cache: FeatureCache | None) -> DescribedImage:
    return describe(image, n_segments) if cache is None else cache.describe(image, n_segments)


def _read(path: Path) -> DescribedImage | None:
    """What a file holds; None if it is missing or damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        groups = {name[len(_GROUP) :]: rows for name, rows in arrays.items() if name.startswith(_GROUP)}
        return DescribedImage(**{name: arrays[name] for name in _ARRAYS}, features=groups)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
