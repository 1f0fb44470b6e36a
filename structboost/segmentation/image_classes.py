"""Which classes an image has: linear classifiers of whole images, for the context passes (many labels).

A superpixel of green texture is grass or tree; that the image as a whole is of a cow on a meadow says more about its
surroundings than averages of single answers do (image-level priors: Shotton et al., CVPR 2008).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from structboost.segmentation.descriptors import DescribedImage

_GROUPS = ("colour", "gist_64", "gist_128")
_LEAST_SHARE = 0.01  # of the pixels: below, a class does not count as present
_C = 0.003  # on standardised features; there are many more of them than images
# Of a class that all training images have, or none.
_CERTAIN = 5.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ImageClasses:
    """A linear classifier for each class.

    Attributes
    ----------
    mean, spread : ndarray, shape (n_features,)
    weights : ndarray, shape (n_labels, n_features)
    constants : ndarray, shape (n_labels,)
    """

    mean: Floats
    spread: Floats
    weights: Floats
    constants: Floats

    def log_odds(self, rows: Floats) -> Floats:
        """That each class is present, shape (n_images, n_labels)."""
        return np.asarray((rows - self.mean) / self.spread @ self.weights.T + self.constants)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays a model file holds."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ImageClasses:
        """What :meth:`to_arrays` gave.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        made = cls(**{name: arrays[name] for name in ("mean", "spread", "weights", "constants")})
        n_labels, n_features = made.weights.shape
        if made.mean.shape != (n_features,) or made.spread.shape != (n_features,) or len(made.constants) != n_labels:
            raise ValueError("its classifiers of whole images are damaged")
        return made


def image_row(image: DescribedImage, histograms: NDArray[np.float32]) -> Floats:
    """Means over the image, by area: of visual words (square roots), colours, and gist of large patches."""
    shares = image.sizes / image.sizes.sum()
    blocks = [np.sqrt(shares @ histograms)]
    blocks += [shares @ image.features[group].astype(np.float64) for group in _GROUPS]
    return np.concatenate(blocks)


def classes_present(counts: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Which classes have at least a hundredth of an image's known pixels, shape (n_images, n_labels)."""
    totals = np.array([count.sum(axis=0) for count in counts])
    return np.asarray(totals > _LEAST_SHARE * np.maximum(totals.sum(axis=1, keepdims=True), 1))


def fit_image_classes(rows: Floats, present: NDArray[np.bool_]) -> ImageClasses:
    """Train on whole images.

    Parameters
    ----------
    rows : ndarray, shape (n_images, n_features)
    present : ndarray of bool, shape (n_images, n_labels)
    """
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    scaled = (rows - mean) / spread
    weights = np.zeros((present.shape[1], rows.shape[1]))
    constants = np.zeros(present.shape[1])
    for label, has in enumerate(present.T):
        if has.all() or not has.any():
            constants[label] = _CERTAIN if has.all() else -_CERTAIN
            continue
        found = LogisticRegression(C=_C, max_iter=200).fit(scaled, has)
        weights[label], constants[label] = found.coef_[0], found.intercept_[0]
    return ImageClasses(mean, spread, weights, constants)
