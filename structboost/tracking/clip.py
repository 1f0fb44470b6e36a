"""Input of ``structboost track``, with the frames of a source, first boxes and true boxes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

import numpy as np

from structboost._typing import FloatArray
from structboost.tracking.boxes_file import numbers_of, read_boxes
from structboost.tracking.synthetic_clip import make_synthetic_clip
from structboost.tracking.tracks_file import box_text
from structboost.tracking.video import open_frames
from structboost.tracking.window import box_drawn_by_mouse
from structboost.vision.images import Pixels


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
