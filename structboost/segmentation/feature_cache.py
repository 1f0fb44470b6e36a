"""Cache on disk of described images, by pixels, parameters and version of the features."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from structboost.files.archive import ArchiveFormat, Arrays
from structboost.files.schema import DamagedFileError, Part, below, prefixed
from structboost.progress import Phase
from structboost.segmentation.descriptors import (
    VERSION,
    DescribedImage,
    checked_superpixels,
    describe,
)
from structboost.segmentation.image_files import Photograph
from structboost.segmentation.unaries import OWN, Features, own_features

MOST_BYTES = 10 * 2**30
_GROUP = "features/"


class FeatureCache:
    """Folder of described images.

    Parameters
    ----------
    folder : str or path
        Folder, created if it does not exist.  Its files may be deleted at any time; damaged ones
        are replaced.
    most_bytes : int
        Largest size of all files together; beyond it, those that were not used for longest are
        deleted.  An image of 320 x 240 pixels takes about 1.9 MB.
    """

    def __init__(self, folder: str | PathLike[str], most_bytes: int = MOST_BYTES) -> None:
        self.folder, self.most_bytes = Path(folder), most_bytes
        self.folder.mkdir(parents=True, exist_ok=True)

    def describe(
        self, image: Photograph, n_segments: int, labels: NDArray[np.int32] | None = None
    ) -> DescribedImage:
        """Return the described image from the folder, or describe and store it."""
        path = self.path(image, n_segments, labels)
        described = _read(path)
        if described is None or described.labels.shape != image.shape[:2]:
            described = describe(image, n_segments, labels)
            arrays: Arrays = {
                name: array for name, array in vars(described).items() if name != "features"
            }
            _FORMAT.write(path, {}, arrays | prefixed(_GROUP, described.features))
            self._trim()
        else:
            with suppress(OSError):  # marks it as used; another process may have deleted it
                os.utime(path)
        return described

    def _trim(self) -> None:
        """Delete the files that were not used for longest, until the others fit."""
        files = []
        for path in self.folder.glob("*.npz"):
            with suppress(OSError):
                state = path.stat()
                files.append((state.st_mtime_ns, state.st_size, path))
        excess = sum(size for _, size, _ in files) - self.most_bytes
        for _, size, path in sorted(files):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size

    def path(
        self, image: Photograph, n_segments: int, labels: NDArray[np.int32] | None = None
    ) -> Path:
        """Return the file of an image."""
        identity = json.dumps([VERSION, n_segments, image.shape]).encode()
        content = np.ascontiguousarray(image).tobytes() + (b"" if labels is None else labels.data)
        key = hashlib.sha256(identity + content).hexdigest()
        return self.folder / f"{key[:32]}.npz"


@dataclass(frozen=True)
class Describing:
    """Settings and cache for describing photographs.

    Attributes
    ----------
    n_segments : int
        Approximate number of superpixels.
    cache : FeatureCache or None
        Cache of the features.
    superpixels : callable, optional
        ``superpixels(image)`` returns the superpixels, in place of SLIC.
    features : callable, optional
        ``features(image, labels)`` returns rows of a user's features of the superpixels.
    """

    n_segments: int
    cache: FeatureCache | None = None
    superpixels: Callable[[Photograph], Any] | None = None
    features: Features | None = None

    def __call__(self, image: Photograph) -> DescribedImage:
        """Describe an image, with the user's features."""
        labels = None
        if self.superpixels is not None:
            labels = checked_superpixels(self.superpixels(image), image.shape)
        work = describe if self.cache is None else self.cache.describe
        described = work(image, self.n_segments, labels)
        if self.features is not None:
            described.features[OWN] = own_features(self.features, image, described)
        return described


class StoredImages(Sequence[DescribedImage]):
    """Sequence of described images that are read from a cache when they are used.

    Parameters
    ----------
    images : sequence of ndarray of uint8, shape (height, width, 3)
        RGB.
    describing : Describing
        With a cache.
    """

    def __init__(self, images: Sequence[Photograph], describing: Describing) -> None:
        self._images, self._describing = images, describing
        self._of_user: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> Any:
        # A user's features stay in memory, as they may take long to compute and are few.
        describing, features = self._describing, self._of_user.get(index)
        if features is not None:
            describing = replace(describing, features=None)
        described = _describe(describing, self._images[index], index)
        if features is not None:
            described.features[OWN] = features
        elif OWN in described.features:
            self._of_user[index] = described.features[OWN]
        return described


def fill_cache(
    images: Sequence[Photograph],
    describing: Describing,
    *,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> None:
    """Describe images in processes, so that the cache has them all."""
    work = joblib.delayed(_prepare)
    with Phase("superpixels and features", len(images), verbose) as line:
        plain = replace(describing, features=None)
        for _ in joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
            work(plain, image, i) for i, image in enumerate(images)
        ):
            line.step()


def _prepare(describing: Describing, image: Photograph, index: int) -> None:
    _describe(describing, image, index)


def _describe(describing: Describing, image: Photograph, index: int) -> DescribedImage:
    """Describe an image, and name it in errors of a user's superpixels and features."""
    try:
        return describing(image)
    except Exception as error:
        error.add_note(f"Raised for images[{index}].")
        raise


def describe_in_turn(
    images: Sequence[Photograph],
    describing: Describing,
    *,
    n_jobs: int | None = None,
) -> Iterator[DescribedImage]:
    """Describe images in their order, in processes.

    The result is an iterator, so that not all need be in memory.
    """
    work = joblib.delayed(_describe)
    results: Iterator[DescribedImage] = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        work(describing, image, i) for i, image in enumerate(images)
    )
    return results


def _read(path: Path) -> DescribedImage | None:
    """Read the described image of a file, or return None if it is missing or damaged."""
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
)
