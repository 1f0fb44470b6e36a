"""Described images kept on disk, under a key of pixels, parameters and version of the features."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

import joblib
import numpy as np

from structboost.files.archive import ArchiveFormat, Arrays
from structboost.files.schema import DamagedFileError, Part, below, prefixed
from structboost.progress import ProgressLine
from structboost.segmentation.descriptors import VERSION, DescribedImage, describe
from structboost.segmentation.image_files import Photograph

_GROUP = "features/"


class FeatureCache:
    """A folder of described images.

    Parameters
    ----------
    folder : str or path
        Created if it does not exist.  Files may be deleted at any time; damaged ones are replaced.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def describe(self, image: Photograph, n_segments: int) -> DescribedImage:
        """As :func:`structboost.segmentation.descriptors.describe`, from the folder if possible."""
        path = self.path(image, n_segments)
        found = _read(path)
        if found is None or found.labels.shape != image.shape[:2]:
            found = describe(image, n_segments)
            arrays: Arrays = {
                name: array for name, array in vars(found).items() if name != "features"
            }
            _FORMAT.write(path, {}, arrays | prefixed(_GROUP, found.features))
        return found

    def path(self, image: Photograph, n_segments: int) -> Path:
        """File of an image."""
        identity = json.dumps([VERSION, n_segments, image.shape]).encode()
        key = hashlib.sha256(identity + np.ascontiguousarray(image).tobytes()).hexdigest()
        return self.folder / f"{key[:32]}.npz"


def describe_in_turn(
    images: Sequence[Photograph],
    n_segments: int,
    *,
    cache: FeatureCache | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Iterator[DescribedImage]:
    """Describe images in their order, in processes, with a progress line if ``verbose``.

    They come one after the other, so that not all need be in memory.
    """
    line = ProgressLine("superpixels and features", len(images), verbose)
    work = joblib.delayed(describe if cache is None else cache.describe)
    for found in joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        work(image, n_segments) for image in images
    ):
        line.step()
        yield found
    line.close()


def _read(path: Path) -> DescribedImage | None:
    """The described image of a file; None if it is missing or damaged."""
    try:
        _, arrays = _FORMAT.read(path)
    except DamagedFileError:
        return None
    counts = np.bincount(arrays["labels"].ravel(), minlength=len(arrays["sizes"]))
    if not np.array_equal(counts, arrays["sizes"]) or (np.diff(arrays["edges"], axis=1) <= 0).any():
        return None
    alone = {name: array for name, array in arrays.items() if not name.startswith(_GROUP)}
    return DescribedImage(**alone, features=below(_GROUP, arrays))


_FORMAT = ArchiveFormat(
    name="structboost-features",
    version=1,
    what="described image",
    error=DamagedFileError,
    remedy="delete it",
    schema=lambda header, names: {"": Part(DescribedImage.schema)},
    compressed=False,
    may_lack_header=True,
)
