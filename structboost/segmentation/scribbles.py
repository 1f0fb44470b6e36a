"""Scribbles, which are strokes on the object and the background of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from structboost._typing import FloatArray, IntArray
from structboost.segmentation.descriptors import DescribedImage
from structboost.segmentation.image_files import ImageFileError, Mask

NOTHING, OBJECT, BACKGROUND = 0, 1, 2
# Bound on log-odds; the CRF learns their scale.
_MOST = 13.0


def scribbled_labels(
    image: DescribedImage, scribbles: Mask, name: str = "scribbles", *, of_both_kinds: bool = True
) -> IntArray:
    """Return the label of the strokes on each superpixel, -1 without a stroke.

    1 is the object and 0 the background, which ``scribbles`` have as 1 and 2.  Of two kinds of
    strokes the longer one counts.  ImageFileError if sizes differ, or the strokes hold other values
    or, with ``of_both_kinds``, only one kind.
    """
    if scribbles.shape != image.labels.shape:
        raise ImageFileError(
            f"{name} has {scribbles.shape[1]} x {scribbles.shape[0]} pixels, its image "
            f"{image.labels.shape[1]} x {image.labels.shape[0]}; they must be of one size."
        )
    checked_strokes(scribbles, name, of_both_kinds=of_both_kinds)
    n = image.n_superpixels
    counts = [
        np.bincount(image.labels[scribbles == value], minlength=n) for value in (BACKGROUND, OBJECT)
    ]
    labels = np.where(counts[1] > counts[0], 1, 0)
    labels[counts[0] + counts[1] == 0] = -1
    return labels.astype(np.int64)


def checked_strokes(scribbles: Mask, name: str, *, of_both_kinds: bool = True) -> None:
    """Raise unless scribbles hold strokes, by default of both kinds, and nothing else.

    ImageFileError if the strokes hold other values or only one kind.
    """
    values = set(np.unique(scribbles).tolist())
    if not values <= {NOTHING, OBJECT, BACKGROUND}:
        raise ImageFileError(
            f"{name} holds the values {sorted(values)}; give 0 nothing, 1 object, 2 background."
        )
    if of_both_kinds and not {OBJECT, BACKGROUND} <= values:
        raise ImageFileError(f"{name} needs strokes on the object (1) and on the background (2).")


def scribble_features(image: DescribedImage, labels: IntArray) -> NDArray[np.float32]:
    """Measure how much nearer superpixels are to object strokes than to background strokes.

    The five measures are colour (log-likelihood ratio of Gaussian kernels on LUV, two widths),
    place, and geodesic distance over the graph, where a step costs the difference of colours (Bai
    and Sapiro, ICCV 2007).  They are positive where more like the object.
    """
    colours, places = image.colours.astype(np.float64), image.positions.astype(np.float64)
    areas = image.sizes.astype(np.float64)
    columns: list[NDArray[Any]] = []
    for width in (5.0, 12.0):
        columns.append(_likelihood_ratio(colours / width, labels, areas))
    columns.append(_likelihood_ratio(np.hstack((colours / 12.0, places / 0.15)), labels, areas))
    near = [_nearest(places, labels == label) for label in (0, 1)]
    columns.append(near[0] - near[1])
    along = [_geodesic(image, labels == label) for label in (0, 1)]
    columns.append((along[0] - along[1]) / (along[0] + along[1] + 1.0))
    return np.column_stack(columns).astype(np.float32)


# Number of scribble features, in place of classifiers.
N_SCRIBBLE_FEATURES = 5


def scribble_log_probabilities(image: DescribedImage, labels: IntArray) -> FloatArray:
    """Return log-probabilities with the features as log-odds, shape (n_superpixels, 5, 2)."""
    odds = np.clip(scribble_features(image, labels).astype(np.float64), -_MOST, _MOST)
    return np.stack((-np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)), axis=2)


def _likelihood_ratio(rows: FloatArray, labels: IntArray, areas: FloatArray) -> FloatArray:
    """Compute the logarithm of the ratio of two kernel densities, object over background."""
    densities = []
    for label in (0, 1):
        strokes = labels == label
        squared = ((rows[:, None, :] - rows[None, strokes, :]) ** 2).sum(axis=2)
        weights = areas[strokes] / areas[strokes].sum()
        densities.append(np.exp(-squared / 2) @ weights + 1e-6)
    return np.asarray(np.log(densities[1] / densities[0]))


def _nearest(places: FloatArray, strokes: NDArray[np.bool_]) -> FloatArray:
    """Compute the distance to the nearest of the strokes, relative to the image."""
    return np.asarray(
        np.sqrt(((places[:, None] - places[None, strokes]) ** 2).sum(axis=2)).min(axis=1)
    )


def _geodesic(image: DescribedImage, strokes: NDArray[np.bool_]) -> FloatArray:
    """Compute the shortest path to a stroke, whose steps cost the difference in LUV."""
    n = image.n_superpixels
    a, b = image.edges.astype(np.int32).T  # scipy 1.13 searches paths in no other graph
    steps = np.linalg.norm(image.colours[a].astype(np.float64) - image.colours[b], axis=1) + 0.5
    graph = csr_array((steps, (a, b)), shape=(n, n))
    distances = dijkstra(graph, directed=False, indices=np.flatnonzero(strokes), min_only=True)
    return np.asarray(np.minimum(distances, 1e4))
