"""Linear classifier on all features of a superpixel, its surroundings and the image.

A single group of features hardly determines a label among many: grass is green *and* of fine
texture *and* below.  The image as a whole, such as a cow on a meadow, is more informative than the
surroundings of a superpixel (image-level priors: Shotton et al., CVPR 2008).  Figures are in
docs/decisions.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array, DamagedFileError
from structboost.segmentation.context import N_OF_PLACE, neighbour_means, place_and_colour
from structboost.segmentation.descriptors import GROUP_WIDTHS, DescribedImage

Rows = NDArray[np.float32]

_C = 2e-3  # on standardised features
_ITERATIONS = 60
_COLOUR_STEPS = (1, 3)
_PLACES = 6  # along each side of the image
_PLACE_WIDTH = 0.12
# Groups averaged over the whole image.  With all features the classifier would overfit to the few
# images.
_OF_THE_IMAGE = ("words", "colour", "gist_64", "gist_128")
_HISTOGRAMS = ("words", "lbp")
_LEAST_STD = 1e-6
_LEAST_LOG_PROBABILITY = -20.0
_BLOCK = 256  # rows or columns per step


@dataclass(frozen=True)
class JointClassifier:
    """Multinomial logistic regression on the classes that occur in training."""

    schema: ClassVar[Mapping[str, Array]] = {
        "mean": Array("float32", ("n_features",)),
        "spread": Array("float32", ("n_features",), low=0.0, nonzero=True),
        "weights": Array("float32", ("n_classes", "n_features")),
        "constants": Array("float32", ("n_classes",)),
        "classes": Array("int64", ("n_classes",), low=0, high="n_labels - 1", rising=True),
        "n_labels": Array("int64", (), low="n_labels", high="n_labels"),
    }

    mean: Rows
    spread: Rows
    weights: Rows
    constants: Rows
    classes: IntArray
    n_labels: int

    def log_probabilities(self, rows: Rows) -> FloatArray:
        """Return the log-probabilities of the labels, shape (n, n_labels).

        A label absent from training is less likely than all others.
        """
        scores = (
            _compressed(rows, self.mean, self.spread) @ self.weights.T + self.constants
        ).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        log_probabilities = np.full(
            (len(rows), self.n_labels), scores.min(initial=_LEAST_LOG_PROBABILITY)
        )
        log_probabilities[:, self.classes] = scores
        return log_probabilities

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays for a model file."""
        return vars(self) | {"n_labels": np.array(self.n_labels, np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> JointClassifier:
        """Build the classifier from arrays of :meth:`to_arrays` that fit the schema.

        DamagedFileError if there is no class.
        """
        if not len(arrays["classes"]):
            raise DamagedFileError("its joint classifier has no class")
        return cls(**{**dict[str, Any](arrays), "n_labels": int(arrays["n_labels"])})


def joint_rows(image: DescribedImage, by_group: Mapping[str, NDArray[Any]]) -> Rows:
    """Compute all features of each superpixel, shape (n_superpixels, n_features).

    They are the groups of features (histograms as square roots), place, contrast of colours, mean
    colours nearby, the place on a grid, and means over the whole image.  The groups ``words``,
    ``colour``, ``gist_64`` and ``gist_128`` are required.
    """
    groups = {
        group: np.sqrt(rows, dtype=np.float64)
        if group.startswith(_HISTOGRAMS)
        else rows.astype(np.float64)
        for group, rows in by_group.items()
    }
    nearby = [neighbour_means(image, groups["colour"], steps) for steps in _COLOUR_STEPS]
    areas = image.sizes / image.sizes.sum()
    whole = np.concatenate([areas @ groups[group] for group in _OF_THE_IMAGE])
    blocks = [*groups.values(), place_and_colour(image), *nearby, _on_a_grid(image)]
    return np.hstack([*blocks, np.broadcast_to(whole, (len(areas), len(whole)))]).astype(np.float32)


def n_joint_features(n_words: int) -> int:
    """Return the number of columns of :func:`joint_rows` with ``n_words`` words."""
    widths = {**GROUP_WIDTHS, "words": n_words}
    n_local = sum(widths.values()) + N_OF_PLACE + _PLACES**2
    nearby = len(_COLOUR_STEPS) * widths["colour"]
    return n_local + nearby + sum(widths[group] for group in _OF_THE_IMAGE)


def fit_joint(
    rows: Rows, labels: IntArray, n_labels: int, *, overwrite: bool = False
) -> JointClassifier:
    """Train on the :func:`joint_rows` of several images, which may be overwritten."""
    mean, spread = rows.mean(axis=0), _stds(rows)
    spread = np.where(spread > _LEAST_STD, spread, np.float32(1.0))
    classes = np.unique(labels)
    if len(classes) == 1:
        nothing = np.zeros((1, rows.shape[1]), np.float32)
        return JointClassifier(mean, spread, nothing, np.zeros(1, np.float32), classes, n_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped early against overfitting
        shrink_to = LogisticRegression(C=_C, max_iter=_ITERATIONS).fit(
            _compressed(rows, mean, spread, rows if overwrite else None), labels
        )
    weights, constants = shrink_to.coef_.astype(np.float32), shrink_to.intercept_.astype(np.float32)
    if len(classes) == 2:  # one row, for the second
        weights, constants = np.vstack((0 * weights, weights)), np.append(0 * constants, constants)
    return JointClassifier(mean, spread, weights, constants, classes, n_labels)


def _on_a_grid(image: DescribedImage) -> FloatArray:
    """Compute the nearness of superpixels to each point of a grid, shape (n, 36)."""
    centres = (np.arange(_PLACES) + 0.5) / _PLACES
    x, y = image.positions.astype(np.float64).T[:, :, None]
    near_x, near_y = (np.exp(-((along - centres) ** 2) / (2 * _PLACE_WIDTH**2)) for along in (x, y))
    return np.asarray((near_x[:, :, None] * near_y[:, None, :]).reshape(image.n_superpixels, -1))


def _stds(rows: Rows) -> Rows:
    """Compute the standard deviations of the columns, a few columns at a time."""
    blocks = range(0, rows.shape[1], _BLOCK)
    return np.concatenate([rows[:, first : first + _BLOCK].std(axis=0) for first in blocks])


def _compressed(rows: Rows, mean: Rows, spread: Rows, out: Rows | None = None) -> Rows:
    """Take signed square roots of the standardised features, against outliers."""
    out = np.empty(rows.shape, np.float32) if out is None else out
    for first in range(0, len(rows), _BLOCK):
        scaled = (rows[first : first + _BLOCK] - mean) / spread
        np.copysign(np.sqrt(np.abs(scaled)), scaled, out=out[first : first + _BLOCK])
    return out
