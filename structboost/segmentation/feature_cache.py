"""Described images kept on disk, under a key of pixels, parameters and version of the features."""

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
from structboost.segmentation.descriptors import VERSION, DescribedImage, describe
from structboost.segmentation.image_files import Photograph
from structboost.segmentation.own_unaries import OWN, Features, own_features
from structboost.segmentation.superpixels import own_superpixels

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

    def describe(
        self, image: Photograph, n_segments: int, labels: NDArray[np.int32] | None = None
    ) -> DescribedImage:
        """As :func:`structboost.segmentation.descriptors.describe`, from the folder if possible."""
        path = self.path(image, n_segments, labels)
        found = _read(path)
        if found is None or found.labels.shape != image.shape[:2]:
            found = describe(image, n_segments, labels)
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

    def path(
        self, image: Photograph, n_segments: int, labels: NDArray[np.int32] | None = None
    ) -> Path:
        """File of an image."""
        identity = json.dumps([VERSION, n_segments, image.shape]).encode()
        content = np.ascontiguousarray(image).tobytes() + (b"" if labels is None else labels.data)
        key = hashlib.sha256(identity + content).hexdigest()
        return self.folder / f"{key[:32]}.npz"


@dataclass(frozen=True)
class Describing:
    """How photographs are described.

    Attributes
    ----------
    n_segments : int
        Approximate number of superpixels.
    cache : FeatureCache or None
        What keeps the features.
    superpixels : callable, optional
        ``superpixels(image)`` gives the superpixels, in place of SLIC.
    features : callable, optional
        ``features(image, labels)`` gives rows of a user's features of the superpixels.
    """

    n_segments: int
    cache: FeatureCache | None = None
    superpixels: Callable[[Photograph], Any] | None = None
    features: Features | None = None

    def __call__(self, image: Photograph) -> DescribedImage:
        """The described image, with the user's features."""
        labels = None
        if self.superpixels is not None:
            labels = own_superpixels(self.superpixels(image), image.shape)
        work = describe if self.cache is None else self.cache.describe
        found = work(image, self.n_segments, labels)
        if self.features is not None:
            found.features[OWN] = own_features(self.features, image, found)
        return found


class StoredImages(Sequence[DescribedImage]):
    """Described images of which few are in memory: each is read from a cache when it is used.

    Parameters
    ----------
    images : sequence of ndarray of uint8, shape (height, width, 3)
        RGB.
    describing : Describing
        With a cache.
    """

    def __init__(self, images: Sequence[Photograph], describing: Describing) -> None:
        self._images, self._describing = images, describing
        self._own: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, number: Any) -> Any:
        # A user's features may take long, and are few: they stay in memory.
        describing, own = self._describing, self._own.get(number)
        if own is not None:
            describing = replace(describing, features=None)
        found = describing(self._images[number])
        if own is not None:
            found.features[OWN] = own
        elif OWN in found.features:
            self._own[number] = found.features[OWN]
        return found


def prepared(
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
            work(plain, image) for image in images
        ):
            line.step()


def _prepare(describing: Describing, image: Photograph) -> None:
    describing(image)


def describe_in_turn(
    images: Sequence[Photograph],
    describing: Describing,
    *,
    n_jobs: int | None = None,
) -> Iterator[DescribedImage]:
    """Describe images in their order, in processes.

    They come one after the other, so that not all need be in memory.
    """
    work = joblib.delayed(describing)
    found: Iterator[DescribedImage] = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        work(image) for image in images
    )
    return found


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
