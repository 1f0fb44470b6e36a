"""Description of images, with a cache on disk by pixels, parameters and version of the features."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import joblib
import numpy as np
from numpy.typing import NDArray

from structboost.files.atomic_write import whole_file
from structboost.progress import Phase
from structboost.segmentation.descriptors import (
    VERSION,
    DescribedImage,
    checked_superpixels,
    describe,
)
from structboost.segmentation.image_files import Photograph
from structboost.segmentation.unaries import OWN

MOST_BYTES = 10 * 2**30
# Arrays of the cache beside the features.
_FIELDS = {field.name for field in fields(DescribedImage)}


@dataclass(frozen=True)
class Describing:
    """Settings and cache for describing photographs.

    Attributes
    ----------
    n_segments : int
        Approximate number of superpixels.
    superpixels : callable, optional
        ``superpixels(image)`` returns the superpixels, in place of SLIC.
    features : callable, optional
        ``features(image, labels)`` returns rows of a user's features of the superpixels.
    folder : str or path, optional
        Folder of the cache, whose files may be deleted at any time; damaged ones are replaced.
        most_bytes : int
        Largest size of the cache; beyond it, the images that were not used for longest are deleted.
        An image of 320 x 240 pixels takes about 1.9 MB.
    """

    n_segments: int
    superpixels: Callable[[Photograph], Any] | None = None
    features: Callable[[Photograph, NDArray[np.int32]], Any] | None = None
    folder: str | PathLike[str] | None = None
    most_bytes: int = MOST_BYTES

    def __call__(self, image: Photograph, index: int | None = None) -> DescribedImage:
        """Describe an image, whose index is named in errors of a user's functions."""
        try:
            labels = None
            if self.superpixels is not None:
                labels = checked_superpixels(self.superpixels(image), image.shape)
            described = self._stored(np.ascontiguousarray(image), labels)
            if self.features is not None:
                rows = np.asarray(self.features(image, described.labels), np.float32)
                described.features[OWN] = _checked_rows(rows, described.n_superpixels)
        except Exception as error:
            if index is not None:
                error.add_note(f"Raised for images[{index}].")
            raise
        return described

    def in_turn(self, images: Sequence[Photograph], n_jobs: int | None) -> Iterator[DescribedImage]:
        """Describe images in their order, in processes, and yield them one by one."""
        results: Iterator[DescribedImage] = joblib.Parallel(n_jobs, return_as="generator")(
            joblib.delayed(self)(image, i) for i, image in enumerate(images)
        )
        return results

    def _stored(self, image: Photograph, labels: NDArray[np.int32] | None) -> DescribedImage:
        if self.folder is None:
            return describe(image, self.n_segments, labels)
        folder = Path(self.folder)
        path = folder / f"{joblib.hash((VERSION, image, self.n_segments, labels))}.npz"
        # Pickles are refused, and another process may delete files.
        with suppress(OSError, ValueError, TypeError, EOFError, BadZipFile), np.load(path) as file:
            stored = {name: file[name] for name in file}
            features = {name: stored.pop(name) for name in list(stored) if name not in _FIELDS}
            os.utime(path)
            return DescribedImage(**stored, features=features)
        described = describe(image, self.n_segments, labels)
        parts = vars(described) | described.features
        del parts["features"]
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as target:
            np.savez(target, **parts)
        with suppress(FileNotFoundError):
            used = sorted(folder.glob("*.npz"), key=lambda other: other.stat().st_mtime_ns)
            sizes = [other.stat().st_size for other in used]
            while sum(sizes) > self.most_bytes:
                used.pop(0).unlink()
                sizes.pop(0)
        return described


class StoredImages(Sequence[DescribedImage]):
    """Sequence of described images that are read from the cache when they are used.

    Parameters
    ----------
    images : sequence of ndarray of uint8, shape (height, width, 3)
        RGB.
    describing : Describing
        With a cache, which is filled in processes.
    n_jobs : int or None
    verbose : bool
        Whether lines on standard error show the progress.
    """

    def __init__(
        self,
        images: Sequence[Photograph],
        describing: Describing,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self._images, self._plain = images, replace(describing, features=None)
        work = joblib.delayed(_fill)
        with Phase("superpixels and features", len(images), verbose) as line:
            for _ in joblib.Parallel(n_jobs, return_as="generator")(
                work(self._plain, image, i) for i, image in enumerate(images)
            ):
                line.step()
        # A user's features stay in memory, as they may take long to compute and are few.
        self._rows: list[Any] | None = None
        if describing.features is not None:
            self._rows = []
            with Phase("features of your own", len(images), verbose) as line:
                for i, image in enumerate(images):
                    self._rows.append(describing(image, i).features[OWN])
                    line.step()

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> Any:
        described = self._plain(self._images[index], index)
        if self._rows is not None:
            described.features[OWN] = self._rows[index]
        return described


def _fill(describing: Describing, image: Photograph, index: int) -> None:
    """Describe an image, and leave the result in the cache alone."""
    describing(image, index)


def _checked_rows(rows: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """Raise ValueError unless a user's features are a row of finite numbers for each superpixel."""
    if rows.ndim != 2 or len(rows) != n:
        raise ValueError(
            f"features(image, labels) returned shape {rows.shape} for {n} superpixels; give one "
            "row for each."
        )
    if not np.isfinite(rows).all():
        raise ValueError("features(image, labels) returned numbers that are not finite.")
    return rows
