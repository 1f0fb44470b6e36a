"""What windows on a screen need."""

from __future__ import annotations

import os
import sys

from structboost.vision.images import Pixels, resized

# Pictures are shrunk to fit: screens are rarely smaller, and OpenCV does not tell their size.
_LARGEST = (1280, 680)


def has_display() -> bool:
    """Whether windows can be opened: without a display Qt ends the process instead of raising."""
    shown = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return shown or not sys.platform.startswith("linux")


def fitting(image: Pixels) -> Pixels:
    """The image, shrunk to the largest window."""
    height, width = image.shape[:2]
    scale = min(1.0, _LARGEST[0] / width, _LARGEST[1] / height)
    return resized(image, (max(1, round(scale * width)), max(1, round(scale * height))))
