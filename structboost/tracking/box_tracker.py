"""The loop of a tracker that searches boxes and learns from what it found (sections 3.5 and 4.4 of StructBoost)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost.inference.box_search import overlaps
from structboost.tracking.box_features import Planes, box_features, frame_planes
from structboost.tracking.box_sampling import Boxes, size_of, training_boxes
from structboost.tracking.colour_palette import ColourPalette
from structboost.tracking.frame_image import FrameImage, checked_image
from structboost.tracking.object_motion import ObjectMotion, object_motion
from structboost.tracking.object_search import SMALLEST_SIDE, WORKING_SIZE, BoxScorer, Found, best_box, resized
from structboost.tracking.turned_view import TurnedView, turned_view
from structboost.tracking.turning import Turning

_N_COLOURS = 16
# Times that the first frames are sampled, all together: one sample of 200 boxes says little of the object.
_N_FIRST = 5
# Radii of the search and of the boxes learned from, in sizes of the object; the former grows where it is lost.
_SEARCH_RADIUS = 1.0
_LOST_RADIUS = 1.5
_TRAINING_RADIUS = 1.5
# Features reach this much beyond a box, in its sides.
_MARGIN = 0.35
# Spread of a motion's logarithm of size up to which its place and its size are believed.
_PLACE_SPREAD = 0.03
_SIZE_SPREAD = 0.02
_LARGEST_GROWTH = 0.1  # logarithm, in a frame
# A turned view may score this much less than the other: what turned is not what was learned.
_TURN_TOLERANCE = 0.1
# Sizes are searched only where confidence is not low for this object.
_SIZE_CONFIDENCE = 0.7
# What this object's margin is as a rule: the median of so many, or a first guess.
_RECENT = 60
_FIRST_MARGIN = 0.3
# Share of it at which a lost object counts as found again: rubbish learned once is found ever after.
_FOUND_AGAIN = 0.5


class _Sight(NamedTuple):
    """What was found in a view of a frame; boxes are in the view."""

    view: TurnedView
    planes: Planes
    found: Found


class BoxTracker(ABC):
    """Follows one object through a video, from its box in the first frame or frames.

    Each frame, about 2,000 boxes around the last one are scored, and the best is the object's.  An object that turns
    in the image plane is searched in a view turned with it, and where the points in the box lead counts, too.  Every
    second frame, about 200 boxes around the new one are added to the training set, and the learner trains on.

    Parameters
    ----------
    n_boxes : int
        Boxes learned from in a frame.
    every : int
        Frames from one training to the next.
    lost_below : float
        Confidence under which the object counts as lost: its box stays where it was last seen, is searched for in a
        wider disc, and nothing is learned until it stands out half as much as it used to.  The limit is 0 while it
        turns and all its points move as one thing.
    random_state : int
        Of the boxes learned from, and of the colour palette.

    Attributes
    ----------
    box : ndarray, shape (4,)
        x, y, width and height in the last frame, in pixels; may reach out of the frame.
    angle : float
        By which the object has turned, radians from x towards y; the box does not turn.
    confidence : float
        By how much the box beats every box elsewhere (overlap below 0.3), as a share of what training asks for; 0..1.
    lost : bool
        Whether the object was not found in the last frame; the box is where it was last seen then.
    seconds : dict
        Spent so far in "features", "search" and "training", the first frames left out.
    n_frames : int
        Frames seen, the first ones included.
    """

    def __init__(self, *, n_boxes: int = 200, every: int = 2, lost_below: float = 0.1, random_state: int = 0) -> None:
        for name, value, least in (("n_boxes", n_boxes, 20), ("every", every, 1)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name} is {value!r}; give a whole number from {least}.")
        if not 0 <= lost_below < 1:
            raise ValueError(f"lost_below is {lost_below!r}; give a number from 0 to below 1.")
        self.n_boxes = int(n_boxes)
        self.every = int(every)
        self.lost_below = float(lost_below)
        self.random_state = random_state
        self.box: Boxes = np.full(4, np.nan)
        self.confidence = 1.0
        self.lost = False
        self._turning = Turning()
        self.seconds = {"features": 0.0, "search": 0.0, "training": 0.0}
        self.n_frames = 0

    @property
    def angle(self) -> float:
        """See the attributes."""
        return self._turning.angle

    def init(self, frame: Any, box: ArrayLike) -> Self:
        """Learn the object from its first labelled frame, or frames.

        Parameters
        ----------
        frame : ndarray of uint8, shape (height, width) or (height, width, 3), or a list of them
            Grey or BGR.
        box : array-like, shape (4,) or (n_frames, 4)
            x, y, width and height in each.

        Raises
        ------
        ValueError
            If a box has no area, is not finite or lies outside of its frame, or there is not one for each frame; the
            message names it.
        """
        several = isinstance(frame, (list, tuple))
        frames: Sequence[Any] = frame if several else [frame]
        boxes = np.asarray(box, np.float64) if several else np.asarray(box, np.float64)[None]
        images = [checked_image(image, f"frame {number}") for number, image in enumerate(frames)]
        _check_first_boxes(images, boxes)
        self._random = np.random.RandomState(self.random_state)
        self._margins: deque[float] = deque(maxlen=_RECENT)
        self.box = boxes[-1].copy()
        self.confidence, self.lost = 1.0, False
        self._turning, self._before = Turning(), images[-1]
        self.seconds = dict.fromkeys(self.seconds, 0.0)
        self.n_frames = len(images)
        self._palette = ColourPalette(_surroundings(images[0], boxes[0]), _N_COLOURS, self.random_state)
        planes = [self._planes(image, own, _TRAINING_RADIUS) for image, own in zip(images, boxes, strict=True)]
        self._begin(planes[0].n_features)
        for number in range(max(_N_FIRST, len(images))):
            at = number % len(images)
            self._learn(planes[at], boxes[at], images[at].shape, first=True)
        self._train(initial=True)
        self._scorer = self._learned()
        return self

    def update(self, frame: Any) -> Boxes:
        """Find the object in the next frame; returns its box, shape (4,).

        Raises
        ------
        ValueError
            If the frame is not 8-bit grey or BGR; the message gives its number, counted from 0.
        RuntimeError
            If :meth:`init` was not called.
        """
        if not self.n_frames:
            raise RuntimeError("The tracker knows no object yet; call init(frame, box) first.")
        image = checked_image(frame, f"frame {self.n_frames}")
        began = time.perf_counter()
        features = self.seconds["features"]
        self.box = _inside(self.box, image.shape)
        followed = not self.lost or self._turning.turning
        motion = object_motion(self._before, image, self.box) if followed else None
        self._before = image
        self.seconds["features"] += time.perf_counter() - began
        sight = self._look(image, motion)
        self._judge(sight, motion if self._turning.begun else None)
        searched = time.perf_counter()
        if not self.lost and self.n_frames % self.every == 0:
            self._learn(sight.planes, sight.found.box, sight.view.image.shape, first=False)
            self._train(initial=False)
            self._scorer = self._learned()
        self.seconds["search"] += searched - began - (self.seconds["features"] - features)
        self.seconds["training"] += time.perf_counter() - searched
        self.n_frames += 1
        return self.box.copy()

    @abstractmethod
    def _begin(self, n_features: int) -> None:
        """Forget everything; boxes will have so many features."""

    @abstractmethod
    def _take_in(self, features: NDArray[np.float32], boxes: Boxes, shares: NDArray[np.float64], first: bool) -> None:
        """Keep a frame: features of its boxes, and their overlap with the object, which is box 0."""

    @abstractmethod
    def _train(self, *, initial: bool) -> None:
        """Learn from the frames kept."""

    @abstractmethod
    def _learned(self) -> BoxScorer:
        """What was learned; true less other scores are of the order of 1."""

    def _learn(self, planes: Planes, box: Boxes, shape: tuple[int, ...], *, first: bool) -> None:
        boxes = training_boxes(box, self.n_boxes, _TRAINING_RADIUS, shape, self._random)
        self._take_in(box_features(planes, boxes), boxes, overlaps(box, boxes), first)

    def _planes(self, image: FrameImage, box: Boxes, radius: float) -> Planes:
        """Of all that boxes within ``radius``, in sizes of the object, look at."""
        reach = _reach(box, radius)
        near, far = np.floor(box[:2] - reach), np.ceil(box[:2] + box[2:] + reach)
        region = int(near[0]), int(near[1]), int(far[0] - near[0]), int(far[1] - near[1])
        return frame_planes(image, region, scale=WORKING_SIZE / size_of(box), palette=self._palette)

    def _look(self, image: FrameImage, motion: ObjectMotion | None) -> _Sight:
        """Search the frame as it is turned now, and as its motion says; then sizes.

        While it turns its motion tells more than what was learned of it; else less (a face that turns away).
        """
        proposed = self._turning.proposed(motion)
        motion = motion if self._turning.begun else None
        if motion is not None and motion.size_spread < _SIZE_SPREAD:
            self.box = _inside(_grown(self.box, motion), image.shape)
        sight = self._sight(image, self.angle, motion)
        if proposed != self.angle:
            other = self._sight(image, proposed, motion)
            accepted = self.lost or other.found.score > sight.found.score - _TURN_TOLERANCE
            self._turning.decide(proposed, accepted)
            sight = other if accepted else sight
        if sight.found.margin > _SIZE_CONFIDENCE * self._usual_margin():
            box = resized(self._scorer, sight.planes, sight.found.box)
            return sight._replace(found=sight.found._replace(box=box))
        return sight

    def _sight(self, image: FrameImage, angle: float, motion: ObjectMotion | None) -> _Sight:
        """The best place in the frame turned back by ``angle``."""
        began = time.perf_counter()
        radius = _LOST_RADIUS if self.lost else _SEARCH_RADIUS
        farthest = max(radius, _TRAINING_RADIUS)
        view, box = turned_view(image, self.box, angle, _reach(self.box, farthest))
        planes = self._planes(view.image, box, farthest)
        self.seconds["features"] += time.perf_counter() - began
        expected = None
        if _is_sure(motion):
            expected = np.concatenate((box[:2] + view.shift_in_view(motion.shift), box[2:]))
        found = best_box(self._scorer, planes, box, radius * size_of(box), view.image.shape, expected)
        return _Sight(view, planes, found)

    def _judge(self, sight: _Sight, motion: ObjectMotion | None) -> None:
        """Whether that is the object: then it is where it was seen.

        Where all points of the object moved as one thing, it takes more to be lost.
        """
        margin = sight.found.margin
        least = _FOUND_AGAIN * self._usual_margin() if self.lost else self.lost_below
        self.confidence = float(np.clip(margin, 0.0, 1.0))
        self.lost = margin < (0.0 if _is_sure(motion) else least)
        if not self.lost:
            self.box = sight.view.box_in_frame(sight.found.box)
            self._margins.append(margin)

    def _usual_margin(self) -> float:
        """By how much this object stands out as a rule."""
        return float(np.median(self._margins)) if len(self._margins) > 3 else _FIRST_MARGIN


def _is_sure(motion: ObjectMotion | None) -> TypeGuard[ObjectMotion]:
    """Whether the points of the object moved as one thing."""
    return motion is not None and motion.size_spread < _PLACE_SPREAD


def _grown(box: Boxes, motion: ObjectMotion) -> Boxes:
    """The box about its centre, larger or smaller by what of its growth is beyond doubt."""
    growth = np.clip(abs(motion.log_size) - motion.size_spread, 0.0, _LARGEST_GROWTH)
    sides = np.exp(np.copysign(growth, motion.log_size)) * box[2:]
    return np.concatenate((box[:2] + 0.5 * (box[2:] - sides), sides)) if sides.min() > SMALLEST_SIDE else box


def _reach(box: Boxes, radius: float) -> NDArray[np.float64]:
    """How far beyond a box the boxes within ``radius``, in sizes of the object, look."""
    return np.asarray(_MARGIN * box[2:] + radius * size_of(box), np.float64)


def _inside(box: Boxes, shape: tuple[int, ...]) -> Boxes:
    """The box with its centre in the frame, whose size may have changed, and no larger than the frame."""
    height, width = shape[:2]
    centre = np.clip(box[:2] + 0.5 * box[2:], 0.0, [width - 1, height - 1])
    sides = box[2:] * min(1.0, width / box[2], height / box[3])
    return np.concatenate((centre - 0.5 * sides, sides))


def _surroundings(image: FrameImage, box: Boxes) -> FrameImage:
    """The object and as much again on every side."""
    height, width = image.shape[:2]
    near = np.maximum(np.floor(box[:2] - box[2:]), 0).astype(int)
    far = np.minimum(np.ceil(box[:2] + 2.0 * box[2:]), [width, height]).astype(int)
    return image[near[1] : far[1], near[0] : far[0]]


def _check_first_boxes(images: Sequence[FrameImage], boxes: Boxes) -> None:
    """Raise unless there is a box in each image."""
    if not len(images):
        raise ValueError("frame is an empty list; give at least one frame.")
    if boxes.shape != (len(images), 4):
        raise ValueError(f"box has shape {boxes.shape}; give x, y, width, height for each of {len(images)} frames.")
    for number, (image, box) in enumerate(zip(images, boxes, strict=True)):
        height, width = image.shape[:2]
        if not np.isfinite(box).all() or box[2:].min() < SMALLEST_SIDE:
            raise ValueError(
                f"box is {box.tolist()} in frame {number}; give four finite numbers x, y, width, height, "
                f"the sides at least {SMALLEST_SIDE:g} pixels."
            )
        centre = box[:2] + 0.5 * box[2:]
        if not ((centre >= 0).all() and centre[0] < width and centre[1] < height):
            raise ValueError(
                f"box is {box.tolist()} in frame {number}, which has {width} x {height} pixels; "
                "give a box whose centre lies in the frame."
            )
        if box[2] > width or box[3] > height:
            raise ValueError(f"box is {box.tolist()} in frame {number}, larger than the {width} x {height} pixels.")
