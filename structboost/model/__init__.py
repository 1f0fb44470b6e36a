"""Trained models, with their scores, contributions and files."""
