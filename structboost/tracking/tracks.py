"""Runs of trackers over frames, files of boxes, and measures against the truth.

Overlap, centre error, success and precision follow Wu, Lim and Yang, "Online Object Tracking: A
Benchmark" (CVPR 2013).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, PathName
from structboost.files.atomic_write import regular_file
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.video import VideoError
from structboost.validation import checked_numbers
from structboost.vision.images import Pixels


@dataclass
class TrackedFrames:
    """Boxes of an object in the tracked frames, and the time they took.

    Attributes
    ----------
    numbers : list of int
        Indices of the frames.
    boxes : list of ndarray, shape (4,)
        x, y, width and height; the user's box comes first.
    confidences : list of float
        The tracker's confidence in each frame; 1 in the first one.
    lost : list of bool
        Whether the object was lost in the frame.
    angles : list of float
        Rotation of the object against the first frame, radians from x towards y.
    latencies : list of float
        Seconds of ``init`` and of each ``update``.
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
        return len(self) / max(sum(self.latencies), 1e-9)


def track_objects(
    trackers: Sequence[BoxTracker],
    frames: Iterable[tuple[int, Pixels]],
    boxes: ArrayLike,
    *,
    each: Callable[[int, Pixels, list[TrackedFrames]], Any] | None = None,
) -> list[TrackedFrames]:
    """Track objects through the same frames, with a tracker for each.

    Parameters
    ----------
    trackers : sequence of BoxTracker
        One for each object, each with a separate learner.  Their ``init`` is called here.
    frames : iterable of (int, ndarray)
        Indices and images, such as :func:`structboost.tracking.open_frames`.
    boxes : array-like, shape (n_objects, 4)
        Each object in the first frame.
    each : callable, optional
        Called as ``each(index, image, so_far)`` after every frame; ``so_far`` has an entry for
        each object.

    Returns
    -------
    list of TrackedFrames
        By object, all of the same length.  Also after Ctrl-C, or if a frame cannot be read: see
        ``interrupted`` and ``error``.

    Raises
    ------
    ValueError
        If ``boxes`` has another shape, there are no frames, or a tracker or a learner occurs twice;
        and from :meth:`BoxTracker.init` and :meth:`BoxTracker.update`.
    VideoError
        If not even the first frame can be read; ``error`` has a later one.
    """
    first_boxes = checked_numbers(boxes, "boxes")
    n = len(trackers)
    if first_boxes.shape != (n, 4):
        raise ValueError(
            f"boxes has shape {first_boxes.shape}; give x, y, width, height for each of {n} "
            "trackers."
        )
    if len({id(tracker.learner) for tracker in trackers}) < n:
        raise ValueError(
            "trackers has a tracker, or a learner, twice: it would mix two objects; make one for "
            "each object."
        )
    tracked = [TrackedFrames() for _ in trackers]
    try:
        for index, image in frames:
            spent = []
            for tracker, box in zip(trackers, first_boxes, strict=True):
                began = time.perf_counter()
                if tracked[0].boxes:
                    tracker.update(image)
                else:
                    tracker.init(image, box)
                spent.append(time.perf_counter() - began)
            # All objects at once, so that after Ctrl-C they have the same frames.
            for run, tracker, seconds in zip(tracked, trackers, spent, strict=True):
                run.numbers.append(index)
                run.boxes.append(tracker.box.copy())
                run.confidences.append(tracker.confidence)
                run.lost.append(tracker.lost)
                run.angles.append(tracker.angle)
                run.latencies.append(seconds)
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
        raise ValueError("frames has no frame; give at least one.")
    return tracked


def warm_up(tracker: BoxTracker) -> None:
    """Compile a tracker's code by tracking noise, which takes up to half a minute once.

    Call ``init`` afterwards, which starts afresh.
    """
    noise = np.random.default_rng(0).integers(0, 255, (3, 48, 64, 3)).astype(np.uint8)
    tracker.init(noise[0], (20.0, 12.0, 20.0, 20.0))
    for image in noise[[1, 1, 2, 2]]:
        tracker.update(image)


def read_boxes(path: PathName) -> FloatArray:
    """Read the boxes of a text file.

    Parameters
    ----------
    path : str or path
        One box per line: left, top, width and height in pixels, counted from 0, separated by
        commas, tabs or spaces; ``NaN,NaN,NaN,NaN`` where the box is unknown.

    Returns
    -------
    ndarray, shape (n_frames, 4)
        NaN where unknown.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a line is not a box.
    """
    file = regular_file(path, "file of boxes", ValueError)
    try:
        lines = file.read_text(encoding="utf-8-sig").rstrip().splitlines() or [""]
        words = [re.sub(r"\s*,\s*|\s+", " ", line.strip()).split(" ") for line in lines]
        boxes = np.array(words, np.float64)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; give one x,y,w,h per line.") from error
    return _checked_boxes(boxes, str(path), need_area=False)


@dataclass(frozen=True, eq=False)
class TrackingMeasures:
    """Measures of one tracker on one sequence, over the frames whose truth is known.

    Attributes
    ----------
    overlap : ndarray, shape (n_frames,)
        Intersection over union in 0..1; NaN where the truth is unknown.
    centre_error : ndarray, shape (n_frames,)
        Distance of the centres, pixels; NaN where the truth is unknown.
    """

    overlap: FloatArray
    centre_error: FloatArray

    @property
    def n_known(self) -> int:
        """Number of frames whose truth is known."""
        return int(np.isfinite(self.overlap).sum())

    @property
    def mean_overlap(self) -> float:
        """Mean over the known frames."""
        return float(np.nanmean(self.overlap))

    @property
    def mean_centre_error(self) -> float:
        """Mean over the known frames."""
        return float(np.nanmean(self.centre_error))

    @property
    def success_auc(self) -> float:
        """Mean fraction of known frames with an overlap above 0, .05, ..., 1, as in OTB."""
        overlap = self.overlap[np.isfinite(self.overlap)]
        # By division, so that each threshold is the float nearest to its decimal value.
        return float((overlap > np.arange(21)[:, None] / 20).mean(axis=1).mean())

    @property
    def precision_at_20(self) -> float:
        """Fraction of known frames with a centre error of at most 20 pixels."""
        return float((self.centre_error <= 20).sum() / self.n_known)


def evaluate(boxes: ArrayLike, truth: ArrayLike) -> TrackingMeasures:
    """Compute all measures of a tracker's boxes.

    Overlap is 1 minus the loss (21) of StructBoost: 0 for boxes apart or only touching, 1 for
    equal boxes.

    Parameters
    ----------
    boxes : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels.
    truth : array-like, shape (n_frames, 4)
        The true boxes; NaN where unknown.  To leave out the first frame, pass ``boxes[1:]`` and
        ``truth[1:]``.

    Raises
    ------
    ValueError
        If the two differ in length, a box has no area, a box is unknown where the truth is known,
        or the truth is unknown everywhere; the message names the frame, counted from 0.
    """
    ours, theirs = _checked_boxes(boxes, "boxes"), _checked_boxes(truth, "truth")
    if len(ours) != len(theirs):
        raise ValueError(
            f"boxes has {len(ours)} frames and truth {len(theirs)}; give one box per frame in both."
        )
    labelled = ~np.isnan(theirs[:, 0])
    if not labelled.any():
        raise ValueError(f"truth is unknown in all {len(theirs)} frames; give at least one box.")
    for gone in np.flatnonzero(np.isnan(ours[:, 0]) & labelled):
        raise ValueError(
            f"boxes[{gone}] is unknown, but the truth of frame {gone} is known; "
            "give the last box of an object that was lost."
        )
    # Sizes against the offset of the corners, so that equal boxes give 1 without rounding.
    offset = theirs[:, :2] - ours[:, :2]
    sides = np.minimum(ours[:, 2:], offset + theirs[:, 2:]) - np.maximum(0.0, offset)
    shared = np.maximum(sides, 0.0).prod(axis=1)
    union = ours[:, 2:].prod(axis=1) + theirs[:, 2:].prod(axis=1) - shared
    centre_error = np.hypot(*(offset + (theirs[:, 2:] - ours[:, 2:]) / 2).T)
    return TrackingMeasures(shared / union, centre_error)


def _checked_boxes(boxes: ArrayLike, name: str, *, need_area: bool = True) -> FloatArray:
    """Return boxes of shape (n_frames, 4), each of four finite numbers or of four NaN."""
    rows = checked_numbers(boxes, name)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"{name} has shape {rows.shape}; give (n_frames, 4).")
    is_good = np.isfinite(rows).all(axis=1)
    if need_area:
        is_good &= (rows[:, 2:] > 0).all(axis=1)
    for bad in np.flatnonzero(~is_good & ~np.isnan(rows).all(axis=1)):
        wanted = ", width and height above 0" if need_area else ""
        raise ValueError(
            f"{name}[{bad}] is {rows[bad].tolist()}; give four finite numbers{wanted} in "
            f"frame {bad}, or four NaN where the box is unknown."
        )
    return rows
