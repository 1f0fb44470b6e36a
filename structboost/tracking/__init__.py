"""Tracking a box through a video: the trackers, frames in and out, features, evaluation, drawing."""

from structboost.tracking.adaboost_tracker import AdaBoostTracker
from structboost.tracking.struck_tracker import StruckTracker
from structboost.tracking.structboost_tracker import StructBoostTracker
from structboost.tracking.tracked_frames import TrackedFrames, track_frames
from structboost.tracking.video import open_frames

__all__ = [
    "AdaBoostTracker",
    "StruckTracker",
    "StructBoostTracker",
    "TrackedFrames",
    "open_frames",
    "track_frames",
]
