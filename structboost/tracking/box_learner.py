"""Interface between a tracker and its learner, and the vote that stump learners return."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


class BoxScorer(Protocol):
    """Model that scores boxes by the features that it selects."""

    @property
    def selected(self) -> IntArray:
        """Indices of the features to compute."""

    def scores(self, features: NDArray[np.float32]) -> FloatArray:
        """Score boxes.

        Parameters
        ----------
        features : ndarray of float32, shape (n_boxes, n_selected)
            Features at the indices :attr:`selected`, in that order.

        Returns
        -------
        scores : ndarray, shape (n_boxes,)
            The larger a score, the more a box looks like the object.
        """


class BoxLearner(Protocol):
    """Online learner of the boxes that show the object, used by :class:`BoxTracker`."""

    def begin(self, n_boxes: int, n_features: int, random: np.random.RandomState) -> None:
        """Forget all frames before a new object is learned.

        Parameters
        ----------
        n_boxes : int
            Number of boxes that each frame will have.
        n_features : int
            Number of features that each box will have.
        random : RandomState
            Source of the learner's random numbers.
        """

    def add(self, features: NDArray[np.float32], boxes: FloatArray, *, first: bool) -> None:
        """Add a frame to the training set.

        Parameters
        ----------
        features : ndarray of float32, shape (n_boxes, n_features)
            Features of the boxes.
        boxes : ndarray, shape (n_boxes, 4)
            x, y, width, height in pixels; the first is the object.
        first : bool
            Whether the user gave the object's box, as in the first frame.
        """

    def train(self, *, initial: bool) -> BoxScorer:
        """Learn from the frames so far.

        Requires at least one call of :meth:`add` since :meth:`begin`.

        Parameters
        ----------
        initial : bool
            Whether there is time, as after the first frame.

        Returns
        -------
        scorer : BoxScorer
            The true box should score about 1 higher than boxes elsewhere: confidence is the
            difference.
        """


class StumpVote(NamedTuple):
    """Weighted vote of stumps, a :class:`BoxScorer`.

    Stump k splits feature ``selected[places[k]]`` at ``thresholds[k]``; ``votes[k]`` is added up to
    the threshold and subtracted above.
    """

    selected: IntArray
    places: IntArray
    thresholds: NDArray[np.float32]
    votes: NDArray[np.float32]

    def scores(self, features: NDArray[np.float32]) -> FloatArray:
        """Score boxes by their selected features, shape (n_boxes, n_selected)."""
        out = np.zeros(len(features), np.float32)
        _vote(features.T, self.places, self.thresholds, self.votes, out)
        return out.astype(np.float64)


def stump_vote(features: IntArray, thresholds: NDArray[np.float32], votes: FloatArray) -> StumpVote:
    """Return the vote of stumps on ``features``, which computes each feature once."""
    selected, places = np.unique(features, return_inverse=True)
    return StumpVote(
        selected, places.astype(np.int64), thresholds.astype(np.float32), votes.astype(np.float32)
    )


@compiled
def _vote(
    features: NDArray[np.float32],
    places: IntArray,
    thresholds: NDArray[np.float32],
    votes: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    for k in range(len(places)):
        row = features[places[k]]
        for i in range(len(out)):
            out[i] += votes[k] if row[i] <= thresholds[k] else -votes[k]
