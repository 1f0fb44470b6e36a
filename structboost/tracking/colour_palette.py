"""Palette of the colours in and around an object, which colour histograms count."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from structboost.vision.images import Pixels, as_grey

# Colours are looked up in a cube of 32 levels per channel.
_LEVELS = 32
# Pixels of the image that are read, about, and pixels drawn from them for k-means.
_MAX_CONVERTED, _MAX_PIXELS = 300_000, 3000
# Pixels whose channels differ by less, in grey levels, count as grey.
_GREY = 8


class ColourPalette:
    """Palette of a few colours, the centres of k-means on an image's pixels.

    Distances are measured in CIE L*a*b* in colour images, and in grey levels in grey ones.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width) or (height, width, 3)
        The object and its surroundings, grey or RGB.
    n_colours : int
        Number of colours; half as many are used for a grey image.
    random_state : int
        Seed for the pixels drawn and for k-means.

    Attributes
    ----------
    n_colours : int
    is_coloured : bool
        False where all pixels are nearly grey.
    """

    def __init__(self, image: Pixels, n_colours: int, random_state: int) -> None:
        # All pixels of a box of a megapixel would take seconds.
        step = math.ceil(math.sqrt(image.shape[0] * image.shape[1] / _MAX_CONVERTED))
        image = np.ascontiguousarray(image[::step, ::step])
        self.is_coloured = image.ndim == 3 and bool(
            np.ptp(image.astype(np.int64), axis=2).max() > _GREY
        )
        pixels = self._coordinates(image)
        rng = np.random.RandomState(random_state)
        drawn = pixels[rng.permutation(len(pixels))[:_MAX_PIXELS]]
        wanted = n_colours if self.is_coloured else max(2, n_colours // 2)
        self.n_colours = min(wanted, len(np.unique(drawn, axis=0)))
        with threadpool_limits(1):
            k_means = KMeans(self.n_colours, n_init=1, random_state=random_state).fit(drawn)
        middle = np.arange(_LEVELS) * (256 // _LEVELS) + 128 // _LEVELS
        if self.is_coloured:
            cube = np.stack(np.meshgrid(middle, middle, middle, indexing="ij"), axis=-1)
            places = self._coordinates(cube.astype(np.uint8).reshape(-1, 1, 3))
        else:
            places = np.arange(256.0)[:, None]
        distances = ((places[:, None] - k_means.cluster_centers_) ** 2).sum(axis=2)
        self._nearest = distances.argmin(axis=1).astype(np.uint8)

    def labels(self, image: Pixels) -> NDArray[np.uint8]:
        """Return the index of the nearest colour of each pixel, shape (height, width)."""
        if not self.is_coloured:
            return np.asarray(self._nearest[as_grey(image)])
        coloured = image if image.ndim == 3 else cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)
        level = np.asarray(coloured, np.int32) >> 3
        entry = (level[..., 0] * _LEVELS + level[..., 1]) * _LEVELS + level[..., 2]
        return np.asarray(self._nearest[entry])

    def _coordinates(self, image: Pixels) -> NDArray[Any]:
        """Return the coordinates in which distances are measured, shape (n_pixels, 3 or 1)."""
        if self.is_coloured:
            return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2LAB), np.float64).reshape(-1, 3)
        return np.asarray(as_grey(image), np.float64).reshape(-1, 1)
