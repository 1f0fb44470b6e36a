"""Command ``structboost track``, which writes a tracked video, its boxes and a summary."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from structboost.files.outputs import check_outputs
from structboost.progress import ProgressLine
from structboost.runtime.compilation import announce_compilation
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.tracking.box_tracker import BoxTracker
from structboost.tracking.clip import Clip, open_clip
from structboost.tracking.drawing import draw_tracks
from structboost.tracking.metrics import TrackingMeasures, evaluate
from structboost.tracking.structboost_tracker import StructBoostTracker
from structboost.tracking.tracked_frames import (
    TrackedFrames,
    frames_per_second,
    track_objects,
    warm_up,
)
from structboost.tracking.tracks_file import (
    check_tracks_path,
    measures_of,
    settings_of,
    write_summary,
    write_tracks,
)
from structboost.tracking.tracks_plot import check_plot, plot_tracks
from structboost.tracking.video import source_files
from structboost.tracking.video_writer import VideoWriter
from structboost.tracking.window import Window
from structboost.validation import checked_seed
from structboost.vision.images import Pixels

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
