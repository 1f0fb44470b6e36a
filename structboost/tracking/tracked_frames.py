"""A tracker over a sequence of frames, timed; what was tracked is kept, whatever ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.video import VideoError
from structboost.vision.images import Pixels


@dataclass
class TrackedFrames:
    """Boxes of the frames that were tracked, and the time they took.

    Attributes
    ----------
    boxes : list of ndarray, shape (4,)
        x, y, width and height; the given ones first.
    confidences : list of float
        The tracker's confidence in each frame; 1 in the given ones.
    lost : list of bool
        Whether the object was lost in the frame.
    latencies : list of float
        Seconds of ``init`` (in the last of the given frames, 0 in those before) and of each
        ``update``.
    error : VideoError or None
        The reason why the frames ended early.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    boxes: list[FloatArray] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    lost: list[bool] = field(default_factory=list)
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
        """Frames per second spent in ``init`` and ``update``, without reading and drawing."""
        return len(self) / sum(self.latencies) if self.latencies else 0.0

    def _append(self, box: FloatArray, tracker: BoxTracker, seconds: float) -> None:
        self.boxes.append(box)
        self.confidences.append(tracker.confidence)
        self.lost.append(tracker.lost)
        self.latencies.append(seconds)


def track_frames(
    tracker: BoxTracker,
    frames: Iterable[tuple[int, Pixels]],
    boxes: ArrayLike,
    *,
    each: Callable[[int, Pixels, TrackedFrames], Any] | None = None,
) -> TrackedFrames:
    """Track an object through frames.

    Parameters
    ----------
    tracker : BoxTracker
        Its ``init`` is called here.
    frames : iterable of (int, ndarray)
        As :func:`structboost.tracking.video.open_frames` gives them.
    boxes : array-like, shape (4,) or (n_first, 4)
        The object in the first frame, or in the first ones, a row each.
    each : callable, optional
        Called as ``each(number, image, so_far)`` after every frame.

    Returns
    -------
    TrackedFrames
        Also after Ctrl-C, or if a frame cannot be read: see ``interrupted`` and ``error``.

    Raises
    ------
    ValueError
        If a box or a frame is bad (:meth:`BoxTracker.init`), or there are fewer frames than boxes.
    VideoError
        If not even the first frames can be read.
    """
    given = np.atleast_2d(np.asarray(boxes, np.float64))
    tracked = TrackedFrames()
    first: list[Pixels] = []
    try:
        for number, image in frames:
            began = time.perf_counter()
            if len(first) < len(given):
                first.append(image)
                if len(first) < len(given):
                    continue
                tracker.init(*((first, given) if len(given) > 1 else (image, given[0])))
                for box in given[:-1]:
                    tracked._append(box.copy(), tracker, 0.0)
                box = given[-1].copy()
            else:
                box = tracker.update(image)
            tracked._append(box, tracker, time.perf_counter() - began)
            if each is not None:
                each(number, image, tracked)
    except KeyboardInterrupt:
        tracked.interrupted = True
    except VideoError as error:
        if not tracked.boxes:
            raise
        tracked.error = error
    if not tracked.boxes and not tracked.interrupted:
        raise ValueError(
            f"There are {len(first)} frames for {len(given)} boxes; "
            "give more frames, or fewer boxes."
        )
    return tracked


def warm_up(tracker: BoxTracker) -> None:
    """Compile a tracker's code by tracking noise: up to half a minute once, then it is on disk.

    Call :func:`track_frames` or ``init`` afterwards: they start afresh.
    """
    noise = np.random.default_rng(0).integers(0, 255, (3, 48, 64, 3)).astype(np.uint8)
    tracker.init(noise[0], (20.0, 12.0, 20.0, 20.0))
    for image in noise[1:]:
        tracker.update(image)
        tracker.update(image)
