"""A palette of the colours in and around an object: what a colour histogram counts."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from structboost.tracking.frame_image import FrameImage

# Colours are looked up in a cube of 32 levels a channel.
_LEVELS = 32
_MAX_PIXELS = 3000
# Pixels whose channels differ by less, in grey levels, have no colour worth telling apart.
_GREY = 8


class ColourPalette:
    """Nearest of a few colours, found by k-means among an image's pixels.

    In colour images the distance is that of CIE L*a*b*, in grey ones that of grey levels.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width) or (height, width, 3)
        Grey or BGR: the object and what is around it.
    n_colours : int
        Half as many are used where the image is grey.
    random_state : int
        Of the pixels drawn, and of k-means.

    Attributes
    ----------
    n_colours : int
    is_coloured : bool
        False where all pixels are nearly grey.
    """

    def __init__(self, image: FrameImage, n_colours: int, random_state: int) -> None:
        self.is_coloured = image.ndim == 3 and bool(np.ptp(image.astype(np.int64), axis=2).max() > _GREY)
        pixels = self._coordinates(image)
        rng = np.random.RandomState(random_state)
        drawn = pixels[rng.permutation(len(pixels))[:_MAX_PIXELS]]
        wanted = n_colours if self.is_coloured else max(2, n_colours // 2)
        self.n_colours = min(wanted, len(np.unique(drawn, axis=0)))
        with threadpool_limits(1):
            centres = KMeans(self.n_colours, n_init=1, random_state=random_state).fit(drawn).cluster_centers_
        middle = np.arange(_LEVELS) * (256 // _LEVELS) + 128 // _LEVELS
        if self.is_coloured:
            cube = np.stack(np.meshgrid(middle, middle, middle, indexing="ij"), axis=-1).astype(np.uint8)
            places = self._coordinates(cube.reshape(-1, 1, 3))
        else:
            places = np.arange(256.0)[:, None]
        distances = ((places[:, None] - centres) ** 2).sum(axis=2)
        self._nearest = distances.argmin(axis=1).astype(np.uint8)

    def labels(self, image: FrameImage) -> NDArray[np.uint8]:
        """Number of the nearest colour of each pixel, shape (height, width)."""
        if not self.is_coloured:
            grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
            return np.asarray(self._nearest[grey])
        coloured = image if image.ndim == 3 else cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
        level = np.asarray(coloured, np.int32) >> 3
        return np.asarray(self._nearest[(level[..., 0] * _LEVELS + level[..., 1]) * _LEVELS + level[..., 2]])

    def _coordinates(self, image: FrameImage) -> NDArray[Any]:
        """Where the distance is measured, shape (n_pixels, 3 or 1)."""
        if self.is_coloured:
            return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2LAB), np.float64).reshape(-1, 3)
        grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        return np.asarray(grey, np.float64).reshape(-1, 1)
