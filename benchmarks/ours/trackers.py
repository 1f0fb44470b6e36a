"""Trackers on sequences with known boxes: ours, and OpenCV's."""

import ctypes
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from benchmarks.peers.trackers import AdaBoost, Struck
from benchmarks.runner.protocol import timed
from structboost.tracking import BoxTracker, StructBoostTracker, open_frames
from structboost.tracking.metrics import evaluate
from structboost.tracking.tracked_frames import track_frames, warm_up
from structboost.tracking.tracks_file import read_boxes
from structboost.vision.images import as_rgb, swapped_channels

NAMES = ("coke", "tiger1", "girl", "sylv", "couple", "deer", "motorrolling")
FILES = {name: (f"tracking/{name}",) for name in NAMES}


@dataclass(frozen=True)
class Sequence:
    """Frames with the true box of each, NaN where it is unknown."""

    name: str
    folder: Path
    truth: np.ndarray  # shape (n_frames, 4)

    def frames(self):
        """All frames, decoded."""
        with open_frames(self.folder) as source:
            return [image for _, image in source]


def load_sequence(name, data_dir):
    """Read a sequence's boxes from ``tracking/NAME``."""
    folder = data_dir / "tracking" / name
    return Sequence(name, folder, read_boxes(folder / "groundtruth.txt"))


def track(sequence, tracker, seed):
    """Boxes of all frames from the true first one, and what they took; on one thread."""
    frames = sequence.frames()
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        boxes, facts = tracker(frames, sequence.truth[0], seed)
    finally:
        cv2.setNumThreads(threads)
    # Over the frames after the first whose truth is known.
    measures = evaluate(boxes[1:], sequence.truth[1:])
    return {
        **{"boxes": np.round(boxes, 3), **facts, "value": measures.mean_overlap},
        **{"centre_error": measures.mean_centre_error, "success_auc": measures.success_auc},
        "precision_at_20": measures.precision_at_20,
    }


def _by_ours(new_tracker, frames, box, seed):
    tracker = new_tracker(random_state=seed)
    warm_up(tracker)
    tracked = track_frames(tracker, enumerate(frames), box)
    if tracked.interrupted:
        raise KeyboardInterrupt
    updates = tracked.latencies[1:]
    facts = {
        **{"fps": tracked.fps, "seconds": sum(tracked.latencies)},
        **{"init_seconds": tracked.latencies[0], "largest_latency": max(updates)},
        "lost_frames": sum(tracked.lost),
        **{f"{part}_ms": 1000 * spent / len(updates) for part, spent in tracker.seconds.items()},
    }
    return np.array(tracked.boxes), facts


def by_mil(frames, box, seed):
    """Track by MIL, which takes whole pixels, and draws from OpenCV's generator and from C's."""
    cv2.setRNGSeed(seed)
    ctypes.CDLL(None).srand(seed + 1)  # a process begins with srand(1)
    tracker = cv2.TrackerMIL_create()
    pictures = [swapped_channels(as_rgb(frame)) for frame in frames]  # OpenCV's order
    _, init_seconds = timed(tracker.init, pictures[0], tuple(int(v) for v in np.rint(box)))
    boxes, latencies = [np.asarray(box, float)], []
    for picture in pictures[1:]:
        (is_there, place), seconds = timed(tracker.update, picture)
        latencies.append(seconds)
        boxes.append(np.array(place, float) if is_there else boxes[-1])
    seconds = init_seconds + sum(latencies)
    facts = {"fps": len(frames) / seconds, "seconds": seconds, "init_seconds": init_seconds}
    return np.array(boxes), {**facts, "largest_latency": max(latencies)}


OURS, OPENCV_MIL = "structboost", "opencv_mil"  # the CSRT of OpenCV 4 is not in this OpenCV
TRACKERS = {
    OURS: partial(_by_ours, StructBoostTracker),
    "adaboost": partial(_by_ours, lambda **seed: BoxTracker(AdaBoost(), **seed)),
    "struck_50": partial(_by_ours, lambda **seed: BoxTracker(Struck(), **seed)),
    OPENCV_MIL: by_mil,
}
