"""Features of boxes, from planes that are made once a frame: mean grey values and histograms of oriented gradients.

A sum over a rectangle is four look-ups in an integral plane, so that a feature costs the same for any size of box, and
only the features that a model uses need to be computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

GREY_GRID = 12
GRADIENT_GRID = 6
N_ORIENTATIONS = 9
N_GREY = GREY_GRID**2
N_FEATURES = N_GREY + GRADIENT_GRID**2 * N_ORIENTATIONS
# Added to the spread of grey values and to the mean gradient, in grey levels: flat boxes are not blown up.
_FLAT = 4.0


class Planes(NamedTuple):
    """Integral planes of a region of a frame; entry (r, c) is the sum over rows below r and columns below c.

    Parameters
    ----------
    grey : ndarray of float64, shape (height + 1, width + 1, 2)
        Of the grey values, and of their squares.
    gradients : ndarray of float64, shape (height + 1, width + 1, N_ORIENTATIONS + 1)
        Of the gradients' lengths by orientation, and of all of them.
    left, top : int
        Where the region lies in the frame.
    """

    grey: NDArray[np.float64]
    gradients: NDArray[np.float64]
    left: int
    top: int


@dataclass(frozen=True)
class FrameBoxes:
    """Candidate boxes of one frame, their features computed when asked for (:class:`structboost.BoxOverlapTask`).

    Parameters
    ----------
    boxes : ndarray, shape (n_boxes, 4)
        x, y, width, height, in pixels of the frame.
    planes : Planes
        Of a region; what of a box lies outside counts as if it were not there.
    """

    boxes: NDArray[np.float64]
    planes: Planes

    def features(self, selected: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Shape (n_boxes, N_FEATURES), or the selected ones."""
        return box_features(self.planes, self.boxes, selected)


def frame_planes(image: NDArray[Any], region: tuple[int, int, int, int] | None = None) -> Planes:
    """Integral planes of a frame, or of a region of it.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width) or (height, width, 3)
        Grey or BGR.
    region : (int, int, int, int), optional
        x, y, width and height of what is needed; it is cut to the frame.

    Raises
    ------
    ValueError
        If the image has another shape or type, or the region lies outside of it.
    """
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise ValueError(f"image has shape {image.shape} and type {image.dtype}; give 8 bit, grey or BGR.")
    left, top, right, bottom = _cut(region, image.shape)
    part = image[top:bottom, left:right]
    grey = np.asarray(part if part.ndim == 2 else cv2.cvtColor(part, cv2.COLOR_BGR2GRAY), np.float32)
    gx = np.asarray(cv2.Sobel(grey, cv2.CV_32F, 1, 0, ksize=1), np.float32)
    gy = np.asarray(cv2.Sobel(grey, cv2.CV_32F, 0, 1, ksize=1), np.float32)
    shape = (grey.shape[0] + 1, grey.shape[1] + 1)
    planes = Planes(np.zeros((*shape, 2)), np.zeros((*shape, N_ORIENTATIONS + 1)), left, top)
    _integrate(grey, gx, gy, planes.grey, planes.gradients)
    return planes


def box_features(
    planes: Planes, boxes: NDArray[np.float64], selected: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """Features of boxes.

    The first 144 are mean grey values of a 12 x 12 grid, less the mean of the box and over its spread; the others are
    6 x 6 cells of 9 orientations, the gradients' lengths over their mean in the box.  Both are invariant to brightness
    and contrast.

    Parameters
    ----------
    planes : Planes
    boxes : ndarray, shape (n_boxes, 4)
    selected : ndarray of int64, optional
        Which features, in which order; default all.

    Returns
    -------
    features : ndarray of float32, shape (n_boxes, n_selected)
    """
    which = np.arange(N_FEATURES) if selected is None else np.asarray(selected, np.int64)
    if len(which) and not 0 <= which.min() <= which.max() < N_FEATURES:
        raise ValueError(f"selected goes from {which.min()} to {which.max()}; there are {N_FEATURES} features.")
    out = np.empty((len(boxes), len(which)), np.float32)
    origin = np.array([planes.left, planes.top], np.float64)
    _fill(planes.grey, planes.gradients, np.ascontiguousarray(boxes, np.float64), origin, which, out)
    return out


def _cut(region: tuple[int, int, int, int] | None, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what of the region lies in the image."""
    height, width = shape[:2]
    x, y, w, h = (0, 0, width, height) if region is None else region
    left, top, right, bottom = max(0, x), max(0, y), min(width, x + w), min(height, y + h)
    if left >= right or top >= bottom:
        raise ValueError(f"region is {region}; nothing of it lies in the image of {width} x {height} pixels.")
    return left, top, right, bottom


@njit(cache=True, nogil=True)
def _integrate(
    grey: NDArray[np.float32],
    gx: NDArray[np.float32],
    gy: NDArray[np.float32],
    grey_plane: NDArray[np.float64],
    gradient_plane: NDArray[np.float64],
) -> None:
    """Fill the integral planes in one pass; a gradient is shared out to its two nearest orientations."""
    height, width = grey.shape
    row_grey = np.zeros(2)
    row_gradient = np.zeros(N_ORIENTATIONS + 1)
    for r in range(height):
        row_grey[:] = 0.0
        row_gradient[:] = 0.0
        for c in range(width):
            value = np.float64(grey[r, c])
            row_grey[0] += value
            row_grey[1] += value * value
            dx, dy = np.float64(gx[r, c]), np.float64(gy[r, c])
            length = np.sqrt(dx * dx + dy * dy)
            if length > 0.0:
                angle = np.arctan2(dy, dx) / np.pi * N_ORIENTATIONS
                low = int(np.floor(angle))
                share = angle - low
                row_gradient[low % N_ORIENTATIONS] += (1.0 - share) * length
                row_gradient[(low + 1) % N_ORIENTATIONS] += share * length
                row_gradient[N_ORIENTATIONS] += length
            for k in range(2):
                grey_plane[r + 1, c + 1, k] = grey_plane[r, c + 1, k] + row_grey[k]
            for k in range(N_ORIENTATIONS + 1):
                gradient_plane[r + 1, c + 1, k] = gradient_plane[r, c + 1, k] + row_gradient[k]


@njit(cache=True, nogil=True)
def _fill(
    grey: NDArray[np.float64],
    gradients: NDArray[np.float64],
    boxes: NDArray[np.float64],
    origin: NDArray[np.float64],
    selected: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Features of each box by look-ups; cells are cut to the region, an empty one counts as the mean of the box."""
    for i in range(len(boxes)):
        x, y = boxes[i, 0] - origin[0], boxes[i, 1] - origin[1]
        w, h = boxes[i, 2], boxes[i, 3]
        count = _count(grey, x, y, w, h)
        if count == 0:
            out[i] = 0.0
            continue
        mean = _sum(grey, 0, x, y, w, h) / count
        spread = np.sqrt(max(_sum(grey, 1, x, y, w, h) / count - mean * mean, 0.0)) + _FLAT
        gradient = _sum(gradients, N_ORIENTATIONS, x, y, w, h) / count + _FLAT
        for j in range(len(selected)):
            f = selected[j]
            if f < N_GREY:
                r, c, grid = f // GREY_GRID, f % GREY_GRID, GREY_GRID
            else:
                cell = (f - N_GREY) // N_ORIENTATIONS
                r, c, grid = cell // GRADIENT_GRID, cell % GRADIENT_GRID, GRADIENT_GRID
            cx, cy, cw, ch = x + c * w / grid, y + r * h / grid, w / grid, h / grid
            inside = _count(grey, cx, cy, cw, ch)
            if inside == 0:
                out[i, j] = 0.0
            elif f < N_GREY:
                out[i, j] = (_sum(grey, 0, cx, cy, cw, ch) / inside - mean) / spread
            else:
                orientation = (f - N_GREY) % N_ORIENTATIONS
                out[i, j] = _sum(gradients, orientation, cx, cy, cw, ch) / inside / gradient


@njit(cache=True, nogil=True, inline="always")
def _bounds(start: float, length: float, limit: int) -> tuple[int, int]:
    """First and last (excluded) pixel of an interval, at least one where it lies inside at all."""
    first = int(np.floor(start + 0.5))
    last = max(int(np.floor(start + length + 0.5)), first + 1)
    return min(max(first, 0), limit), min(max(last, 0), limit)


@njit(cache=True, nogil=True)
def _count(plane: NDArray[np.float64], x: float, y: float, w: float, h: float) -> int:
    """Pixels of a rectangle that lie in the region."""
    left, right = _bounds(x, w, plane.shape[1] - 1)
    top, bottom = _bounds(y, h, plane.shape[0] - 1)
    return (right - left) * (bottom - top)


@njit(cache=True, nogil=True)
def _sum(plane: NDArray[np.float64], k: int, x: float, y: float, w: float, h: float) -> float:
    """Sum of plane ``k`` over a rectangle."""
    left, right = _bounds(x, w, plane.shape[1] - 1)
    top, bottom = _bounds(y, h, plane.shape[0] - 1)
    total: float = plane[bottom, right, k] - plane[top, right, k] - plane[bottom, left, k] + plane[top, left, k]
    return total
