"""OpenCV's MIL tracker; the CSRT of OpenCV 4 is not in this OpenCV."""

from typing import Any

import cv2
import numpy as np

from benchmarks.runner.protocol import timed
from structboost.vision.images import as_rgb, swapped_channels

OPENCV_MIL = "opencv_mil"


def track_by_mil(
    method: str, frames: list[np.ndarray], box: np.ndarray, seed: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Boxes and times; MIL takes whole pixels and draws from OpenCV's own generator."""
    cv2.setRNGSeed(seed)
    tracker = cv2.TrackerMIL_create()
    pictures = [swapped_channels(as_rgb(frame)) for frame in frames]  # OpenCV's order
    start = tuple(int(v) for v in np.rint(box))
    _, init_seconds = timed(tracker.init, pictures[0], start)
    boxes, latencies = [np.asarray(box, float)], []
    for picture in pictures[1:]:
        (found, place), seconds = timed(tracker.update, picture)
        latencies.append(seconds)
        boxes.append(np.array(place, float) if found else boxes[-1])
    seconds = init_seconds + sum(latencies)
    facts = {"fps": len(frames) / seconds, "seconds": seconds, "init_seconds": init_seconds}
    return np.array(boxes), {**facts, "largest_latency": max(latencies)}
