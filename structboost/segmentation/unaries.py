"""Classifiers of superpixels, whose log-odds are the unary potentials (StructBoost, (32)).

They are boosted trees on each group of features, and a linear classifier on all features of a
superpixel, its surroundings and the image.  A single group hardly determines a label among many:
grass is green *and* of fine texture *and* below.  The image as a whole, such as a cow on a meadow,
is more informative than the surroundings (image-level priors: Shotton et al., CVPR 2008).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from structboost._typing import AnyArray, ByteArray, FloatArray, IntArray, ShortArray, SingleArray
from structboost.files.archive import Array, Arrays, DamagedFileError, NamedArrays
from structboost.learners.table import Scorer
from structboost.learners.tree import TreeFamily
from structboost.learners.tree_table import TreeTable
from structboost.progress import ProgressLine
from structboost.runtime.compiled import one_blas_thread
from structboost.segmentation.descriptors import (
    GROUP_WIDTHS,
    N_OF_PLACE,
    OWN,
    PATCH_SIZES,
    DescribedImage,
    learn_codebook,
    neighbour_means,
    place_and_colour,
    word_histograms,
)
from structboost.selection.folds import fit_on_one_thread, parts_of_groups
from structboost.validation import check_parameters

_DEPTH = 4
_LEARNING_RATE = 0.16
_RIDGE = 1.0  # added to the curvature of a leaf
_LEAST = np.log(1e-6)


class _OfPresentClasses:
    """Base of classifiers of the classes that occur in training, whose fields go to model files."""

    schema: ClassVar[Mapping[str, Array]]

    def to_arrays(self) -> Arrays:
        """Return the arrays for a model file."""
        return {name: getattr(self, name) for name in self.schema}

    @classmethod
    def from_arrays(cls, arrays: NamedArrays, n_labels: int) -> Self:
        """Build the classifier from arrays of :meth:`to_arrays` that fit the schema.

        ValueError if there is no class, or the arrays do not fit one another.
        """
        if not len(arrays["classes"]):
            raise DamagedFileError("one of its classifiers has no class")
        return cls(**{**arrays, "n_labels": n_labels})


@dataclass(frozen=True)
class BoostedTrees(_OfPresentClasses):
    """Boosted classifier with a sum of trees for each class.

    Two classes have one sum, the log-odds of the second.  The trees of a round follow one another,
    one for each sum, and the first of a sum hold its baseline.
    """

    schema = {
        **{name: TreeTable.schema[name] for name in ("feature", "threshold", "leaf")},
        "classes": Array("int64", ("n_present",), low=0, high="n_labels - 1", rising=True),
    }

    feature: IntArray
    threshold: FloatArray
    leaf: FloatArray
    classes: IntArray
    n_labels: int

    def __post_init__(self) -> None:
        n_trees, n_classes = len(self._trees), len(self.classes)
        if n_trees % _n_sums(self.classes) or n_classes > 1 > n_trees:
            raise DamagedFileError("its trees do not fit their classes")

    def log_probabilities(self, rows: AnyArray) -> FloatArray:
        """Return the log-probabilities of all classes, shape (n_rows, n_labels).

        A class absent from training gets the probability 1e-6.
        """
        out = np.full((len(rows), self.n_labels), _LEAST)
        if len(self.classes) == 1:
            out[:, self.classes[0]] = 0.0
            return out
        sums = self._scorer.raw_scores(np.ascontiguousarray(rows, np.float32))
        out[:, self.classes] = np.maximum(_log_probabilities(sums), _LEAST)
        return out

    @cached_property
    def _trees(self) -> TreeTable:
        return TreeTable(self.feature, self.threshold, self.leaf)

    @cached_property
    def _scorer(self) -> Scorer:
        n_sums = _n_sums(self.classes)
        weights = np.eye(n_sums)[np.arange(len(self._trees)) % n_sums]
        return self._trees.scorer(weights, int(self.feature.max()) + 1)


def fit_trees(rows: AnyArray, labels: IntArray, n_labels: int, *, n_rounds: int) -> BoostedTrees:
    """Train by gradient boosting of the log loss (Friedman, Annals of Statistics 2001).

    In each round :class:`structboost.learners.tree.TreeFamily` grows a tree on the gradient of each
    sum, and a Newton step gives the leaves their values.  Not all of the classes need occur.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    n_sums = _n_sums(classes)
    n_trees = n_rounds * n_sums if len(classes) > 1 else 0
    feature = np.zeros((n_trees, 2**_DEPTH - 1), np.int64)
    threshold, leaf = np.zeros(feature.shape), np.zeros((n_trees, 2**_DEPTH))
    frequencies = np.bincount(codes) / len(codes)
    odds = np.log(frequencies if n_sums > 1 else frequencies[-1:] / frequencies[:1])
    truth = np.eye(len(classes))[codes][:, -n_sums:]
    family = TreeFamily(rows, (-1.0, 1.0), depth=_DEPTH)
    sums = np.tile(odds, (len(rows), 1))
    for first in range(0, n_trees, n_sums):
        probabilities = np.exp(_log_probabilities(sums))[:, -n_sums:]
        slopes, curvatures = truth - probabilities, probabilities * (1 - probabilities)
        for tree, k, _ in family.price(slopes, 1):
            leaves = family.leaf_indices(tree)
            slope, curvature = (
                np.bincount(leaves, values[:, k], 2**_DEPTH) for values in (slopes, curvatures)
            )
            leaf[first + k] = _LEARNING_RATE * slope / (curvature + _RIDGE)
            sums[:, k] += leaf[first + k][leaves]
            feature[first + k], threshold[first + k] = tree.features, tree.thresholds
    leaf[:n_sums] += odds[:, None][: len(leaf)]
    return BoostedTrees(feature, threshold, leaf, classes, n_labels)


def _n_sums(classes: IntArray) -> int:
    """Return the number of sums, one for two classes or for a single class, which has no tree."""
    return len(classes) if len(classes) > 2 else 1


def _log_probabilities(sums: FloatArray) -> FloatArray:
    if sums.shape[1] == 1:
        sums = np.hstack((np.zeros_like(sums), sums))
    return np.asarray(log_softmax(sums, axis=1))


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
class JointClassifier(_OfPresentClasses):
    """Multinomial logistic regression on signed roots of standardised features."""

    schema = {
        "mean": Array("float32", ("n_features",)),
        "spread": Array("float32", ("n_features",), low=0.0, nonzero=True),
        "weights": Array("float32", ("n_classes", "n_features")),
        "constants": Array("float32", ("n_classes",)),
        "classes": Array("int64", ("n_classes",), low=0, high="n_labels - 1", rising=True),
    }

    mean: SingleArray
    spread: SingleArray
    weights: SingleArray
    constants: SingleArray
    classes: IntArray
    n_labels: int

    def log_probabilities(self, rows: SingleArray) -> FloatArray:
        """Return the log-probabilities of the labels, shape (n, n_labels).

        A label absent from training is less likely than all others.
        """
        roots = _compressed(rows, self.mean, self.spread, np.empty_like(rows))
        sums = (roots @ self.weights.T + self.constants).astype(np.float64)
        scores = log_softmax(sums, axis=1)
        out = np.full((len(rows), self.n_labels), scores.min(initial=_LEAST_LOG_PROBABILITY))
        out[:, self.classes] = scores
        return out


def joint_rows(image: DescribedImage, by_group: NamedArrays) -> SingleArray:
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
    # Nearness to each point of a grid.
    apart = image.positions.astype(np.float64).T[:, :, None] - (np.arange(_PLACES) + 0.5) / _PLACES
    x, y = np.exp(-(apart**2) / (2 * _PLACE_WIDTH**2))
    grid = (x[:, :, None] * y[:, None]).reshape(len(areas), -1)
    blocks = [*groups.values(), place_and_colour(image), *nearby, grid]
    return np.hstack([*blocks, np.broadcast_to(whole, (len(areas), len(whole)))]).astype(np.float32)


# Columns of :func:`joint_rows` beside two for each visual word.
N_JOINT = (
    sum(GROUP_WIDTHS.values())
    + N_OF_PLACE
    + _PLACES**2
    + len(_COLOUR_STEPS) * GROUP_WIDTHS["colour"]
    + sum(GROUP_WIDTHS[group] for group in _OF_THE_IMAGE[1:])
)


def fit_joint(rows: SingleArray, labels: IntArray, n_labels: int) -> JointClassifier:
    """Train on the :func:`joint_rows` of several images, which are overwritten to save memory."""
    blocks = range(0, rows.shape[1], _BLOCK)
    stds = np.concatenate([rows[:, first : first + _BLOCK].std(axis=0) for first in blocks])
    mean, spread = rows.mean(axis=0), np.where(stds > _LEAST_STD, stds, np.float32(1.0))
    classes = np.unique(labels)
    weights = np.zeros((len(classes), rows.shape[1]), np.float32)
    constants = np.zeros(len(classes), np.float32)
    if len(classes) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # stopped early: less overfitting
            fitted = LogisticRegression(C=_C, max_iter=_ITERATIONS).fit(
                _compressed(rows, mean, spread, out=rows), labels
            )
        n = len(fitted.coef_)  # of two classes the second one has a row
        weights[-n:], constants[-n:] = fitted.coef_, fitted.intercept_
    return JointClassifier(mean, spread, weights, constants, classes, n_labels)


def _compressed(
    rows: SingleArray, mean: SingleArray, spread: SingleArray, out: SingleArray
) -> SingleArray:
    """Take signed square roots of the standardised features, against outliers."""
    for first in range(0, len(rows), _BLOCK):
        scaled = (rows[first : first + _BLOCK] - mean) / spread
        np.copysign(np.sqrt(np.abs(scaled)), scaled, out=out[first : first + _BLOCK])
    return out


WORDS = "words"
# The 14 groups of section 4.5: visual words, colour, and GIST, HOG and LBP on patches of four
# sizes.
GROUPS = (
    WORDS,
    "colour",
    *(f"{kind}_{size}" for kind in ("gist", "hog", "lbp") for size in PATCH_SIZES),
)
ALL = "all features"  # name of the classifier on all groups
_LEAST_PROBABILITY = 1e-6
_LEAST_OF_USERS = 1e-4
# Probabilities of independent groups would multiply, and averaging log-odds would be too cautious;
# the groups are in between.
_SHARPNESS = 1.5
# Largest numbers of superpixels, drawn at random, for the classifier of a group and for the one on
# all features.
_GROUP_ROWS, _JOINT_ROWS = 10_000, 60_000


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
    """

    n_folds: int = 3
    group_rounds: int = 40

    def __post_init__(self) -> None:
        check_parameters(self, vars(self))


@dataclass(frozen=True, repr=False)
class UnaryClassifiers:
    """Trained classifiers of some folds, whose log-probabilities are averaged on new images.

    Attributes
    ----------
    codebook : ndarray of float32, shape (n_words, 144), or None
        Visual words of the built-in features; None with a user's features.
    by_group : dict of str to list
        For each group of features the classifiers, one per fold; that on all features comes last,
        or is the only one.
    """

    codebook: SingleArray | None
    by_group: Mapping[str, Sequence[Any]]

    def __repr__(self) -> str:
        return f"UnaryClassifiers(<{len(self.by_group[ALL])} folds>)"

    def log_probabilities(self, image: DescribedImage) -> FloatArray:
        """Return log-probabilities, shape (n_superpixels, n_classifiers, n_labels)."""
        rows = rows_by_group(image, self.codebook)
        each = [
            np.mean([one.log_probabilities(rows[group]) for one in classifiers], axis=0)
            for group, classifiers in self.by_group.items()
        ]
        return np.stack(each, axis=1)


def rows_by_group(image: DescribedImage, codebook: SingleArray | None) -> Arrays:
    """Return the features of superpixels by group, those of the user alone without a codebook."""
    if codebook is None:
        return {ALL: image.features[OWN]}
    groups = {WORDS: word_histograms(image, codebook)}
    groups |= {group: image.features[group] for group in GROUPS[1:]}
    return groups | {ALL: joint_rows(image, groups)}


def log_odds(log_probabilities: FloatArray) -> FloatArray:
    """Return log(p / (1 - p)) of each label, which is F(x) of (32) where there are two."""
    p = np.clip(np.exp(log_probabilities), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.asarray(np.log(p) - np.log1p(-p))


def combine(log_probabilities: FloatArray) -> FloatArray:
    """Return a probability per label, of the joint or only classifier, or of the groups."""
    n = log_probabilities.shape[1]
    scores = log_probabilities[:, -1]
    if 1 < n <= len(GROUPS):  # of two labels
        odds = _SHARPNESS * log_odds(log_probabilities)[:, :, 1:].mean(axis=1)
        scores = np.hstack((np.zeros_like(odds), odds))
    return np.asarray(softmax(scores, axis=1))


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
    """

    classifier: Any
    features: Callable[[ByteArray, ShortArray], AnyArray] | None = None
    n_folds: int = 3


@dataclass(frozen=True)
class OwnClassifiers:
    """Trained clones of a user's classifier, whose probabilities are averaged."""

    n_labels: int
    classifiers: Sequence[Any]

    def log_probabilities(self, rows: AnyArray) -> FloatArray:
        """Return the log-probabilities of the labels, shape (n, n_labels)."""
        probabilities = np.zeros((len(rows), self.n_labels))
        for classifier in self.classifiers:
            probabilities[:, classifier.classes_] += classifier.predict_proba(rows)
        probabilities = np.maximum(probabilities / len(self.classifiers), _LEAST_OF_USERS)
        return np.asarray(np.log(probabilities / probabilities.sum(axis=1, keepdims=True)))


def fit_unaries(
    images: Sequence[DescribedImage],
    counts: Sequence[IntArray],
    settings: UnarySettings | OwnUnaries | None = None,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
    groups: Sequence[int] | None = None,
) -> tuple[UnaryClassifiers, list[FloatArray]]:
    """Train the classifiers on the superpixels of some images.

    The images are used one after the other, a few times each, so that not all need be in memory.

    Parameters
    ----------
    images : sequence of DescribedImage
    counts : sequence of ndarray of int64, shape (n_superpixels, n_labels)
        Pixels of each class in each superpixel; a superpixel without any is void.
    settings : UnarySettings or OwnUnaries, optional
    random_state : int
        Seed for the codebook, the folds and the samples of superpixels.
    n_jobs : int or None
        Number of processes; the result does not depend on it.
    verbose : bool
        Whether a line on standard error shows the progress.
    groups : sequence of int, optional
        Group of each image, from 0; images of a group are in one fold.

    Returns
    -------
    classifiers : UnaryClassifiers
    log_probabilities : list of ndarray, shape (n_superpixels, n_classifiers, n_labels)
        For each image, by classifiers that were trained without it.

    Raises
    ------
    ValueError
        If all superpixels are void.
    """
    settings = settings or UnarySettings()
    n_labels, stacked = counts[0].shape[1], np.concatenate(counts)
    labels, usable = np.argmax(stacked, axis=1), stacked.sum(axis=1) > 0
    if not usable.any():
        raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
    fold_of = parts_of_groups(groups, len(counts), settings.n_folds, random_state)
    fold_of_row = np.repeat(fold_of, list(map(len, counts)))

    def draw(n_rows: int, *, rare_more_often: bool = False) -> list[IntArray]:
        """Draw at most ``n_rows`` superpixels for each fold, those of the others."""
        drawn = []
        for fold in range(int(fold_of.max()) + 1):
            inside, weights = usable & (fold_of_row != fold), None
            rows = np.flatnonzero(inside if inside.any() else usable)
            if rare_more_often:
                weights = 1.0 / np.sqrt(np.bincount(labels[rows])[labels[rows]])
                weights /= weights.sum()
            if len(rows) > n_rows:
                random = np.random.default_rng([random_state, fold])
                rows = np.sort(random.choice(rows, n_rows, replace=False, p=weights))
            drawn.append(rows)
        return drawn

    codebook = None
    # Functions that train on rows, labels and the number of labels.
    fits: dict[str, tuple[Callable[..., Any], list[IntArray]]]
    if isinstance(settings, OwnUnaries):
        fits = {ALL: (partial(_fit_own, settings.classifier), draw(_JOINT_ROWS))}
    else:
        fit_group = partial(fit_trees, n_rounds=settings.group_rounds)
        fits = dict.fromkeys(GROUPS, (fit_group, draw(_GROUP_ROWS, rare_more_often=True)))
        fits[ALL] = fit_joint, draw(_JOINT_ROWS)
    if not isinstance(settings, OwnUnaries) or settings.features is None:
        with ProgressLine(f"visual words of {len(images)} images", 1, verbose) as line:
            codebook = learn_codebook(images, random_state=random_state)
            line.step()
    sample = _sample(images, counts, codebook, {name: fits[name][1] for name in fits}, verbose)
    fitted: dict[str, list[Any]] = {}
    # Those on all features come one after the other, since each takes up to a gigabyte.
    for title, names, most_jobs in (
        ("classifiers of groups of features", [name for name in fits if name != ALL], n_jobs),
        ("classifiers on all features", [ALL], 1),
    ):
        tasks = [(name, fits[name][0], rows) for name in names for rows in fits[name][1]]
        with ProgressLine(title, len(tasks), verbose and bool(tasks)) as line:
            results = joblib.Parallel(most_jobs, return_as="generator")(
                joblib.delayed(fit_on_one_thread)(fit, sample(name, rows), labels[rows], n_labels)
                for name, fit, rows in tasks
            )
            for (name, _, _), classifier in zip(tasks, results, strict=True):
                fitted.setdefault(name, []).append(classifier)
                line.step()
    log_probabilities = []
    with ProgressLine("log-probabilities of the classifiers", len(images), verbose) as line:
        with one_blas_thread():
            for image, fold in zip(images, fold_of, strict=True):
                without = {group: [each[fold]] for group, each in fitted.items()}
                classifiers = UnaryClassifiers(codebook, without)
                log_probabilities.append(classifiers.log_probabilities(image))
                line.step()
    if isinstance(settings, OwnUnaries):
        each = [clones.classifiers[0] for clones in fitted[ALL]]
        fitted[ALL] = [OwnClassifiers(n_labels, each)]
    return UnaryClassifiers(codebook, fitted), log_probabilities


def _sample(
    images: Sequence[DescribedImage],
    counts: Sequence[IntArray],
    codebook: SingleArray | None,
    drawn: dict[str, list[IntArray]],
    verbose: bool,
) -> Callable[[str, IntArray], SingleArray]:
    """Keep the rows of all superpixels that some fold has drawn, as 16-bit floats.

    Returns a function that looks up rows of a group of features.
    """
    ends = np.cumsum(list(map(len, counts)))
    wanted = {name: np.unique(np.concatenate(rows)) for name, rows in drawn.items()}
    stored: dict[str, list[AnyArray]] = {name: [] for name in drawn}
    with ProgressLine("features to learn from", len(images), verbose) as line:
        for image, end in zip(images, ends, strict=True):
            start = end - image.n_superpixels
            with one_blas_thread():
                by_group = rows_by_group(image, codebook)
            for name, rows in wanted.items():
                inside = rows[slice(*np.searchsorted(rows, (start, end)))]
                stored[name].append(by_group[name][inside - start].astype(np.float16))
            line.step()
    stacked = {name: np.concatenate(stored.pop(name)) for name in drawn}
    return lambda name, rows: stacked[name][np.searchsorted(wanted[name], rows)].astype(np.float32)


def _fit_own(classifier: Any, rows: AnyArray, labels: IntArray, n_labels: int) -> OwnClassifiers:
    return OwnClassifiers(n_labels, [clone(classifier).fit(rows, labels)])
