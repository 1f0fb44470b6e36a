"""What is known of each superpixel of one image before anything is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from structboost.segmentation import patch_planes
from structboost.segmentation.superpixels import adjacency, region_means, superpixels

VERSION = 1  # of the features: raised with every change that alters their values

# Sides of the patches, pixels of an image whose longer side is 320; StructBoost, 4.5, has 4 to 16.
PATCH_SIZES = (16, 32, 64, 128)
_REFERENCE_SIDE = 320.0
_GRID = 4  # "the cell size is a quarter of the patch"
_GIST_GRID = 2
_COLOUR_BINS = 8
_WORD_STEP = 4  # pixels between the points that get a visual word
_WORD_PATCH = 16


@dataclass(frozen=True)
class DescribedImage:
    """An image as superpixels with features.

    Attributes
    ----------
    labels : ndarray of int32, shape (height, width)
        Number of the superpixel of each pixel.
    sizes : ndarray of int64, shape (n,)
        Pixels of each.
    positions : ndarray of float32, shape (n, 2)
        Centroids, x and y as shares of the width and the height.
    colours : ndarray of float32, shape (n, 3)
        Mean L, u, v.
    edges : ndarray of int64, shape (n_edges, 2)
    boundaries : ndarray of float64, shape (n_edges,)
        Shared boundary length, pixels.
    contrasts : ndarray of float32, shape (n_edges,)
        Mean step of L, u, v across the boundary.
    features : dict of str to ndarray of float16, shape (n, d)
        By group: ``colour``, ``lbp_S``, ``hog_S``, ``gist_S`` for four patch sizes S.
    points : ndarray of int64, shape (n_points,)
        Superpixel of each grid point.
    point_descriptors : ndarray of uint8, shape (n_points, 144)
        Gradient histograms around the grid points, for visual words.
    """

    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    positions: NDArray[np.float32]
    colours: NDArray[np.float32]
    edges: NDArray[np.int64]
    boundaries: NDArray[np.float64]
    contrasts: NDArray[np.float32]
    features: dict[str, NDArray[np.float16]]
    points: NDArray[np.int64]
    point_descriptors: NDArray[np.uint8]

    @property
    def n_superpixels(self) -> int:
        """Number of superpixels."""
        return len(self.sizes)


def describe(image: NDArray[np.uint8], n_segments: int = 300) -> DescribedImage:
    """Superpixels of an image, which of them touch, and their features (StructBoost, section 4.5).

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)
        RGB.
    n_segments : int
        About how many superpixels.

    Raises
    ------
    ValueError
        If the image has another shape or type.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise ValueError(f"image has shape {image.shape} and type {image.dtype}; give 8 bit RGB.")
    image = np.ascontiguousarray(image)
    labels = superpixels(image, n_segments)
    touching = adjacency(labels)
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
        edges=touching.edges,
        boundaries=touching.boundaries,
        contrasts=boundary_contrasts(labels, luv, touching.edges),
        features=_features(image, grey, luv, labels, gradients, centres),
        points=points,
        point_descriptors=descriptors,
    )


def _features(
    image: NDArray[np.uint8],
    grey: NDArray[np.uint8],
    luv: NDArray[Any],
    labels: NDArray[np.int32],
    gradients: NDArray[np.float64],
    centres: NDArray[np.float64],
) -> dict[str, NDArray[np.float16]]:
    """The groups of features that need no codebook."""
    patterns = patch_planes.integral(patch_planes.pattern_planes(grey))
    energies = patch_planes.integral(patch_planes.gabor_planes(grey))
    scale = max(labels.shape) / _REFERENCE_SIDE
    made = {"colour": _colour_features(image, luv, labels)}
    for size in PATCH_SIZES:
        side = size * scale
        made[f"hog_{size}"] = patch_planes.normalised(patch_planes.patch_cells(gradients, centres, side, _GRID))
        made[f"lbp_{size}"] = patch_planes.patch_cells(patterns, centres, side, _GRID)
        made[f"gist_{size}"] = patch_planes.patch_cells(energies, centres, side, _GIST_GRID)
    return {name: rows.astype(np.float16) for name, rows in made.items()}


def _colour_features(image: NDArray[np.uint8], luv: NDArray[Any], labels: NDArray[np.int32]) -> NDArray[Any]:
    """Means and spreads in RGB, LUV and HSV, and histograms of hue, saturation, value and of L, u, v."""
    hsv = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    planes = np.concatenate((image / np.float32(255), luv / 100, hsv[:, :, 1:]), axis=2).astype(np.float32)
    means = region_means(labels, planes)
    spreads = np.sqrt(np.maximum(region_means(labels, planes**2) - means**2, 0.0))
    # u and v of photographs lie between -100 and 100 but for a few pixels.
    unit = np.stack(
        (
            hsv[..., 0] / 360,
            hsv[..., 1],
            hsv[..., 2],
            luv[..., 0] / 100,
            luv[..., 1] / 200 + 0.5,
            luv[..., 2] / 200 + 0.5,
        ),
        axis=2,
    )
    codes = np.clip((unit * _COLOUR_BINS).astype(np.int64), 0, _COLOUR_BINS - 1)
    one_hot = np.eye(_COLOUR_BINS, dtype=np.float32)[codes].reshape(*labels.shape, -1)
    return np.hstack((means, spreads, region_means(labels, one_hot)))


def boundary_contrasts(labels: NDArray[np.int32], luv: NDArray[Any], edges: NDArray[np.int64]) -> NDArray[np.float32]:
    """Mean distance in LUV between the pixels on the two sides of each boundary."""
    n = int(labels.max()) + 1
    keys, steps = [], []
    for here, there in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        differ = labels[here] != labels[there]
        a, b = labels[here][differ].astype(np.int64), labels[there][differ].astype(np.int64)
        keys.append(np.minimum(a, b) * n + np.maximum(a, b))
        steps.append(np.linalg.norm(luv[here][differ] - luv[there][differ], axis=1))
    place = np.searchsorted(edges[:, 0] * n + edges[:, 1], np.concatenate(keys))
    total = np.bincount(place, weights=np.concatenate(steps), minlength=len(edges))
    return np.asarray(total / np.maximum(np.bincount(place, minlength=len(edges)), 1), np.float32)


def _point_descriptors(
    labels: NDArray[np.int32], gradients: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Gradient histograms (4 x 4 cells of 9 orientations) on a grid, and the superpixel under each point."""
    height, width = labels.shape
    scale = max(labels.shape) / _REFERENCE_SIDE
    step = max(1, round(_WORD_STEP * scale))
    ys, xs = (np.arange(min(step // 2, size - 1), size, step) for size in (height, width))
    grid = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
    cells = patch_planes.patch_cells(gradients, grid.astype(np.float64), _WORD_PATCH * scale, _GRID)
    rows = patch_planes.normalised(cells)
    return labels[grid[:, 1], grid[:, 0]].astype(np.int64), np.minimum(rows * 512, 255).astype(np.uint8)
