"""Tracking an object through a video."""
