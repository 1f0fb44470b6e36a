"""What a tracker asks of its learner, and the vote that learners of stumps give it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


class BoxScorer(Protocol):
    """What a learner has learned: scores of boxes from the features that it selected."""

    @property
    def selected(self) -> IntArray:
        """Numbers of the features to compute."""

    def scores(self, features: NDArray[np.float32]) -> FloatArray:
        """Scores of boxes.

        Parameters
        ----------
        features : ndarray of float32, shape (n_boxes, n_selected)
            The features that :attr:`selected` names, in its order.

        Returns
        -------
        scores : ndarray, shape (n_boxes,)
            Larger is more like the object.
        """


class BoxLearner(Protocol):
    """Learns online which boxes are the object; :class:`BoxTracker` does the rest."""

    def begin(self, n_boxes: int, n_features: int, random: np.random.RandomState) -> None:
        """Forget everything; a new object will be learned.

        Parameters
        ----------
        n_boxes : int
            Number of boxes that each frame will have.
        n_features : int
            Number of features that each box will have.
        random : RandomState
            Source of all that the learner draws.
        """

    def add(self, features: NDArray[np.float32], boxes: FloatArray, *, first: bool) -> None:
        """Take in a frame.

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
    """A weighted vote of stumps: :class:`BoxScorer`.

    Stump k splits feature ``selected[places[k]]`` at ``thresholds[k]``; ``votes[k]`` is added up to
    the threshold and subtracted above.
    """

    selected: IntArray
    places: IntArray
    thresholds: NDArray[np.float32]
    votes: NDArray[np.float32]

    def scores(self, features: NDArray[np.float32]) -> FloatArray:
        """Scores of boxes from their selected features, shape (n_boxes, n_selected)."""
        out = np.zeros(len(features), np.float32)
        _vote(features.T, self.places, self.thresholds, self.votes, out)
        return out.astype(np.float64)


def stump_vote(features: IntArray, thresholds: NDArray[np.float32], votes: FloatArray) -> StumpVote:
    """The vote of stumps on ``features``, each feature to be computed once."""
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
