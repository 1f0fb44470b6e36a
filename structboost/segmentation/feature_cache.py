"""Described images kept on disk, under a key of pixels, parameters and version of the features."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path

import joblib
import numpy as np

from structboost.files.archive import ArchiveFormat, Arrays
from structboost.files.schema import DamagedFileError, Part, below, prefixed
from structboost.progress import ProgressLine
from structboost.segmentation.descriptors import VERSION, DescribedImage, describe
from structboost.segmentation.image_files import Photograph

MOST_BYTES = 10 * 2**30
_GROUP = "features/"


class FeatureCache:
    """A folder of described images.

    Parameters
    ----------
    folder : str or path
        Created if it does not exist.  Files may be deleted at any time; damaged ones are replaced.
    most_bytes : int
        Largest size of all files together; beyond it, those that were not used for longest are
        deleted.  An image of 320 x 240 pixels takes about 1.9 MB.
    """

    def __init__(self, folder: str | PathLike[str], most_bytes: int = MOST_BYTES) -> None:
        self.folder, self.most_bytes = Path(folder), most_bytes
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
            self._trim()
        else:
            with suppress(OSError):  # used now; another process may have deleted it
                os.utime(path)
        return found

    def _trim(self) -> None:
        """Delete the files that were not used for longest, until the others fit."""
        found = []
        for path in self.folder.glob("*.npz"):
            with suppress(OSError):
                state = path.stat()
                found.append((state.st_mtime_ns, state.st_size, path))
        excess = sum(size for _, size, _ in found) - self.most_bytes
        for _, size, path in sorted(found):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size

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
