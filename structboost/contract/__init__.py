"""Contract of a task, and checks of its results."""
