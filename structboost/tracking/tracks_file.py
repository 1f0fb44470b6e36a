"""Files of boxes and of runs, with one line ``x,y,w,h`` per frame, as a table, JSON or diagram."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost._typing import FloatArray
from structboost.files.atomic_write import checked_path, whole_file, write_whole
from structboost.runtime.extras import require
from structboost.tracking.metrics import TrackingMeasures
from structboost.tracking.tracked_frames import TrackedFrames
from structboost.validation import checked_numbers
from structboost.vision.drawing import COLOURS

_WANTED = "four finite numbers, or four NaN where the box is unknown"
_SEPARATORS = re.compile(r"\s*,\s*|\s+")


def read_boxes(path: str | PathLike[str]) -> NDArray[np.float64]:
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


def write_boxes(path: str | PathLike[str], boxes: ArrayLike) -> None:
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
    rows = checked_numbers(boxes, "boxes")
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"boxes has shape {rows.shape}; give (n_frames, 4).")
    for index, row in enumerate(rows.tolist()):
        if not _is_known_or_unknown(row):
            raise ValueError(f"boxes is {row} in frame {index}; give {_WANTED}.")
    with whole_file(path) as file:
        file.writelines(
            (",".join(map(_shortest_text, row)) + "\n").encode() for row in rows.tolist()
        )


def box_of(text: str, where: str) -> list[float]:
    """Parse the four numbers of a line, with its place in the error message."""
    box = numbers_of(text)
    if len(box) != 4 or not _is_known_or_unknown(box):
        raise ValueError(f"{where} is {text.strip()!r}; give x,y,w,h, {_WANTED}.")
    return box


def numbers_of(text: str) -> list[float]:
    """Parse numbers between commas, tabs or spaces into a list, empty if one is not a number."""
    try:
        return [float(field) for field in _SEPARATORS.split(text.strip())]
    except ValueError:
        return []


def _is_known_or_unknown(box: list[float]) -> bool:
    return bool(np.isfinite(box).all() or np.isnan(box).all())


def _shortest_text(value: float) -> str:
    """Format a number as the shortest text that reads back as the same number."""
    if np.isnan(value):
        return "NaN"
    return str(int(value)) if value.is_integer() else repr(value)


TABLE_SUFFIX = ".csv"
COLUMNS = (
    "frame", "time", "object", "x", "y", "width", "height", "confidence", "lost", "angle"
)  # fmt: skip
_DECIMALS = 4  # of pixels, seconds, radians


def write_tracks(
    path: str | PathLike[str], tracks: Sequence[TrackedFrames], times: Sequence[float | None]
) -> None:
    """Write boxes of objects as a table with a header (.csv) or as ``x,y,w,h`` lines.

    ``times`` are the seconds of each frame, None where unknown.  ValueError if there are several
    objects and the suffix is not .csv.
    """
    check_tracks_path(Path(path), len(tracks))
    if Path(path).suffix.lower() != TABLE_SUFFIX:
        write_boxes(path, tracks[0].boxes)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    by_object = [list(rows_of(tracked, times)) for tracked in tracks]
    for rows in zip(*by_object, strict=True):
        for index, row in enumerate(rows, 1):
            sides = dict(zip(COLUMNS[3:7], row.pop("box"), strict=True))
            writer.writerow({**row, **sides, "object": index, "lost": int(row["lost"])})
    write_whole(path, text.getvalue().encode())


def check_tracks_path(path: Path, n_objects: int) -> None:
    """Raise ValueError unless a file of that name can hold so many objects."""
    if n_objects > 1 and path.suffix.lower() != TABLE_SUFFIX:
        raise ValueError(
            f"--boxes {path} would hold one box per line, and there are {n_objects} objects; "
            "give a file that ends in .csv."
        )


def rows_of(tracked: TrackedFrames, times: Sequence[float | None]) -> Iterator[dict[str, Any]]:
    """Return frame, time, box, confidence, lost and angle of each frame."""
    columns = (tracked.numbers, times, tracked.boxes, tracked.confidences, tracked.lost)
    for index, seconds, box, confidence, lost, angle in zip(*columns, tracked.angles, strict=True):
        yield {
            "frame": index,
            "time": None if seconds is None else round(seconds, _DECIMALS),
            "box": np.round(box, _DECIMALS).tolist(),
            "confidence": round(confidence, _DECIMALS),
            "lost": lost,
            "angle": round(angle, _DECIMALS),
        }


def write_summary(
    path: str | PathLike[str],
    facts: Mapping[str, Any],
    tracks: Sequence[TrackedFrames],
    measures: Sequence[TrackingMeasures | None],
    times: Sequence[float | None],
) -> None:
    """Write the facts of a run, and the measures and frames of each object, as JSON."""
    objects = [
        {
            "object": index,
            "lost_frames": sum(tracked.lost),
            **measures_of(measured),
            "frames": list(rows_of(tracked, times)),
        }
        for index, (tracked, measured) in enumerate(zip(tracks, measures, strict=True), 1)
    ]
    text = json.dumps({**facts, "objects": objects}, indent=1, allow_nan=False)
    write_whole(path, (text + "\n").encode())


def measures_of(measured: TrackingMeasures | None) -> dict[str, float | None]:
    """Return mean overlap and centre error (pixels), or None where the truth is unknown."""
    return {
        "mean_overlap": None if measured is None else measured.mean_overlap,
        "centre_error": None if measured is None else measured.mean_centre_error,
    }


def settings_of(tracker: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return parameters of a tracker or of its learner, by name."""
    return {
        name: getattr(tracker, name) if hasattr(tracker, name) else getattr(tracker.learner, name)
        for name in names
    }


def box_text(box: FloatArray) -> str:
    """Format a box as ``--box`` takes it."""
    return ",".join(f"{side:g}" if abs(side) < 1e5 else f"{side:.1f}" for side in box)


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
