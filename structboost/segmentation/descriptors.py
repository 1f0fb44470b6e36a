"""Features of the superpixels of one image, and visual words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array
from structboost.runtime.blas_threads import one_blas_thread
from structboost.segmentation import patch_planes
from structboost.segmentation.superpixels import (
    adjacency,
    label_counts,
    neighbourhood,
    region_means,
    superpixels,
)

VERSION = 1  # version of the features; raise it with every change of their values

# Sides of the patches in an image whose longer side is 320 pixels; StructBoost, 4.5, has 4 to 16.
PATCH_SIZES = (16, 32, 64, 128)
_REFERENCE_SIDE = 320.0
_GRID = 4  # "the cell size is a quarter of the patch"
_GIST_GRID = 2
_COLOUR_BINS = 8
_HSV_RANGE = np.array([360, 1, 1], np.float32)
# u and v of photographs lie between -100 and 100, except for a few pixels.
_LUV_RANGE = np.array([100, 200, 200], np.float32)
_LUV_SHIFT = np.array([0, 0.5, 0.5], np.float32)
_WORD_STEP = 4  # pixels between the points that get a visual word
_WORD_PATCH = 16
N_WORDS = 200
_WORD_REACH = 2  # steps to superpixels whose words count
_POINTS = 40_000  # number of points from which the codebook is learned
# Means and stds of eight planes, and six histograms; planes by cells.
_COLOUR_WIDTH = 2 * 8 + 6 * _COLOUR_BINS
_PATCH_WIDTHS = {
    "hog": _GRID**2 * patch_planes.N_ORIENTATIONS,
    "lbp": _GRID**2 * patch_planes.N_PATTERNS,
    "gist": _GIST_GRID**2 * patch_planes.N_GABOR_PLANES,
}
# Features of each group that needs no codebook.
GROUP_WIDTHS = {
    "colour": _COLOUR_WIDTH,
    **{f"{kind}_{size}": width for kind, width in _PATCH_WIDTHS.items() for size in PATCH_SIZES},
}
WORD_WIDTH = _PATCH_WIDTHS["hog"]


@dataclass(frozen=True)
class DescribedImage:
    """Superpixels of an image with their features.

    Attributes
    ----------
    labels : ndarray of int32, shape (height, width)
        Index of the superpixel of each pixel.
    sizes : ndarray of int64, shape (n,)
        Pixels of each.
    positions : ndarray of float32, shape (n, 2)
        Centroids, x and y as fractions of the width and the height.
    colours : ndarray of float32, shape (n, 3)
        Mean L, u, v.
    edges : ndarray of int64, shape (n_edges, 2)
    boundaries : ndarray of float64, shape (n_edges,)
        Shared boundary length, pixels.
    contrasts : ndarray of float32, shape (n_edges,)
        Mean step of L, u, v across the boundary.
    features : dict of str to ndarray of float16, shape (n, d)
        Features by group: ``colour``, and ``lbp_S``, ``hog_S``, ``gist_S`` for four patch sizes S.
    points : ndarray of int64, shape (n_points,)
        Superpixel of each grid point.
    point_descriptors : ndarray of uint8, shape (n_points, 144)
        Gradient histograms around the grid points, for visual words.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "labels": Array("int32", ("height", "width"), low=0, high="n - 1"),
        "sizes": Array("int64", ("n",), low=1),
        "positions": Array("float32", ("n", 2)),
        "colours": Array("float32", ("n", 3)),
        "edges": Array("int64", ("n_edges", 2), low=0, high="n - 1"),
        "boundaries": Array("float64", ("n_edges",), low=0.0),
        "contrasts": Array("float32", ("n_edges",), low=0.0),
        "points": Array("int64", ("n_points",), low=0, high="n - 1"),
        "point_descriptors": Array("uint8", ("n_points", WORD_WIDTH)),
        **{
            f"features/{group}": Array("float16", ("n", width))
            for group, width in GROUP_WIDTHS.items()
        },
    }

    labels: NDArray[np.int32]
    sizes: IntArray
    positions: NDArray[np.float32]
    colours: NDArray[np.float32]
    edges: IntArray
    boundaries: FloatArray
    contrasts: NDArray[np.float32]
    features: dict[str, NDArray[np.float16]]
    points: IntArray
    point_descriptors: NDArray[np.uint8]

    @property
    def n_superpixels(self) -> int:
        """Number of superpixels."""
        return len(self.sizes)

    def geometry(self) -> DescribedImage:
        """Return the superpixels without pixels and features, which take most of the memory."""
        return replace(
            self,
            labels=self.labels[:0],
            features={},
            points=self.points[:0],
            point_descriptors=self.point_descriptors[:0],
        )


def describe(
    image: NDArray[np.uint8], n_segments: int = 300, labels: NDArray[np.int32] | None = None
) -> DescribedImage:
    """Compute the superpixels of an RGB image, which of them touch, and their features.

    See section 4.5 of StructBoost.  There are about ``n_segments`` superpixels, unless ``labels``
    are superpixels in place of SLIC's, numbered from 0.  ValueError if the image has another shape
    or type.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise ValueError(f"image has shape {image.shape} and type {image.dtype}; give 8 bit RGB.")
    image = np.ascontiguousarray(image)
    labels = superpixels(image, n_segments) if labels is None else labels
    height, width = labels.shape
    yx = np.indices(labels.shape).transpose(1, 2, 0)
    centres = region_means(labels, yx)[:, ::-1]
    luv = np.asarray(cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2Luv), np.float32)
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    gradients = patch_planes.integral(patch_planes.gradient_planes(grey))
    points, descriptors = _point_descriptors(labels, gradients)
    return DescribedImage(
        labels=labels,
        sizes=np.bincount(labels.ravel()),
        positions=((centres + 0.5) / [width, height]).astype(np.float32),
        colours=region_means(labels, luv).astype(np.float32),
        **adjacency(labels, luv)._asdict(),
        features=_features(image, grey, luv, labels, gradients, centres),
        points=points,
        point_descriptors=descriptors,
    )


def _features(
    image: NDArray[np.uint8],
    grey: NDArray[np.uint8],
    luv: NDArray[Any],
    labels: NDArray[np.int32],
    gradients: FloatArray,
    centres: FloatArray,
) -> dict[str, NDArray[np.float16]]:
    """Compute the groups of features that need no codebook."""
    patterns = patch_planes.integral(patch_planes.pattern_planes(grey))
    energies = patch_planes.integral(patch_planes.gabor_planes(grey))
    scale = max(labels.shape) / _REFERENCE_SIDE
    groups = {"colour": _colour_features(image, luv, labels)}
    for size in PATCH_SIZES:
        side = size * scale
        groups[f"hog_{size}"] = patch_planes.normalised(
            patch_planes.patch_cells(gradients, centres, side, _GRID)
        )
        groups[f"lbp_{size}"] = patch_planes.patch_cells(patterns, centres, side, _GRID)
        groups[f"gist_{size}"] = patch_planes.patch_cells(energies, centres, side, _GIST_GRID)
    return {name: rows.astype(np.float16) for name, rows in groups.items()}


def _colour_features(
    image: NDArray[np.uint8], luv: NDArray[Any], labels: NDArray[np.int32]
) -> NDArray[Any]:
    """Compute means and stds in RGB, LUV and HSV, and histograms in HSV and LUV."""
    hsv = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    planes = np.concatenate((image / np.float32(255), luv / 100, hsv[:, :, 1:]), axis=2).astype(
        np.float32
    )
    means = region_means(labels, planes)
    stds = np.sqrt(np.maximum(region_means(labels, planes**2) - means**2, 0.0))
    unit = np.dstack((hsv / _HSV_RANGE, luv / _LUV_RANGE + _LUV_SHIFT))
    bins = np.clip((unit * _COLOUR_BINS).astype(np.int64), 0, _COLOUR_BINS - 1)
    counts = [label_counts(labels, plane, _COLOUR_BINS) for plane in np.moveaxis(bins, 2, 0)]
    fractions = np.hstack(counts) / np.bincount(labels.ravel())[:, None]
    return np.hstack((means, stds, fractions))


def _point_descriptors(
    labels: NDArray[np.int32], gradients: FloatArray
) -> tuple[IntArray, NDArray[np.uint8]]:
    """Compute the superpixels of grid points, and gradient histograms around the points."""
    height, width = labels.shape
    scale = max(labels.shape) / _REFERENCE_SIDE
    step = max(1, round(_WORD_STEP * scale))
    ys, xs = (np.arange(min(step // 2, size - 1), size, step) for size in (height, width))
    grid = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
    cells = patch_planes.patch_cells(gradients, grid.astype(np.float64), _WORD_PATCH * scale, _GRID)
    rows = patch_planes.normalised(cells)
    return labels[grid[:, 1], grid[:, 0]].astype(np.int64), np.minimum(rows * 512, 255).astype(
        np.uint8
    )


def learn_codebook(
    images: Sequence[DescribedImage], n_words: int = N_WORDS, random_state: int = 0
) -> NDArray[np.float32]:
    """Learn visual words, the centres of k-means over point descriptors of some images.

    There are at most as many words as points.  Their shape is (n_words, 144).
    """
    random = np.random.default_rng(random_state)
    per_image = max(1, _POINTS // len(images))
    drawn = [
        image.point_descriptors[random.permutation(len(image.point_descriptors))[:per_image]]
        for image in images
    ]
    points = np.concatenate(drawn).astype(np.float32)
    means = MiniBatchKMeans(
        min(n_words, len(points)), batch_size=4096, n_init=1, max_iter=30, random_state=random_state
    )
    with threadpool_limits(1):  # several threads would add in another order
        return np.asarray(means.fit(points).cluster_centers_, np.float32)


def word_histograms(image: DescribedImage, codebook: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the fractions of the words in each superpixel and in those up to two steps away.

    See Fulkerson et al., ICCV 2009, with neighbourhood size 2 (StructBoost, section 4.5).  Their
    shape is (n_superpixels, n_words).
    """
    points = image.point_descriptors.astype(np.float32)
    # |a - b|^2 without |a|^2, which is the same for all words.
    with one_blas_thread():
        distances = (codebook**2).sum(axis=1) - 2.0 * points @ codebook.T
    words = np.argmin(distances, axis=1)
    n = image.n_superpixels
    counts = np.bincount(image.points * len(codebook) + words, minlength=n * len(codebook))
    reach = neighbourhood(image.edges, n, _WORD_REACH)
    around = reach @ counts.reshape(n, -1).astype(np.float32)
    return np.asarray(around / np.maximum(around.sum(axis=1, keepdims=True), 1.0), np.float32)
