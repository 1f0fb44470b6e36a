"""Files of boxes, with one line ``x,y,w,h`` per frame."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost.files.atomic_write import checked_path, whole_file
from structboost.validation import checked_numbers

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
