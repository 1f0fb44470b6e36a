"""Cross-fitted training of the unary classifiers, with few images in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from structboost._typing import FloatArray, IntArray
from structboost.progress import Phase
from structboost.runtime.blas import one_blas_thread
from structboost.segmentation.descriptors import DescribedImage, learn_codebook
from structboost.segmentation.unaries import (
    ALL,
    GROUPS,
    OwnClassifiers,
    OwnUnaries,
    UnaryClassifiers,
    UnarySettings,
    fit_joint,
    fit_trees,
    rows_by_group,
)
from structboost.selection.folds import parts_of_groups

# Trains on rows, labels and the number of labels.
_Fit = Callable[..., Any]


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
        If there are fewer than two images, or all superpixels are void.
    """
    if len(images) < 2:
        raise ValueError(f"{len(images)} image is too few to train on; give at least 2, better 20.")
    settings = settings or UnarySettings()
    n_labels, stacked = counts[0].shape[1], np.concatenate(counts)
    labels, usable = np.argmax(stacked, axis=1), stacked.sum(axis=1) > 0
    if not usable.any():
        raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
    fold_of = parts_of_groups(groups, len(counts), settings.n_folds, random_state)
    folds = range(int(fold_of.max()) + 1)
    # Superpixels to train on, for each fold those of the others.
    candidates = [usable & (np.repeat(fold_of, list(map(len, counts))) != fold) for fold in folds]
    candidates = [inside if inside.any() else usable for inside in candidates]

    def draw(n_rows: int, *, rare_more_often: bool = False) -> list[IntArray]:
        """Draw at most ``n_rows`` superpixels for each fold."""
        drawn = []
        for fold, inside in enumerate(candidates):
            rows, weights = np.flatnonzero(inside), None
            if rare_more_often:
                weights = 1.0 / np.sqrt(np.bincount(labels[rows])[labels[rows]])
                weights /= weights.sum()
            if len(rows) > n_rows:
                random = np.random.default_rng([random_state, fold])
                rows = np.sort(random.choice(rows, n_rows, replace=False, p=weights))
            drawn.append(rows)
        return drawn

    fits: dict[str, _Fit]
    codebook = None
    if isinstance(settings, OwnUnaries):
        fits, drawn = {ALL: partial(_fit_own, settings.classifier)}, {ALL: draw(settings.n_rows)}
    else:
        fits = dict.fromkeys(GROUPS, partial(fit_trees, n_rounds=settings.group_rounds))
        drawn = dict.fromkeys(GROUPS, draw(settings.group_rows, rare_more_often=True))
        fits[ALL], drawn[ALL] = fit_joint, draw(settings.joint_rows)
    if not isinstance(settings, OwnUnaries) or settings.features is None:
        with Phase(f"visual words of {len(images)} images", 1, verbose) as line:
            codebook = learn_codebook(images, random_state=random_state)
            line.step()
    sample = _sample(images, counts, codebook, drawn, verbose)
    fitted: dict[str, list[Any]] = {group: [] for group in fits}
    # Those on all features come one after the other, since each takes up to a gigabyte.
    for title, names, most_jobs in (
        ("classifiers of groups of features", [name for name in fits if name != ALL], n_jobs),
        ("classifiers on all features", [ALL], 1),
    ):
        tasks = [(name, fold) for name in names for fold in folds]
        with Phase(title, len(tasks), verbose and bool(tasks)) as line:
            results = joblib.Parallel(most_jobs, return_as="generator")(
                joblib.delayed(_fit_on_one_thread)(
                    fits[name], sample(name, rows := drawn[name][fold]), labels[rows], n_labels
                )
                for name, fold in tasks
            )
            for (name, _), classifier in zip(tasks, results, strict=True):
                fitted[name].append(classifier)
                line.step()
    log_probabilities = []
    with Phase("log-probabilities of the classifiers", len(images), verbose) as line:
        with one_blas_thread():
            for image, fold in zip(images, fold_of, strict=True):
                without = {group: each[fold : fold + 1] for group, each in fitted.items()}
                seen = UnaryClassifiers(n_labels, codebook, without)
                log_probabilities.append(seen.log_probabilities(image))
                line.step()
    if isinstance(settings, OwnUnaries):
        each = [clones.classifiers[0] for clones in fitted[ALL]]
        fitted = {ALL: [OwnClassifiers(n_labels, each)]}
    return UnaryClassifiers(n_labels, codebook, fitted), log_probabilities


def _sample(
    images: Sequence[DescribedImage],
    counts: Sequence[IntArray],
    codebook: NDArray[np.float32] | None,
    drawn: dict[str, list[IntArray]],
    verbose: bool,
) -> Callable[[str, IntArray], NDArray[np.float32]]:
    """Keep the rows of all superpixels that some fold has drawn, as 16-bit floats.

    Returns a function that looks up rows of a group of features.
    """
    ends = np.cumsum(list(map(len, counts)))
    wanted = {name: np.unique(np.concatenate(rows)) for name, rows in drawn.items()}
    stored: dict[str, list[NDArray[np.float16]]] = {name: [] for name in drawn}
    with Phase("features to learn from", len(images), verbose) as line:
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


def _fit_own(
    classifier: Any, rows: NDArray[Any], labels: IntArray, n_labels: int
) -> OwnClassifiers:
    return OwnClassifiers(n_labels, [clone(classifier).fit(rows, labels)])


def _fit_on_one_thread(fit: _Fit, *arguments: Any) -> Any:
    """Fit on one thread, since several would add sums in another order."""
    with threadpool_limits(1):
        return fit(*arguments)
