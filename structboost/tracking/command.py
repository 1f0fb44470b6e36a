"""Command ``structboost track``, which writes a tracked video, its boxes and a summary."""

from __future__ import annotations

import csv
import io
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.errors import say, usable
from structboost.files.atomic_write import (
    STANDARD_OUTPUT,
    check_outputs,
    write_json,
    write_whole,
)
from structboost.progress import ProgressLine
from structboost.runtime.compiled import announce_compilation
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.tracking.box_tracker import StructBoostTracker
from structboost.tracking.tracks import (
    TrackedFrames,
    TrackingMeasures,
    evaluate,
    read_boxes,
    track_objects,
    warm_up,
)
from structboost.tracking.video import VideoWriter, open_frames, source_files
from structboost.vision.drawing import BLACK, COLOURS, RED, WHITE, draw_box, draw_label
from structboost.vision.images import Pixels

_DESCRIPTION = """\
Follow objects through a video. A box is an object in the first frame: left, top, width and height
in pixels.
"""
_OUTPUTS = {
    "--out": "video with the boxes drawn (.mp4, .mkv)",
    "--boxes": "table of boxes (.csv)",
    "--json": "measures, and all frames (- is standard output)",
}
_DECIMALS = 4  # of pixels and radians


def add_arguments(subparsers: Any) -> None:
    """Add the command ``track`` to a parser's sub-commands."""
    parser = subparsers.add_parser("track", help="follow objects through a video")
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("source", type=Path, metavar="SOURCE", help="video, or folder of images")
    add(
        "--box", type=_box, metavar="X,Y,W,H", action="append", required=True,
        help="an object in the first frame; again for more objects"
    )  # fmt: skip
    for name, text in _OUTPUTS.items():
        add(name, type=Path, metavar="FILE", help=text)
    add(
        "--truth", type=Path, metavar="FILE", action="append", default=[],
        help="true boxes, one x,y,w,h per line of each frame, to measure against; one per --box"
    )  # fmt: skip
    parser.set_defaults(run=run)


def _box(text: str) -> FloatArray:
    return np.array(text.split(","), np.float64).reshape(4)


def run(options: Namespace) -> bool:
    """Track and return whether all frames were read.

    ValueError or OSError if the input is bad or an output cannot be written.  KeyboardInterrupt
    after Ctrl-C, when the frames tracked by then are written.
    """
    outputs = {name: getattr(options, name[2:]) for name in _OUTPUTS}
    check_outputs(outputs, source_files(options.source) + options.truth)
    truths = [read_boxes(path) for path in options.truth]
    if len(truths) > len(options.box):
        raise ValueError(
            f"There are {len(truths)} --truth for {len(options.box)} boxes; give one for each "
            "--box."
        )
    with deferred_interrupts(grace=None):
        tracks = _track(options, truths)
        _write(options, tracks, truths)
    error, interrupted = tracks[0].error, tracks[0].interrupted
    if interrupted:
        raise KeyboardInterrupt(f"interrupted after {len(tracks[0])} frames, which are written.")
    if error is not None:
        say(f"structboost track: {error}")
    return error is None


def _track(options: Namespace, truths: Sequence[FloatArray]) -> list[TrackedFrames]:
    """Track, and write the video."""
    source = open_frames(options.source)

    def read() -> Iterator[tuple[int, Pixels]]:
        for frame in source:
            raise_if_interrupted()
            yield frame

    def each(index: int, image: Pixels, so_far: list[TrackedFrames]) -> None:
        if writer is not None:
            writer.write(_drawn(image, index, so_far, truths))
        n_lost = sum(tracked.lost[-1] for tracked in so_far)
        rate = f"{_frames_per_second(so_far):5.1f} frames per second"
        progress.step(f"{rate}  {n_lost} of {len(so_far)} lost")

    trackers = [StructBoostTracker() for _ in options.box]
    say(f"tracking {options.source}")
    # In a log the summary has the same facts.
    visible = usable(sys.stderr).isatty() or options.verbose
    progress = ProgressLine("frame", source.frame_count, visible)
    announce_compilation()
    warm_up(trackers[0])
    fps, path = source.fps or 25.0, options.out
    with nullcontext() if path is None else VideoWriter(path, fps=fps) as writer:
        tracks = track_objects(trackers, read(), options.box, each=each)
    progress.close()
    if not len(tracks[0]):
        raise KeyboardInterrupt("interrupted before the first frame.")
    return tracks


def _drawn(
    image: Pixels, index: int, tracks: Sequence[TrackedFrames], truths: Sequence[FloatArray]
) -> Pixels:
    """Draw the true boxes, the last box of each object and the frame's index."""
    for rows in truths:
        if index < len(rows):
            image = draw_box(image, rows[index], "truth", colour=WHITE)
    for place, tracked in enumerate(tracks):
        colour, label = COLOURS[place % len(COLOURS)], f"confidence {tracked.confidences[-1]:.2f}"
        if tracked.lost[-1]:
            colour, label = RED, "lost, last seen here"
        prefix = f"{place + 1}: " if len(tracks) > 1 else ""
        image = draw_box(image, tracked.boxes[-1], prefix + label, colour=colour)
    draw_label(image, f"frame {index}", (0, len(image)), BLACK)
    return image


def _frames_per_second(tracks: Sequence[TrackedFrames]) -> float:
    """Return frames per second of the trackers of all objects together."""
    return 1 / sum(1 / tracked.fps for tracked in tracks)


def _write(
    options: Namespace, tracks: Sequence[TrackedFrames], truths: Sequence[FloatArray]
) -> None:
    """Write the table and the summary, and print what was measured."""
    frames = [_rows(tracked) for tracked in tracks]
    objects = []
    for index, tracked in enumerate(tracks):
        measured = _measures(tracked, truths[index]) if index < len(truths) else None
        objects.append(
            {
                "object": index + 1,
                "mean_overlap": measured and measured.mean_overlap,
                "centre_error": measured and measured.mean_centre_error,
                "lost_frames": sum(tracked.lost),
                "frames": frames[index],
            }
        )
    fps = _frames_per_second(tracks)
    facts = {
        "source": str(options.source),
        "structboost": version("structboost-learn"),
        "frames": len(tracks[0]),
        "fps": fps,
        "complete": tracks[0].complete,
        "objects": objects,
    }
    if options.boxes is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow("frame object x y width height confidence lost angle".split())
        for rows in zip(*frames, strict=True):
            for index, row in enumerate(rows, 1):
                frame, box, confidence, lost, angle = row.values()
                writer.writerow([frame, index, *box, confidence, int(lost), angle])
        write_whole(options.boxes, text.getvalue().encode())
    if options.json is not None:
        write_json(options.json, facts)
    stream = usable(sys.stderr if options.json == STANDARD_OUTPUT else sys.stdout)
    stream.write(f"{len(tracks[0])} frames, {fps:.1f} per second\n")
    for figures in objects:
        shown = f"object {figures['object']}: lost in {figures['lost_frames']}"
        if figures["mean_overlap"] is not None:
            shown += f"; mean overlap {figures['mean_overlap']:.3f}, centre error "
            shown += f"{figures['centre_error']:.1f} pixels"
        stream.write(shown + "\n")


def _rows(tracked: TrackedFrames) -> list[dict[str, Any]]:
    """Return frame, box, confidence, lost and angle of each frame."""
    boxes, confidences, angles = (
        np.round(values, _DECIMALS).tolist()
        for values in (tracked.boxes, tracked.confidences, tracked.angles)
    )
    names = "frame", "box", "confidence", "lost", "angle"
    columns = tracked.numbers, boxes, confidences, tracked.lost, angles
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _measures(tracked: TrackedFrames, truth: FloatArray) -> TrackingMeasures | None:
    """Evaluate the frames after the first, if any has a true box."""
    n = min(len(tracked), len(truth))
    if len(tracked) != len(truth):
        say(f"The truth has {len(truth)} lines, for {len(tracked)} frames; {n} are compared.")
    is_known = not np.isnan(truth[1:n]).all()
    return evaluate(tracked.boxes[1:n], truth[1:n]) if is_known else None
