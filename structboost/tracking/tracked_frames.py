"""Runs of trackers over frames, with times and with partial results after errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.video import VideoError
from structboost.validation import checked_list, checked_numbers, shown
from structboost.vision.images import Pixels


@dataclass
class TrackedFrames:
    """Boxes of an object in the tracked frames, and the time they took.

    Attributes
    ----------
    numbers : list of int
        Indices of the frames.
    boxes : list of ndarray, shape (4,)
        x, y, width and height; the user's boxes come first.
    confidences : list of float
        The tracker's confidence in each frame; 1 in the first ones.
    lost : list of bool
        Whether the object was lost in the frame.
    angles : list of float
        Rotation of the object against the first frame, radians from x towards y.
    latencies : list of float
        Seconds of ``init`` (in the last of the first frames, 0 in those before) and of each
        ``update``.
    error : VideoError or None
        Reason why the frames ended early.
    interrupted : bool
        Whether Ctrl-C ended the run.
    """

    numbers: list[int] = field(default_factory=list)
    boxes: list[FloatArray] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    lost: list[bool] = field(default_factory=list)
    angles: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    error: VideoError | None = None
    interrupted: bool = False

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def complete(self) -> bool:
        """Whether the frames ended by themselves."""
        return self.error is None and not self.interrupted

    @property
    def fps(self) -> float:
        """Frames per second of ``init`` and ``update``, excluding reading and drawing."""
        return frames_per_second([self])

    def _append(self, index: int, box: FloatArray, tracker: BoxTracker, seconds: float) -> None:
        self.numbers.append(index)
        self.boxes.append(box.copy())
        self.confidences.append(tracker.confidence)
        self.lost.append(tracker.lost)
        self.angles.append(tracker.angle)
        self.latencies.append(seconds)


def frames_per_second(tracks: Sequence[TrackedFrames]) -> float:
    """Return frames per second of the trackers of all objects together."""
    seconds = sum(sum(tracked.latencies) for tracked in tracks)
    return len(tracks[0]) / seconds if seconds else 0.0


def track_frames(
    tracker: BoxTracker,
    frames: Iterable[tuple[int, Pixels]],
    boxes: ArrayLike,
) -> TrackedFrames:
    """Track an object through frames.

    Parameters
    ----------
    tracker : BoxTracker
        Its ``init`` is called here.
    frames : iterable of (int, ndarray)
        Indices and images, such as :func:`structboost.tracking.open_frames`.
    boxes : array-like, shape (4,) or (n_first, 4)
        The object in the first frame, or in the first ones, a row each.

    Returns
    -------
    TrackedFrames
        Also after Ctrl-C, or if a frame cannot be read: see ``interrupted`` and ``error``.

    Raises
    ------
    ValueError
        If a box or a frame is bad (:meth:`BoxTracker.init`), or there are fewer frames than boxes.
    TypeError
        If ``frames`` has something else than pairs of index and image.
    VideoError
        If not even the first frames can be read.
    """
    return track_objects([tracker], frames, np.atleast_2d(checked_numbers(boxes, "boxes"))[None])[0]


def track_objects(
    trackers: Sequence[BoxTracker],
    frames: Iterable[tuple[int, Pixels]],
    boxes: ArrayLike,
    *,
    each: Callable[[int, Pixels, list[TrackedFrames]], Any] | None = None,
) -> list[TrackedFrames]:
    """Track several objects through the same frames, with a tracker for each.

    Parameters
    ----------
    trackers : sequence of BoxTracker
        One for each object, each with a separate learner.
    frames : iterable of (int, ndarray)
        As for :func:`track_frames`.
    boxes : array-like, shape (n_objects, n_first, 4)
        Each object in the first frames.
    each : callable, optional
        Called as ``each(index, image, so_far)`` after every frame; ``so_far`` has an entry for
        each object.

    Returns
    -------
    list of TrackedFrames
        By object, all of the same length.

    Raises
    ------
    ValueError
        If ``boxes`` has another shape, there are fewer frames than boxes, or a tracker or a learner
        occurs twice; and from :meth:`BoxTracker.init` and :meth:`BoxTracker.update`.
    TypeError
        If an entry of ``frames`` is not a pair of index and image.
    VideoError
        If the video breaks off before the objects are learned; ``error`` has a later one.
    """
    for k, tracker in enumerate(checked_list(trackers, "trackers", "[StructBoostTracker()]")):
        if not isinstance(tracker, BoxTracker):
            raise TypeError(f"trackers[{k}] is {shown(tracker)}, not a tracker; give a BoxTracker.")
    first_boxes = checked_numbers(boxes, "boxes")
    n, n_first = len(trackers), first_boxes.shape[1] if first_boxes.ndim == 3 else 0
    if not n_first or first_boxes.shape != (n, n_first, 4):
        raise ValueError(
            f"boxes has shape {first_boxes.shape}; give x, y, width, height, an array of shape "
            f"({n}, n_first, 4) for {n} objects."
        )
    if len({id(tracker.learner) for tracker in trackers}) < n:
        raise ValueError(
            "trackers has a tracker, or a learner, twice: it would mix two objects; make one for "
            "each object."
        )
    tracked = [TrackedFrames() for _ in trackers]
    pairs = list(zip(trackers, first_boxes, strict=True))
    first: list[tuple[int, Pixels]] = []
    try:
        for index, image in _numbered(frames):
            has_begun = len(tracked[0]) > 0
            if not has_begun:
                first.append((index, image))
                if len(first) < n_first:
                    continue
            images = [picture for _, picture in first]
            spent = [
                _timed(tracker.update, image) if has_begun else _timed(tracker.init, images, rows)
                for tracker, rows in pairs
            ]
            # All objects at once, so that after Ctrl-C they have the same frames.
            for run, (tracker, rows), (box, seconds) in zip(tracked, pairs, spent, strict=True):
                if not has_begun:
                    box = rows[-1]
                    for (before, _), earlier in zip(first[:-1], rows[:-1], strict=True):
                        run._append(before, earlier, tracker, 0.0)
                run._append(index, box, tracker, seconds)
            if each is not None:
                each(index, image, tracked)
    except KeyboardInterrupt:
        for run in tracked:
            run.interrupted = True
    except VideoError as error:
        if not tracked[0].boxes:
            raise
        for run in tracked:
            run.error = error
    if not tracked[0].boxes and not tracked[0].interrupted:
        raise ValueError(
            f"There are {len(first)} frames for {n_first} boxes; give more frames, or fewer boxes."
        )
    return tracked


def _numbered(frames: Iterable[Any]) -> Iterator[tuple[int, Pixels]]:
    if not isinstance(frames, Iterable):
        raise TypeError(f"frames is {shown(frames)}; give pairs of index and image.")
    for frame in frames:
        if not isinstance(frame, tuple) or len(frame) != 2:
            raise TypeError(
                f"frames gives a {type(frame).__name__}; give pairs of index and image, such as "
                "enumerate(images)."
            )
        yield frame


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    return call(*arguments), time.perf_counter() - began


def warm_up(tracker: BoxTracker) -> None:
    """Compile a tracker's code by tracking noise, which takes up to half a minute once.

    Call :func:`track_frames` or ``init`` afterwards, which start afresh.
    """
    noise = np.random.default_rng(0).integers(0, 255, (3, 48, 64, 3)).astype(np.uint8)
    tracker.init(noise[0], (20.0, 12.0, 20.0, 20.0))
    for image in noise[[1, 1, 2, 2]]:
        tracker.update(image)
