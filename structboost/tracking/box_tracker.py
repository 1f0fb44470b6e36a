"""Loop of a tracker that searches boxes and learns from the best (StructBoost, 3.5, 4.4).

:meth:`BoxTracker.update` takes each frame through three steps: look, judge, learn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray, SingleArray
from structboost.errors import warn_user
from structboost.runtime.called_class import Described
from structboost.runtime.interrupts import deferred_interrupts
from structboost.tracking.box_features import (
    ColourPalette,
    Planes,
    box_features,
    frame_planes,
    part_of,
)
from structboost.tracking.object_search import (
    SMALLEST_SIDE,
    WORKING_SIZE,
    BoxMatch,
    ObjectMotion,
    Recognition,
    RotatedView,
    Rotation,
    best_box,
    best_box_in_piece,
    box_at,
    centre_of,
    object_motion,
    resized,
    rotated_view,
    size_of,
    training_boxes,
)
from structboost.tracking.online_learner import StructBoostLearner
from structboost.validation import checked_numbers, checked_seed
from structboost.vision.images import Pixels, Shape, checked_image

_N_COLOURS = 16
_N_BOXES = 200  # learned from per frame
_EVERY = 2  # frames from one training to the next
_LOST_BELOW = 0.1  # confidence under which the object counts as lost
# Samples of the first frames, taken together, because one of 200 boxes shows little of the object.
_N_FIRST = 5
# Radii of the search and of the boxes learned from, in sizes of the object; the search is wider
# where the object is lost.
_SEARCH_RADIUS = 1.0
_LOST_RADIUS = 1.5
_TRAINING_RADIUS = 1.5
# Features reach this much beyond a box, in its sides.
_MARGIN = 0.35
# Deviation of a motion's logarithm of size up to which its place and its size are used.
_PLACE_DEVIATION = 0.03
_SIZE_DEVIATION = 0.02
_LARGEST_GROWTH = 0.1  # logarithm, per frame
# A rotated view may score this much less than the other, because only the latter was learned.
_ROTATION_TOLERANCE = 0.1
# Sizes are searched only where the confidence is not low for this object.
_SIZE_CONFIDENCE = 0.7


class BoxScorer(Protocol):
    """Model that scores boxes by the features that it selects."""

    @property
    def selected(self) -> IntArray:
        """Indices of the features to compute."""

    def scores(self, features: SingleArray) -> FloatArray:
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

    def add(self, features: SingleArray, boxes: FloatArray, *, first: bool) -> None:
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


class _Sight(NamedTuple):
    """Best match in a view of a frame, with its box in the view.

    ``is_sure`` is true where the object rotates and all its points moved as one thing.
    """

    view: RotatedView
    planes: Planes
    match: BoxMatch
    is_sure: bool = False


class BoxTracker(Described):
    """Tracker of one object through a video, from its box in the first frame or frames.

    In each frame about 2,000 boxes around the last one are scored, and the best is the object's.
    Every second frame about 200 boxes around the new one are added to the training set, and the
    learner continues its training.

    An object that rotates in the image plane is searched in a view rotated with it, where the
    motion of its points counts as well.  Under a confidence of .1, or of 0 while all points of a
    rotating object move as one thing, it counts as lost: its box stays where it was last seen, a
    wider disc is searched, and nothing is learned until it stands out half as much as it used to.

    Parameters
    ----------
    learner : BoxLearner
        Learner that trains on boxes and scores them.
    random_state : int
        Seed for the boxes to learn from and for the colour palette.

    Attributes
    ----------
    box : ndarray, shape (4,)
        x, y, width and height in the last frame, in pixels; may reach out of the frame.
    angle : float
        Rotation of the object, radians from x towards y; the box does not rotate.
    confidence : float
        Margin of the score of the box over every box elsewhere (overlap below 0.3), divided by the
        margin that training aims at; 0..1.
    lost : bool
        Whether the object is missing in the last frame; its box is where it was last seen.
    seconds : dict
        Time spent so far on "features", "search" and "training", excluding the first frames.
    n_frames : int
        Number of frames seen, including the first ones.
    """

    def __init__(self, learner: BoxLearner, *, random_state: int = 0) -> None:
        self.learner = learner
        self.random_state = checked_seed(random_state, "random_state")
        self.box = np.full(4, np.nan)
        self._forget()

    @property
    def angle(self) -> float:
        """Rotation of the object, radians from x towards y."""
        return self._rotation.angle

    @deferred_interrupts(grace=None)
    def init(self, frame: Any, box: ArrayLike) -> Self:
        """Learn the object from its first labelled frame, or frames.

        Parameters
        ----------
        frame : ndarray of uint8, shape (height, width) or (height, width, 3), or a list of them
            Grey or RGB, or Pillow images; convert OpenCV's frames, which are BGR.
        box : array-like, shape (4,) or (n_frames, 4)
            x, y, width and height in pixels in each frame.

        Returns
        -------
        self : BoxTracker
            The tracker.

        Raises
        ------
        ValueError
            If a box has no area, is not finite or lies outside of its frame, or the numbers of
            boxes and frames differ; the message names the box.
        """
        frames, boxes = frame, checked_numbers(box, "box")
        if not isinstance(frame, (list, tuple)):
            frames, boxes = [frame], boxes[None]
        images = [checked_image(image, f"frame {index}") for index, image in enumerate(frames)]
        _check_first_boxes(images, boxes)
        self._forget()
        self.box = boxes[-1].copy()
        self.n_frames = len(images)
        self._before = images[-1]
        self._random = np.random.RandomState(self.random_state)
        # The object with a margin of its own size on each side.
        corner, sides = boxes[0, :2], boxes[0, 2:]
        left, top, right, bottom = part_of(images[0].shape, corner - sides, corner + 2.0 * sides)
        around = images[0][top:bottom, left:right]
        self._palette = ColourPalette(around, _N_COLOURS, self.random_state)
        planes = [self._planes(*pair, _TRAINING_RADIUS) for pair in zip(images, boxes, strict=True)]
        n_features = box_features(planes[0], boxes[:1]).shape[1]
        self.learner.begin(_N_BOXES, n_features, self._random)
        for i in range(max(_N_FIRST, len(images))):
            at = i % len(images)
            self._add(planes[at], boxes[at], images[at].shape, first=True)
        self._scorer = self.learner.train(initial=True)
        self._is_whole = True
        return self

    @deferred_interrupts(grace=None)
    def update(self, frame: Any) -> FloatArray:
        """Find the object in the next frame.

        Parameters
        ----------
        frame : ndarray of uint8, shape (height, width) or (height, width, 3), or PIL.Image.Image
            Grey or RGB; convert OpenCV's frames, which are BGR.

        Returns
        -------
        box : ndarray, shape (4,)
            x, y, width and height in pixels; where the object was last seen if it is lost.

        Raises
        ------
        ValueError
            If the frame is not 8-bit grey or RGB; the message gives its index.
        RuntimeError
            If :meth:`init` was not called, or the last frame was not finished (a second Ctrl-C, an
            exception).
        """
        if not self._is_whole:
            raise RuntimeError("The tracker has no object yet; call init(frame, box) first.")
        image = checked_image(frame, f"frame {self.n_frames}")
        if image.shape != self._before.shape:
            warn_user(
                f"Frame {self.n_frames} has shape {image.shape} and the frame before it "
                f"{self._before.shape}, and the tracker goes on as if nothing had changed; give "
                "frames of one size and of the same channels.",
                UserWarning,
            )
        # An exception in between leaves parts of the tracker in this frame and others in the last.
        self._is_whole = False
        sight = self._look(image)
        self._judge(sight)
        if not self.lost and not self.n_frames % _EVERY:
            with self._timed("training"):
                self._add(sight.planes, sight.match.box, sight.view.image.shape, first=False)
                self._scorer = self.learner.train(initial=False)
        self._look_elsewhere(image)
        self._before = image
        self.n_frames += 1
        self._is_whole = True
        return self.box.copy()

    def _forget(self) -> None:
        self._is_whole = False
        self.confidence, self.lost, self.n_frames = 1.0, False, 0
        self.seconds = {"features": 0.0, "search": 0.0, "training": 0.0}
        self._rotation = Rotation()
        self._recognition = Recognition()
        self._n_pieces = 0  # of the whole frame, searched since the object is lost

    def _look(self, image: Pixels) -> _Sight:
        """Search places at the present angle and at the angle of the motion, then sizes.

        While the object rotates, its motion is more reliable than its learned appearance; otherwise
        it is less reliable (a face that turns away).
        """
        rotation = self._rotation
        self.box = _inside(self.box, image.shape)
        candidate = self._recognition.candidate
        if candidate is not None:
            return self._sight(image, _inside(candidate, image.shape), self.angle, None)
        motion = None
        if not self.lost or rotation.is_known:
            with self._timed("features"):
                motion = object_motion(self._before, image, self.box)
        propose = rotation.propose(motion)
        shift = None
        if motion is not None and rotation.has_begun:
            if motion.size_deviation < _SIZE_DEVIATION:
                self.box = _inside(_scaled_by_growth(self.box, motion), image.shape)
            if motion.size_deviation < _PLACE_DEVIATION:
                shift = motion.shift
        sight = self._sight(image, self.box, self.angle, shift)
        if propose != self.angle:
            other = self._sight(image, self.box, propose, shift)
            accepted = self.lost or other.match.score > sight.match.score - _ROTATION_TOLERANCE
            rotation.decide(propose, accepted)
            sight = other if accepted else sight
        if sight.match.margin > _SIZE_CONFIDENCE * self._recognition.usual()[0]:
            with self._timed("search"):
                box = resized(self._score, sight.planes, sight.match.box)
            sight = sight._replace(match=sight.match._replace(box=box))
        return sight._replace(is_sure=rotation.has_begun and shift is not None)

    def _sight(
        self, image: Pixels, around: FloatArray, angle: float, shift: FloatArray | None
    ) -> _Sight:
        """Find the best place around a box in the frame rotated back by ``angle``.

        ``shift`` is the motion of the object, where all its points moved as one thing.
        """
        radius = _LOST_RADIUS if self.lost else _SEARCH_RADIUS
        farthest = max(radius, _TRAINING_RADIUS)
        with self._timed("features"):
            view, box = rotated_view(image, around, angle, _reach(around, farthest))
            planes = self._planes(view.image, box, farthest)
        expected = None
        if shift is not None:
            expected = np.concatenate((box[:2] + view.shift_in_view(shift), box[2:]))
        with self._timed("search"):
            shape, reach = view.image.shape, radius * size_of(box)
            match = best_box(self._score, planes, box, reach, shape, expected)
        return _Sight(view, planes, match)

    def _judge(self, sight: _Sight) -> None:
        """Accept the match as the object, or count the object as lost.

        Where all points of the object moved as one thing, the limit is lower.
        """
        match, recognition = sight.match, self._recognition
        box = sight.view.box_in_frame(match.box)
        self.confidence = float(np.clip(match.margin, 0.0, 1.0))
        if not self.lost:
            self.lost = match.margin < (0.0 if sight.is_sure else _LOST_BELOW)
        elif recognition.candidate is not None:
            self.lost = not recognition.confirm(match, box)
        else:
            recognition.propose(match, box, is_near=True)
        if not self.lost:
            self.box = box
            recognition.record(match)

    def _look_elsewhere(self, image: Pixels) -> None:
        """Search the whole frame while the object is lost, in place of training."""
        if not self.lost:
            self._n_pieces = 0
        elif self._recognition.candidate is None and not self.n_frames % _EVERY:
            with self._timed("search"):
                whole = np.array([0.0, 0.0, *image.shape[1::-1]])
                view, _ = rotated_view(image, whole, self.angle, np.zeros(2))
                match = best_box_in_piece(
                    self._score, view.image, self.box, self._palette, self._n_pieces
                )
            self._n_pieces += 1
            seen = view.box_in_frame(match.box)
            distance = np.hypot(*(centre_of(seen) - centre_of(self.box)))
            is_near = bool(distance <= _LOST_RADIUS * size_of(self.box))
            self._recognition.propose(match, seen, is_near=is_near)

    def _add(self, planes: Planes, box: FloatArray, shape: Shape, *, first: bool) -> None:
        boxes = training_boxes(box, _N_BOXES, _TRAINING_RADIUS, shape, self._random)
        self.learner.add(box_features(planes, boxes), boxes, first=first)

    def _planes(self, image: Pixels, box: FloatArray, radius: float) -> Planes:
        """Compute the planes of all boxes within ``radius``, in sizes of the object."""
        reach = _reach(box, radius)
        near, far = box[:2] - reach, box[:2] + box[2:] + reach
        return frame_planes(image, near, far, self._palette, WORKING_SIZE / size_of(box))

    def _score(self, planes: Planes, boxes: FloatArray) -> FloatArray:
        """Score boxes, computing only the features that the scorer selects."""
        return self._scorer.scores(box_features(planes, boxes, self._scorer.selected))

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - began


class StructBoostTracker(BoxTracker):
    """Tracker by stumps trained on the overlap of boxes, with warm-started column generation.

    Training minimises the 1-slack risk (9) of :class:`structboost.tasks.BoxOverlapTask` over the
    first frames and the most recent ones, with a ridge that spreads the weight over many stumps.
    Cuts, columns and multipliers carry over, so a training after a new frame takes 10 to 20 ms.

    Parameters
    ----------
    C : float
        Weight of the risk.
    ridge : float
        Weight of the squares of the stumps' weights.
    random_state : int
        As in :class:`structboost.tracking.BoxTracker`.

    Examples
    --------
    >>> from skimage.data import astronaut
    >>> from structboost.tracking import StructBoostTracker
    >>> tracker = StructBoostTracker().init(astronaut(), (150, 8, 154, 188))
    >>> tracker.update(astronaut()).shape
    (4,)
    """

    def __init__(self, *, C: float = 30.0, ridge: float = 300.0, random_state: int = 0) -> None:
        super().__init__(StructBoostLearner(C=C, ridge=ridge), random_state=random_state)


def _scaled_by_growth(box: FloatArray, motion: ObjectMotion) -> FloatArray:
    """Scale the box about its centre by the part of its growth that exceeds the deviation."""
    growth = np.clip(abs(motion.log_size) - motion.size_deviation, 0.0, _LARGEST_GROWTH)
    sides = np.exp(np.copysign(growth, motion.log_size)) * box[2:]
    if sides.min() <= SMALLEST_SIDE:
        return box
    return np.concatenate((box[:2] + 0.5 * (box[2:] - sides), sides))


def _reach(box: FloatArray, radius: float) -> FloatArray:
    """Return the distance beyond a box up to which boxes within ``radius`` have features."""
    return _MARGIN * box[2:] + radius * size_of(box)


def _inside(box: FloatArray, shape: Shape) -> FloatArray:
    """Move the centre of the box into the frame and shrink the box to the frame's size."""
    height, width = shape[:2]
    centre = np.clip(centre_of(box), 0.0, [width - 1, height - 1])
    return box_at(centre, box[2:] * min(1.0, width / box[2], height / box[3]))


def _check_first_boxes(images: Sequence[Pixels], boxes: FloatArray) -> None:
    n = len(images)
    if not n:
        raise ValueError("frame is an empty list; give at least one frame.")
    if boxes.shape != (n, 4):
        raise ValueError(
            f"box has shape {boxes.shape}; give x, y, width, height for each of {n} frames."
        )
    for index, (image, box) in enumerate(zip(images, boxes, strict=True)):
        size, centre = np.array(image.shape[1::-1]), centre_of(box)
        sides_fit = np.isfinite(box).all() and box[2:].min() >= SMALLEST_SIDE
        for is_good, wanted in (
            (sides_fit, f"finite numbers, and sides of at least {SMALLEST_SIDE:g} pixels"),
            (((centre >= 0) & (centre < size)).all(), "a box whose centre lies in the frame"),
            ((box[2:] <= size).all(), "a box that is not larger than the frame"),
        ):
            if not is_good:
                raise ValueError(
                    f"box is {box.tolist()} in frame {index} of {size[0]} x {size[1]} pixels; "
                    f"give x, y, width, height, {wanted}."
                )
