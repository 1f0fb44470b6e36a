"""Files of tracked boxes, as a table and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.files.atomic_write import write_whole
from structboost.tracking.boxes_file import write_boxes
from structboost.tracking.metrics import TrackingMeasures
from structboost.tracking.tracked_frames import TrackedFrames

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
