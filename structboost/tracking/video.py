"""Frames in: a video file, a folder of images or a camera, as one iterator over numbered frames."""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Self

import cv2

from structboost.vision.images import Pixels, decoded_image, swapped_channels

_IMAGE_SUFFIXES = frozenset(".bmp .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
# Containers that store the number of frames; for the others OpenCV estimates it from a duration,
# maybe the sound's.
_EXACT_COUNT_SUFFIXES = frozenset(".mp4 .m4v .mov .3gp .avi".split())
# Those whose edit list may hide frames.
_EDITABLE_SUFFIXES = _EXACT_COUNT_SUFFIXES - {".avi"}
# Packets to try after one that cannot be decoded: a group of pictures is rarely longer.
_PACKETS_TO_TRY = 250
# FFmpeg "decodes" text files, into pictures of the text.
_TEXT_CODEC = b"ansi"
_READ_BEFORE = "The frames before it, counted from 0, were read"


class VideoError(ValueError):
    """Frames cannot be read or written; the message names the source, the frame and the remedy."""


class FrameSource(Iterator[tuple[int, Pixels]], ABC):
    """Frames in order, each once; made by :func:`open_frames`.

    Iterating gives ``(frame_number, image)``: numbers from 0, and images of uint8 of shape (height,
    width) for grey or (height, width, 3) for RGB, whose sizes may differ.  It is a context manager,
    and it closes itself at its end.

    Attributes
    ----------
    source : str
    frame_count : int or None
        Number of frames in the source; None if unknown.  It is an estimate for containers that do
        not store it, such as .mkv and .webm.
    fps : float or None
        Frames per second; None if unknown.
    """

    def __init__(self, source: str, frame_count: int | None, fps: float | None) -> None:
        self.source = source
        self.frame_count = frame_count
        self.fps = fps
        self._number = 0
        self._closed = False

    def __next__(self) -> tuple[int, Pixels]:
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
    def _read(self) -> Pixels | None:
        """The frame of ``_number``, None after the last."""


class _ImageFolder(FrameSource):
    def __init__(self, folder: Path) -> None:
        self._paths = _images_of(folder)
        super().__init__(str(folder), len(self._paths), None)

    def _read(self) -> Pixels | None:
        if self._number == len(self._paths):
            return None
        path = self._paths[self._number]
        try:
            # Reading the bytes here keeps names that are not ASCII working on every system.
            content = path.read_bytes()
            image = decoded_image(content)
        except (OSError, cv2.error) as error:
            raise self._unreadable(path, f" ({error})") from error
        if image is None:
            raise self._unreadable(path, "" if content else " (it is empty)")
        return image

    def _unreadable(self, path: Path, why: str) -> VideoError:
        return VideoError(
            f"{self.source}: frame {self._number} cannot be read from {path.name}{why}; it is not "
            f"an image or is truncated. Replace or remove that file. {_READ_BEFORE}."
        )


class _VideoFile(FrameSource):
    def __init__(self, source: str) -> None:
        self._capture = cv2.VideoCapture(source, cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise VideoError(
                f"{source}: frame 0 cannot be read; it is not a video that OpenCV's FFMPEG knows, "
                "or its header is missing, as in an incomplete download. Get it again, or convert "
                "it to .mp4."
            )
        codec = int(self._capture.get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF
        if codec.to_bytes(4, "little") == _TEXT_CODEC:
            self._capture.release()
            raise VideoError(
                f"{source} is a text file; frame 0 cannot be read. "
                "Give a video, a folder or a camera."
            )
        count = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        super().__init__(source, int(count) if 0 < count < 1e9 else None, _known_fps(self._capture))

    def close(self) -> None:
        super().close()
        self._capture.release()

    def _read(self) -> Pixels | None:
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
                f"{_READ_BEFORE}; convert the file to skip it."
            )
        if not self._number:
            raise VideoError(
                f"{self.source}: frame 0 cannot be decoded; it holds no frame or is truncated."
            )
        if self._number < self._least_count():
            raise VideoError(
                f"{self.source} ends before frame {self._number} of {self.frame_count}, which its "
                f"header announces; it is truncated or damaged. {_READ_BEFORE}; get the file again "
                "for the rest."
            )

    def _least_count(self) -> int:
        """Number of frames that an undamaged file gives at least."""
        announced, fps = self.frame_count or 0, self.fps or 0.0
        path = Path(self.source)
        suffix = path.suffix.lower()
        shown = announced
        if suffix in _EDITABLE_SUFFIXES and path.is_file():
            seconds = shown_seconds(path)
            shown = announced if seconds is None else min(announced, round(seconds * fps))
        if suffix in _EXACT_COUNT_SUFFIXES and shown == announced:
            return announced - 2
        # The duration may be that of the sound, which often is a little longer.
        return shown - max(2, round(fps))


class _Camera(FrameSource):
    def __init__(self, index: int) -> None:
        self._capture = cv2.VideoCapture(index)
        if not self._capture.isOpened():
            raise VideoError(
                f"camera {index}: frame 0 cannot be read; there is no such camera or another "
                "program uses it. Connect it, close that program, or give another index."
            )
        super().__init__(f"camera {index}", None, _known_fps(self._capture))

    def close(self) -> None:
        super().close()
        self._capture.release()

    def _read(self) -> Pixels | None:
        image = _decoded(self._capture)
        if image is None:
            raise VideoError(
                f"{self.source} stopped before frame {self._number}; is it unplugged? "
                f"{_READ_BEFORE}."
            )
        return image


def open_frames(source: str | PathLike[str] | int) -> FrameSource:
    """Frames of a video file, of a folder of images or of a camera.

    Parameters
    ----------
    source : str, path or int
        A file or URL that OpenCV's FFMPEG reads; a folder with images, or with images in its
        sub-folder ``img`` (the layout of the OTB sequences), taken in natural order of their names
        (2 before 10); or a camera's index, also as a string of digits.

    Returns
    -------
    FrameSource
        Iterator over ``(frame_number, image)``, with ``frame_count`` and ``fps``.

    Raises
    ------
    VideoError
        If there is no such source, or it holds no frame.  While iterating: if a frame cannot be
        read, or the file ends before the frames its header announces; the frames before it were
        given.
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


def source_files(source: str | PathLike[str]) -> list[Path]:
    """The files that :func:`open_frames` reads: none for a camera, a URL, or where nothing is.

    Raises
    ------
    VideoError
        If it is a folder without images.
    """
    path = Path(source)
    if path.is_dir():
        return _images_of(path)
    return [path] if path.is_file() else []


def _images_of(folder: Path) -> list[Path]:
    inner = folder / "img"
    for place in (inner, folder):
        if place.is_dir():
            # Names with a leading dot are other systems' side files, not images.
            paths = [
                p
                for p in place.iterdir()
                if p.suffix.lower() in _IMAGE_SUFFIXES and not p.name.startswith(".")
            ]
            if paths:
                return sorted(paths, key=_natural_order)
    raise VideoError(
        f"{folder} and its sub-folder img hold no images ({' '.join(sorted(_IMAGE_SUFFIXES))}), "
        "so frame 0 cannot be read. Give the folder that holds the frames."
    )


def _natural_order(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Digits compare as numbers; the name itself breaks ties such as 1 and 01."""
    pieces = re.split(r"([0-9]+)", path.name.lower())
    return [
        (int(piece), "") if number % 2 else (0, piece) for number, piece in enumerate(pieces)
    ], path.name


def _decoded(capture: cv2.VideoCapture) -> Pixels | None:
    try:
        found, image = capture.read()
    except cv2.error:  # an absurd frame size in a damaged stream
        return None
    return swapped_channels(image) if found else None


def _known_fps(capture: cv2.VideoCapture) -> float | None:
    fps = capture.get(cv2.CAP_PROP_FPS)
    return float(fps) if 0 < fps < 1e4 else None


def shown_seconds(path: Path) -> float | None:
    """How long an .mp4 or .mov is shown, by its movie header (ISO/IEC 14496-12, 8.2.2).

    An edit list may hide frames at either end, as after cutting a video on a phone.  OpenCV's
    number of frames counts the hidden ones, too.  None if there is no such header or it leaves the
    duration open.
    """
    with path.open("rb") as file:
        movie = _content(file, b"moov", path.stat().st_size)
    header = _content(BytesIO(movie), b"mvhd", len(movie)) if movie else None
    if not header or len(header) < 32:
        return None
    # Two dates follow the version; in version 1 they and the duration have 8 bytes instead of 4.
    form, at = (">IQ", 20) if header[0] == 1 else (">II", 12)
    ticks_per_second, duration = struct.unpack_from(form, header, at)
    return duration / ticks_per_second if ticks_per_second and duration else None


def _content(file: BinaryIO, wanted: bytes, end: int) -> bytes | None:
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
