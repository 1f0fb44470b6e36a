"""Search of the object in a frame, over places and then sizes, and choice of training boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from structboost._typing import FloatArray
from structboost.inference.boxes import boxes_around, overlaps
from structboost.tracking.box_features import Planes, box_features
from structboost.tracking.box_learner import BoxScorer

# Size to which the object is resized before the search, in pixels, so that every video costs the
# same.
WORKING_SIZE = 40.0
# Steps of the search in working pixels, over the whole disc and then around the best place.
_COARSE_STEP = 2.0
_FINE_STEP = 1.0
_FINE_RADIUS = 3.2
# Fall of the score that divides the weight of a place or a size in the mean by e.
_SOFTNESS = 0.05
# Boxes that overlap less than this are rivals of the object, not shifted copies of it.
RIVAL_OVERLAP = 0.3
# Bonus of a box exactly where the object's motion leads.
_MOTION_BONUS = 0.3
# Logarithms of the sizes tried, and the fraction of the step to the better one that is taken,
# because sizes drift more easily than places.
_LOG_SIZES = 0.04 * np.arange(-4, 5)
_SIZE_SHARE = 0.3
SMALLEST_SIDE = 3.0  # pixels
# Fractions of the training boxes near the object, and of other sizes at its place; the rest lie
# anywhere around it.
_NEAR_SHARE = 0.35
_SCALED_SHARE = 0.25
_NEAR = 0.5  # in sizes of the object
_LARGEST_RESIZING = 0.3  # logarithm
_SCALED_SHIFT = 0.08


class BoxMatch(NamedTuple):
    """Best box with its score and its margin over every box elsewhere."""

    box: FloatArray
    score: float
    margin: float


def best_box(
    scorer: BoxScorer,
    planes: Planes,
    box: FloatArray,
    radius: float,
    shape: tuple[int, ...],
    expected: FloatArray | None,
) -> BoxMatch:
    """Find the best place within ``radius`` pixels of ``box`` in an image.

    Boxes that overlap the ``expected`` one, to which the object's motion leads, get a bonus.
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
    margin = score - float(rivals.max()) if len(rivals) else 1.0
    return BoxMatch(_expected(fine, wanted), score, margin)


def resized(scorer: BoxScorer, planes: Planes, box: FloatArray) -> FloatArray:
    """Move the size of the box towards the mean of the best sizes."""
    pixel = size_of(box) / WORKING_SIZE
    steps = pixel * np.array([-1.0, 0.0, 1.0])
    dy, dx = (grid.ravel() for grid in np.meshgrid(steps, steps, indexing="ij"))
    centres = np.tile(box[:2] + 0.5 * box[2:] + np.column_stack((dx, dy)), (len(_LOG_SIZES), 1))
    log_sizes = np.repeat(_LOG_SIZES, len(dx))
    scores = box_scores(scorer, planes, moved(box, centres, np.exp(log_sizes)))
    log_size, x, y = _expected(np.column_stack((log_sizes, centres)), scores)
    sides = np.exp(_SIZE_SHARE * log_size) * box[2:]
    if sides.min() < SMALLEST_SIDE:
        return box
    return np.concatenate(([x, y] - 0.5 * sides, sides))


def box_scores(scorer: BoxScorer, planes: Planes, boxes: FloatArray) -> FloatArray:
    """Score boxes, computing only the features that the scorer selects."""
    return scorer.scores(box_features(planes, boxes, scorer.selected))


def size_of(box: FloatArray) -> float:
    """Return the side of the square of a box's area, pixels."""
    return float(np.sqrt(box[2] * box[3]))


def moved(box: FloatArray, centres: FloatArray, sizes: FloatArray) -> FloatArray:
    """Move a box to ``centres``, shape (n, 2), and scale its sides by ``sizes``, shape (n,)."""
    sides = sizes[:, None] * box[2:]
    return np.column_stack((centres - 0.5 * sides, sides))


def training_boxes(
    box: FloatArray,
    n_boxes: int,
    radius: float,
    image_shape: tuple[int, ...],
    random: np.random.RandomState,
) -> FloatArray:
    """Draw random boxes around the object, which comes first, shape (n_boxes, 4).

    Most of them are near or of another size, where overlaps differ most.  The farthest centres are
    ``radius`` sizes of the object away; all are moved into the image.
    """
    n = n_boxes - 1
    n_near, n_scaled = int(_NEAR_SHARE * n), int(_SCALED_SHARE * n)
    n_far = n - n_near - n_scaled
    distances = size_of(box) * np.concatenate(
        (
            random.uniform(0.03, _NEAR, n_near),
            radius * np.sqrt(random.uniform(0.05, 1.0, n_far)),
            np.abs(random.normal(0.0, _SCALED_SHIFT, n_scaled)),
        )
    )
    angles = random.uniform(0.0, 2.0 * np.pi, n)
    sizes = np.ones(n)
    log_sizes = random.uniform(-_LARGEST_RESIZING, _LARGEST_RESIZING, n_scaled)
    sizes[n_near + n_far :] = np.exp(log_sizes)
    directions = np.column_stack((np.cos(angles), np.sin(angles)))
    centres = box[:2] + 0.5 * box[2:] + distances[:, None] * directions
    height, width = image_shape[:2]
    inside = np.clip(centres, 0, [width - 1, height - 1])
    return np.concatenate((box[None], moved(box, inside, sizes)))


def _bonus(boxes: FloatArray, expected: FloatArray | None) -> FloatArray:
    return np.zeros(len(boxes)) if expected is None else _MOTION_BONUS * overlaps(expected, boxes)


def _expected(rows: FloatArray, scores: FloatArray) -> FloatArray:
    """Average rows, weighted by their scores.

    The best row alone has a random error, which learning would preserve.
    """
    weights = np.exp((scores - scores.max()) / _SOFTNESS)
    # Not a matrix product, where BLAS would add in an order that depends on the machine.
    return np.asarray((weights[:, None] * rows).sum(axis=0) / weights.sum(), np.float64)
