"""Checks of a task against its contract."""
