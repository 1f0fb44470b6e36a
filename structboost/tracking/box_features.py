"""Features of boxes, computed from integral planes of grey values, gradients and colours.

The planes are made once per frame.  A sum over a rectangle is then four look-ups, so a feature
costs the same for any size of box, and only the features that a model uses need to be computed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from structboost._typing import AnyArray, ByteArray, FloatArray, IntArray, ShortArray, SingleArray
from structboost.runtime.compiled import compiled
from structboost.vision.images import Pixels, Shape, as_grey, as_rgb, resized, slopes

# Colours are looked up in a cube of 32 levels per channel.
_LEVELS = 32
# Pixels of the image that are read, about, and pixels drawn from them for k-means.
_MAX_CONVERTED, _MAX_PIXELS = 300_000, 3000
# Pixels whose channels differ by less, in grey levels, count as grey.
_NEARLY_GREY = 8


class ColourPalette:
    """Palette of a few colours, the centres of k-means on an image's pixels.

    Distances are measured in CIE L*a*b* in colour images, and in grey levels in grey ones.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width) or (height, width, 3)
        The object and its surroundings, grey or RGB.
    n_colours : int
        Number of colours; half as many are used for a grey image.
    random_state : int
        Seed for the pixels drawn and for k-means.

    Attributes
    ----------
    n_colours : int
    is_coloured : bool
        False where all pixels are nearly grey.
    """

    def __init__(self, image: Pixels, n_colours: int, random_state: int) -> None:
        # All pixels of a box of a megapixel would take seconds.
        step = math.ceil(math.sqrt(image.shape[0] * image.shape[1] / _MAX_CONVERTED))
        image = np.ascontiguousarray(image[::step, ::step])
        self.is_coloured = image.ndim == 3 and bool(
            np.ptp(image.astype(np.int64), axis=2).max() > _NEARLY_GREY
        )
        pixels = self._coordinates(image)
        rng = np.random.RandomState(random_state)
        drawn = pixels[rng.permutation(len(pixels))[:_MAX_PIXELS]]
        wanted = n_colours if self.is_coloured else max(2, n_colours // 2)
        self.n_colours = min(wanted, len(np.unique(drawn, axis=0)))
        with threadpool_limits(1):
            k_means = KMeans(self.n_colours, n_init=1, random_state=random_state).fit(drawn)
        middle = np.arange(_LEVELS) * (256 // _LEVELS) + 128 // _LEVELS
        if self.is_coloured:
            cube = np.stack(np.meshgrid(middle, middle, middle, indexing="ij"), axis=-1)
            places = self._coordinates(cube.astype(np.uint8).reshape(-1, 1, 3))
        else:
            places = np.arange(256.0)[:, None]
        distances = ((places[:, None] - k_means.cluster_centers_) ** 2).sum(axis=2)
        self._nearest: ByteArray = distances.argmin(axis=1).astype(np.uint8)

    def labels(self, image: Pixels) -> ByteArray:
        """Return the index of the nearest colour of each pixel, shape (height, width)."""
        if not self.is_coloured:
            return self._nearest[as_grey(image)]
        level = as_rgb(image).astype(np.int32) >> 3
        entry = (level[..., 0] * _LEVELS + level[..., 1]) * _LEVELS + level[..., 2]
        return np.asarray(self._nearest[entry])

    def _coordinates(self, image: Pixels) -> AnyArray:
        """Return the coordinates in which distances are measured, shape (n_pixels, 3 or 1)."""
        if self.is_coloured:
            return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2LAB), np.float64).reshape(-1, 3)
        return np.asarray(as_grey(image), np.float64).reshape(-1, 1)


GREY_GRID = 12
GRADIENT_GRID = 6
COLOUR_GRID = 4
N_ORIENTATIONS = 9
# Gradients and colours have one more cell on each side, because surroundings show where an object
# ends.
# Added to the std of grey values and to the mean gradient, in grey levels, for flat boxes.
_FLAT = 4.0
# Gradients are summed as integers, in eighths of a grey level: sums are exact, and those over the
# whole plane may wrap around.
_FINENESS = 8.0
_GREY, _GREY_SQUARE, _GRADIENT = 0, 1, 2
_ORIENTATION = 3
_COLOUR = _ORIENTATION + N_ORIENTATIONS
# Edges of the cells along one side of a box, in box lengths: of grey, gradients and colours.  Those
# of gradients go on by one more cell, for the means around cells.
_EDGES = np.concatenate(
    (
        np.arange(GREY_GRID + 1) / GREY_GRID,
        np.arange(-2, GRADIENT_GRID + 3) / GRADIENT_GRID,
        np.arange(-1, COLOUR_GRID + 2) / COLOUR_GRID,
    )
)
# Edge where the first cell begins, which lies outside of the box.
_GRADIENT_EDGE = GREY_GRID + 2
_COLOUR_EDGE = GREY_GRID + 1 + GRADIENT_GRID + 5


class Planes(NamedTuple):
    """Integral planes of a region of a frame.

    Parameters
    ----------
    sums : ndarray of int32, shape (n_planes, height + 1, width + 1)
        Entry (k, r, c) is the sum over rows below r and columns below c.  Planes: grey values,
        their squares, gradient lengths, the same by orientation, pixels by colour of the palette.
    corner : (int, int)
        Left and top pixel of the region in the frame.
    scale : (float, float)
        Pixels of the planes per pixel of the frame, across and down.
    """

    sums: ShortArray
    corner: tuple[int, int]
    scale: tuple[float, float]


def frame_planes(
    image: Pixels, near: FloatArray, far: FloatArray, palette: ColourPalette, scale: float = 1.0
) -> Planes:
    """Compute the integral planes of the part of a frame from ``near`` to ``far``, both (x, y).

    The part is cut to the frame, which it meets, and resized by ``scale`` first.
    """
    left, top, right, bottom = part_of(image.shape, near, far)
    size = max(2, round(scale * (right - left))), max(2, round(scale * (bottom - top)))
    part = resized(image[top:bottom, left:right], size)
    grey = as_grey(part)
    sums = np.zeros((_COLOUR + palette.n_colours, size[1] + 1, size[0] + 1), np.int32)
    _integrate(grey, *slopes(grey), palette.labels(part), sums)
    return Planes(sums, (left, top), (size[0] / (right - left), size[1] / (bottom - top)))


def part_of(shape: Shape, near: FloatArray, far: FloatArray) -> list[int]:
    """Return the left, top, right and bottom pixel of a part of a frame of a shape, cut to it."""
    first, last = np.maximum(np.floor(near), 0), np.minimum(np.ceil(far), shape[1::-1])
    corners: list[int] = np.concatenate((first, last)).astype(int).tolist()
    return corners


def box_features(
    planes: Planes, boxes: FloatArray, selected: IntArray | None = None
) -> SingleArray:
    """Compute the ``selected`` features of boxes, by default all, shape (n_boxes, n_selected).

    The first 144 are the mean grey values of 12 x 12 cells, less the mean of the box and divided by
    its std.  The lengths of gradients by 9 orientations in 6 x 6 cells and a ring around the box
    follow, divided by the mean length in and around the cell.  The last features are the fractions
    of each colour in 4 x 4 cells and a ring.  Grey values and gradients do not depend on brightness
    and contrast.
    """
    cells = _cells(len(planes.sums) - _COLOUR)
    cells = cells if selected is None else cells[selected]
    starts, sides = (boxes[:, :2] - planes.corner) * planes.scale, boxes[:, 2:] * planes.scale
    exact = starts.T[:, None] + _EDGES[:, None] * sides.T[:, None]
    last = np.array(planes.sums.shape[:0:-1])[:, None, None] - 1
    columns, rows = np.clip(np.floor(exact + 0.5), 0, last).astype(np.int32, order="C")
    out = np.empty((len(cells), len(boxes)), np.float32)
    _fill(planes.sums, columns, rows, cells, out)
    return out.T


@lru_cache(maxsize=8)
def _cells(n_colours: int) -> IntArray:
    """List plane, first and last edge across, first and last edge down of each feature."""
    grids = (
        (_GREY, 1, 0, GREY_GRID),
        (_ORIENTATION, N_ORIENTATIONS, _GRADIENT_EDGE, GRADIENT_GRID + 2),
        (_COLOUR, n_colours, _COLOUR_EDGE, COLOUR_GRID + 2),
    )
    rows = [
        (plane + k, edge + c, edge + c + 1, edge + r, edge + r + 1)
        for plane, n_planes, edge, size in grids
        for r in range(size)
        for c in range(size)
        for k in range(n_planes)
    ]
    return np.array(rows, np.int64)


@compiled
def _integrate(
    grey: ByteArray, gx: SingleArray, gy: SingleArray, labels: ByteArray, sums: ShortArray
) -> None:
    """Fill the integral planes, where each gradient counts for its two nearest orientations."""
    height, width = grey.shape
    for r in range(height):
        for c in range(width):
            value = np.int32(grey[r, c])
            sums[_GREY, r + 1, c + 1] = value
            sums[_GREY_SQUARE, r + 1, c + 1] = value * value
            dx, dy = np.float64(gx[r, c]), np.float64(gy[r, c])
            length = np.sqrt(dx * dx + dy * dy)
            if length > 0.0:
                angle = np.arctan2(dy, dx) / np.pi * N_ORIENTATIONS
                low = int(np.floor(angle))
                whole = np.int32(np.floor(_FINENESS * length + 0.5))
                upper = np.int32(np.floor((angle - low) * whole + 0.5))
                sums[_GRADIENT, r + 1, c + 1] = whole
                sums[_ORIENTATION + low % N_ORIENTATIONS, r + 1, c + 1] = whole - upper
                sums[_ORIENTATION + (low + 1) % N_ORIENTATIONS, r + 1, c + 1] = upper
            sums[_COLOUR + labels[r, c], r + 1, c + 1] = 1
    for k in range(len(sums)):
        plane = sums[k]
        for r in range(height):
            row = np.int32(0)
            for c in range(width):
                row = np.int32(row + plane[r + 1, c + 1])
                plane[r + 1, c + 1] = np.int32(row + plane[r, c + 1])


@compiled
def _fill(
    sums: ShortArray, columns: ShortArray, rows: ShortArray, cells: IntArray, out: SingleArray
) -> None:
    """Look up features of cells cut to the region, where an empty cell counts as 0."""
    n_boxes = columns.shape[1]
    mean, spread = np.empty(n_boxes), np.empty(n_boxes)
    for i in range(n_boxes):
        left, right = columns[0, i], columns[GREY_GRID, i]
        top, bottom = rows[0, i], rows[GREY_GRID, i]
        count = (right - left) * (bottom - top)
        mean[i], spread[i] = 0.0, -1.0
        if count > 0:
            mean[i] = _sum(sums[_GREY], left, top, right, bottom) / count
            square = _sum(sums[_GREY_SQUARE], left, top, right, bottom) / count
            spread[i] = np.sqrt(max(square - mean[i] * mean[i], 0.0)) + _FLAT
    for f in range(len(cells)):
        k, x0, x1, y0, y1 = cells[f]
        plane = sums[k]
        for i in range(n_boxes):
            left, right, top, bottom = columns[x0, i], columns[x1, i], rows[y0, i], rows[y1, i]
            count = (right - left) * (bottom - top)
            if count <= 0 or spread[i] < 0.0:
                out[f, i] = 0.0
                continue
            value = _sum(plane, left, top, right, bottom) / count
            if k == _GREY:
                value = (value - mean[i]) / spread[i]
            elif k < _COLOUR:
                left, right = columns[x0 - 1, i], columns[x1 + 1, i]
                top, bottom = rows[y0 - 1, i], rows[y1 + 1, i]
                count = (right - left) * (bottom - top)
                around = _sum(sums[_GRADIENT], left, top, right, bottom) / count
                value /= around + _FLAT * _FINENESS
            out[f, i] = value


@compiled(inline="always")
def _sum(plane: ShortArray, left: int, top: int, right: int, bottom: int) -> float:
    """Sum a plane over a rectangle, correctly even where the plane has wrapped around."""
    return np.float64(
        np.int32(plane[bottom, right] - plane[top, right] - plane[bottom, left] + plane[top, left])
    )
