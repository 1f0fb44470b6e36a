"""Motion and rotation of an object between two frames, and views rotated back with it.

The motion is the median flow of points in the box (Kalal, Mikolajczyk and Matas, "Forward-Backward
Error", ICPR 2010).
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
    size_deviation, angle_deviation : float
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
    first, second = (
        cv2.resize(
            as_grey(image[near[1] : far[1], near[0] : far[0]]),
            None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA,
        )
        for image in (before, now)
    )  # fmt: skip
    down, across = (grid.ravel() for grid in np.meshgrid(_GRID, _GRID, indexing="ij"))
    places = (box[:2] + np.column_stack((across, down)) * box[2:] - near) * scale
    points = places.astype(np.float32)[:, None]
    nowhere: NDArray[np.float32] = np.zeros_like(points)
    flow = partial(cv2.calcOpticalFlowPyrLK, winSize=_WINDOW, maxLevel=_LEVELS)
    there, seen, _ = flow(first, second, points, nowhere)
    back, again, _ = flow(second, first, there, nowhere.copy())
    error = np.hypot(*(back - points)[:, 0].T) / (scale * size)
    followed = (seen[:, 0] > 0) & (again[:, 0] > 0)
    limit = max(float(np.median(error[followed])), _EXACT) if followed.any() else 0.0
    reliable = followed & (error <= min(limit, _BACK_WITHIN))
    if reliable.sum() < _FEWEST:
        return None
    # Medians over points and over pairs, whose change is a complex factor.
    were, are = (ends[reliable, 0].astype(np.float64) for ends in (points, there))
    i, j = np.triu_indices(len(were), 1)
    pairs = [ends[j] - ends[i] for ends in (were, are)]
    apart = np.hypot(*pairs[0].T) > _PAIR * scale * size
    if apart.sum() < _FEWEST:
        return None
    old, new = (pair[apart].view(np.complex128)[:, 0] for pair in pairs)
    factors = new / old
    sizes = _median_and_deviation(np.log(np.maximum(np.abs(factors), 1e-3)))
    angles = _median_and_deviation(np.angle(factors))
    return ObjectMotion(np.median(are - were, axis=0) / scale, *sizes, *angles)


def _median_and_deviation(values: FloatArray) -> tuple[float, float]:
    middle = float(np.median(values))
    return middle, float(np.median(np.abs(values - middle)))


# A rotation begins with a step of so many radians per frame, and is certain after so many steps in
# a row, because a face that turns away looks the same at first.
_LEAST = 0.05
_IN_A_ROW = 3
# A step counts if it is so many times the deviation of the angle, before and during a rotation.
_SURE_TIMES, _LIKELY_TIMES = 5.0, 2.0
_LARGEST = 0.5
_LARGEST_DEVIATION = 0.05
# An object that rotated less, with half of that deviation, has stopped.
_STOPPED = 0.02
# A rotation continues through at most so many unclear frames, and through at most half as many as
# were clear.
_MAX_COAST = 10


class Rotation:
    """Angle of an object, estimated from its motion frame by frame.

    The first steps of a rotation are applied at once, and undone where others do not follow.

    Attributes
    ----------
    angle : float
        Radians from x towards y, against the first frame.
    is_known : bool
        Whether the object certainly rotates.
    """

    def __init__(self) -> None:
        self.angle = 0.0
        self.is_known = False
        self._last = 0.0
        self._before = 0.0  # the angle before the steps in a row
        self._in_a_row = self._n_unknown = 0

    @property
    def has_begun(self) -> bool:
        """Whether the object rotates, or seems to."""
        return self._in_a_row > 0

    def propose(self, motion: ObjectMotion | None) -> float:
        """Propose the angle in the next frame by its motion, before a call of :meth:`decide`."""
        step, deviation = 0.0, _LARGEST
        if motion is not None and abs(motion.angle) <= _LARGEST:
            step, deviation = motion.angle, motion.angle_deviation
        if not self.is_known:
            same_way = not self._in_a_row or step * self._last > 0
            if abs(step) > max(_LEAST, _SURE_TIMES * deviation) and same_way:
                self._in_a_row += 1
                self._last = step
                return self.angle + step
            self._in_a_row = 0
            return self._before
        if deviation < _LARGEST_DEVIATION and abs(step) > _LIKELY_TIMES * deviation:
            self._last, self._n_unknown = step, 0
            self._in_a_row += 1
        else:
            self._n_unknown += 1
        stopped = deviation < 0.5 * _LARGEST_DEVIATION and abs(step) < _STOPPED
        if stopped or self._n_unknown > min(_MAX_COAST, self._in_a_row // 2):
            self._rest()
            return self.angle
        return self.angle + self._last

    def decide(self, angle: float, accepted: bool) -> None:
        """Accept or reject the proposed angle, by the object's score there."""
        if accepted:
            self.angle = angle
            if self._in_a_row == _IN_A_ROW and not self.is_known:
                self.is_known, self._n_unknown = True, 0
        elif not self.is_known:
            self._rest()

    def _rest(self) -> None:
        self.is_known = False
        self._before = self.angle
        self._in_a_row = 0


class RotatedView(NamedTuple):
    """Surroundings of an object, rotated back with it, and the affine map to the frame."""

    image: Pixels
    to_frame: FloatArray

    def box_in_frame(self, box: FloatArray) -> FloatArray:
        """Move the centre of a box from the view to the frame."""
        centre = _product(self.to_frame[:, :2], box[:2] + 0.5 * box[2:]) + self.to_frame[:, 2]
        return np.concatenate((centre - 0.5 * box[2:], box[2:]))

    def shift_in_view(self, shift: FloatArray) -> FloatArray:
        """Turn a displacement in the frame, shape (2,), into one in the view."""
        return _product(self.to_frame[:, :2].T, shift)


def rotated_view(
    frame: Pixels, box: FloatArray, angle: float, reach: FloatArray
) -> tuple[RotatedView, FloatArray]:
    """Return the surroundings of a box, ``reach`` pixels beyond its sides, and the box in them.

    At an angle of 0 the view is the frame itself.  Beyond the frame its border is repeated.
    """
    if angle == 0.0:
        return RotatedView(frame, np.eye(2, 3)), box
    half = np.ceil(0.5 * box[2:] + reach)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    to_frame = np.column_stack((turn, box[:2] + 0.5 * box[2:] - _product(turn, half)))
    sides = int(2 * half[0]), int(2 * half[1])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    image = cv2.warpAffine(frame, to_frame, sides, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    in_view = np.concatenate((half - 0.5 * box[2:], box[2:]))
    return RotatedView(np.asarray(image, np.uint8), to_frame), in_view


def _product(matrix: FloatArray, point: FloatArray) -> FloatArray:
    """Return ``matrix @ point``, added in one order on every machine."""
    return np.asarray(matrix[:, 0] * point[0] + matrix[:, 1] * point[1], np.float64)
