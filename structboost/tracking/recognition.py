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
# Shares of the usual margin that a lost object reaches near its last place and elsewhere, and the
# least such margin.
_NEAR_MARGIN, _FAR_MARGIN, _LEAST_MARGIN = 0.5, 0.4, 0.2
# Share of the usual score near its last place.  What moved with the object, as the hand that holds
# it, was learned in part: it stands out there as much as the object, but has a lower score.
_NEAR_SCORE = 0.5
# What has less than that margin elsewhere, but at least this share of it, counts by its share.
_WEAK = 0.7
# Sum of such shares, each at most 1, over frames in a row.  Rubbish learned once is found ever
# after; what comes back among things like it stands out little, but in every frame.
_ENOUGH = 3.0


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
        self._evidence = 0.0

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
        if is_near:
            least_margin = max(_NEAR_MARGIN * self.usual_margin, _LEAST_MARGIN)
            usual_score = float(np.median(self._scores)) if len(self._scores) > _FEWEST else 0.0
            least_score = max(_NEAR_SCORE * usual_score, 0.0)
            stands_out = found.margin > least_margin and found.score > least_score
        else:
            stands_out = self._share(found) > _WEAK
        if stands_out:
            self.candidate, self._evidence = box, self._share(found)

    def confirm(self, found: Found, box: FloatArray) -> bool:
        """Whether the candidate, found at ``box`` in the next frame, is the object for certain.

        An object that has changed while it was away, and goes on changing, scores ever less until
        it is learned.  So it need not stand out as much as at first.
        """
        share = self._share(found)
        self.candidate = box if share > _WEAK else None
        self._evidence += share
        return self.candidate is not None and self._evidence >= _ENOUGH

    def _share(self, found: Found) -> float:
        """Margin over that of an object that comes back elsewhere, at most 1.

        A box that scores less than nothing is not the object.
        """
        if found.score <= 0.0:
            return 0.0
        return min(1.0, found.margin / max(_FAR_MARGIN * self.usual_margin, _LEAST_MARGIN))
