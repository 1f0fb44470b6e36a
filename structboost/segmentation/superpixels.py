"""Superpixels of an image, and which of them touch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from skimage.measure import label as connected_regions
from skimage.segmentation import slic

from structboost._typing import FloatArray, IntArray

# Among 5, 10, 20 with and without smoothing, these values lose the fewest pixels to superpixels
# that lie across an outline.
_COMPACTNESS = 20.0
_SMOOTHING = 1.0


class Adjacency(NamedTuple):
    """Pairs of superpixels that touch.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_edges, 2)
        Lower index first, each pair once, in lexicographic order.
    boundaries : ndarray of float64, shape (n_edges,)
        Shared boundary length, in pairs of 4-neighbours of which each has one pixel.
    contrasts : ndarray of float32, shape (n_edges,)
        Mean distance of the values of these pairs.
    """

    edges: IntArray
    boundaries: FloatArray
    contrasts: NDArray[np.float32]


def superpixels(image: NDArray[np.uint8], n_segments: int = 300) -> NDArray[np.int32]:
    """Compute SLIC superpixels of an RGB image, with indices 0..n-1 of connected ones.

    SLIC returns fewer than ``n_segments`` where the image is small or noisy, down to one.
    """
    if n_segments < 1:
        raise ValueError(f"n_segments is {n_segments}; give at least 1.")
    segments = slic(
        image, n_segments=n_segments, compactness=_COMPACTNESS, sigma=_SMOOTHING, start_label=1
    )
    return np.asarray(connected_regions(segments, connectivity=1) - 1, np.int32)


def checked_superpixels(values: Any, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Check the superpixels of a user's function, and number them 0..n-1.

    ValueError if they have another shape than the image, or are not whole numbers.
    """
    labels = np.asarray(values)
    if labels.shape != tuple(shape[:2]) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"superpixels(image) returned {labels.dtype} of shape {labels.shape} for an image of "
            f"shape {tuple(shape[:2])}; give a whole number for each pixel."
        )
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32)


def adjacency(labels: NDArray[np.int32], values: NDArray[Any]) -> Adjacency:
    """Find which superpixels touch, along how many pixels, and with which step of values.

    ``labels`` are indices 0..n-1, and ``values`` planes of the same height and width.
    """
    n = int(labels.max()) + 1
    keys, steps = [], []
    for here, there in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        differ = labels[here] != labels[there]
        a, b = labels[here][differ].astype(np.int64), labels[there][differ].astype(np.int64)
        keys.append(np.minimum(a, b) * n + np.maximum(a, b))
        steps.append(np.linalg.norm(values[here][differ] - values[there][differ], axis=1))
    pairs, places, counts = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
    sums = np.bincount(places, np.concatenate(steps), len(pairs))
    edges = np.column_stack((pairs // n, pairs % n))
    return Adjacency(edges, counts.astype(np.float64), (sums / counts).astype(np.float32))


def neighbourhood(edges: IntArray, n: int, steps: int) -> scipy.sparse.csr_array:
    """Return a matrix of 0 and 1 of the superpixels at most ``steps`` edges apart."""
    ones = np.ones(len(edges), np.float32)
    near = scipy.sparse.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n, n))
    near = near + near.T + scipy.sparse.eye_array(n, dtype=np.float32, format="csr")
    reach = near
    for _ in range(steps - 1):
        reach = reach @ near
    reach.data[:] = 1.0
    return reach.tocsr()


def region_means(labels: NDArray[np.int32], planes: NDArray[Any]) -> FloatArray:
    """Average each plane over each superpixel, shape (n_superpixels, n_planes)."""
    regions = labels.ravel()
    by_plane = np.asarray(planes, np.float32).reshape(len(regions), -1).T
    sums = np.column_stack([np.bincount(regions, plane) for plane in by_plane])
    return np.asarray(sums / np.bincount(regions)[:, None])


def label_counts(labels: NDArray[np.int32], mask: NDArray[np.uint8], n_labels: int) -> IntArray:
    """Count the pixels of each class in each superpixel, without void ones.

    Returns
    -------
    ndarray of int64, shape (n_superpixels, n_labels)
    """
    n = int(labels.max()) + 1
    is_labelled = mask < n_labels
    keys = labels[is_labelled].astype(np.int64) * n_labels + mask[is_labelled]
    return np.asarray(np.bincount(keys, minlength=n * n_labels).reshape(n, n_labels), np.int64)
