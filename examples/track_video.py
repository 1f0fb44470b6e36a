"""Follow an object through a video, from Python.

``python examples/track_video.py VIDEO X,Y,W,H`` writes ``tracked.mp4``; without arguments a
synthetic clip is tracked. The command ``structboost track`` does the same and writes more.
"""

from __future__ import annotations

import argparse

import numpy as np

from structboost.tracking import (
    StructBoostTracker,
    VideoWriter,
    draw_box,
    make_synthetic_clip,
    open_frames,
)


def box_of(text: str) -> np.ndarray:
    """Read left, top, width and height, in pixels."""
    box = np.array(text.split(","), float)
    if box.shape != (4,) or not (np.isfinite(box).all() and (box[2:] > 0).all()):
        raise ValueError(text)
    return box


def main(video: str | None, box: np.ndarray | None) -> None:
    """Track, draw and write."""
    if video is not None:
        source = open_frames(video)
    else:
        clip = make_synthetic_clip()
        source, box = enumerate(clip.frames), clip.boxes[0]

    tracker = StructBoostTracker()
    with VideoWriter("tracked.mp4") as writer:
        for number, frame in source:
            if number == 0:
                tracker.init(frame, box)
            else:
                box = tracker.update(frame)
            writer.write(
                draw_box(frame, box, "lost" if tracker.lost else f"{tracker.confidence:.2f}")
            )
    spent = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in tracker.seconds.items())
    print(f"{tracker.n_frames} frames in tracked.mp4 ({spent})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Follow an object; without VIDEO, in a clip.")
    parser.add_argument("video", nargs="?", metavar="VIDEO", help="file of a video")
    parser.add_argument("box", nargs="?", type=box_of, metavar="X,Y,W,H", help="in frame 0")
    given = parser.parse_args()
    if given.video is not None and given.box is None:
        parser.error("VIDEO needs the box of the object in its first frame, X,Y,W,H")
    main(given.video, given.box)
