"""Unary potentials from boosted classifiers (StructBoost, (32)), cross-fitted over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.segmentation.boosted_trees import BoostedTrees
from structboost.segmentation.descriptors import PATCH_SIZES, DescribedImage, word_histograms
from structboost.segmentation.joint_classifier import JointClassifier, joint_rows
from structboost.validation import checked_whole_number

WORDS = "words"
# The 14 groups of section 4.5: visual words, colour, and GIST, HOG and LBP on patches of four
# sizes.
GROUPS = (
    WORDS,
    "colour",
    *(f"{kind}_{size}" for kind in ("gist", "hog", "lbp") for size in PATCH_SIZES),
)
_LEAST_PROBABILITY = 1e-6
# Probabilities of independent groups would multiply, and averaging log-odds would be too cautious;
# the groups are in between.
_SHARPNESS = 1.5


@dataclass(frozen=True)
class UnarySettings:
    """Settings of the training of the classifiers.

    Parameters
    ----------
    n_folds : int
        Number of folds of the training images; the potentials of a fold come from classifiers of
        the other folds.
    group_rounds : int
        Rounds of boosting for each group of features.
    group_rows, joint_rows : int
        Largest number of superpixels, drawn at random, for the classifier of a group and for the
        one on all features (:mod:`structboost.segmentation.joint_classifier`).
    """

    n_folds: int = 3
    group_rounds: int = 40
    group_rows: int = 10_000
    joint_rows: int = 60_000

    def __post_init__(self) -> None:
        for name in ("n_folds", "group_rounds", "group_rows", "joint_rows"):
            checked_whole_number(getattr(self, name), name)
        if self.n_folds < 2:
            raise ValueError(f"n_folds is {self.n_folds}; give a whole number from 2, such as 3.")


@dataclass(frozen=True, repr=False)
class UnaryClassifiers:
    """Trained classifiers of all folds, whose log-probabilities are averaged on new images.

    Attributes
    ----------
    n_labels : int
    codebook : ndarray of float32, shape (n_words, 144)
    groups : dict of str to list of BoostedTrees
        For each group of features, one classifier per fold.
    joint : list of JointClassifier
        Classifiers on all features, one per fold.
    """

    n_labels: int
    codebook: NDArray[np.float32]
    groups: Mapping[str, Sequence[BoostedTrees]]
    joint: Sequence[JointClassifier]

    def __repr__(self) -> str:
        return f"UnaryClassifiers(<{self.n_labels} labels, {len(self.joint)} folds>)"

    def of_fold(self, fold: int) -> UnaryClassifiers:
        """Return the classifiers that were trained without a fold."""
        groups = {group: [classifiers[fold]] for group, classifiers in self.groups.items()}
        return UnaryClassifiers(self.n_labels, self.codebook, groups, [self.joint[fold]])

    def log_probabilities(self, image: DescribedImage) -> FloatArray:
        """Return log-probabilities, shape (n_superpixels, n_classifiers, n_labels).

        The joint classifier comes last.
        """
        features = group_features(image, word_histograms(image, self.codebook))
        by_group = [
            np.mean([trees.log_probabilities(rows) for trees in self.groups[group]], axis=0)
            for group, rows in features.items()
        ]
        log_probabilities = np.stack(by_group, axis=1)
        rows = joint_rows(image, features)
        jointly = np.mean([classifier.log_probabilities(rows) for classifier in self.joint], axis=0)
        return np.concatenate((log_probabilities, jointly[:, None, :]), axis=1)


def group_features(
    image: DescribedImage, histograms: NDArray[np.float32]
) -> dict[str, NDArray[Any]]:
    """Return the features by group, with ``histograms`` as those of the visual words."""
    return {group: histograms if group == WORDS else image.features[group] for group in GROUPS}


def log_odds(log_probabilities: FloatArray) -> FloatArray:
    """Return log(p / (1 - p)) of each label, which is F(x) of (32) where there are two."""
    p = np.clip(np.exp(log_probabilities), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.asarray(np.log(p) - np.log1p(-p))


def combine(log_probabilities: FloatArray) -> FloatArray:
    """Return a probability per label, of the joint or only classifier, or of the groups."""
    if log_probabilities.shape[1] == 1 or log_probabilities.shape[1] > len(GROUPS):
        scores = log_probabilities[:, -1]
    elif log_probabilities.shape[2] == 2:
        odds = _SHARPNESS * log_odds(log_probabilities)[:, :, 1:].mean(axis=1)
        scores = np.hstack((np.zeros_like(odds), odds))
    else:
        scores = _SHARPNESS * log_probabilities.mean(axis=1)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
