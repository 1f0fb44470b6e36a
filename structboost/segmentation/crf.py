"""CRF of superpixels, its training on given potentials with C chosen by cross-validation.

Its potentials, unary (32) and pairwise (33), (34), come from probabilities of classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, SingleArray
from structboost.files.archive import Array, Arrays, DamagedFileError, NamedArrays
from structboost.inference.superpixel_crf import alpha_expansion_labels
from structboost.learners.linear_function import CrossFittedFunction, CrossFittedWeights
from structboost.learners.stump import StumpFamily
from structboost.learners.union import UnionFamily
from structboost.linear.structured_svm import StructuredSVM
from structboost.model.ensemble import FORMAT, Ensemble
from structboost.progress import ProgressLine
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.interrupts import uninterrupted
from structboost.segmentation.descriptors import (
    N_OF_PLACE,
    N_SURROUNDINGS,
    DescribedImage,
    neighbour_means,
    place_and_colour,
    surroundings,
)
from structboost.segmentation.scores import SegmentationScores
from structboost.segmentation.unaries import combine, log_odds
from structboost.selection.folds import Fold, parts_of_groups
from structboost.selection.held_out import HeldOut, measured_model, scaled_hinge
from structboost.selection.path import Path, Trial
from structboost.tasks.superpixel_crf import SuperpixelCRFTask, SuperpixelGraph, TrueLabels
from structboost.training.boosting import StructBoost
from structboost.training.trainer import Trainer
from structboost.validation import check_parameters, checked_choice

N_PAIRWISE = 7  # columns of :func:`pairwise_potentials`
# Added to an image's mean difference in LUV, so that flat images have no outlines.
_FLAT = 1.0
# Bound on standardised potentials.
_FAR = 5.0


@dataclass(frozen=True)
class PotentialScale:
    """Means and stds of the unary potentials on the training images.

    Linear learners need potentials of one scale, while stumps do not.
    """

    schema = {
        "mean": Array("float64", ("n_unary",)),
        "spread": Array("float64", ("n_unary",), low=0.0, nonzero=True),
    }

    mean: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, potentials: Sequence[AnyArray]) -> PotentialScale:
        """Compute the scale of arrays of shape (n_superpixels, n_labels, n_unary)."""
        rows = np.concatenate([p.reshape(-1, p.shape[2]) for p in potentials]).astype(np.float64)
        spread = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(spread > 1e-9, spread, 1.0))


def unary_potentials(
    image: DescribedImage, log_probabilities: FloatArray, *, appearance: bool = True
) -> FloatArray:
    """Compute the unary potentials of the CRF, before scaling.

    Parameters
    ----------
    image : DescribedImage
    log_probabilities : ndarray, shape (n_superpixels, n_classifiers, n_labels)
    appearance : bool
        Whether place, colour and surroundings are among the potentials.  With scribbles they are
        not, because the probabilities already measure the distance from the strokes.

    Returns
    -------
    ndarray, shape (n_superpixels, n_labels, n_unary); (n_superpixels, 1, n_unary) for two labels
        For each label minus the log-odds of the classifiers (32), their averages over the
        neighbours, and minus the averages of its probability around the superpixel
        (:mod:`structboost.segmentation.descriptors`).  For two labels these are those of the
        foreground, with place and colour.
    """
    odds = log_odds(log_probabilities)
    probabilities = combine(log_probabilities)
    if odds.shape[2] == 2:
        blocks = [odds[:, :, 1], probabilities[:, 1:]]
        if appearance:
            blocks.insert(1, neighbour_means(image, blocks[0], 2))
            blocks += [surroundings(image, probabilities)[:, :, 1], place_and_colour(image)]
        return -np.hstack(blocks)[:, None, :]
    around = surroundings(image, probabilities)
    return -np.concatenate((odds, probabilities[:, None, :], around), axis=1).transpose(0, 2, 1)


def n_unary_potentials(n_classifiers: int, n_labels: int) -> int:
    """Return the last size of :func:`unary_potentials`."""
    if n_labels == 2:
        return 2 * n_classifiers + 1 + N_SURROUNDINGS + N_OF_PLACE
    return n_classifiers + 1 + N_SURROUNDINGS


def superpixel_graph(
    image: DescribedImage,
    log_probabilities: FloatArray,
    scale: PotentialScale,
    *,
    appearance: bool = True,
) -> SuperpixelGraph:
    """Build the CRF of an image.

    With two labels the background has the potentials 0.  Only the difference counts, -y F (32) up
    to a common term, and stumps receive the evidence for the foreground from both sides.  An
    indicator of each label but the first is added.
    """
    n, _, n_labels = log_probabilities.shape
    unary = unary_potentials(image, log_probabilities, appearance=appearance)
    scaled = np.clip((unary - scale.mean) / scale.spread, -_FAR, _FAR).astype(np.float32)
    if n_labels == 2:
        scaled = np.concatenate((np.zeros_like(scaled), scaled), axis=1)
    indicators = np.broadcast_to(
        np.eye(n_labels, dtype=np.float32)[:, 1:], (n, n_labels, n_labels - 1)
    )
    pairwise = pairwise_potentials(image, combine(log_probabilities))
    return SuperpixelGraph(np.concatenate((scaled, indicators), axis=2), image.edges, pairwise)


def pairwise_potentials(image: DescribedImage, probabilities: FloatArray) -> SingleArray:
    """Compute the potentials of edges between different labels, shape (n_edges, 7).

    None is negative.  They are ``exp(-|difference of mean LUV| / its mean)`` (33),
    the shared boundary over its mean (34), the analogue of (33) for the step at the boundary, their
    products, the agreement of the classifiers on both ends, and 1.
    """
    p, q = image.edges.T
    apart = np.linalg.norm(image.colours[p].astype(np.float64) - image.colours[q], axis=1)
    colour = _likeness(apart)
    contrast = _likeness(image.contrasts.astype(np.float64))
    boundary = image.boundaries / image.boundaries.mean() if len(p) else image.boundaries
    agreement = 1 - 0.5 * np.abs(probabilities[p] - probabilities[q]).sum(axis=1)
    products = colour * boundary, contrast * boundary
    columns = colour, boundary, contrast, *products, agreement, np.ones(len(p))
    return np.column_stack(columns).clip(0.0).astype(np.float32)


def true_labels(counts: IntArray) -> tuple[TrueLabels, BoolArray]:
    """Return the true labels of all superpixels that are not void, and a mask of them.

    A wrong label costs the margin in pixels of the true label over the next one, relative to the
    mean size of the superpixels.
    """
    n_pixels = counts.sum(axis=1)
    labelled = n_pixels > 0
    ranked = np.sort(counts[labelled], axis=1)
    mean_size = n_pixels.sum() / max(len(ranked), 1)
    areas = (ranked[:, -1] - ranked[:, -2]) / max(mean_size, 1.0)
    labels = np.argmax(counts[labelled], axis=1).astype(np.int64)
    return TrueLabels(labels, areas), labelled


def _likeness(differences: AnyArray) -> FloatArray:
    """Compute a likeness that is 1 without a difference and falls with it."""
    mean = differences.mean() if len(differences) else 0.0
    return np.exp(-differences / (mean + _FLAT))


_LOG_FACTORS = (-7.0, 7.0)


@dataclass(frozen=True)
class CRFModel:
    """Model of the energies (22) of images, with their minima.

    Attributes
    ----------
    model : Ensemble
        Kinds of parts are ``node`` and, unless edges were left out, ``edge``.
    """

    schema = {"ensemble": Array("uint8", ("n_bytes",))}

    model: Ensemble

    def labels_and_costs(
        self, graph: SuperpixelGraph, fixed: IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Find the labels of least energy, and the costs of others.

        Parameters
        ----------
        graph : SuperpixelGraph
        fixed : ndarray of int64, shape (n_superpixels,), optional
            Labels that the result must have, -1 where any is allowed.

        Returns
        -------
        labels : ndarray of int64, shape (n_superpixels,)
        costs : ndarray, shape (n_superpixels, n_labels)
            Energy of each label of a superpixel, with the best labels of the others; terms that are
            common to all labels of a superpixel are left out.
        """
        (n, n_labels, n_unary), potentials = graph.potentials.shape, graph.edge_potentials
        rows, edges = graph.potentials.reshape(-1, n_unary), np.zeros(len(potentials))
        with one_blas_thread():
            nodes = self.model.scorer("node").raw_scores(rows).reshape(n, n_labels)
            if "edge" in self.model.members and len(potentials):
                edges = self.model.scorer("edge").raw_scores(potentials)[:, 0]
        edges = np.maximum(edges, 0.0)  # sums of steps may be negative by rounding
        if fixed is not None:
            indices = np.flatnonzero(fixed >= 0)
            more_than_can_be_saved = 1.0 + np.ptp(nodes, axis=1).sum() + edges.sum()
            nodes[indices] += more_than_can_be_saved
            nodes[indices, fixed[indices]] -= more_than_can_be_saved
        labels = alpha_expansion_labels(nodes, graph.edges, edges)
        return labels, conditional_costs(nodes, graph.edges, edges, labels)

    def to_arrays(self) -> Arrays:
        """Return the arrays for a model file."""
        return {"ensemble": np.frombuffer(FORMAT.to_bytes(*self.model.to_arrays()), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: NamedArrays, sizes: Mapping[str, int]) -> CRFModel:
        """Build the model from arrays of :meth:`to_arrays` that fit its schema.

        ModelFileError or DamagedFileError if the ensemble is damaged, or is not of superpixels and
        edges.
        """
        content = FORMAT.from_bytes(arrays["ensemble"].tobytes(), "crf/ensemble")
        model = Ensemble.from_arrays(*content)
        widths = {kind: member.n_features for kind, member in model.members.items()}
        if "node" not in widths or not widths.items() <= sizes.items():
            raise DamagedFileError("the ensemble of its energies is of other potentials")
        if any(kind.n_channels != 1 for kind in model.kinds.values()):
            raise DamagedFileError("the ensemble of its energies has several scores")
        return cls(model)


def conditional_costs(
    nodes: FloatArray, edges: IntArray, weights: FloatArray, labels: IntArray
) -> FloatArray:
    """Compute the energy of each label of a node, with all other labels as they are.

    The energies are correct up to a constant per node.
    """
    agreeing = np.zeros_like(nodes)
    for here, there in (edges.T, edges.T[::-1]):
        np.add.at(agreeing, (here, labels[there]), weights)
    return nodes - agreeing


def calibrated_sharpness(costs: Sequence[FloatArray], counts: Sequence[IntArray]) -> float:
    """Return the factor of the energies whose softmax makes the true labels most likely.

    Each image has energies and pixels of each class, shape (n_superpixels, n_labels).
    """
    energies, pixels = np.concatenate(costs), np.concatenate(counts)
    weights = pixels / max(pixels.sum(), 1.0)
    best = minimize_scalar(
        lambda log_factor: -(weights * log_softmax(-np.exp(log_factor) * energies, axis=1)).sum(),
        bounds=_LOG_FACTORS,
        method="bounded",
    )
    return float(np.exp(best.x))


Learner = Literal["linear_and_stump", "stump", "ssvm"]
CANDIDATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CANDIDATES_OF_MANY = (0.3,)  # a fit with more than two labels takes minutes
_FOLDS = 3
_LINEAR_TOL = 0.05
# Weak learners of each kind added per round.  With one to five, 50 rounds leave a gap of 20 % and
# more (docs/decisions.md).
_COLUMNS_PER_ROUND = 20
_SEARCHED = 100  # largest number of training images on which C is chosen

Counts = Sequence[IntArray]
Groups = Sequence[int] | None
# By kind of part.
LinearFunction = dict[str, CrossFittedWeights]


@dataclass(frozen=True)
class CRFSettings:
    """Settings of the training of a CRF.

    Parameters
    ----------
    learner : {"linear_and_stump", "stump", "ssvm"}
        Boosted stumps on the potentials, beside one linear function
        (:class:`structboost.learners.linear_function.CrossFittedFunction`) or alone; or linear
        weights.
    linear_C : float
        C of the structured SVMs that learn this linear function; :func:`tuned` chooses it.
    max_rounds : int
        Largest number of rounds of boosting.
    tol : float
        Relative gap at which training stops.
    pairwise : bool
        Whether the energy has edges.
    """

    learner: Learner = "linear_and_stump"
    linear_C: float = 0.3
    max_rounds: int = 50
    tol: float = 0.01
    pairwise: bool = True

    def __post_init__(self) -> None:
        checked_choice(self.learner, "learner", Learner)
        check_parameters(self, vars(self))


def fit_crf(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    C: float,
    groups: Groups = None,
    linear: LinearFunction | None = None,
) -> Trainer:
    """Train on images, excluding superpixels that are wholly void.

    Parameters
    ----------
    graphs : sequence of SuperpixelGraph
    counts : sequence of ndarray of int64, shape (n_superpixels, n_labels)
        Pixels of each class in each superpixel.
    C : float
        Weight of the loss.
    groups : sequence of int, optional
        Images of one group are never on both sides of a fold, such as a photograph with several
        scribbles.
    linear : dict of str to CrossFittedWeights, optional
        Result of :func:`linear_function` for the same images and settings.  By default it is
        learned if it is used.

    Raises
    ------
    ValueError
        If every superpixel is void.
    """
    task, X, Y, _ = _training_set(graphs, counts, settings, groups)
    if settings.learner == "ssvm":
        return StructuredSVM(task, C=C, tol=settings.tol, max_epochs=200, random_state=0).fit(X, Y)
    linear = linear or linear_function(graphs, counts, settings, groups)
    return StructBoost(
        task,
        C=C,
        tol=settings.tol,
        max_rounds=settings.max_rounds,
        weak_learner=partial(_linear_and_stumps, linear) if linear else "stump",
        columns_per_channel=_COLUMNS_PER_ROUND,
    ).fit(X, Y)


def _training_set(
    graphs: Iterable[SuperpixelGraph], counts: Counts, settings: CRFSettings, groups: Groups
) -> tuple[SuperpixelCRFTask, list[SuperpixelGraph], list[TrueLabels], list[int]]:
    """Return the task, inputs, outputs and groups of the images without void superpixels."""
    X, Y, used = [], [], []
    for graph, count, group in zip(
        graphs, counts, range(len(counts)) if groups is None else groups, strict=True
    ):
        labels, labelled = true_labels(count)
        if labelled.any():
            X.append(graph.restricted(labelled))
            Y.append(labels)
            used.append(group)
    if not X:
        raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
    pairwise = settings.pairwise and any(len(x.edges) for x in X)
    return SuperpixelCRFTask(counts[0].shape[1], pairwise=pairwise), X, Y, used


def linear_function(
    graphs: Sequence[SuperpixelGraph], counts: Counts, settings: CRFSettings, groups: Groups = None
) -> LinearFunction | None:
    """Learn the linear function beside the stumps, which does not depend on C.

    It has the weights of structured SVMs by kind of part, each on two thirds of the groups.  Every
    third group gets the weights learned on the others (on itself if it is the only one), so that
    boosting is not misled by how well a linear energy fits its own images.  Returns None if the
    settings have no such function.
    """
    if settings.learner != "linear_and_stump":
        return None
    task, X, Y, used = _training_set(graphs, counts, settings, groups)
    folds = parts_of_groups(used, len(X), _FOLDS, None)
    n_folds = int(folds.max()) + 1
    learned = []
    for fold in range(n_folds):
        chosen = np.flatnonzero((folds != fold) | (n_folds == 1))
        # If the fold has all edges, the weights of edges are 0, as there is nothing to learn from.
        has_edges = task.pairwise and any(len(X[i].edges) for i in chosen)
        svm = StructuredSVM(
            SuperpixelCRFTask(task.n_labels, pairwise=has_edges),
            C=settings.linear_C, tol=_LINEAR_TOL, max_epochs=200, random_state=0,
        )  # fmt: skip
        weights = uninterrupted(partial(svm.fit, [X[i] for i in chosen], [Y[i] for i in chosen])).w_
        learned.append(weights if isinstance(weights, dict) else {"node": weights})
    by_kind = {}
    for kind in task.kinds:
        parts = [task.parts(x)[kind] for x in X]
        sizes, width = list(map(len, parts)), parts[0].shape[1]
        # Kinds with free weights have a bias as their last weight, which is common to all labels.
        each = [w[kind][:width, 0] if kind in w else np.zeros(width) for w in learned]
        by_kind[kind] = CrossFittedWeights(np.array(each), np.repeat(folds, sizes))
    return by_kind


def _linear_and_stumps(
    linear: Any, features: AnyArray, response: tuple[float, float], **settings: Any
) -> UnionFamily:
    """Return the families of the kind that has these responses."""
    function = CrossFittedFunction(features, linear["edge" if min(response) >= 0 else "node"])
    return UnionFamily([function, StumpFamily(features, response, **settings)])


def tuned(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    candidates: Sequence[float] | None = None,
    random_state: int = 0,
    groups: Groups = None,
    report: Callable[[], None] = lambda: None,
) -> tuple[CRFSettings, float, dict[float, float]]:
    """Choose C by threefold cross-validation over images.

    C of the linear function beside the stumps is chosen first.  Of equal mean IoU the smaller
    held-out hinge decides, and then the smaller C.  ``candidates`` are in ascending order; a single
    one is used as it is.  The default is `CANDIDATES`, or `CANDIDATES_OF_MANY` for more than two
    labels.  ``groups`` are as in :func:`fit_crf`, and ``report`` is called after each fit.
    """
    tried = candidates or (CANDIDATES if counts[0].shape[1] == 2 else CANDIDATES_OF_MANY)
    group_of = np.arange(len(graphs)) if groups is None else np.asarray(groups)
    if len(tried) == 1 or len(np.unique(group_of)) < 2:
        return settings, float(tried[0]), {}
    fold_of = parts_of_groups(groups, len(graphs), _FOLDS, random_state)

    def search(settings: CRFSettings) -> Path:
        folds = []
        for fold in np.unique(fold_of):
            held, chosen = (
                np.flatnonzero(part).tolist() for part in (fold_of == fold, fold_of != fold)
            )
            images = [graphs[i] for i in chosen], [counts[i] for i in chosen], settings
            of_images = group_of[chosen].tolist()
            linear = linear_function(*images, of_images)
            folds.append((held, partial(fit_crf, *images, groups=of_images, linear=linear)))

        def fit(C: float) -> Trial:
            """Measure a C on all images, each labelled by a model of other folds."""
            labels = [None] * len(graphs)
            measured = []
            for held, train in folds:
                trainer = uninterrupted(partial(train, C=C))
                report()
                for i in held:
                    (labels[i],) = trainer.predict([graphs[i]])
                pixels = [counts[i] for i in held]
                if np.concatenate(pixels).any():
                    _, X, Y, _ = _training_set([graphs[i] for i in held], pixels, settings, None)
                    fold = Fold([], [], None, X, Y)
                    measured.append(
                        measured_model(trainer.task, fold, trainer.model_, scaled_hinge)
                    )
                else:
                    measured.append(HeldOut(0.0, 0.0, is_constant=True))
            # The mean over classes is taken over all images, because a fold may lack a class.
            score = superpixel_scores(counts, labels).mean_iou
            return Trial([one._replace(score=score) for one in measured])

        path = Path("C")
        path.follow(tried, fit)
        return path

    if settings.learner == "linear_and_stump":
        linear = search(replace(settings, learner="ssvm", tol=_LINEAR_TOL))
        settings = replace(settings, linear_C=linear.value)
    path = search(settings)
    return settings, path.value, {record["C"]: record["score"] for record in path.records}


def fit_tuned(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    C: float | None,
    random_state: int,
    groups: Sequence[int],
    verbose: bool,
) -> tuple[Trainer, float, list[tuple[float, float]]]:
    """Choose C on some of the images by :func:`tuned`, if it is None, and train on all of them.

    Other arguments are as for :func:`fit_crf`.  ``random_state`` draws the images of the search and
    its folds.

    Returns
    -------
    trainer : Trainer
    C : float
    scores : list of (float, float)
        Each C that was tried with its mean IoU, ascending; empty where the user set C.
    """
    scores: dict[float, float] = {}
    if C is None:
        chosen = images_of_search(groups, random_state)
        with ProgressLine(f"search for C on {len(chosen)} images, fits", None, verbose) as line:
            settings, C, scores = tuned(
                [graphs[i] for i in chosen],
                [counts[i] for i in chosen],
                settings,
                random_state=random_state,
                groups=[groups[i] for i in chosen],
                report=line.step,
            )
    with ProgressLine("linear function of the CRF", 1, verbose) as line:
        linear = linear_function(graphs, counts, settings, groups)
        line.step()
    with ProgressLine(f"CRF with C = {C:g}", 1, verbose) as line:
        trainer = fit_crf(graphs, counts, settings, C, groups, linear)
        line.step()
    return trainer, float(C), sorted(scores.items())


def images_of_search(groups: Sequence[int], random_state: int) -> list[int]:
    """Draw the images on which C is chosen, about a hundred, in whole groups."""
    sizes = np.bincount(groups)
    order = np.random.default_rng(random_state).permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    return np.flatnonzero(np.isin(groups, order[before < _SEARCHED])).tolist()


def superpixel_scores(counts: Counts, labels: Sequence[Any]) -> SegmentationScores:
    """Compute the scores of labelled superpixels, counted in pixels."""
    predicted = np.eye(counts[0].shape[1], dtype=np.int64)[np.concatenate(labels)]
    return SegmentationScores(np.concatenate(counts).T @ predicted)
