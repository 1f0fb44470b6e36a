"""How long an .mp4 or .mov says it is shown, which OpenCV does not tell.

An edit list may hide frames at either end, as after cutting a video on a phone: OpenCV's number of frames counts the
hidden ones too.
"""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path
from typing import BinaryIO


def shown_seconds(path: Path) -> float | None:
    """Duration in seconds from the movie header (ISO/IEC 14496-12, 8.2.2), edits applied.

    Parameters
    ----------
    path : path

    Returns
    -------
    float or None
        None if the file has no such header or the header leaves it open.
    """
    with path.open("rb") as file:
        movie = _box(file, b"moov", path.stat().st_size)
    header = _box(BytesIO(movie), b"mvhd", len(movie)) if movie else None
    if not header or len(header) < 32:
        return None
    # After the version come two dates; they and the duration have 8 bytes instead of 4 in version 1.
    ticks_a_second, duration = (
        struct.unpack_from(">IQ", header, 20) if header[0] == 1 else struct.unpack_from(">II", header, 12)
    )
    return duration / ticks_a_second if ticks_a_second and duration else None


def _box(file: BinaryIO, wanted: bytes, end: int) -> bytes | None:
    """Content of the first box of a kind among those that follow each other in ``file``."""
    at = 0
    while at + 8 <= end:
        file.seek(at)
        size, kind = struct.unpack(">I4s", file.read(8))
        start = at + 8
        if size == 1 and at + 16 <= end:  # a large box gives its size after its kind
            (size,) = struct.unpack(">Q", file.read(8))
            start = at + 16
        if kind == wanted:
            return file.read(max(0, at + size - start)) if size else file.read()
        if at + size < start:  # 0: up to the end of the file; else damaged
            return None
        at += size
    return None
