"""Diagram of a run, with confidence, overlap and centre error."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structboost.files.atomic_write import write_whole
from structboost.runtime.extras import require
from structboost.tracking.metrics import TrackingMeasures
from structboost.tracking.tracked_frames import TrackedFrames
from structboost.vision.drawing import COLOURS

_SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


def check_plot(path: Path) -> None:
    """Raise ValueError unless a diagram of that name can be drawn."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"--plot {path} must end in one of {', '.join(_SUFFIXES)}.")
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

    has_truth = any(measured is not None for measured in measures)
    n_axes = 3 if has_truth else 1
    figure = Figure(figsize=(7.2, 1.0 + 1.9 * n_axes), layout="constrained")
    axes = figure.subplots(n_axes, 1, sharex=True, squeeze=False)[:, 0]
    for index, (tracked, measured) in enumerate(zip(tracks, measures, strict=True)):
        colour = tuple(part / 255 for part in COLOURS[index % len(COLOURS)])
        label = f"object {index + 1}" if len(tracks) > 1 else None
        axes[0].plot(tracked.numbers, tracked.confidences, color=colour, linewidth=1.1, label=label)
        _mark_lost(axes[0], tracked, colour)
        if measured is not None:
            frames = tracked.numbers[1 : 1 + len(measured.overlap)]
            axes[1].plot(frames, measured.overlap, color=colour, linewidth=1.1)
            axes[2].plot(frames, measured.centre_error, color=colour, linewidth=1.1)
    axes[0].set(ylim=(0, 1.02), ylabel="confidence")
    if any(any(tracked.lost) for tracked in tracks):
        axes[0].set_title("shaded: lost", fontsize=9, loc="right")
    if has_truth:
        axes[1].set(ylim=(0, 1.02), ylabel="overlap with truth")
        axes[2].set(ylabel="centre error (pixels)")
        axes[2].set_ylim(bottom=0)
    axes[-1].set(xlabel="frame")
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    if len(tracks) > 1:
        figure.legend(loc="outside upper left", ncols=min(len(tracks), 4), frameon=False)
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower(), dpi=120)
    write_whole(path, content.getvalue())


def _mark_lost(axis: Any, tracked: TrackedFrames, colour: tuple[float, ...]) -> None:
    """Shade runs of frames where the object is lost."""
    lost = np.concatenate(([False], tracked.lost, [False])).astype(np.int8)
    starts, ends = np.flatnonzero(np.diff(lost) > 0), np.flatnonzero(np.diff(lost) < 0)
    for start, end in zip(starts, ends, strict=True):
        first, last = tracked.numbers[start], tracked.numbers[end - 1]
        axis.axvspan(first - 0.5, last + 0.5, color=colour, alpha=0.15, linewidth=0)
