"""Frames out: a video file that appears whole, or with what was written when it was interrupted."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Self

import av
from av.video.stream import VideoStream

from structboost.files.outputs import check_writable
from structboost.files.whole_file import whole_file
from structboost.tracking.video import VideoError
from structboost.validation import checked_positive
from structboost.vision.images import checked_image, letter_boxed

# Format, codec, pixels and options, by FFmpeg's names.
_H264 = "h264", "yuv420p", {"preset": "veryfast"}
_ENCODINGS = {
    ".mp4": ("mp4", *_H264),
    ".m4v": ("mp4", *_H264),
    ".mov": ("mov", *_H264),
    ".mkv": ("matroska", *_H264),
    ".avi": ("avi", "mjpeg", "yuvj420p", {"qmin": "2", "qmax": "4"}),
    ".webm": ("webm", "libvpx-vp9", "yuv420p", {"crf": "30", "b": "0", "deadline": "realtime"}),
}


class VideoWriter:
    """Writes frames into a video file.

    :meth:`close` gives the file its name.  Leaving the ``with`` block by an exception does so too:
    what was written by then is kept.

    Parameters
    ----------
    path : str or path
        Its suffix sets the format: .mp4, .m4v, .mov, .mkv (H.264, which browsers play), .avi
        (Motion JPEG) or .webm (VP9).
    fps : float, default=25
        Frames per second.

    Attributes
    ----------
    n_frames : int
        Number of frames written.
    size : tuple of int or None
        (width, height) of the video, pixels: those of the first frame, made even as the codecs
        need it; None before.  Frames of other sizes are scaled to fit, with black margins.

    Raises
    ------
    VideoError
        If the suffix is not one of these, or there is no encoder.
    OutputError
        If it is a folder, or its folder is missing or read-only.
    """

    def __init__(self, path: str | PathLike[str], *, fps: float = 25.0) -> None:
        self.path = Path(path)
        self.fps = checked_positive(fps, "fps")
        self.n_frames = 0
        self.size: tuple[int, int] | None = None
        self._stream: VideoStream | None = None
        self._file = ExitStack()
        # All of this before the first frame: hours of tracking must not fail at the end.
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
            If it is not such an image.
        VideoError
            At the first frame, if there is no encoder for the format.
        """
        frame = checked_image(image, f"frame {self.n_frames}")
        if self._stream is None:
            height, width = frame.shape[:2]
            self.size = (width + width % 2, height + height % 2)
            self._stream = self._opened(self.size)
        assert self.size is not None
        canvas = letter_boxed(frame, self.size).image
        encoded = self._stream.encode(av.VideoFrame.from_ndarray(canvas, format="rgb24"))
        self._container.mux(encoded)
        self.n_frames += 1

    def close(self) -> None:
        """Finish the file and give it its name.

        Without a frame there is no file, and a file of that name from before stays.

        Raises
        ------
        OSError
            If the rest cannot be written, as when the disk is full.
        """
        stream, self._stream = self._stream, None
        if stream is not None:
            with self._file:
                self._container.mux(stream.encode(None))  # what the encoder holds back

    def _opened(self, size: tuple[int, int]) -> VideoStream:
        container_format, codec, pixels, options = _ENCODINGS[self.path.suffix.lower()]
        rate = Fraction(self.fps).limit_denominator(0xFFFF)
        with ExitStack() as stack:
            file = stack.enter_context(whole_file(self.path))
            self._container = stack.enter_context(av.open(file, "w", format=container_format))
            try:
                stream = self._container.add_stream(codec, rate=rate, options=options)
                assert isinstance(stream, VideoStream)
                stream.width, stream.height = size
                stream.pix_fmt = pixels
                stream.codec_context.open()
            except (ValueError, av.FFmpegError) as error:
                raise VideoError(
                    f"{self.path}: this FFmpeg cannot encode {codec} at {size[0]}x{size[1]} and "
                    f"{self.fps:g} frames per second ({error}); "
                    f"try another suffix ({', '.join(_ENCODINGS)})."
                ) from error
            self._file = stack.pop_all()
        return stream
