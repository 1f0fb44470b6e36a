"""Drawing of strokes by mouse, with the segmentation after each stroke."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import cv2
import numpy as np

from structboost.segmentation.drawing import draw_segmentation
from structboost.segmentation.image_files import Mask, Photograph
from structboost.segmentation.scribbles import BACKGROUND, OBJECT
from structboost.segmentation.stroke_segmentation import StrokeSegmenter
from structboost.vision.images import Pixels, swapped_channels
from structboost.vision.screen import fitting, has_display

HELP = "left button: object; right: background; u undo; c clear; Enter save; Esc leave"
_COLOURS = {OBJECT: (30, 220, 60), BACKGROUND: (235, 50, 50)}
_WAIT = 20  # milliseconds for events
_ENTER, _RETURN, _ESCAPE = 13, 10, 27

Point = tuple[float, float]


class Event(NamedTuple):
    """Action of the user.

    Attributes
    ----------
    action : {"begin", "move", "end", "undo", "clear", "save", "leave"}
    place : (float, float)
        x and y as fractions of the width and the height.
    value : int
        1 for a stroke on the object, 2 on the background.
    """

    action: str
    place: Point = (0.0, 0.0)
    value: int = OBJECT


class Screen(Protocol):
    """Screen that shows pictures and returns the user's strokes."""

    def show(self, picture: Pixels) -> None:
        """Show a picture."""

    def events(self) -> Iterable[Event]:
        """Return the events since the last call."""


class StrokeSession:
    """Strokes on an image, and the resulting segmentation.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)
        RGB.
    scribbles : ndarray of uint8, shape (height, width), optional
        Strokes to begin with.
    segmenter : StrokeSegmenter, optional
    """

    def __init__(
        self,
        image: Photograph,
        scribbles: Mask | None = None,
        segmenter: StrokeSegmenter | None = None,
    ) -> None:
        self.image = image
        self._segmenter = segmenter or StrokeSegmenter()
        self._prepared = self._segmenter.prepare(image)
        self._start = np.zeros(image.shape[:2], np.uint8) if scribbles is None else scribbles
        self._strokes: list[tuple[int, list[Point]]] = []
        self.mask: Mask | None = None
        """1 on the object, 0 elsewhere; None until there are strokes of both kinds."""
        self.update()

    @property
    def scribbles(self) -> Mask:
        """Mask of all strokes, 1 on the object, 2 on the background and 0 elsewhere."""
        drawn = self._start.copy()
        height, width = drawn.shape
        for value, points in self._strokes:
            corners = np.rint([(x * width - 0.5, y * height - 0.5) for x, y in points])
            cv2.polylines(drawn, [corners.astype(np.int32)], False, value, self._thickness)
        return drawn

    @property
    def picture(self) -> Pixels:
        """The image with its segmentation and the strokes."""
        shown = self.image.copy()
        if self.mask is not None:
            shown = draw_segmentation(self.image, self.mask)
        drawn = self.scribbles
        for value, colour in _COLOURS.items():
            shown[drawn == value] = colour
        return shown

    def draw(self, value: int, points: Sequence[Point]) -> None:
        """Add a stroke through points (fractions of width and height)."""
        self._strokes.append((value, list(points)))

    def undo(self) -> None:
        """Undo the last stroke."""
        if self._strokes:
            self._strokes.pop()

    def clear(self) -> None:
        """Undo all strokes."""
        self._strokes.clear()
        self._start = np.zeros_like(self._start)

    def update(self) -> None:
        """Segment by the strokes, if both kinds exist."""
        drawn = self.scribbles
        has_both = {OBJECT, BACKGROUND} <= set(np.unique(drawn).tolist())
        self.mask = self._segmenter.segment(self._prepared, drawn)[0] if has_both else None

    def run(self, screen: Screen) -> bool:
        """Process the user's events, and return whether to save the result."""
        screen.show(self.picture)
        while True:
            for event in screen.events():
                if event.action in ("save", "leave"):
                    return event.action == "save"
                self._follow(event)
                screen.show(self.picture)

    def _follow(self, event: Event) -> None:
        if event.action == "begin":
            self.draw(event.value, [event.place])
        elif event.action == "move" and self._strokes:
            self._strokes[-1][1].append(event.place)
        elif event.action == "undo":
            self.undo()
        elif event.action == "clear":
            self.clear()
        if event.action in ("end", "undo", "clear"):
            self.update()

    @property
    def _thickness(self) -> int:
        return max(1, round(int(max(self.image.shape[:2])) / 160))


class MouseScreen:
    """Window of OpenCV.

    ValueError if there is no display.
    """

    def __init__(self, title: str) -> None:
        if not has_display():
            raise ValueError(
                "drawing needs a display, and there is none; draw the strokes with another program "
                "(1 on the object, 2 on the background) and give them to predict --scribbles."
            )
        self._title = title
        self._size = (1, 1)
        self._events: list[Event] = []
        self._value = 0  # of the stroke that is being drawn
        cv2.namedWindow(title)
        cv2.setMouseCallback(title, self._mouse)

    def show(self, picture: Pixels) -> None:
        """Show a picture, shrunk to fit the screen."""
        shown = fitting(picture)
        self._size = shown.shape[1], shown.shape[0]
        cv2.imshow(self._title, swapped_channels(shown))

    def events(self) -> list[Event]:
        """Return the events since the last call, with "leave" for a closed window."""
        key = cv2.waitKey(_WAIT) & 0xFF
        actions = {_ENTER: "save", _RETURN: "save", _ESCAPE: "leave", ord("q"): "leave"}
        action = {**actions, ord("u"): "undo", ord("c"): "clear"}.get(key)
        if cv2.getWindowProperty(self._title, cv2.WND_PROP_VISIBLE) < 1:
            action = "leave"
        events, self._events = self._events, []
        return events + ([Event(action)] if action else [])

    def _mouse(self, event: int, x: int, y: int, flags: int, _: object) -> None:
        place = ((x + 0.5) / self._size[0], (y + 0.5) / self._size[1])
        begun = {cv2.EVENT_LBUTTONDOWN: OBJECT, cv2.EVENT_RBUTTONDOWN: BACKGROUND}.get(event)
        if begun:
            self._value = begun
            self._events.append(Event("begin", place, begun))
        elif event == cv2.EVENT_MOUSEMOVE and self._value:
            self._events.append(Event("move", place, self._value))
        elif event in (cv2.EVENT_LBUTTONUP, cv2.EVENT_RBUTTONUP) and self._value:
            self._events.append(Event("end", place, self._value))
            self._value = 0
