"""Trackers that follow a box through a video, with their input, output and evaluation."""

from structboost.runtime.registry import require

require("vision", __name__)

from structboost.tracking.box_tracker import BoxLearner, BoxScorer, BoxTracker, StructBoostTracker
from structboost.tracking.drawing import contact_sheet, draw_box
from structboost.tracking.synthetic_clip import make_synthetic_clip
from structboost.tracking.tracks import (
    TrackedFrames,
    TrackingMeasures,
    evaluate,
    read_boxes,
    track_frames,
    track_objects,
    write_boxes,
)
from structboost.tracking.video import VideoError, VideoWriter, open_frames

__all__ = [
    "BoxLearner",
    "BoxScorer",
    "BoxTracker",
    "StructBoostTracker",
    "TrackedFrames",
    "TrackingMeasures",
    "VideoError",
    "VideoWriter",
    "contact_sheet",
    "draw_box",
    "evaluate",
    "make_synthetic_clip",
    "open_frames",
    "read_boxes",
    "track_frames",
    "track_objects",
    "write_boxes",
]
