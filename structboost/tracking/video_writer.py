"""Frames out: a video file that appears whole, or with what was written when it was interrupted."""

from __future__ import annotations

import contextlib
import os
import uuid
from os import PathLike
from pathlib import Path
from typing import Any, Self

import cv2

from structboost.files.outputs import check_writable
from structboost.tracking.video import VideoError
from structboost.validation import checked_positive
from structboost.vision.images import Pixels, checked_image, letter_boxed, swapped_channels

# By suffix, what the wheels of OpenCV encode everywhere; H.264 is in few of them.
_CODECS = dict.fromkeys((".mp4", ".m4v", ".mov", ".mkv"), "mp4v") | {
    ".avi": "MJPG",
    ".webm": "VP80",
}


class VideoWriter:
    """Writes frames into a video file.

    The frames go into a hidden file in the same folder; :meth:`close` gives it its name.  Leaving
    the ``with`` block by an exception does so too: what was written by then is kept.

    Parameters
    ----------
    path : str or path
        Its suffix sets the format: .mp4, .m4v, .mov, .mkv (MPEG-4), .avi (Motion JPEG) or .webm
        (VP8).
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
        self._writer: cv2.VideoWriter | None = None
        # FFMPEG takes the format from the suffix, so the hidden name keeps it.
        self._target = Path(os.path.realpath(path))
        hidden = f".{self.path.stem}.{uuid.uuid4().hex[:8]}{self.path.suffix}"
        self._temporary = self._target.with_name(hidden)
        # All of this before the first frame: hours of tracking must not fail at the end.
        suffix = self.path.suffix.lower()
        if suffix not in _CODECS:
            raise VideoError(
                f"{self.path} has the suffix {suffix!r}; choose one of {', '.join(_CODECS)}."
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
        if self._writer is None:
            self._writer = self._opened(frame)
        assert self.size is not None
        self._writer.write(swapped_channels(letter_boxed(frame, self.size).image))
        self.n_frames += 1

    def close(self) -> None:
        """Finish the file and give it its name.

        Without a frame there is no file, and a file of that name from before stays.

        Raises
        ------
        VideoError
            If the file cannot be read back, as when the disk is full.
        """
        if self._writer is None:
            return
        self._writer.release()
        self._writer = None
        # The writer of OpenCV does not tell when the disk is full.
        capture = cv2.VideoCapture(str(self._temporary), cv2.CAP_FFMPEG)
        is_readable = capture.isOpened()
        capture.release()
        os.replace(self._temporary, self._target)
        if not is_readable:
            raise VideoError(
                f"{self.path} cannot be read back after {self.n_frames} frames; is the disk full? "
                "Make room and try again."
            )

    def _opened(self, frame: Pixels) -> cv2.VideoWriter:
        height, width = frame.shape[:2]
        self.size = (width + width % 2, height + height % 2)
        codec = _CODECS[self.path.suffix.lower()]
        fourcc = cv2.VideoWriter.fourcc(*codec)
        writer = cv2.VideoWriter(str(self._temporary), cv2.CAP_FFMPEG, fourcc, self.fps, self.size)
        if not writer.isOpened():
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            raise VideoError(
                f"{self.path}: this OpenCV cannot encode {codec} at "
                f"{self.size[0]}x{self.size[1]} and {self.fps:g} frames per second; "
                f"try another suffix ({', '.join(_CODECS)})."
            )
        return writer
