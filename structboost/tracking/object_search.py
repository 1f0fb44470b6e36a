"""Search of the object, near its last place or in the whole frame, and training boxes.

A search near the last place goes over places and then sizes.  The whole frame is searched while
the object is lost, one piece of an image pyramid at a time, and margins and scores of before tell
whether a match is the object.

Motion and rotation of an object between two frames, and views rotated back with it.

The motion is the median flow of points in the box (Kalal, Mikolajczyk and Matas, "Forward-Backward
Error", ICPR 2010).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import cv2
import numpy as np

from structboost._typing import FloatArray
from structboost.inference.boxes import boxes_around, overlaps
from structboost.tracking.box_features import ColourPalette, Planes, frame_planes, part_of
from structboost.vision.images import Pixels, Shape, as_grey, grid_points

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
    shape: Shape,
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
    near = centre_of(box) + grid_points(steps, steps)
    centres = np.tile(near, (len(_LOG_SIZES), 1))
    log_sizes = np.repeat(_LOG_SIZES, len(near))
    scores = score(planes, _moved(box, centres, np.exp(log_sizes)))
    log_size, x, y = _expected(np.column_stack((log_sizes, centres)), scores)
    sides = np.exp(_SIZE_SHARE * log_size) * box[2:]
    return box if sides.min() < SMALLEST_SIDE else box_at(np.array([x, y]), sides)


def size_of(box: FloatArray) -> float:
    """Return the side of the square of a box's area, pixels."""
    return float(np.sqrt(box[2] * box[3]))


def centre_of(box: FloatArray) -> FloatArray:
    """Return the centre of a box, x and y."""
    return box[:2] + 0.5 * box[2:]


def box_at(centre: FloatArray, sides: FloatArray) -> FloatArray:
    """Return the box, or boxes, of these centres and sides, whose last axis is x, y."""
    return np.concatenate((centre - 0.5 * sides, sides), axis=-1)


def training_boxes(
    box: FloatArray, n_boxes: int, radius: float, image_shape: Shape, random: np.random.RandomState
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
    centres = centre_of(box) + distances[:, None] * directions
    height, width = image_shape[:2]
    inside = np.clip(centres, 0, [width - 1, height - 1])
    return np.concatenate((box[None], _moved(box, inside, sizes)))


def _moved(box: FloatArray, centres: FloatArray, sizes: FloatArray) -> FloatArray:
    """Move a box to ``centres``, shape (n, 2), and scale its sides by ``sizes``, shape (n,)."""
    return box_at(centres, sizes[:, None] * box[2:])


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
    return np.asarray((weights[:, None] * rows).sum(axis=0) / weights.sum())


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
    sides, pixel = size * box[2:], size * size_of(box) / WORKING_SIZE
    reach = _REACH * sides
    planes = frame_planes(image, first - reach, last + reach, palette, 1.0 / pixel)
    axes = []
    for low, length in zip(first, last - first, strict=True):
        n = max(1, round(length / (_STEP * pixel)))
        axes.append(low + (np.arange(n) + 0.5) * length / n)
    centres = grid_points(*axes)
    boxes = _moved(box, centres, np.full(len(centres), size))
    scores = score(planes, boxes)
    start = boxes[np.argmax(scores)]
    match = best_box(score, planes, start, _RADIUS * pixel, image.shape, None)
    return match._replace(margin=_margin(match.score, match.box, boxes, scores))


def _piece(image: Pixels, box: FloatArray, turn: int) -> tuple[float, FloatArray, FloatArray]:
    """Return a relative size, and the first and the last corner of the centres."""
    while True:
        for size in map(math.exp, _SIZES_IN_TURN):
            side = _LARGEST_PIECE * size * size_of(box) / WORKING_SIZE
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
        if is_near:
            stands_out = match.margin > max(_NEAR_MARGIN * margin, _LEAST_MARGIN)
            stands_out &= match.score > max(_NEAR_SCORE * score, 0.0)
        else:
            stands_out = fraction > _WEAK
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


# Points on each side of a grid in the box, whose border shows mostly background.
_GRID = np.linspace(0.2, 0.8, 8)
# Surroundings of the box that are read, in sizes of the object, and the pixels to which the
# object is reduced.
_FLOW_REACH = 0.9
_FLOW_SIZE = 48.0
_WINDOW = (11, 11)
_LEVELS = 3
# Points must come back when followed backwards: to within this, in sizes of the object, and nearer
# than half of them.
_BACK_WITHIN = 0.04
_FEWEST = 12
_EXACT = 1e-3
# Pairs of points this far apart, in sizes, show how the object rotated and grew.
_PAIR = 0.25


class ObjectMotion(NamedTuple):
    """Motion of an object in the image plane.

    Parameters
    ----------
    shift : ndarray, shape (2,)
        Pixels right and down.
    log_size, angle : float
        Logarithm of its growth, and radians of its rotation, from x towards y.
    size_deviation, angle_deviation : float
        Median absolute deviation of both over pairs of points: small where the object moves as one
        thing.
    """

    shift: FloatArray
    log_size: float
    size_deviation: float
    angle: float
    angle_deviation: float


def object_motion(before: Pixels, now: Pixels, box: FloatArray) -> ObjectMotion | None:
    """Estimate the motion of the object in ``box`` by the optical flow of a grid of points.

    Returns None if too few points can be followed.
    """
    if before.shape[:2] != now.shape[:2]:
        return None
    size = size_of(box)
    near, far = box[:2] - _FLOW_REACH * size, box[:2] + box[2:] + _FLOW_REACH * size
    left, top, right, bottom = part_of(before.shape, near, far)
    scale = min(_FLOW_SIZE / size, 1.0)
    if min(right - left, bottom - top) * scale < _WINDOW[0]:
        return None
    first, second = (
        cv2.resize(
            as_grey(image[top:bottom, left:right]),
            None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA,
        )
        for image in (before, now)
    )  # fmt: skip
    places = (box[:2] + grid_points(_GRID, _GRID) * box[2:] - [left, top]) * scale
    points = places.astype(np.float32)[:, None]
    flow = partial(cv2.calcOpticalFlowPyrLK, winSize=_WINDOW, maxLevel=_LEVELS)
    there, seen, _ = flow(first, second, points, points.copy())
    back, again, _ = flow(second, first, there, points.copy())
    error = np.hypot(*(back - points)[:, 0].T) / (scale * size)
    followed = (seen[:, 0] > 0) & (again[:, 0] > 0)
    limit = max(float(np.median(error[followed])), _EXACT) if followed.any() else 0.0
    reliable = followed & (error <= min(limit, _BACK_WITHIN))
    if reliable.sum() < _FEWEST:
        return None
    # Medians over points and over pairs, whose change is a complex factor.
    were, are = (ends[reliable, 0].astype(np.float64) for ends in (points, there))
    i, j = np.triu_indices(len(were), 1)
    pairs = [ends[j] - ends[i] for ends in (were, are)]
    apart = np.hypot(*pairs[0].T) > _PAIR * scale * size
    if apart.sum() < _FEWEST:
        return None
    old, new = (pair[apart].view(np.complex128)[:, 0] for pair in pairs)
    factors = new / old
    return ObjectMotion(
        np.median(are - were, axis=0) / scale,
        *_median_and_deviation(np.log(np.maximum(np.abs(factors), 1e-3))),
        *_median_and_deviation(np.angle(factors)),
    )


def _median_and_deviation(values: FloatArray) -> tuple[float, float]:
    middle = float(np.median(values))
    return middle, float(np.median(np.abs(values - middle)))


# A rotation begins with a step of so many radians per frame, and is certain after so many steps in
# a row, because a face that turns away looks the same at first.
_LEAST = 0.05
_IN_A_ROW = 3
# A step counts if it is so many times the deviation of the angle, before and during a rotation.
_SURE_TIMES, _LIKELY_TIMES = 5.0, 2.0
_LARGEST = 0.5
_LARGEST_DEVIATION = 0.05
# An object that rotated less, with half of that deviation, has stopped.
_STOPPED = 0.02
# A rotation continues through at most so many unclear frames, and through at most half as many as
# were clear.
_MAX_COAST = 10


class Rotation:
    """Angle of an object, estimated from its motion frame by frame.

    The first steps of a rotation are applied at once, and undone where others do not follow.

    Attributes
    ----------
    angle : float
        Radians from x towards y, against the first frame.
    is_known : bool
        Whether the object certainly rotates.
    """

    def __init__(self) -> None:
        self.angle = self._last = self._before = 0.0  # the last is before the steps in a row
        self.is_known = False
        self._in_a_row = self._n_unknown = 0

    @property
    def has_begun(self) -> bool:
        """Whether the object rotates, or seems to."""
        return self._in_a_row > 0

    def propose(self, motion: ObjectMotion | None) -> float:
        """Propose the angle in the next frame by its motion, before a call of :meth:`decide`."""
        step, deviation = 0.0, _LARGEST
        if motion is not None and abs(motion.angle) <= _LARGEST:
            step, deviation = motion.angle, motion.angle_deviation
        if not self.is_known:
            same_way = not self._in_a_row or step * self._last > 0
            if abs(step) > max(_LEAST, _SURE_TIMES * deviation) and same_way:
                self._in_a_row += 1
                self._last = step
                return self.angle + step
            self._in_a_row = 0
            return self._before
        if deviation < _LARGEST_DEVIATION and abs(step) > _LIKELY_TIMES * deviation:
            self._last, self._n_unknown = step, 0
            self._in_a_row += 1
        else:
            self._n_unknown += 1
        stopped = deviation < 0.5 * _LARGEST_DEVIATION and abs(step) < _STOPPED
        if stopped or self._n_unknown > min(_MAX_COAST, self._in_a_row // 2):
            self._rest()
            return self.angle
        return self.angle + self._last

    def decide(self, angle: float, accepted: bool) -> None:
        """Accept or reject the proposed angle, by the object's score there."""
        if accepted:
            self.angle = angle
            if self._in_a_row == _IN_A_ROW and not self.is_known:
                self.is_known, self._n_unknown = True, 0
        elif not self.is_known:
            self._rest()

    def _rest(self) -> None:
        self.is_known = False
        self._before = self.angle
        self._in_a_row = 0


class RotatedView(NamedTuple):
    """Surroundings of an object, rotated back with it, and the affine map to the frame."""

    image: Pixels
    to_frame: FloatArray

    def box_in_frame(self, box: FloatArray) -> FloatArray:
        """Move the centre of a box from the view to the frame."""
        centre = _product(self.to_frame[:, :2], centre_of(box)) + self.to_frame[:, 2]
        return box_at(centre, box[2:])

    def shift_in_view(self, shift: FloatArray) -> FloatArray:
        """Turn a displacement in the frame, shape (2,), into one in the view."""
        return _product(self.to_frame[:, :2].T, shift)


def rotated_view(
    frame: Pixels, box: FloatArray, angle: float, reach: FloatArray
) -> tuple[RotatedView, FloatArray]:
    """Return the surroundings of a box, ``reach`` pixels beyond its sides, and the box in them.

    At an angle of 0 the view is the frame itself.  Beyond the frame its border is repeated.
    """
    if angle == 0.0:
        return RotatedView(frame, np.eye(2, 3)), box
    half = np.ceil(0.5 * box[2:] + reach)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    to_frame = np.column_stack((turn, centre_of(box) - _product(turn, half)))
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    image = cv2.warpAffine(
        frame,
        to_frame,
        (2 * half).astype(int).tolist(),
        flags=flags,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return RotatedView(np.asarray(image), to_frame), box_at(half, box[2:])


def _product(matrix: FloatArray, point: FloatArray) -> FloatArray:
    """Return ``matrix @ point``, added in one order on every machine."""
    return np.asarray(matrix[:, 0] * point[0] + matrix[:, 1] * point[1])
