"""Frames out: a video file that appears whole, or with what was written when something interrupted."""

from __future__ import annotations

import contextlib
import os
import uuid
from os import PathLike
from pathlib import Path
from typing import Any, Self

import cv2

from structboost.tracking.frame_image import FrameImage, checked_image, letter_boxed
from structboost.tracking.video_error import VideoError
from structboost.validation import checked_positive

# By suffix, what the wheels of OpenCV encode everywhere; H.264 is in few of them.
_CODECS = {".mp4": "mp4v", ".m4v": "mp4v", ".mov": "mp4v", ".mkv": "mp4v", ".avi": "MJPG", ".webm": "VP80"}


class VideoWriter:
    """Writes frames into a video file.

    The frames go into a hidden file in the same folder; :meth:`close` gives it its name.  Leaving the ``with`` block
    by an exception does so too: what was written by then is kept.

    Parameters
    ----------
    path : str or path
        Its suffix sets the format: .mp4, .m4v, .mov, .mkv (MPEG-4), .avi (Motion JPEG) or .webm (VP8).
    fps : float, default=25
        Frames a second.

    Attributes
    ----------
    n_frames : int
        Frames written.
    size : tuple of int or None
        (width, height) of the video, pixels; None before the first frame, whose size it is (made even, as the codecs
        need).  Frames of other sizes are scaled to fit, with black margins.

    Raises
    ------
    VideoError
        If the suffix is not one of these, the folder is missing or read-only, or there is no encoder.
    """

    def __init__(self, path: str | PathLike[str], *, fps: float = 25.0) -> None:
        self.path = Path(path)
        self.fps = checked_positive(fps, "fps")
        self.n_frames = 0
        self.size: tuple[int, int] | None = None
        self._writer: cv2.VideoWriter | None = None
        # FFMPEG takes the format from the suffix, so the hidden name keeps it.
        self._temporary = self.path.with_name(f".{self.path.stem}.{uuid.uuid4().hex[:8]}{self.path.suffix}")
        # All of this before the first frame: hours of tracking must not fail at the end.
        if self.path.suffix.lower() not in _CODECS:
            raise VideoError(f"{self.path} has the suffix {self.path.suffix!r}; choose one of {', '.join(_CODECS)}.")
        if self.path.is_dir():
            raise VideoError(f"{self.path} is a folder; give the name of a file.")
        if not os.access(self.path.parent, os.W_OK):
            raise VideoError(f"{self.path.parent} is not a folder one can write to; make it, or choose another.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, image: Any) -> None:
        """Append a frame.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width) or (height, width, 3)
            Grey or BGR.

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
        self._writer.write(letter_boxed(frame, self.size).image)
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
        complete = _is_readable(self._temporary)
        os.replace(self._temporary, self.path)
        if not complete:
            raise VideoError(
                f"{self.path} cannot be read back after {self.n_frames} frames; is the disk full? Make room, try again."
            )

    def _opened(self, frame: FrameImage) -> cv2.VideoWriter:
        height, width = frame.shape[:2]
        self.size = (width + width % 2, height + height % 2)
        codec = _CODECS[self.path.suffix.lower()]
        fourcc = cv2.VideoWriter.fourcc(*codec)
        writer = cv2.VideoWriter(str(self._temporary), cv2.CAP_FFMPEG, fourcc, self.fps, self.size)
        if not writer.isOpened():
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            raise VideoError(
                f"{self.path}: this OpenCV cannot encode {codec} at {self.size[0]}x{self.size[1]} and {self.fps:g} "
                f"frames a second; try another suffix ({', '.join(_CODECS)})."
            )
        return writer


def _is_readable(path: Path) -> bool:
    """Whether a video opens; the writer of OpenCV tells nobody when the disk is full."""
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    opened = capture.isOpened()
    capture.release()
    return opened
