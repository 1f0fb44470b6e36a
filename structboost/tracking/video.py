"""Frames in: a video file, a folder of images or a camera, as one iterator over numbered frames."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Self

import cv2
import numpy as np

from structboost.tracking.frame_image import FrameImage
from structboost.tracking.movie_header import shown_seconds
from structboost.tracking.video_error import VideoError

_IMAGE_SUFFIXES = frozenset(".bmp .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
# These containers store the number of frames; for the others OpenCV estimates it from a duration, maybe the sound's.
_EXACT_COUNT_SUFFIXES = frozenset(".mp4 .m4v .mov .3gp .avi".split())
# Of these, the ones whose edit list may hide frames.
_EDITABLE_SUFFIXES = _EXACT_COUNT_SUFFIXES - {".avi"}
# Packets to try after one that cannot be decoded: a group of pictures rarely is longer.
_PACKETS_TO_TRY = 250
# FFmpeg "decodes" text files, into pictures of the text.
_TEXT_CODEC = b"ansi"


class FrameSource(Iterator[tuple[int, FrameImage]], ABC):
    """Frames in order, each once; made by :func:`open_frames`.

    Iterating gives ``(frame_number, image)``: numbers from 0, images of uint8 of shape (height, width) for grey or
    (height, width, 3) for BGR, of any and of changing size.  A context manager; it is also closed at its end.

    Attributes
    ----------
    source : str
    frame_count : int or None
        Frames in the source.  None if unknown; an estimate for containers that do not store it, such as .mkv and .webm.
    fps : float or None
        Frames a second.  None if unknown.
    """

    def __init__(self, source: str, frame_count: int | None, fps: float | None) -> None:
        self.source = source
        self.frame_count = frame_count
        self.fps = fps
        self._number = 0
        self._closed = False

    def __next__(self) -> tuple[int, FrameImage]:
        if self._closed:
            raise StopIteration
        try:
            image = self._read()
        except VideoError:
            self.close()
            raise
        if image is None:
            self.close()
            raise StopIteration
        number = self._number
        self._number += 1
        return number, image

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the source; iteration ends."""
        self._closed = True

    @abstractmethod
    def _read(self) -> FrameImage | None:
        """The frame of ``_number``, None after the last."""


class _ImageFolder(FrameSource):
    def __init__(self, folder: Path) -> None:
        self._paths = _images_of(folder)
        super().__init__(str(folder), len(self._paths), None)

    def _read(self) -> FrameImage | None:
        if self._number == len(self._paths):
            return None
        path = self._paths[self._number]
        try:
            # Reading the bytes here keeps names that are not ASCII working on every system.
            data = np.frombuffer(path.read_bytes(), np.uint8)
            image = cv2.imdecode(data, cv2.IMREAD_ANYCOLOR) if len(data) else None
        except (OSError, cv2.error) as error:
            raise self._unreadable(path, f" ({error})") from error
        if image is None:
            raise self._unreadable(path, " (it is empty)" if not len(data) else "")
        return np.asarray(image, np.uint8)

    def _unreadable(self, path: Path, why: str) -> VideoError:
        return VideoError(
            f"{self.source}: frame {self._number} cannot be read from {path.name}{why}; it is not an image or is "
            f"truncated. Replace or remove that file. Frames before it, counted from 0, were read."
        )


class _VideoFile(FrameSource):
    def __init__(self, source: str) -> None:
        self._capture = cv2.VideoCapture(source, cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise VideoError(
                f"{source}: frame 0 cannot be read; it is not a video that OpenCV's FFMPEG knows, or its header is "
                "missing, as in an incomplete download. Get it again, or convert it to .mp4."
            )
        codec = int(self._capture.get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF
        if codec.to_bytes(4, "little") == _TEXT_CODEC:
            self._capture.release()
            raise VideoError(f"{source} is a text file; frame 0 cannot be read. Give a video, a folder or a camera.")
        count = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        super().__init__(source, int(count) if 0 < count < 1e9 else None, _known_fps(self._capture))

    def close(self) -> None:
        super().close()
        self._capture.release()

    def _read(self) -> FrameImage | None:
        image = _decoded(self._capture)
        if image is None:
            self._check_end()
        return image

    def _check_end(self) -> None:
        """Tell the end from damage: OpenCV reports both as "no frame"."""
        if self.frame_count is None and self._number:
            return
        missing = (self.frame_count or 0) - self._number
        if any(self._capture.grab() for _ in range(min(missing, _PACKETS_TO_TRY))):
            raise VideoError(
                f"{self.source}: frame {self._number} is damaged, but frames follow it. "
                f"The frames before it, counted from 0, were read; convert the file to skip it."
            )
        if not self._number:
            raise VideoError(f"{self.source}: frame 0 cannot be decoded; it holds no frame or is truncated.")
        if self._number < self._least_count():
            raise VideoError(
                f"{self.source} ends before frame {self._number} of {self.frame_count}, which its header announces; it "
                "is truncated or damaged. The frames before it, counted from 0, were read; get the file again for the "
                "rest."
            )

    def _least_count(self) -> int:
        """Frames that an undamaged file gives at least."""
        announced = self.frame_count or 0
        path, fps = Path(self.source), self.fps or 0.0
        suffix = path.suffix.lower()
        if suffix in _EDITABLE_SUFFIXES and path.is_file():
            seconds = shown_seconds(path)
            shown = announced if seconds is None else min(announced, round(seconds * fps))
        else:
            shown = announced
        if suffix in _EXACT_COUNT_SUFFIXES and shown == announced:
            return announced - 2
        return shown - max(2, round(fps))  # the duration may be that of the sound, which often is a little longer


class _Camera(FrameSource):
    def __init__(self, index: int) -> None:
        self._capture = cv2.VideoCapture(index)
        if not self._capture.isOpened():
            raise VideoError(
                f"camera {index}: frame 0 cannot be read; there is no such camera or another program uses it. "
                "Connect it, close that program, or give another index."
            )
        super().__init__(f"camera {index}", None, _known_fps(self._capture))

    def close(self) -> None:
        super().close()
        self._capture.release()

    def _read(self) -> FrameImage | None:
        image = _decoded(self._capture)
        if image is None:
            raise VideoError(
                f"{self.source} stopped before frame {self._number}; is it unplugged? The frames before it, counted "
                "from 0, were read."
            )
        return image


def open_frames(source: str | PathLike[str] | int) -> FrameSource:
    """Frames of a video file, of a folder of images or of a camera.

    Parameters
    ----------
    source : str, path or int
        A file or URL that OpenCV's FFMPEG reads; a folder with images, or with images in its sub-folder ``img`` (the
        layout of the OTB sequences), taken in natural order of their names (2 before 10); or a camera's index, also
        as a string of digits.

    Returns
    -------
    FrameSource
        Iterator over ``(frame_number, image)``, with ``frame_count`` and ``fps``.

    Raises
    ------
    VideoError
        If there is no such source, or it holds no frame.  While iterating: when a frame that cannot be read is
        reached, or the file ends before the frames its header announces; the frames before were given.
    """
    if isinstance(source, int):
        return _Camera(source)
    path = Path(source)
    if path.is_dir():
        return _ImageFolder(path)
    text = str(source)
    if path.is_file() or "://" in text:
        if path.is_file() and not path.stat().st_size:
            raise VideoError(f"{text} is an empty file; frame 0 cannot be read. Get it again.")
        return _VideoFile(text)
    if re.fullmatch("[0-9]+", text):
        return _Camera(int(text))
    raise VideoError(
        f"{text} does not exist, so frame 0 cannot be read. "
        "Give a video file, a folder with images or a camera's index."
    )


def _images_of(folder: Path) -> list[Path]:
    inner = folder / "img"
    for place in (inner, folder):
        if place.is_dir():
            # Names with a leading dot are other systems' side files, not images.
            paths = [p for p in place.iterdir() if p.suffix.lower() in _IMAGE_SUFFIXES and not p.name.startswith(".")]
            if paths:
                return sorted(paths, key=_natural_order)
    raise VideoError(
        f"{folder} and its sub-folder img hold no images ({' '.join(sorted(_IMAGE_SUFFIXES))}), so frame 0 cannot be "
        "read. Give the folder that holds the frames."
    )


def _natural_order(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Digits compare as numbers; the name itself breaks ties such as 1 and 01."""
    pieces = re.split(r"([0-9]+)", path.name.lower())
    return [(int(piece), "") if number % 2 else (0, piece) for number, piece in enumerate(pieces)], path.name


def _decoded(capture: cv2.VideoCapture) -> FrameImage | None:
    try:
        found, image = capture.read()
    except cv2.error:  # an absurd frame size in a damaged stream
        return None
    return np.asarray(image, np.uint8) if found else None


def _known_fps(capture: cv2.VideoCapture) -> float | None:
    fps = capture.get(cv2.CAP_PROP_FPS)
    return float(fps) if 0 < fps < 1e4 else None
