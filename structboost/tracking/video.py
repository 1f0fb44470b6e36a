"""Frames in: a video file, a folder of images or a camera, as one iterator over numbered frames."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Self

import av
import cv2
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from structboost.vision.images import Pixels, decoded_image, swapped_channels

_IMAGE_SUFFIXES = frozenset(".bmp .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
# Packets to try after one that cannot be decoded: a group of pictures is rarely longer.
_PACKETS_TO_TRY = 250
_READ_BEFORE = "The frames before it, counted from 0, were read"


class VideoError(ValueError):
    """Frames cannot be read or written; the message names the source, the frame and the remedy."""


class FrameSource(Iterator[tuple[int, Pixels]]):
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

    def __init__(
        self,
        source: str,
        images: Generator[Pixels],
        frame_count: int | None = None,
        fps: float | None = None,
    ) -> None:
        self.source, self.frame_count, self.fps = source, frame_count, fps
        self._images = images
        self._numbered = enumerate(images)

    def __next__(self) -> tuple[int, Pixels]:
        return next(self._numbered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the source; iteration ends."""
        self._images.close()


def open_frames(source: str | PathLike[str] | int) -> FrameSource:
    """Frames of a video file, of a folder of images or of a camera.

    Parameters
    ----------
    source : str, path or int
        A file or URL that FFmpeg reads; a folder with images, or with images in its sub-folder
        ``img`` (the layout of the OTB sequences), taken in natural order of their names (2 before
        10); or a camera's index, also as a string of digits.

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
    path, text = Path(str(source)), str(source)
    if isinstance(source, int):
        return _opened_camera(source)
    if path.is_dir():
        paths = _images_of(path)
        return FrameSource(text, _images_in_turn(text, paths), len(paths))
    if path.is_file() or "://" in text:
        return _opened_video(text)
    if re.fullmatch("[0-9]+", text):
        return _opened_camera(int(text))
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
    for place in (folder / "img", folder):
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


def _images_in_turn(folder: str, paths: list[Path]) -> Generator[Pixels]:
    for number, path in enumerate(paths):
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
        yield image


def _opened_video(source: str) -> FrameSource:
    try:
        container = av.open(source)
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
    count = stream.frames or estimate
    images = _frames_in_turn(source, container, count, fps)
    return FrameSource(source, images, count or None, fps or None)


def _frames_in_turn(
    source: str, container: InputContainer, announced: int, fps: float
) -> Generator[Pixels]:
    """Frames of a video, turned as its camera says; then tells its end from damage."""
    number = 0
    with container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        packets = container.demux(stream)
        for packet in packets:
            try:
                frames = packet.decode()
            except av.FFmpegError as error:
                if any(map(_is_decodable, islice(packets, _PACKETS_TO_TRY))):
                    raise VideoError(
                        f"{source}: frame {number} is damaged ({error.strerror}), but frames "
                        f"follow it. {_READ_BEFORE}; convert the file to skip it."
                    ) from error
                break
            for frame in frames:
                image = frame.to_ndarray(format="rgb24")
                yield np.ascontiguousarray(np.rot90(image, frame.rotation // 90))
                number += 1
        if not number:
            raise VideoError(
                f"{source}: frame 0 cannot be decoded; it holds no frame or is truncated."
            )
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


def _is_decodable(packet: Packet[VideoStream]) -> bool:
    try:
        return bool(packet.decode())
    except av.FFmpegError:
        return False


def _opened_camera(index: int) -> FrameSource:
    capture = cv2.VideoCapture(index)
    if not capture.isOpened():
        raise VideoError(
            f"camera {index}: frame 0 cannot be read; there is no such camera or another "
            "program uses it. Connect it, close that program, or give another index."
        )
    fps = capture.get(cv2.CAP_PROP_FPS)
    name = f"camera {index}"
    return FrameSource(name, _pictures_in_turn(name, capture), fps=fps if 0 < fps < 1e4 else None)


def _pictures_in_turn(camera: str, capture: cv2.VideoCapture) -> Generator[Pixels]:
    number = 0
    try:
        while True:
            found, image = capture.read()
            if not found:
                raise VideoError(
                    f"{camera} stopped before frame {number}; is it unplugged? {_READ_BEFORE}."
                )
            yield swapped_channels(image)
            number += 1
    finally:
        capture.release()
