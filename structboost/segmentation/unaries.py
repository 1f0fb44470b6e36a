"""Unary potentials from boosted classifiers (StructBoost, (32)), cross-fitted over images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.segmentation.boosted_trees import BoostedTrees, fit_trees
from structboost.segmentation.descriptors import (
    PATCH_SIZES,
    DescribedImage,
    learn_codebook,
    word_histograms,
)
from structboost.segmentation.joint_classifier import JointClassifier, fit_joint, joint_rows
from structboost.selection.cross_fitting import cross_fit

WORDS = "words"
# The 14 groups of section 4.5: visual words, colour, and GIST, HOG and LBP on patches of four
# sizes.
GROUPS = (
    WORDS,
    "colour",
    *(f"{kind}_{size}" for kind in ("gist", "hog", "lbp") for size in PATCH_SIZES),
)
_LEAST_PROBABILITY = 1e-6
# Probabilities of independent groups would multiply, and averaging log-odds would be too timid; the
# groups are in between.
_SHARPNESS = 1.5

Floats32 = NDArray[np.float32]
Report = Callable[[str], None]


@dataclass(frozen=True)
class UnarySettings:
    """How the classifiers are trained.

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


@dataclass(frozen=True)
class UnaryClassifiers:
    """Trained classifiers of all folds; their answers are averaged on new images.

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

    def log_probabilities(self, image: DescribedImage) -> FloatArray:
        """Log-probabilities of the labels, shape (n_superpixels, n_classifiers, n_labels).

        The joint classifier comes last.
        """
        features = group_features(image, word_histograms(image, self.codebook))
        by_group = [
            np.mean([trees.log_probabilities(rows) for trees in self.groups[group]], axis=0)
            for group, rows in features.items()
        ]
        answers = np.stack(by_group, axis=1)
        rows = joint_rows(image, features)
        jointly = np.mean([classifier.log_probabilities(rows) for classifier in self.joint], axis=0)
        return np.concatenate((answers, jointly[:, None, :]), axis=1)


def group_features(
    image: DescribedImage, histograms: NDArray[np.float32]
) -> dict[str, NDArray[Any]]:
    """Features of the superpixels by group; ``histograms`` are those of the visual words."""
    return {group: histograms if group == WORDS else image.features[group] for group in GROUPS}


def fit_unaries(
    images: Sequence[DescribedImage],
    counts: Sequence[IntArray],
    settings: UnarySettings | None = None,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    report: Report | None = None,
    groups: Sequence[int] | None = None,
) -> tuple[UnaryClassifiers, list[FloatArray]]:
    """Train the classifiers on the superpixels of some images.

    Parameters
    ----------
    images : sequence of DescribedImage
    counts : sequence of ndarray of int64, shape (n_superpixels, n_labels)
        Pixels of each class in each superpixel; a superpixel without any is void.
    settings : UnarySettings, optional
    random_state : int
        Seed for the codebook, the folds and the samples of superpixels.
    n_jobs : int or None
        Number of processes; the result does not depend on it.
    report : callable, optional
        Called with a text at each step.
    groups : sequence of int, optional
        Group of each image, from 0; images of a group are in one fold.

    Returns
    -------
    classifiers : UnaryClassifiers
    log_probabilities : list of ndarray, shape (n_superpixels, n_classifiers, n_labels)
        Answers for each image by classifiers that have not seen it.

    Raises
    ------
    ValueError
        If there are fewer than two images, or all superpixels are void.
    """
    if len(images) < 2:
        raise ValueError(f"{len(images)} image is too few to train on; give at least 2, better 20.")
    settings = settings or UnarySettings()
    report = report or (lambda text: None)
    training = _Training(counts, settings, random_state, n_jobs, groups)
    report("visual words")
    codebook = learn_codebook(images, random_state=random_state)
    histograms = [word_histograms(image, codebook) for image in images]
    by_image = [group_features(*pair) for pair in zip(images, histograms, strict=True)]
    fit = partial(fit_trees, n_rounds=settings.group_rounds)
    by_group: dict[str, list[BoostedTrees]] = {}
    answers = []
    for number, group in enumerate(GROUPS):
        report(f"classifier {number + 1} of {len(GROUPS)}: {group}")
        rows = np.concatenate([features[group] for features in by_image]).astype(np.float32)
        by_group[group], found = training.cross_fit(rows, settings.group_rows, fit)
        answers.append(found)
    report("classifier on all features")
    rows = np.concatenate([joint_rows(*pair) for pair in zip(images, by_image, strict=True)])
    joint, found = training.cross_fit(rows, settings.joint_rows, fit_joint, rare_more_often=False)
    stacked = np.stack([*answers, found], axis=1)
    classifiers = UnaryClassifiers(training.n_labels, codebook, by_group, joint)
    return classifiers, np.split(stacked, training.ends)


def log_odds(log_probabilities: FloatArray) -> FloatArray:
    """Logarithm of p / (1 - p) of each label; F(x) of (32) where there are two."""
    p = np.clip(np.exp(log_probabilities), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.asarray(np.log(p) - np.log1p(-p))


class _Training:
    """Labels and folds of the training superpixels."""

    def __init__(
        self,
        counts: Sequence[IntArray],
        settings: UnarySettings,
        random_state: int,
        n_jobs: int | None,
        groups: Sequence[int] | None,
    ) -> None:
        self.n_labels = counts[0].shape[1]
        self.ends = np.cumsum([len(count) for count in counts])[:-1]
        stacked = np.concatenate(counts)
        self.labels = np.argmax(stacked, axis=1)
        self.known = stacked.sum(axis=1) > 0
        if not self.known.any():
            raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
        of_groups = np.arange(len(counts)) if groups is None else np.asarray(groups)
        n_groups = int(of_groups.max()) + 1
        self.n_folds = min(settings.n_folds, n_groups)
        self.random_state, self.n_jobs = random_state, n_jobs
        drawn = np.random.default_rng(random_state).permutation(n_groups) % self.n_folds
        of_images = drawn[of_groups]
        self.folds = np.repeat(of_images, [len(count) for count in counts])

    def cross_fit(
        self, rows: Floats32, n_rows: int, fit: Callable[..., Any], *, rare_more_often: bool = True
    ) -> tuple[list[Any], FloatArray]:
        """A classifier for each fold, trained on the others, and their answers on the fold."""
        drawn = [self._drawn(fold, n_rows, rare_more_often) for fold in range(self.n_folds)]
        return cross_fit(
            self.folds,
            fit,
            [(rows[part], self.labels[part], self.n_labels) for part in drawn],
            lambda classifier, inside: classifier.log_probabilities(rows[inside]),
            n_jobs=self.n_jobs,
        )

    def _drawn(self, fold: int, n_rows: int, rare_more_often: bool) -> IntArray:
        """Superpixels of the other folds that are not void, at most ``n_rows`` of them."""
        usable = np.flatnonzero((self.folds != fold) & self.known)
        if not len(usable):
            usable = np.flatnonzero(self.known)
        random = np.random.default_rng([self.random_state, fold])
        if len(usable) <= n_rows:
            return usable
        if not rare_more_often:
            return np.sort(random.choice(usable, n_rows, replace=False))
        labels = self.labels[usable]
        chances = 1.0 / np.sqrt(np.bincount(labels)[labels])
        return np.sort(random.choice(usable, n_rows, replace=False, p=chances / chances.sum()))


def combined(answers: FloatArray) -> FloatArray:
    """One probability per label: that of the joint classifier, or from those of the groups."""
    if answers.shape[1] > len(GROUPS):
        scores = answers[:, -1]
    elif answers.shape[2] == 2:
        odds = _SHARPNESS * log_odds(answers)[:, :, 1:].mean(axis=1)
        scores = np.hstack((np.zeros_like(odds), odds))
    else:
        scores = _SHARPNESS * answers.mean(axis=1)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
