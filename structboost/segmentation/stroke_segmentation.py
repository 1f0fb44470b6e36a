"""Segmentation by strokes alone, from their colours and from paths to them.

As in GrabCut (Rother et al., SIGGRAPH 2004), colour models of object and background are learned
from the strokes, and again from the segmentation.  In addition a pixel is more like the strokes
that a path without a step of colour reaches (geodesic distance: Bai and Sapiro, ICCV 2007).  All
steps are on superpixels, so that a segmentation takes milliseconds after their computation.
Figures are in docs/decisions.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.special import softmax

from structboost._typing import FloatArray
from structboost.inference.superpixel_crf import least_energy_labels
from structboost.runtime.described import Described
from structboost.segmentation.crf_model import conditional_costs
from structboost.segmentation.image_files import Mask, Photograph, resized_mask, shrink_to
from structboost.segmentation.image_inputs import photograph, resized_strokes
from structboost.segmentation.refinement import refine_mask
from structboost.segmentation.scribbles import BACKGROUND, OBJECT, checked_strokes
from structboost.segmentation.superpixels import Adjacency, adjacency, region_means, superpixels
from structboost.validation import checked_whole_number

# Chosen on nine photographs with two sets of strokes each.
_BLUR = 0.7  # pixels, before colours are compared
_KERNEL = 4.0  # width of the kernels of the colour models, in Lab
_RARE = 1e-4  # smallest density of a colour
_MOST = 6.0  # bound on the log-odds of colours
_FIRST = 0.5  # weight of the colours before the first segmentation
_STROKES = 0.8  # weight of the strokes in the colour models; the segmentation has the rest
_GEODESIC = 5.0  # weight of the paths
_STEP = 6.0  # cost of a step of a path beside that of its colours
_SMOOTH = 0.02  # weight of an edge in addition to its contrast
_ROUNDS = 3


class PreparedImage(NamedTuple):
    """Image with all that does not depend on strokes.

    Attributes
    ----------
    shape : (int, int)
        Height and width of the image.
    labels : ndarray of int32, shape (height, width)
        Superpixel of each pixel of the shrunk image.
    sizes : ndarray of int64, shape (n,)
    kernel : ndarray of float32, shape (n, n)
        Likeness of the superpixels' colours.
    paths : csr_array, shape (n, n)
        Costs of the steps between neighbours.
    adjacency : Adjacency
    weights : ndarray, shape (n_edges,)
        Energies of neighbours with different labels.
    """

    shape: tuple[int, int]
    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    kernel: NDArray[np.float32]
    paths: csr_array
    adjacency: Adjacency
    weights: FloatArray


class StrokeSegmenter(Described):
    """Segmenter of an image by strokes on it, without training.

    Parameters
    ----------
    n_segments : int
        Approximate number of superpixels.
    longest : int
        Longest side in pixels, to which larger photographs are shrunk first.  Masks have the full
        size.

    Raises
    ------
    ValueError, TypeError
        If a parameter is not a whole number from 1.
    """

    def __init__(self, n_segments: int = 1200, longest: int = 512) -> None:
        self.n_segments = checked_whole_number(n_segments, "n_segments")
        self.longest = checked_whole_number(longest, "longest")

    def predict(self, image: Photograph, scribbles: Mask) -> Mask:
        """Predict 1 on the object and 0 elsewhere, at the size of the image.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3), or PIL.Image.Image
            RGB, or grey of shape (height, width).
        scribbles : ndarray of uint8, shape (height, width)
            1 on the object, 2 on the background, 0 elsewhere.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            1 on the object, 0 elsewhere.

        Raises
        ------
        ValueError
            If the image is not 8-bit, or the scribbles do not fit it or are of one kind only.
        """
        return self.mask_and_probabilities(image, scribbles)[0]

    def mask_and_probabilities(
        self, image: Photograph, scribbles: Mask
    ) -> tuple[Mask, NDArray[np.float32]]:
        """Return the mask, and probabilities of background and object without calibration.

        Parameters
        ----------
        image, scribbles
            As for :meth:`predict`.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            1 on the object, 0 elsewhere, with outlines that follow the image.
        probabilities : ndarray of float32, shape (height, width, 2)
            Background, then object.

        Raises
        ------
        ValueError
            From :meth:`predict`.
        """
        fill_cache = self.prepare(image)
        coarse, probabilities = self.segment(fill_cache, scribbles)
        small = resized_mask(coarse, fill_cache.labels.shape)
        return refine_mask(photograph(image, "image"), small), probabilities

    def prepare(self, image: Photograph) -> PreparedImage:
        """Compute all that does not depend on strokes.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3), or PIL.Image.Image
            RGB, or grey of shape (height, width).

        Returns
        -------
        prepared : PreparedImage
            Superpixels, and the relations of their colours.

        Raises
        ------
        ValueError
            If the image is not 8-bit.
        """
        pixels = photograph(image, "image")
        small = shrink_to(pixels, self.longest)
        lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2Lab)
        lab = np.asarray(cv2.GaussianBlur(lab, (0, 0), _BLUR))
        labels = superpixels(small, self.n_segments)
        touching = adjacency(labels, lab)
        colours = region_means(labels, lab)
        squares = (colours**2).sum(axis=1)
        distances = squares[:, None] + squares[None] - 2 * colours @ colours.T
        n = len(colours)
        a, b = touching.edges.T
        steps = np.linalg.norm(colours[a] - colours[b], axis=1) + _STEP
        contrasts = touching.contrasts.astype(np.float64) ** 2
        likeness = np.exp(-contrasts / (2 * contrasts.mean() + 1e-6)) if len(a) else contrasts
        lengths = touching.boundaries / max(touching.boundaries.mean(), 1.0) if len(a) else steps
        return PreparedImage(
            (pixels.shape[0], pixels.shape[1]),
            labels,
            np.bincount(labels.ravel()),
            np.exp(-np.maximum(distances, 0.0) / (2 * _KERNEL**2)).astype(np.float32),
            # scipy 1.13 searches paths in no other graph.
            csr_array((steps, (a.astype(np.int32), b.astype(np.int32))), shape=(n, n)),
            touching,
            lengths * (likeness + _SMOOTH),
        )

    def segment(self, image: PreparedImage, scribbles: Mask) -> tuple[Mask, NDArray[np.float32]]:
        """Segment a prepared image, with the outlines of its superpixels.

        Parameters
        ----------
        image : PreparedImage
            Result of :meth:`prepare`.
        scribbles : ndarray of uint8, shape (height, width)
            1 on the object, 2 on the background, 0 elsewhere, at the size of the image.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            1 on the object, 0 elsewhere.
        probabilities : ndarray of float32, shape (height, width, 2)
            Background, then object; not calibrated.

        Raises
        ------
        ValueError
            If the scribbles do not fit the image, hold other values, or are of one kind only.
        """
        strokes = resized_strokes(scribbles, image.shape, image.labels.shape, "scribbles")
        checked_strokes(strokes, "scribbles")
        n = len(image.sizes)
        under = [np.bincount(image.labels[strokes == v], minlength=n) for v in (BACKGROUND, OBJECT)]
        fixed = np.where(under[1] > under[0], 1, np.where(under[0] > 0, 0, -1))
        costs = _costs(image, [_fractions(count) for count in under], fixed)
        probabilities = softmax(-costs, axis=1).astype(np.float32)
        labels = costs.argmin(axis=1).astype(np.uint8)
        return (
            resized_mask(labels[image.labels], image.shape),
            resized_mask(probabilities[image.labels], image.shape),
        )


def _costs(image: PreparedImage, strokes: list[FloatArray], fixed: NDArray[Any]) -> FloatArray:
    """Compute the energy of each label of a superpixel, with the best labels of the others."""
    paths = [
        dijkstra(image.paths, directed=False, indices=np.flatnonzero(fixed == v), min_only=True)
        for v in (0, 1)
    ]
    total = np.minimum(paths[0] + paths[1], 1e12)
    nearer = np.divide(np.clip(paths[0], 0, 1e12) - np.clip(paths[1], 0, 1e12), total + 1e-9)
    areas = image.sizes / image.sizes.mean()
    edges, weights = image.adjacency.edges, image.weights
    models, weight, labels = strokes, _FIRST, None
    for _ in range(_ROUNDS):
        density = [image.kernel @ model + _RARE for model in models]
        colour = np.clip(np.log(density[1] / density[0]), -_MOST, _MOST)
        odds = areas * (weight * colour + _GEODESIC * np.clip(nearer, -1.0, 1.0))
        nodes = np.column_stack((np.maximum(odds, 0.0), np.maximum(-odds, 0.0)))
        i = np.flatnonzero(fixed >= 0)
        nodes[i, 1 - fixed[i]] += 1.0 + nodes.sum() + weights.sum()
        best = least_energy_labels(nodes, edges, weights, weights).astype(np.int64)
        if labels is not None and np.array_equal(best, labels):
            break
        labels, weight = best, 1.0
        models = [
            _STROKES * model + (1 - _STROKES) * _fractions(image.sizes * (labels == v))
            for v, model in enumerate(strokes)
        ]
    assert labels is not None
    return conditional_costs(nodes, edges, weights, labels)


def _fractions(counts: NDArray[Any]) -> FloatArray:
    return np.asarray(counts / max(float(counts.sum()), 1.0), np.float64)
