"""Trackers that follow a box through a video, with their input, output and evaluation."""

from structboost.runtime.registry import require

require("vision", __name__)

from structboost.tracking.box_tracker import BoxLearner, BoxScorer, BoxTracker, StructBoostTracker
from structboost.tracking.tracks import (
    TrackedFrames,
    TrackingMeasures,
    evaluate,
    read_boxes,
    track_objects,
)
from structboost.tracking.video import VideoError, VideoWriter, open_frames
from structboost.vision.drawing import draw_box

__all__ = [
    "BoxLearner",
    "BoxScorer",
    "BoxTracker",
    "StructBoostTracker",
    "TrackedFrames",
    "TrackingMeasures",
    "VideoError",
    "VideoWriter",
    "draw_box",
    "evaluate",
    "open_frames",
    "read_boxes",
    "track_objects",
]
