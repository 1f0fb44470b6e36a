"""Rotation of objects in the image plane, and views rotated back with them."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

from structboost._typing import FloatArray
from structboost.tracking.object_motion import ObjectMotion
from structboost.vision.images import Pixels

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
        self._in_a_row = 0
        self._n_seen = 0
        self._n_unknown = 0

    @property
    def has_begun(self) -> bool:
        """Whether the object rotates, or seems to."""
        return self.is_known or self._in_a_row > 0

    def propose(self, motion: ObjectMotion | None) -> float:
        """Propose the angle in the next frame by its motion, before a call of :meth:`decide`."""
        if motion is None or abs(motion.angle) > _LARGEST:
            step, deviation = 0.0, _LARGEST
        else:
            step, deviation = motion.angle, motion.angle_deviation
        return self._continue(step, deviation) if self.is_known else self._begin(step, deviation)

    def decide(self, angle: float, accepted: bool) -> None:
        """Accept or reject the proposed angle, by the object's score there."""
        if accepted:
            self.angle = angle
            if self._in_a_row == _IN_A_ROW and not self.is_known:
                self.is_known, self._n_seen, self._n_unknown = True, _IN_A_ROW, 0
        elif not self.is_known:
            self._rest()

    def _begin(self, step: float, deviation: float) -> float:
        same_way = not self._in_a_row or step * self._last > 0
        if abs(step) > max(_LEAST, _SURE_TIMES * deviation) and same_way:
            self._in_a_row += 1
            self._last = step
            return self.angle + step
        self._in_a_row = 0
        return self._before

    def _continue(self, step: float, deviation: float) -> float:
        if deviation < _LARGEST_DEVIATION and abs(step) > _LIKELY_TIMES * deviation:
            self._last, self._n_unknown = step, 0
            self._n_seen += 1
        else:
            self._n_unknown += 1
        stopped = deviation < 0.5 * _LARGEST_DEVIATION and abs(step) < _STOPPED
        if stopped or self._n_unknown > min(_MAX_COAST, self._n_seen // 2):
            self._rest()
            return self.angle
        return self.angle + self._last

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
