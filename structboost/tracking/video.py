"""Frames in: a video file, a folder of images or a camera, as one iterator over numbered frames."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from glob import glob, has_magic
from itertools import count, islice
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple, Self

import av
import cv2
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from structboost.vision.images import Pixels, decoded_image, swapped_channels

_IMAGE_SUFFIXES = frozenset(".bmp .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
# Packets to try after one that cannot be decoded: a group of pictures is rarely longer.
_PACKETS_TO_TRY = 250
STANDARD_INPUT = "-"
_NUMBER = re.compile("%[0-9]*d")
_READ_BEFORE = "The frames before it, counted from 0, were read"


class VideoError(ValueError):
    """Frames cannot be read or written; the message names the source, the frame and the remedy."""


class TimedImage(NamedTuple):
    """A frame and the second when it is shown, if that is known."""

    image: Pixels
    time: float | None = None


class FrameSource(Iterator[tuple[int, Pixels]]):
    """Frames in order, each once; made by :func:`open_frames`.

    Iterating gives ``(frame_number, image)``: numbers counted from the source's first frame, which
    is 0, and images of uint8 of shape (height,
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
    time : float or None
        When the last frame that was given is shown, seconds from the source's first frame; for
        cameras, from its first picture.  None for images, and where the video does not say.
    """

    def __init__(
        self,
        source: str,
        images: Generator[TimedImage],
        frame_count: int | None = None,
        fps: float | None = None,
        start: int = 0,
    ) -> None:
        self.source, self.frame_count, self.fps = source, frame_count, fps
        self.time: float | None = None
        self._images = images
        self._numbers = count(start)

    def __next__(self) -> tuple[int, Pixels]:
        image, self.time = next(self._images)
        return next(self._numbers), image

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the source; iteration ends."""
        self._images.close()


def open_frames(source: str | PathLike[str] | int, *, start: int = 0) -> FrameSource:
    """Frames of a video file, of a folder of images or of a camera.

    Parameters
    ----------
    source : str, path or int
        A file or URL that FFmpeg reads; "-" for a video on standard input; a folder with images,
        or with images in its sub-folder ``img`` (the layout of the OTB sequences); images by a
        numbered pattern (``shot_%04d.png``) or a glob (``shot_*.png``); or a camera's index, also
        as a string of digits.  Images come in natural order of their names (2 before 10).
    start : int, default=0
        Number of the first frame to give; those before it are read and dropped.

    Returns
    -------
    FrameSource
        Iterator over ``(frame_number, image)``, with ``frame_count``, ``fps`` and ``time``.

    Raises
    ------
    ValueError
        If ``start`` is no whole number from 0.
    VideoError
        If there is no such source, or it holds no frame, or two images of it differ in their
        suffix only.  While iterating: if a frame cannot be read, or the file ends before ``start``
        or before the frames its header announces; the frames before it were given.
    """
    if isinstance(start, bool) or not isinstance(start, (int, np.integer)) or start < 0:
        raise ValueError(f"start is {start!r}; give a frame's number, counted from 0.")
    path, text = Path(str(source)), str(source)
    if isinstance(source, int):
        return _opened_camera(source, start)
    if text == STANDARD_INPUT:
        return _opened_video("standard input", sys.stdin.buffer, start)
    if path.is_file() or "://" in text:
        return _opened_video(text, text, start)
    if path.is_dir() or _is_pattern(text):
        paths = _images_of(path) if path.is_dir() else _images_by_pattern(text)
        return FrameSource(text, _images_in_turn(text, paths, start), len(paths), start=start)
    if re.fullmatch("[0-9]+", text):
        return _opened_camera(int(text), start)
    raise VideoError(
        f"{text} does not exist, so frame 0 cannot be read. "
        "Give a video file, a folder with images, a pattern of their names, - or a camera's index."
    )


def source_files(source: str | PathLike[str]) -> list[Path]:
    """The files that :func:`open_frames` reads: none for a camera, a URL, or where nothing is.

    Raises
    ------
    VideoError
        If it is a folder or a pattern without images, or two images differ in their suffix only.
    """
    path, text = Path(source), str(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        return _images_of(path)
    return _images_by_pattern(text) if _is_pattern(text) else []


def _is_pattern(text: str) -> bool:
    return "://" not in text and (has_magic(text) or _NUMBER.search(Path(text).name) is not None)


def _images_by_pattern(text: str) -> list[Path]:
    """Images whose names fit a glob, or have any number where the pattern has one such as %04d."""
    pattern = Path(text)
    if has_magic(text):
        paths = [Path(name) for name in glob(text)]
    else:
        before, after = map(re.escape, _NUMBER.split(pattern.name, maxsplit=1))
        fits = re.compile(f"{before}[0-9]+{after}")
        paths = list(pattern.parent.iterdir()) if pattern.parent.is_dir() else []
        paths = [path for path in paths if fits.fullmatch(path.name)]
    images = _images_among(paths)
    if not images:
        raise VideoError(
            f"No image fits {text}, so frame 0 cannot be read. Give a pattern of images, such as "
            "'shots/shot_%04d.png' or 'shots/*.png', in quotes."
        )
    return images


def _images_of(folder: Path) -> list[Path]:
    for place in (folder / "img", folder):
        images = _images_among(place.iterdir()) if place.is_dir() else []
        if images:
            return images
    raise VideoError(
        f"{folder} and its sub-folder img hold no images ({' '.join(sorted(_IMAGE_SUFFIXES))}), "
        "so frame 0 cannot be read. Give the folder that holds the frames."
    )


def _images_among(paths: Iterable[Path]) -> list[Path]:
    """In natural order.  Names with a leading dot are other systems' side files, not images."""
    suffixes = _IMAGE_SUFFIXES
    images = [p for p in paths if p.suffix.lower() in suffixes and not p.name.startswith(".")]
    first: dict[Path, Path] = {}
    for image in sorted(images):
        other = first.setdefault(image.with_suffix(""), image)
        if other != image:
            raise VideoError(
                f"{other} and {image} may be the same frame; remove one of them, or give a pattern "
                "such as '*.png', in quotes."
            )
    return sorted(images, key=_natural_order)


def _natural_order(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Digits compare as numbers; the name itself breaks ties such as 1 and 01."""
    pieces = re.split(r"([0-9]+)", path.name.lower())
    return [
        (int(piece), "") if number % 2 else (0, piece) for number, piece in enumerate(pieces)
    ], path.name


def _images_in_turn(folder: str, paths: list[Path], start: int) -> Generator[TimedImage]:
    if start >= len(paths):
        raise VideoError(_too_short(folder, len(paths), start))
    for number, path in enumerate(paths[start:], start):
        why: object = "it is not an image or is truncated"
        try:
            # Reading the bytes here keeps names that are not ASCII working on every system.
            image = decoded_image(path.read_bytes())
        except (OSError, cv2.error) as error:
            image, why = None, error
        if image is None:
            raise VideoError(
                f"{folder}: frame {number} cannot be read from {path.name} ({why}). Replace or "
                f"remove that file. {_READ_BEFORE}."
            )
        yield TimedImage(image)


def _too_short(source: str, n_frames: int, start: int) -> str:
    return (
        f"{source} has {n_frames} frames, so frame {start} cannot be read. Give an earlier start."
    )


def _opened_video(source: str, file: str | IO[bytes], start: int) -> FrameSource:
    try:
        container = av.open(file, "r")
    except (av.FFmpegError, OSError) as error:
        raise VideoError(
            f"{source}: frame 0 cannot be read ({error.strerror}); it is not a video that FFmpeg "
            "knows, is empty, or its header is missing, as in an incomplete download. Get it "
            "again, or convert it to .mp4."
        ) from error
    # FFmpeg "decodes" text files, into pictures of the text.
    if not container.streams.video or container.format.name == "tty":
        raise VideoError(
            f"{source} holds text or sound only; frame 0 cannot be read. "
            "Give a video, a folder or a camera."
        )
    stream = container.streams.video[0]
    fps = float(stream.average_rate or 0.0)
    estimate = round((container.duration or 0) / av.time_base * fps)
    n_frames = stream.frames or estimate
    images = _frames_in_turn(source, container, n_frames, fps, start)
    return FrameSource(source, images, n_frames or None, fps or None, start)


def _frames_in_turn(
    source: str, container: InputContainer, announced: int, fps: float, start: int
) -> Generator[TimedImage]:
    """Frames of a video, turned as its camera says; then tells its end from damage."""
    number, began = 0, None
    with container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        packets = _packets(source, container, stream)
        for packet in packets:
            try:
                frames = packet.decode()
            except av.FFmpegError as error:
                if _has_frame(list(islice(packets, _PACKETS_TO_TRY))):
                    raise VideoError(
                        f"{source}: frame {number} is damaged ({error.strerror}), but frames "
                        f"follow it. {_READ_BEFORE}; convert the file to skip it."
                    ) from error
                break
            for frame in frames:
                began = frame.time if began is None else began
                if number >= start:
                    image = frame.to_ndarray(format="rgb24")
                    upright = np.ascontiguousarray(np.rot90(image, frame.rotation // 90), np.uint8)
                    seconds = None if frame.time is None or began is None else frame.time - began
                    yield TimedImage(upright, seconds)
                number += 1
        if not number:
            raise VideoError(
                f"{source}: frame 0 cannot be decoded; it holds no frame or is truncated."
            )
        if number <= start:
            raise VideoError(_too_short(source, number, start))
        shown = announced
        if "mp4" in container.format.name and stream.duration and stream.time_base:
            # Shorter where an edit list hides frames, as after cutting a video on a phone.
            shown = min(shown, round(stream.duration * stream.time_base * fps))
        # Where the number is not stored, it comes from a duration, maybe the sound's.
        slack = 2 if stream.frames and shown == announced else max(2, round(fps))
        if number < shown - slack:
            raise VideoError(
                f"{source} ends before frame {number} of {announced}, which its header announces; "
                f"it is truncated or damaged. {_READ_BEFORE}; get the file again for the rest."
            )


def _packets(
    source: str, container: InputContainer, stream: VideoStream
) -> Iterator[Packet[VideoStream]]:
    try:
        yield from container.demux(stream)
    except av.FFmpegError as error:
        raise VideoError(
            f"{source} cannot be read on ({error.strerror}). On standard input an .mp4 must be "
            "made for streaming (ffmpeg -movflags +faststart); give its name instead, or .mkv."
        ) from error


def _has_frame(packets: list[Packet[VideoStream]]) -> bool:
    """Whether a frame of one of them can be decoded; the decoder may still hold earlier ones."""
    times = {packet.pts for packet in packets if packet.size}
    return any(frame.pts in times for packet in packets for frame in _decoded(packet))


def _decoded(packet: Packet[VideoStream]) -> list[VideoFrame]:
    try:
        return packet.decode()
    except av.FFmpegError:
        return []


def _opened_camera(index: int, start: int) -> FrameSource:
    capture = cv2.VideoCapture(index)
    if not capture.isOpened():
        raise VideoError(
            f"camera {index}: frame 0 cannot be read; there is no such camera or another "
            "program uses it. Connect it, close that program, or give another index."
        )
    fps = capture.get(cv2.CAP_PROP_FPS)
    name = f"camera {index}"
    pictures = _pictures_in_turn(name, capture, start)
    return FrameSource(name, pictures, fps=fps if 0 < fps < 1e4 else None, start=start)


def _pictures_in_turn(camera: str, capture: cv2.VideoCapture, start: int) -> Generator[TimedImage]:
    number, began = 0, time.perf_counter()
    try:
        while True:
            found, image = capture.read()
            if not found:
                raise VideoError(
                    f"{camera} stopped before frame {number}; is it unplugged? {_READ_BEFORE}."
                )
            if number == 0:
                began = time.perf_counter()
            if number >= start:
                yield TimedImage(swapped_channels(image), time.perf_counter() - began)
            number += 1
    finally:
        capture.release()
