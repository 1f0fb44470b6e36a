"""Scribbles, which are strokes on the object and the background of an image.

A segmenter learns from them, or they cut out an object alone, from their colours and from paths to
them.  As in GrabCut (Rother et al., SIGGRAPH 2004), colour models of object and background are
learned from the strokes, and again from the segmentation.  In addition a pixel is more like the
strokes that a path without a step of colour reaches (geodesic distance: Bai and Sapiro, ICCV 2007).
All steps are on superpixels, so that a segmentation takes milliseconds after their computation.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

from structboost._typing import (
    AnyArray,
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    ShortArray,
    SingleArray,
)
from structboost.inference.superpixel_crf import min_cut_labels
from structboost.runtime.called_class import Described
from structboost.segmentation.descriptors import (
    DescribedImage,
    adjacency,
    label_counts,
    region_means,
    squared_distances,
    superpixels,
)
from structboost.segmentation.refinement import refine_mask
from structboost.validation import checked_whole_number
from structboost.vision.images import (
    ImageFileError,
    Mask,
    Photograph,
    Shape,
    check_one_size,
    mask_of,
    photograph,
    resized_mask,
    shrink_to,
)

OBJECT, BACKGROUND = 1, 2
# Bound on log-odds; the CRF learns their scale.
_MOST = 13.0


def scribbled_labels(
    image: DescribedImage, scribbles: Mask, *, of_both_kinds: bool = True
) -> IntArray:
    """Return the label of the strokes on each superpixel, -1 without a stroke.

    1 is the object and 0 the background, which ``scribbles`` of the size of the shrunk image have
    as 1 and 2.  Of two kinds of strokes the longer one counts.  ImageFileError if they hold other
    values or, with ``of_both_kinds``, only one kind.
    """
    return _labels_of(_counts_of_strokes(image.labels, scribbles, of_both_kinds))


def _counts_of_strokes(labels: ShortArray, scribbles: Mask, of_both_kinds: bool = True) -> IntArray:
    """Count the pixels of strokes in each superpixel, of the background and of the object."""
    values = set(np.unique(scribbles).tolist())
    if not values <= {0, OBJECT, BACKGROUND}:
        raise ImageFileError(
            f"scribbles holds the values {sorted(values)}; give 0 nothing, 1 object, 2 background."
        )
    if of_both_kinds and not {OBJECT, BACKGROUND} <= values:
        raise ImageFileError("scribbles needs strokes on the object (1) and on the background (2).")
    return label_counts(labels, scribbles, 3).T[[BACKGROUND, OBJECT]]


def _labels_of(counts: IntArray) -> IntArray:
    """Return the label of the longer strokes on each superpixel, -1 without any."""
    return np.where(counts[1] > counts[0], 1, np.where(counts[0] > 0, 0, -1))


def resized_strokes(strokes: Mask, image_shape: Shape, shape: Shape) -> Mask:
    """Resize scribbles to the size of a shrunk image.

    No stroke is lost, and a pixel under both kinds is the object.
    """
    scribbles = mask_of(strokes, "scribbles")
    check_one_size("the image", image_shape, "scribbles", scribbles.shape)
    if scribbles.shape == shape:
        return scribbles
    out = np.zeros(shape, np.uint8)
    for value in (BACKGROUND, OBJECT):
        y, x = np.nonzero(scribbles == value)
        out[y * shape[0] // scribbles.shape[0], x * shape[1] // scribbles.shape[1]] = value
    return out


def scribble_features(image: DescribedImage, labels: IntArray) -> SingleArray:
    """Measure how much nearer superpixels are to object strokes than to background strokes.

    The five measures are colour (log-likelihood ratio of Gaussian kernels on LUV, two widths),
    place, and geodesic distance over the graph, where a step costs the difference of colours (Bai
    and Sapiro, ICCV 2007).  They are positive where more like the object.
    """
    colours, places = image.colours.astype(np.float64), image.positions.astype(np.float64)
    areas, strokes = image.sizes.astype(np.float64), [labels == label for label in (0, 1)]

    def ratio(rows: FloatArray) -> FloatArray:
        """Compute the logarithm of the ratio of two kernel densities, object over background."""
        densities = [
            np.exp(-cdist(rows, rows[s], "sqeuclidean") / 2) @ (areas[s] / areas[s].sum()) + 1e-6
            for s in strokes
        ]
        return np.asarray(np.log(densities[1] / densities[0]))

    near = [cdist(places, places[s]).min(axis=1) for s in strokes]
    paths = _paths(image.edges, colours, 0.5)
    along = [np.minimum(_distances(paths, s), 1e4) for s in strokes]
    return np.column_stack(
        (
            *(ratio(colours / 5.0), ratio(colours / 12.0)),
            *(ratio(np.hstack((colours / 12.0, places / 0.15))), near[0] - near[1]),
            (along[0] - along[1]) / (along[0] + along[1] + 1.0),
        )
    ).astype(np.float32)


def scribble_log_probabilities(image: DescribedImage, labels: IntArray) -> FloatArray:
    """Return log-probabilities with the features as log-odds, shape (n_superpixels, 5, 2)."""
    odds = np.clip(scribble_features(image, labels).astype(np.float64), -_MOST, _MOST)
    return np.stack((-np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)), axis=2)


def _paths(edges: IntArray, colours: FloatArray, step: float) -> csr_array:
    """Return a graph of neighbours, in which an edge costs the difference of colours and a step."""
    a, b = edges.astype(np.int32).T  # scipy 1.13 searches paths in no other graph
    costs = np.linalg.norm(colours[a] - colours[b], axis=1) + step
    return csr_array((costs, (a, b)), shape=(len(colours), len(colours)))


def _distances(paths: csr_array, strokes: BoolArray) -> FloatArray:
    distances: FloatArray = dijkstra(
        paths, directed=False, indices=np.flatnonzero(strokes), min_only=True
    )
    return distances


# Chosen on nine photographs with two sets of strokes each.
_BLUR = 0.7  # pixels, before colours are compared
_KERNEL = 4.0  # width of the kernels of the colour models, in Lab
_RARE = 1e-4  # smallest density of a colour
_MOST_OF_COLOURS = 6.0  # bound on the log-odds of colours
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
    edges : ndarray of int64, shape (n_edges, 2)
    weights : ndarray, shape (n_edges,)
        Energies of neighbours with different labels.
    """

    shape: tuple[int, int]
    labels: ShortArray
    sizes: IntArray
    kernel: SingleArray
    paths: csr_array
    edges: IntArray
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
        prepared = self.prepare(image)
        labels = _best_labels(prepared, scribbles)
        return refine_mask(photograph(image, "image"), labels[prepared.labels])

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
        lab = cv2.GaussianBlur(lab, (0, 0), _BLUR)
        labels = superpixels(small, self.n_segments)
        edges, boundaries, steps = adjacency(labels, lab)
        colours = region_means(labels, lab)

        contrasts = steps.astype(np.float64) ** 2
        likeness = np.exp(-contrasts / (2 * contrasts.mean() + 1e-6)) if len(contrasts) else 0.0
        lengths = boundaries / max(boundaries.sum() / max(len(contrasts), 1), 1.0)
        return PreparedImage(
            (pixels.shape[0], pixels.shape[1]),
            labels,
            np.bincount(labels.ravel()),
            np.exp(-squared_distances(colours) / (2 * _KERNEL**2)).astype(np.float32),
            _paths(edges, colours, _STEP),
            edges,
            lengths * (likeness + _SMOOTH),
        )

    def segment(self, image: PreparedImage, scribbles: Mask) -> Mask:
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

        Raises
        ------
        ValueError
            If the scribbles do not fit the image, hold other values, or are of one kind only.
        """
        return resized_mask(_best_labels(image, scribbles)[image.labels], image.shape)


def _best_labels(image: PreparedImage, scribbles: Mask) -> ByteArray:
    """Compute the label of each superpixel, 1 for the object."""
    drawn = resized_strokes(scribbles, image.shape, image.labels.shape)
    counts = _counts_of_strokes(image.labels, drawn)
    fixed, strokes = _labels_of(counts), [_fractions(count) for count in counts]
    paths = [np.minimum(_distances(image.paths, fixed == v), 1e12) for v in (0, 1)]
    nearer = (paths[0] - paths[1]) / (np.minimum(paths[0] + paths[1], 1e12) + 1e-9)
    areas, weights = image.sizes / image.sizes.mean(), image.weights
    models, weight = strokes, _FIRST
    labels = np.zeros(0, np.uint8)
    for _ in range(_ROUNDS):
        density = [image.kernel @ model + _RARE for model in models]
        colour = np.clip(np.log(density[1] / density[0]), -_MOST_OF_COLOURS, _MOST_OF_COLOURS)
        odds = areas * (weight * colour + _GEODESIC * np.clip(nearer, -1.0, 1.0))
        nodes = np.maximum(np.column_stack((odds, -odds)), 0.0)
        i = np.flatnonzero(fixed >= 0)
        nodes[i, 1 - fixed[i]] += 1.0 + nodes.sum() + weights.sum()
        before = labels
        labels = min_cut_labels(nodes, image.edges, weights, weights).astype(np.uint8)
        if np.array_equal(before, labels):
            break
        weight = 1.0
        models = [
            _STROKES * model + (1 - _STROKES) * _fractions(image.sizes * (labels == v))
            for v, model in enumerate(strokes)
        ]
    return labels


def _fractions(counts: AnyArray) -> FloatArray:
    return np.asarray(counts / max(counts.sum(), 1.0))
