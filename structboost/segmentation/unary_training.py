"""Cross-fitted training of the unary classifiers, with few images in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from structboost._typing import FloatArray, IntArray
from structboost.progress import Phase
from structboost.runtime.blas import one_blas_thread
from structboost.segmentation.descriptors import (
    DescribedImage,
    learn_codebook,
    word_histograms,
)
from structboost.segmentation.unaries import (
    GROUPS,
    BoostedTrees,
    OwnClassifiers,
    OwnUnaries,
    UnaryClassifiers,
    UnarySettings,
    fit_joint,
    fit_trees,
    group_features,
    joint_rows,
)
from structboost.selection.folds import parts_of_groups

_JOINT = "all features"


def fit_unaries(
    images: Sequence[DescribedImage],
    counts: Sequence[IntArray],
    settings: UnarySettings | OwnUnaries | None = None,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
    groups: Sequence[int] | None = None,
) -> tuple[UnaryClassifiers | OwnClassifiers, list[FloatArray]]:
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
    classifiers : UnaryClassifiers or OwnClassifiers
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
    training = _Training(counts, settings.n_folds, random_state, groups)
    if isinstance(settings, OwnUnaries):
        return _fit_own(images, training, settings, n_jobs, verbose)
    return _fit_built_in(images, training, settings, n_jobs, verbose)


def _fit_built_in(
    images: Sequence[DescribedImage],
    training: _Training,
    settings: UnarySettings,
    n_jobs: int | None,
    verbose: bool,
) -> tuple[UnaryClassifiers, list[FloatArray]]:
    folds = range(training.n_folds)
    with Phase("visual words", len(images), verbose) as line:
        codebook = learn_codebook(_Stepping(images, line), random_state=training.random_state)

    def rows_of(image: DescribedImage) -> dict[str, NDArray[Any]]:
        features = group_features(image, word_histograms(image, codebook))
        return {**features, _JOINT: joint_rows(image, features)}

    drawn = dict.fromkeys(GROUPS, training.draw(settings.group_rows))
    drawn[_JOINT] = training.draw(settings.joint_rows, rare_more_often=False)
    with Phase("features to learn from", len(images), verbose) as line:
        rows = _Sample(_Stepping(images, line), training.starts, drawn, rows_of)
    fit = partial(fit_trees, n_rounds=settings.group_rounds)
    tasks = [(fit, group, fold) for group in GROUPS for fold in folds]
    with Phase("classifiers of groups of features", len(tasks), verbose) as line:
        fitted = _fit_all(tasks, rows, training, n_jobs, line)
    groups: dict[str, Sequence[BoostedTrees]] = {
        group: fitted[training.n_folds * i : training.n_folds * (i + 1)]
        for i, group in enumerate(GROUPS)
    }
    learn = partial(fit_joint, overwrite=True)
    with Phase("classifiers on all features", len(folds), verbose) as line:
        # One after the other, since each takes up to a gigabyte.
        joint = _fit_all([(learn, _JOINT, fold) for fold in folds], rows, training, 1, line)
    classifiers = UnaryClassifiers(training.n_labels, codebook, groups, joint)
    of_folds = [classifiers.of_fold(fold) for fold in folds]
    return classifiers, _log_probabilities(images, training, of_folds, verbose)


def _fit_own(
    images: Sequence[DescribedImage],
    training: _Training,
    settings: OwnUnaries,
    n_jobs: int | None,
    verbose: bool,
) -> tuple[OwnClassifiers, list[FloatArray]]:
    folds = range(training.n_folds)
    drawn = {_JOINT: training.draw(settings.n_rows, rare_more_often=False)}
    codebook = None
    if settings.features is None:
        with Phase("visual words", len(images), verbose) as line:
            codebook = learn_codebook(_Stepping(images, line), random_state=training.random_state)
    empty = OwnClassifiers(training.n_labels, codebook, [])
    with Phase("features to learn from", len(images), verbose) as line:
        rows = _Sample(
            _Stepping(images, line), training.starts, drawn, lambda i: {_JOINT: empty.rows(i)}
        )
    with Phase("classifiers of superpixels", len(folds), verbose) as line:
        tasks = [(settings.fit, _JOINT, fold) for fold in folds]
        fitted = _fit_all(tasks, rows, training, 1, line)
    classifiers = OwnClassifiers(training.n_labels, codebook, fitted)
    of_folds = [OwnClassifiers(training.n_labels, codebook, [one]) for one in fitted]
    return classifiers, _log_probabilities(images, training, of_folds, verbose)


class _Stepping(Sequence[DescribedImage]):
    """Sequence of images that counts on a progress line how many were used."""

    def __init__(self, images: Sequence[DescribedImage], line: Phase) -> None:
        self._images, self._line = images, line

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> Any:
        image = self._images[index]
        self._line.step()
        return image


class _Training:
    """Labels and folds of the training superpixels."""

    def __init__(
        self,
        counts: Sequence[IntArray],
        n_folds: int,
        random_state: int,
        groups: Sequence[int] | None,
    ) -> None:
        self.n_labels = counts[0].shape[1]
        sizes = [len(count) for count in counts]
        self.starts = np.concatenate(([0], np.cumsum(sizes)))
        stacked = np.concatenate(counts)
        self.labels = np.argmax(stacked, axis=1)
        self.usable = stacked.sum(axis=1) > 0
        if not self.usable.any():
            raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
        self.random_state = random_state
        self.of_images = parts_of_groups(groups, len(counts), n_folds, random_state)
        self.n_folds = int(self.of_images.max()) + 1
        self.folds = np.repeat(self.of_images, sizes)

    def draw(self, n_rows: int, *, rare_more_often: bool = True) -> list[IntArray]:
        """Draw at most ``n_rows`` superpixels of the other folds for each fold, none void."""
        return [self._draw_fold(fold, n_rows, rare_more_often) for fold in range(self.n_folds)]

    def _draw_fold(self, fold: int, n_rows: int, rare_more_often: bool) -> IntArray:
        usable = np.flatnonzero((self.folds != fold) & self.usable)
        if not len(usable):
            usable = np.flatnonzero(self.usable)
        random = np.random.default_rng([self.random_state, fold])
        if len(usable) <= n_rows:
            return usable
        if not rare_more_often:
            return np.sort(random.choice(usable, n_rows, replace=False))
        labels = self.labels[usable]
        weights = 1.0 / np.sqrt(np.bincount(labels)[labels])
        return np.sort(random.choice(usable, n_rows, replace=False, p=weights / weights.sum()))


class _Sample:
    """Rows of the superpixels that some fold has drawn, as 16-bit floats."""

    def __init__(
        self,
        images: Sequence[DescribedImage],
        starts: IntArray,
        drawn: Mapping[str, list[IntArray]],
        rows_of: Callable[[DescribedImage], Mapping[str, NDArray[Any]]],
    ) -> None:
        self.drawn = drawn
        self._wanted = {name: np.unique(np.concatenate(rows)) for name, rows in drawn.items()}
        self._rows: dict[str, NDArray[Any]] = {}
        for i, image in enumerate(images):
            with one_blas_thread():
                rows = rows_of(image)
            for name, wanted in self._wanted.items():
                first, last = np.searchsorted(wanted, starts[i : i + 2])
                if name not in self._rows:
                    width = rows[name].shape[1]
                    self._rows[name] = np.empty((len(wanted), width), np.float16)
                self._rows[name][first:last] = rows[name][wanted[first:last] - starts[i]]

    def of_fold(self, name: str, fold: int) -> tuple[NDArray[np.float32], IntArray]:
        """Return the rows that a fold has drawn, and the indices of their superpixels."""
        drawn = self.drawn[name][fold]
        places = np.searchsorted(self._wanted[name], drawn)
        return self._rows[name][places].astype(np.float32), drawn


def _fit_all(
    tasks: Sequence[tuple[Callable[..., Any], str, int]],
    rows: _Sample,
    training: _Training,
    n_jobs: int | None,
    line: Phase,
) -> list[Any]:
    def arguments(name: str, fold: int) -> tuple[Any, ...]:
        fold_rows, drawn = rows.of_fold(name, fold)
        return fold_rows, training.labels[drawn], training.n_labels

    work = joblib.delayed(_fit_on_one_thread)
    classifiers = []
    for classifier in joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        work(fit, *arguments(name, fold)) for fit, name, fold in tasks
    ):
        classifiers.append(classifier)
        line.step()
    return classifiers


def _log_probabilities(
    images: Sequence[DescribedImage],
    training: _Training,
    of_folds: Sequence[UnaryClassifiers | OwnClassifiers],
    verbose: bool,
) -> list[FloatArray]:
    """Compute log-probabilities of each image by the classifiers trained without its fold."""
    results = []
    title = "log-probabilities of the classifiers"
    with Phase(title, len(images), verbose) as line, one_blas_thread():
        for image, fold in zip(images, training.of_images, strict=True):
            results.append(of_folds[fold].log_probabilities(image))
            line.step()
    return results


def _fit_on_one_thread(fit: Callable[..., Any], *arguments: Any) -> Any:
    """Fit on one thread, since several would add sums in another order."""
    with threadpool_limits(1):
        return fit(*arguments)
