"""The loop of a tracker that searches boxes and learns from what it found (sections 3.5 and 4.4 of StructBoost)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost.inference.box_search import boxes_around, overlaps
from structboost.tracking.box_features import Planes, box_features, frame_planes
from structboost.tracking.box_sampling import Boxes, rescaled_boxes, size_of, training_boxes
from structboost.tracking.colour_palette import ColourPalette
from structboost.tracking.frame_image import FrameImage, checked_image

# The region searched is resized so that the object has this size, in pixels: every video costs the same.
_WORKING_SIZE = 40.0
_N_COLOURS = 16
# Times that the first frames are sampled, all together: one sample of 200 boxes says little of the object.
_N_FIRST = 5
# Radii of the search and of the boxes learned from, in sizes of the object; the former grows where it is lost.
_SEARCH_RADIUS = 1.0
_LOST_RADIUS = 1.5
_TRAINING_RADIUS = 1.5
# Steps of the search, in working pixels: all of the disc, then around the best.
_COARSE_STEP = 2.0
_FINE_STEP = 1.0
_FINE_RADIUS = 3.2
# Of a place's weight in the mean over the finely searched ones: the fall of the score that divides it by e.
_SOFTNESS = 0.05
# Features reach this much beyond a box, in its sides.
_MARGIN = 0.35
# Boxes that overlap less than this are rivals of the object, not itself a little displaced.
_RIVAL_OVERLAP = 0.3
# Another size must win by this much, only where confidence is not low for this object, and is approached by a share
# of the way: sizes drift much more easily than places.
_SCALE_STEP = 1.06
_SCALE_GAIN = 0.02
_SCALE_CONFIDENCE = 0.7
_SCALE_SHARE = 0.3
# What this object's margin is as a rule: the median of so many, or a first guess.
_RECENT = 60
_FIRST_MARGIN = 0.3
# Share of it at which a lost object counts as found again: rubbish learned once is found ever after.
_FOUND_AGAIN = 0.5
_SMALLEST = 3.0  # sides of a box, pixels


class BoxScorer(Protocol):
    """What a learner has learned: scores of boxes from the features it selected."""

    @property
    def selected(self) -> NDArray[np.int64]:
        """Features to compute."""

    def scores(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores, shape (n_boxes,), from shape (n_boxes, n_selected)."""


class BoxTracker(ABC):
    """Follows one object through a video, from its box in the first frame or frames.

    Each frame, about 2,000 boxes around the last one are scored, and the best is the object's.  Every second
    frame, about 200 boxes around it are added to the training set, and the learner trains on.

    Parameters
    ----------
    n_boxes : int
        Boxes learned from in a frame.
    every : int
        Frames from one training to the next.
    lost_below : float
        Confidence under which the object counts as lost: its box stays where it was last seen, is searched for in a
        wider disc, and nothing is learned until it stands out half as much as it used to.
    random_state : int
        Of the boxes learned from, and of the colour palette.

    Attributes
    ----------
    box : ndarray, shape (4,)
        x, y, width and height in the last frame, in pixels; may reach out of the frame.
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
        self.seconds = {"features": 0.0, "search": 0.0, "training": 0.0}
        self.n_frames = 0

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
        self.box = _inside(self.box, image.shape)
        radius = _LOST_RADIUS if self.lost else _SEARCH_RADIUS
        planes = self._planes(image, self.box, max(radius, _TRAINING_RADIUS))
        had_planes = time.perf_counter()
        found, margin = self._search(planes, radius, image.shape)
        self.confidence = float(np.clip(margin, 0.0, 1.0))
        self.lost = margin < (_FOUND_AGAIN * self._usual_margin() if self.lost else self.lost_below)
        if not self.lost:
            self.box = found
            self._margins.append(margin)
        searched = time.perf_counter()
        if not self.lost and self.n_frames % self.every == 0:
            self._learn(planes, self.box, image.shape, first=False)
            self._train(initial=False)
            self._scorer = self._learned()
        self.seconds["features"] += had_planes - began
        self.seconds["search"] += searched - had_planes
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
        reach = _MARGIN * box[2:] + radius * size_of(box)
        near, far = np.floor(box[:2] - reach), np.ceil(box[:2] + box[2:] + reach)
        region = int(near[0]), int(near[1]), int(far[0] - near[0]), int(far[1] - near[1])
        return frame_planes(image, region, scale=_WORKING_SIZE / size_of(box), palette=self._palette)

    def _scores(self, planes: Planes, boxes: Boxes) -> NDArray[np.float64]:
        return self._scorer.scores(box_features(planes, boxes, self._scorer.selected))

    def _usual_margin(self) -> float:
        """By how much this object stands out as a rule."""
        return float(np.median(self._margins)) if len(self._margins) > 3 else _FIRST_MARGIN

    def _search(self, planes: Planes, radius: float, shape: tuple[int, ...]) -> tuple[Boxes, float]:
        """The best box, and by how much it beats every rival."""
        pixel = size_of(self.box) / _WORKING_SIZE
        coarse = boxes_around(self.box, radius * size_of(self.box), _COARSE_STEP * pixel, shape)
        scores = self._scores(planes, coarse)
        best = coarse[np.argmax(scores)]
        rivals = scores[overlaps(best, coarse) < _RIVAL_OVERLAP]
        fine = boxes_around(best, _FINE_RADIUS * pixel, _FINE_STEP * pixel, shape)
        fine_scores = self._scores(planes, fine)
        score = float(fine_scores.max())
        best = _expected(fine, np.exp((fine_scores - score) / _SOFTNESS))
        rival = float(rivals.max()) if len(rivals) else score - 1.0
        if score - rival > _SCALE_CONFIDENCE * self._usual_margin():
            best, score = self._resized(planes, best, score, pixel)
        return best, score - rival

    def _resized(self, planes: Planes, box: Boxes, score: float, pixel: float) -> tuple[Boxes, float]:
        """A part of the way to a better size, if there is one."""
        tried = rescaled_boxes(box, _SCALE_STEP, pixel)
        scores = self._scores(planes, tried)
        best = int(np.argmax(scores))
        if scores[best] <= score + _SCALE_GAIN or tried[best, 2:].min() < _SMALLEST:
            return box, score
        sides = (1.0 - _SCALE_SHARE) * box[2:] + _SCALE_SHARE * tried[best, 2:]
        centre = tried[best, :2] + 0.5 * tried[best, 2:]
        return np.concatenate((centre - 0.5 * sides, sides)), float(scores[best])


def _expected(boxes: Boxes, weights: NDArray[np.float64]) -> Boxes:
    """Mean box: the best one alone is a little off by chance, and what is learned of it stays off."""
    return np.asarray(weights @ boxes / weights.sum(), np.float64)


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
        if not np.isfinite(box).all() or box[2:].min() < _SMALLEST:
            raise ValueError(
                f"box is {box.tolist()} in frame {number}; give four finite numbers x, y, width, height, "
                f"the sides at least {_SMALLEST:g} pixels."
            )
        centre = box[:2] + 0.5 * box[2:]
        if not ((centre >= 0).all() and centre[0] < width and centre[1] < height):
            raise ValueError(
                f"box is {box.tolist()} in frame {number}, which has {width} x {height} pixels; "
                "give a box whose centre lies in the frame."
            )
        if box[2] > width or box[3] > height:
            raise ValueError(f"box is {box.tolist()} in frame {number}, larger than the {width} x {height} pixels.")
