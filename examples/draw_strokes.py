"""Cut out an object by strokes of the mouse, without training.

``python examples/draw_strokes.py photo.jpg out`` opens a window: the left button marks the object,
the right button the background.  The outline follows each stroke.  u undoes a stroke, Enter saves
``out/photo.png`` and ``out/photo-overlay.png``, Esc leaves.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np

from structboost.segmentation import StrokeSegmenter, draw_segmentation, read_photograph, write_png

TITLE = "left: object; right: background; u: undo; Enter: save; Esc: leave"
BUTTONS = {cv2.EVENT_LBUTTONDOWN: 1, cv2.EVENT_RBUTTONDOWN: 2}
COLOURS = {1: (30, 220, 60), 2: (235, 50, 50)}


class Strokes:
    """Strokes on a photograph, and the mask that follows from them."""

    def __init__(self, image):
        self.image, self.segmenter = image, StrokeSegmenter()
        self.prepared = self.segmenter.prepare(image)
        self.drawn, self.value = [np.zeros(image.shape[:2], np.uint8)], 0
        self.mask = None

    def mouse(self, event, x, y, flags=0, _=None):
        """Follow the mouse, as a callback of OpenCV."""
        if event in BUTTONS:
            self.value, self.place = BUTTONS[event], (x, y)
            self.drawn.append(self.drawn[-1].copy())
        if self.value:
            cv2.line(self.drawn[-1], self.place, (x, y), self.value, 5)
            self.place = x, y
        if event in (cv2.EVENT_LBUTTONUP, cv2.EVENT_RBUTTONUP):
            self.value = 0
            self.update()

    def undo(self):
        """Take the last stroke away."""
        del self.drawn[max(len(self.drawn) - 1, 1) :]
        self.update()

    def update(self):
        """Segment, if there are strokes of both kinds."""
        has_both = {1, 2} <= set(np.unique(self.drawn[-1]).tolist())
        self.mask = self.segmenter.segment(self.prepared, self.drawn[-1]) if has_both else None

    def picture(self):
        """Draw the outline and the strokes on the photograph."""
        image = self.image if self.mask is None else draw_segmentation(self.image, self.mask)
        shown = image.copy()
        for value, colour in COLOURS.items():
            shown[self.drawn[-1] == value] = colour
        return shown


def main(photograph: str, folder: str) -> None:
    """Show the window, and write the files."""
    image = read_photograph(photograph)
    strokes = Strokes(image)
    cv2.namedWindow(TITLE, cv2.WINDOW_AUTOSIZE)
    cv2.setMouseCallback(TITLE, strokes.mouse)
    while (key := cv2.waitKey(20) & 0xFF) != 27:
        cv2.imshow(TITLE, strokes.picture()[:, :, ::-1])
        if key == ord("u"):
            strokes.undo()
        if key in (10, 13) and strokes.mask is not None:
            mask = strokes.segmenter.predict(image, strokes.drawn[-1])
            stem = Path(folder) / Path(photograph).stem
            stem.parent.mkdir(parents=True, exist_ok=True)
            write_png(f"{stem}.png", mask * np.uint8(255))
            write_png(f"{stem}-overlay.png", draw_segmentation(image, mask))
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photograph")
    parser.add_argument("folder", help="where the mask and the overlay are written")
    main(**vars(parser.parse_args()))
