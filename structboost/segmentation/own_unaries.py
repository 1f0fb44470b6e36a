"""Classifiers of superpixels that users provide, with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from structboost._typing import FloatArray, IntArray
from structboost.segmentation.descriptors import DescribedImage, word_histograms
from structboost.segmentation.joint_classifier import joint_rows
from structboost.segmentation.unaries import group_features

OWN = "own"  # among the features of an image
_LEAST_PROBABILITY = 1e-4

Features = Callable[[NDArray[np.uint8], NDArray[np.int32]], NDArray[Any]]


@dataclass(frozen=True)
class OwnUnaries:
    """Classifier of superpixels in place of the built-in ones.

    For each fold of the images the segmenter trains a clone on the other folds, so that the CRF
    learns from probabilities on images that the classifier has not seen.

    Parameters
    ----------
    classifier : estimator
        A classifier of scikit-learn's kind with ``predict_proba``.
    features : callable, optional
        ``features(image, labels)`` returns a row for each superpixel, shape (n_superpixels, d),
        from the RGB pixels and the index of the superpixel of each pixel.  By default the rows have
        all built-in features, 2744 with 200 visual words.
    n_folds : int
        Number of folds of the training images.
    n_rows : int
        Largest number of superpixels, drawn at random, to train a classifier on.
    """

    classifier: Any
    features: Features | None = None
    n_folds: int = 3
    n_rows: int = 60_000

    def fit(self, rows: NDArray[Any], labels: IntArray, n_labels: int) -> Any:
        """Train a clone of the classifier on superpixels.

        Parameters
        ----------
        rows : ndarray, shape (n_superpixels, n_features)
            Features of superpixels.
        labels : ndarray of int64, shape (n_superpixels,)
            Class of each.
        n_labels : int
            Number of classes, some of which may not occur.

        Returns
        -------
        classifier : scikit-learn classifier
            The trained clone.
        """
        return clone(self.classifier).fit(rows, labels)


@dataclass(frozen=True, repr=False)
class OwnClassifiers:
    """Trained classifiers of all folds, whose probabilities are averaged on new images.

    Attributes
    ----------
    n_labels : int
    codebook : ndarray of float32, shape (n_words, 144), or None
        Visual words of the built-in features; None with a user's features.
    classifiers : list of estimators
    """

    n_labels: int
    codebook: NDArray[np.float32] | None
    classifiers: Sequence[Any]

    def __repr__(self) -> str:
        return f"OwnClassifiers(<{self.n_labels} labels, {len(self.classifiers)} folds>)"

    def rows(self, image: DescribedImage) -> NDArray[Any]:
        """Return the features of the superpixels."""
        if self.codebook is None:
            return image.features[OWN]
        return joint_rows(image, group_features(image, word_histograms(image, self.codebook)))

    def log_probabilities(self, image: DescribedImage) -> FloatArray:
        """Return the log-probabilities of the labels, shape (n_superpixels, 1, n_labels)."""
        rows = self.rows(image)
        probabilities = np.zeros((len(rows), self.n_labels))
        for classifier in self.classifiers:
            probabilities[:, classifier.classes_] += classifier.predict_proba(rows)
        probabilities = np.maximum(probabilities / len(self.classifiers), _LEAST_PROBABILITY)
        return np.asarray(
            np.log(probabilities / probabilities.sum(axis=1, keepdims=True))[:, None, :]
        )


def own_features(features: Features, image: NDArray[np.uint8], described: DescribedImage) -> Any:
    """Compute and check the rows of a user's features.

    ValueError if there is not one row of finite numbers for each superpixel.
    """
    rows = np.asarray(features(image, described.labels), np.float32)
    if rows.ndim != 2 or len(rows) != described.n_superpixels:
        raise ValueError(
            f"features(image, labels) returned shape {rows.shape} for {described.n_superpixels} "
            "superpixels; give one row for each."
        )
    if not np.isfinite(rows).all():
        raise ValueError("features(image, labels) returned numbers that are not finite.")
    return rows
