"""Output of frames into a video file, which is complete even after an interruption."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from os import PathLike
from typing import Any, NamedTuple, Self

import av
from av.video.stream import VideoStream

from structboost.files.atomic_write import checked_path, whole_file
from structboost.files.outputs import check_writable
from structboost.runtime.described import Described
from structboost.tracking.video import VideoError
from structboost.validation import checked_positive
from structboost.vision.images import checked_image, letter_boxed


class _Encoding(NamedTuple):
    """Codec, pixels and options by FFmpeg's names, and the codec's name for users."""

    codec: str
    shown: str
    pixels: str
    options: dict[str, str]


# Without its macroblock tree x264 writes the same file for the same frames; with it, the file
# sometimes differs.  Where a build of FFmpeg has no H.264 the next encoding is used.
_X264 = {"preset": "veryfast", "x264-params": "mbtree=0"}
_H264 = (
    _Encoding("h264", "H.264", "yuv420p", _X264),
    _Encoding(
        "mpeg4", "MPEG-4 Part 2, which browsers do not play", "yuv420p", {"qmin": "2", "qmax": "5"}
    ),
)
_MOTION_JPEG = _Encoding(
    "mjpeg", "Motion JPEG, which browsers do not play", "yuvj420p", {"qmin": "2", "qmax": "4"}
)
_VP9 = _Encoding("libvpx-vp9", "VP9", "yuv420p", {"crf": "30", "b": "0", "deadline": "realtime"})
# Format and encodings by suffix; the first encoding that FFmpeg has is used.
_ENCODINGS: dict[str, tuple[str, tuple[_Encoding, ...]]] = {
    ".mp4": ("mp4", _H264),
    ".m4v": ("mp4", _H264),
    ".mov": ("mov", _H264),
    ".mkv": ("matroska", _H264),
    ".avi": ("avi", (_MOTION_JPEG,)),
    ".webm": ("webm", (_VP9,)),
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

    def __init__(self, path: str | PathLike[str], *, fps: float = 25.0) -> None:
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
        rate = Fraction(self.fps).limit_denominator(0xFFFF)
        encoding = self._first_working(encodings, size, rate)
        self.codec = encoding.shown
        with ExitStack() as stack:
            file = stack.enter_context(whole_file(self.path))
            self._container = stack.enter_context(av.open(file, "w", format=container_format))
            stream = self._container.add_stream(encoding.codec, rate=rate, options=encoding.options)
            assert isinstance(stream, VideoStream)
            _prepare(stream.codec_context, encoding, size)
            stream.codec_context.open()
            self._file = stack.pop_all()
        return stream

    def _first_working(
        self, encodings: tuple[_Encoding, ...], size: tuple[int, int], rate: Fraction
    ) -> _Encoding:
        """Return the first encoding whose codec opens.

        Each is tried outside of the container, which would keep the stream of a codec that failed.
        """
        for encoding in encodings:
            try:
                codec = av.CodecContext.create(encoding.codec, "w")
                assert isinstance(codec, av.VideoCodecContext)
                codec.framerate, codec.time_base = rate, 1 / rate
                codec.options = encoding.options
                _prepare(codec, encoding, size)
                codec.open()
            except (ValueError, av.FFmpegError) as failed:
                error = failed
            else:
                return encoding
        raise VideoError(
            f"{self.path}: this FFmpeg cannot encode {encodings[0].codec} at {size[0]}x{size[1]} "
            f"and {self.fps:g} frames per second ({error}); "
            f"try another suffix ({', '.join(_ENCODINGS)})."
        ) from error


def _prepare(codec: av.VideoCodecContext, encoding: _Encoding, size: tuple[int, int]) -> None:
    codec.width, codec.height = size
    codec.pix_fmt = encoding.pixels
