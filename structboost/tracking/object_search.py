"""Search of the object, near its last place or in the whole frame, and training boxes.

A search near the last place goes over places and then sizes.  The whole frame is searched while
the object is lost, one piece of an image pyramid at a time, and margins and scores of before tell
whether a match is the object.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from structboost._typing import FloatArray
from structboost.inference.boxes import boxes_around, overlaps
from structboost.tracking.box_features import ColourPalette, Planes, box_features, frame_planes
from structboost.tracking.box_learner import BoxScorer
from structboost.vision.images import Pixels

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


# Logarithms of the sizes, in turn; the size that was lost is the likeliest.
_SIZES_IN_TURN = (0.0, -0.18, 0.0, 0.18)
# Step of the grid, radius of the search around the best, and side of a piece, in working pixels.
_STEP = 5.0
_RADIUS = 6.0
_LARGEST_PIECE = 480.0
# Features reach this much beyond a box's centre, in its sides.
_REACH = 0.5 + 0.35


class WholeFrameSearch:
    """Search over some sizes and all places, of which each call takes the next piece.

    A frame that is small in sizes of the object is one piece.  So calls cost about the same in
    every video, and small objects in large frames take more calls.
    """

    def __init__(self) -> None:
        self._turn = 0

    def restart(self) -> None:
        """Begin with the size that was lost."""
        self._turn = 0

    def look(
        self, scorer: BoxScorer, image: Pixels, box: FloatArray, palette: ColourPalette
    ) -> BoxMatch:
        """Find the best box in the next piece, and its margin over all boxes elsewhere there.

        ``box`` is the last box of the object, which has its sides.
        """
        size, piece = self._next_piece(image, box)
        sides = math.exp(size) * box[2:]
        pixel = math.exp(size) * size_of(box) / WORKING_SIZE
        near, far = piece[:2] - _REACH * sides, piece[2:] + _REACH * sides
        low, high = np.floor(near).astype(int), np.ceil(far).astype(int)
        region = int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1])
        planes = frame_planes(image, region, scale=1.0 / pixel, palette=palette)
        boxes = _grid(piece, sides, _STEP * pixel)
        scores = box_scores(scorer, planes, boxes)
        best = boxes[int(np.argmax(scores))]
        match = best_box(scorer, planes, best, _RADIUS * pixel, image.shape, None)
        rivals = scores[overlaps(match.box, boxes) < RIVAL_OVERLAP]
        margin = match.score - float(rivals.max()) if len(rivals) else 1.0
        return BoxMatch(match.box, match.score, margin)

    def _next_piece(self, image: Pixels, box: FloatArray) -> tuple[float, FloatArray]:
        """Return the logarithm of a size, and left, top, right, bottom of the centres."""
        height, width = image.shape[:2]
        turn = self._turn
        while True:
            for size in _SIZES_IN_TURN:
                side = _LARGEST_PIECE * math.exp(size) * size_of(box) / WORKING_SIZE
                across, down = math.ceil(width / side), math.ceil(height / side)
                if turn < across * down:
                    self._turn += 1
                    row, column = divmod(turn, across)
                    corners = np.array([column, row, column + 1, row + 1], np.float64)
                    return size, corners * np.tile([width / across, height / down], 2)
                turn -= across * down


def _grid(piece: FloatArray, sides: FloatArray, step: float) -> FloatArray:
    """Return boxes whose centres lie on a grid over a piece."""
    axes = []
    for first, last in zip(piece[:2], piece[2:], strict=True):
        n = max(1, round((last - first) / step))
        axes.append(first + (np.arange(n) + 0.5) * (last - first) / n)
    x, y = (grid.ravel() for grid in np.meshgrid(*axes))
    corners = np.column_stack((x, y)) - 0.5 * sides
    return np.column_stack((corners, np.broadcast_to(sides, corners.shape)))


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
        self._margins: deque[float] = deque(maxlen=_RECENT)
        self._scores: deque[float] = deque(maxlen=_RECENT)
        self.candidate: FloatArray | None = None
        self._evidence = 0.0

    @property
    def usual_margin(self) -> float:
        """Median of the margins of the object."""
        return (
            float(np.median(self._margins)) if len(self._margins) > _FEWEST_SEEN else _FIRST_MARGIN
        )

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
            usual_score = (
                float(np.median(self._scores)) if len(self._scores) > _FEWEST_SEEN else 0.0
            )
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
