"""One linear classifier of superpixels on all features together, of its surroundings and the whole image.

A group of features alone says little of a label among many: grass is green *and* of fine texture *and* below.
That the image as a whole is of a cow on a meadow says more than a superpixel's surroundings do (image-level priors:
Shotton et al., CVPR 2008).  Figures in docs/decisions/superpixel-crf.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from structboost.segmentation.context import neighbour_means, place_and_colour
from structboost.segmentation.descriptors import DescribedImage

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]

_C = 2e-3  # on standardised features
_ITERATIONS = 60
_COLOUR_STEPS = (1, 3)
_PLACES = 6  # along each side of the image
_PLACE_WIDTH = 0.12
# Of the whole image only these: there are few images, and with all features they would be learned by heart.
_OF_THE_IMAGE = ("words", "colour", "gist_64", "gist_128")
_HISTOGRAMS = ("words", "lbp")
_LEAST_SPREAD = 1e-6
_LEAST_LOG_PROBABILITY = -20.0


@dataclass(frozen=True)
class JointClassifier:
    """Multinomial logistic regression.

    Attributes
    ----------
    mean, spread : ndarray of float32, shape (n_features,)
    weights : ndarray of float32, shape (n_classes, n_features)
    constants : ndarray of float32, shape (n_classes,)
    classes : ndarray of int64, shape (n_classes,)
        The labels that the training superpixels have.
    n_labels : int
    """

    mean: Rows
    spread: Rows
    weights: Rows
    constants: Rows
    classes: NDArray[np.int64]
    n_labels: int

    def log_probabilities(self, rows: Rows) -> Floats:
        """Of each label, shape (n, n_labels); a label that training had not is less likely than all others."""
        scores = (_compressed(rows, self.mean, self.spread) @ self.weights.T + self.constants).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        found = np.full((len(rows), self.n_labels), scores.min(initial=_LEAST_LOG_PROBABILITY))
        found[:, self.classes] = scores
        return found

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays a model file holds."""
        return vars(self) | {"n_labels": np.array(self.n_labels)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> JointClassifier:
        """What :meth:`to_arrays` gave.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        named = {name: arrays[name] for name in ("mean", "spread", "weights", "constants", "classes")}
        made = cls(**named, n_labels=int(arrays["n_labels"]))
        n_classes, n_features = made.weights.shape
        shapes = [made.mean.shape, made.spread.shape, made.constants.shape, made.classes.shape]
        if shapes != [(n_features,), (n_features,), (n_classes,), (n_classes,)]:
            raise ValueError("its joint classifier is damaged")
        if n_classes and not (0 <= made.classes.min() and made.classes.max() < made.n_labels):
            raise ValueError("its joint classifier is damaged")
        return made


def joint_rows(image: DescribedImage, by_group: Mapping[str, NDArray[Any]]) -> Rows:
    """All that is known of each superpixel.

    Parameters
    ----------
    image : DescribedImage
    by_group : dict of str to ndarray, shape (n_superpixels, d)
        Features by group; ``words``, ``colour``, ``gist_64`` and ``gist_128`` must be there.

    Returns
    -------
    ndarray of float32, shape (n_superpixels, n_features)
        The groups (histograms as square roots), place, contrast of colours, mean colours nearby, the place on a grid,
        and means over the whole image.
    """
    groups = {
        group: np.sqrt(rows, dtype=np.float64) if group.startswith(_HISTOGRAMS) else rows.astype(np.float64)
        for group, rows in by_group.items()
    }
    nearby = [neighbour_means(image, groups["colour"], steps) for steps in _COLOUR_STEPS]
    shares = image.sizes / image.sizes.sum()
    whole = np.concatenate([shares @ groups[group] for group in _OF_THE_IMAGE])
    blocks = [*groups.values(), place_and_colour(image), *nearby, _on_a_grid(image)]
    return np.hstack([*blocks, np.broadcast_to(whole, (len(shares), len(whole)))]).astype(np.float32)


def fit_joint(rows: Rows, labels: NDArray[np.int64], n_labels: int) -> JointClassifier:
    """Train on superpixels.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, n_features)
        :func:`joint_rows` of several images.
    labels : ndarray of int64, shape (n,)
    n_labels : int
    """
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > _LEAST_SPREAD, spread, np.float32(1.0))
    classes = np.unique(labels)
    if len(classes) == 1:
        nothing = np.zeros((1, rows.shape[1]), np.float32)
        return JointClassifier(mean, spread, nothing, np.zeros(1, np.float32), classes, n_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped early, and better for it
        fitted = LogisticRegression(C=_C, max_iter=_ITERATIONS).fit(_compressed(rows, mean, spread), labels)
    weights, constants = fitted.coef_.astype(np.float32), fitted.intercept_.astype(np.float32)
    if len(classes) == 2:  # one row, for the second
        weights, constants = np.vstack((0 * weights, weights)), np.append(0 * constants, constants)
    return JointClassifier(mean, spread, weights, constants, classes, n_labels)


def _on_a_grid(image: DescribedImage) -> Floats:
    """How near a superpixel lies to each point of a grid, shape (n, 36)."""
    centres = (np.arange(_PLACES) + 0.5) / _PLACES
    x, y = image.positions.astype(np.float64).T[:, :, None]
    near_x, near_y = (np.exp(-((along - centres) ** 2) / (2 * _PLACE_WIDTH**2)) for along in (x, y))
    return np.asarray((near_x[:, :, None] * near_y[:, None, :]).reshape(image.n_superpixels, -1))


def _compressed(rows: Rows, mean: Rows, spread: Rows) -> Rows:
    """Signed square roots of the standardised features: outliers would rule a linear function."""
    scaled = (rows - mean) / spread
    return np.asarray(np.sign(scaled) * np.sqrt(np.abs(scaled)), np.float32)
