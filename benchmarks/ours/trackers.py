"""Trackers on sequences with known boxes: ours, and OpenCV's."""

import ctypes
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.runner.protocol import timed
from benchmarks.runner.units import Result
from structboost.tracking import AdaBoostTracker, StruckTracker, StructBoostTracker, open_frames
from structboost.tracking.boxes_file import read_boxes
from structboost.tracking.metrics import evaluate
from structboost.tracking.tracked_frames import track_frames, warm_up
from structboost.vision.images import as_rgb, swapped_channels

TRACKERS: dict[str, type] = {
    "structboost": StructBoostTracker,
    "adaboost": AdaBoostTracker,
    "struck_50": StruckTracker,
}
OPENCV_MIL = "opencv_mil"  # the CSRT of OpenCV 4 is not in this OpenCV
METHODS = (*TRACKERS, OPENCV_MIL)


@dataclass(frozen=True, eq=False)
class Sequence:
    """Frames with the true box of each, NaN where it is unknown."""

    name: str
    folder: Path
    truth: np.ndarray  # shape (n_frames, 4)
    truth_mil: np.ndarray | None  # the MIL set's own

    @cached_property
    def content(self) -> str:
        """Hash of the frames and boxes: results of other data are never taken for this one's."""
        digest = hashlib.sha256()
        for file in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            if file.name != "info.json":
                digest.update(file.name.encode())
                digest.update(file.read_bytes())
        return digest.hexdigest()[:16]

    def frames(self) -> list[np.ndarray]:
        """All frames, decoded."""
        with open_frames(self.folder) as source:
            return [image for _, image in source]


def load_sequence(name: str, data_dir: Path) -> Sequence:
    """Read a sequence's boxes from ``tracking/NAME``."""
    folder = Path(data_dir) / "tracking" / name
    files = [folder / "groundtruth.txt", folder / "groundtruth_mil.txt"]
    if not files[0].is_file():
        raise FileNotFoundError(
            f"{folder} has no groundtruth.txt; --data must name a directory that has "
            f"tracking/{name}."
        )
    truth, mil = (read_boxes(file) if file.is_file() else None for file in files)
    return Sequence(name, folder, truth, mil)


def track(sequence: Sequence, method: str, seed: int) -> Result:
    """Boxes of all frames from the true first one, and what they took; on one thread."""
    frames = sequence.frames()
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        with threadpool_limits(1):
            run = track_by_mil if method == OPENCV_MIL else _track_by_ours
            boxes, facts = run(method, frames, sequence.truth[0], seed)
    finally:
        cv2.setNumThreads(threads)
    return {"boxes": np.round(boxes, 3), **facts, **_measured(sequence, boxes)}


def _track_by_ours(
    method: str, frames: list[np.ndarray], box: np.ndarray, seed: int
) -> tuple[np.ndarray, Result]:
    tracker: Any = TRACKERS[method](random_state=seed)
    warm_up(tracker)
    tracked = track_frames(tracker, enumerate(frames), box)
    if tracked.interrupted:
        raise KeyboardInterrupt
    updates = tracked.latencies[1:]
    facts = {
        "fps": tracked.fps,
        "seconds": sum(tracked.latencies),
        "init_seconds": tracked.latencies[0],
        "largest_latency": max(updates),
        "lost_frames": sum(tracked.lost),
        **{f"{part}_ms": 1000 * spent / len(updates) for part, spent in tracker.seconds.items()},
    }
    return np.array(tracked.boxes), facts


def track_by_mil(
    method: str, frames: list[np.ndarray], box: np.ndarray, seed: int
) -> tuple[np.ndarray, Result]:
    """MIL takes whole pixels, and draws from OpenCV's own generator and from C's."""
    cv2.setRNGSeed(seed)
    ctypes.CDLL(None).srand(seed + 1)  # a process begins with srand(1)
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


def _measured(sequence: Sequence, boxes: np.ndarray) -> Result:
    """Over the frames after the first whose truth is known."""
    measures = evaluate(boxes[1:], sequence.truth[1:])
    truth = sequence.truth_mil
    mil = None if truth is None else evaluate(boxes[1:], truth[1:])
    return {
        "value": measures.mean_overlap,
        "centre_error": measures.mean_centre_error,
        "success_auc": measures.success_auc,
        "precision_at_20": measures.precision_at_20,
        "overlap_mil": None if mil is None else mil.mean_overlap,
        "centre_error_mil": None if mil is None else mil.mean_centre_error,
    }
