"""Training a CRF on ready potentials, with C chosen on held-out images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.boosting import StructBoost
from structboost.segmentation.potentials import true_labels
from structboost.segmentation.scores import SegmentationScores
from structboost.structured_svm import StructuredSVM
from structboost.tasks.superpixel_crf import SuperpixelCRFTask, SuperpixelGraph

LEARNERS = ("structboost", "ssvm")
CANDIDATES = (0.3, 1.0, 3.0)
_HELD_OUT = 3  # every third image

Counts = Sequence[NDArray[np.int64]]
Trainer = StructBoost | StructuredSVM


@dataclass(frozen=True)
class CRFSettings:
    """How a CRF is trained.

    Parameters
    ----------
    learner : {"structboost", "ssvm"}
        Weak learners on the potentials, or linear weights.
    weak_learner : str
        Of boosting: ``"stump"``, ``"tree"`` (:class:`structboost.StructBoost`).
    max_rounds : int
        Most rounds of boosting.
    columns_per_round : int
        Most weak learners of each kind added in a round: with one, or five, 50 rounds leave a gap of 20 % and more
        (docs/decisions/superpixel-crf.md).
    tol : float
        Relative gap at which training stops.
    pairwise : bool
        False leaves the edges out.
    by_area : bool
        Whether the loss counts pixels, or superpixels.
    """

    learner: str = "structboost"
    weak_learner: str = "stump"
    max_rounds: int = 50
    columns_per_round: int = 20
    tol: float = 0.01
    pairwise: bool = True
    by_area: bool = True

    def __post_init__(self) -> None:
        if self.learner not in LEARNERS:
            raise ValueError(f"learner is {self.learner!r}; choose one of {', '.join(LEARNERS)}.")

    def trainer(self, n_labels: int, C: float, pairwise: bool) -> Trainer:
        """An unfitted trainer."""
        task = SuperpixelCRFTask(n_labels, pairwise=pairwise)
        if self.learner == "ssvm":
            return StructuredSVM(task, C=C, tol=self.tol, max_epochs=200)
        return StructBoost(
            task,
            C=C,
            tol=self.tol,
            max_rounds=self.max_rounds,
            weak_learner=self.weak_learner,
            columns_per_channel=self.columns_per_round,
        )


def fit_crf(graphs: Sequence[SuperpixelGraph], counts: Counts, settings: CRFSettings, C: float) -> Trainer:
    """Train on images; superpixels that are wholly void are left out, images without others too.

    Parameters
    ----------
    graphs : sequence of SuperpixelGraph
    counts : sequence of ndarray of int64, shape (n_superpixels, n_labels)
        Pixels of each class in each superpixel.
    C : float
        Weight of the loss.

    Raises
    ------
    ValueError
        If every superpixel is void.
    """
    X, Y = [], []
    for graph, count in zip(graphs, counts, strict=True):
        labels, kept = true_labels(count, by_area=settings.by_area)
        if kept.any():
            X.append(graph.restricted(kept))
            Y.append(labels)
    if not X:
        raise ValueError("Every pixel of the masks is void; there is nothing to learn from.")
    pairwise = settings.pairwise and any(len(x.edges) for x in X)
    return settings.trainer(counts[0].shape[1], C, pairwise).fit(X, Y)


def choose_C(
    graphs: Sequence[SuperpixelGraph],
    counts: Counts,
    settings: CRFSettings,
    candidates: Sequence[float] = CANDIDATES,
    random_state: int = 0,
) -> tuple[float, list[float]]:
    """The candidate of the highest mean IoU on a third of the images, trained on the others; ties go to the smaller.

    Returns
    -------
    C : float
    scores : list of float
        Mean IoU of each candidate.
    """
    order = np.random.default_rng(random_state).permutation(len(graphs))
    held_out, kept = (sorted(order[part].tolist()) for part in (np.s_[::_HELD_OUT], np.arange(len(order)) % 3 > 0))
    if len(candidates) == 1 or not kept:
        return float(candidates[0]), []
    scores = []
    for C in candidates:
        trainer = fit_crf([graphs[i] for i in kept], [counts[i] for i in kept], settings, C)
        found = trainer.predict([graphs[i] for i in held_out])
        scores.append(superpixel_scores([counts[i] for i in held_out], found).mean_iou)
    return float(candidates[int(np.argmax(scores))]), scores


def superpixel_scores(counts: Counts, labels: Sequence[Any]) -> SegmentationScores:
    """Scores in pixels of labels of superpixels."""
    n_labels = counts[0].shape[1]
    confusion = np.zeros((n_labels, n_labels), np.int64)
    for count, found in zip(counts, labels, strict=True):
        # Rows of the transpose: the pixels of a true class, by superpixel.
        for label in range(n_labels):
            confusion[:, label] += count[np.asarray(found) == label].sum(axis=0)
    return SegmentationScores(confusion)
