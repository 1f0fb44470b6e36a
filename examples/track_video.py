"""Follow an object through a video, from Python.

``python examples/track_video.py VIDEO`` lets you draw the object's box in the first frame, and
writes ``tracked.mp4``; ``VIDEO X,Y,W,H`` needs no window.  The command ``structboost track`` writes
more.
"""

from __future__ import annotations

import argparse

import cv2
import numpy as np

from structboost.tracking import StructBoostTracker, VideoWriter, draw_box, open_frames


def box_of(text: str) -> np.ndarray:
    """Read left, top, width and height, in pixels."""
    box = np.array(text.split(","), float)
    if box.shape != (4,) or not (np.isfinite(box).all() and (box[2:] > 0).all()):
        raise ValueError(text)
    return box


def main(video: str, box: np.ndarray | None) -> None:
    """Track, draw and write."""
    tracker = StructBoostTracker()
    with VideoWriter("tracked.mp4") as writer:
        for index, frame in open_frames(video):
            if index == 0:
                if box is None:
                    box = np.array(cv2.selectROI("draw a box, then Enter", frame[..., ::-1]), float)
                tracker.init(frame, box)
            else:
                box = tracker.update(frame)
            writer.write(
                draw_box(frame, box, "lost" if tracker.lost else f"{tracker.confidence:.2f}")
            )
    spent = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in tracker.seconds.items())
    print(f"{tracker.n_frames} frames in tracked.mp4 ({spent})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Follow an object.")
    parser.add_argument("video", metavar="VIDEO", help="file of a video, or folder of images")
    parser.add_argument("box", nargs="?", type=box_of, metavar="X,Y,W,H", help="in frame 0")
    given = parser.parse_args()
    main(given.video, given.box)
