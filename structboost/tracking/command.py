"""``structboost track``: a video and a box in, a tracked video, boxes and a summary out."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from structboost.whole_file import whole_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from structboost.tracking.frame_image import FrameImage
    from structboost.tracking.measures import TrackingMeasures
    from structboost.tracking.tracked_frames import TrackedFrames

_DONE, _STOPPED_EARLY, _BAD_INPUT, _INTERRUPTED = 0, 1, 2, 130
_BAR_WIDTH = 24

_DESCRIPTION = """\
Follow an object through a video. The box is the object in the first frame: left, top, width and height in pixels.
Without SOURCE a made clip is tracked: a photograph moved over another one, both from scikit-image.
"""


class _Clip(NamedTuple):
    """What is tracked: numbered frames, where they come from, and what is known of them."""

    frames: Iterator[tuple[int, FrameImage]]
    name: str
    n_frames: int | None
    fps: float
    box: NDArray[np.float64]
    truth: NDArray[np.float64] | None


def add_arguments(subparsers: Any) -> None:
    """Add the command ``track`` to a parser's sub-commands."""
    parser = subparsers.add_parser("track", help="follow an object through a video", description=_DESCRIPTION)
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="video file, folder of images, or camera's index")
    parser.add_argument("--box", metavar="X,Y,W,H", help="the object in the first frame (default: drawn by mouse)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="video with the boxes drawn (.mp4, .avi, .mkv, .webm)")
    parser.add_argument("--boxes", type=Path, metavar="FILE", help="boxes as text, one x,y,w,h a line")
    parser.add_argument("--truth", type=Path, metavar="FILE", help="true boxes in that form, to measure against")
    parser.add_argument("--json", type=Path, metavar="FILE", help="frames, fps, mean overlap and centre error")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Track; the exit code is 0, 1 where frames ended early, 2 for bad input, 130 after Ctrl-C."""
    try:
        with ExitStack() as stack:
            return _track(options, stack)
    except (ValueError, OSError) as error:  # VideoError is a ValueError
        sys.stderr.write(f"structboost track: {error}\n")
        return _BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("\nstructboost track: interrupted before the first frame.\n")
        return _INTERRUPTED


def _track(options: argparse.Namespace, stack: ExitStack) -> int:
    from structboost.tracking.structboost_tracker import StructBoostTracker
    from structboost.tracking.tracked_frames import track_frames, warm_up
    from structboost.tracking.video_writer import VideoWriter

    for path in (options.boxes, options.json):
        _check_writable(path)
    clip = _open(options, stack)
    writer = stack.enter_context(VideoWriter(options.out, fps=clip.fps)) if options.out is not None else None
    tracker = StructBoostTracker()
    ctrl_c = stack.enter_context(_CtrlC())
    sys.stderr.write(f"{clip.name}\n")
    warm_up(tracker)
    progress = _Progress(clip.n_frames)

    def each(number: int, image: FrameImage, so_far: TrackedFrames) -> None:
        if writer is not None:
            writer.write(_drawn(number, image, so_far, clip.truth))
        progress.show(so_far)

    tracked = track_frames(tracker, ctrl_c.between(clip.frames), clip.box, each=each)
    progress.end()
    if not len(tracked):
        raise KeyboardInterrupt
    _write(options, clip, tracked)
    if tracked.error is not None:
        sys.stderr.write(f"structboost track: {tracked.error}\n")
        return _STOPPED_EARLY
    if tracked.interrupted:
        sys.stderr.write(f"structboost track: interrupted after {len(tracked)} frames, which are kept.\n")
        return _INTERRUPTED
    return _DONE


def _open(options: argparse.Namespace, stack: ExitStack) -> _Clip:
    """The frames, the first box and the truth."""
    import numpy as np

    from structboost.tracking.boxes_file import read_boxes
    from structboost.tracking.video import open_frames

    truth = None if options.truth is None else read_boxes(options.truth)
    box = None if options.box is None else _parsed_box(options.box)
    if options.source is None:
        from structboost.tracking.made_clip import made_clip

        made = made_clip()
        frames: Iterator[tuple[int, FrameImage]] = enumerate(made.frames)
        box = made.boxes[0] if box is None else box
        return _Clip(frames, made.name, len(made.frames), made.fps, box, made.boxes if truth is None else truth)
    source = stack.enter_context(open_frames(options.source))
    frames = source
    if box is None:
        number, image = next(frames)
        box = _drawn_by_mouse(image)
        frames = _chained([(number, image)], frames)
    return _Clip(frames, source.source, source.frame_count, source.fps or 25.0, np.asarray(box), truth)


def _chained(
    first: Iterable[tuple[int, FrameImage]], rest: Iterator[tuple[int, FrameImage]]
) -> Iterator[tuple[int, FrameImage]]:
    yield from first
    yield from rest


def _parsed_box(text: str) -> NDArray[np.float64]:
    import numpy as np

    try:
        box = [float(part) for part in text.split(",")]
    except ValueError:
        box = []
    if len(box) != 4 or not all(map(math.isfinite, box)) or min(box[2:]) <= 0:
        raise ValueError(f"--box is {text!r}; give x,y,w,h in pixels, as in --box 120,80,40,60, w and h above 0.")
    return np.array(box)


def _drawn_by_mouse(image: FrameImage) -> NDArray[np.float64]:
    """The box that the user draws on the first frame."""
    import cv2
    import numpy as np

    why = "there is no display to draw it on"
    # Where there is none, Qt ends the process instead of raising.
    if not sys.platform.startswith("linux") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        title = "Draw the object's box, then press Enter"
        try:
            box = np.array(cv2.selectROI(title, image, showCrosshair=False), np.float64)
            cv2.destroyWindow(title)
        except cv2.error as error:
            why = f"it cannot be drawn ({str(error).strip()})"
        else:
            if box[2:].min() > 0:
                return box
            why = "none was drawn"
    raise ValueError(f"No box was given, and {why}; give --box x,y,w,h.")


def _check_writable(path: Path | None) -> None:
    """Raise before hours of tracking, not after."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path.parent} is not a folder one can write to; make it, or choose another.")


def _drawn(number: int, image: FrameImage, so_far: TrackedFrames, truth: NDArray[np.float64] | None) -> FrameImage:
    """The frame with its box, its confidence and the true box where it is known."""
    from structboost.tracking.drawing import COLOURS, draw_box

    lost = so_far.lost[-1]
    label = f"#{number} lost" if lost else f"#{number} {so_far.confidences[-1]:.2f}"
    true = None if truth is None or number >= len(truth) else truth[number]
    return draw_box(image, so_far.boxes[-1], label, colour=COLOURS[4 if lost else 0], truth=true)


def _write(options: argparse.Namespace, clip: _Clip, tracked: TrackedFrames) -> None:
    """Boxes and summary into their files, and the summary on standard output."""
    from structboost.tracking.boxes_file import write_boxes

    if options.boxes is not None:
        write_boxes(options.boxes, tracked.boxes)
    measures = _measured(clip, tracked)
    overlap = None if measures is None else measures.mean_overlap
    error = None if measures is None else measures.mean_centre_error
    summary = {
        "source": clip.name,
        "frames": len(tracked),
        "fps": tracked.fps,
        "mean_overlap": overlap,
        "centre_error": error,
        "lost_frames": sum(tracked.lost),
        "complete": tracked.error is None and not tracked.interrupted,
    }
    if options.json is not None:
        _write_json(options.json, summary)
    line = f"{len(tracked)} frames, {tracked.fps:.1f} frames a second, lost in {sum(tracked.lost)}"
    if measures is not None:
        line += f"; mean overlap {overlap:.3f}, centre error {error:.1f} pixels ({measures.n_known} frames)"
    sys.stdout.write(line + "\n")


def _measured(clip: _Clip, tracked: TrackedFrames) -> TrackingMeasures | None:
    """Against the truth, in the frames after the first; None if it is known in none of them."""
    import numpy as np

    from structboost.tracking.measures import evaluate

    if clip.truth is None:
        return None
    n = min(len(tracked), len(clip.truth))
    whole = tracked.error is None and not tracked.interrupted
    if len(clip.truth) < len(tracked) or (whole and len(clip.truth) > len(tracked)):
        sys.stderr.write(f"The truth has {len(clip.truth)} lines, for {len(tracked)} frames; {n} are compared.\n")
    truth = clip.truth[1:n]
    return None if np.isnan(truth).all() else evaluate(tracked.boxes[1:n], truth)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    """All of the file or nothing."""
    with whole_file(path) as file:
        file.write((json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


class _CtrlC:
    """Lets the first Ctrl-C end the tracking between two frames, the second one at once.

    Compiled code that is interrupted answers with a SystemError.
    """

    def __init__(self) -> None:
        self._pressed = False
        self._previous: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def between(self, frames: Iterator[tuple[int, FrameImage]]) -> Iterator[tuple[int, FrameImage]]:
        """The frames, until it was pressed."""
        for frame in frames:
            if self._pressed:
                raise KeyboardInterrupt
            yield frame

    def _press(self, *_: object) -> None:
        self._pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Progress:
    """One line on standard error, redrawn a few times a second; silent where that is no terminal."""

    def __init__(self, n_frames: int | None) -> None:
        self.n_frames = n_frames
        self._shown = sys.stderr.isatty()

    def show(self, so_far: TrackedFrames) -> None:
        if not self._shown or len(so_far) % 5:
            return
        done = len(so_far)
        state = "lost" if so_far.lost[-1] else f"{so_far.confidences[-1]:.2f}"
        line = f"frame {done}  {so_far.fps:5.1f} frames a second  confidence {state}   "
        if self.n_frames:
            filled = min(_BAR_WIDTH, round(_BAR_WIDTH * done / self.n_frames))
            line = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {line}"
        sys.stderr.write("\r" + line)
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\n")
