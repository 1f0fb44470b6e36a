"""``structboost track``: a video and a box in, a tracked video, boxes and a summary out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from structboost._typing import FloatArray
from structboost.files.outputs import check_outputs
from structboost.files.whole_file import write_whole
from structboost.progress import ProgressLine, announce_compilation
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.tracking.boxes_file import box_of, read_boxes, write_boxes
from structboost.tracking.drawing import draw_box
from structboost.tracking.made_clip import made_clip
from structboost.tracking.measures import TrackingMeasures, evaluate
from structboost.tracking.structboost_tracker import StructBoostTracker
from structboost.tracking.tracked_frames import TrackedFrames, track_frames, warm_up
from structboost.tracking.video import open_frames, source_files
from structboost.tracking.video_writer import VideoWriter
from structboost.vision.drawing import COLOURS
from structboost.vision.images import Pixels, swapped_channels

_DESCRIPTION = """\
Follow an object through a video. The box is the object in the first frame: left, top, width and
height in pixels. Without SOURCE a made clip is tracked: a photograph moved over another one, both
from scikit-image.
"""


class _Clip(NamedTuple):
    """What is tracked: numbered frames, where they come from, and what is known of them."""

    frames: Iterator[tuple[int, Pixels]]
    name: str
    n_frames: int | None
    fps: float
    box: FloatArray
    truth: FloatArray | None


def add_arguments(subparsers: Any) -> None:
    """Add the command ``track`` to a parser's sub-commands."""
    parser = subparsers.add_parser(
        "track", help="follow an object through a video", description=_DESCRIPTION
    )
    add = parser.add_argument
    add("source", nargs="?", metavar="SOURCE", help="video, folder of images, or camera's index")
    add("--box", metavar="X,Y,W,H", help="the object in the first frame (default: drawn by mouse)")
    for name, text in (
        ("--out", "video with the boxes drawn (.mp4, .avi, .mkv, .webm)"),
        ("--boxes", "boxes as text, one x,y,w,h per line"),
        ("--truth", "true boxes in that form, to measure against"),
        ("--json", "frames, fps, mean overlap and centre error"),
    ):
        add(name, type=Path, metavar="FILE", help=text)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Track; returns whether all frames were read.

    Raises
    ------
    ValueError, OSError
        If the input is bad or an output cannot be written.
    KeyboardInterrupt
        After Ctrl-C; what was tracked by then is written.
    """
    # Raise before hours of tracking, not after.
    inputs = [] if options.source is None else source_files(options.source)
    inputs += [] if options.truth is None else [options.truth]
    check_outputs({"--out": options.out, "--boxes": options.boxes, "--json": options.json}, inputs)
    with ExitStack() as stack:
        clip = _open(options, stack)
        stack.enter_context(deferred_interrupts(grace=None))
        tracked = _track(options, clip, stack)
    if tracked.error is not None:
        sys.stderr.write(f"structboost track: {tracked.error}\n")
    return tracked.error is None


def _track(options: argparse.Namespace, clip: _Clip, stack: ExitStack) -> TrackedFrames:
    writer = None
    if options.out is not None:
        writer = stack.enter_context(VideoWriter(options.out, fps=clip.fps))
    tracker = StructBoostTracker()
    sys.stderr.write(f"{clip.name}\n")
    announce_compilation()
    warm_up(tracker)
    # In a log the summary says the same.
    progress = ProgressLine("frame", clip.n_frames, visible=sys.stderr.isatty())

    def each(number: int, image: Pixels, so_far: TrackedFrames) -> None:
        if writer is not None:
            writer.write(_drawn(number, image, so_far, clip.truth))
        state = "lost" if so_far.lost[-1] else f"confidence {so_far.confidences[-1]:.2f}"
        progress.step(f"{so_far.fps:5.1f} frames per second  {state}")

    tracked = track_frames(tracker, _until_interrupted(clip.frames), clip.box, each=each)
    progress.close()
    if not len(tracked):
        raise KeyboardInterrupt("interrupted before the first frame.")
    _write(options, clip, tracked)
    if tracked.interrupted:
        raise KeyboardInterrupt(f"interrupted after {len(tracked)} frames, which are kept.")
    return tracked


def _open(options: argparse.Namespace, stack: ExitStack) -> _Clip:
    truth = None if options.truth is None else read_boxes(options.truth)
    box = None if options.box is None else _parsed_box(options.box)
    if options.source is None:
        made = made_clip()
        box = made.boxes[0] if box is None else box
        truth = made.boxes if truth is None else truth
        return _Clip(enumerate(made.frames), made.name, len(made.frames), made.fps, box, truth)
    source = stack.enter_context(open_frames(options.source))
    frames: Iterator[tuple[int, Pixels]] = source
    if box is None:
        first = next(frames)
        box = _drawn_by_mouse(first[1])
        frames = chain([first], frames)
    return _Clip(frames, source.source, source.frame_count, source.fps or 25.0, box, truth)


def _parsed_box(text: str) -> FloatArray:
    box = np.array(box_of(text, "--box"))
    if not box[2:].min() > 0:
        raise ValueError(f"--box is {text!r}; give x,y,w,h in pixels, w and h above 0.")
    return box


def _drawn_by_mouse(image: Pixels) -> FloatArray:
    why = "there is no display to draw it on"
    # Without a display Qt ends the process instead of raising.
    has_display = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if has_display or not sys.platform.startswith("linux"):
        title = "Draw the object's box, then press Enter"
        try:
            selected = cv2.selectROI(title, swapped_channels(image), showCrosshair=False)
            cv2.destroyWindow(title)
        except cv2.error as error:
            why = f"it cannot be drawn ({str(error).strip()})"
        else:
            box = np.array(selected, np.float64)
            if box[2:].min() > 0:
                return box
            why = "none was drawn"
    raise ValueError(f"No box was given, and {why}; give --box x,y,w,h.")


def _drawn(number: int, image: Pixels, so_far: TrackedFrames, truth: FloatArray | None) -> Pixels:
    """The frame with its box, its confidence and the true box where it is known."""
    lost = so_far.lost[-1]
    label = f"#{number} lost" if lost else f"#{number} {so_far.confidences[-1]:.2f}"
    true = None if truth is None or number >= len(truth) else truth[number]
    return draw_box(image, so_far.boxes[-1], label, colour=COLOURS[4 if lost else 0], truth=true)


def _write(options: argparse.Namespace, clip: _Clip, tracked: TrackedFrames) -> None:
    """Write boxes and summary into their files, and the summary to standard output."""
    if options.boxes is not None:
        write_boxes(options.boxes, tracked.boxes)
    measures = _measured(clip, tracked)
    summary = {
        "source": clip.name,
        "frames": len(tracked),
        "fps": tracked.fps,
        "mean_overlap": None if measures is None else measures.mean_overlap,
        "centre_error": None if measures is None else measures.mean_centre_error,
        "lost_frames": sum(tracked.lost),
        "complete": tracked.complete,
    }
    if options.json is not None:
        write_whole(options.json, (json.dumps(summary, indent=1, allow_nan=False) + "\n").encode())
    line = f"{len(tracked)} frames, {tracked.fps:.1f} per second, lost in {sum(tracked.lost)}"
    if measures is not None:
        line += (
            f"; mean overlap {measures.mean_overlap:.3f}, "
            f"centre error {measures.mean_centre_error:.1f} pixels ({measures.n_known} frames)"
        )
    sys.stdout.write(line + "\n")


def _measured(clip: _Clip, tracked: TrackedFrames) -> TrackingMeasures | None:
    """Measures of the frames after the first; None if the truth is known in none of them."""
    if clip.truth is None:
        return None
    n = min(len(tracked), len(clip.truth))
    too_long = tracked.complete and len(clip.truth) > n
    if len(tracked) > n or too_long:
        sys.stderr.write(
            f"The truth has {len(clip.truth)} lines, for {len(tracked)} frames; {n} are compared.\n"
        )
    truth = clip.truth[1:n]
    return None if np.isnan(truth).all() else evaluate(tracked.boxes[1:n], truth)


def _until_interrupted(frames: Iterator[tuple[int, Pixels]]) -> Iterator[tuple[int, Pixels]]:
    """The frames; Ctrl-C ends them between two."""
    for frame in frames:
        raise_if_interrupted()
        yield frame
