"""Unary potentials from boosted classifiers on superpixels (StructBoost, (32)), cross-fitted over images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from structboost.segmentation.boosted_trees import BoostedTrees, fit_trees
from structboost.segmentation.codebook import learn_codebook, word_histograms
from structboost.segmentation.context import place_and_colour, surroundings
from structboost.segmentation.descriptors import PATCH_SIZES, DescribedImage
from structboost.segmentation.image_classes import ImageClasses, classes_present, fit_image_classes, image_row

WORDS = "words"
# The 14 groups of section 4.5: visual words, colour, and GIST, HOG and LBP on patches of four sizes.
GROUPS = (WORDS, "colour", *(f"{kind}_{size}" for kind in ("gist", "hog", "lbp") for size in PATCH_SIZES))
_LEAST_PROBABILITY = 1e-6
# Probabilities of independent groups would multiply; these are not, and averaging their log-odds is too timid.
_SHARPNESS = 1.5
_PASSES_OF_MANY = 2

Floats = NDArray[np.float64]
Report = Callable[[str], None]


@dataclass(frozen=True)
class UnarySettings:
    """How the classifiers are trained.

    Parameters
    ----------
    n_folds : int
        Parts of the training images; each part's potentials come from classifiers of the other parts.
    group_rounds, context_rounds : int
        Rounds of boosting for a group of features, and for the surroundings.
    context_passes : int or None
        Further classifiers one after the other, each on the answers of the last and their surroundings; None: none for
        two labels, where the CRF itself learns from the surroundings, and 2 for more.
    group_rows, context_rows : int
        Most superpixels that a classifier is trained on, drawn at random.
    """

    n_folds: int = 3
    group_rounds: int = 40
    context_rounds: int = 80
    context_passes: int | None = None
    group_rows: int = 10_000
    context_rows: int = 20_000


@dataclass(frozen=True)
class UnaryClassifiers:
    """Trained classifiers: those of all folds, whose answers are averaged on new images.

    Attributes
    ----------
    n_labels : int
    codebook : ndarray of float32, shape (n_words, 144)
    groups : dict of str to list of BoostedTrees
        By group of features, a classifier a fold.
    passes : list of list of BoostedTrees
        By pass of context, a classifier a fold.
    image_classes : list of ImageClasses
        Classifiers of whole images, one a fold; none where there are no passes.
    """

    n_labels: int
    codebook: NDArray[np.float32]
    groups: Mapping[str, Sequence[BoostedTrees]]
    passes: Sequence[Sequence[BoostedTrees]]
    image_classes: Sequence[ImageClasses] = ()

    def log_probabilities(self, image: DescribedImage) -> Floats:
        """Of each label by each classifier, shape (n_superpixels, n_groups + n_passes, n_labels)."""
        features = group_features(image, self.codebook)
        by_group = [
            np.mean([trees.log_probabilities(rows) for trees in self.groups[group]], axis=0)
            for group, rows in features.items()
        ]
        answers = np.stack(by_group, axis=1)
        if self.passes:
            whole = image_row(image, features[WORDS])[None, :]
            present = np.mean([classes.log_odds(whole)[0] for classes in self.image_classes], axis=0)
        for folds in self.passes:
            rows = _context_rows(image, answers, present)
            found = np.mean([trees.log_probabilities(rows) for trees in folds], axis=0)
            answers = np.concatenate((answers, found[:, None, :]), axis=1)
        return answers


def group_features(image: DescribedImage, codebook: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Features of the superpixels by group, in the order of `GROUPS`."""
    return {group: word_histograms(image, codebook) if group == WORDS else image.features[group] for group in GROUPS}


def fit_unaries(
    images: Sequence[DescribedImage],
    counts: Sequence[NDArray[np.int64]],
    settings: UnarySettings | None = None,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> tuple[UnaryClassifiers, list[Floats]]:
    """Train the classifiers on the superpixels of some images.

    Parameters
    ----------
    images : sequence of DescribedImage
    counts : sequence of ndarray of int64, shape (n_superpixels, n_labels)
        Pixels of each class in each superpixel; those without any are void.
    settings : UnarySettings, optional
    random_state : int
        Codebook, folds and drawn superpixels.
    n_jobs : int or None
        Processes; the result does not depend on it.
    report : callable, optional
        Told what is done.

    Returns
    -------
    classifiers : UnaryClassifiers
    log_probabilities : list of ndarray, shape (n_superpixels, n_groups + n_passes, n_labels)
        For each image the answers of classifiers that have not seen it.

    Raises
    ------
    ValueError
        If there are fewer than two images, or all superpixels are void.
    """
    if len(images) < 2:
        raise ValueError(f"{len(images)} image is too few to train on; give at least 2, better 20.")
    settings = settings or UnarySettings()
    report = report or (lambda text: None)
    training = _Training(counts, settings, random_state, n_jobs)
    report("visual words")
    codebook = learn_codebook(images, random_state=random_state)
    histograms = [word_histograms(image, codebook) for image in images]
    groups, answers = {}, []
    for number, group in enumerate(GROUPS):
        report(f"classifier {number + 1} of {len(GROUPS)}: {group}")
        blocks = histograms if group == WORDS else [image.features[group] for image in images]
        groups[group], found = training.cross_fit(blocks, settings.group_rounds, settings.group_rows, _GROUP_TREES)
        answers.append(found)
    by_image = training.split(np.stack(answers, axis=1))
    n_passes = settings.context_passes
    if n_passes is None:
        n_passes = 0 if training.n_labels == 2 else _PASSES_OF_MANY
    passes: list[list[BoostedTrees]] = []
    image_classes: list[ImageClasses] = []
    if n_passes:
        report("classes of whole images")
        whole = np.array([image_row(*pair) for pair in zip(images, histograms, strict=True)])
        image_classes, present = training.cross_fit_images(whole, classes_present(counts))
    for number in range(n_passes):
        report(f"surroundings, pass {number + 1} of {n_passes}")
        blocks = [_context_rows(*of_image) for of_image in zip(images, by_image, present, strict=True)]
        folds, found = training.cross_fit(blocks, settings.context_rounds, settings.context_rows, _CONTEXT_TREES)
        passes.append(folds)
        by_image = [
            np.concatenate((before, new[:, None, :]), axis=1)
            for before, new in zip(by_image, training.split(found), strict=True)
        ]
    return UnaryClassifiers(training.n_labels, codebook, groups, passes, image_classes), by_image


def log_odds(log_probabilities: Floats) -> Floats:
    """Logarithm of p / (1 - p) of each label; F(x) of (32) where there are two."""
    p = np.clip(np.exp(log_probabilities), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.asarray(np.log(p) - np.log1p(-p))


_GROUP_TREES = {"learning_rate": 0.12, "max_leaves": 16, "min_leaf": 20, "l2": 1.0, "max_features": 1.0}
_CONTEXT_TREES = {"learning_rate": 0.1, "max_leaves": 12, "min_leaf": 40, "l2": 5.0, "max_features": 0.3}


class _Training:
    """Labels and folds of the training superpixels."""

    def __init__(
        self, counts: Sequence[NDArray[np.int64]], settings: UnarySettings, random_state: int, n_jobs: int | None
    ) -> None:
        self.n_labels = counts[0].shape[1]
        self.ends = np.cumsum([len(count) for count in counts])[:-1]
        stacked = np.concatenate(counts)
        self.labels = np.argmax(stacked, axis=1)
        self.known = stacked.sum(axis=1) > 0
        if not self.known.any():
            raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
        self.n_folds = min(settings.n_folds, len(counts))
        self.random_state, self.n_jobs = random_state, n_jobs
        of_images = np.random.default_rng(random_state).permutation(len(counts)) % self.n_folds
        self.of_images = of_images
        self.folds = np.repeat(of_images, [len(count) for count in counts])

    def split(self, rows: Floats) -> list[Floats]:
        """Rows of all superpixels as blocks, one an image."""
        return np.split(rows, self.ends)

    def cross_fit(
        self, blocks: Sequence[NDArray[Any]], n_rounds: int, n_rows: int, trees: Mapping[str, Any]
    ) -> tuple[list[BoostedTrees], Floats]:
        """A classifier for each fold, trained on the others, and its answers on the fold."""
        rows = np.concatenate(blocks).astype(np.float32)
        kept = [self._drawn(fold, n_rows) for fold in range(self.n_folds)]
        fitted = joblib.Parallel(n_jobs=self.n_jobs)(
            joblib.delayed(_fit_on_one_thread)(
                *(rows[drawn], self.labels[drawn], self.n_labels),
                n_rounds=n_rounds,
                random_state=self.random_state,
                **trees,
            )
            for drawn in kept
        )
        answers = np.empty((len(rows), self.n_labels))
        for fold, classifier in enumerate(fitted):
            inside = self.folds == fold
            answers[inside] = classifier.log_probabilities(rows[inside])
        return fitted, answers

    def cross_fit_images(self, rows: Floats, present: NDArray[np.bool_]) -> tuple[list[ImageClasses], Floats]:
        """Classifiers of whole images, as :meth:`cross_fit`, and their log-odds on the images of their fold."""
        fitted, answers = [], np.empty(present.shape)
        for fold in range(self.n_folds):
            inside = self.of_images == fold
            with threadpool_limits(1):
                fitted.append(fit_image_classes(rows[~inside], present[~inside]))
            answers[inside] = fitted[-1].log_odds(rows[inside])
        return fitted, answers

    def _drawn(self, fold: int, n_rows: int) -> NDArray[np.int64]:
        """Superpixels of the other folds that are not void, at most ``n_rows`` of them; rare classes more often."""
        usable = np.flatnonzero((self.folds != fold) & self.known)
        if not len(usable):
            usable = np.flatnonzero(self.known)
        random = np.random.default_rng([self.random_state, fold])
        if len(usable) <= n_rows:
            return usable
        labels = self.labels[usable]
        chances = 1.0 / np.sqrt(np.bincount(labels)[labels])
        return np.sort(random.choice(usable, n_rows, replace=False, p=chances / chances.sum()))


def _fit_on_one_thread(*arguments: Any, **settings: Any) -> BoostedTrees:
    """One thread: sums of several would be added in another order."""
    with threadpool_limits(1):
        return fit_trees(*arguments, **settings)


def _context_rows(image: DescribedImage, answers: Floats, present: Floats) -> NDArray[np.float32]:
    """Features for a further classifier: log-odds of the groups and of the last pass, surroundings, the whole image."""
    probabilities = combined(answers)
    groups = log_odds(answers[:, : len(GROUPS)].mean(axis=1))
    around = surroundings(image, probabilities).reshape(image.n_superpixels, -1)
    whole = np.broadcast_to(present, (len(answers), len(present)))
    blocks = (groups, log_odds(answers[:, -1]), probabilities, around, place_and_colour(image), whole)
    return np.hstack(blocks).astype(np.float32)


def combined(answers: Floats) -> Floats:
    """One probability of each label: that of the last pass, or from those of the groups if there is no pass."""
    if answers.shape[1] > len(GROUPS):
        return np.asarray(np.exp(answers[:, -1]))
    scores = _SHARPNESS * (log_odds(answers)[:, :, 1:].mean(axis=1) if answers.shape[2] == 2 else answers.mean(axis=1))
    if answers.shape[2] == 2:
        scores = np.hstack((np.zeros_like(scores), scores))
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
