"""Follow an object through a video, from Python.

``python examples/track_video.py VIDEO X,Y,W,H`` writes ``tracked.mp4``; without arguments a made
clip is tracked. The command ``structboost track`` does the same and writes more.
"""

from __future__ import annotations

import sys

import numpy as np

from structboost.tracking import (
    StructBoostTracker,
    VideoWriter,
    draw_box,
    make_synthetic_clip,
    open_frames,
)


def main(arguments: list[str]) -> None:
    """Track, draw and write."""
    if arguments:
        source, box = open_frames(arguments[0]), np.array(arguments[1].split(","), float)
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
    main(sys.argv[1:])
