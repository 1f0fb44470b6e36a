"""Motion of an object between two frames by the median flow of points in its box.

Kalal, Mikolajczyk and Matas, "Forward-Backward Error" (ICPR 2010).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.tracking.object_search import size_of
from structboost.vision.images import Pixels, as_grey

# Points on each side of a grid in the box, whose border shows mostly background.
_GRID = np.linspace(0.2, 0.8, 8)
# Surroundings of the box that are read, in sizes of the object, and the pixels to which the
# object is reduced.
_REACH = 0.9
_FLOW_SIZE = 48.0
_WINDOW = (11, 11)
_LEVELS = 3
# Points must come back when followed backwards: to within this, in sizes of the object, and nearer
# than half of them.
_BACK_WITHIN = 0.04
_FEWEST = 12
_EXACT = 1e-3
# Pairs of points this far apart, in sizes, show how the object rotated and grew.
_PAIR = 0.25


class ObjectMotion(NamedTuple):
    """Motion of an object in the image plane.

    Parameters
    ----------
    shift : ndarray, shape (2,)
        Pixels right and down.
    log_size, angle : float
        Logarithm of its growth, and radians of its rotation, from x towards y.
    size_spread, angle_spread : float
        Median absolute deviation of both over pairs of points: small where the object moves as one
        thing.
    """

    shift: FloatArray
    log_size: float
    size_deviation: float
    angle: float
    angle_deviation: float


def object_motion(before: Pixels, now: Pixels, box: FloatArray) -> ObjectMotion | None:
    """Estimate the motion of the object in ``box`` by the optical flow of a grid of points.

    Returns None if too few points can be followed.
    """
    if before.shape[:2] != now.shape[:2]:
        return None
    size = size_of(box)
    near = np.maximum(np.floor(box[:2] - _REACH * size), 0).astype(int)
    far = np.minimum(np.ceil(box[:2] + box[2:] + _REACH * size), before.shape[1::-1]).astype(int)
    scale = min(_FLOW_SIZE / size, 1.0)
    if (far - near).min() * scale < _WINDOW[0]:
        return None
    one, other = (
        _reduce(image[near[1] : far[1], near[0] : far[0]], scale) for image in (before, now)
    )
    down, across = (grid.ravel() for grid in np.meshgrid(_GRID, _GRID, indexing="ij"))
    places = (box[:2] + np.column_stack((across, down)) * box[2:] - near) * scale
    points = places.astype(np.float32)
    moved, reliable = _follow(one, other, points, scale * size)
    if reliable.sum() < _FEWEST:
        return None
    return _motion_of(
        points[reliable].astype(np.float64), moved[reliable].astype(np.float64), scale, size
    )


def _reduce(image: Pixels, scale: float) -> Pixels:
    grey = as_grey(image)
    if scale == 1.0:
        return grey
    return np.asarray(cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def _follow(
    one: Pixels, other: Pixels, points: NDArray[np.float32], size: float
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the places of points in the other image, and which of them can be trusted."""
    nowhere: NDArray[np.float32] = np.zeros_like(points[:, None])
    flow = partial(cv2.calcOpticalFlowPyrLK, winSize=_WINDOW, maxLevel=_LEVELS)
    there, seen, _ = flow(one, other, points[:, None], nowhere)
    back, again, _ = flow(other, one, there, nowhere.copy())
    error = np.hypot(*(back[:, 0] - points).T) / size
    followed = (seen[:, 0] > 0) & (again[:, 0] > 0)
    limit = max(float(np.median(error[followed])), _EXACT) if followed.any() else 0.0
    return np.asarray(there[:, 0], np.float32), followed & (error <= min(limit, _BACK_WITHIN))


def _motion_of(
    points: FloatArray, moved: FloatArray, scale: float, size: float
) -> ObjectMotion | None:
    """Take medians over points and over pairs, whose change is a complex factor."""
    i, j = np.triu_indices(len(points), 1)
    were, are = points[j] - points[i], moved[j] - moved[i]
    apart = np.hypot(*were.T) > _PAIR * scale * size
    if apart.sum() < _FEWEST:
        return None
    factors = _complex(are[apart]) / _complex(were[apart])
    log_sizes, angles = np.log(np.maximum(np.abs(factors), 1e-3)), np.angle(factors)
    shift = np.median(moved - points, axis=0) / scale
    return ObjectMotion(shift, *_median_and_deviation(log_sizes), *_median_and_deviation(angles))


def _complex(rows: FloatArray) -> NDArray[np.complex128]:
    return np.ascontiguousarray(rows).view(np.complex128)[:, 0]


def _median_and_deviation(values: FloatArray) -> tuple[float, float]:
    middle = float(np.median(values))
    return middle, float(np.median(np.abs(values - middle)))
