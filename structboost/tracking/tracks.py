"""Runs of trackers over frames, their files and diagrams, and measures against the truth.

Overlap, centre error and the curves follow Wu, Lim and Yang, "Online Object Tracking: A Benchmark"
(CVPR 2013).
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, PathName
from structboost.files.atomic_write import checked_path, write_whole
from structboost.runtime.registry import require
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.video import VideoError
from structboost.validation import checked_list, checked_numbers, shown
from structboost.vision.images import COLOURS, Pixels


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
        If a line is not a box; the message gives the line, counted from 1.
    """
    if not checked_path(path).is_file():
        raise FileNotFoundError(f"There is no file of boxes {path}.")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file of boxes ({error}).") from error
    lines = text.rstrip().splitlines()
    if not lines:
        raise ValueError(f"{path} is empty; give one x,y,w,h per line.")
    return np.array([box_of(line, f"{path}, line {index}") for index, line in enumerate(lines, 1)])


def write_boxes(path: PathName, boxes: ArrayLike) -> None:
    """Write boxes that :func:`read_boxes` reads as the same numbers.

    After an error the path holds the file from before, or none.

    Parameters
    ----------
    path : str or path
        The text file.
    boxes : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels; NaN where unknown.

    Raises
    ------
    ValueError
        If ``boxes`` has another shape, or a box is infinite or partly unknown; the message gives
        its frame, counted from 0.
    """
    rows = checked_boxes(boxes, "boxes", need_area=False).tolist()
    lines = (",".join(repr(side).removesuffix(".0") for side in row) + "\n" for row in rows)
    write_whole(path, "".join(lines).replace("nan", "NaN").encode())


def box_of(text: str, where: str) -> FloatArray:
    """Parse the four numbers between commas, tabs or spaces, with their place in the error."""
    try:
        box = np.array(re.split(r"\s*,\s*|\s+", text.strip()), np.float64)
        (row,) = checked_boxes(box[None], where, need_area=False)
    except ValueError:
        raise ValueError(
            f"{where} is {text.strip()!r}; give x,y,w,h, four finite numbers, or four NaN where "
            "the box is unknown."
        ) from None
    return np.asarray(row, np.float64)


_TABLE = ".csv"
_DECIMALS = 4  # of pixels, seconds, radians


def write_tracks(
    path: Path, tracks: Sequence[TrackedFrames], times: Sequence[float | None]
) -> None:
    """Write boxes of objects as a table with a header (.csv) or, of one, as ``x,y,w,h`` lines.

    ``times`` are the seconds of each frame, None where unknown.
    """
    if path.suffix.lower() != _TABLE:
        write_boxes(path, tracks[0].boxes)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow("frame time object x y width height confidence lost angle".split())
    for rows in zip(*(rows_of(tracked, times) for tracked in tracks), strict=True):
        for index, row in enumerate(rows, 1):
            frame, seconds, box, confidence, lost, angle = row.values()
            writer.writerow([frame, seconds, index, *box, confidence, int(lost), angle])
    write_whole(path, text.getvalue().encode())


def rows_of(tracked: TrackedFrames, times: Sequence[float | None]) -> list[dict[str, Any]]:
    """Return frame, time, box, confidence, lost and angle of each frame."""
    boxes, confidences, angles = (
        np.round(values, _DECIMALS).tolist()
        for values in (tracked.boxes, tracked.confidences, tracked.angles)
    )
    seconds = [None if time is None else round(time, _DECIMALS) for time in times]
    names = "frame", "time", "box", "confidence", "lost", "angle"
    columns = tracked.numbers, seconds, boxes, confidences, tracked.lost, angles
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def write_summary(
    path: Path,
    facts: Mapping[str, Any],
    tracks: Sequence[TrackedFrames],
    measures: Sequence[TrackingMeasures | None],
    times: Sequence[float | None],
) -> None:
    """Write the facts of a run, and the measures and frames of each object, as JSON.

    The measures of an object without truth are None.  Those of one object alone are facts, too.
    """
    objects = []
    for index, (tracked, measured) in enumerate(zip(tracks, measures, strict=True), 1):
        figures = {
            "mean_overlap": None if measured is None else measured.mean_overlap,
            "centre_error": None if measured is None else measured.mean_centre_error,
            "lost_frames": sum(tracked.lost),
        }
        facts = {**facts, **figures} if len(tracks) == 1 else facts
        objects.append({"object": index, **figures, "frames": rows_of(tracked, times)})
    text = json.dumps({**facts, "objects": objects}, indent=1, allow_nan=False)
    write_whole(path, (text + "\n").encode())


_SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


def check_paths(boxes: Path | None, plot: Path | None, n_objects: int) -> None:
    """Raise ValueError unless boxes of so many objects, and a diagram, fit files of these names."""
    if boxes is not None and n_objects > 1 and boxes.suffix.lower() != _TABLE:
        raise ValueError(
            f"--boxes {boxes} would hold one box per line, and there are {n_objects} objects; "
            "give a file that ends in .csv."
        )
    if plot is not None:
        if plot.suffix.lower() not in _SUFFIXES:
            raise ValueError(f"--plot {plot} must end in one of {', '.join(_SUFFIXES)}.")
        require("plot", "--plot")


def plot_tracks(
    path: Path, tracks: Sequence[TrackedFrames], measures: Sequence[TrackingMeasures | None]
) -> None:
    """Draw confidence by frame, and shade the frames where an object is lost.

    Overlap and centre error are added where truth is known, and ``measures`` are those of the
    frames after the first.  The suffix of ``path`` sets the format.  After an error the path holds
    the file from before, or none.
    """
    from matplotlib.figure import Figure

    limits: dict[str, float | None] = {"confidence": 1.02}
    if any(measured is not None for measured in measures):
        limits |= {"overlap with truth": 1.02, "centre error (pixels)": None}
    figure = Figure(figsize=(7.2, 1.0 + 1.9 * len(limits)), layout="constrained")
    axes = figure.subplots(len(limits), 1, sharex=True, squeeze=False)[:, 0]
    for index, (tracked, measured) in enumerate(zip(tracks, measures, strict=True)):
        colour = tuple(part / 255 for part in COLOURS[index % len(COLOURS)])
        curves: list[Any] = [(tracked.numbers, tracked.confidences)]
        if measured is not None:
            frames = tracked.numbers[1 : 1 + len(measured.overlap)]
            curves += [(frames, measured.overlap), (frames, measured.centre_error)]
        for axis, curve in zip(axes, curves, strict=False):
            axis.plot(*curve, color=colour, linewidth=1.1, label=f"object {index + 1}")
        shade = np.array(tracked.lost, np.float64)
        axes[0].fill_between(tracked.numbers, shade, step="mid", color=colour, alpha=0.15)
    for axis, (label, limit) in zip(axes, limits.items(), strict=True):
        axis.set(ylabel=label, ylim=(0, limit))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_title("shaded: lost", fontsize=9, loc="right")
    axes[-1].set(xlabel="frame")
    if len(tracks) > 1:
        lines = axes[0].get_lines()
        figure.legend(
            handles=lines, loc="outside upper left", ncols=min(len(tracks), 4), frameon=False
        )
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower(), dpi=120)
    write_whole(path, content.getvalue())


# By division, so that each threshold is the float nearest to its decimal value.
SUCCESS_THRESHOLDS: FloatArray = np.arange(21) / 20
PRECISION_THRESHOLDS: FloatArray = np.arange(51.0)


@dataclass(frozen=True, eq=False)
class TrackingMeasures:
    """Measures of one tracker on one sequence, over the frames whose truth is known.

    Attributes
    ----------
    overlap : ndarray, shape (n_frames,)
        Intersection over union in 0..1; NaN where the truth is unknown.
    centre_error : ndarray, shape (n_frames,)
        Distance of the centres, pixels; NaN where the truth is unknown.
    n_known : int
        Number of frames whose truth is known.
    mean_overlap, mean_centre_error : float
        Means over the known frames.
    success : ndarray, shape (21,)
        Fraction of known frames with an overlap above 0, .05, ..., 1 (``SUCCESS_THRESHOLDS``).
    success_auc : float
        Mean of ``success``, as in OTB.
    precision : ndarray, shape (51,)
        Fraction of known frames with a centre error of at most 0, 1, ..., 50 pixels
        (``PRECISION_THRESHOLDS``).
    precision_at_20 : float
        ``precision`` at 20 pixels.
    """

    overlap: FloatArray
    centre_error: FloatArray
    n_known: int
    mean_overlap: float
    mean_centre_error: float
    success: FloatArray
    success_auc: float
    precision: FloatArray
    precision_at_20: float


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
    ours, theirs = checked_boxes(boxes, "boxes"), checked_boxes(truth, "truth")
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
    overlap = shared / union
    centre_error = np.hypot(*(offset + (theirs[:, 2:] - ours[:, 2:]) / 2).T)
    overlaps, errors = overlap[labelled], centre_error[labelled]
    success = (overlaps > SUCCESS_THRESHOLDS[:, None]).mean(axis=1)
    precision = (errors <= PRECISION_THRESHOLDS[:, None]).mean(axis=1)
    return TrackingMeasures(
        overlap, centre_error, len(overlaps), float(overlaps.mean()), float(errors.mean()),
        success, float(success.mean()), precision, float(precision[20]),
    )  # fmt: skip


def checked_boxes(boxes: ArrayLike, name: str, *, need_area: bool = True) -> FloatArray:
    """Return boxes of shape (n_frames, 4), each of four finite numbers or of four NaN."""
    rows = checked_numbers(boxes, name)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"{name} has shape {rows.shape}; give (n_frames, 4).")
    is_good = np.isfinite(rows).all(axis=1)
    if need_area:
        is_good &= (rows[:, 2:] > 0).all(axis=1)
    bad = np.flatnonzero(~is_good & ~np.isnan(rows).all(axis=1))
    if len(bad):
        wanted = ", width and height above 0" if need_area else ""
        raise ValueError(
            f"{name}[{bad[0]}] is {rows[bad[0]].tolist()}; give four finite numbers{wanted} in "
            f"frame {bad[0]}, or four NaN where the box is unknown."
        )
    return rows
