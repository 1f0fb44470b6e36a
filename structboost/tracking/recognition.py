"""How far an object stands out as a rule, and whether a lost one is back."""

from __future__ import annotations

from collections import deque

import numpy as np

from structboost._typing import FloatArray
from structboost.tracking.object_search import Found

# What is usual: the median of so many frames, or a first guess of the margin.
_RECENT = 60
_FEWEST = 3
_FIRST_MARGIN = 0.3
# Shares of the usual margin that a lost object must reach near its last place and elsewhere, and
# the least such margin.
_NEAR_MARGIN, _FAR_MARGIN, _LEAST_MARGIN = 0.5, 0.4, 0.2
# Share of the usual score near its last place.  What moved with the object, as the hand that holds
# it, was learned in part: it stands out there as much as the object, but has a lower score.
_NEAR_SCORE = 0.5
# Frames in a row, after the first, that must confirm it: rubbish learned once is found ever after.
_CONFIRMED = 2


class Recognition:
    """Margins and scores of an object while it was seen, and where it may be since it is lost.

    Attributes
    ----------
    candidate : ndarray of shape (4,) or None
        Box in the last frame of what may be the lost object.
    """

    def __init__(self) -> None:
        self._margins: deque[float] = deque(maxlen=_RECENT)
        self._scores: deque[float] = deque(maxlen=_RECENT)
        self.candidate: FloatArray | None = None
        self._n_confirmed = 0

    @property
    def usual_margin(self) -> float:
        """By how much this object stands out as a rule."""
        return float(np.median(self._margins)) if len(self._margins) > _FEWEST else _FIRST_MARGIN

    def seen(self, found: Found) -> None:
        """The object was seen in a frame, and is not lost."""
        self._margins.append(found.margin)
        self._scores.append(found.score)
        self.candidate = None

    def propose(self, found: Found, box: FloatArray, *, is_near: bool) -> None:
        """Take what was found in a frame, at ``box`` there, for a candidate if it stands out.

        ``is_near`` says that this is near the object's last place.
        """
        if self._stands_out(found, is_near=is_near):
            self.candidate, self._n_confirmed = box, 0

    def confirm(self, found: Found, box: FloatArray) -> bool:
        """Whether the candidate, found at ``box`` in the next frame, is the object for certain.

        An object that has changed while it was away, and goes on changing, scores ever less until
        it is learned.  So it need not stand out as much as at first.
        """
        self._n_confirmed += 1
        self.candidate = box if self._stands_out(found, is_near=False) else None
        return self.candidate is not None and self._n_confirmed == _CONFIRMED

    def _stands_out(self, found: Found, *, is_near: bool) -> bool:
        share = _NEAR_MARGIN if is_near else _FAR_MARGIN
        least_margin = max(share * self.usual_margin, _LEAST_MARGIN)
        usual_score = float(np.median(self._scores)) if len(self._scores) > _FEWEST else 0.0
        least_score = max(_NEAR_SCORE * usual_score, 0.0) if is_near else 0.0
        return found.margin > least_margin and found.score > least_score
