"""Tracking a box through a video: the trackers, frames in and out, features, evaluation, drawing."""

from structboost.tracking.structboost_tracker import StructBoostTracker

__all__ = ["StructBoostTracker"]
