"""Display and size of windows on a screen."""

from __future__ import annotations

import os
import sys

from structboost.vision.images import Pixels, resized

# Pictures are shrunk to this size: screens are rarely smaller, and OpenCV cannot measure them.
_LARGEST = (1280, 680)


def has_display() -> bool:
    """Whether windows can be opened.

    Without a display Qt ends the process instead of raising an error.
    """
    shown = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return shown or not sys.platform.startswith("linux")


def fitting(image: Pixels) -> Pixels:
    """Shrink the image to the largest window."""
    height, width = image.shape[:2]
    scale = min(1.0, _LARGEST[0] / width, _LARGEST[1] / height)
    return resized(image, (max(1, round(scale * width)), max(1, round(scale * height))))
