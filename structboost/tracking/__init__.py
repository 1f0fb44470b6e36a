"""Tracking of a box through a video: frames in and out, evaluation, pictures and a made clip."""
