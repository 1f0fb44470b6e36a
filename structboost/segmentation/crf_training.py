"""Training a CRF on ready potentials, with C chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import IntArray
from structboost.boosting import StructBoost
from structboost.linear.structured_svm import StructuredSVM
from structboost.progress import Phase
from structboost.runtime.interrupts import uninterrupted
from structboost.segmentation.potentials import true_labels
from structboost.segmentation.scores import SegmentationScores
from structboost.tasks.superpixel_crf import SuperpixelCRFTask, SuperpixelGraph, TrueLabels
from structboost.validation import checked_choice, checked_whole_number
from structboost.weak.linear_and_stump import CrossFittedWeights, LinearAndStumpFamily

LEARNERS = ("structboost", "ssvm")
LINEAR_AND_STUMP = "linear_and_stump"
WEAK_LEARNERS = (LINEAR_AND_STUMP, "stump", "tree")
CANDIDATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CANDIDATES_OF_MANY = (0.3,)  # a fit with more than two labels takes minutes
_ALWAYS = 4  # candidates that are always tried
_FOLDS = 3
_LINEAR_TOL = 0.05

Counts = Sequence[IntArray]
Trainer = StructBoost | StructuredSVM
# By kind of part.
LinearFunction = dict[str, CrossFittedWeights]


@dataclass(frozen=True)
class CRFSettings:
    """How a CRF is trained.

    Parameters
    ----------
    learner : {"structboost", "ssvm"}
        Boosted weak learners on the potentials, or linear weights.
    weak_learner : {"linear_and_stump", "stump", "tree"}
        Family of weak learners.  The first has one linear function beside the stumps
        (:mod:`structboost.weak.linear_and_stump`).
    linear_C : float
        C of the structured SVMs that learn this linear function; :func:`tuned` chooses it.
    max_rounds : int
        Largest number of rounds of boosting.
    columns_per_round : int
        Largest number of weak learners of each kind added per round.  With one to five, 50 rounds
        leave a gap of 20 % and more (docs/decisions/superpixel-crf.md).
    tol : float
        Relative gap at which training stops.
    pairwise : bool
        Whether the energy has edges.
    by_area : bool
        Whether the loss counts pixels; else it counts superpixels.
    search_images : int
        Largest number of training images on which a :class:`.Segmenter` chooses C.
    """

    learner: str = "structboost"
    weak_learner: str = LINEAR_AND_STUMP
    linear_C: float = 0.3
    max_rounds: int = 50
    columns_per_round: int = 20
    tol: float = 0.01
    pairwise: bool = True
    by_area: bool = True
    search_images: int = 100

    def __post_init__(self) -> None:
        checked_choice(self.learner, "learner", LEARNERS)
        checked_choice(self.weak_learner, "weak_learner", WEAK_LEARNERS)
        checked_whole_number(self.max_rounds, "max_rounds")


class _TrainingSet(NamedTuple):
    """Training images without void superpixels."""

    task: SuperpixelCRFTask
    X: list[SuperpixelGraph]
    Y: list[TrueLabels]
    groups: list[int]


def fit_crf(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    C: float,
    groups: Sequence[int] | None = None,
    linear: LinearFunction | None = None,
) -> Trainer:
    """Train on images, without superpixels that are wholly void.

    Parameters
    ----------
    graphs : sequence of SuperpixelGraph
    counts : sequence of ndarray of int64, shape (n_superpixels, n_labels)
        Pixels of each class in each superpixel.
    C : float
        Weight of the loss.
    groups : sequence of int, optional
        Images with the same number are never on both sides of a fold, such as a photograph with
        several scribbles.
    linear : dict of str to CrossFittedWeights, optional
        Result of :func:`linear_function` for the same images and settings.  By default it is
        learned if it is used.

    Raises
    ------
    ValueError
        If every superpixel is void.
    """
    data = _training_set(graphs, counts, settings, groups)
    if settings.learner == "ssvm":
        return StructuredSVM(data.task, C=C, tol=settings.tol, max_epochs=200, random_state=0).fit(
            data.X, data.Y
        )
    weak_learner: Any = settings.weak_learner
    if weak_learner == LINEAR_AND_STUMP:
        weak_learner = partial(
            _linear_and_stumps, linear or _linear_function(data, settings.linear_C)
        )
    return StructBoost(
        data.task,
        C=C,
        tol=settings.tol,
        max_rounds=settings.max_rounds,
        weak_learner=weak_learner,
        columns_per_channel=settings.columns_per_round,
    ).fit(data.X, data.Y)


def linear_function(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    groups: Sequence[int] | None = None,
) -> LinearFunction | None:
    """The linear function beside the stumps, which does not depend on C; None without one."""
    if settings.learner == "ssvm" or settings.weak_learner != LINEAR_AND_STUMP:
        return None
    return _linear_function(_training_set(graphs, counts, settings, groups), settings.linear_C)


def _training_set(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    groups: Sequence[int] | None,
) -> _TrainingSet:
    X, Y, of_images = [], [], []
    for graph, count, group in zip(
        graphs, counts, range(len(graphs)) if groups is None else groups, strict=True
    ):
        labels, kept = true_labels(count, by_area=settings.by_area)
        if kept.any():
            X.append(graph.restricted(kept))
            Y.append(labels)
            of_images.append(group)
    if not X:
        raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
    pairwise = settings.pairwise and any(len(x.edges) for x in X)
    return _TrainingSet(SuperpixelCRFTask(counts[0].shape[1], pairwise=pairwise), X, Y, of_images)


def _linear_function(data: _TrainingSet, C: float) -> LinearFunction:
    """Weights of structured SVMs by kind of part, each learned on two thirds of the groups.

    Every third group gets the weights learned on the others (on itself if it is the only one), so
    that boosting is not misled by how well a linear energy fits its own images.
    """
    task, X, Y, groups = data
    ranks = np.unique(groups, return_inverse=True)[1]
    n_folds = min(_FOLDS, int(ranks.max()) + 1)
    folds = ranks % n_folds
    found = []
    for fold in range(n_folds):
        kept = np.flatnonzero((folds != fold) | (n_folds == 1)).tolist()
        # If the fold has all edges, there is nothing to learn for them: their weights are 0.
        has_edges = task.pairwise and any(len(X[i].edges) for i in kept)
        own = SuperpixelCRFTask(task.n_labels, pairwise=has_edges)
        svm = StructuredSVM(own, C=C, tol=_LINEAR_TOL, max_epochs=200, random_state=0)
        weights = uninterrupted(partial(svm.fit, [X[i] for i in kept], [Y[i] for i in kept])).w_
        found.append(weights if isinstance(weights, dict) else {"node": weights})
    by_kind = {}
    for kind in task.kinds:
        sizes = [len(task.parts(x)[kind]) for x in X]
        width = task.parts(X[0])[kind].shape[1]
        # Kinds with free weights have a bias behind them, which is common to all labels.
        weights = [
            of_fold[kind][:width, 0] if kind in of_fold else np.zeros(width) for of_fold in found
        ]
        by_kind[kind] = CrossFittedWeights(np.array(weights), np.repeat(folds, sizes))
    return by_kind


def _linear_and_stumps(
    linear: dict[str, CrossFittedWeights],
    features: NDArray[Any],
    response: tuple[float, float],
    **settings: Any,
) -> LinearAndStumpFamily:
    """The family of the kind that has these answers."""
    return LinearAndStumpFamily(
        features, response, linear=linear["edge" if min(response) >= 0 else "node"], **settings
    )


class Tuned(NamedTuple):
    """Result of a cross-validation.

    Attributes
    ----------
    settings : CRFSettings
        With ``linear_C`` chosen, where it matters.
    C : float
    scores : dict of float to float
        Mean IoU over the pixels of all images for each C that was tried.
    """

    settings: CRFSettings
    C: float
    scores: dict[float, float]


def tuned(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    candidates: Sequence[float] | None = None,
    random_state: int = 0,
    groups: Sequence[int] | None = None,
    report: Callable[[], None] | None = None,
) -> Tuned:
    """C by threefold cross-validation over images.

    C of the linear function beside the stumps is chosen first.  The four smallest candidates are
    always tried, because with few images the mean IoU has more than one peak; the others while the
    last one is the best.  Ties go to the smaller C.

    Parameters
    ----------
    candidates : sequence of float, optional
        Candidates for C, ascending; a single one is taken as it is.  The default is `CANDIDATES`,
        or `CANDIDATES_OF_MANY` for more than two labels.
    random_state : int
        Seed for the folds.
    groups : sequence of int, optional
        As in :func:`fit_crf`.
    report : callable, optional
        Called after each fit.
    """
    report = report or (lambda: None)
    tried = candidates or (CANDIDATES if counts[0].shape[1] == 2 else CANDIDATES_OF_MANY)

    def search(of_settings: CRFSettings) -> tuple[float, dict[float, float]]:
        return _searched(
            tried, _validation(graphs, counts, of_settings, random_state, groups, report)
        )

    n_groups = len(graphs) if groups is None else len(set(groups))
    if len(tried) == 1 or n_groups < 2:
        return Tuned(settings, float(tried[0]), {})
    if settings.learner == "structboost" and settings.weak_learner == LINEAR_AND_STUMP:
        linear = replace(settings, learner="ssvm", tol=_LINEAR_TOL)
        settings = replace(settings, linear_C=search(linear)[0])
    return Tuned(settings, *search(settings))


class Learned(NamedTuple):
    """A CRF with a C that was given or chosen.

    Attributes
    ----------
    trainer : StructBoost or StructuredSVM
    C : float
    scores : list of (float, float)
        Each C that was tried with its mean IoU, ascending; empty where C was given.
    """

    trainer: Trainer
    C: float
    scores: list[tuple[float, float]]


def fit_tuned(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    C: float | None,
    *,
    random_state: int = 0,
    groups: Sequence[int] | None = None,
    verbose: bool = False,
) -> Learned:
    """Train on images after choosing C, if there is none, on some of them.

    Parameters
    ----------
    graphs, counts, settings, groups
        As for :func:`fit_crf`.
    C : float or None
        None chooses it by :func:`tuned`.
    random_state : int
        Seed for the images of the search and its folds.
    verbose : bool
        Whether lines on standard error show the progress.
    """
    scores: dict[float, float] = {}
    if C is None:
        kept = searched_images(len(graphs), settings.search_images, groups, random_state)
        own = None if groups is None else [groups[i] for i in kept]
        part = [graphs[i] for i in kept], [counts[i] for i in kept]
        with Phase(f"search for C on {len(kept)} images, fits", None, verbose) as line:
            settings, C, scores = tuned(
                *part, settings, random_state=random_state, groups=own, report=line.step
            )
    with Phase("linear function of the CRF", 1, verbose) as line:
        linear = linear_function(graphs, counts, settings, groups)
        line.step()
    with Phase(f"CRF with C = {C:g}", 1, verbose) as line:
        trainer = fit_crf(graphs, counts, settings, C, groups, linear)
        line.step()
    return Learned(trainer, float(C), sorted(scores.items()))


def searched_images(
    n_images: int, most: int, groups: Sequence[int] | None, random_state: int
) -> list[int]:
    """Images on which C is chosen: whole groups, drawn at random, about ``most`` images."""
    of_images = np.arange(n_images) if groups is None else np.asarray(groups)
    sizes = np.bincount(of_images)
    order = np.random.default_rng(random_state).permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    return np.flatnonzero(np.isin(of_images, order[before < most])).tolist()


def _searched(
    candidates: Sequence[float], score: Callable[[float], float]
) -> tuple[float, dict[float, float]]:
    """The best of the candidates that were tried, and their scores."""
    scores: dict[float, float] = {}
    for number, C in enumerate(candidates):
        # A tie does not stop the search: if C is too small, all candidates miss a rare class.
        if number >= _ALWAYS and scores[candidates[number - 1]] < max(scores.values()):
            break
        scores[C] = score(C)
    best = max(scores.values())
    return min(C for C, reached in scores.items() if reached == best), scores


def _validation(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    random_state: int,
    groups: Sequence[int] | None,
    report: Callable[[], None],
) -> Callable[[float], float]:
    """Mean IoU at a C over all images, each labelled by a model of the other two folds.

    What does not depend on C is learned once.
    """
    of_images = np.arange(len(graphs)) if groups is None else np.asarray(groups)
    ranks = np.unique(of_images, return_inverse=True)[1]
    random = np.random.default_rng(random_state)
    folds = (random.permutation(int(ranks.max()) + 1) % _FOLDS)[ranks]
    parts = []
    for fold in np.unique(folds):
        kept = np.flatnonzero(folds != fold).tolist()
        part = [graphs[i] for i in kept], [counts[i] for i in kept]
        own = of_images[kept].tolist()
        parts.append((fold, part, own, linear_function(*part, settings, own)))

    def mean_iou(C: float) -> float:
        found: list[Any] = [None] * len(graphs)
        for fold, part, own, linear in parts:
            trainer = uninterrupted(partial(fit_crf, *part, settings, C, own, linear))
            report()
            for i in np.flatnonzero(folds == fold).tolist():
                (found[i],) = trainer.predict([graphs[i]])
        return superpixel_scores(counts, found).mean_iou

    return mean_iou


def superpixel_scores(counts: Counts, labels: Sequence[Any]) -> SegmentationScores:
    """Scores of labelled superpixels, counted in pixels."""
    n_labels = counts[0].shape[1]
    confusion = np.zeros((n_labels, n_labels), np.int64)
    for count, found in zip(counts, labels, strict=True):
        # Rows of the transpose: the pixels of a true class, by superpixel.
        for label in range(n_labels):
            confusion[:, label] += count[np.asarray(found) == label].sum(axis=0)
    return SegmentationScores(confusion)
