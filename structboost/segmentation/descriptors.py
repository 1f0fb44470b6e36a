"""Superpixels of an image, their features and surroundings, and visual words.

In auto-context (Tu and Bai, PAMI 2010) the probabilities of classifiers around each superpixel are
features of the next learner.  Here they are averaged over neighbourhoods in the image, over
superpixels of similar colour anywhere, over the four directions, and over the whole image.  The
averages by colour act as colour models of object and background for each image.

Dense planes of an image, and their means in the cells of patches.

The planes are gradients, local binary patterns and Gabor energies.  A mean over a cell takes four
look-ups in an integral plane, so patches of any size cost the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import matmul
from typing import Any

import cv2
import joblib
import numpy as np
import scipy.fft
import scipy.sparse
from skimage.feature import local_binary_pattern
from skimage.measure import label as connected_regions
from skimage.segmentation import slic
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from structboost._typing import AnyArray, ByteArray, FloatArray, IntArray, ShortArray, SingleArray
from structboost.progress import ProgressLine
from structboost.runtime.compiled import compiled, one_blas_thread
from structboost.vision.images import Photograph, ReadWhenUsed, Shape, as_grey, grid_points, slopes

N_ORIENTATIONS = 9
N_PATTERNS = 10
_GABOR_SCALES = 4
_GABOR_ORIENTATIONS = 8
N_GABOR_PLANES = _GABOR_SCALES * _GABOR_ORIENTATIONS
# Highest frequency in cycles per pixel; each further scale halves it.
_TOP_FREQUENCY = 0.25
# Grey levels added to the norm of a patch, so that flat patches stay small.
_FLAT = 4.0


def gradient_planes(grey: ByteArray) -> SingleArray:
    """Compute the length of the gradient by unsigned orientation, shape (height, width, 9).

    Each gradient is divided between its two nearest orientations.
    """
    out = np.zeros((*grey.shape, N_ORIENTATIONS), np.float32)
    _spread_gradients(*slopes(grey), out)
    return out


def pattern_planes(grey: ByteArray) -> SingleArray:
    """Compute the uniform local binary pattern (8 points, radius 1) of each pixel, one-hot."""
    codes = local_binary_pattern(grey, 8, 1, "uniform").astype(np.int64)
    return np.asarray(np.eye(N_PATTERNS, dtype=np.float32)[codes])


def gabor_planes(grey: ByteArray) -> SingleArray:
    """Compute Gabor energies at 4 scales and 8 orientations, shape (height, width, 32)."""
    height, width = grey.shape
    pad = 16
    values = np.pad(
        np.log1p(grey.astype(np.float32)), pad, mode="reflect" if min(grey.shape) > pad else "edge"
    )
    shape = tuple(scipy.fft.next_fast_len(size) for size in values.shape)
    spectrum = scipy.fft.fft2(values - values.mean(), shape)
    out = np.empty((height, width, N_GABOR_PLANES), np.float32)
    for k, transfer in enumerate(_gabor_transfers(shape)):
        out[:, :, k] = np.abs(scipy.fft.ifft2(spectrum * transfer))[pad:, pad:][:height, :width]
    return out


def patch_cells(integrals: AnyArray, centres: FloatArray, size: float, grid: int) -> SingleArray:
    """Average planes over the cells of square patches, shape (n_patches, grid * grid * n_planes).

    Patches have sides of ``size`` pixels around their centres, x and y.  Cells outside the image
    are moved to its edge.  ``integrals`` has the shape (height + 1, width + 1, n_planes).
    """
    out = np.empty((len(centres), grid, grid, integrals.shape[2]), np.float32)
    _fill_cells(integrals, np.ascontiguousarray(centres), float(size), out)
    return out.reshape(len(centres), -1)


def normalised(cells: SingleArray) -> SingleArray:
    """Normalise patches, clip them at 0.2 and normalise again, as in HOG and SIFT."""
    rows = cells / (np.linalg.norm(cells, axis=1, keepdims=True) + _FLAT)
    np.minimum(rows, 0.2, out=rows)
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 0.05))


@lru_cache(maxsize=4)
def _gabor_transfers(shape: tuple[int, int]) -> list[Any]:
    """Return one-sided Gaussians in frequency, whose response has the energy as its modulus."""
    fy = scipy.fft.fftfreq(shape[0])[:, None].astype(np.float32)
    fx = scipy.fft.fftfreq(shape[1])[None, :].astype(np.float32)
    transfers = []
    for scale in range(_GABOR_SCALES):
        centre = _TOP_FREQUENCY / 2**scale
        for turn in range(_GABOR_ORIENTATIONS):
            angle = np.pi * turn / _GABOR_ORIENTATIONS
            along = fx * np.cos(angle) + fy * np.sin(angle) - centre
            across = -fx * np.sin(angle) + fy * np.cos(angle)
            transfers.append(
                np.exp(-(along**2 / (2 * (centre / 3) ** 2)) - across**2 / (2 * (centre / 4) ** 2))
            )
    return transfers


@compiled
def _spread_gradients(gx: SingleArray, gy: SingleArray, out: SingleArray) -> None:
    height, width, n = out.shape
    for y in range(height):
        for x in range(width):
            length = np.sqrt(gx[y, x] * gx[y, x] + gy[y, x] * gy[y, x])
            if length == 0.0:
                continue
            angle = np.arctan2(gy[y, x], gx[y, x])
            if angle < 0.0:
                angle += np.pi
            place = angle / np.pi * n
            low = int(place)
            weight = place - low
            out[y, x, low % n] += length * (1.0 - weight)
            out[y, x, (low + 1) % n] += length * weight


@compiled
def _fill_cells(integrals: FloatArray, centres: FloatArray, size: float, out: SingleArray) -> None:
    n, grid, _, n_planes = out.shape
    height, width = integrals.shape[0] - 1, integrals.shape[1] - 1
    cell = size / grid
    for p in range(n):
        for i in range(grid):
            top, bottom = _span(centres[p, 1] - size / 2 + i * cell, cell, height)
            for j in range(grid):
                left, right = _span(centres[p, 0] - size / 2 + j * cell, cell, width)
                area = (bottom - top) * (right - left)
                for k in range(n_planes):
                    total = (
                        integrals[bottom, right, k]
                        - integrals[top, right, k]
                        - integrals[bottom, left, k]
                        + integrals[top, left, k]
                    )
                    out[p, i, j, k] = total / area


@compiled
def _span(start: float, length: float, limit: int) -> tuple[int, int]:
    """Return first pixel and end of a cell along one axis, moved inside the image."""
    first = int(np.floor(start + 0.5))
    end = max(first + 1, int(np.floor(start + length + 0.5)))
    first = min(max(first, 0), limit - 1)
    return first, max(min(end, limit), first + 1)


# Among 5, 10, 20 with and without smoothing, these values lose the fewest pixels to superpixels
# that lie across an outline.
_COMPACTNESS = 20.0
_SMOOTHING = 1.0


def superpixels(image: ByteArray, n_segments: int) -> ShortArray:
    """Compute SLIC superpixels of an RGB image, with indices 0..n-1 of connected ones.

    SLIC returns fewer than ``n_segments`` where the image is small or noisy, down to one.
    """
    segments = slic(
        image, n_segments=n_segments, compactness=_COMPACTNESS, sigma=_SMOOTHING, start_label=1
    )
    return np.asarray(connected_regions(segments, connectivity=1) - 1, np.int32)


def checked_superpixels(values: Any, shape: Shape) -> ShortArray:
    """Check the superpixels of a user's function, and number them 0..n-1.

    ValueError if they have another shape than the image, or are not whole numbers.
    """
    labels = np.asarray(values)
    if labels.shape != shape or labels.dtype.kind not in "iu":
        raise ValueError(
            f"superpixels(image) returned {labels.dtype} of shape {labels.shape} for an image of "
            f"shape {shape}; give a whole number for each pixel."
        )
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32)


def adjacency(labels: AnyArray, values: AnyArray) -> tuple[IntArray, FloatArray, SingleArray]:
    """Find which superpixels touch, along how many pixels, and with which step of values.

    ``labels`` are indices 0..n-1, and ``values`` planes of the same height and width.

    Returns
    -------
    edges : ndarray of int64, shape (n_edges, 2)
        Lower index first, each pair once, in lexicographic order.
    boundaries : ndarray of float64, shape (n_edges,)
        Shared boundary length, in pairs of 4-neighbours of which each has one pixel.
    contrasts : ndarray of float32, shape (n_edges,)
        Mean distance of the values of these pairs.
    """
    n, labels = int(labels.max()) + 1, labels.astype(np.int64)
    keys, steps = [], []
    for here, there in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        differ = labels[here] != labels[there]
        a, b = labels[here][differ], labels[there][differ]
        keys.append(np.minimum(a, b) * n + np.maximum(a, b))
        steps.append(np.linalg.norm(values[here][differ] - values[there][differ], axis=1))
    pairs, places, counts = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
    sums = np.bincount(places, np.concatenate(steps), len(pairs))
    edges = np.column_stack(np.divmod(pairs, n))
    return edges, counts.astype(np.float64), (sums / counts).astype(np.float32)


def neighbourhood(image: DescribedImage, steps: int) -> scipy.sparse.csr_array:
    """Return a matrix of 0 and 1 of the superpixels at most ``steps`` edges apart."""
    n, ones = image.n_superpixels, np.ones(len(image.edges), np.float32)
    near = scipy.sparse.csr_array((ones, image.edges.T), shape=(n, n))
    near = near + near.T + scipy.sparse.eye_array(n, dtype=np.float32, format="csr")
    reach = reduce(matmul, [near] * steps)
    reach.data[:] = 1.0
    return reach.tocsr()


def region_means(labels: ShortArray, planes: AnyArray) -> FloatArray:
    """Average each plane over each superpixel, shape (n_superpixels, n_planes)."""
    regions = labels.ravel()
    by_plane = np.asarray(planes, np.float32).reshape(len(regions), -1).T
    sums = np.column_stack([np.bincount(regions, plane) for plane in by_plane])
    return sums / np.bincount(regions)[:, None]


def label_counts(labels: ShortArray, mask: ByteArray, n_labels: int) -> IntArray:
    """Count the pixels of each class in each superpixel, without void ones.

    Returns
    -------
    ndarray of int64, shape (n_superpixels, n_labels)
    """
    n = int(labels.max()) + 1
    is_labelled = mask < n_labels
    keys = labels[is_labelled].astype(np.int64) * n_labels + mask[is_labelled]
    return np.bincount(keys, minlength=n * n_labels).reshape(n, n_labels)


OWN = "own"  # name of a user's features among those of an image

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
# Planes by cells.
_PATCH_WIDTHS = {
    "hog": _GRID**2 * N_ORIENTATIONS,
    "lbp": _GRID**2 * N_PATTERNS,
    "gist": _GIST_GRID**2 * N_GABOR_PLANES,
}
# Features of each group that needs no codebook.
GROUP_WIDTHS = {
    "colour": 2 * 8 + 6 * _COLOUR_BINS,  # means and stds of eight planes, and six histograms
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

    labels: ShortArray
    sizes: IntArray
    positions: SingleArray
    colours: SingleArray
    edges: IntArray
    boundaries: FloatArray
    contrasts: SingleArray
    features: dict[str, AnyArray]
    points: IntArray
    point_descriptors: ByteArray

    @property
    def n_superpixels(self) -> int:
        """Number of superpixels."""
        return len(self.sizes)

    def geometry(self) -> DescribedImage:
        """Return the superpixels without pixels and features, which take most of the memory."""
        names = "labels", "points", "point_descriptors"
        return replace(self, features={}, **{name: getattr(self, name)[:0] for name in names})


Describing = Callable[[Photograph], DescribedImage]


def describe(
    image: Photograph,
    n_segments: int,
    own_superpixels: Callable[[Photograph], Any] | None = None,
    own_features: Callable[[Photograph, ShortArray], Any] | None = None,
) -> DescribedImage:
    """Compute the superpixels of an RGB image, which of them touch, and their features.

    See section 4.5 of StructBoost.  There are about ``n_segments`` superpixels, unless
    ``own_superpixels(image)`` returns them in place of SLIC.  ``own_features(image, labels)``
    returns rows of a user's features of the superpixels.
    """
    image = np.ascontiguousarray(image)
    if own_superpixels is None:
        labels = superpixels(image, n_segments)
    else:
        labels = checked_superpixels(own_superpixels(image), image.shape[:2])
    centres = region_means(labels, np.indices(labels.shape).transpose(1, 2, 0))[:, ::-1]
    rgb, grey = image.astype(np.float32) / 255, as_grey(image)
    luv = cv2.cvtColor(rgb, cv2.COLOR_RGB2Luv)
    # Entry (r, c) of an integral plane sums rows below r and columns below c.
    gradients, patterns, energies = (
        cv2.integral(planes(grey)) for planes in (gradient_planes, pattern_planes, gabor_planes)
    )
    groups = {"colour": _colour_features(rgb, luv, labels)}
    for size in PATCH_SIZES:
        side = size * (max(labels.shape) / _REFERENCE_SIDE)
        groups[f"hog_{size}"] = normalised(patch_cells(gradients, centres, side, _GRID))
        groups[f"lbp_{size}"] = patch_cells(patterns, centres, side, _GRID)
        groups[f"gist_{size}"] = patch_cells(energies, centres, side, _GIST_GRID)
    features: dict[str, AnyArray] = {name: rows.astype(np.float16) for name, rows in groups.items()}
    if own_features is not None:
        features[OWN] = _checked_features(own_features(image, labels), len(centres))
    return DescribedImage(
        labels,
        np.bincount(labels.ravel()),
        ((centres + 0.5) / labels.shape[::-1]).astype(np.float32),
        region_means(labels, luv).astype(np.float32),
        *adjacency(labels, luv),
        features,
        *_point_descriptors(labels, gradients),
    )


def _checked_features(values: Any, n: int) -> SingleArray:
    """Return the rows of a user's function, or raise ValueError unless each is finite."""
    rows = np.asarray(values, np.float32)
    if rows.ndim != 2 or len(rows) != n:
        raise ValueError(
            f"features(image, labels) returned shape {rows.shape} for {n} superpixels; give one "
            "row for each."
        )
    if not np.isfinite(rows).all():
        raise ValueError("features(image, labels) returned numbers that are not finite.")
    return rows


def _colour_features(rgb: AnyArray, luv: AnyArray, labels: ShortArray) -> AnyArray:
    """Compute means and stds in RGB, LUV and HSV, and histograms in HSV and LUV."""
    hsv = cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)
    planes = np.concatenate((rgb, luv / 100, hsv[:, :, 1:]), axis=2)
    means = region_means(labels, planes)
    stds = np.sqrt(np.maximum(region_means(labels, planes**2) - means**2, 0.0))
    unit = np.dstack((hsv / _HSV_RANGE, luv / _LUV_RANGE + _LUV_SHIFT))
    bins = np.clip((unit * _COLOUR_BINS).astype(np.int64), 0, _COLOUR_BINS - 1)
    counts = [label_counts(labels, plane, _COLOUR_BINS) for plane in np.moveaxis(bins, 2, 0)]
    fractions = np.hstack(counts) / np.bincount(labels.ravel())[:, None]
    return np.hstack((means, stds, fractions))


def _point_descriptors(labels: ShortArray, gradients: AnyArray) -> tuple[IntArray, ByteArray]:
    """Compute the superpixels of grid points, and gradient histograms around the points."""
    scale = max(labels.shape) / _REFERENCE_SIDE
    step = max(1, round(_WORD_STEP * scale))
    ys, xs = (np.arange(min(step // 2, size - 1), size, step) for size in labels.shape)
    grid = grid_points(xs, ys)
    rows = normalised(patch_cells(gradients, grid.astype(np.float64), _WORD_PATCH * scale, _GRID))
    descriptors = np.minimum(rows * 512, 255).astype(np.uint8)
    return labels[grid[:, 1], grid[:, 0]].astype(np.int64), descriptors


def learn_codebook(
    images: Sequence[DescribedImage], n_words: int = N_WORDS, random_state: int = 0
) -> SingleArray:
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
        return np.asarray(means.fit(points).cluster_centers_)


def word_histograms(image: DescribedImage, codebook: SingleArray) -> SingleArray:
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
    around = neighbourhood(image, _WORD_REACH) @ counts.reshape(n, -1).astype(np.float32)
    return np.asarray(around / np.maximum(around.sum(axis=1, keepdims=True), 1.0))


_STEPS = (1, 2, 4)
_COLOUR_WIDTHS = (8.0, 20.0)  # standard deviations in LUV
_COLOUR_REACH = 0.25  # of the narrow one, as a fraction of the image
# Weights of the image's mean, which fills in where a neighbourhood is small.
_RARE_COLOUR = 1e-4
_RARE_DIRECTION = 0.02
# Numbers of averages in :func:`surroundings` and of columns in :func:`place_and_colour`.
N_SURROUNDINGS = len(_STEPS) + 3 + 4 + 1
N_OF_PLACE = 18


def surroundings(image: DescribedImage, probabilities: FloatArray) -> FloatArray:
    """Average the labels' probabilities around each superpixel, shape (n, 11, n_labels).

    The averages are over superpixels at most 1, 2, 4 steps away; of the same colour nearby, of the
    same colour, of a similar colour; left, right, above, below; over the whole image.
    """
    areas = image.sizes / image.sizes.sum()
    blocks = [neighbour_means(image, probabilities, steps) for steps in _STEPS]
    blocks += [
        _kernel_means(kernel, probabilities, areas, _RARE_COLOUR)
        for kernel in _colour_kernels(image, areas)
    ]
    x, y = image.positions.astype(np.float64).T
    dx, dy = x - x[:, None], y - y[:, None]
    blocks += [
        _kernel_means((along > np.abs(across)) * areas, probabilities, areas, _RARE_DIRECTION)
        for along, across in ((-dx, dy), (dx, dy), (-dy, dx), (dy, dx))
    ]
    blocks.append(np.broadcast_to(areas @ probabilities, probabilities.shape))
    return np.stack(blocks, axis=1)


def neighbour_means(image: DescribedImage, values: FloatArray, steps: int) -> FloatArray:
    """Compute area-weighted means over the superpixels at most ``steps`` edges away."""
    reach = neighbourhood(image, steps)
    sizes = image.sizes[:, None].astype(np.float64)
    return np.asarray((reach @ (values * sizes)) / (reach @ sizes))


def place_and_colour(image: DescribedImage) -> FloatArray:
    """Return place and colour of each superpixel, shape (n, 18).

    The columns are its position, its colour, the difference from the colours of the image and of
    the neighbours, how common the colour is, and its relative size.
    """
    x, y = image.positions.astype(np.float64).T
    colours = image.colours.astype(np.float64)
    areas = image.sizes / image.sizes.sum()
    alike = [kernel.sum(axis=1) for kernel in _colour_kernels(image, areas)]
    across, down = x - 0.5, y - 0.5
    contrast = colours - areas @ colours, colours - neighbour_means(image, colours, 2)
    places = x, y, np.abs(across), np.abs(down), np.hypot(across, down)
    return np.column_stack((*places, colours, *contrast, *alike, areas * len(areas)))


def _colour_kernels(image: DescribedImage, areas: FloatArray) -> list[FloatArray]:
    """Return weights of other superpixels by area and colour, nearby and everywhere."""
    distance = squared_distances(image.colours.astype(np.float64))
    near = np.exp(-squared_distances(image.positions.astype(np.float64)) / (2 * _COLOUR_REACH**2))
    narrow, wide = _COLOUR_WIDTHS
    kernels = []
    for width, reach in ((narrow, near), (narrow, 1.0), (wide, 1.0)):
        kernel = np.exp(-distance / (2 * width**2)) * reach * areas
        np.fill_diagonal(kernel, 0.0)  # its probability is a potential already
        kernels.append(kernel)
    return kernels


def _kernel_means(kernel: Any, values: FloatArray, areas: FloatArray, rare: float) -> FloatArray:
    """Compute weighted means, in which the mean of the image has the weight ``rare``."""
    return np.asarray(
        (kernel @ values + rare * (areas @ values)) / (kernel.sum(axis=1, keepdims=True) + rare)
    )


def squared_distances(rows: FloatArray) -> FloatArray:
    """Compute the squared distances of all pairs of rows."""
    squares = (rows**2).sum(axis=1)
    return np.asarray(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0.0))


def stored_images(
    images: Sequence[Photograph],
    describing: Describing,
    folder: str,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Sequence[DescribedImage]:
    """Describe images in processes, and return a sequence that reads them from a folder.

    A line on standard error shows the progress if ``verbose``.
    """
    files = [f"{folder}/{index}" for index in range(len(images))]
    described = joblib.Parallel(n_jobs, return_as="generator")(
        joblib.delayed(_store)(describing, image, index, file)
        for index, (image, file) in enumerate(zip(images, files, strict=True))
    )
    with ProgressLine("superpixels and features", len(images), verbose) as line:
        for _ in described:
            line.step()
    return ReadWhenUsed(files, joblib.load)


def _store(describing: Describing, image: Photograph, index: int, file: str) -> None:
    try:
        joblib.dump(describing(image), file)
    except Exception as error:
        error.add_note(f"Raised for images[{index}].")
        raise
