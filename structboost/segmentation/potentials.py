"""From answers of classifiers to the potentials of a CRF: unary (32), and pairwise (33), (34) with contrast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.segmentation.descriptors import DescribedImage
from structboost.segmentation.unaries import log_odds
from structboost.tasks.superpixel_crf import SuperpixelGraph, TrueLabels

PAIRWISE = ("colour", "boundary", "contrast", "colour x boundary", "contrast x boundary", "agreement", "constant")
# Added to an image's mean difference in LUV, so that flat images have no outlines.
_FLAT = 1.0


def superpixel_graph(image: DescribedImage, log_probabilities: NDArray[np.float64]) -> SuperpixelGraph:
    """The CRF of an image.

    Parameters
    ----------
    image : DescribedImage
    log_probabilities : ndarray, shape (n_superpixels, n_classifiers, n_labels)

    Returns
    -------
    SuperpixelGraph
        Unary potentials ``-log(p_y / (1 - p_y))``, which is ``-y F`` (32) where there are two labels y = -1, 1, and
        an indicator of each label but the first.  Pairwise potentials as in `PAIRWISE`, none negative:
        ``exp(-|difference of mean LUV| / its mean)`` (33), the shared boundary over its mean (34), the like of (33)
        for the step right at the boundary, their products, how much the classifiers agree on both ends, and 1.
    """
    odds = log_odds(log_probabilities)
    n, _, n_labels = odds.shape
    indicators = np.broadcast_to(np.eye(n_labels)[:, 1:], (n, n_labels, n_labels - 1))
    potentials = np.concatenate((-odds.transpose(0, 2, 1), indicators), axis=2).astype(np.float32)
    return SuperpixelGraph(potentials, image.edges, pairwise_potentials(image, log_probabilities))


def pairwise_potentials(image: DescribedImage, log_probabilities: NDArray[np.float64]) -> NDArray[np.float32]:
    """What an edge between different labels may cost, shape (n_edges, 7)."""
    p, q = image.edges.T
    colour = _likeness(np.linalg.norm(image.colours[p].astype(np.float64) - image.colours[q], axis=1))
    contrast = _likeness(image.contrasts.astype(np.float64))
    boundary = image.boundaries / max(float(image.boundaries.mean()), 1e-9) if len(p) else image.boundaries
    probabilities = np.exp(log_probabilities[:, -1])
    agreement = 1 - 0.5 * np.abs(probabilities[p] - probabilities[q]).sum(axis=1)
    columns = (colour, boundary, contrast, colour * boundary, contrast * boundary, agreement, np.ones(len(p)))
    return np.column_stack(columns).astype(np.float32)


def true_labels(counts: NDArray[np.int64], *, by_area: bool = True) -> tuple[TrueLabels, NDArray[np.bool_]]:
    """The true label of each superpixel that is not void, and which ones are not.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_superpixels, n_labels)
        Pixels of each class.
    by_area : bool
        Whether a wrong label costs the superpixel's pixels that are its true label's more than another's, over the mean
        size; else 1, the Hamming loss (26).
    """
    known = counts.sum(axis=1)
    kept = known > 0
    ranked = np.sort(counts[kept], axis=1)
    areas = (ranked[:, -1] - ranked[:, -2]) / max(float(known[kept].mean()), 1.0) if kept.any() else np.zeros(0)
    labels = np.argmax(counts[kept], axis=1).astype(np.int64)
    return TrueLabels(labels, areas if by_area else np.ones(len(labels))), kept


def _likeness(differences: NDArray[Any]) -> NDArray[np.float64]:
    """One where there is no difference, falling with the difference over its mean in the image."""
    mean = float(differences.mean()) if len(differences) else 0.0
    return np.asarray(np.exp(-differences / (mean + _FLAT)), np.float64)
