"""Windows in which a box is drawn by mouse and tracked frames are shown."""

from __future__ import annotations

from typing import Self

import cv2
import numpy as np

from structboost._typing import FloatArray
from structboost.vision.images import Pixels, swapped_channels
from structboost.vision.screen import fitting, has_display

_ESCAPE = 27


class Window:
    """Window that shows frames, shrunk to fit the screen, until the user closes it.

    Parameters
    ----------
    title : str
        Title; Esc, q and the button of the window close it.

    Raises
    ------
    ValueError
        If there is no display.
    """

    def __init__(self, title: str) -> None:
        if not has_display():
            raise ValueError("--show needs a display, and there is none; use --out instead.")
        self.title = title
        self.is_closed = False
        self._is_open = False

    def show(self, image: Pixels) -> None:
        """Show a frame, and set ``is_closed`` where the user closed the window."""
        if self.is_closed:
            return
        try:
            cv2.imshow(self.title, swapped_channels(fitting(image)))
            pressed = cv2.waitKey(1) & 0xFF
            visible = cv2.getWindowProperty(self.title, cv2.WND_PROP_VISIBLE) >= 1
        except cv2.error as error:
            raise ValueError(
                f"--show cannot open a window ({str(error).strip()}); use --out instead."
            ) from error
        self._is_open = True
        self.is_closed = pressed in (_ESCAPE, ord("q")) or not visible

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the window."""
        if self._is_open and cv2.getWindowProperty(self.title, cv2.WND_PROP_VISIBLE) >= 1:
            cv2.destroyWindow(self.title)
        self._is_open = False


def box_drawn_by_mouse(image: Pixels) -> FloatArray:
    """Return the box x, y, width, height that the user draws, in pixels of the image.

    ValueError if there is no display, or no box was drawn; the message names the option.
    """
    reason = "there is no display to draw it on"
    if has_display():
        title = "Draw the object's box, then press Enter"
        shown = fitting(image)
        try:
            selected = cv2.selectROI(title, swapped_channels(shown), showCrosshair=False)
            cv2.destroyWindow(title)
        except cv2.error as error:
            reason = f"it cannot be drawn ({str(error).strip()})"
        else:
            box = np.array(selected, np.float64)
            if box[2:].min() > 0:
                scale = np.array(image.shape[1::-1]) / shown.shape[1::-1]
                return np.asarray(np.round(box * np.tile(scale, 2), 1), np.float64)
            reason = "no box was drawn"
    raise ValueError(f"There is no box, and {reason}; give --box x,y,w,h.")
