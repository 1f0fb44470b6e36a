"""Files of boxes and of runs, with one line ``x,y,w,h`` per frame, as a table, JSON or diagram."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray
from structboost.files.atomic_write import checked_path, write_whole
from structboost.runtime.extras import require
from structboost.tracking.metrics import TrackingMeasures, checked_boxes
from structboost.tracking.tracked_frames import TrackedFrames
from structboost.vision.drawing import COLOURS


def read_boxes(path: str | PathLike[str]) -> FloatArray:
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


def check_tracks_path(path: Path, n_objects: int) -> None:
    """Raise ValueError unless a file of that name can hold so many objects."""
    if n_objects > 1 and path.suffix.lower() != _TABLE:
        raise ValueError(
            f"--boxes {path} would hold one box per line, and there are {n_objects} objects; "
            "give a file that ends in .csv."
        )


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
        for index, (frame, seconds, box, confidence, lost, angle) in enumerate(
            (row.values() for row in rows), 1
        ):
            writer.writerow([frame, seconds, index, *box, confidence, int(lost), angle])
    write_whole(path, text.getvalue().encode())


def rows_of(tracked: TrackedFrames, times: Sequence[float | None]) -> list[dict[str, Any]]:
    """Return frame, time, box, confidence, lost and angle of each frame."""
    columns = {
        "frame": tracked.numbers,
        "time": [None if seconds is None else round(seconds, _DECIMALS) for seconds in times],
        "box": np.round(tracked.boxes, _DECIMALS).tolist(),
        "confidence": np.round(tracked.confidences, _DECIMALS).tolist(),
        "lost": tracked.lost,
        "angle": np.round(tracked.angles, _DECIMALS).tolist(),
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


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

    labels = ["confidence"]
    if any(measured is not None for measured in measures):
        labels += ["overlap with truth", "centre error (pixels)"]
    figure = Figure(figsize=(7.2, 1.0 + 1.9 * len(labels)), layout="constrained")
    axes = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
    for index, (tracked, measured) in enumerate(zip(tracks, measures, strict=True)):
        colour = tuple(part / 255 for part in COLOURS[index % len(COLOURS)])
        style: dict[str, Any] = {"color": colour, "linewidth": 1.1}
        label = f"object {index + 1}" if len(tracks) > 1 else None
        axes[0].plot(tracked.numbers, tracked.confidences, label=label, **style)
        shade = np.array(tracked.lost, np.float64)
        axes[0].fill_between(tracked.numbers, shade, step="mid", color=colour, alpha=0.15)
        if measured is not None:
            frames = tracked.numbers[1 : 1 + len(measured.overlap)]
            axes[1].plot(frames, measured.overlap, **style)
            axes[2].plot(frames, measured.centre_error, **style)
    for axis, label in zip(axes, labels, strict=True):
        axis.set(ylabel=label, ylim=(0, None if axis is axes[-1] and len(labels) > 1 else 1.02))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_title("shaded: lost", fontsize=9, loc="right")
    axes[-1].set(xlabel="frame")
    if len(tracks) > 1:
        figure.legend(loc="outside upper left", ncols=min(len(tracks), 4), frameon=False)
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower(), dpi=120)
    write_whole(path, content.getvalue())
