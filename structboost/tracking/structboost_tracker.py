"""The StructBoost tracker (sections 3.5 and 4.4 of StructBoost)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost.tracking.box_sampling import Boxes
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.kept_frames import KeptFrames
from structboost.tracking.online_boosting import OnlineStructBoost, StumpVote
from structboost.validation import checked_positive

# Least share of the first frames, the only ones whose box is known, in the risk.
_FIRST_SHARE = 0.2
# Trainings: the first one with time, the others with little.
_FIRST_ROUNDS, _ROUNDS = 20, 1
_FIRST_TOLERANCE, _TOLERANCE = 0.03, 0.1
_FIRST_CUTS, _CUTS = 10, 3
_COLUMNS_PER_ROUND = 80


class StructBoostTracker(BoxTracker):
    """Stumps trained for the overlap of boxes, by column generation that goes on from frame to frame.

    Training minimises the 1-slack risk (9) of the loss ``1 - intersection / union`` (21) over the first frames and the
    60 most recent ones learned from, with a ridge that spreads the weight over many stumps.  Cuts, columns and
    multipliers stay warm; a training after a new frame takes 10 to 20 ms.

    Parameters
    ----------
    C : float
        Weight of the risk.
    ridge : float
        Of the squares of the weights.
    n_stumps : int
        Stumps held at most.
    n_kept : int
        Frames kept, the first ones included.
    n_boxes, every, lost_below, random_state
        As in :class:`structboost.tracking.box_tracker.BoxTracker`.

    Examples
    --------
    >>> from structboost.tracking import StructBoostTracker
    >>> from structboost.tracking.made_clip import made_clip
    >>> clip = made_clip(3)
    >>> tracker = StructBoostTracker().init(clip.frames[0], clip.boxes[0])
    >>> tracker.update(clip.frames[1]).shape
    (4,)
    """

    def __init__(
        self,
        *,
        C: float = 30.0,
        ridge: float = 300.0,
        n_stumps: int = 900,
        n_kept: int = 60,
        n_boxes: int = 200,
        every: int = 2,
        lost_below: float = 0.1,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_boxes=n_boxes, every=every, lost_below=lost_below, random_state=random_state)
        self.C = checked_positive(C, "C")
        self.ridge = checked_positive(ridge, "ridge")
        self.n_stumps = int(checked_positive(n_stumps, "n_stumps"))
        self.n_kept = int(checked_positive(n_kept, "n_kept"))
        if self.n_kept < 10:
            raise ValueError(f"n_kept is {n_kept!r}; give at least 10.")

    def _begin(self, n_features: int) -> None:
        frames = KeptFrames(self.n_kept, self.n_boxes, n_features, _FIRST_SHARE)
        self._learner = OnlineStructBoost(
            frames, C=self.C, ridge=self.ridge, max_columns=self.n_stumps, columns_per_round=_COLUMNS_PER_ROUND
        )

    def _take_in(self, features: NDArray[np.float32], boxes: Boxes, shares: NDArray[np.float64], first: bool) -> None:
        self._learner.add(features, 1.0 - shares, first=first)

    def _train(self, *, initial: bool) -> None:
        if initial:
            self._learner.train(_FIRST_ROUNDS, _FIRST_TOLERANCE, _FIRST_CUTS)
        else:
            self._learner.train(_ROUNDS, _TOLERANCE, _CUTS)

    def _learned(self) -> StumpVote:
        return self._learner.vote()
