"""Command ``structboost track``, which writes a tracked video, its boxes and a summary."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np

from structboost._typing import FloatArray
from structboost.files.outputs import check_outputs
from structboost.progress import ProgressLine
from structboost.runtime.compiled import announce_compilation
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.drawing import draw_tracks
from structboost.tracking.metrics import TrackingMeasures, evaluate
from structboost.tracking.structboost_tracker import StructBoostTracker
from structboost.tracking.synthetic_clip import make_synthetic_clip
from structboost.tracking.tracked_frames import (
    TrackedFrames,
    frames_per_second,
    track_objects,
    warm_up,
)
from structboost.tracking.tracks_file import (
    box_text,
    check_plot,
    check_tracks_path,
    measures_of,
    numbers_of,
    plot_tracks,
    read_boxes,
    settings_of,
    write_summary,
    write_tracks,
)
from structboost.tracking.video import VideoWriter, open_frames, source_files
from structboost.validation import checked_seed
from structboost.vision.images import Pixels, resized, swapped_channels

_ESCAPE = 27
# Pictures are shrunk to this size: screens are rarely smaller, and OpenCV cannot measure them.
_LARGEST = (1280, 680)


class Window:
    """Window that shows frames, shrunk to fit the screen, until the user closes it.

    Parameters
    ----------
    title : str
        Title; Esc, q and the button of the window close it.

    Raises
    ------
    ValueError
        If there is no display.
    """

    def __init__(self, title: str) -> None:
        if not _has_display():
            raise ValueError("--show needs a display, and there is none; use --out instead.")
        self.title = title
        self.is_closed = False
        self._is_open = False

    def show(self, image: Pixels) -> None:
        """Show a frame, and set ``is_closed`` where the user closed the window."""
        if self.is_closed:
            return
        try:
            cv2.imshow(self.title, swapped_channels(_fitting(image)))
            pressed = cv2.waitKey(1) & 0xFF
            visible = cv2.getWindowProperty(self.title, cv2.WND_PROP_VISIBLE) >= 1
        except cv2.error as error:
            raise ValueError(
                f"--show cannot open a window ({str(error).strip()}); use --out instead."
            ) from error
        self._is_open = True
        self.is_closed = pressed in (_ESCAPE, ord("q")) or not visible

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the window."""
        if self._is_open and cv2.getWindowProperty(self.title, cv2.WND_PROP_VISIBLE) >= 1:
            cv2.destroyWindow(self.title)
        self._is_open = False


def box_drawn_by_mouse(image: Pixels) -> FloatArray:
    """Return the box x, y, width, height that the user draws, in pixels of the image.

    ValueError if there is no display, or no box was drawn; the message names the option.
    """
    reason = "there is no display to draw it on"
    if _has_display():
        title = "Draw the object's box, then press Enter"
        shown = _fitting(image)
        try:
            selected = cv2.selectROI(title, swapped_channels(shown), showCrosshair=False)
            cv2.destroyWindow(title)
        except cv2.error as error:
            reason = f"it cannot be drawn ({str(error).strip()})"
        else:
            box = np.array(selected, np.float64)
            if box[2:].min() > 0:
                scale = np.array(image.shape[1::-1]) / shown.shape[1::-1]
                return np.asarray(np.round(box * np.tile(scale, 2), 1), np.float64)
            reason = "no box was drawn"
    raise ValueError(f"There is no box, and {reason}; give --box x,y,w,h.")


def _has_display() -> bool:
    """Whether windows can be opened.

    Without a display Qt ends the process instead of raising an error.
    """
    shown = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return shown or not sys.platform.startswith("linux")


def _fitting(image: Pixels) -> Pixels:
    """Shrink the image to the largest window."""
    height, width = image.shape[:2]
    scale = min(1.0, _LARGEST[0] / width, _LARGEST[1] / height)
    return resized(image, (max(1, round(scale * width)), max(1, round(scale * height))))


@dataclass
class Clip:
    """Frames with their indices, the first boxes and the true boxes.

    Attributes
    ----------
    frames : iterator of (int, ndarray)
    name : str
    n_frames : int or None
        Number of frames to come; None if unknown.
    fps : float
    boxes : ndarray, shape (n_objects, 4)
        The objects in the first frame.
    truths : list of ndarray, shape (n_frames_of_the_source, 4)
        True boxes of the first objects, as many as there are; NaN where unknown.
    time_of : callable
        Seconds of the frame that was read last, by its index; None if unknown.
    """

    frames: Iterator[tuple[int, Pixels]]
    name: str
    n_frames: int | None
    fps: float
    boxes: FloatArray
    truths: list[FloatArray]
    time_of: Callable[[int], float | None]


def open_clip(options: argparse.Namespace, stack: ExitStack) -> Clip:
    """Open the clip of a command's options, whose source ``stack`` closes.

    ValueError or OSError if source, boxes, truth or range are bad; the message names the option.
    """
    start, end = options.start, options.end
    if start < 0 or (end is not None and end <= start):
        shown = f"--start is {start}" + ("" if end is None else f" and --end {end}")
        raise ValueError(f"{shown}; give 0 <= start < end, indices of frames.")
    truths = [read_boxes(path) for path in options.truth or ()]
    boxes = [_parsed_box(text) for text in options.box or ()]
    if options.source is None:
        rendered = make_synthetic_clip()
        frames: Iterator[tuple[int, Pixels]] = iter(list(enumerate(rendered.frames))[start:])
        name, fps = rendered.name, rendered.fps
        n_frames: int | None = len(rendered.frames)

        def time_of(index: int) -> float | None:
            return index / rendered.fps

        if start >= len(rendered.frames):
            raise ValueError(f"--start is {start}; the synthetic clip has {n_frames} frames.")
        if not boxes:
            boxes, truths = [rendered.boxes[start]], truths or [rendered.boxes]
    else:
        source = stack.enter_context(open_frames(options.source, start=start))
        frames = source
        name, n_frames, fps = source.source, source.frame_count, source.fps or 25.0

        def time_of(index: int) -> float | None:
            return source.time

    if not boxes:
        first = next(frames)
        boxes = [box_drawn_by_mouse(first[1])]
        sys.stderr.write(f"To repeat this run: --box {box_text(boxes[0])}\n")
        frames = chain([first], frames)
    if len(truths) > len(boxes):
        raise ValueError(
            f"There are {len(truths)} --truth for {len(boxes)} boxes; give one for each --box."
        )
    if n_frames is not None:
        n_frames = (n_frames if end is None else min(n_frames, end)) - start
    return Clip(frames, name, n_frames, fps, np.array(boxes), truths, time_of)


def _parsed_box(text: str) -> FloatArray:
    box = np.array(numbers_of(text))
    if box.shape != (4,) or not np.isfinite(box).all() or box[2:].min() <= 0:
        raise ValueError(f"--box is {text!r}; give x,y,w,h in pixels, w and h above 0.")
    return box


_DESCRIPTION = """\
Follow objects through a video. A box is an object in the first frame: left, top, width and height
in pixels. Without SOURCE a synthetic clip is tracked: a photograph moves over another one, both
from scikit-image.
"""
_SOURCE = (
    "video, folder of images, pattern of images in quotes ('a_%%04d.png', 'a_*.png'), - for a "
    "video on standard input, or camera's index"
)


def add_arguments(subparsers: Any) -> None:
    """Add the command ``track`` to a parser's sub-commands."""
    parser = subparsers.add_parser("track", help="follow objects through a video")
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("source", nargs="?", metavar="SOURCE", help=_SOURCE)
    box = "an object in the first frame; again for more objects (default: one, drawn by mouse)"
    add("--box", metavar="X,Y,W,H", action="append", help=box)
    add("--start", type=int, default=0, metavar="N", help="first frame, counted from 0 (default)")
    add("--end", type=int, metavar="N", help="stop before this frame")
    add("--seed", type=int, default=0, metavar="N", help="seed of the tracker (default: 0)")
    add("--show", action="store_true", help="show the frames in a window; q or Esc ends")
    for name, text in (
        ("--out", "video with the boxes drawn (.mp4, .mkv, .webm, .avi)"),
        ("--boxes", "table of boxes (.csv), or text with one x,y,w,h per line"),
        ("--json", "settings, measures, and all frames"),
        ("--plot", "diagram of confidence, overlap and centre error (.png, .pdf, .svg)"),
    ):
        add(name, type=Path, metavar="FILE", help=text)
    truth = "true boxes, one x,y,w,h per line of each frame, to measure against; one per --box"
    add("--truth", type=Path, metavar="FILE", action="append", help=truth)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Track and return whether all frames were read.

    ValueError or OSError if the input is bad or an output cannot be written.  KeyboardInterrupt
    after Ctrl-C, when the frames tracked by then are written.
    """
    _check(options)
    with ExitStack() as stack:
        window = stack.enter_context(Window("structboost track")) if options.show else None
        clip = open_clip(options, stack)
        stack.enter_context(deferred_interrupts(grace=None))
        tracks = _track(options, clip, window, stack)
    error = tracks[0].error
    if error is not None:
        sys.stderr.write(f"structboost track: {error}\n")
    return error is None


def _check(options: argparse.Namespace) -> None:
    """Check paths and options before hours of tracking."""
    inputs = [] if options.source is None else source_files(options.source)
    inputs += options.truth or []
    names = ("--out", "--boxes", "--json", "--plot")
    check_outputs({name: getattr(options, name[2:]) for name in names}, inputs)
    if options.boxes is not None:
        check_tracks_path(options.boxes, len(options.box or ()))
    if options.plot is not None:
        check_plot(options.plot)
    checked_seed(options.seed, "--seed")


def _track(
    options: argparse.Namespace, clip: Clip, window: Window | None, stack: ExitStack
) -> list[TrackedFrames]:
    writer = None
    if options.out is not None:
        writer = stack.enter_context(VideoWriter(options.out, fps=clip.fps))
    trackers = [StructBoostTracker(random_state=options.seed) for _ in clip.boxes]
    sys.stderr.write(f"tracking {clip.name}\n")
    announce_compilation()
    warm_up(trackers[0])
    # In a log the summary has the same facts.
    progress = ProgressLine("frame", clip.n_frames, visible=sys.stderr.isatty())
    times: list[float | None] = []

    def each(index: int, image: Pixels, so_far: list[TrackedFrames]) -> None:
        times.append(clip.time_of(index))
        if writer is not None or window is not None:
            true = [rows[index] for rows in clip.truths if index < len(rows)]
            drawn = draw_tracks(image, index, so_far, true)
            if writer is not None:
                writer.write(drawn)
            if window is not None:
                window.show(drawn)
        progress.step(f"{frames_per_second(so_far):5.1f} frames per second  {_state(so_far)}")

    frames = _until_ended(clip.frames, options.end, window)
    tracks = track_objects(trackers, frames, clip.boxes[:, None], each=each)
    progress.close()
    if not len(tracks[0]):
        raise KeyboardInterrupt("interrupted before the first frame.")
    if writer is not None:
        writer.close()
    stopped = window is not None and window.is_closed
    _write(options, clip, tracks, times, _facts(options, clip, tracks, trackers[0], stopped))
    if writer is not None and writer.size is not None:
        size, rate = "{}x{}".format(*writer.size), f"{clip.fps:g} frames per second"
        sys.stdout.write(f"wrote {options.out}: {writer.codec}; {size}, {rate}\n")
    if tracks[0].interrupted:
        raise KeyboardInterrupt(f"interrupted after {len(tracks[0])} frames, which are written.")
    return tracks


def _state(tracks: Sequence[TrackedFrames]) -> str:
    """Describe the confidence of one object, or how many are lost."""
    if len(tracks) > 1:
        return f"{sum(tracked.lost[-1] for tracked in tracks)} of {len(tracks)} lost"
    return "lost" if tracks[0].lost[-1] else f"confidence {tracks[0].confidences[-1]:.2f}"


def _facts(
    options: argparse.Namespace,
    clip: Clip,
    tracks: Sequence[TrackedFrames],
    tracker: BoxTracker,
    stopped: bool,
) -> dict[str, Any]:
    """Return the facts of the run for the summary, its settings and its outcome."""
    parameters = inspect.signature(type(tracker).__init__).parameters
    return {
        "source": clip.name,
        "structboost": version("structboost-learn"),
        "settings": settings_of(tracker, [name for name in parameters if name != "self"]),
        "boxes": clip.boxes.tolist(),
        "start": options.start,
        "end": options.end,
        "frames": len(tracks[0]),
        "fps": frames_per_second(tracks),
        "complete": tracks[0].complete and not stopped,
    }


def _write(
    options: argparse.Namespace,
    clip: Clip,
    tracks: Sequence[TrackedFrames],
    times: Sequence[float | None],
    facts: dict[str, Any],
) -> None:
    if options.boxes is not None:
        write_tracks(options.boxes, tracks, times)
    measures = _measure(clip, tracks, to_the_end=options.end is None)
    if options.json is not None:
        common = {
            **measures_of(measures[0]),
            "lost_frames": sum(map(sum, (t.lost for t in tracks))),
        }
        alone = common if len(tracks) == 1 else {}
        write_summary(options.json, {**facts, **alone}, tracks, measures, times)
    if options.plot is not None:
        plot_tracks(options.plot, tracks, measures)
    text = f"{len(tracks[0])} frames, {facts['fps']:.1f} per second"
    if len(tracks) == 1:
        sys.stdout.write(f"{text}, {_described(tracks[0], measures[0])}\n")
        return
    sys.stdout.write(f"{text}\n")
    for index, (tracked, measured) in enumerate(zip(tracks, measures, strict=True), 1):
        sys.stdout.write(f"object {index}: {_described(tracked, measured)}\n")


def _described(tracked: TrackedFrames, measured: TrackingMeasures | None) -> str:
    text = f"lost in {sum(tracked.lost)}"
    if measured is None:
        return text
    return (
        f"{text}; mean overlap {measured.mean_overlap:.3f}, "
        f"centre error {measured.mean_centre_error:.1f} pixels ({measured.n_known} frames)"
    )


def _measure(
    clip: Clip, tracks: Sequence[TrackedFrames], *, to_the_end: bool
) -> list[TrackingMeasures | None]:
    """Evaluate the frames after the first, with None for an object without truth."""
    measures: list[TrackingMeasures | None] = [None] * len(tracks)
    for index, (tracked, truth) in enumerate(zip(tracks, clip.truths, strict=False)):
        first, last = tracked.numbers[0], tracked.numbers[-1] + 1
        rows = truth[first:last]
        n = len(rows)
        too_long = to_the_end and tracked.complete and len(truth) > last
        if n < len(tracked) or too_long:
            sys.stderr.write(
                f"The truth has {len(truth)} lines, for {len(tracked)} frames; {n} are compared.\n"
            )
        if n > 1 and not np.isnan(rows[1:]).all():
            measures[index] = evaluate(tracked.boxes[1:n], rows[1:])
    return measures


def _until_ended(
    frames: Iterator[tuple[int, Pixels]], end: int | None, window: Window | None
) -> Iterator[tuple[int, Pixels]]:
    """Yield the frames before ``end`` until Ctrl-C or a closed window ends them."""
    for frame in frames:
        raise_if_interrupted()
        yield frame
        # Checked before another frame is read, because a camera may not have one.
        if (end is not None and frame[0] + 1 >= end) or (window is not None and window.is_closed):
            return
