"""Where the object is in a frame: places around the last one, then sizes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from structboost.inference.box_search import boxes_around, overlaps
from structboost.tracking.box_features import Planes, box_features
from structboost.tracking.box_sampling import Boxes, moved, size_of

# The region searched is resized so that the object has this size, in pixels: every video costs the same.
WORKING_SIZE = 40.0
# Steps of the search, in working pixels: all of the disc, then around the best.
_COARSE_STEP = 2.0
_FINE_STEP = 1.0
_FINE_RADIUS = 3.2
# Of a place's or a size's weight in the mean over those tried: the fall of the score that divides it by e.
_SOFTNESS = 0.05
# Boxes that overlap less than this are rivals of the object, not itself a little displaced.
RIVAL_OVERLAP = 0.3
# Score of a box that lies exactly where the object's motion leads, against one that lies elsewhere.
_MOTION_BONUS = 0.3
# Logarithms of the sizes tried.  The better one is approached by a share of the way: sizes drift more easily than
# places.
_LOG_SIZES = 0.04 * np.arange(-4, 5)
_SIZE_SHARE = 0.3
SMALLEST_SIDE = 3.0  # pixels


class BoxScorer(Protocol):
    """What a learner has learned: scores of boxes from the features it selected."""

    @property
    def selected(self) -> NDArray[np.int64]:
        """Features to compute."""

    def scores(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores, shape (n_boxes,), from shape (n_boxes, n_selected)."""


class Found(NamedTuple):
    """The best box.

    Parameters
    ----------
    box : ndarray, shape (4,)
    score : float
    margin : float
        By how much it beats every rival, which is a box elsewhere.
    """

    box: Boxes
    score: float
    margin: float


def best_box(
    scorer: BoxScorer, planes: Planes, box: Boxes, radius: float, shape: tuple[int, ...], expected: Boxes | None
) -> Found:
    """The best place within ``radius`` of ``box``.

    Parameters
    ----------
    scorer : BoxScorer
    planes : Planes
    box : ndarray, shape (4,)
    radius : float
        Pixels.
    shape : tuple of int
        Of the image in which the boxes are.
    expected : ndarray, shape (4,), optional
        Where the object's motion leads.
    """
    pixel = size_of(box) / WORKING_SIZE
    coarse = boxes_around(box, radius, _COARSE_STEP * pixel, shape)
    scores = box_scores(scorer, planes, coarse)
    start = coarse[np.argmax(scores + _bonus(coarse, expected))]
    rivals = scores[overlaps(start, coarse) < RIVAL_OVERLAP]
    fine = boxes_around(start, _FINE_RADIUS * pixel, _FINE_STEP * pixel, shape)
    fine_scores = box_scores(scorer, planes, fine)
    wanted = fine_scores + _bonus(fine, expected)
    score = float(fine_scores[np.argmax(wanted)])
    return Found(_expected(fine, wanted), score, score - (float(rivals.max()) if len(rivals) else score - 1.0))


def resized(scorer: BoxScorer, planes: Planes, box: Boxes) -> Boxes:
    """The box a part of the way to the mean of the sizes that score best, and at their place."""
    pixel = size_of(box) / WORKING_SIZE
    dy, dx = (grid.ravel() * pixel for grid in np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], indexing="ij"))
    centres = np.tile(box[:2] + 0.5 * box[2:] + np.column_stack((dx, dy)), (len(_LOG_SIZES), 1))
    log_sizes = np.repeat(_LOG_SIZES, len(dx))
    scores = box_scores(scorer, planes, moved(box, centres, np.exp(log_sizes)))
    log_size, x, y = _expected(np.column_stack((log_sizes, centres)), scores)
    sides = np.exp(_SIZE_SHARE * log_size) * box[2:]
    if sides.min() < SMALLEST_SIDE:
        return box
    return np.concatenate(([x, y] - 0.5 * sides, sides))


def box_scores(scorer: BoxScorer, planes: Planes, boxes: Boxes) -> NDArray[np.float64]:
    """Scores of boxes, from no more features than needed."""
    return scorer.scores(box_features(planes, boxes, scorer.selected))


def _bonus(boxes: Boxes, expected: Boxes | None) -> NDArray[np.float64]:
    return np.zeros(len(boxes)) if expected is None else _MOTION_BONUS * overlaps(expected, boxes)


def _expected(rows: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean row: the best one alone is a little off by chance, and what is learned of it stays off."""
    weights = np.exp((scores - scores.max()) / _SOFTNESS)
    return np.asarray(weights @ rows / weights.sum(), np.float64)
