"""Recognition of a lost object by the margins and scores that it used to have."""

from __future__ import annotations

from collections import deque

import numpy as np

from structboost._typing import FloatArray
from structboost.tracking.object_search import BoxMatch

# The usual value is the median of so many frames, or a first guess of the margin.
_RECENT = 60
_FEWEST = 3
_FIRST_MARGIN = 0.3
# Fractions of the usual margin that a lost object reaches near its last place and elsewhere, and
# the least such margin.
_NEAR_MARGIN, _FAR_MARGIN, _LEAST_MARGIN = 0.5, 0.4, 0.2
# Fraction of the usual score near its last place.  Things that moved with the object, such as the
# hand that holds it, were learned in part: they stand out as much, but have a lower score.
_NEAR_SCORE = 0.5
# A box elsewhere with at least this fraction of that margin counts by its fraction.
_WEAK = 0.7
# Sum of such fractions, each at most 1, over frames in a row.  Background learned once appears
# again and again; an object among similar ones stands out little, but in every frame.
_ENOUGH = 3.0


class Recognition:
    """Margins and scores of an object while it was seen, and a candidate since it is lost.

    Attributes
    ----------
    candidate : ndarray of shape (4,) or None
        Box in the last frame that may show the lost object.
    """

    def __init__(self) -> None:
        self._margins: deque[float] = deque(maxlen=_RECENT)
        self._scores: deque[float] = deque(maxlen=_RECENT)
        self.candidate: FloatArray | None = None
        self._evidence = 0.0

    @property
    def usual_margin(self) -> float:
        """Median of the margins of the object."""
        return float(np.median(self._margins)) if len(self._margins) > _FEWEST else _FIRST_MARGIN

    def record(self, match: BoxMatch) -> None:
        """Record the match of an object that is not lost."""
        self._margins.append(match.margin)
        self._scores.append(match.score)
        self.candidate = None

    def propose(self, match: BoxMatch, box: FloatArray, *, is_near: bool) -> None:
        """Make a match, at ``box`` in the frame, the candidate if it stands out.

        ``is_near`` is true near the object's last place.
        """
        if is_near:
            least_margin = max(_NEAR_MARGIN * self.usual_margin, _LEAST_MARGIN)
            usual_score = float(np.median(self._scores)) if len(self._scores) > _FEWEST else 0.0
            least_score = max(_NEAR_SCORE * usual_score, 0.0)
            stands_out = match.margin > least_margin and match.score > least_score
        else:
            stands_out = self._fraction(match) > _WEAK
        if stands_out:
            self.candidate, self._evidence = box, self._fraction(match)

    def confirm(self, match: BoxMatch, box: FloatArray) -> bool:
        """Whether the candidate, at ``box`` in the next frame, is the object for certain.

        An object that has changed while it was away, and goes on changing, scores ever less until
        it is learned.  So the margin may be smaller than at first.
        """
        fraction = self._fraction(match)
        self.candidate = box if fraction > _WEAK else None
        self._evidence += fraction
        return self.candidate is not None and self._evidence >= _ENOUGH

    def _fraction(self, match: BoxMatch) -> float:
        """Divide the margin by the usual one of an object that comes back, at most 1.

        A box with a negative score is not the object.
        """
        if match.score <= 0.0:
            return 0.0
        return min(1.0, match.margin / max(_FAR_MARGIN * self.usual_margin, _LEAST_MARGIN))
