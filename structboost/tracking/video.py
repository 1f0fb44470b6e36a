"""Frames from a video file, a folder of images or a camera, and into a video file."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from fractions import Fraction
from glob import escape, glob, has_magic
from itertools import count
from os import PathLike
from pathlib import Path
from typing import IO, Any, Self, cast

import av
import cv2
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from structboost._typing import PathName
from structboost.files.atomic_write import check_writable, checked_path, whole_file
from structboost.runtime.called_class import Described
from structboost.validation import checked_positive, is_whole, shown
from structboost.vision.images import (
    Pixels,
    checked_image,
    decoded_image,
    letter_boxed,
    swapped_channels,
)

_IMAGE_SUFFIXES = frozenset(".bmp .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
STANDARD_INPUT = "-"
_NUMBER = re.compile("%[0-9]*d")
_READ_BEFORE = "The frames before it, counted from 0, were read"
# Cameras that a computer may have.
_LAST_CAMERA = 99


class VideoError(ValueError):
    """Error of a source of frames or of a video that is written.

    The message names the source, the frame and the remedy.
    """


# Frame and the second when it is shown, if that is known.
TimedImage = tuple[Pixels, float | None]


class FrameSource(Iterator[tuple[int, Pixels]]):
    """Iterator over frames in order, which :func:`open_frames` returns.

    Items are ``(frame_index, image)``.  Indices count from the source's first frame; images are of
    uint8 and of shape (height, width) for grey or (height, width, 3) for RGB, and their sizes may
    differ.  The iterator is a context manager and closes itself at its end.

    Attributes
    ----------
    source : str
    frame_count : int or None
        Number of frames in the source; None if unknown.  It is an estimate for containers that do
        not store it, such as .mkv and .webm.
    fps : float or None
        Frames per second; None if unknown.
    time : float or None
        Time of the last frame, in seconds from the source's first frame; for cameras, from the
        first picture.  None for images, and for videos without times.
    """

    def __init__(
        self,
        source: str,
        images: Iterator[TimedImage],
        frame_count: int | None = None,
        fps: float | None = None,
        start: int = 0,
    ) -> None:
        self.source, self.frame_count, self.fps = source, frame_count, fps
        self.time: float | None = None
        self._images = self._from(images, start)

    def _from(self, images: Iterator[TimedImage], start: int) -> Generator[tuple[int, Pixels]]:
        """Yield frames from ``start`` on, and close the source at the end."""
        index = -1
        with closing(cast(Generator[TimedImage], images)):
            for index, (image, self.time) in enumerate(images):
                if index >= start:
                    yield index, image
        if index < start:
            raise VideoError(
                f"{self.source} has {index + 1} frames, so frame {start} cannot be read. Give an "
                "earlier start."
            )

    def __next__(self) -> tuple[int, Pixels]:
        return next(self._images)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the source and end the iteration."""
        self._images.close()


def open_frames(source: PathName | int, *, start: int = 0) -> FrameSource:
    """Open the frames of a video file, of a folder of images or of a camera.

    Parameters
    ----------
    source : str, path or int
        A file or URL that FFmpeg reads; "-" for a video on standard input; a folder with images,
        or with images in its sub-folder ``img`` (the layout of the OTB sequences); images by a
        numbered pattern (``shot_%04d.png``) or a glob (``shot_*.png``); or a camera's index, also
        as a string of digits.  Images come in natural order of their names (2 before 10).
    start : int, default=0
        Index of the first frame to return; earlier frames are read and dropped.

    Returns
    -------
    FrameSource
        Iterator over ``(frame_index, image)``, with ``frame_count``, ``fps`` and ``time``.

    Raises
    ------
    ValueError, TypeError
        If ``start`` is not a whole number from 0, or ``source`` is none of these.
    VideoError
        If there is no such source, or it holds no frame, or two images of it differ in their
        suffix only.  While iterating: if a frame cannot be read, or the file ends before ``start``
        or before the frames its header announces, after the frames before it.
    """
    if not is_whole(start) or not 0 <= start < 1 << 62:
        raise ValueError(f"start is {start!r}; give a frame's index, counted from 0.")
    is_index = is_whole(source)
    if not isinstance(source, str | PathLike) and not is_index:
        raise TypeError(f"source is {shown(source)}; give a path, a URL or a camera's index.")
    text = str(source)
    if text == STANDARD_INPUT:
        return _open_video("standard input", sys.stdin.buffer, start)
    if not is_index and ("://" in text or Path(text).is_file()):
        return _open_video(text, text, start)
    paths = [] if is_index else source_files(text)
    if paths:
        return FrameSource(text, _read_images(text, paths), len(paths), start=start)
    if is_index or re.fullmatch("[0-9]+", text):
        return _open_camera(int(text), start)
    raise VideoError(
        f"{text} does not exist, so frame 0 cannot be read. "
        "Give a video file, a folder with images, a pattern of their names, - or a camera's index."
    )


def source_files(source: PathName) -> list[Path]:
    """List the files that :func:`open_frames` reads.

    The list is empty for a camera, a URL, or where nothing is.  VideoError if it is a folder or a
    pattern without images, or two images differ in their suffix only.
    """
    path, text = Path(source), str(source)
    if path.is_file():
        return [path]
    patterns = [os.path.join(escape(text), *inside, "*") for inside in (["img"], [])]
    fits = ".*"
    if not path.is_dir():
        has_place = _NUMBER.search(path.name)
        if "://" in text or not (has_magic(text) or has_place):
            return []
        patterns = [text]
        if not has_magic(text):  # a number in the place of %04d or the like
            patterns = [os.path.join(path.parent, "*")]
            fits = "[0-9]+".join(map(re.escape, _NUMBER.split(path.name, maxsplit=1)))
    for pattern in patterns:
        images = _images_among(p for p in map(Path, glob(pattern)) if re.fullmatch(fits, p.name))
        if images:
            return images
    raise VideoError(
        f"No image fits {text} or lies in it or in its sub-folder img "
        f"({' '.join(sorted(_IMAGE_SUFFIXES))}), so frame 0 cannot be read. Give the folder that "
        "holds the frames, or a pattern, such as 'shots/shot_%04d.png' or 'shots/*.png', in quotes."
    )


def _images_among(paths: Iterable[Path]) -> list[Path]:
    """List the images among paths in natural order, by which 2 comes before 10.

    Names with a leading dot are side files of other systems, not images.
    """
    first: dict[Path, Path] = {}
    for path in sorted(paths):
        if path.suffix.lower() in _IMAGE_SUFFIXES and not path.name.startswith("."):
            other = first.setdefault(path.with_suffix(""), path)
            if other != path:
                raise VideoError(
                    f"{other} and {path} may be the same frame; remove one of them, or give a "
                    "pattern such as '*.png', in quotes."
                )

    # Digits compare as numbers, and the name breaks ties (1 and 01).
    def place(path: Path) -> tuple[str, str]:
        name = path.name.lower()
        return re.sub("[0-9]+", lambda digits: digits[0].zfill(99), name), path.name

    return sorted(first.values(), key=place)


def _read_images(folder: str, paths: list[Path]) -> Iterator[TimedImage]:
    for index, path in enumerate(paths):
        why: object = "it is not an image or is truncated"
        try:
            # The bytes are read here, so that names that are not ASCII work on every system.
            image = decoded_image(path.read_bytes())
        except (OSError, cv2.error) as error:
            image, why = None, error
        if image is None:
            raise VideoError(
                f"{folder}: frame {index} cannot be read from {path.name} ({why}). Replace or "
                f"remove that file. {_READ_BEFORE}."
            )
        yield image, None


def _open_video(source: str, file: str | IO[bytes], start: int) -> FrameSource:
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
    n_frames = stream.frames or round((container.duration or 0) / av.time_base * fps)
    images = _decode_frames(source, container, n_frames, fps)
    return FrameSource(source, images, n_frames or None, fps or None, start)


def _decode_frames(
    source: str, container: InputContainer, announced: int, fps: float
) -> Iterator[TimedImage]:
    """Yield the frames of a video, turned upright, and raise VideoError if it is damaged."""
    index, start_time = 0, None
    with container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        frames = container.decode(stream)
        while True:
            try:
                frame = next(frames, None)
            except av.FFmpegError as error:
                raise VideoError(
                    f"{source}: frame {index} is damaged or truncated ({error.strerror}). "
                    f"{_READ_BEFORE}; get the file again, or convert it to skip the frame. On "
                    "standard input an .mp4 must be made for streaming (ffmpeg -movflags "
                    "+faststart)."
                ) from error
            if frame is None:
                break
            start_time = frame.time if start_time is None else start_time
            upright = np.rot90(frame.to_ndarray(format="rgb24"), frame.rotation // 90)
            is_timed = frame.time is not None and start_time is not None
            yield (
                np.ascontiguousarray(upright, np.uint8),
                frame.time - start_time if is_timed else None,
            )
            index += 1
        if not index:
            return
        shown = announced
        if "mp4" in container.format.name and stream.duration and stream.time_base:
            # Shorter where an edit list hides frames, as after cutting a video on a phone.
            shown = min(shown, round(stream.duration * stream.time_base * fps))
        # Where the number is not stored, it comes from a duration, perhaps that of the sound.
        slack = 2 if stream.frames and shown == announced else max(2, round(fps))
        if index < shown - slack:
            raise VideoError(
                f"{source} ends before frame {index} of {announced}, which its header announces; "
                f"it is truncated or damaged. {_READ_BEFORE}; get the file again for the rest."
            )


def _open_camera(index: int, start: int) -> FrameSource:
    if not 0 <= index <= _LAST_CAMERA:  # others crash OpenCV
        raise ValueError(f"source is {index}; give a camera's index from 0 to {_LAST_CAMERA}.")
    capture = cv2.VideoCapture(index)
    name = f"camera {index}"
    if not capture.isOpened():
        raise VideoError(
            f"{name}: frame 0 cannot be read; there is no such camera or another "
            "program uses it. Connect it, close that program, or give another index."
        )
    fps = capture.get(cv2.CAP_PROP_FPS)
    return FrameSource(
        name, _read_camera(name, capture), fps=fps if 0 < fps < 1e4 else None, start=start
    )


def _read_camera(camera: str, capture: cv2.VideoCapture) -> Iterator[TimedImage]:
    start_time = None
    try:
        for index in count():
            has_image, image = capture.read()
            if not has_image:
                raise VideoError(
                    f"{camera} stopped before frame {index}; is it unplugged? {_READ_BEFORE}."
                )
            start_time = start_time or time.perf_counter()
            yield swapped_channels(image), time.perf_counter() - start_time
    finally:
        capture.release()


# Without its macroblock tree x264 writes the same file for the same frames; with it, the file
# sometimes differs.
_X264 = {"preset": "veryfast", "x264-params": "mbtree=0"}
# Codec, pixels and options by FFmpeg's names, and the codec's name for users.  Where a build of
# FFmpeg has no H.264 the next encoding is used.
_Encoding = tuple[str, str, dict[str, str], str]
_H264: tuple[_Encoding, ...] = (
    ("h264", "yuv420p", _X264, "H.264"),
    ("mpeg4", "yuv420p", {"qmin": "2", "qmax": "5"}, "MPEG-4 Part 2, not for browsers"),
)
_MOTION_JPEG = ("mjpeg", "yuvj420p", {"qmin": "2", "qmax": "4"}, "Motion JPEG, not for browsers")
_VP9 = ("libvpx-vp9", "yuv420p", {"crf": "30", "b": "0", "deadline": "realtime"}, "VP9")
# Format and encodings by suffix.
_ENCODINGS: dict[str, tuple[str, tuple[_Encoding, ...]]] = {
    **{suffix: ("mp4", _H264) for suffix in (".mp4", ".m4v")},
    **{".mov": ("mov", _H264), ".mkv": ("matroska", _H264)},
    **{".avi": ("avi", (_MOTION_JPEG,)), ".webm": ("webm", (_VP9,))},
}


class VideoWriter(Described):
    """Writer of frames into a video file.

    :meth:`close` gives the file its name.  Leaving the ``with`` block by an exception does so too,
    with the frames written by then.

    Parameters
    ----------
    path : str or path
        Path whose suffix sets the format: .mp4, .m4v, .mov, .mkv (H.264, which browsers play;
        MPEG-4 Part 2 where FFmpeg was built without it), .avi (Motion JPEG) or .webm (VP9).
    fps : float, default=25
        Frames per second.

    Attributes
    ----------
    n_frames : int
        Number of frames written.
    size : tuple of int or None
        (width, height) of the video in pixels, which are those of the first frame, rounded up to
        even numbers; None before.  Other frames are scaled to fit, with black margins.
    codec : str or None
        Name of the encoding, such as "H.264"; None before the first frame.

    Raises
    ------
    VideoError
        If the suffix is not one of these.
    OutputError
        If ``path`` is a folder, or its folder is missing or read-only.
    """

    def __init__(self, path: PathName, *, fps: float = 25.0) -> None:
        self.path = checked_path(path)
        self.fps = checked_positive(fps, "fps")
        self.n_frames = 0
        self.size: tuple[int, int] | None = None
        self.codec: str | None = None
        self._stream: VideoStream | None = None
        self._is_closed = False
        self._file = ExitStack()
        # Checked before the first frame, because hours of tracking must not fail at the end.
        suffix = self.path.suffix.lower()
        if suffix not in _ENCODINGS:
            raise VideoError(
                f"{self.path} has the suffix {suffix!r}; choose one of {', '.join(_ENCODINGS)}."
            )
        check_writable(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, image: Any) -> None:
        """Append a frame.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width) or (height, width, 3)
            Grey or RGB.

        Raises
        ------
        ValueError
            If ``image`` is not such an image.
        VideoError
            If there is no encoder for the format, at the first frame, or after :meth:`close`.
        """
        frame = checked_image(image, f"frame {self.n_frames}")
        if self._is_closed:
            raise VideoError(
                f"{self.path} is closed after {self.n_frames} frames; make another VideoWriter, "
                "with another path."
            )
        if self._stream is None:
            height, width = frame.shape[:2]
            self.size = (width + width % 2, height + height % 2)
            self._stream = self._open(self.size)
        assert self.size is not None
        canvas = letter_boxed(frame, self.size).image
        encoded = self._stream.encode(av.VideoFrame.from_ndarray(canvas, format="rgb24"))
        self._container.mux(encoded)
        self.n_frames += 1

    def close(self) -> None:
        """Finish the file and give it its name.

        Without a frame no file is written, and an older file of that name stays.

        Raises
        ------
        OSError
            If the rest cannot be written, as when the disk is full.
        """
        self._is_closed = True
        stream, self._stream = self._stream, None
        if stream is not None:
            with self._file:
                self._container.mux(stream.encode(None))  # frames that the encoder has buffered

    def _open(self, size: tuple[int, int]) -> VideoStream:
        container_format, encodings = _ENCODINGS[self.path.suffix.lower()]
        name, pixels, options, self.codec = next(filter(_is_there, encodings), encodings[0])
        try:
            with ExitStack() as stack:
                file = stack.enter_context(whole_file(self.path))
                self._container = stack.enter_context(av.open(file, "w", format=container_format))
                rate = Fraction(self.fps).limit_denominator(0xFFFF)
                stream = self._container.add_stream(name, rate=rate, options=options)
                assert isinstance(stream, VideoStream)
                (stream.width, stream.height), stream.pix_fmt = size, pixels
                stream.codec_context.open()
                self._file = stack.pop_all()
        except (ValueError, av.FFmpegError) as error:
            raise VideoError(
                f"{self.path}: this FFmpeg cannot encode {name} at {size[0]}x{size[1]} and "
                f"{self.fps:g} frames per second ({error}); try another suffix "
                f"({', '.join(_ENCODINGS)})."
            ) from error
        return stream


def _is_there(encoding: _Encoding) -> bool:
    """Whether this FFmpeg has the encoder."""
    try:
        av.Codec(encoding[0], "w")
    except ValueError:
        return False
    return True
