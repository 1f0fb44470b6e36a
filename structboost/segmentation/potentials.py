"""Unary (32) and pairwise (33), (34) potentials of a CRF, from probabilities of classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array
from structboost.segmentation.descriptors import (
    N_OF_PLACE,
    N_SURROUNDINGS,
    DescribedImage,
    neighbour_means,
    place_and_colour,
    surroundings,
)
from structboost.segmentation.unaries import combine, log_odds
from structboost.tasks.superpixel_crf import SuperpixelGraph, TrueLabels

PAIRWISE = (
    *("colour", "boundary", "contrast", "colour x boundary", "contrast x boundary"),
    *("agreement", "constant"),
)
# Added to an image's mean difference in LUV, so that flat images have no outlines.
_FLAT = 1.0
# Bound on standardised potentials.
_FAR = 5.0


@dataclass(frozen=True)
class PotentialScale:
    """Means and stds of the unary potentials on the training images.

    Linear learners need potentials of one scale, while stumps do not.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "mean": Array("float64", ("n_unary",)),
        "spread": Array("float64", ("n_unary",), low=0.0, nonzero=True),
    }

    mean: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, potentials: Sequence[NDArray[Any]]) -> PotentialScale:
        """Compute the scale of arrays of shape (n_superpixels, n_labels, n_unary)."""
        rows = np.concatenate([p.reshape(-1, p.shape[2]) for p in potentials]).astype(np.float64)
        spread = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(spread > 1e-9, spread, 1.0))

    def scaled(self, potentials: NDArray[Any]) -> NDArray[np.float32]:
        """Standardise potentials, and clip them at five stds."""
        return np.clip((potentials - self.mean) / self.spread, -_FAR, _FAR).astype(np.float32)


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
        evidence, blocks = odds[:, :, 1], [odds[:, :, 1], probabilities[:, 1:]]
        if appearance:
            around = surroundings(image, probabilities)[:, :, 1]
            blocks.insert(1, neighbour_means(image, evidence, 2))
            blocks += [around, place_and_colour(image)]
        return -np.hstack(blocks)[:, None, :]
    around = surroundings(image, probabilities)
    return -np.concatenate((odds, probabilities[:, None, :], around), axis=1).transpose(0, 2, 1)


def n_unary_potentials(n_classifiers: int, n_labels: int, *, appearance: bool = True) -> int:
    """Return the last size of :func:`unary_potentials`."""
    if n_labels == 2:
        return n_classifiers + 1 + appearance * (n_classifiers + N_SURROUNDINGS + N_OF_PLACE)
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
    n, n_labels = log_probabilities.shape[0], log_probabilities.shape[2]
    scaled = scale.scaled(unary_potentials(image, log_probabilities, appearance=appearance))
    if n_labels == 2:
        scaled = np.concatenate((np.zeros_like(scaled), scaled), axis=1)
    indicators = np.broadcast_to(
        np.eye(n_labels, dtype=np.float32)[:, 1:], (n, n_labels, n_labels - 1)
    )
    pairwise = pairwise_potentials(image, combine(log_probabilities))
    return SuperpixelGraph(np.concatenate((scaled, indicators), axis=2), image.edges, pairwise)


def pairwise_potentials(image: DescribedImage, probabilities: FloatArray) -> NDArray[np.float32]:
    """Compute the potentials of edges between different labels, shape (n_edges, 7).

    None is negative.  `PAIRWISE` names them: ``exp(-|difference of mean LUV| / its mean)`` (33),
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
    columns = (colour, boundary, contrast, *products, agreement, np.ones(len(p)))
    return np.asarray(np.maximum(np.column_stack(columns), 0.0), np.float32)


def true_labels(counts: IntArray, *, by_area: bool = True) -> tuple[TrueLabels, NDArray[np.bool_]]:
    """Return the true labels of all superpixels that are not void, and a mask of them.

    With ``by_area`` a wrong label costs the margin in pixels of the true label over the next one,
    relative to the mean size of the superpixels.  Otherwise it costs 1, the Hamming loss (26).
    """
    n_pixels = counts.sum(axis=1)
    labelled = n_pixels > 0
    ranked = np.sort(counts[labelled], axis=1)
    mean_size = n_pixels.sum() / max(len(ranked), 1)
    areas = (ranked[:, -1] - ranked[:, -2]) / max(mean_size, 1.0)
    labels = np.argmax(counts[labelled], axis=1).astype(np.int64)
    return TrueLabels(labels, areas if by_area else np.ones(len(labels))), labelled


def _likeness(differences: NDArray[Any]) -> FloatArray:
    """Compute a likeness that is 1 without a difference and falls with it."""
    mean = float(differences.mean()) if len(differences) else 0.0
    return np.asarray(np.exp(-differences / (mean + _FLAT)), np.float64)
