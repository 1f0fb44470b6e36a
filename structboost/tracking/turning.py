"""By how much an object has turned in the image plane, told from its motion frame by frame."""

from __future__ import annotations

from structboost.tracking.object_motion import ObjectMotion

# A turn begins with one of so many radians a frame, and is one after so many in a row; what is seen of a face that
# turns away also moves like that, but not for long.
_LEAST = 0.05
_IN_A_ROW = 3
# So many times the spread of the angle is beyond doubt where nothing turned yet; while something turns, so many.
_SURE_TIMES, _LIKELY_TIMES = 5.0, 2.0
_LARGEST = 0.5
_LARGEST_SPREAD = 0.05
# An object that turned less, with half of that spread, has stopped.
_STOPPED = 0.02
# While it turns, it goes on for so many frames in which nothing can be told, but for no more than half as many as have
# been seen.
_MAX_COAST = 10


class Turning:
    """Angle of an object.

    The first steps of a turn are taken at once, and back where others do not follow.

    Attributes
    ----------
    angle : float
        Radians from x towards y, against the first frame.
    turning : bool
        Whether it turns.
    """

    def __init__(self) -> None:
        self.angle = 0.0
        self.turning = False
        self._last = 0.0
        self._before = 0.0  # the angle before the steps in a row
        self._in_a_row = 0
        self._n_seen = 0
        self._n_unknown = 0

    @property
    def begun(self) -> bool:
        """Whether it turns, or seems to."""
        return self.turning or self._in_a_row > 0

    def proposed(self, motion: ObjectMotion | None) -> float:
        """Angle in the next frame, if the motion tells the truth; :meth:`decide` has to follow."""
        if motion is None or abs(motion.angle) > _LARGEST:
            step, spread = 0.0, _LARGEST
        else:
            step, spread = motion.angle, motion.angle_spread
        return self._gone_on(step, spread) if self.turning else self._begun(step, spread)

    def decide(self, angle: float, accepted: bool) -> None:
        """Whether the object looks at the proposed angle as it should."""
        if accepted:
            self.angle = angle
            if self._in_a_row == _IN_A_ROW and not self.turning:
                self.turning, self._n_seen, self._n_unknown = True, _IN_A_ROW, 0
        elif not self.turning:
            self._rest()

    def _begun(self, step: float, spread: float) -> float:
        alike = not self._in_a_row or step * self._last > 0
        if abs(step) > max(_LEAST, _SURE_TIMES * spread) and alike:
            self._in_a_row += 1
            self._last = step
            return self.angle + step
        self._in_a_row = 0
        return self._before

    def _gone_on(self, step: float, spread: float) -> float:
        if spread < _LARGEST_SPREAD and abs(step) > _LIKELY_TIMES * spread:
            self._last, self._n_unknown = step, 0
            self._n_seen += 1
        else:
            self._n_unknown += 1
        stopped = spread < 0.5 * _LARGEST_SPREAD and abs(step) < _STOPPED
        if stopped or self._n_unknown > min(_MAX_COAST, self._n_seen // 2):
            self._rest()
            return self.angle
        return self.angle + self._last

    def _rest(self) -> None:
        """What it has turned by now counts."""
        self.turning = False
        self._before = self.angle
        self._in_a_row = 0
