"""Command ``structboost track``, which writes a tracked video, its boxes and a summary."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from structboost._typing import FloatArray
from structboost.files.atomic_write import check_outputs
from structboost.progress import ProgressLine
from structboost.runtime.compiled import announce_compilation
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.tracking.box_tracker import StructBoostTracker
from structboost.tracking.drawing import draw_tracks
from structboost.tracking.synthetic_clip import make_synthetic_clip
from structboost.tracking.tracks import (
    TrackedFrames,
    TrackingMeasures,
    box_of,
    check_paths,
    evaluate,
    frames_per_second,
    plot_tracks,
    read_boxes,
    track_objects,
    warm_up,
    write_summary,
    write_tracks,
)
from structboost.tracking.video import (
    FrameSource,
    VideoWriter,
    open_frames,
    source_files,
)
from structboost.validation import checked_seed
from structboost.vision.images import Pixels, resized, swapped_channels

_ESCAPE = 27
# Pictures are shrunk to this size: screens are rarely smaller, and OpenCV cannot measure them.
_LARGEST = (1280, 680)
_TITLE = "structboost track"


def shows(image: Pixels) -> bool:
    """Show a frame in a window, and return whether the user left the window open.

    ValueError if there is no display.
    """
    _check_display("--show", "use --out")
    try:
        cv2.imshow(_TITLE, swapped_channels(_fitting(image)))
        pressed = cv2.waitKey(1) & 0xFF
        is_visible = cv2.getWindowProperty(_TITLE, cv2.WND_PROP_VISIBLE) >= 1
    except cv2.error as error:
        raise ValueError(f"--show cannot open a window ({error}); use --out instead.") from error
    return is_visible and pressed not in (_ESCAPE, ord("q"))


def box_drawn_by_mouse(image: Pixels) -> FloatArray:
    """Return the box x, y, width, height that the user draws, in pixels of the image.

    ValueError if there is no display, or no box was drawn; the message names the option.
    """
    _check_display("the box to draw", "give --box x,y,w,h")
    small = _fitting(image)
    title = "Draw the object's box, then press Enter"
    try:
        box = np.array(cv2.selectROI(title, swapped_channels(small), showCrosshair=False), float)
        cv2.destroyWindow(title)
    except cv2.error as error:
        raise ValueError(f"No box can be drawn ({error}); give --box x,y,w,h.") from error
    if box[2:].min() <= 0:
        raise ValueError("There is no box, and none was drawn; give --box x,y,w,h.")
    scale = np.divide(image.shape[1::-1], small.shape[1::-1])
    return np.asarray(np.round(box * np.tile(scale, 2), 1), np.float64)


def _check_display(what: str, remedy: str) -> None:
    """Raise ValueError without a display, where Qt would end the process."""
    has_display = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if sys.platform.startswith("linux") and not has_display:
        raise ValueError(f"{what} needs a display, and there is none; {remedy} instead.")


def _fitting(image: Pixels) -> Pixels:
    """Shrink the image to the largest window."""
    height, width = image.shape[:2]
    scale = min(1.0, _LARGEST[0] / width, _LARGEST[1] / height)
    return resized(image, (max(1, round(scale * width)), max(1, round(scale * height))))


_DESCRIPTION = """\
Follow objects through a video. A box is an object in the first frame: left, top, width and height
in pixels. Without SOURCE a synthetic clip is tracked: a photograph moves over another one, both
from scikit-image.
"""
_SOURCE = (
    "video, folder of images, pattern of images in quotes ('a_%%04d.png', 'a_*.png'), - for a "
    "video on standard input, or camera's index"
)
_OUTPUTS = {
    "--out": "video with the boxes drawn (.mp4, .mkv, .webm, .avi)",
    "--boxes": "table of boxes (.csv), or text with one x,y,w,h per line",
    "--json": "settings, measures, and all frames",
    "--plot": "diagram of confidence, overlap and centre error (.png, .pdf, .svg)",
}


def add_arguments(subparsers: Any) -> None:
    """Add the command ``track`` to a parser's sub-commands."""
    parser = subparsers.add_parser("track", help="follow objects through a video")
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("source", nargs="?", metavar="SOURCE", help=_SOURCE)
    box = "an object in the first frame; again for more objects (default: one, drawn by mouse)"
    add("--box", metavar="X,Y,W,H", action="append", default=[], help=box)
    add("--start", type=int, default=0, metavar="N", help="first frame, counted from 0 (default)")
    add("--end", type=int, metavar="N", help="stop before this frame")
    add("--seed", type=int, default=0, metavar="N", help="seed of the tracker (default: 0)")
    add("--show", action="store_true", help="show the frames in a window; q or Esc ends")
    for name, text in _OUTPUTS.items():
        add(name, type=Path, metavar="FILE", help=text)
    truth = "true boxes, one x,y,w,h per line of each frame, to measure against; one per --box"
    add("--truth", type=Path, metavar="FILE", action="append", default=[], help=truth)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Track and return whether all frames were read.

    ValueError or OSError if the input is bad or an output cannot be written.  KeyboardInterrupt
    after Ctrl-C, when the frames tracked by then are written.
    """
    _check(options)
    with ExitStack() as stack:
        source = stack.enter_context(
            _synthetic_frames(options.start)
            if options.source is None
            else open_frames(options.source, start=options.start)
        )
        truths = [read_boxes(path) for path in options.truth]
        boxes = [_parsed_box(text) for text in options.box]
        frames: Iterator[tuple[int, Pixels]] = source
        if not boxes and options.source is None:
            true = make_synthetic_clip().boxes
            boxes, truths = [true[options.start]], truths or [true]
        elif not boxes:
            first = next(source)
            boxes = [box_drawn_by_mouse(first[1])]
            sys.stderr.write(f"To repeat this run: --box {','.join(map(str, boxes[0]))}\n")
            frames = chain([first], source)
        if len(truths) > len(boxes):
            raise ValueError(
                f"There are {len(truths)} --truth for {len(boxes)} boxes; give one for each --box."
            )
        stack.enter_context(deferred_interrupts(grace=None))
        tracks = _track(options, source, frames, boxes, truths)
    error = tracks[0].error
    if error is not None:
        sys.stderr.write(f"structboost track: {error}\n")
    return error is None


def _check(options: argparse.Namespace) -> None:
    """Check paths and options before hours of tracking."""
    inputs = [] if options.source is None else source_files(options.source)
    outputs = {name: getattr(options, name[2:]) for name in _OUTPUTS}
    check_outputs(outputs, inputs + options.truth)
    check_paths(options.boxes, options.plot, len(options.box))
    if options.show:
        _check_display("--show", "use --out")
    checked_seed(options.seed, "--seed")
    start, end = options.start, options.end
    if start < 0 or (end is not None and end <= start):
        raise ValueError(f"--start is {start} and --end {end}; give 0 <= start < end, frames.")


def _synthetic_frames(start: int) -> FrameSource:
    clip = make_synthetic_clip()
    n = len(clip.frames)
    if start >= n:
        raise ValueError(f"--start is {start}; the synthetic clip has {n} frames.")
    images = ((image, index / clip.fps) for index, image in enumerate(clip.frames))
    return FrameSource(clip.name, images, n, clip.fps, start)


def _parsed_box(text: str) -> FloatArray:
    box = box_of(text, "--box")
    if not box[2:].min() > 0:
        raise ValueError(f"--box is {text!r}; give x,y,w,h in pixels, w and h above 0.")
    return box


def _track(
    options: argparse.Namespace,
    source: FrameSource,
    frames: Iterator[tuple[int, Pixels]],
    boxes: Sequence[FloatArray],
    truths: Sequence[FloatArray],
) -> list[TrackedFrames]:
    """Track, write all outputs and print what was measured."""
    end, times = options.end, []
    is_open = True

    def read() -> Iterator[tuple[int, Pixels]]:
        for frame in frames:
            raise_if_interrupted()
            yield frame
            # Checked before another frame is read, because a camera may not have one.
            if not is_open or (end is not None and frame[0] + 1 >= end):
                return

    def each(index: int, image: Pixels, so_far: list[TrackedFrames]) -> None:
        nonlocal is_open
        times.append(source.time)
        if writer is not None or options.show:
            true = [rows[index] for rows in truths if index < len(rows)]
            drawn = draw_tracks(image, index, so_far, true)
            if writer is not None:
                writer.write(drawn)
            is_open = not options.show or shows(drawn)
        n_lost = sum(tracked.lost[-1] for tracked in so_far)
        rate = f"{frames_per_second(so_far):5.1f} frames per second"
        progress.step(f"{rate}  {n_lost} of {len(so_far)} lost")

    fps, n_frames = source.fps or 25.0, source.frame_count
    if n_frames is not None:
        n_frames = (n_frames if end is None else min(n_frames, end)) - options.start
    trackers = [StructBoostTracker(random_state=options.seed) for _ in boxes]
    sys.stderr.write(f"tracking {source.source}\n")
    # In a log the summary has the same facts.
    progress = ProgressLine("frame", n_frames, visible=sys.stderr.isatty())
    announce_compilation()
    warm_up(trackers[0])
    with ExitStack() as stack:
        writer = None
        if options.out is not None:
            writer = stack.enter_context(VideoWriter(options.out, fps=fps))
        if options.show:
            stack.callback(cv2.destroyAllWindows)
        tracks = track_objects(trackers, read(), np.array(boxes)[:, None], each=each)
    progress.close()
    if not len(tracks[0]):
        raise KeyboardInterrupt("interrupted before the first frame.")
    tracker = trackers[0]
    values = {**vars(tracker), **vars(tracker.learner)}
    facts = {
        "source": source.source,
        "structboost": version("structboost-learn"),
        "settings": {
            name: values[name] for name in inspect.signature(StructBoostTracker).parameters
        },
        "boxes": np.array(boxes).tolist(),
        "start": options.start,
        "end": end,
        "frames": len(tracks[0]),
        "fps": frames_per_second(tracks),
        "complete": tracks[0].complete and is_open,
    }
    measures = _measure(tracks, truths, to_the_end=end is None)
    if options.boxes is not None:
        write_tracks(options.boxes, tracks, times)
    if options.json is not None:
        write_summary(options.json, facts, tracks, measures, times)
    if options.plot is not None:
        plot_tracks(options.plot, tracks, measures)
    sys.stdout.write(f"{len(tracks[0])} frames, {facts['fps']:.1f} per second\n")
    for index, (tracked, measured) in enumerate(zip(tracks, measures, strict=True), 1):
        text = f"object {index}: lost in {sum(tracked.lost)}"
        if measured is not None:
            text += (
                f"; mean overlap {measured.mean_overlap:.3f}, centre error "
                f"{measured.mean_centre_error:.1f} pixels ({measured.n_known} frames)"
            )
        sys.stdout.write(text + "\n")
    if writer is not None and writer.size is not None:
        width, height = writer.size
        text = f"{writer.codec}; {width}x{height}, {fps:g} frames per second"
        sys.stdout.write(f"wrote {options.out}: {text}\n")
    if tracks[0].interrupted:
        raise KeyboardInterrupt(f"interrupted after {len(tracks[0])} frames, which are written.")
    return tracks


def _measure(
    tracks: Sequence[TrackedFrames], truths: Sequence[FloatArray], *, to_the_end: bool
) -> list[TrackingMeasures | None]:
    """Evaluate the frames after the first, with None for an object without truth."""
    measures: list[TrackingMeasures | None] = [None] * len(tracks)
    for index, (tracked, truth) in enumerate(zip(tracks, truths, strict=False)):
        first, last = tracked.numbers[0], tracked.numbers[-1] + 1
        rows = truth[first:last]
        n = len(rows)
        if n < len(tracked) or (to_the_end and tracked.complete and len(truth) > last):
            sys.stderr.write(
                f"The truth has {len(truth)} lines, for {len(tracked)} frames; {n} are compared.\n"
            )
        if n > 1 and not np.isnan(rows[1:]).all():
            measures[index] = evaluate(tracked.boxes[1:n], rows[1:])
    return measures
