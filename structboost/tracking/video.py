"""Frames from a video file or a folder of images, and into a video file."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from structboost._typing import PathName
from structboost.files.atomic_write import (
    check_writable,
    checked_path,
    regular_file,
    whole_file,
)
from structboost.runtime.called_class import Described
from structboost.validation import checked_positive
from structboost.vision.images import ImageFileError, Pixels, files_in, photograph, read_image

_READ_BEFORE = "The frames before it, counted from 0, were read"


class VideoError(ValueError):
    """Error of a source of frames or of a video that is written.

    The message names the source, the frame and the remedy.
    """


class FrameSource(Iterator[tuple[int, Pixels]]):
    """Iterator over frames in order, which :func:`open_frames` returns.

    Items are ``(frame_index, image)``.  Indices count from 0; images are of uint8 and of shape
    (height, width) for grey or (height, width, 3) for RGB, and their sizes may differ.

    Attributes
    ----------
    frame_count : int or None
        Number of frames in the source; None if unknown.  It is an estimate for containers that do
        not store it, such as .mkv and .webm.
    fps : float or None
        Frames per second; None if unknown, as for images.
    """

    def __init__(
        self, images: Iterator[Pixels], frame_count: int | None, fps: float | None = None
    ) -> None:
        self.frame_count, self.fps = frame_count, fps
        self._frames = enumerate(images)

    def __next__(self) -> tuple[int, Pixels]:
        return next(self._frames)


def open_frames(source: PathName) -> FrameSource:
    """Open the frames of a video file or of a folder of images.

    Parameters
    ----------
    source : str or path
        A file that FFmpeg reads; or a folder with images, or with images in its sub-folder ``img``
        (the layout of the OTB sequences), which come in natural order of their names (2 before 10).

    Returns
    -------
    FrameSource
        Iterator over ``(frame_index, image)``, with ``frame_count`` and ``fps``.

    Raises
    ------
    VideoError
        If there is no such source, or it holds no frame, or two images of it differ in their
        suffix only.  While iterating: if a frame cannot be read, or the file ends before the frames
        its header announces, after the frames before it.
    """
    path = checked_path(source, "source")
    files = source_files(path)
    if path.is_dir():
        return FrameSource(_read_images(path, files), len(files))
    try:
        container = av.open(str(path), "r")
    except (av.FFmpegError, OSError) as error:
        raise VideoError(
            f"{path}: frame 0 cannot be read ({error.strerror}); it is not a video that FFmpeg "
            "knows, is empty, or its header is missing, as in an incomplete download. Get it "
            "again, or convert it to .mp4."
        ) from error
    # FFmpeg "decodes" text files, into pictures of the text.
    if not container.streams.video or container.format.name == "tty":
        raise VideoError(
            f"{path} holds text or sound only; frame 0 cannot be read. Give a video or a folder."
        )
    stream = container.streams.video[0]
    fps = float(stream.average_rate or 0.0)
    n_frames = stream.frames or round((container.duration or 0) / av.time_base * fps)
    images = _decode_frames(path, container, n_frames, fps)
    return FrameSource(images, n_frames or None, fps or None)


def source_files(path: Path) -> list[Path]:
    """List the files that :func:`open_frames` reads.

    Digits in the names of images compare as numbers.  VideoError if nothing is there, it is a
    folder without images, or two images differ in their suffix only.
    """
    if not path.is_dir():
        try:
            return [regular_file(path, "video file or folder", VideoError)]
        except FileNotFoundError as error:
            raise VideoError(
                f"{path} does not exist, so frame 0 cannot be read: {error} Give a video file or a "
                "folder."
            ) from None
    inner = path / "img"
    images = (files_in(inner) if inner.is_dir() else []) or files_in(path)
    if not images:
        raise VideoError(
            f"No image lies in {path} or in its sub-folder img, so frame 0 cannot be read."
        )
    images.sort(key=lambda file: re.sub("[0-9]+", lambda n: n[0].zfill(99), file.stem.lower()))
    for first, second in pairwise(images):
        if first.stem == second.stem:
            raise VideoError(f"{first} and {second} may be the same frame; remove one of them.")
    return images


def _read_images(folder: Path, files: list[Path]) -> Iterator[Pixels]:
    for index, file in enumerate(files):
        try:
            yield read_image(file)
        except ImageFileError as error:
            raise VideoError(
                f"{folder}: frame {index} cannot be read ({error}). Replace or remove that file. "
                f"{_READ_BEFORE}."
            ) from error


def _decode_frames(
    path: Path, container: InputContainer, announced: int, fps: float
) -> Generator[Pixels]:
    """Yield the frames of a video, turned upright, and raise VideoError if it is damaged."""
    index = 0
    with container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        seconds = gap = 0.0
        try:
            for frame in container.decode(stream):
                if frame.time is not None:
                    gap = max(frame.time - seconds, 1 / (fps or 1.0))
                    seconds = frame.time
                upright = np.rot90(frame.to_ndarray(format="rgb24"), frame.rotation // 90)
                yield np.ascontiguousarray(upright, np.uint8)
                index += 1
        except av.FFmpegError as error:
            raise VideoError(
                f"{path}: frame {index} is damaged or truncated ({error.strerror}). "
                f"{_READ_BEFORE}; get the file again, or convert it to skip the frame."
            ) from error
        shown = announced
        if "mp4" in container.format.name and stream.duration and stream.time_base:
            # Shorter where an edit list hides frames, as after cutting a video on a phone.
            shown = min(shown, round(stream.duration * stream.time_base * fps))
        is_short = index < shown - (2 if shown == announced else max(2, round(fps)))
        if not stream.frames:
            # The rate may vary, so the time of the last frame is compared, which may be shown for
            # as long as the one before.  The duration is that of the pictures, or of the file,
            # where the sound may end later.
            length, slack = (container.duration or 0) / av.time_base, 1.0
            if stored := re.match(r"(\d+):(\d+):(\d+\.?\d*)", stream.metadata.get("DURATION", "")):
                hours, minutes, rest = map(float, stored.groups())
                length, slack = 3600 * hours + 60 * minutes + rest, 0.0
            is_short = index > 1 and seconds + 2 * gap + slack < length
        if index and is_short:
            raise VideoError(
                f"{path} ends before frame {index} of those that its header announces; it is "
                f"truncated or damaged. {_READ_BEFORE}; get the file again for the rest."
            )


# Formats by suffix.
_FORMATS = {".mp4": "mp4", ".mkv": "matroska"}
# Without its macroblock tree x264 writes the same file for the same frames; with it, the file
# sometimes differs.
_X264 = {"preset": "veryfast", "x264-params": "mbtree=0"}


class VideoWriter(Described):
    """Writer of frames into a video file, in H.264, which browsers play.

    :meth:`close` gives the file its name.  Leaving the ``with`` block by an exception does so too,
    with the frames written by then.

    Parameters
    ----------
    path : str or path
        Path with the suffix .mp4 or .mkv.
    fps : float, default=25
        Frames per second.

    Attributes
    ----------
    n_frames : int
        Number of frames written.
    size : tuple of int or None
        (width, height) of the video in pixels, to which frames are resized: those of the first
        frame, rounded up to even numbers; None before.

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
        self._stream: VideoStream | None = None
        self._is_closed = False
        self._file = ExitStack()
        # Checked before the first frame, because hours of tracking must not fail at the end.
        if self.path.suffix.lower() not in _FORMATS:
            raise VideoError(
                f"{self.path} has the suffix {self.path.suffix!r}; choose one of "
                f"{', '.join(_FORMATS)}."
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
            If FFmpeg cannot encode such a video, at the first frame, or after :meth:`close`.
        """
        frame = photograph(image, f"frame {self.n_frames}")
        if self._is_closed:
            raise VideoError(
                f"{self.path} is closed after {self.n_frames} frames; make another VideoWriter, "
                "with another path."
            )
        if self._stream is None:
            height, width = frame.shape[:2]
            self.size = width + width % 2, height + height % 2
            self._stream = self._open(*self.size)
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        self._container.mux(self._stream.encode(picture))  # of the size of the stream
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

    def _open(self, width: int, height: int) -> VideoStream:
        try:
            with ExitStack() as stack:
                file = stack.enter_context(whole_file(self.path))
                form = _FORMATS[self.path.suffix.lower()]
                self._container = stack.enter_context(av.open(file, "w", format=form))
                rate = Fraction(self.fps).limit_denominator(0xFFFF)
                stream = self._container.add_stream("h264", rate=rate, options=_X264)
                stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
                stream.codec_context.open()
                self._file = stack.pop_all()
        except (ValueError, av.FFmpegError) as error:
            raise VideoError(
                f"{self.path}: this FFmpeg cannot encode H.264 at {width}x{height} and "
                f"{self.fps:g} frames per second ({error})."
            ) from error
        return stream
