"""Search of the object, near its last place or in the whole frame, and training boxes.

A search near the last place goes over places and then sizes.  The whole frame is searched while
the object is lost, one piece of an image pyramid at a time, and margins and scores of before tell
whether a match is the object.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from structboost._typing import FloatArray
from structboost.inference.boxes import boxes_around, overlaps
from structboost.tracking.box_features import ColourPalette, Planes, frame_planes
from structboost.vision.images import Pixels

# Scores of boxes by planes of the frame.
Scores = Callable[[Planes, FloatArray], FloatArray]

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
_RIVAL_OVERLAP = 0.3
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
    score: Scores,
    planes: Planes,
    box: FloatArray,
    radius: float,
    shape: tuple[int, ...],
    expected: FloatArray | None,
) -> BoxMatch:
    """Find the best place within ``radius`` pixels of ``box`` in an image.

    Boxes that overlap the ``expected`` one, to which the object's motion leads, get a bonus.
    """

    def scored(step: float, around: FloatArray, reach: float) -> tuple[FloatArray, ...]:
        boxes = boxes_around(around, reach, step * pixel, shape)
        scores = score(planes, boxes)
        bonus = 0.0 if expected is None else _MOTION_BONUS * overlaps(expected, boxes)
        return boxes, scores, scores + bonus

    pixel = size_of(box) / WORKING_SIZE
    coarse, scores, wanted = scored(_COARSE_STEP, box, radius)
    start = coarse[np.argmax(wanted)]
    fine, fine_scores, wanted = scored(_FINE_STEP, start, _FINE_RADIUS * pixel)
    best = float(fine_scores[np.argmax(wanted)])
    return BoxMatch(_expected(fine, wanted), best, _margin(best, start, coarse, scores))


def resized(score: Scores, planes: Planes, box: FloatArray) -> FloatArray:
    """Move the size of the box towards the mean of the best sizes."""
    steps = size_of(box) / WORKING_SIZE * np.array([-1.0, 0.0, 1.0])
    dy, dx = (grid.ravel() for grid in np.meshgrid(steps, steps, indexing="ij"))
    centres = np.tile(box[:2] + 0.5 * box[2:] + np.column_stack((dx, dy)), (len(_LOG_SIZES), 1))
    log_sizes = np.repeat(_LOG_SIZES, len(dx))
    scores = score(planes, _moved(box, centres, np.exp(log_sizes)))
    log_size, x, y = _expected(np.column_stack((log_sizes, centres)), scores)
    sides = np.exp(_SIZE_SHARE * log_size) * box[2:]
    if sides.min() < SMALLEST_SIDE:
        return box
    return np.concatenate(([x, y] - 0.5 * sides, sides))


def size_of(box: FloatArray) -> float:
    """Return the side of the square of a box's area, pixels."""
    return float(np.sqrt(box[2] * box[3]))


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
    near = random.uniform(0.03, _NEAR, n_near)
    far = radius * np.sqrt(random.uniform(0.05, 1.0, n_far))
    scaled = np.abs(random.normal(0.0, _SCALED_SHIFT, n_scaled))
    distances = size_of(box) * np.concatenate((near, far, scaled))
    angles = random.uniform(0.0, 2.0 * np.pi, n)
    log_sizes = random.uniform(-_LARGEST_RESIZING, _LARGEST_RESIZING, n_scaled)
    sizes = np.concatenate((np.ones(n_near + n_far), np.exp(log_sizes)))
    directions = np.column_stack((np.cos(angles), np.sin(angles)))
    centres = box[:2] + 0.5 * box[2:] + distances[:, None] * directions
    height, width = image_shape[:2]
    inside = np.clip(centres, 0, [width - 1, height - 1])
    return np.concatenate((box[None], _moved(box, inside, sizes)))


def _moved(box: FloatArray, centres: FloatArray, sizes: FloatArray) -> FloatArray:
    """Move a box to ``centres``, shape (n, 2), and scale its sides by ``sizes``, shape (n,)."""
    sides = sizes[:, None] * box[2:]
    return np.column_stack((centres - 0.5 * sides, sides))


def _margin(best: float, box: FloatArray, boxes: FloatArray, scores: FloatArray) -> float:
    """Return by how much the best score exceeds those of the rivals of ``box``."""
    rivals = scores[overlaps(box, boxes) < _RIVAL_OVERLAP]
    return best - float(rivals.max()) if len(rivals) else 1.0


def _expected(rows: FloatArray, scores: FloatArray) -> FloatArray:
    """Average rows, weighted by their scores.

    The best row alone has a random error, which learning would preserve.
    """
    weights = np.exp((scores - scores.max()) / _SOFTNESS)
    # Not a matrix product, where BLAS would add in an order that depends on the machine.
    return np.asarray((weights[:, None] * rows).sum(axis=0) / weights.sum(), np.float64)


# Logarithms of the sizes, in turn; the size that was lost is the likeliest.
_SIZES_IN_TURN = (0.0, -0.18, 0.0, 0.18)
# Step of the grid, radius of the search around the best, and side of a piece, in working pixels.
_STEP = 5.0
_RADIUS = 6.0
_LARGEST_PIECE = 480.0
# Features reach this much beyond a box's centre, in its sides.
_REACH = 0.5 + 0.35


def best_box_in_piece(
    score: Scores, image: Pixels, box: FloatArray, palette: ColourPalette, turn: int
) -> BoxMatch:
    """Find the best box in the next piece of an image, and its margin over all boxes in it.

    A frame that is small in sizes of the object is one piece.  So calls cost about the same in
    every video, and small objects in large frames take more calls.  ``box`` is the last box of the
    object, which has its sides, and ``turn`` is the number of pieces searched so far.
    """
    size, first, last = _piece(image, box, turn)
    sides = math.exp(size) * box[2:]
    pixel = math.exp(size) * size_of(box) / WORKING_SIZE
    reach = _REACH * sides
    planes = frame_planes(image, first - reach, last + reach, scale=1.0 / pixel, palette=palette)
    axes = []
    for low, length in zip(first, last - first, strict=True):
        n = max(1, round(length / (_STEP * pixel)))
        axes.append(low + (np.arange(n) + 0.5) * length / n)
    x, y = (grid.ravel() for grid in np.meshgrid(*axes))
    boxes = _moved(box, np.column_stack((x, y)), np.full(len(x), math.exp(size)))
    scores = score(planes, boxes)
    start = boxes[np.argmax(scores)]
    match = best_box(score, planes, start, _RADIUS * pixel, image.shape, None)
    return match._replace(margin=_margin(match.score, match.box, boxes, scores))


def _piece(image: Pixels, box: FloatArray, turn: int) -> tuple[float, FloatArray, FloatArray]:
    """Return the logarithm of a size, and the first and the last corner of the centres."""
    while True:
        for size in _SIZES_IN_TURN:
            side = _LARGEST_PIECE * math.exp(size) * size_of(box) / WORKING_SIZE
            n_across, n_down = (math.ceil(length / side) for length in image.shape[1::-1])
            if turn < n_across * n_down:
                corner = np.array(divmod(turn, n_across)[::-1], np.float64)
                piece = np.divide(image.shape[1::-1], (n_across, n_down))
                return size, corner * piece, (corner + 1.0) * piece
            turn -= n_across * n_down


# The usual value is the median of so many frames, or a first guess of the margin.
_RECENT = 60
_FEWEST_SEEN = 3
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
        self._seen: deque[tuple[float, float]] = deque(maxlen=_RECENT)
        self.candidate: FloatArray | None = None
        self._evidence = 0.0

    def usual(self) -> tuple[float, float]:
        """Return the medians of the margins and of the scores of the object."""
        if len(self._seen) <= _FEWEST_SEEN:
            return _FIRST_MARGIN, 0.0
        margin, score = np.median(self._seen, axis=0)
        return float(margin), float(score)

    def record(self, match: BoxMatch) -> None:
        """Record the match of an object that is not lost."""
        self._seen.append((match.margin, match.score))
        self.candidate = None

    def propose(self, match: BoxMatch, box: FloatArray, *, is_near: bool) -> None:
        """Make a match, at ``box`` in the frame, the candidate if it stands out.

        ``is_near`` is true near the object's last place.
        """
        margin, score = self.usual()
        fraction = self._fraction(match)
        stands_out = fraction > _WEAK
        if is_near:
            stands_out = match.margin > max(_NEAR_MARGIN * margin, _LEAST_MARGIN)
            stands_out = stands_out and match.score > max(_NEAR_SCORE * score, 0.0)
        if stands_out:
            self.candidate, self._evidence = box, fraction

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
        return min(1.0, match.margin / max(_FAR_MARGIN * self.usual()[0], _LEAST_MARGIN))
